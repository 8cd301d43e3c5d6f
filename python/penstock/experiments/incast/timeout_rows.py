"""The two kinds of timeout (Fig 3.3 and 3.4): IBTT, in mid block for want of duplicate ACKs, and ABTT, at the
start of a block, before anything of it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.experiments.common import Floats
from penstock.experiments.incast.setup import (
    BASE,
    MATTERS,
    PAPER,
    PROBED,
    buffer,
    chosen,
)
from penstock.ledger import (
    CONFIRMED,
    Cause,
    Claim,
    Criterion,
    Estimate,
    Measurement,
    Row,
    at_least,
    within,
)

if TYPE_CHECKING:
    from penstock.ledger import Lab
    from penstock.runs import Run, RunSet

from penstock.experiments.incast.collapse_rows import SEGMENT, track


@dataclass(frozen=True)
class Block:
    """One block of a run: its begin and end (s) and the timeouts within it."""

    begin: float
    end: float
    timeouts: pl.DataFrame


def blocks(events: pl.DataFrame) -> list[Block]:
    """The completed blocks of a run, in order."""
    timeouts = events.filter(pl.col("what").str.starts_with("timeout"))
    found = []
    # A block's row has its duration where a timeout's has the timeout.
    for row in events.filter(pl.col("what") == "block").iter_rows(named=True):
        end, begin = row["time_s"], row["time_s"] - row["rto_s"]
        found.append(
            Block(begin, end, timeouts.filter((pl.col("time_s") > begin) & (pl.col("time_s") <= end)))
        )
    return found


def longest_idle(time: Floats, queue: Floats, begin: float, end: float) -> tuple[float, float]:
    """Start and length (s) of the longest stretch without a packet at the port, between two times."""
    inside = (time >= begin) & (time <= end)
    t, busy = time[inside], queue[inside] > 0
    edges = np.flatnonzero(np.diff(np.concatenate(([1], busy.astype(int), [1]))))
    starts, stops = edges[::2], np.minimum(edges[1::2], t.size - 1)
    if starts.size == 0:
        return begin, 0.0
    longest = int(np.argmax(t[stops] - t[starts]))
    return float(t[starts[longest]]), float(t[stops[longest]] - t[starts[longest]])


def _in_mid_block(block: Block) -> bool:
    """Whether the block waited for one timeout, in mid block and for want of duplicate ACKs."""
    one = block.timeouts
    return one.height == 1 and not one["block_start"][0] and one["what"][0] == "timeout: few dup acks"


def _shares(timeouts: pl.DataFrame) -> tuple[float, float]:
    """How many timeouts there are, repetitions aside, and how many of them at the start of a block."""
    first = timeouts.filter(pl.col("in_a_row") <= 1)
    return float(first.height), float(first["block_start"].sum())


def mid_block_numbers(run: Run) -> dict[str, float]:
    """How often a block waited for a timeout in mid block with too few duplicate ACKs, for how long the link
    was idle in those (mean, s), and where the timeouts of the run were.
    """
    events = run.tables["events"]
    time, queue = track(run.tables["series"], "queue_packets")
    idle = [longest_idle(time, queue, b.begin, b.end)[1] for b in blocks(events) if _in_mid_block(b)]
    count, start = _shares(events.filter(pl.col("what").str.starts_with("timeout")))
    return {
        "waiting_blocks": float(len(idle)),
        "idle_s": float(np.mean(idle)) if idle else 0.0,
        "timeouts_in_all": count,
        "timeouts_in_mid": count - start,
    }


def _length(lab: Lab) -> dict[str, Any]:
    return {"duration": lab.pick("40s", "10s", "2s")}


def _share(found: RunSet, part: str, whole: str) -> Estimate:
    """One count over another, of the runs together where a run has none."""
    return Estimate.of(found.values(part) / np.maximum(found.values(whole), 1))


def _mid_block(lab: Lab, settings: Mapping[str, Any], runs: int) -> dict[str, Any]:
    sampled = {**settings, "servers": 4, "sample": "200us", "series": "true", "series_flows": 0}
    found = lab.sweep([("incast", sampled)], runs=runs, keep=("series", "events"), derive=mid_block_numbers)[
        0
    ]
    return {
        "waiting blocks": Estimate.of(found.values("waiting_blocks")),
        "idle": Estimate.of(found.values("idle_s")) * 1e3,
        "mid share": _share(found, "timeouts_in_mid", "timeouts_in_all"),
    }


def _measure_mid_block(lab: Lab) -> Measurement:
    found = _mid_block(lab, BASE | _length(lab), lab.replications(5, 4))
    given = BASE | _length(lab) | {"servers": 4}
    events = lab.runs("incast", given, keep=["events"]).tables(0)["events"]
    number = next((i for i, block in enumerate(blocks(events)) if _in_mid_block(block)), None)
    shown: dict[str, Any] = {}
    if number is not None:
        # The same run again, with samples, up to just after that block: a run does not depend on its length.
        end = blocks(events)[number].end
        run = lab.runs(
            "incast",
            given | {"duration": f"{end + 0.02:.3f}s", "sample": "200us", "series": "true"},
            keep=["series", "events"],
        )
        block = blocks(run.tables(0)["events"])[number]
        late = int(block.timeouts["flow"][0])
        shown = picture(run, block, [late, *(f for f in range(4) if f != late)][:3])
        time, queue = track(run.tables(0)["series"], "queue_packets")
        begin, length = longest_idle(time, queue, block.begin, block.end)
        shown["idle"] = [begin, begin + length]
    return found | {"shown": shown}


def picture(runs: RunSet, block: Block, flows: Sequence[int]) -> dict[str, Any]:
    """Windows (segments) of senders around a block of run 0, with their timeouts and the blocks' ends."""
    low, high = block.begin - 0.01, block.end + 0.01
    events = runs.tables(0)["events"]
    out: dict[str, Any] = {"from": low, "to": high, "windows": {}, "timeouts": {}}
    for flow in flows:
        time, cwnd = track(runs.tables(0)["series"], "cwnd_bytes", flow)
        part = (time >= low) & (time <= high)
        out["time"], out["windows"][str(flow + 1)] = time[part], cwnd[part] / SEGMENT
        own = events.filter(pl.col("what").str.starts_with("timeout") & (pl.col("flow") == flow))["time_s"]
        out["timeouts"][str(flow + 1)] = [t for t in own.to_list() if low <= t <= high]
    ends = events.filter(pl.col("what") == "block")["time_s"].to_list()
    out["ends"] = [t for t in ends if low <= t <= high]
    return out


