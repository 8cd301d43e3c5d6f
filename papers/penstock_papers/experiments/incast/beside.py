"""The book's models beside the simulation: section 3.2, for any setting of the `incast` scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.models import incast
from penstock.models.incast import Measured
from penstock.runs import Run, RunSet
from penstock.stats import mean
from penstock_papers.ledger import Estimate

Floats = NDArray[np.float64]

#: Table 3.1: 1 KB segments on 1 Gb/s links. On the wire each has its TCP/IP header of 40 B too.
SEGMENT_BYTES = 1000
SEGMENT_BITS_ON_WIRE = 8 * 1040
LINK_BPS = 1e9
#: Table 3.1; T_0 of a run without a timeout.
RTO_MIN_S = 0.2

#: Summary keys that `derive` adds; the rest of the name is the field of `Measured`.
PREFIX = "model_"
FIELDS = ("n", "p_c", "p_r", "j", "delta", "iota", "rtt", "t0", "blocks", "packets")
#: What p_c and j are called where each loss indication is a loss event by itself.
SINGLY = {"p_c": "p_c_singly", "j": "j_singly"}


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
    """The models' inputs of one run and what its timeouts were, from its flows and events; to be kept with
    the summary.
    """
    flows = run.tables["flows"].sort("flow")
    sent, rtt = flows["packets_sent"].to_numpy(), flows["rtt_mean_s"].to_numpy()
    events = run.tables["events"]
    counted = partial(
        incast.measure,
        loss_indications(events),
        sent,
        # The block that the end of the run cut short was begun too.
        blocks=int(run.summary["blocks"]) + 1,
        rtt=float(np.average(rtt, weights=sent)),
        t0=RTO_MIN_S,
    )
    merged, singly = counted(), counted(singly=True)
    per_block = run.summary["transfer_mean_bytes"] * run.summary["flows"]
    return (
        {PREFIX + key: float(getattr(merged, key)) for key in FIELDS}
        | {PREFIX + name: float(getattr(singly, key)) for key, name in SINGLY.items()}
        | timeouts(events, per_block)
    )


def timeouts(events: pl.DataFrame, block_bytes: float) -> dict[str, float]:
    """What the timeouts of a run were.

    Count first timeouts (not repetitions, not SYNs). `start_count` are those at the start of a block;
    `start_whole` of them lost the whole window, and `start_together` have another in the same block.
    `mid_count` are those in mid block; `mid_whole` of them lost the whole window, `mid_few` had too few
    duplicate ACKs, and `mid_repair` lost a retransmission. Completed blocks move `block_bytes` each: `late_s`
    is their time beyond what the link needs, and `waited_s` the part of it in which a sender waited for a
    timeout. `waiting` counts the senders with a timeout in a block, over all blocks.
    """
    what = events["what"]
    first = events.filter(
        what.str.starts_with("timeout") & ~what.is_in(["timeout: repeated", "timeout: syn"])
    )
    start, mid = (first.filter(pl.col("block_start") == flag) for flag in (True, False))
    # A block's row has its duration where a timeout's has the timeout.
    done = events.filter(what == "block").sort("time_s")
    ends, begins = done["time_s"].to_numpy(), (done["time_s"] - done["rto_s"]).to_numpy()
    at = np.searchsorted(ends, start["time_s"].to_numpy())
    together = np.bincount(at, minlength=1)
    needs = block_bytes * SEGMENT_BITS_ON_WIRE / SEGMENT_BYTES / LINK_BPS
    late = np.maximum(ends - begins - needs, 0.0)
    waits = events.filter(what.str.starts_with("timeout"))
    to, since = waits["time_s"].to_numpy(), (waits["time_s"] - waits["rto_s"]).to_numpy()
    waited = [covered(since, to, a, b) for a, b in zip(begins, ends, strict=True)]
    return {
        "start_count": float(start.height),
        "start_whole": float((start["what"] == "timeout: window lost").sum()),
        "start_together": float(together[together > 1].sum()),
        "mid_count": float(mid.height),
        "mid_whole": float((mid["what"] == "timeout: window lost").sum()),
        "mid_repair": float((mid["what"] == "timeout: retransmit lost").sum()),
        "mid_few": float((mid["what"] == "timeout: few dup acks").sum()),
        "late_s": float(late.sum()),
        "waited_s": float(np.minimum(late, waited).sum()),
        "waiting": float(
            len(set(zip(first["flow"], np.searchsorted(ends, first["time_s"].to_numpy()), strict=True)))
        ),
    }


def covered(since: Floats, to: Floats, begin: float, end: float) -> float:
    """How long (s) at least one of the intervals [since, to] runs between two times."""
    inside = (to > begin) & (since < end)
    order = np.argsort(since[inside])
    total, reach = 0.0, begin
    for a, b in zip(since[inside][order], to[inside][order], strict=True):
        low, high = max(a, reach), min(b, end)
        total += max(0.0, high - low)
        reach = max(reach, high)
    return total


def inputs(runs: RunSet, *, singly: bool = False) -> Measured:
    """The models' inputs of one point: each the mean over the runs (section 3.2)."""
    names = SINGLY if singly else {}
    found = {key: mean(runs.values(PREFIX + names.get(key, key))) for key in FIELDS}
    n, blocks, packets = (round(found.pop(key)) for key in ("n", "blocks", "packets"))
    return Measured(n=n, blocks=blocks, packets=packets, **found)


