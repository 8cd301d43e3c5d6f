"""Timeouts in mid block for want of duplicate ACKs (IBTT, Fig 3.3); the blocks and timeouts of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.runs import Run, RunSet
from penstock_papers.experiments.common import Floats
from penstock_papers.experiments.incast.collapse_rows import SEGMENT, track
from penstock_papers.experiments.incast.setup import BASE, MATTERS, PROBED, buffer, chosen
from penstock_papers.ledger import Estimate, Lab, Measurement, Row


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


def shares(timeouts: pl.DataFrame) -> tuple[float, float]:
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
    count, start = shares(events.filter(pl.col("what").str.starts_with("timeout")))
    return {
        "waiting_blocks": float(len(idle)),
        "idle_s": float(np.mean(idle)) if idle else 0.0,
        "timeouts_in_all": count,
        "timeouts_in_mid": count - start,
    }


def span(lab: Lab) -> dict[str, Any]:
    """The length of a run."""
    return {"duration": lab.pick("40s", "10s", "2s")}


def share(found: RunSet, part: str, whole: str) -> Estimate:
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
        "mid share": share(found, "timeouts_in_mid", "timeouts_in_all"),
    }


def _measure_mid_block(lab: Lab) -> Measurement:
    found = _mid_block(lab, BASE | span(lab), lab.replications(5, 4))
    given = BASE | span(lab) | {"servers": 4}
    events = lab.runs("incast", given, keep=["events"]).tables(0)["events"]
    number = next((i for i, block in enumerate(blocks(events)) if _in_mid_block(block)), None)
    shown: dict[str, Any] = {}
    if number is not None:
        # The run is repeated with samples up to just after that block; a run does not depend on its length.
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


def draw_blocks(m: Measurement, lab: Lab, name: str) -> list[Path]:
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


I_3_3 = Row(
    "I-3.3",
    "A timeout in mid block, 4 senders (Fig 3.3)",
    measure=_measure_mid_block,
    draw=lambda m, lab: draw_blocks(m, lab, "I-3.3"),
    matters=MATTERS,
    probe=lambda lab, point: _mid_block(lab, chosen(point) | buffer(32, point) | {"duration": "10s"}, PROBED),
    cheap=True,
)

TIMEOUT_ROWS = [I_3_3]