def _draw_blocks(m: Measurement, lab: Lab, name: str) -> list[Path]:
    """Windows of three senders around a block, its ends dotted, timeouts marked, the idle stretch shaded."""
    shown = m["shown"]
    if not shown:
        return []
    low, high = shown["from"], shown["to"]
    with figures.style():
        figure, axes = figures.new(len(shown["windows"]), 1, width=7.2, height=5.6, sharex=True)
        for i, (ax, (sender, window)) in enumerate(zip(axes, shown["windows"].items(), strict=True)):
            ax.step(shown["time"], window, where="post", **figures.line(i))
            ax.set_ylabel(f"sender {sender}\ncwnd (seg.)")
            ax.set_ylim(0, 1.3 * float(np.max(window)))
            for end in shown["ends"]:
                ax.axvline(end, color=figures.INK, linestyle=":", linewidth=1)
            for at in shown["timeouts"][sender]:
                ax.axvline(at, color=figures.PALETTE[1], linewidth=1.4)
                # Inside the axes: a timeout near the left edge has its word on the right.
                early = at < low + (high - low) / 4
                ax.annotate(
                    "timeout",
                    (at, 0.86),
                    xytext=(4 if early else -4, 0),
                    textcoords="offset points",
                    xycoords=("data", "axes fraction"),
                    fontsize=8.5,
                    ha="left" if early else "right",
                )
            if "idle" in shown:
                ax.axvspan(*shown["idle"], color=figures.PALETTE[7], alpha=0.15, linewidth=0)
        axes[-1].set_xlabel("time (s)")
        axes[0].set_xlim(low, high)
        idle = "; shaded: link idle" if "idle" in shown else ""
        axes[0].set_title(f"Windows of three senders; dotted: block complete{idle}")
    return [lab.save(figure, name)]


_FIG_3_3, _FIG_3_4 = "section 3.1.1.3, Fig 3.3", "section 3.1.1.3, Fig 3.4"
# Fig 3.3: idle from 13.568913 to 13.764448 s; Fig 3.4: from 1.875551 to 2.054982 s.
IDLE_3_3_MS, IDLE_3_4_MS = 195.535, 179.431
_DOMINATES = "IBTT dominates TCP throughput when n is small, while ABTT dominates Incast when n is large"

