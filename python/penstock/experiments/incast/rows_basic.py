"""Rows on incast itself: collapse, its mechanism, and the effect of buffer, request size and timeout floor.

Common setting: Table 3.1; chapter 4 takes a link delay of 100 us and a receive window of 20 segments where it
says so. What the book leaves open is in choices.toml. Every criterion stands in its check's docstring.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.experiments.incast import beside
from penstock.experiments.incast.study import onset
from penstock.ledger import Finding, Lab, Row
from penstock.runs import RunSet
from penstock.stats import ci95

# Table 3.1. Buffers and requests are counted in segments of 1000 B, as ns-2 counts them (choices.toml).
BASE: dict[str, Any] = {
    "sru": "256KB",
    "link_rate": "1Gbps",
    "link_delay": "50us",
    "buffer": "32pkt",
    "segment": "1000B",
    "rwnd": "1000pkt",
    "rto_min": "200ms",
    "jitter": "20us",
    "jitter_mode": "cumulative",
    "send_jitter": "1us",
    "protocol": "newreno",
}
# The same, with every fast retransmit in the event table: what the models of chapter 3 are fed with.
MEASURED = BASE | {"loss_events": True}
# Section 4.1.1.
CHAPTER_4 = BASE | {"link_delay": "100us", "rwnd": "20pkt"}
LINK_BPS = 1e9

GRID = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48)


@dataclass(frozen=True)
class Curve:
    """Goodput over the number of servers for one setting; arrays over `servers`, in bit/s."""

    label: str
    servers: tuple[int, ...]
    sets: tuple[RunSet, ...]

    @property
    def goodput(self) -> np.ndarray:
        """Mean over the runs."""
        return np.array([runs.mean("goodput_bps") for runs in self.sets])

    @property
    def half(self) -> np.ndarray:
        """95 % half-width of that mean."""
        return np.array([runs.ci95("goodput_bps") for runs in self.sets])

    @property
    def onset(self) -> int | None:
        """First number of servers past the peak with less than half of the peak's goodput."""
        return onset(self.servers, self.goodput)

    def at(self, servers: int) -> float:
        """Mean goodput with so many servers."""
        return float(self.goodput[self.servers.index(servers)])


def curves(
    lab: Lab, variants: Sequence[tuple[str, dict[str, Any]]], servers: Sequence[int] = GRID
) -> list[Curve]:
    """One curve per variant (label, settings), all points in parallel.

    Three runs of 40 s each (section 3.2). When quick, three of 16 s where the models' inputs are measured and
    otherwise of 8 s without their first 3: a SYN lost when many servers connect at once costs those.
    """
    points = [("incast", given | {"servers": n}) for _, given in variants for n in servers]
    if all(given.get("loss_events") for _, given in variants):
        length = {"duration": "16s" if lab.quick else "40s"}
        points = [(name, given | length) for name, given in points]
        sets = lab.sweep(points, runs=3, keep=("flows", "events"), derive=beside.derive)
    else:
        length = {"duration": "8s", "warmup": "3s"} if lab.quick else {"duration": "40s"}
        points = [(name, given | length) for name, given in points]
        sets = lab.sweep(points, runs=3)
    width = len(servers)
    return [
        Curve(label, tuple(servers), tuple(sets[i * width : (i + 1) * width]))
        for i, (label, _) in enumerate(variants)
    ]


def draw(lab: Lab, name: str, title: str, shown: Sequence[Curve]) -> Path:
    """Goodput in Mb/s over the number of servers, one line per curve with its 95 % band."""
    crowded = len(shown) > 3
    with figures.style():
        figure, (ax,) = figures.new(width=7.8 if crowded else 6.6)
        for i, curve in enumerate(shown):
            figures.band(ax, curve.servers, curve.goodput / 1e6, curve.half / 1e6, curve.label, i)
        ax.set(xlabel="number of servers", ylabel="goodput (Mb/s)", ylim=(0, 1000))
        ax.set_xlim(0, max(max(curve.servers) for curve in shown) + 1)
        ax.set_title(title)
        beside_plot(ax) if crowded else ax.legend()
    return lab.save(figure, name)


