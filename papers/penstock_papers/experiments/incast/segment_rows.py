"""Section 4.3: small segments, and segments that grow with the window (Fig 4.7 to 4.11).

Where segments are smaller than 1 KB the buffer counts bytes, and the receive window is 32 KB as the book
says; what ns-2 would count, packets, runs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.runs import RunSet
from penstock_papers.experiments.common import Floats
from penstock_papers.experiments.incast.setup import (
    CHOSEN,
    OPEN,
    PROBED,
    Curve,
    beside_plot,
    chosen,
    curves,
    draw,
    listed,
    told,
)
from penstock_papers.experiments.incast.thread import BRIEF, BRIEF_RUNS, SETTING, compare
from penstock_papers.ledger import (
    CONFIRMED,
    Cause,
    Criterion,
    Estimate,
    Lab,
    Measurement,
    Row,
    claim_criterion,
    monotone,
    none,
)
from penstock_papers.ledger.criteria import RANK

# Segment sizes of figures 4.7 to 4.10, bytes (choices.toml).
SEGMENTS: tuple[int, ...] = tuple(CHOSEN["segments"])
# Beside them where windows count packets: with 50 servers no size above fits.
SMALLEST = 20
# Buffer and receive window of section 4.3, bytes; and that window in segments of Table 3.1.
ROOM, WINDOW = 32_000, 32

BYTES, PACKETS = "bytes", "packets"


def settings(
    segment: int,
    *,
    buffer: str = CHOSEN["buffer_of_small_segments"],
    window: str = CHOSEN["window_of_small_segments"],
) -> dict[str, Any]:
    """Buffer and receive window for a segment: of bytes on the wire or of payload, in bytes or packets."""
    return {
        "segment": f"{segment}B",
        "buffer": f"{ROOM}B" if buffer == "bytes on the wire" else f"{ROOM // segment}pkt",
        "rwnd": f"{ROOM}B" if window == BYTES else f"{WINDOW}pkt",
    }


def in_packets(segment: int) -> dict[str, Any]:
    """As ns-2 counts: the buffer in packets without their headers, the window in packets of any size."""
    return settings(segment, buffer="bytes of payload", window=PACKETS)


def _no_new(segment: int) -> dict[str, Any]:
    """The stated ones without limited transmit (RFC 3042)."""
    return settings(segment) | {"limited_transmit": False}


@dataclass(frozen=True)
class Timeouts:
    """Timeouts with one segment size: packets each had lost (all runs), how many per block in each run, and
    how many lost the whole window, or a retransmission during fast recovery.
    """

    segment: int
    lost: Floats
    per_block: Floats
    whole: int
    repair: int


def count(segment: int, runs: RunSet) -> Timeouts:
    """The timeouts of runs with their event tables."""
    # Repetitions lose nothing new, and a lost SYN carries no data.
    left_out = ["timeout: repeated", "timeout: syn"]
    lost, per_block, whole, repair = [], [], 0, 0
    for i, run in enumerate(runs.runs):
        events = runs.tables(i)["events"]
        what = events["what"]
        first = events.filter(what.str.starts_with("timeout") & ~what.is_in(left_out))
        lost.append(np.ceil(first["lost_bytes"].to_numpy() / segment))
        per_block.append(first.height / (run.summary["blocks"] + 1))
        whole += int((first["what"] == "timeout: window lost").sum())
        repair += int((first["what"] == "timeout: retransmit lost").sum())
    return Timeouts(segment, np.concatenate(lost), np.array(per_block), whole, repair)


def timeouts(
    lab: Lab,
    servers: int,
    given: Callable[[int], dict[str, Any]],
    sizes: Sequence[int] = SEGMENTS,
    **more: Any,
) -> list[Timeouts]:
    """Timeouts and what was lost in them, for each segment size; `given` has what depends on it."""
    runs = more.pop("runs", 0) or lab.replications(3, 3)
    length = {"duration": lab.pick("20s", "700ms", "300ms")} | more
    points = [("incast", SETTING | given(size) | length | {"servers": servers}) for size in sizes]
    sets = lab.sweep(points, runs=runs, keep=("events",))
    return [count(size, found) for size, found in zip(sizes, sets, strict=True)]


FEWER, RIGHT, NONE = monotone(rising=False), monotone(rising=True), none

# Timeouts from which on a histogram has a peak, and resamplings of them for its interval.
ENOUGH, RESAMPLED = 30, 200
# Bins of a histogram.
BINS = 23


def _peak(lost: Floats, edges: Floats) -> float:
    """The middle of the bin that has the most timeouts, as a ratio: the same for bins of every kind."""
    at = int(np.argmax(np.histogram(lost, edges)[0]))
    return float(np.sqrt(edges[at] * max(edges[at + 1] - 1, edges[at])))


# Where fewer than two sizes have a peak, or it moves otherwise in other bins, nothing is known of its way.
UNKNOWN = [Estimate.unknown()] * 2


def peaks(found: Sequence[Timeouts], edges: Floats) -> list[Estimate]:
    """The peaks of those histograms that have timeouts enough, from the largest segment to the smallest."""
    known = [peak(t.lost, edges) for t in found if t.lost.size >= ENOUGH]
    return known if len(known) > 1 else UNKNOWN


def peak(lost: Floats, edges: Floats) -> Estimate:
    """The peak of a histogram of timeouts by what they lost, with the interval of resampling them (percentile
    bootstrap).
    """
    rng = np.random.default_rng(1)
    peaks = [_peak(rng.choice(lost, lost.size), edges) for _ in range(RESAMPLED)]
    low, high = np.percentile(peaks, [2.5, 97.5])
    middle = _peak(lost, edges)
    return Estimate(middle, min(float(low), middle), max(float(high), middle), scale=RANK)


def numbers(found: Sequence[Timeouts]) -> dict[str, Any]:
    """What the statements on figures 4.7 to 4.10 are judged by, and their histograms."""
    top = max([float(t.lost.max()) for t in found if t.lost.size], default=1.0)
    edges = np.unique(np.round(np.geomspace(1, top + 1, BINS + 1)))
    # As many bins of equal width: those of equal ratio widen to the right, and may move a peak by themselves.
    width = math.ceil(top / BINS)
    ways = {
        "ratio": peaks(found, edges),
        "width": peaks(found, np.linspace(1.0, 1.0 + BINS * width, BINS + 1)),
    }
    agree = RIGHT.judge(ways["ratio"]) == RIGHT.judge(ways["width"])
    medians = [float(np.median(t.lost)) for t in found if t.lost.size]
    return {
        "segments": [t.segment for t in found],
        "per block": [Estimate.of(t.per_block) for t in found],
        # A curve of one point neither rises nor falls; then its peak has not moved to the right.
        "medians": medians if len(medians) > 1 else [1.0, 1.0],
        "peaks": ways["ratio"] if agree else UNKNOWN,
        "peaks by bins": ways,
        "timeouts counted": [int(t.lost.size) for t in found],
        "smallest": float(found[-1].per_block.max()),
        "of the smallest": [int(found[-1].lost.size), found[-1].whole, found[-1].repair],
        "edges": edges,
        "histograms": [
            np.histogram(t.lost, edges)[0] / max(1, t.lost.size) * t.per_block.mean() for t in found
        ],
    }


def _fits(servers: int) -> float:
    """The segment (bytes) up to which the windows of all servers fit the buffer, in packets."""
    return ROOM / (servers * WINDOW)


def _draw_histogram(title: str, found: Mapping[str, Any]) -> figures.Figure:
    with figures.style():
        figure, (ax,) = figures.new(width=7.4)
        edges = np.asarray(found["edges"])
        for i, (segment, share) in enumerate(zip(found["segments"], found["histograms"], strict=True)):
            ax.plot(edges[:-1], share, label=f"{segment} B", **figures.look(i))
        ax.set_xscale("log")
        ax.set_xticks([tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if tick <= edges[-1]])
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.xaxis.set_minor_formatter("")
        ax.set(xlabel="packets lost in a timeout", ylabel="timeouts per block")
        ax.set_title(title)
        beside_plot(ax, title="segment")
    return figure


def _rates(m: Mapping[str, Any]) -> str:
    return f"{told(m['per block'], '.2f')} per block with {listed(m['segments'])} B"


def peaks_in_words(m: Mapping[str, Any]) -> str:
    """Where the peaks are, or that too few sizes have one."""
    ways = m["peaks by bins"]
    if not all(math.isfinite(e.high) for e in ways["ratio"]):
        return f"fewer than two sizes have {ENOUGH} timeouts: {listed(m['timeouts counted'])}"
    return (
        f"peaks at {told(ways['ratio'])} packets in bins of equal ratio, {told(ways['width'])} in bins of "
        f"equal width, of {listed(m['timeouts counted'])} timeouts"
    )


def _medians(m: Mapping[str, Any]) -> str:
    return f"median loss {listed([f'{x:.0f}' for x in m['medians']])} packets"


def _in_packets(servers: int, claim: str, key: str, criterion: Criterion) -> Cause:
    """Counted as ns-2 counts, a claim of figures 4.7 to 4.10 holds."""
    return Cause(
        "a window of 32 KB lets every sender fill the buffer alone, whatever the segment; counted as ns-2 "
        "counts, windows and buffer in packets, the statement holds",
        holds=lambda m: criterion.judge(m["in packets"][key]) == CONFIRMED,
        evidence=lambda m: (
            f"{m['of the smallest'][1]} of {m['of the smallest'][0]} timeouts with the smallest segment lost "
            f"the whole window and {m['of the smallest'][2]} a retransmission; in packets "
            f"{_rates(m['in packets'])}, {_medians(m['in packets'])}; {servers} windows of {WINDOW} packets "
            f"fit the buffer with segments up to {_fits(servers):.0f} B, and with only the buffer in packets "
            f"the smallest have {m['buffer only']} per block"
        ),
        of=(claim,),
    )


_NO_NEW = Cause(
    "limited transmit, which section 2.4.2 describes, sends new segments at the first two duplicate ACKs and "
    "so decides which losses end in a timeout; without it the statement holds",
    holds=lambda m: RIGHT.judge(m["no limited transmit"]["peaks"]) == CONFIRMED,
    evidence=lambda m: (
        f"without limited transmit {_medians(m['no limited transmit'])} and "
        f"{_rates(m['no limited transmit'])}"
    ),
    of=("right",),
)


def histogram_row(number: int, servers: int, *, more: Sequence[Cause] = ()) -> Row:
    """One of figures 4.7 to 4.10; `more` are causes that need runs without limited transmit."""
    # Windows of all servers that fit the buffer need a smaller segment with more servers.
    sizes = SEGMENTS if _fits(servers) >= SEGMENTS[-1] else (*SEGMENTS, SMALLEST)

    def measure(lab: Lab) -> Measurement:
        buffer_only = timeouts(
            lab, servers, lambda size: settings(size, buffer="bytes of payload"), sizes[-1:]
        )
        # What the causes in `more` compare.
        beside = {"no limited transmit": numbers(timeouts(lab, servers, _no_new))} if more else {}
        return {
            **beside,
            **numbers(timeouts(lab, servers, settings)),
            "in packets": numbers(timeouts(lab, servers, in_packets, sizes)),
            "buffer only": Estimate.of(buffer_only[0].per_block),
        }

    def sketch(m: Measurement, lab: Lab) -> list[Path]:
        own = _draw_histogram(f"Timeouts by what they lost, {servers} servers", m)
        other = _draw_histogram(f"The same, windows of {WINDOW} packets, {servers} servers", m["in packets"])
        return [lab.save(own, f"I-4.{number}"), lab.save(other, f"I-4.{number}-packets")]

    def probe(lab: Lab, point: Mapping[str, Any]) -> Measurement:
        open_ = {key: point[name] for name, key in OPEN.items()}
        counted = {"buffer": point["buffer_of_small_segments"], "window": point["window_of_small_segments"]}
        return numbers(
            timeouts(
                lab, servers, lambda size: open_ | settings(size, **counted), runs=PROBED, duration="400ms"
            )
        )

    return Row(
        f"I-4.{number}",
        f"Packets lost per timeout, {servers} servers (Fig 4.{number})",
        measure=measure,
        draw=sketch,
        causes=(
            *(
                _in_packets(servers, claim, key, criterion)
                for claim, key, criterion in (
                    ("fewer", "per block", FEWER),
                    ("right", "peaks", RIGHT),
                    ("none", "smallest", NONE),
                )
            ),
            *more,
        ),
        matters=(*OPEN, "buffer_of_small_segments", "window_of_small_segments"),
        probe=probe,
    )


# ---- I-4.11 -----------------------------------------------------------------------------------------------

# Section 4.3.1; every transfer begins with small segments (choices.toml).
RESIZING: dict[str, Any] = {"segment_start": "50B", "resize_window": 50, "resize_from": CHOSEN["resize_from"]}
TCP, COMPRESSED = "plain TCP", "segment resizing, compressed headers"
FULL_HEADERS, ONCE = "segment resizing, full headers", "resizing once per connection"
FILLED = "begun with as many bytes as plain TCP"


def ratios(found: Curve, plain: Curve) -> dict[str, Any]:
    """Goodput over plain TCP's at one and two servers, and above three; run by run."""
    n = np.array(found.servers)
    ratio = found.per_run() / plain.per_run()[[plain.servers.index(m) for m in found.servers]]

    def at(where: Any) -> dict[str, Estimate]:
        both = zip(n, ratio, where, strict=True)
        return {f"{int(m)} servers": Estimate.of(row) for m, row, use in both if use}

    return {"few": at(n < 3), "many": at(n > 3)}


