"""Section 4.1: what others do against the collapse: larger buffers, larger requests, a lower floor of the
timeout (Fig 4.1 to 4.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from penstock_papers.experiments.common import Floats, onset, onsets
from penstock_papers.experiments.incast import setup
from penstock_papers.ledger import CONFIRMED, Cause, Estimate, Lab, Measurement, Row, claim_criterion, ordered

# ---- I-4.1 ------------------------------------------------------------------------------------------------

SIZES = (32, 64, 128, 256)
UP_TO_96 = (2, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64, 80, 96)
QUICK_96 = (4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
FEW_96 = (4, 6, 8, 10, 12, 16, 24, 32, 48, 64)
# Room for the windows of 20 segments of 96 servers.
AMPLE = "1920pkt"
BUFFERS = tuple(f"{size} KB" for size in SIZES)
DOUBLES = claim_criterion("I-4.1/doubles")
# A drop of the peak: less than this share of the best, past the best.
DROP = 0.9


def path_packets(link_delay_s: float) -> float:
    """What the path holds on its own: two links there and back, a segment being serialised twice."""
    wire = setup.WIRE * 8 / setup.LINK_BPS
    return (4 * link_delay_s + 2 * wire) / wire


def per_doubling(starts: Sequence[float], sizes: Sequence[float]) -> float:
    """The factor between onsets per doubling of a size; inf where a collapse never came."""
    if not np.isfinite(starts).all():
        return math.inf
    return float((starts[-1] / starts[0]) ** (1 / math.log2(sizes[-1] / sizes[0])))


def _factor(starts: Floats) -> Estimate:
    """The factor per doubling of each run, with its interval; inf where in a run one end never came."""
    factors = [per_doubling(run, (SIZES[0], SIZES[-1])) for run in starts.T]
    return Estimate.of(factors) if np.isfinite(factors).all() else Estimate.exact(math.inf)


def _factors(found: Mapping[str, setup.Curve], sizes: Sequence[int]) -> Estimate:
    return _factor(np.array([found[str(size)].onsets for size in sizes]))


def _falling(found: Mapping[str, setup.Curve]) -> dict[str, Any]:
    """Where each buffer first gets less than nine tenths of the best of all, and the factor per doubling."""
    best = max(curve.per_run().mean(axis=1).max() for curve in found.values())
    low = [(np.array(curve.servers), curve.per_run() < DROP * best) for curve in found.values()]
    starts = np.array([np.where(x.any(axis=0), n[x.argmax(axis=0)], math.inf) for n, x in low])
    return {"at": [Estimate.median(run) for run in starts], "per doubling": _factor(starts)}


def _doubling(found: Mapping[str, setup.Curve]) -> dict[str, Any]:
    return {
        "onsets": {f"{size} KB": Estimate.median(curve.onsets) for size, curve in found.items()},
        "per doubling": _factors(found, (SIZES[0], SIZES[-1])),
        "first falls": _falling(found),
    }


def _avoided(small: setup.Curve, ample: setup.Curve) -> dict[str, Any]:
    """Goodput over the best of a curve at each number of servers from the onset with the smallest buffer on:
    with a buffer for all windows, and with the smallest.
    """
    start = onset(small.servers, small.per_run().mean(axis=1)) or small.servers[-1]

    def kept(curve: setup.Curve) -> list[Estimate]:
        share = curve.per_run() / curve.per_run().max(axis=0)
        return [Estimate.of(row) for n, row in zip(curve.servers, share, strict=True) if n >= start]

    return {"kept": {"ample": kept(ample), "smallest": kept(small)}, "collapsed from": start}


def _measure_doubling(lab: Lab) -> Measurement:
    servers = lab.pick(UP_TO_96, QUICK_96, (2, 8, 16, 32))
    sizes = {str(size): setup.CHAPTER_4 | {"buffer": f"{size}pkt"} for size in SIZES}
    found = setup.curves(lab, sizes | {AMPLE: setup.CHAPTER_4 | {"buffer": AMPLE}}, servers)
    ample = found.pop(AMPLE)
    # Where the path itself holds next to nothing: is it the path that keeps the factor below two?
    ends = (SIZES[0], SIZES[-1])
    short = {str(size): setup.CHAPTER_4 | {"buffer": f"{size}pkt", "link_delay": "5us"} for size in ends}
    nearby = setup.curves(lab, short, servers)
    room = [path_packets(delay) for delay in (100e-6, 5e-6)]
    return {
        **_doubling(found),
        **_avoided(found[str(SIZES[0])], ample),
        "curves": {f"{size} KB": found[str(size)].numbers() for size in SIZES},
        "short path": _factors(nearby, ends),
        "path": room,
        "room": [per_doubling([size + path for size in ends], ends) for path in room],
    }


def _probe_doubling(lab: Lab, point: Mapping[str, Any]) -> Measurement:
    given = {
        str(size): setup.chosen(point) | {"link_delay": "100us", "rwnd": "20pkt"} | setup.buffer(size, point)
        for size in SIZES
    }
    given[AMPLE] = given[str(SIZES[0])] | {"buffer": AMPLE}
    found = setup.curves(lab, given, FEW_96, length=setup.SEARCHED, runs=setup.PROBED)
    ample = found.pop(AMPLE)
    return _doubling(found) | _avoided(found[str(SIZES[0])], ample)


def onsets_by_buffer(m: Measurement) -> dict[str, float]:
    """The onset with each buffer, a thousand servers where it never came."""
    return {name: min(m["onsets"][name].mean, 1e3) for name in BUFFERS}


I_4_1 = Row(
    "I-4.1",
    "Effect of the switch buffer on the onset (Fig 4.1)",
    measure=_measure_doubling,
    draw=lambda m, lab: [
        lab.save(setup.draw("Effect of the switch buffer (link delay 100 us)", m["curves"]), "I-4.1")
    ],
    causes=(
        Cause(
            "servers fit while buffer and path hold their windows, and what the path holds does not "
            "double; on a path that holds next to nothing the onset does",
            holds=lambda m: DOUBLES.judge(m["short path"]) == CONFIRMED,
            evidence=lambda m: (
                f"the path holds {m['path'][0]:.0f} packets, buffer and path grow by "
                f"{m['room'][0]:.2f} per doubling; with a link delay of 5 us {m['path'][1]:.0f} packets and "
                f"{m['room'][1]:.2f}, and the onset x {m['short path']}"
            ),
            of=("doubles",),
        ),
        Cause(
            "it holds of the number of servers at which throughput first falls; from there to half of its "
            "best, where a collapse begins here, is farther the smaller the buffer is",
            holds=lambda m: DOUBLES.judge(m["first falls"]["per doubling"]) == CONFIRMED,
            evidence=lambda m: (
                f"below {DROP:.0%} of the best of all from {setup.told(m['first falls']['at'])} servers on, "
                f"x {m['first falls']['per doubling']} per doubling; below half of its own best from "
                f"{setup.told(list(m['onsets'].values()))} on"
            ),
            of=("doubles",),
        ),
    ),
    matters=setup.MATTERS,
    probe=_probe_doubling,
)

# ---- I-4.2 ------------------------------------------------------------------------------------------------

REQUESTS = (64, 128, 256, 512, 1000)
SEVEN = 7
IMPROVES = ordered(*(f"{r} KB" for r in REQUESTS))


def _requests(found: Mapping[str, setup.Curve], small: Any, large: Any) -> dict[str, Any]:
    return {
        "means": {f"{r} KB": Estimate.of(setup.overall(found[str(r)]) / 1e6) for r in REQUESTS},
        "steps": [
            Estimate.of(setup.overall(found[str(b)]) / setup.overall(found[str(a)]))
            for a, b in pairwise(REQUESTS)
        ],
        "means after": {
            f"{r} KB": Estimate.of(setup.overall(found[str(r)], setup.MANY) / 1e6) for r in REQUESTS
        },
        "onset": [Estimate.median(found[str(r)].onsets) for r in REQUESTS],
        "at seven": [Estimate.of(s.values("goodput_bps") / 1e6) for s in (large, small)],
        "ratio": Estimate.of(large.values("goodput_bps") / small.values("goodput_bps")),
        "room": setup.LINK_BPS / small.mean("goodput_bps"),
    }


def _measure_requests(lab: Lab) -> Measurement:
    found = setup.curves(lab, {str(r): setup.BASE | {"sru": f"{r}KB"} for r in REQUESTS}, setup.grid(lab))
    # For the book's 40 s when quick as well: a block of 1 MB takes 58 ms or, with a timeout, 0.26 s and more.
    length = {"duration": lab.pick("40s", "40s", "2s")}
    two = [("incast", setup.BASE | length | {"sru": f"{r}KB", "servers": SEVEN}) for r in (256, 1000)]
    small, large = lab.sweep(two, runs=lab.replications(3, 3))
    return {
        **_requests(found, small, large),
        "curves": {f"{r} KB": found[str(r)].numbers() for r in REQUESTS},
    }


def _probe_requests(lab: Lab, point: Mapping[str, Any]) -> Measurement:
    given = {str(r): setup.chosen(point) | setup.buffer(32, point) | {"sru": f"{r}KB"} for r in REQUESTS}
    found = setup.curves(lab, given, (2, 4, SEVEN, 16), length=setup.SEARCHED, runs=setup.PROBED)
    return _requests(found, found["256"].at(SEVEN), found["1000"].at(SEVEN))


I_4_2 = Row(
    "I-4.2",
    "Effect of larger requests (Fig 4.2)",
    measure=_measure_requests,
    draw=lambda m, lab: [lab.save(setup.draw("Effect of the request size", m["curves"]), "I-4.2")],
    causes=(
        Cause(
            "the smallest requests collapse later, and in the mean over all numbers of servers that counts "
            "for more than what larger ones gain: where all have collapsed the statement holds",
            holds=lambda m: (
                IMPROVES.judge(m["means after"]) == CONFIRMED
                and m["onset"][0].low > m["onset"][-1].mean
                and m["onset"][0].high < setup.MANY
            ),
            evidence=lambda m: (
                f"from {setup.MANY} servers on {setup.told(list(m['means after'].values()))} Mb/s; onset at "
                f"{setup.told(m['onset'])} servers"
            ),
            of=("improves",),
        ),
    ),
    matters=setup.MATTERS,
    probe=_probe_requests,
)

# ---- I-4.3 ------------------------------------------------------------------------------------------------

FLOORS = ("200ms", "20ms", "2ms", "200us")
QUICK_64 = (1, 4, 6, 8, 12, 20, 28, 36, 40, 44, 48, 64)
UP_TO_64 = (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64)


def _floors(found: Mapping[str, setup.Curve]) -> dict[str, Any]:
    slow, fast = found[FLOORS[0]], found[FLOORS[-1]]
    n = np.array(slow.servers)
    start = onset(slow.servers, slow.per_run().mean(axis=1)) or int(n[-1])
    return {
        "start": start,
        "improves": [
            Estimate.of(b / a)
            for a, b in zip(slow.per_run()[n >= start], fast.per_run()[n >= start], strict=True)
        ],
        "drop": Estimate.median(onsets(fast.sets, fast.servers, DROP)),
        "means": {floor: Estimate.of(setup.overall(found[floor], start) / 1e6) for floor in FLOORS},
        "steps": [
            Estimate.of(setup.overall(found[b], start) / setup.overall(found[a], start))
            for a, b in pairwise(FLOORS)
        ],
    }


def _any_size(lab: Lab, given: Mapping[str, Any], servers: int, **length: Any) -> dict[str, Estimate]:
    """200 us over 200 ms, run by run, at one number of servers with a smaller and a larger request."""
    ends, found = (FLOORS[0], FLOORS[-1]), {}
    for name in ("64 KB", "1000 KB"):
        sru = name.replace(" ", "")
        both = setup.curves(lab, {f: {**given, "rto_min": f, "sru": sru} for f in ends}, (servers,), **length)
        slow, fast = (both[f].per_run()[0] for f in ends)
        found[name] = Estimate.of(fast / slow)
    return found


def _measure_floor(lab: Lab) -> Measurement:
    servers = lab.pick(UP_TO_64, QUICK_64, setup.LEAST)
    found = setup.curves(lab, {floor: setup.BASE | {"rto_min": floor} for floor in FLOORS}, servers)
    steady = setup.curves(lab, {"": setup.BASE | {"rto_min": "200us", "backoff_max": 1}}, servers)[""]
    return {
        **_floors(found),
        "any size": _any_size(lab, setup.BASE, servers[-2]),
        "drop without back-off": Estimate.median(onsets(steady.sets, steady.servers, DROP)),
        "curves": {f"RTOmin {floor}": found[floor].numbers() for floor in FLOORS},
        "without back-off": steady.numbers(),
        "trials": _whole_trials(lab),
    }


def _whole_trials(lab: Lab) -> dict[str, float]:
    """Goodput (Mb/s) of a trial from the first SYN on without back-off, with lost SYNs that cost 3 s and with
    those that cost 200 ms, at numbers of servers on either side of 40.
    """
    few, many = 40, 56
    steady = setup.BASE | {"rto_min": "200us", "backoff_max": 1, "duration": lab.pick("40s", "20s", "2s")}
    given = {
        f"{n} servers, SYN {first}": steady | {"servers": n, "rto_initial": first}
        for first in ("3s", "200ms")
        for n in (few, many)
    }
    runs = lab.sweep([("incast", settings) for settings in given.values()])
    return {name: r.mean("goodput_bps") / 1e6 for name, r in zip(given, runs, strict=True)}


def _draw_floor(m: Measurement, lab: Lab) -> list[Path]:
    fast = m["curves"][f"RTOmin {FLOORS[-1]}"]
    both = {"RTOmin 200us": fast, "the same without back-off": m["without back-off"]}
    return [
        lab.save(setup.draw("Effect of the timeout floor", m["curves"]), "I-4.3"),
        lab.save(setup.draw("RTOmin 200 us with and without back-off", both), "I-4.3-no-back-off"),
    ]


def _probe_floor(lab: Lab, point: Mapping[str, Any]) -> Measurement:
    at, servers = setup.chosen(point) | setup.buffer(32, point), (4, 8, 16, 28, 36, 40, 44, 48, 64)
    length: dict[str, Any] = {"length": setup.SEARCHED, "runs": setup.PROBED}
    found = setup.curves(lab, {f: at | {"rto_min": f} for f in FLOORS}, servers, **length)
    return {**_floors(found), "any size": _any_size(lab, at, servers[-2], **length)}


def _told_steady(m: Measurement) -> str:
    trials = setup.listed([f"{name} {rate:.0f}" for name, rate in m["trials"].items()])
    return (
        f"without back-off from {setup.told([m['drop without back-off']])} servers, with it from "
        f"{setup.told([m['drop']])}; whole trials without back-off (Mb/s): {trials}"
    )


_BACK_OFF = Cause(
    "the fall is the timer's exponential back-off: a retransmission that meets the full buffer again "
    "doubles a timeout of a few hundred microseconds, and the block waits",
    holds=lambda m: bool(m["drop without back-off"].mean > m["drop"].mean),
    evidence=_told_steady,
    of=("drop",),
)

I_4_3 = Row(
    "I-4.3",
    "Effect of the timeout floor (Fig 4.3)",
    measure=_measure_floor,
    draw=_draw_floor,
    causes=(_BACK_OFF,),
    matters=setup.MATTERS,
    probe=_probe_floor,
)

REMEDY_ROWS = [I_4_1, I_4_2, I_4_3]
