"""Chapter 4's remedies: probabilistic retransmission, dynamic segment resizing, DCTCP, and all side by side.

Setting: Table 3.1 with a buffer of 32 KB (sections 4.2.2 and 4.3.1); where segments are smaller than 1 KB the
buffer counts bytes. Every criterion stands in its check's docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.experiments.incast.rows_basic import BASE, LINK_BPS, Curve, beside_plot, draw, listed, mbps
from penstock.ledger import Finding, Lab, Row

#: "when the number of senders is greater than eight" (section 4.2.2).
MANY = 9
SERVERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48)
#: A lost SYN would otherwise keep a short trial waiting for 3 s (choices.toml).
SETTING = BASE | {"rto_initial": "200ms"}
#: Left out when quick.
THINNED = (3, 12, 24, 40, 96)

PROBABILITIES = (1e-4, 1e-3, 1e-2, 1e-1)
#: How the two open points of algorithms 1 and 3 are read (choices.toml).
THREAD: dict[str, Any] = {"retransmit_segment": "oldest", "retransmit_rests": False}
PLAIN, FAST_TIMER = "RTOmin 200 ms", "RTOmin 200 us"


def compare(
    lab: Lab, variants: dict[str, dict[str, Any]], servers: Sequence[int] = SERVERS
) -> dict[str, Curve]:
    """One curve per variant (label -> settings beside `BASE`), all points in parallel: 20 s and three runs,
    3 s and four at fewer numbers of servers when quick.
    """
    length = {"duration": "3s" if lab.quick else "20s"}
    if lab.quick:
        servers = [n for n in servers if n not in THINNED]
    points = [
        ("incast", SETTING | given | length | {"servers": n}) for given in variants.values() for n in servers
    ]
    sets = lab.sweep(points, runs=4 if lab.quick else 3)
    width = len(servers)
    return {
        label: Curve(label, tuple(servers), tuple(sets[i * width : (i + 1) * width]))
        for i, label in enumerate(variants)
    }


# --- probabilistic retransmission (section 4.2) -------------------------------------------------------------


def retransmission(lab: Lab) -> dict[str, Curve]:
    """The curves of figures 4.4 to 4.6."""
    variants: dict[str, dict[str, Any]] = {PLAIN: {}, FAST_TIMER: {"rto_min": "200us"}}
    variants |= {_p(p): THREAD | {"retransmit_probability": p} for p in PROBABILITIES}
    return compare(lab, variants)


def to_the_letter(lab: Lab) -> list[Curve]:
    """The other reading of algorithms 1 and 3 (choices.toml): newest segment, rest until recovery ends."""
    variants = {f"{_p(p)}, newest": {"retransmit_probability": p} for p in PROBABILITIES[1:]}
    return list(compare(lab, variants, (4, 8, 12, 16, 24, 32, 48)).values())


def higher_p(lab: Lab) -> Finding:
    """Confirmed when, above eight servers, the mean goodput rises from each p to the next, from plain TCP to
    p = 0.1, and the best of them lies one order of magnitude (log10 rounds to 1 or more) above plain TCP.

    Also drawn: the other reading of the algorithms.
    """
    found = retransmission(lab)
    shown = [found[PLAIN], *(found[_p(p)] for p in PROBABILITIES)]
    letter = to_the_letter(lab)
    paths = (
        draw(lab, "I-4.4", "Effect of the retransmission probability", shown),
        draw(lab, "I-4.4-newest", "The same, read to the letter", [found[PLAIN], *letter]),
    )
    means = [_many(curve, curve.goodput) for curve in shown]
    gain = max(means) / means[0]
    measured = (
        f"mean goodput above 8 servers {listed([mbps(m) for m in means])} Mb/s for p = 0, "
        f"{listed([f'{p:g}' for p in PROBABILITIES])}: best {gain:.1f} times plain TCP (newest segment, "
        "thread "
        f"at rest in recovery: {listed([mbps(_many(c, c.goodput)) for c in letter])} Mb/s from p = 0.001)"
    )
    rises = all(a < b for a, b in pairwise(means))
    if rises and round(np.log10(gain)) >= 1:
        return Finding(True, measured, figures=paths)
    slower = compare(
        lab,
        {_p(p): THREAD | {"retransmit_probability": p, "retransmit_every": "200us"} for p in PROBABILITIES},
        [n for n in SERVERS if n >= MANY],
    )
    rarely = [means[0], *(_many(curve, curve.goodput) for curve in slower.values())]
    alone = lab.runs(
        "incast",
        SETTING
        | THREAD
        | {"servers": 1, "duration": "3s", "retransmit_probability": 0.1, "loss_events": True},
        keep=("events",),
    )
    spurious = alone.events.filter(pl.col("what") == "fast retransmit").height
    reason = (
        "What breaks the rise is that p = 0.1 every 20 us repeats a segment per sender every 200 us, "
        "needed or "
        f"not: {LINK_BPS * 200e-6 / (8 * 1040):.0f} senders fill the link with repetitions, and the ACKs of "
        f"needless ones count as duplicate ACKs (one server alone, {alone.mean('drops'):.0f} drops: "
        f"{spurious} "
        f"fast retransmits, {mbps(alone.mean('goodput_bps'))} Mb/s instead of {mbps(shown[0].goodput[0])}). "
        f"With the thread run every 200 us the means rise with every p: {listed([mbps(m) for m in rarely])} "
        f"Mb/s, best {max(rarely) / means[0]:.1f} times plain TCP, which leaves room for "
        f"{LINK_BPS / means[0]:.1f}."
    )
    return Finding(False, measured, reason, paths)


def drops_with_p(lab: Lab) -> Finding:
    """Confirmed when, above eight servers, the mean drop ratio (dropped over arrived packets at the port)
    rises from each p to the next, and p = 0.001 is the best compromise: the largest goodput per drop ratio
    among the four.
    """
    found = retransmission(lab)
    shown = [found[PLAIN], found[FAST_TIMER], *(found[_p(p)] for p in PROBABILITIES)]
    with figures.style():
        figure, (ax,) = figures.new(width=7.8)
        for i, curve in enumerate(shown):
            half = [runs.ci95("drop_rate") for runs in curve.sets]
            figures.band(ax, curve.servers, _drop_ratio(curve), half, curve.label, i)
        ax.set(xlabel="number of servers", ylabel="drop ratio (dropped / arrived packets)")
        ax.set_title("Effect of the retransmission probability on drops")
        beside_plot(ax)
    path = lab.save(figure, "I-4.5")
    curves = [found[_p(p)] for p in PROBABILITIES]
    drops = [_many(curve, _drop_ratio(curve)) for curve in curves]
    worth = [_many(curve, curve.goodput) / d for curve, d in zip(curves, drops, strict=True)]
    best = PROBABILITIES[int(np.argmax(worth))]
    measured = (
        f"mean drop ratio above 8 servers {listed([f'{d:.3f}' for d in drops])} for p = "
        f"{listed([f'{p:g}' for p in PROBABILITIES])} (plain {_many(shown[0], _drop_ratio(shown[0])):.3f}, "
        f"RTOmin 200 us {_many(shown[1], _drop_ratio(shown[1])):.3f}); most goodput per drop ratio at p = "
        f"{best:g}"
    )
    if all(a < b for a, b in pairwise(drops)) and best == 1e-3:
        return Finding(True, measured, figures=(path,))
    reason = (
        f"Goodput per drop ratio is {listed([mbps(w) for w in worth])} Mb/s for the four p: at p = 0.001 a "
        "sender "
        "that lost its window still waits 20 ms on average, at p = 0.01 2 ms, for little more drops."
    )
    return Finding(False, measured, reason, (path,))


def against_fast_timer(lab: Lab) -> Finding:
    """Confirmed when p = 0.001 gets more goodput than plain TCP at every number of servers from three on,
    more than RTOmin 200 us at most numbers above ten, and between five and ten less than it but not below
    half of it.

    Run beside it when it does not: the thread ten times as often.
    """
    found = retransmission(lab)
    plain, fast, thread = found[PLAIN], found[FAST_TIMER], found[_p(1e-3)]
    path = draw(lab, "I-4.6", "Probabilistic retransmission and a fast timer", [plain, fast, thread])
    holds, measured = _ahead(thread, fast, plain)
    if holds:
        return Finding(True, measured, figures=(path,))
    oftener = THREAD | {"retransmit_probability": 1e-3, "retransmit_every": "2us"}
    (tenth,) = compare(lab, {"p = 0.001 every 2 us": oftener}).values()
    also = draw(lab, "I-4.6-every-2us", "The same with the thread run every 2 us", [plain, fast, tenth])
    appears, ratios = _ahead(tenth, fast, plain)
    blocks = [runs.mean("measured_s") / max(runs.mean("blocks"), 1) for runs in thread.sets]
    at = thread.servers.index(20)
    reason = (
        "The block waits for the last of the senders that lost their window, not for the first: each waits "
        "20 us / p = 20 ms on average, and the longest of ten such waits is 59 ms. A block of 20 servers "
        f"takes {blocks[at] * 1e3:.0f} ms, its transfer {20 * 256 * 1040 * 8 / LINK_BPS * 1e3:.0f} ms. With "
        f"the wait a tenth of that (the thread every 2 us, or p = 0.01) the statement "
        f"{'appears' if appears else 'is nearer'}: {ratios}. The book's thread ran ten times as often as "
        "it says, "
        "then, or its p = 0.001 was 0.01."
    )
    return Finding(False, measured, reason, (path, also))


def _ahead(thread: Curve, fast: Curve, plain: Curve) -> tuple[bool, str]:
    """Whether the order stated for figure 4.6 holds, and the ratios."""
    n = np.array(thread.servers)
    ratio, gain = thread.goodput / fast.goodput, (thread.goodput / plain.goodput)[n >= 3]
    above, between = ratio[n > 10], ratio[(n >= 5) & (n <= 10)]
    better = np.count_nonzero(above > 1) > above.size / 2
    slightly = bool(np.all((between < 1) & (between >= 0.5)))
    text = (
        f"goodput over that of RTOmin 200 us: {between.min():.2f}..{between.max():.2f} from 5 to 10 servers, "
        f"{above.min():.2f}..{above.max():.2f} above; over plain TCP at least {gain.min():.2f} times"
    )
    return bool(np.all(gain > 1)) and better and slightly, text


def _p(p: float) -> str:
    return f"p = {p:g}"


def _drop_ratio(curve: Curve) -> np.ndarray:
    return np.array([runs.mean("drop_rate") for runs in curve.sets])


def _many(curve: Curve, values: np.ndarray) -> float:
    return float(values[np.array(curve.servers) >= MANY].mean())


# --- dynamic segment resizing (section 4.3) -----------------------------------------------------------------

#: Segment sizes of figures 4.7 to 4.10, bytes (choices.toml).
SEGMENTS = (1000, 500, 250, 100, 50)
#: Beside them where windows count packets: with 50 servers no size above fits.
SMALLEST = 20
#: Buffer and receive window of section 4.3, bytes; and that window in segments of Table 3.1.
ROOM, WINDOW = 32_000, 32


def in_bytes(_segment: int) -> dict[str, Any]:
    """Buffer and receive window as the book states them."""
    return {"buffer": f"{ROOM}B", "rwnd": f"{ROOM}B"}


def in_packets(segment: int) -> dict[str, Any]:
    """As ns-2 counts: the buffer in packets without their headers, the window in packets of any size."""
    return {"buffer": f"{ROOM // segment}pkt", "rwnd": f"{WINDOW}pkt"}


@dataclass(frozen=True)
class Timeouts:
    """Timeouts with one segment size: packets each had lost (all runs), in how many blocks, and how many of
    them lost the whole window, or a retransmission during fast recovery.
    """

    segment: int
    lost: np.ndarray
    blocks: float
    whole: int
    repair: int

    @property
    def per_block(self) -> float:
        """Mean number of timeouts in a block."""
        return self.lost.size / self.blocks


def timeouts(
    lab: Lab, servers: int, sizes: Sequence[int] = SEGMENTS, given: Callable[[int], dict[str, Any]] = in_bytes
) -> list[Timeouts]:
    """Timeouts and what was lost in them, for each segment size; `given` has what depends on it."""
    length = {"duration": "4s" if lab.quick else "20s"}
    points = [
        ("incast", SETTING | given(size) | length | {"segment": f"{size}B", "servers": servers})
        for size in sizes
    ]
    found = []
    for size, runs in zip(sizes, lab.sweep(points, runs=2, keep=("events",)), strict=True):
        events = runs.events
        what = events["what"]
        # Repetitions lose nothing new, and a lost SYN carries no data.
        first = what.str.starts_with("timeout") & ~what.is_in(["timeout: repeated", "timeout: syn"])
        lost = np.ceil(events.filter(first)["lost_bytes"].to_numpy() / size)
        kinds = what.filter(first)
        whole, repair = (int((kinds == f"timeout: {k}").sum()) for k in ("window lost", "retransmit lost"))
        found.append(Timeouts(size, lost, float(sum(runs.values("blocks") + 1)), whole, repair))
    return found


def _wrong(found: Sequence[Timeouts]) -> list[str]:
    """What of the statement on figures 4.7 to 4.10 does not hold."""
    rates = [t.per_block for t in found]
    medians = [float(np.median(t.lost)) for t in found if t.lost.size]
    return [
        text
        for bad, text in (
            (any(b > a for a, b in pairwise(rates)), "timeouts do not become fewer with every step"),
            (any(b < a for a, b in pairwise(medians)), "the loss per timeout does not grow with every step"),
            (rates[-1] > 0, f"segments of {found[-1].segment} B still have {rates[-1]:.2f} per block"),
        )
        if bad
    ]


def _counted(found: Sequence[Timeouts]) -> str:
    medians = [f"{np.median(t.lost):.0f}" for t in found if t.lost.size]
    return (
        f"{listed([f'{t.segment} B' for t in found])}: {listed([f'{t.per_block:.2f}' for t in found])} "
        "timeouts "
        f"per block, median loss {listed(medians)} packets"
    )


def histogram_row(number: int, servers: int) -> Row:
    """One of figures 4.7 to 4.10."""

    def check(lab: Lab) -> Finding:
        """Confirmed when timeouts per block never rise from a segment size to the next smaller one, the
        median of the packets lost per timeout never falls (as long as there are timeouts), and the smallest
        segments have none.

        Run beside it when it does not hold: buffer and receive window as ns-2 counts them, in packets.
        """
        found = timeouts(lab, servers)
        name = f"I-4.{number}"
        path = _draw_histogram(lab, name, f"Timeouts by what they lost, {servers} servers", found)
        wrong = _wrong(found)
        if not wrong:
            return Finding(True, _counted(found), figures=(path,))
        # n windows of 32 packets fit the buffer with segments up to this size.
        room = ROOM / (servers * WINDOW)
        sizes = SEGMENTS if room >= SEGMENTS[-1] else (*SEGMENTS, SMALLEST)
        both = timeouts(lab, servers, sizes, in_packets)
        also = _draw_histogram(
            lab, f"{name}-packets", f"The same, windows of 32 packets, {servers} servers", both
        )
        [buffer_only] = timeouts(
            lab, servers, sizes[-1:], lambda size: in_packets(size) | {"rwnd": f"{ROOM}B"}
        )
        last = found[-1]
        still = _wrong(both)
        reason = (
            f"{'; '.join(wrong)}. Of {last.lost.size} timeouts at {last.segment} B {last.whole} lost the "
            "whole "
            f"window and {last.repair} a retransmission: a window of 32 KB lets every sender fill the buffer "
            "alone, whatever the segment. Counted as ns-2 counts, in packets (the buffer's 32 KB without "
            "headers, the window's 32 KB as 32 packets of any size), "
            f"{'all of the statement appears' if not still else 'there remains only: ' + '; '.join(still)}: "
            f"{_counted(both)}. {servers} windows of 32 packets fit a buffer of 32 KB with segments up to "
            f"{room:.0f} B, so that the limit depends on the number of servers, as the book says. With only "
            f"the buffer in packets, {buffer_only.segment} B have {buffer_only.per_block:.2f} timeouts "
            "per block: "
            "it is the window."
        )
        return Finding(False, _counted(found), reason, (path, also))

    return Row(
        f"I-4.{number}",
        "incast",
        f"Packets lost per timeout, {servers} servers (Fig. 4.{number})",
        "Smaller segments have fewer timeouts, each after more lost packets; small enough ones have none.",
        check,
    )


def _draw_histogram(lab: Lab, name: str, title: str, found: Sequence[Timeouts]) -> Path:
    with figures.style():
        figure, (ax,) = figures.new(width=7.4)
        top = max([float(t.lost.max()) for t in found if t.lost.size], default=1.0)
        edges = np.unique(np.round(np.geomspace(1, top + 1, 24)))
        for i, t in enumerate(found):
            count, _ = np.histogram(t.lost, edges)
            ax.plot(edges[:-1], count / t.blocks, label=f"{t.segment} B", **figures.look(i))
        ax.set_xscale("log")
        ax.set_xticks([tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if tick <= top])
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.xaxis.set_minor_formatter("")
        ax.set(xlabel="packets lost in a timeout", ylabel="timeouts per block")
        ax.set_title(title)
        beside_plot(ax, title="segment")
    return lab.save(figure, name)


#: Section 4.3.1; every transfer begins with small segments (choices.toml).
RESIZING: dict[str, Any] = {"segment_start": "50B", "resize_window": 50, "resize_from": "transfer"}
TCP, COMPRESSED = "plain TCP", "segment resizing, compressed headers"
RESIZED, ONCE = "segment resizing, full headers", "resizing once per connection"


def resizing(lab: Lab) -> Finding:
    """Confirmed when segment resizing with compressed headers (MSS_dsr = 50 B, cwnd_dsr = 50) gets at most
    20 % less goodput than plain TCP with one and two servers, and more, with separate 95 % intervals, at
    every number above three.

    Also drawn: the same without header compression, and with small segments only at the start of a
    connection.
    """
    variants: dict[str, dict[str, Any]] = {
        TCP: {},
        COMPRESSED: RESIZING | {"header_compression": True},
        RESIZED: RESIZING,
        ONCE: RESIZING | {"header_compression": True, "resize_from": "connection"},
    }
    found = compare(lab, {label: {"buffer": "32KB"} | given for label, given in variants.items()})
    path = draw(lab, "I-4.11", "Dynamic segment resizing", list(found.values()))
    plain, dsr, full_headers = found[TCP], found[COMPRESSED], found[RESIZED]
    n = np.array(plain.servers)
    ratio = dsr.goodput / plain.goodput
    more = dsr.goodput - dsr.half > plain.goodput + plain.half
    measured = (
        f"goodput over plain TCP {ratio[0]:.2f} and {ratio[1]:.2f} with 1 and 2 servers, "
        f"{ratio[n > 3].min():.2f}..{ratio[n > 3].max():.2f} above 3; without header compression "
        f"{(full_headers.goodput / plain.goodput)[n > 3].min():.2f}.."
        f"{(full_headers.goodput / plain.goodput)[n > 3].max():.2f}; small segments only once per connection "
        f"{(found[ONCE].goodput / plain.goodput)[n > 3].min():.2f}.."
        f"{(found[ONCE].goodput / plain.goodput)[n > 3].max():.2f}"
    )
    if bool(np.all(ratio[:2] >= 0.8)) and bool(np.all(more[n > 3])):
        return Finding(True, measured, figures=(path,))
    few = [dsr.sets[i].mean("measured_s") / dsr.sets[i].mean("blocks") for i in (0, 1)]
    tcp = [plain.sets[i].mean("measured_s") / plain.sets[i].mean("blocks") for i in (0, 1)]
    # As many bytes at the start of a transfer as plain TCP: two segments of 1000 B are 40 of 50 B.
    begun = {"buffer": "32KB", "initial_window": 40} | variants[COMPRESSED]
    (filled,) = compare(lab, {"": begun}, (1, 2, 4, 8, 16, 32, 48)).values()
    also = [plain.servers.index(m) for m in filled.servers]
    again, many = filled.goodput / plain.goodput[also], n[also] > 3
    once = found[ONCE].goodput / plain.goodput
    clear = (filled.goodput - filled.half > (plain.goodput + plain.half)[also])[many]
    reason = (
        "Every transfer spends about nine round trips on growing from two segments of 50 B to the full "
        f"size: a block takes {listed([f'{t * 1e3:.2f}' for t in few])} ms with 1 and 2 servers instead of "
        f"{listed([f'{t * 1e3:.2f}' for t in tcp])} ms. Begun with the bytes plain TCP begins with (40 "
        "segments "
        f"of 50 B, initial_window=40), goodput over plain TCP is {again[0]:.2f} and {again[1]:.2f} with "
        "1 and 2 "
        f"servers, {again[many].min():.2f}..{again[many].max():.2f} above 3 (separate intervals at "
        f"{np.count_nonzero(clear)} of {clear.size}): slightly worse and far better, as stated. Small "
        "segments "
        f"only once per connection cost nothing with 1 server ({once[0]:.2f}) but do not help everywhere "
        "above "
        f"3 (from {once[n > 3].min():.2f})."
    )
    return Finding(False, measured, reason, (path,))


# --- DCTCP, and all remedies side by side (section 4.1.4) ---------------------------------------------------

DCTCP = {"protocol": "dctcp", "queue": "threshold:k=20pkt"}


def dctcp(lab: Lab) -> Finding:
    """Confirmed when the collapse of DCTCP begins at more servers than that of TCP, but begins: at some
    number of servers up to 128, past its peak, DCTCP has less than half of its best goodput.

    Also drawn: every remedy beside the others.
    """
    servers = (*SERVERS, 64, 96, 128)
    found = compare(lab, {"NewReno": {}, "DCTCP, K = 20 packets": DCTCP}, servers)
    paths = (draw(lab, "I-dctcp", "DCTCP under incast", list(found.values())), side_by_side(lab))
    tcp, other = found["NewReno"], found["DCTCP, K = 20 packets"]
    measured = f"onset at {tcp.onset} servers with TCP, {other.onset} with DCTCP"
    if other.onset is not None:
        measured += f" ({mbps(other.at(other.onset))} Mb/s there, best {mbps(other.goodput.max())} Mb/s)"
    if tcp.onset is not None and other.onset is not None and other.onset > tcp.onset:
        return Finding(True, measured, figures=paths)
    reason = (
        f"DCTCP's smallest window is one segment: 128 servers put {128} packets on a path that holds 32 in "
        "the "
        f"buffer and {(200e-6 + 2 * 8.32e-6) / 8.32e-6:.0f} on the way; its goodput there is "
        f"{mbps(other.goodput[-1])} Mb/s."
    )
    return Finding(False, measured, reason, paths)


def side_by_side(lab: Lab) -> Path:
    """Goodput under every remedy of chapter 4 and ICTCP, one scenario option each."""
    remedies: dict[str, dict[str, Any]] = {
        "none": {},
        "buffer 128 KB": {"buffer": "128pkt"},
        "SRU 1 MB": {"sru": "1MB"},
        "RTOmin 200 us, tick 100 us": {"rto_min": "200us", "rto_granularity": "100us"},
        "tail-loss probe (SACK)": {"protocol": "sack", "tail_loss_probe": True},
        "DCTCP": DCTCP,
        "ICTCP": {"receive_control": "ictcp"},
        "retransmit thread, p = 0.001": THREAD | {"retransmit_probability": 1e-3},
        "segment resizing, compressed": RESIZING | {"header_compression": True, "buffer": "32KB"},
    }
    servers = tuple(n for n in SERVERS if n in (1, 2, 4, 6, 8, 12, 16, 24, 32, 48))
    shown = list(compare(lab, remedies, servers).values())
    with figures.style():
        figure, (ax,) = figures.new(width=8.2, height=4.6)
        none, *others = shown
        ax.plot(none.servers, none.goodput / 1e6, color=figures.INK, linewidth=2.6, label=none.label)
        for i, curve in enumerate(others):
            figures.band(ax, curve.servers, curve.goodput / 1e6, curve.half / 1e6, curve.label, i)
        ax.set(xlabel="number of servers", ylabel="goodput (Mb/s)", ylim=(0, 1000))
        ax.set_title("Remedies side by side")
        beside_plot(ax)
    return lab.save(figure, "I-remedies")


ROWS: list[Row] = [
    Row(
        "I-4.4",
        "incast",
        "Effect of the retransmission probability (Fig. 4.4)",
        "Higher p raises the throughput by orders of magnitude above 8 senders.",
        higher_p,
    ),
    Row(
        "I-4.5",
        "incast",
        "Drop ratio over the retransmission probability (Fig. 4.5)",
        "The drop ratio grows with p; p = 0.001 is the best compromise.",
        drops_with_p,
    ),
    Row(
        "I-4.6",
        "incast",
        "Probabilistic retransmission beside a fast timer (Fig. 4.6)",
        "p = 0.001 beats default TCP everywhere, RTO 200 us above 10 senders, and is slightly below it at 5 "
        "to 10.",
        against_fast_timer,
    ),
    *(histogram_row(number, servers) for number, servers in ((7, 5), (8, 10), (9, 20), (10, 50))),
    Row(
        "I-4.11",
        "incast",
        "Dynamic segment resizing (Fig. 4.11)",
        "Slightly worse than TCP below 3 senders, far better above.",
        resizing,
    ),
    Row(
        "I-dctcp",
        "incast",
        "DCTCP under incast (section 4.1.4)",
        "DCTCP delays the collapse but cannot prevent it when one packet each overflows the buffer.",
        dctcp,
    ),
]