def beside_plot(ax: figures.Axes, **given: Any) -> None:
    """The legend to the right of the axes: more than three curves leave no room between them."""
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **given)


# --- collapse
# ---------------------------------------------------------------------------------------------------------


def collapse(lab: Lab) -> Finding:
    """Confirmed when a collapse exists and the lowest goodput beyond its onset lies one or two orders of
    magnitude below the link rate: log10 of the ratio rounds to 1 or 2.
    """
    (curve,) = curves(lab, [("NewReno, 32 KB buffer", MEASURED)])
    path = draw(lab, "I-1.5", "Goodput collapse for synchronised reads", [curve])
    start = curve.onset
    if start is None:
        return Finding(False, "no collapse", "goodput never falls below half of its peak", (path,))
    low = curve.goodput[curve.servers.index(start) :].min()
    ratio = LINK_BPS / low
    measured = (
        f"peak {mbps(curve.goodput.max())} Mb/s, below half of it from {start} servers, "
        f"lowest {mbps(low)} Mb/s: {ratio:.1f} times below the link rate (10^{math.log10(ratio):.2f})"
    )
    if 1 <= round(math.log10(ratio)) <= 2:
        return Finding(True, measured, figures=(path,))
    (carried,) = curves(lab, [("window carried over", MEASURED | {"restart_after_idle": "false"})])
    reason = (
        "How deep the goodput falls depends on what an idle sender does with its window: carried over from "
        f"block to block instead of restarted, the lowest goodput is {mbps(carried.goodput.min())} Mb/s."
    )
    return Finding(False, measured, reason, (path,))


def doubling(lab: Lab) -> Finding:
    """Confirmed when, over the buffers 32, 64, 128, 256 KB, the geometric mean of the ratio of successive
    onsets lies within 15 % of 2.

    Runs beside it the same with a link delay of 5 us, where the path itself holds next to nothing: if the
    ratio nears 2 there, it is the packets on the path that keep it below 2 at 100 us.
    """
    sizes = (32, 64, 128, 256)
    servers = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64, 80, 96)
    variants = [(f"{size} KB", CHAPTER_4 | {"buffer": f"{size}pkt"}) for size in sizes]
    short = [
        (f"{size} KB", given | {"link_delay": "5us"})
        for size, (_, given) in zip(sizes, variants, strict=True)
    ]
    found = curves(lab, variants, servers)
    nearby = curves(lab, short, servers)
    paths = (
        draw(lab, "I-4.1", "Effect of the switch buffer (link delay 100 us)", found),
        draw(lab, "I-4.1-short", "The same with a link delay of 5 us", nearby),
    )
    starts, short_starts = [c.onset for c in found], [c.onset for c in nearby]
    measured = f"onset at {listed(starts)} servers with {listed(sizes)} KB"
    ratio, short_ratio = _per_doubling(starts), _per_doubling(short_starts)
    if ratio is None:
        return Finding(False, measured, "a buffer shows no collapse up to 96 servers: no ratio", paths)
    measured += f": x {ratio:.2f} per doubling"
    if abs(ratio / 2 - 1) <= 0.15:
        return Finding(True, measured, figures=paths)
    aside = "no ratio" if short_ratio is None else f"x {short_ratio:.2f} per doubling"
    reason = (
        "Servers fit while buffer plus path holds their windows, and the path holds "
        f"{_path_packets():.0f} packets of its own, which do not double: buffer plus path grow by "
        f"{_room_per_doubling(sizes, 100e-6):.2f} per doubling of the buffer. With a link delay of 5 us "
        f"(path: {_path_packets(5e-6):.0f} packets, x {_room_per_doubling(sizes, 5e-6):.2f}) the onsets are "
        f"{listed(short_starts)}: {aside}."
    )
    return Finding(False, measured, reason, paths)


def _per_doubling(starts: Sequence[int | None]) -> float | None:
    known = [start for start in starts if start is not None]
    if len(known) < len(starts):
        return None
    return float((known[-1] / known[0]) ** (1 / (len(known) - 1)))


