"""Rows on the mechanism: how one flow's window moves, and the two kinds of timeout behind the collapse.

IBTT is a timeout in mid block, for want of duplicate ACKs; ABTT one at the start of a block, before anything
of it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.experiments.incast.rows_basic import BASE
from penstock.ledger import Finding, Lab, Row
from penstock.runs import RunSet

RTO_MIN_S = 0.2
SEGMENT = 1000

# --- one flow (figure 2.5)
# ------------------------------------------------------------------------------------

RTT_S = 0.05
# A single flow through a short buffer. Slow start overshoots by a whole window, which plain Reno cannot mend
# without a timeout; after that single losses end each rise.
ONE_FLOW: dict[str, Any] = {
    "flows": 1,
    "protocol": "reno",
    "link_rate": "10Mbps",
    "access_rate": "100Mbps",
    "rtt": "50ms",
    "buffer": "20pkt",
    "segment": f"{SEGMENT}B",
    "initial_window": 2,
    "rto_min": "200ms",
    "send_jitter": "0s",
    "start_spread": "0s",
    "duration": "20s",
    "warmup": "0s",
    "sample": "2ms",
    "series": "true",
}


def one_flow(lab: Lab) -> Finding:
    """Confirmed when one Reno flow shows, in this order: growth by a factor of 1.5 to 2.1 per RTT; a timeout
    that leaves a window of one segment; linear growth of 0.8 to 1.1 segments per RTT; and at least three fast
    retransmits that each leave 40 to 60 % of the window.
    """
    runs = lab.runs("long-flows", ONE_FLOW, keep=["series", "events"])
    time, cwnd = track(runs, "cwnd_bytes", 0)
    cwnd = cwnd / SEGMENT
    timeouts = runs.tables(0)["events"].filter(pl.col("what").str.starts_with("timeout"))["time_s"].to_numpy()
    path = _draw_window(lab, time, cwnd, timeouts)
    if timeouts.size == 0:
        return Finding(False, "no timeout", "slow start ends in a fast retransmit here", (path,))
    first = timeouts[0]
    growth = _growth_per_rtt(time, cwnd, first)
    after = cwnd[np.searchsorted(time, first) :][:2].min()
    slopes, cuts = _sawtooth(time[time > timeouts[-1]], cwnd[time > timeouts[-1]])
    measured = (
        f"slow start grows x {growth:.2f} per RTT up to {cwnd[time < first].max():.0f} segments; timeout "
        f"at {first:.2f} s leaves {after:.0f}; then {len(cuts)} fast retransmits, each leaving "
        f"{_range(cuts, '.0%')}, with rises of {_range(slopes, '.2f')} segments per RTT between them"
    )
    wrong = [
        text
        for bad, text in (
            (not 1.5 <= growth <= 2.1, "slow start does not double per RTT"),
            (after > 1, "the timeout leaves more than one segment"),
            (len(cuts) < 3, "there is no sawtooth"),
            (any(not 0.4 <= cut <= 0.6 for cut in cuts), "a fast retransmit does not halve the window"),
            (any(not 0.8 <= slope <= 1.1 for slope in slopes), "a rise is not one segment per RTT"),
        )
        if bad
    ]
    return Finding(not wrong, measured, "; ".join(wrong), (path,))


def _growth_per_rtt(time: np.ndarray, cwnd: np.ndarray, end: float) -> float:
    """Factor per RTT between 4 segments and three quarters of the first peak, from a fit of log2 of the
    window.
    """
    peak = int(np.argmax(np.where(time < end, cwnd, 0)))
    part = (np.arange(time.size) <= peak) & (cwnd >= 4) & (cwnd <= 0.75 * cwnd[peak])
    slope = np.polyfit(time[part], np.log2(cwnd[part]), 1)[0]
    # The queue it builds lengthens the RTT; while the window is below the path's own capacity it does not.
    return float(2 ** (slope * RTT_S))


def _sawtooth(time: np.ndarray, cwnd: np.ndarray) -> tuple[list[float], list[float]]:
    """Slopes of the rises in segments per RTT, and what each fast retransmit leaves of the window."""
    # A fast retransmit shows as a fall by more than a quarter between two samples 2 ms apart, or over the
    # recovery.
    drops = np.flatnonzero((cwnd[1:] < 0.75 * cwnd[:-1]) & (cwnd[:-1] > 4))
    slopes, cuts = [], []
    for begin, end in zip(drops[:-1] + 1, drops[1:], strict=True):
        rise = slice(begin + (end - begin) // 4, end)
        slope = np.polyfit(time[rise], cwnd[rise], 1)[0]
        slopes.append(float(slope * RTT_S))
    for at in drops:
        cuts.append(float(cwnd[at + 1 : at + 200].min() / cwnd[at]))
    return slopes, cuts


def _draw_window(lab: Lab, time: np.ndarray, cwnd: np.ndarray, timeouts: np.ndarray) -> Path:
    with figures.style():
        figure, (ax,) = figures.new()
        ax.plot(time, cwnd, **figures.line(0))
        for i, at in enumerate(timeouts):
            ax.axvline(at, color=figures.PALETTE[1], linestyle=":", label="timeout" if i == 0 else None)
        ax.set(xlabel="time (s)", ylabel="congestion window (segments)", xlim=(0, float(time[-1])))
        ax.set_ylim(bottom=0)
        ax.set_title("One Reno flow: slow start, timeout, sawtooth")
        if timeouts.size:
            ax.legend()
    return lab.save(figure, "I-2.5")


# --- the two timeouts (figures 3.3 and 3.4)
# ---------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """One block, from its first request to its last byte (seconds), and the timeouts within as event rows."""

    number: int
    begin: float
    end: float
    timeouts: pl.DataFrame


def blocks(runs: RunSet) -> list[Block]:
    """The completed blocks of run 0, in order. Needs the event table."""
    events = runs.tables(0)["events"]
    timeouts = events.filter(pl.col("what").str.starts_with("timeout"))
    found = []
    # A block's row has its duration where a timeout's has the timeout.
    for number, row in enumerate(events.filter(pl.col("what") == "block").iter_rows(named=True)):
        end = row["time_s"]
        begin = end - row["rto_s"]
        inside = timeouts.filter((pl.col("time_s") > begin) & (pl.col("time_s") <= end))
        found.append(Block(number, begin, end, inside))
    return found


def track(runs: RunSet, metric: str, number: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Times (s) and values of a sampled metric in run 0, of one flow when a number is given."""
    part = runs.tables(0)["series"].filter(pl.col("metric") == metric)
    if number is not None:
        part = part.filter((pl.col("entity") == "flow") & (pl.col("number") == number))
    return part["time_s"].to_numpy(), part["value"].to_numpy()


