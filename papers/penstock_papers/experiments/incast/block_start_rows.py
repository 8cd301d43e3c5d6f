"""Timeouts at the start of a block (ABTT, Fig 3.4): before anything of it is acknowledged, and what becomes
of the sender that was late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from penstock.runs import Run
from penstock_papers.experiments.incast import setup, timeout_rows
from penstock_papers.experiments.incast.collapse_rows import SEGMENT, track
from penstock_papers.ledger import (
    CONFIRMED,
    Cause,
    Criterion,
    Estimate,
    Lab,
    Measurement,
    Row,
    claim_criterion,
)

# Fig 3.4: idle from 1.875551 to 2.054982 s.
IDLE_3_4_MS = 179.431
SENDERS = 10
# Where "large n" may begin, if not with the ten senders of the figure.
MORE_SENDERS = 20
# A sender's share of what path and buffer hold, in segments: Table 3.1, four links of 50 us, 32 packets.
SHARE = (4 * 50e-6 * setup.LINK_BPS / 8 / setup.WIRE + 32) / SENDERS


@dataclass(frozen=True)
class Late:
    """A block that a sender began with a timeout: number, the last such sender, its window at the end of the
    block and the median of the others' (segments), and the longest idle stretch (s).
    """

    number: int
    flow: int
    window: float
    others: float
    idle: float


def late_blocks(run: Run) -> list[Late]:
    """The blocks of a run with a timeout at their start."""
    series, events = run.tables["series"], run.tables["events"]
    windows = [track(series, "cwnd_bytes", flow) for flow in range(SENDERS)]
    time, queue = track(series, "queue_packets")
    found = []
    for number, block in enumerate(timeout_rows.blocks(events)):
        starts = block.timeouts.filter(pl.col("block_start"))
        if starts.height == 0:
            continue
        flow = int(starts.sort("time_s")["flow"][-1])
        ends = [values[max(0, int(np.searchsorted(t, block.end)) - 1)] for t, values in windows]
        others = float(np.median(ends[:flow] + ends[flow + 1 :]))
        idle = timeout_rows.longest_idle(time, queue, block.begin, block.end)[1]
        found.append(Late(number, flow, ends[flow] / SEGMENT, others / SEGMENT, idle))
    return found


def block_start_numbers(run: Run) -> dict[str, float]:
    """Where the timeouts of a run are, of what kind those at the start of a block are, and what becomes of
    the sender that was late: means over the blocks with such a timeout.
    """
    late = late_blocks(run)
    follower = {one.number: one.flow for one in late}
    pairs = [(flow, follower[n + 1]) for n, flow in follower.items() if n + 1 in follower]
    timeouts = run.tables["events"].filter(pl.col("what").str.starts_with("timeout"))
    count, start = timeout_rows.shares(timeouts)
    at_start = timeouts.filter(pl.col("block_start") & (pl.col("in_a_row") <= 1))
    often = np.bincount([one.flow for one in late], minlength=SENDERS) / max(1, len(late))
    return {
        "timeouts_in_all": count,
        "timeouts_at_start": start,
        "whole_windows": float((at_start["what"] == "timeout: window lost").sum()),
        "window_ratio": _typical([one.window / one.others for one in late]),
        "window_share": _typical([one.window / SHARE for one in late]),
        "others_share": _typical([one.others / SHARE for one in late]),
        "idle_s": float(np.mean([one.idle for one in late])) if late else 0.0,
        "pairs": float(len(pairs)),
        "others": float(sum(a != b for a, b in pairs)),
        "others_by_frequency": float(1 - np.sum(often**2)),
        "last_three": float(often[-3:].sum()),
    }


def _typical(values: Sequence[float]) -> float:
    """The geometric mean; 0 of none."""
    return float(np.exp(np.mean(np.log(values)))) if values else 0.0


def start_numbers(run: Run) -> dict[str, float]:
    """How many timeouts a run has, and how many at the start of a block."""
    timeouts = run.tables["events"].filter(pl.col("what").str.starts_with("timeout"))
    count, start = timeout_rows.shares(timeouts)
    return {"timeouts_in_all": count, "timeouts_at_start": start}


def _block_start(lab: Lab, settings: Mapping[str, Any], runs: int) -> dict[str, Any]:
    given = {**settings, "servers": SENDERS, "sample": "1ms", "series": "true"}
    found = lab.sweep([("incast", given)], runs=runs, keep=("series", "events"), derive=block_start_numbers)[
        0
    ]
    return {
        "start share": timeout_rows.share(found, "timeouts_at_start", "timeouts_in_all"),
        "whole windows": timeout_rows.share(found, "whole_windows", "timeouts_at_start"),
        "window": Estimate.of(found.values("window_ratio")),
        "idle": Estimate.of(found.values("idle_s")) * 1e3,
        "another": timeout_rows.share(found, "others", "pairs"),
        "another by frequency": Estimate.of(found.values("others_by_frequency")),
        "last three": Estimate.of(found.values("last_three")),
        "window of its share": Estimate.of(found.values("window_share")),
        "others of their share": Estimate.of(found.values("others_share")),
    }


def _with_more_senders(lab: Lab, runs: int) -> dict[str, Estimate]:
    """The share of timeouts at the start of a block with twice the senders, as chosen and with windows that
    are carried over from block to block.
    """
    given = setup.BASE | timeout_rows.span(lab) | {"servers": MORE_SENDERS}
    points = [("incast", given | more) for more in ({}, OTHERS[CARRIED])]
    both = lab.sweep(points, runs=runs, keep=("events",), derive=start_numbers)
    parts = [timeout_rows.share(found, "timeouts_at_start", "timeouts_in_all") for found in both]
    return dict(zip(("as chosen", CARRIED), parts, strict=True))


def _measure_block_start(lab: Lab) -> Measurement:
    runs = lab.replications(5, 4)
    found = _block_start(lab, setup.BASE | timeout_rows.span(lab), runs)
    others = {
        name: _block_start(lab, setup.BASE | timeout_rows.span(lab) | given, runs)
        for name, given in OTHERS.items()
    }
    sampled = setup.BASE | {"servers": SENDERS, "sample": "1ms", "series": "true"}
    run = lab.runs("incast", sampled | {"duration": lab.pick("10s", "10s", "2s")}, keep=["series", "events"])
    late = {one.number: one for one in late_blocks(run.runs[0])}
    example = next((n for n in late if n + 1 in late and late[n].flow != late[n + 1].flow), None)
    shown: dict[str, Any] = {}
    if example is not None:
        both = timeout_rows.blocks(run.tables(0)["events"])[example : example + 2]
        here, after = late[example].flow, late[example + 1].flow
        other = next(f for f in range(SENDERS) if f not in (here, after))
        shown = timeout_rows.picture(
            run, timeout_rows.Block(both[0].begin, both[1].end, both[0].timeouts), [here, after, other]
        )
    return found | others | {MORE: _with_more_senders(lab, runs), "shown": shown}


# What may decide where timeouts fall: experiment -> why, and the settings that take it away.
CARRIED, TIES, MORE = "carried over", "without noise", f"{MORE_SENDERS} senders"
OTHERS: dict[str, dict[str, Any]] = {CARRIED: {"restart_after_idle": False}, TIES: {"send_jitter": "0s"}}
WHY = {
    CARRIED: "what a sender does with its window after an idle timeout decides it: carried over from block "
    "to block, as the text tells it, the statement holds",
    TIES: "which sender loses is decided by packets that reach the switch at the same instant: where hosts "
    "have no noise and packets tie, the statement holds",
}


def _if(experiment: str, claim: str, key: str, criterion: Criterion) -> Cause:
    """With what decides taken away, a claim of I-3.4 holds."""
    return Cause(
        WHY[experiment],
        holds=lambda m: criterion.judge(m[experiment][key]) == CONFIRMED,
        evidence=lambda m: f"{m[experiment][key]} {experiment}",
        of=(claim,),
    )


DOMINATES, LARGE = claim_criterion("I-3.4/dominates"), claim_criterion("I-3.4/window")

_MECHANISMS = (
    Cause(
        "two things together decide it: how many senders are many, and whether windows are carried over from "
        "block to block; with both changed, the statement holds",
        holds=lambda m: DOMINATES.judge(m[MORE][CARRIED]) == CONFIRMED,
        evidence=lambda m: (
            f"{MORE_SENDERS} senders with windows carried over: {m[MORE][CARRIED]}; {MORE_SENDERS} senders "
            f"alone: {m[MORE]['as chosen']}; {SENDERS} with windows carried over: {m[CARRIED]['start share']}"
        ),
        of=("dominates",),
    ),
    Cause(
        "the other senders' windows have grown beyond their share too, while few send at a time; beside its "
        "own share of what path and buffer hold, the late sender's window is large",
        holds=lambda m: (
            LARGE.judge(m["window of its share"]) == CONFIRMED and m["others of their share"].low > 1
        ),
        evidence=lambda m: (
            f"a share is {SHARE:.1f} segments; the late sender: {m['window of its share']} times that; the "
            f"others' median: {m['others of their share']} times"
        ),
        of=("window",),
    ),
)

I_3_4 = Row(
    "I-3.4",
    "Timeouts at the start of a block, 10 senders (Fig 3.4)",
    measure=_measure_block_start,
    draw=lambda m, lab: timeout_rows.draw_blocks(m, lab, "I-3.4"),
    causes=(
        *(
            _if(experiment, claim, key, criterion)
            for experiment in OTHERS
            for claim, key, criterion in (
                ("dominates", "start share", DOMINATES),
                ("idle", "idle", claim_criterion("I-3.4/idle")),
                ("window", "window", LARGE),
                ("another", "another", claim_criterion("I-3.4/another")),
            )
        ),
        *_MECHANISMS,
    ),
    matters=setup.MATTERS,
    probe=lambda lab, point: _block_start(
        lab, setup.chosen(point) | setup.buffer(32, point) | {"duration": "10s"}, setup.PROBED
    ),
)

BLOCK_START_ROWS = [I_3_4]