I_3_3 = Row(
    "I-3.3",
    PAPER,
    "A timeout in mid block, 4 senders (Fig 3.3)",
    claims=(
        Claim(
            "few-duplicates",
            "with four senders, blocks wait for a sender that times out in mid block with fewer than three "
            "duplicate ACKs",
            "shape",
            "it happens",
            "waiting blocks",
            at_least(1),
            quote="the server received less than 3 duplicate ACKs resulting in a TO",
            where=_FIG_3_3,
            why="at least once in a trial",
            unit="blocks in a trial",
        ),
        Claim(
            "idle",
            "the link is then idle for nearly the whole timeout",
            "number",
            "195.5 ms of 200 ms",
            "idle",
            within(IDLE_3_3_MS, 0.1),
            quote="the shared link is completely idle between 13.568913s ~ 13.764448s",
            where=_FIG_3_3,
            why="one block's number; a tenth for where in the block the others end",
            unit="ms",
        ),
        Claim(
            "dominates",
            "with four senders most timeouts are in mid block",
            "order",
            "IBTT dominates",
            "mid share",
            at_least(0.5),
            quote=_DOMINATES,
            where="section 3.1.1.3",
            why="dominates: more than half",
            unit="of all timeouts",
        ),
    ),
    measure=_measure_mid_block,
    draw=lambda m, lab: _draw_blocks(m, lab, "I-3.3"),
    matters=MATTERS,
    probe=lambda lab, point: _mid_block(lab, chosen(point) | buffer(32, point) | {"duration": "10s"}, PROBED),
    cheap=True,
)

SENDERS = 10


@dataclass(frozen=True)
class Late:
    """A block that a sender began with a timeout: number, the last such sender, its window at the end of the
    block over the median of the others', and the longest idle stretch (s).
    """

    number: int
    flow: int
    ratio: float
    idle: float


def late_blocks(run: Run) -> list[Late]:
    """The blocks of a run with a timeout at their start."""
    series, events = run.tables["series"], run.tables["events"]
    windows = [track(series, "cwnd_bytes", flow) for flow in range(SENDERS)]
    time, queue = track(series, "queue_packets")
    found = []
    for number, block in enumerate(blocks(events)):
        starts = block.timeouts.filter(pl.col("block_start"))
        if starts.height == 0:
            continue
        flow = int(starts.sort("time_s")["flow"][-1])
        ends = [values[max(0, int(np.searchsorted(t, block.end)) - 1)] for t, values in windows]
        ratio = ends[flow] / float(np.median(ends[:flow] + ends[flow + 1 :]))
        found.append(Late(number, flow, ratio, longest_idle(time, queue, block.begin, block.end)[1]))
    return found


def block_start_numbers(run: Run) -> dict[str, float]:
    """Where the timeouts of a run are, of what kind those at the start of a block are, and what becomes of
    the sender that was late: means over the blocks with such a timeout.
    """
    late = late_blocks(run)
    follower = {one.number: one.flow for one in late}
    pairs = [(flow, follower[n + 1]) for n, flow in follower.items() if n + 1 in follower]
    timeouts = run.tables["events"].filter(pl.col("what").str.starts_with("timeout"))
    count, start = _shares(timeouts)
    at_start = timeouts.filter(pl.col("block_start") & (pl.col("in_a_row") <= 1))
    return {
        "timeouts_in_all": count,
        "timeouts_at_start": start,
        "whole_windows": float((at_start["what"] == "timeout: window lost").sum()),
        "window_ratio": float(np.exp(np.mean(np.log([one.ratio for one in late])))) if late else 0.0,
        "idle_s": float(np.mean([one.idle for one in late])) if late else 0.0,
        "pairs": float(len(pairs)),
        "others": float(sum(a != b for a, b in pairs)),
    }


def _block_start(lab: Lab, settings: Mapping[str, Any], runs: int) -> dict[str, Any]:
    given = {**settings, "servers": SENDERS, "sample": "1ms", "series": "true"}
    found = lab.sweep([("incast", given)], runs=runs, keep=("series", "events"), derive=block_start_numbers)[
        0
    ]
    return {
        "start share": _share(found, "timeouts_at_start", "timeouts_in_all"),
        "whole windows": _share(found, "whole_windows", "timeouts_at_start"),
        "window": Estimate.of(found.values("window_ratio")),
        "idle": Estimate.of(found.values("idle_s")) * 1e3,
        "another": _share(found, "others", "pairs"),
    }