def _path_packets(link_delay_s: float = 100e-6) -> float:
    # Four links there and back; a segment of 1040 B on the wire is serialised twice on its way.
    wire = 1040 * 8 / LINK_BPS
    return (4 * link_delay_s + 2 * wire) / wire


def _room_per_doubling(buffers: Sequence[int], link_delay_s: float) -> float:
    path = _path_packets(link_delay_s)
    return float(((buffers[-1] + path) / (buffers[0] + path)) ** (1 / (len(buffers) - 1)))


BUFFERS = (16, 32, 64, 128)
REQUESTS = (64, 128, 256, 512)


def compare_pair(
    lab: Lab,
    key: str,
    less: str,
    more: str,
    pair: tuple[Curve, Curve],
    paths: tuple[Path, ...],
    *,
    later: bool,
) -> Finding:
    """The verdict on a larger buffer or request; a failure is tried again with independent request jitter."""
    small, large = pair
    low, low_half = _overall(small)
    high, high_half = _overall(large)
    higher = high - high_half > low + low_half
    begins, begins_large = small.onset, large.onset
    worse = [
        n
        for n, a, b in zip(small.servers, small.sets, large.sets, strict=True)
        if b.mean("goodput_bps") + b.ci95("goodput_bps") < a.mean("goodput_bps") - a.ci95("goodput_bps")
    ]
    measured = (
        f"mean over {small.servers[0]}..{small.servers[-1]} servers {mbps(low)} ± {mbps(low_half)} Mb/s "
        f"with {less}, {mbps(high)} ± {mbps(high_half)} Mb/s with {more}; onset {begins} and {begins_large}"
    )
    if begins is None or begins_large is None:
        moved_as_said = later and begins is not None
    else:
        moved_as_said = begins_large > begins if later else abs(begins_large - begins) <= 2
    if higher and moved_as_said:
        return Finding(True, measured, figures=paths)
    reason = "; ".join(
        text
        for wrong, text in (
            (not higher, f"the mean is not higher with {more}: lower at n = {listed(worse) or 'none'}"),
            (not moved_as_said, f"the onset goes from {begins} to {begins_large} servers"),
        )
        if wrong
    )
    if worse and key == "sru":
        return Finding(False, measured, f"{reason}. {_why_less(lab, pair, worse)}", paths)
    spread = MEASURED | {"jitter_mode": "independent"}
    again = [_overall(c) for c in curves(lab, [(v, spread | {key: v}) for v in (less, more)])]
    gained = again[1][0] - again[1][1] > again[0][0] + again[0][1]
    reason += (
        "; with independent instead of cumulative request jitter the means are "
        f"{mbps(again[0][0])} ± {mbps(again[0][1])} and {mbps(again[1][0])} ± {mbps(again[1][1])} Mb/s, so "
        + ("the spread of the requests decides" if gained else "the spread of the requests is not the cause")
    )
    return Finding(False, measured, reason, paths)


def _why_less(lab: Lab, pair: tuple[Curve, Curve], worse: Sequence[int]) -> str:
    """Why a larger request gets less at some numbers of servers: sizes between the two at the last of "
    "them."""
    n = worse[-1]
    small, large = (int(curve.label.split()[0]) for curve in pair)
    sizes = [round(small + part * (large - small)) for part in (0, 0.125, 0.25, 0.5, 1)]
    found = [c for s in sizes for c in curves(lab, [(f"{s} KB", MEASURED | {"sru": f"{s}KB"})], (n,))]
    rest = [_overall(curve, without=worse) for curve in pair]
    return (
        f"With {n} servers and {listed(sizes)} KB a sender has "
        f"{listed([f'{_indications(c.sets[0]):.2f}' for c in found])} losses to repair per block, a loss "
        "brings "
        f"{listed([f'{_timeouts_per_loss(c.sets[0]):.4f}' for c in found])} timeouts, and the goodput is "
        f"{listed([mbps(c.goodput[0]) for c in found])} Mb/s: as long as a block is over after one loss per "
        "sender, all senders lose and halve in step and hardly one times out; once a second loss fits "
        "into the "
        "block, timeouts begin, and from there on larger requests gain again. Without "
        f"n = {listed(worse)} the means are {mbps(rest[0][0])} ± {mbps(rest[0][1])} and "
        f"{mbps(rest[1][0])} ± {mbps(rest[1][1])} Mb/s."
    )


