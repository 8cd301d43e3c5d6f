"""What the rows of this paper share: protocols as the sections set them, series as arrays, and figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import NDArray

from penstock.figures import line
from penstock.runs import RunSet

Array = NDArray[np.float64]

# Constants of PIQI-RCP's senders: sections IV and V (choices.toml) and section VI (stated).
TAU = (0.05, 0.88)
TAU_LINUX = (0.01, 0.1)
INTERVAL = 0.01
MBPS = 1e6


def qi(eta: float, extra: str = "") -> str:
    """QI-RCP with kappa = eta times bound (6)."""
    return f"qi-rcp:eta={eta}{extra}"


def piqi(eta: float, extra: str = "", tau: tuple[float, float] = TAU) -> str:
    """PIQI-RCP with kappa = eta times bound (20)."""
    return f"piqi-rcp:eta={eta},tau1={tau[0]},tau2={tau[1]}{extra}"


# Section V: "kappa = 0.95 of the simple bound"; section VI: kappa = kappa*, alpha = 0.1.
PIQI_V = piqi(0.95, ",bound=simple")
PIQI_VI = piqi(1.0, ",bound=simple", TAU_LINUX)
RCP_VI = "rcp:alpha=0.1"


def series(runs: RunSet, entity: str, number: int, metric: str) -> tuple[Array, Array]:
    """Times in seconds and values of one sampled quantity, as arrays of equal length."""
    table = runs.series.filter(
        (pl.col("entity") == entity) & (pl.col("number") == number) & (pl.col("metric") == metric)
    )
    return table["time_s"].to_numpy(), table["value"].to_numpy()


def ports(runs: RunSet) -> list[int]:
    """Numbers of the sampled ports, in order of first appearance."""
    table = runs.series.filter(pl.col("entity") == "port")
    return table["number"].unique(maintain_order=True).to_list()


def flow_rates(runs: RunSet, flow: int) -> tuple[Array, Array]:
    """Times and throughput in bit/s of one flow between samples, from what was acknowledged."""
    t, acked = series(runs, "flow", flow, "acked_bytes")
    return t[1:], np.diff(acked) * 8 / np.diff(t)


def oscillation(values: Array) -> float:
    """Half the peak-to-peak range relative to the mean."""
    return float((values.max() - values.min()) / (2 * values.mean()))


def tail(t: Array, values: Array, since: float) -> Array:
    """The values from time `since` on."""
    return values[t >= since]


def fair_rate(runs: RunSet, port: int | None = None, metric: str = "fair_rate_bps") -> tuple[Array, Array]:
    """Times and announced rate, in bit/s, of a sampled port (default: the first)."""
    return series(runs, "port", ports(runs)[0] if port is None else port, metric)


def draw_flows(ax: Axes, runs: RunSet, flows: Sequence[int], names: Sequence[str], title: str) -> None:
    """Sending rates over time: seconds and Mb/s."""
    for i, (flow, name) in enumerate(zip(flows, names, strict=True)):
        t, rate = flow_rates(runs, flow)
        ax.plot(t, rate / MBPS, label=name, **line(i))
    ax.set(xlabel="time (s)", ylabel="rate (Mb/s)", title=title)
    ax.legend(loc="best")