def _measure_block_start(lab: Lab) -> Measurement:
    runs = lab.replications(5, 4)
    found = _block_start(lab, BASE | _length(lab), runs)
    others = {name: _block_start(lab, BASE | _length(lab) | given, runs) for name, given in OTHERS.items()}
    sampled = BASE | {"servers": SENDERS, "sample": "1ms", "series": "true"}
    run = lab.runs("incast", sampled | {"duration": lab.pick("10s", "10s", "2s")}, keep=["series", "events"])
    late = {one.number: one for one in late_blocks(run.runs[0])}
    example = next((n for n in late if n + 1 in late and late[n].flow != late[n + 1].flow), None)
    shown: dict[str, Any] = {}
    if example is not None:
        both = blocks(run.tables(0)["events"])[example : example + 2]
        here, after = late[example].flow, late[example + 1].flow
        other = next(f for f in range(SENDERS) if f not in (here, after))
        shown = picture(run, Block(both[0].begin, both[1].end, both[0].timeouts), [here, after, other])
    return found | others | {"shown": shown}


# What may decide where timeouts fall: experiment -> why, and the settings that take it away.
CARRIED, TIES = "carried over", "without noise"
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


# With ten senders another one is late next in nine of ten blocks by chance.
CHANCE = 1 - 1 / SENDERS

I_3_4 = Row(
    "I-3.4",
    PAPER,
    "Timeouts at the start of a block, 10 senders (Fig 3.4)",
    claims=(
        Claim(
            "dominates",
            "with ten senders most timeouts are at the start of a block",
            "order",
            "ABTT dominates",
            "start share",
            at_least(0.5),
            quote=_DOMINATES,
            where="section 3.1.1.3",
            why="dominates: more than half",
            unit="of all timeouts",
        ),
        Claim(
            "idle",
            "the link is idle for most of such a timeout",
            "number",
            "179.4 ms of 199.4 ms",
            "idle",
            within(IDLE_3_4_MS, 0.15),
            quote="the shared link remains completely idle during this interval (1.875551s ~ 2.054982s)",
            where=_FIG_3_4,
            why="one block's number; 15 % for where in the block the others end",
            unit="ms",
        ),
        Claim(
            "window",
            "the late sender ends the block with a large window",
            "ratio",
            "a large window",
            "window",
            at_least(2),
            quote="This results in a large congestion window for sender 10 at the end of the transfer",
            where=_FIG_3_4,
            why="large: at least twice the median of the other senders'",
            unit="times the median of the others'",
        ),
        Claim(
            "whole-window",
            "timeouts at the start of a block are those of senders that lost all packets of their window",
            "shape",
            "all packets lost",
            "whole windows",
            at_least(0.5),
            quote="lose all the packets in their congestion window resulting in an early TO for block 10",
            where=_FIG_3_4,
            why="more than half of them",
            unit="of the timeouts at the start",
        ),
        Claim(
            "another",
            "the next block's late sender is another one",
            "shape",
            "another one",
            "another",
            at_least(CHANCE),
            quote="The cycle repeats for block 11 too, with sender 8 experiencing an early TO.",
            where=_FIG_3_4,
            why="at least as often as chance would have it: nine in ten",
            unit="of the blocks (chance: 0.9)",
        ),
    ),
    measure=_measure_block_start,
    draw=lambda m, lab: _draw_blocks(m, lab, "I-3.4"),
    causes=tuple(
        _if(experiment, claim, key, criterion)
        for experiment in OTHERS
        for claim, key, criterion in (
            ("dominates", "start share", at_least(0.5)),
            ("idle", "idle", within(IDLE_3_4_MS, 0.15)),
            ("window", "window", at_least(2)),
            ("another", "another", at_least(CHANCE)),
        )
    ),
    matters=MATTERS,
    probe=lambda lab, point: _block_start(
        lab, chosen(point) | buffer(32, point) | {"duration": "10s"}, PROBED
    ),
)

TIMEOUT_ROWS = [I_3_3, I_3_4]