def _indications(runs: RunSet) -> float:
    """Loss indications (fast retransmits and first timeouts) per sender and block."""
    servers, blocks = runs.mean("model_n"), runs.mean("model_blocks")
    return runs.mean("model_p_r") * runs.mean("model_packets") / (servers * blocks)


def _timeouts_per_loss(runs: RunSet) -> float:
    timeouts = runs.mean("model_delta") + runs.mean("model_iota")
    return timeouts / (_indications(runs) * runs.mean("model_n"))


def _overall(curve: Curve, without: Sequence[int] = ()) -> tuple[float, float]:
    """Mean goodput over the numbers of servers and its 95 % half-width over the runs, bit/s."""
    sets = [runs for n, runs in zip(curve.servers, curve.sets, strict=True) if n not in without]
    per_run = np.mean([runs.values("goodput_bps") for runs in sets], axis=0)
    return float(per_run.mean()), ci95(per_run)


# --- request size and timeout floor (figures 4.2 and 4.3) ---------------------------------------------------


def large_requests(lab: Lab) -> Finding:
    """Confirmed when, with 7 servers, 1 MB per server gets at least twice the goodput of 256 KB, with
    separate 95 % intervals. (The text says orders of magnitude; the figure measured here tells how much of
    that there can be.)

    The two points that decide run for the book's three times 40 s when quick as well: with 1 MB a block takes
    58 ms or, with a timeout, 0.26 s and more, and 5 s hold too few of them.
    """
    sizes = (64, 128, 256, 512, 1000)
    found = [(f"{r} KB", BASE | {"sru": f"{r}KB"}) for r in sizes]
    path = draw(lab, "I-4.2", "Effect of the request size", curves(lab, found))
    points = [("incast", BASE | {"sru": f"{r}KB", "servers": 7, "duration": "40s"}) for r in (256, 1000)]
    small, large = lab.sweep(points, runs=3)
    a, da = small.mean("goodput_bps"), small.ci95("goodput_bps")
    b, db = large.mean("goodput_bps"), large.ci95("goodput_bps")
    measured = (
        f"7 servers: {mbps(a)} ± {mbps(da)} Mb/s with 256 KB, {mbps(b)} ± {mbps(db)} Mb/s with 1 MB: "
        f"{b / a:.2f} times; the link has room for {LINK_BPS / a:.1f} times"
    )
    if b - db > a + da and b >= 2 * a:
        return Finding(True, measured, figures=(path,))
    short, long = curves(lab, [(f"{r} KB", BASE | {"sru": f"{r}KB"}) for r in (256, 1000)], (7, 10))
    reason = (
        f"With 256 KB and 7 servers the link already carries {a / LINK_BPS:.0%} of its rate: the collapse is "
        f"not complete there. At 10 servers, where it is, the ratio is "
        f"{long.goodput[1] / short.goodput[1]:.2f}."
    )
    return Finding(False, measured, reason, (path,))


FLOORS = ("200ms", "20ms", "2ms", "200us")


def timeout_floor(lab: Lab) -> Finding:
    """Confirmed when, with RTOmin 200 us, (a) from the onset of the collapse at 200 ms up to 40 servers the
    goodput is everywhere above that at 200 ms and above half of the best, and (b) the first number of servers
    with less than 90 % of the best goodput, past the best, lies at 36..48.
    """
    servers = (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64)
    found = dict(
        zip(
            FLOORS,
            curves(lab, [(f"RTOmin {f}", BASE | {"rto_min": f}) for f in FLOORS], servers),
            strict=True,
        )
    )
    path = draw(lab, "I-4.3", "Effect of the timeout floor", list(found.values()))
    slow, fast = found["200ms"], found["200us"]
    start = slow.onset
    if start is None:
        return Finding(False, "no collapse at 200 ms", "there is nothing to restore", (path,))
    between = [i for i, n in enumerate(servers) if start <= n <= 40]
    best = fast.goodput.max()
    restored = all(fast.goodput[i] > slow.goodput[i] and fast.goodput[i] > best / 2 for i in between)
    fall = _fall(fast)
    gain = np.mean([fast.goodput[i] / slow.goodput[i] for i in between])
    measured = (
        f"from {start} to 40 servers 200 us gets {gain:.1f} times the goodput of 200 ms, at least "
        f"{mbps(fast.goodput[between].min())} of its best {mbps(best)} Mb/s; below 90 % of the best "
        f"from {fall} servers"
    )
    if restored and fall is not None and 36 <= fall <= 48:
        return Finding(True, measured, figures=(path,))
    reason = "" if restored else "The goodput with 200 us is not above half of its best up to 40 servers. "
    why, beside_it = _why_it_falls(lab, fast)
    return Finding(False, measured, reason + why, (path, beside_it))