def mid_block(lab: Lab) -> Finding:
    """Confirmed when, with 4 senders, a timeout in mid block with fewer than three duplicate ACKs occurs, and
    the link is idle in that block for one stretch of 0.8 to 1.05 times RTOmin.
    """
    given = BASE | {"servers": 4, "duration": "10s" if lab.quick else "40s"}
    runs = lab.runs("incast", given, keep=["events"])
    found = [
        block
        for block in blocks(runs)
        if block.timeouts.height == 1
        and not block.timeouts["block_start"][0]
        and block.timeouts["what"][0] == "timeout: few dup acks"
    ]
    kinds = _kinds(runs)
    if not found:
        return Finding(
            False, f"no such timeout among: {kinds}", "few duplicate ACKs never decide a block here"
        )
    block = found[0]
    # The same run again, with samples, up to just after that block: a run does not depend on its length.
    sampled = lab.runs(
        "incast",
        given | {"duration": f"{block.end + 0.02:.3f}s", "sample": "50us", "series": "true"},
        keep=["series", "events"],
    )
    time, queue = track(sampled, "queue_packets")
    begin, idle = _longest_idle(time, queue, block.begin, block.end)
    flow = int(block.timeouts["flow"][0])
    path = _draw_block(
        lab, "I-3.3", sampled, block, [flow, *(f for f in range(4) if f != flow)][:3], (begin, idle)
    )
    measured = (
        f"block {block.number}: sender {flow + 1} times out at {block.timeouts['time_s'][0]:.4f} s in mid "
        f"block with too few duplicate ACKs; link idle for {idle * 1e3:.0f} ms; "
        f"all timeouts of the run: {kinds}"
    )
    if 0.8 * RTO_MIN_S <= idle <= 1.05 * RTO_MIN_S:
        return Finding(True, measured, figures=(path,))
    return Finding(False, measured, "other senders were still busy for part of the timeout", (path,))


def block_start(lab: Lab) -> Finding:
    """Confirmed when, with 10 senders, (a) more than half of all timeouts are at the start of a block; of the
    blocks with such a timeout (b) in more than half the sender that was late ends the block with a window
    above the median of the others; and (c) in more than half the late sender of the next block is another
    one.
    """
    given = BASE | {
        "servers": 10,
        "duration": "10s" if lab.quick else "40s",
        "sample": "1ms",
        "series": "true",
    }
    runs = lab.runs("incast", given, keep=["series", "events"])
    timeouts = runs.tables(0)["events"].filter(pl.col("what").str.starts_with("timeout"))
    share = float(timeouts["block_start"].mean() or 0.0)  # type: ignore[arg-type]
    windows = [track(runs, "cwnd_bytes", flow) for flow in range(10)]
    late: dict[int, int] = {}
    ratios = []
    listed_blocks = blocks(runs)
    for block in listed_blocks:
        starts = block.timeouts.filter(pl.col("block_start"))
        if starts.height == 0:
            continue
        flow = int(starts.sort("time_s")["flow"][-1])
        late[block.number] = flow
        ends = [values[max(0, int(np.searchsorted(time, block.end)) - 1)] for time, values in windows]
        ratios.append(ends[flow] / float(np.median(ends[:flow] + ends[flow + 1 :])))
    above = float(np.mean(np.array(ratios) > 1)) if ratios else 0.0
    pairs = [(late[n], late[n + 1]) for n in late if n + 1 in late]
    moved = float(np.mean([a != b for a, b in pairs])) if pairs else 0.0
    example = next((n for n in late if n >= 3 and n + 1 in late and late[n] != late[n + 1]), None)
    paths: tuple[Path, ...] = ()
    if example is not None:
        shown = [b for b in listed_blocks if b.number in (example, example + 1)]
        span = Block(example, shown[0].begin, shown[-1].end, shown[0].timeouts)
        other = next(f for f in range(10) if f not in (late[example], late[example + 1]))
        paths = (_draw_block(lab, "I-3.4", runs, span, [late[example], late[example + 1], other], None),)
    measured = (
        f"{share:.0%} of {timeouts.height} timeouts are at the start of a block ({_kinds(runs)}); the late "
        f"sender ends the block with {np.median(ratios) if ratios else 0:.1f} times the median window of the "
        f"others (above it in {above:.0%} of {len(ratios)} blocks); the next block's late "
        f"sender is another in {moved:.0%}"
    )
    wrong = [
        text
        for bad, text in (
            (share <= 0.5, "most timeouts are in mid block"),
            (above <= 0.5, "the late sender's window is not above the others'"),
            (moved <= 0.5, "the same sender is late again"),
        )
        if bad
    ]
    return Finding(not wrong, measured, "; ".join(wrong), paths)


