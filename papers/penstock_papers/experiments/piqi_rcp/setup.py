"""The paper's protocols at its choices, sampled series as arrays, and figures of rates over time."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from penstock import figures
from penstock.models import rcp_stability as rs
from penstock.runs import RunSet
from penstock_papers.ledger import Lab

Array = NDArray[np.float64]

PAPER = "piqi-rcp"
CHOICES: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "choices.toml").read_text())
# Every choice by its full name, as the search names them: "senders.tau1".
CHOSEN: dict[str, Any] = {
    f"{table}.{key}": entry["value"] for table, entries in CHOICES.items() for key, entry in entries.items()
}

INTERVAL = 0.01
MBPS = 1e6
# Payload over wire length of a full packet: rates on the wire from what was acknowledged.
WIRE = 1000 / 944
# "Stable": the announced rate moves by less than this share of itself (half of its range) in the last tenth
# of a run.
STEADY = 0.01
# What the paper calls about, around or nearly; what it prints without such a word; its testbed's numbers.
ABOUT, EXACT, TESTBED = 0.20, 0.10, 0.25

#: What the claims depend on: of senders, of routers that know eq. (6) or (20), of RCP's.
SENDERS = ("senders.tau1", "senders.tau2")
ROUTERS = ("routers.lag", "routers.gamma")
START = ("routers.initial", "routers.floor")
RCP = ("routers.mean_rtt", "routers.rtt_average", *START)


def at(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every choice at a point of the search."""
    return {**CHOSEN, **settings}


def _spec(name: str, chosen: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    start = {"initial": chosen["routers.initial"], "floor": chosen["routers.floor"]}
    return f"{name}:" + ",".join(f"{key}={value}" for key, value in {**start, **given}.items())


def rcp(chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> str:
    """RCP at these choices; `more` replaces parameters."""
    given = {"mean": chosen["routers.mean_rtt"], "rtt_average": chosen["routers.rtt_average"]}
    return _spec("rcp", chosen, given | more)


def qi(eta: float, chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> str:
    """QI-RCP with kappa = eta times bound (6)."""
    given = {"eta": eta, "lag": chosen["routers.lag"], "gamma": chosen["routers.gamma"]}
    return _spec("qi-rcp", chosen, given | more)


def piqi(eta: float, chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> str:
    """PIQI-RCP with kappa = eta times bound (20); `bound="simple"`: times (35)."""
    given = {
        "eta": eta,
        "lag": chosen["routers.lag"],
        "gamma": chosen["routers.gamma"],
        "tau1": chosen["senders.tau1"],
        "tau2": chosen["senders.tau2"],
    }
    return _spec("piqi-rcp", chosen, given | more)


def simple(chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> str:
    """Section V's: kappa = 0.95 times (35)."""
    return piqi(0.95, chosen, **{"bound": "simple", **more})


def rcp_linux(chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> str:
    """Section VI's RCP."""
    return rcp(chosen, **{"alpha": chosen["section6.alpha"], **more})


def piqi_linux(chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> str:
    """Section VI's PIQI-RCP: kappa = kappa*, stated senders and gamma."""
    tau1, tau2 = chosen["section6.tau"]
    given = {"bound": chosen["section6.bound"], "tau1": tau1, "tau2": tau2, "gamma": 0.95, "lag": 0}
    return piqi(1.0, chosen, **{**given, **more})


def exact_limit(
    rtts: Sequence[float], taus: tuple[float, float] | None, lag: float, interval: float = INTERVAL
) -> float:
    """Exact limit of the linear loop for these round trips (s), relative to bound (6) or, with the senders'
    constants, (20), for the largest of them; `lag` as in choices.toml.

    The loop is the simulator's: a rate shows one interval after the round trip.
    """
    d = rs.loop_delay(np.array(rtts), interval)
    largest = max(1.0, max(rtts) / interval + lag)
    if taus is None:
        return rs.critical_kappa(d) / float(rs.qi_bound(largest))
    return rs.critical_kappa(d, tau1=taus[0], tau2=taus[1]) / float(rs.piqi_bound(largest))


def taus(chosen: Mapping[str, Any] = CHOSEN) -> tuple[float, float]:
    """The senders' constants of sections IV and V."""
    return float(chosen["senders.tau1"]), float(chosen["senders.tau2"])


def seconds(text: str) -> float:
    """A time such as "120ms" or "2s" in seconds."""
    number, factor = (text[:-2], 1e-3) if text.endswith("ms") else (text[:-1], 1.0)
    return float(number) * factor


# ---- what was sampled -------------------------------------------------------------------------------------


def series(runs: RunSet, entity: str, number: int, metric: str, run: int = 0) -> tuple[Array, Array]:
    """Times in seconds and values of one sampled quantity, as arrays of equal length."""
    table = runs.tables(run)["series"].filter(
        (pl.col("entity") == entity) & (pl.col("number") == number) & (pl.col("metric") == metric)
    )
    return table["time_s"].to_numpy(), table["value"].to_numpy()


def ports(runs: RunSet, run: int = 0) -> list[int]:
    """Numbers of the sampled ports, in order of first appearance."""
    table = runs.tables(run)["series"].filter(pl.col("entity") == "port")
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


def sampled(
    runs: RunSet, metric: str = "fair_rate_bps", port: int | None = None, run: int = 0
) -> tuple[Array, Array]:
    """Times and values of what a router reports (default: the first, its announced rate in bit/s)."""
    return series(runs, "port", ports(runs, run)[0] if port is None else port, metric, run)


def settled(runs: RunSet, port: int | None = None) -> float:
    """Oscillation of a router's announced rate over the last tenth of a run."""
    t, rate = sampled(runs, port=port)
    return oscillation(tail(t, rate, 0.9 * t[-1]))


def thinned(t: Array, y: Array, points: int = 500) -> dict[str, list[float]]:
    """A series fit for a figure: means over equal numbers of samples."""
    step = max(1, len(t) // points)
    whole = len(t) // step * step
    return {
        "t": t[:whole].reshape(-1, step).mean(axis=1).tolist(),
        "y": y[:whole].reshape(-1, step).mean(axis=1).tolist(),
    }


def traces(runs: RunSet, flows: Sequence[int]) -> dict[str, dict[str, list[float]]]:
    """Rates of some flows in Mb/s over time."""
    found = {}
    for flow in flows:
        t, rate = flow_rates(runs, flow)
        found[f"x{flow + 1}"] = thinned(t, rate / MBPS)
    return found


def over_time(
    lab: Lab,
    name: str,
    drawn: Mapping[str, Mapping[str, ArrayLike]],
    title: str,
    ylabel: str = "rate (Mb/s)",
    stated: Mapping[str, float] | None = None,
    **axes: Any,
) -> Path:
    """A figure of curves over time; `stated` are the paper's own numbers, as levels."""
    with figures.style():
        fig, (ax,) = figures.new()
        for i, (label, curve) in enumerate(drawn.items()):
            ax.plot(np.asarray(curve["t"]), np.asarray(curve["y"]), label=label, **figures.line(i))
        for i, (label, level) in enumerate((stated or {}).items()):
            dashes = ("--", ":")[i % 2]
            ax.axhline(level, color=figures.INK, linewidth=1, linestyle=dashes, label=f"stated: {label}")
        ax.set(xlabel="time (s)", ylabel=ylabel, title=title, **axes)
        if stated:
            ax.margins(y=0.12)
        if len(drawn) > 1 or stated:
            ax.legend(loc="best")
        return lab.save(fig, name)