def _measure_resizing(lab: Lab) -> Measurement:
    variants: dict[str, dict[str, Any]] = {
        TCP: {},
        COMPRESSED: RESIZING | {"header_compression": True},
        FULL_HEADERS: RESIZING,
        ONCE: RESIZING | {"header_compression": True, "resize_from": "connection"},
        # As many bytes at the start of a transfer: two segments of 1000 B are 40 of 50 B.
        FILLED: RESIZING | {"header_compression": True, "initial_window": 40},
    }
    found = compare(lab, {name: {"buffer": f"{ROOM}B"} | given for name, given in variants.items()})
    plain, resized = found[TCP], found[COMPRESSED]
    # Where a timeout costs next to nothing; at those servers only.
    few = [n for n in plain.servers if n < 3]
    soon = {"buffer": f"{ROOM}B", "rto_min": "200us"}
    fast = compare(lab, {TCP: soon, COMPRESSED: soon | variants[COMPRESSED]}, few)
    blocks = [
        1e3 * s.mean("measured_s") / max(1.0, s.mean("blocks")) for s in (plain.sets[0], resized.sets[0])
    ]
    return {
        **ratios(resized, plain),
        "others": {name: ratios(found[name], plain) for name in (FULL_HEADERS, ONCE, FILLED)},
        "RTOmin 200 us": ratios(fast[COMPRESSED], fast[TCP])["few"],
        "timeouts of plain TCP": {f"{n} servers": plain.at(n).mean("timeouts") for n in few},
        "block of one server": blocks,
        "curves": {name: curve.numbers() for name, curve in found.items()},
    }