def _kinds(runs: RunSet) -> str:
    timeouts = runs.tables(0)["events"].filter(pl.col("what").str.starts_with("timeout"))
    counted = timeouts.group_by("block_start", "what").len().sort("len", descending=True)
    return ", ".join(
        f"{row['len']} {'at the start' if row['block_start'] else 'in mid block'} "
        f"({row['what'].removeprefix('timeout: ')})"
        for row in counted.iter_rows(named=True)
    )


def _longest_idle(time: np.ndarray, queue: np.ndarray, begin: float, end: float) -> tuple[float, float]:
    """Start and length (s) of the longest stretch without a packet at the port, between two times."""
    inside = (time >= begin) & (time <= end)
    t, busy = time[inside], queue[inside] > 0
    edges = np.flatnonzero(np.diff(np.concatenate(([1], busy.astype(int), [1]))))
    starts, stops = edges[::2], np.minimum(edges[1::2], t.size - 1)
    if starts.size == 0:
        return begin, 0.0
    longest = int(np.argmax(t[stops] - t[starts]))
    return float(t[starts[longest]]), float(t[stops[longest]] - t[starts[longest]])


def _draw_block(
    lab: Lab, name: str, runs: RunSet, block: Block, flows: Sequence[int], idle: tuple[float, float] | None
) -> Path:
    """Windows of three senders around a block, its ends dotted, timeouts marked, the idle stretch of the link
    shaded.
    """
    events = runs.tables(0)["events"]
    timeouts = events.filter(pl.col("what").str.starts_with("timeout"))
    ends = events.filter(pl.col("what") == "block")["time_s"].to_numpy()
    low, high = block.begin - 0.01, block.end + 0.01
    with figures.style():
        figure, axes = figures.new(len(flows), 1, width=7.2, height=5.6, sharex=True)
        for i, (ax, flow) in enumerate(zip(axes, flows, strict=True)):
            time, cwnd = track(runs, "cwnd_bytes", flow)
            part = (time >= low) & (time <= high)
            ax.step(time[part], cwnd[part] / SEGMENT, where="post", **figures.line(i))
            ax.set_ylabel(f"sender {flow + 1}\ncwnd (seg.)")
            ax.set_ylim(0, 1.3 * float(cwnd[part].max()) / SEGMENT)
            for end in ends[(ends >= low) & (ends <= high)]:
                ax.axvline(end, color=figures.INK, linestyle=":", linewidth=1)
            for at in timeouts.filter(pl.col("flow") == flow)["time_s"].to_list():
                if low <= at <= high:
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
            if idle is not None:
                ax.axvspan(idle[0], idle[0] + idle[1], color=figures.PALETTE[7], alpha=0.15, linewidth=0)
        axes[-1].set_xlabel("time (s)")
        axes[0].set_xlim(low, high)
        axes[0].set_title(
            "Windows of three senders; dotted: block complete" + ("; shaded: link idle" if idle else "")
        )
    return lab.save(figure, name)


def _range(values: Sequence[float], form: str) -> str:
    if not len(values):
        return "-"
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low}..{high}"


ROWS: list[Row] = [
    Row(
        "I-2.5",
        "incast",
        "The window of one flow (Fig. 2.5)",
        "Slow start up to a timeout, then congestion avoidance with a triple-duplicate sawtooth.",
        one_flow,
    ),
    Row(
        "I-3.3",
        "incast",
        "A timeout in mid block, 4 senders (Fig. 3.3)",
        "A sender with fewer than 3 duplicate ACKs times out in mid block; the link idles for about RTOmin.",
        mid_block,
    ),
    Row(
        "I-3.4",
        "incast",
        "Timeouts at the start of a block, 10 senders (Fig. 3.4)",
        "Timeouts fall at the start of a block; the late sender's window ends large; the next victim is new.",
        block_start,
    ),
]