@dataclass(frozen=True)
class Point:
    """What the models are given at one number of servers; `sru` and `window` in segments. `servers` is how
    many of them L of the models counts: all, or one.
    """

    measured: Measured
    sru: float
    window: float
    servers: int

    def book(self, function: Callable[..., Any], *, length: float | None = None) -> float:
        """A model of the book that knows timeouts; L is as chosen unless said otherwise."""
        m = self.measured
        return float(function(m.n, m.p_c, m.p_r, m.delta, m.rtt, m.t0, length or self.servers * self.sru))


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
    def of(
        cls,
        servers: Sequence[int],
        sets: Sequence[RunSet],
        *,
        sru: int,
        window: int,
        chosen: Mapping[str, Any],
    ) -> Beside:
        """From runs whose summaries have what `derive` adds; `chosen` says what is one loss event, and what L
        is.
        """
        singly, all_ = chosen["loss_events"] == "singly", chosen["length_of_a_block"] == "block"
        points = [
            Point(inputs(runs, singly=singly), sru, window, n if all_ else 1)
            for n, runs in zip(servers, sets, strict=True)
        ]
        return cls(np.array(servers), sets, points)

    @property
    def throughput(self) -> Floats:
        """Packets per second sent by all servers (the book's B counts them whatever their fate)."""
        return np.array([mean(_rates(runs)) for runs in self.sets])

    @property
    def simulated(self) -> list[Estimate]:
        """The same with its interval."""
        return [Estimate.of(_rates(runs)) for runs in self.sets]

    @property
    def lossy(self) -> NDArray[np.bool_]:
        """Where there is loss; without it the book's models have no limit."""
        return self.measured("p_c") > 0

    def measured(self, key: str) -> Floats:
        """A field of `Measured` over the number of servers."""
        return np.array([getattr(p.measured, key) for p in self.points], dtype=float)

    def model(self, label: str) -> Floats:
        """Packets per second by a model of `MODELS`; infinite where the book's have no limit (no loss)."""
        return np.array([MODELS[label](p) for p in self.points])

    def ratio(self, label: str, where: NDArray[np.bool_] | None = None) -> Floats:
        """Model over simulation, at the points `where` and with loss."""
        use = self.lossy if where is None else self.lossy & where
        return self.model(label)[use] / self.throughput[use]

    def factor(self, label: str, where: NDArray[np.bool_] | None = None) -> float:
        """How far a model is typically off: exp of the mean |ln(model / simulation)|."""
        return float(np.exp(np.abs(np.log(self.ratio(label, where))).mean()))

    def level(self, label: str, where: NDArray[np.bool_] | None = None) -> float:
        """By what factor a model lies above (below: less than 1) the simulation: the geometric mean."""
        return float(np.exp(np.log(self.ratio(label, where)).mean()))

    def q_ibtt(self) -> Floats:
        """Equation (3.34) at the inputs; 0 without loss."""
        n, p_c, p_r = (self.measured(key) for key in ("n", "p_c", "p_r"))
        q = np.zeros(len(n))
        window = incast.mean_flow_window(n[self.lossy], p_c[self.lossy], p_r[self.lossy])
        q[self.lossy] = incast.q_ibtt(window, p_r[self.lossy])
        return q

    def count(self, key: str, where: NDArray[np.bool_]) -> float:
        """A count of `timeouts` over the points `where`, all runs together."""
        return float(sum(runs.values(key).sum() for runs, use in zip(self.sets, where, strict=True) if use))


def _rates(runs: RunSet) -> Floats:
    return runs.values("packets_sent") / runs.values("measured_s")