def _probe_resizing(lab: Lab, point: Mapping[str, Any]) -> Measurement:
    base = chosen(point) | {"rto_initial": "200ms", "buffer": f"{ROOM}B"}
    resized = base | RESIZING | {"header_compression": True, "resize_from": point["resize_from"]}
    found = curves(lab, {TCP: base, COMPRESSED: resized}, (1, 2, 5, 16), length=BRIEF, runs=BRIEF_RUNS)
    return ratios(found[COMPRESSED], found[TCP])


def _span(found: Mapping[str, Estimate]) -> str:
    return f"{min(e.mean for e in found.values()):.2f} to {max(e.mean for e in found.values()):.2f}"


PENALTY, BETTER = claim_criterion("I-4.11/penalty"), claim_criterion("I-4.11/outperforms")


def _begun(claim: str, key: str, criterion: Criterion) -> Cause:
    """Transfers that begin with plain TCP's bytes make a claim of I-4.11 hold."""
    return Cause(
        "every transfer spends several round trips on growing from two small segments to the full size; "
        "begun with as many bytes as plain TCP begins with, the statement holds",
        holds=lambda m: criterion.judge(m["others"][FILLED][key]) == CONFIRMED,
        evidence=lambda m: (
            f"a block of one server takes {m['block of one server'][1]:.2f} ms instead of "
            f"{m['block of one server'][0]:.2f}; begun with 40 segments of 50 B "
            f"{_span(m['others'][FILLED][key])} times plain TCP"
        ),
        of=(claim,),
    )


