"""The book's models beside the simulation: section 3.2, for any setting of the `incast` scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.models import incast
from penstock.models.incast import Measured
from penstock.runs import Run, RunSet
from penstock.stats import ci95, mean

Floats = NDArray[np.float64]

#: Table 3.1: 1 KB segments on 1 Gb/s links. On the wire each has its TCP/IP header of 40 B too.
SEGMENT_BITS_ON_WIRE = 8 * 1040
LINK_BPS = 1e9
#: Table 3.1; T_0 of a run without a timeout.
RTO_MIN_S = 0.2

#: Summary keys that `derive` adds; the rest of the name is the field of `Measured`.
PREFIX = "model_"
FIELDS = ("n", "p_c", "p_r", "j", "delta", "iota", "rtt", "t0", "blocks", "packets")


def loss_indications(events: pl.DataFrame) -> dict[str, NDArray[Any]]:
    """Fast retransmits and timeouts of a run in the columns `penstock.models.incast.measure` reads."""
    # The loss of a SYN is not one of the models' losses.
    losses = events.filter(
        (pl.col("what") == "fast retransmit")
        | (pl.col("what").str.starts_with("timeout") & (pl.col("what") != "timeout: syn"))
    )
    return {
        "time_s": losses["time_s"].to_numpy(),
        "flow": losses["flow"].to_numpy(),
        "rto_s": losses["rto_s"].to_numpy(),
        "in_a_row": losses["in_a_row"].to_numpy(),
        "block_start": losses["block_start"].to_numpy(),
    }


def derive(run: Run) -> Mapping[str, float]:
    """The models' inputs of one run, from its flows and events; to be kept with the summary."""
    flows = run.tables["flows"].sort("flow")
    sent, rtt = flows["packets_sent"].to_numpy(), flows["rtt_mean_s"].to_numpy()
    measured = incast.measure(
        loss_indications(run.tables["events"]),
        sent,
        # The block that the end of the run cut short was begun too.
        blocks=int(run.summary["blocks"]) + 1,
        rtt=float(np.average(rtt, weights=sent)),
        t0=RTO_MIN_S,
    )
    return {PREFIX + key: float(getattr(measured, key)) for key in FIELDS}


def inputs(runs: RunSet) -> Measured:
    """The models' inputs of one point: each the mean over the runs (section 3.2)."""
    found = {key: mean(runs.values(PREFIX + key)) for key in FIELDS}
    n, blocks, packets = (round(found.pop(key)) for key in ("n", "blocks", "packets"))
    return Measured(n=n, blocks=blocks, packets=packets, **found)


@dataclass(frozen=True)
class Point:
    """What the models are given at one number of servers; `sru` and `window` in segments."""

    measured: Measured
    sru: float
    window: float

    def book(self, function: Callable[..., Any], *, length: float | None = None) -> float:
        """A model of the book that knows timeouts; L is the whole block unless said otherwise."""
        m = self.measured
        return float(function(m.n, m.p_c, m.p_r, m.delta, m.rtt, m.t0, length or m.n * self.sru))


def _td_only(p: Point) -> float:
    m = p.measured
    return float(incast.td_only(m.n, m.p_c, m.p_r, m.rtt))


def _ibtt_only(p: Point) -> float:
    m = p.measured
    return float(incast.ibtt_only(m.n, m.p_c, m.p_r, m.rtt, m.t0))


def _padhye(p: Point) -> float:
    m = p.measured
    return float(incast.padhye_times_n(m.n, m.p_r, m.rtt, m.t0, window_max=p.window))


def _slowest(p: Point) -> float:
    m = p.measured
    losses = (m.p_c, m.p_r, m.delta, m.iota)
    capacity = LINK_BPS / SEGMENT_BITS_ON_WIRE
    return float(
        incast.slowest_sender(m.n, p.sru, *losses, m.rtt, m.t0, capacity=capacity, window_max=p.window)
    )


#: Label of each model -> packets per second at a point.
MODELS: dict[str, Callable[[Point], float]] = {
    "full model (3.39)": lambda p: p.book(incast.full),
    "full model, L of one server": lambda p: p.book(incast.full, length=p.sru),
    "split model (3.40)": lambda p: p.book(incast.split),
    "TD-only model (3.21)": _td_only,
    "IBTT only": _ibtt_only,
    "ABTT only": lambda p: p.book(incast.abtt_only),
    "n × (Padhye et al.)": _padhye,
    "slowest sender (penstock)": _slowest,
}
FULL, FULL_PER_SERVER, SPLIT, TD_ONLY, IBTT_ONLY, ABTT_ONLY, PADHYE, SLOWEST = MODELS


@dataclass(frozen=True)
class Beside:
    """Simulated throughput over the number of servers, and what the models say with the inputs seen there."""

    servers: NDArray[np.int64]
    sets: Sequence[RunSet]
    points: Sequence[Point]

    @classmethod
    def of(cls, servers: Sequence[int], sets: Sequence[RunSet], *, sru: int, window: int) -> Beside:
        """From runs whose summaries have what `derive` adds."""
        points = [Point(inputs(runs), sru, window) for runs in sets]
        return cls(np.array(servers), sets, points)

    @property
    def throughput(self) -> Floats:
        """Packets per second sent by all servers (the book's B counts them whatever their fate)."""
        return np.array([mean(_rates(runs)) for runs in self.sets])

    @property
    def half(self) -> Floats:
        """95 % half-width of that mean."""
        return np.array([ci95(_rates(runs)) for runs in self.sets])

    def measured(self, key: str) -> Floats:
        """A field of `Measured` over the number of servers."""
        return np.array([getattr(p.measured, key) for p in self.points], dtype=float)

    def model(self, label: str) -> Floats:
        """Packets per second by a model of `MODELS`; infinite where the book's have no limit (no loss)."""
        return np.array([MODELS[label](p) for p in self.points])

    def ratio(self, label: str, where: NDArray[np.bool_] | None = None) -> Floats:
        """Model over simulation, at the points `where` and with loss."""
        use = self.measured("p_c") > 0
        if where is not None:
            use &= where
        return self.model(label)[use] / self.throughput[use]

    def factor(self, label: str, where: NDArray[np.bool_] | None = None) -> float:
        """How far a model is typically off: exp of the mean |ln(model / simulation)|."""
        return float(np.exp(np.abs(np.log(self.ratio(label, where))).mean()))


def _rates(runs: RunSet) -> Floats:
    return runs.values("packets_sent") / runs.values("measured_s")