def _why_it_falls(lab: Lab, fast: Curve) -> tuple[str, Path]:
    """RTOmin 200 us without the timer's back-off; then, over a whole trial, with and without lost SYNs."""
    steady = BASE | {"rto_min": "200us", "backoff_max": 1}
    (curve,) = curves(lab, [("the same without back-off", steady)], fast.servers)
    path = draw(lab, "I-4.3-no-back-off", "RTOmin 200 us with and without back-off", [fast, curve])
    best = int(curve.goodput.argmax())
    few, many = 40, 56
    points = [
        ("incast", steady | {"duration": "40s", "servers": n} | syn)
        for syn in ({}, {"rto_initial": "200ms"})
        for n in (few, many)
    ]
    trial = [runs.mean("goodput_bps") for runs in lab.sweep(points, runs=1 if lab.quick else 3)]
    why = (
        "The fall is the timer's exponential back-off: a retransmission that meets the full buffer again "
        "doubles a timeout of a few hundred us up to 64 times, and the block waits. Without it "
        f"(backoff_max=1) the goodput stays at {mbps(curve.goodput[best:].min())} Mb/s or more up to "
        f"{fast.servers[-1]} servers, and a trial of 40 s from the first SYN gets {mbps(trial[0])} Mb/s "
        f"with {few} "
        f"servers and {mbps(trial[1])} with {many}: a drop above 40, as stated. That drop is the 3 s a "
        "lost SYN "
        f"costs (with rto_initial=200ms {mbps(trial[2])} and {mbps(trial[3])} Mb/s). The book's senders did "
        "not back off, then; ns-2.35 with its back-off falls from 24 servers as well (824 of 941 Mb/s)."
    )
    return why, path


def _fall(curve: Curve) -> int | None:
    """First number of servers past the best with less than 90 % of the best goodput."""
    best = int(curve.goodput.argmax())
    after = list(zip(curve.servers, curve.goodput, strict=True))[best + 1 :]
    return next((n for n, goodput in after if goodput < 0.9 * curve.goodput[best]), None)


def mbps(value: float) -> str:
    """bit/s as whole Mb/s."""
    return f"{value / 1e6:.0f}"


def listed(values: Sequence[object]) -> str:
    """Values with commas; what is missing as a dash."""
    return ", ".join("-" if value is None else str(value) for value in values)


ROWS: list[Row] = [
    Row(
        "I-1.5",
        "incast",
        "Goodput collapse under synchronised reads (Fig. 1.5)",
        "Throughput drops by one or two orders of magnitude below the link capacity as servers are added.",
        collapse,
    ),
    Row(
        "I-4.1",
        "incast",
        "Effect of the switch buffer on the onset (Fig. 4.1)",
        "Doubling the switch buffer doubles the number of servers before the onset of the collapse.",
        doubling,
    ),
    Row(
        "I-4.2",
        "incast",
        "Effect of larger requests (Fig. 4.2)",
        "With 7 servers the throughput with 1 MB per server is far above that with 256 KB.",
        large_requests,
    ),
    Row(
        "I-4.3",
        "incast",
        "Effect of the timeout floor (Fig. 4.3)",
        "RTOmin 200 us instead of 200 ms restores the throughput; the peak drops a little above 40 servers.",
        timeout_floor,
    ),
]