def _waits(m: Measurement) -> bool:
    """Whether one server pays little where it begins with plain TCP's bytes, and two pay little, too, where
    plain TCP, which has timeouts with two servers, does not wait for them.
    """
    two = "2 servers"
    return (
        # The shortest runs do not have one server.
        "1 servers" in m["others"][FILLED]["few"]
        and PENALTY.judge([m["others"][FILLED]["few"]["1 servers"], m["RTOmin 200 us"][two]]) == CONFIRMED
        and BETTER.judge([m["few"][two]]) == CONFIRMED
        and m["timeouts of plain TCP"][two] > 0
    )


def beside_plain(m: Measurement, key: str) -> str:
    """Goodput over plain TCP's, with other beginnings of a transfer, too."""
    others = ", ".join(f"{name} {_span(found[key])}" for name, found in m["others"].items())
    return f"{_span(m[key])} times plain TCP ({others})"


I_4_11 = Row(
    "I-4.11",
    "Dynamic segment resizing (Fig 4.11)",
    measure=_measure_resizing,
    draw=lambda m, lab: [lab.save(draw("Dynamic segment resizing", m["curves"]), "I-4.11")],
    causes=(
        _begun("penalty", "few", PENALTY),
        _begun("outperforms", "many", BETTER),
        Cause(
            "one server pays for growing from two small segments in every transfer, and little where it "
            "begins with as many bytes as plain TCP; with two servers plain TCP collapses already, so that "
            "resizing gains",
            holds=lambda m: (
                # The shortest runs do not have one server.
                "1 servers" in m["others"][FILLED]["few"]
                and PENALTY.judge([m["others"][FILLED]["few"]["1 servers"]]) == CONFIRMED
                and BETTER.judge([m["few"]["2 servers"]]) == CONFIRMED
                and m["curves"][TCP]["onset"].mean <= 2
            ),
            evidence=lambda m: (
                f"times plain TCP: {listed([f'{n} {e}' for n, e in m['few'].items()])}; begun with as many "
                f"bytes: {listed([f'{n} {e}' for n, e in m['others'][FILLED]['few'].items()])}; plain TCP's "
                f"onset: {m['curves'][TCP]['onset']} servers"
            ),
            of=("penalty",),
        ),
        Cause(
            "one server pays for growing from two small segments in every transfer, and little where it "
            "begins with as many bytes as plain TCP; with two servers plain TCP waits for timeouts, which "
            "resizing avoids: where a timeout is short, resizing costs two servers a little as well",
            holds=_waits,
            evidence=lambda m: (
                f"begun with as many bytes: 1 servers {m['others'][FILLED]['few']['1 servers']}; as stated: "
                f"{listed([f'{n} {e}' for n, e in m['few'].items()])}; with RTOmin 200 us: "
                f"{listed([f'{n} {e}' for n, e in m['RTOmin 200 us'].items()])}; timeouts of plain TCP: "
                f"{listed([f'{n} {x:.0f}' for n, x in m['timeouts of plain TCP'].items()])}"
            ),
            of=("penalty",),
        ),
    ),
    matters=(*OPEN, "resize_from"),
    probe=_probe_resizing,
)

SEGMENT_ROWS = [
    *(histogram_row(k, n) for k, n in ((7, 5), (8, 10), (9, 20))),
    histogram_row(10, 50, more=(_NO_NEW,)),
    I_4_11,
]
