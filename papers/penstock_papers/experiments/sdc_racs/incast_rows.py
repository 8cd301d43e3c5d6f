"""Sections 3.5.2 and 4.3.2, incast: times and losses of synchronised responses (Fig 3.9, 3.10, 4.6, 4.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from penstock_papers.experiments.common import ratio_of_means
from penstock_papers.experiments.sdc_racs import setup
from penstock_papers.ledger import (
    CONFIRMED,
    Cause,
    Estimate,
    Lab,
    Measurement,
    Row,
    at_most,
    claim_criterion,
    every,
    monotone,
)

SERVERS: tuple[int, ...] = tuple(setup.CHOSEN["simulation.incast_servers"])
# "As the number of servers increases": from the middle of the axis on.
MANY = len(SERVERS) // 2
_FEW = (5, 20, 30, 50)
# 100 packets of 1500 B, counted in bytes.
_BYTES, _BYTES_KB = "150KB", 150
# Windows of all senders together that buffer and pipe hold: 100 packets and 25.
_TOGETHER = 120


def _incast(
    lab: Lab, chosen: Mapping[str, Any], servers: Sequence[int], runs: int, repetitions: int, beside: bool
) -> dict[str, Any]:
    more: dict[str, Any] = {"repetitions": repetitions, "response": "25KB"} | setup.REQUESTS
    who = (*setup.CHAPTER_3, setup.RACS, setup.RCP, *(("DCTCP", "D3") if beside else ()))
    sets = setup.sweep(lab, "query", "servers", servers, who, runs=runs, chosen=chosen, **more)
    by_bytes = setup.sweep(
        lab, "query", "servers", servers, setup.CHAPTER_4, runs=runs, chosen=chosen, buffer=_BYTES, **more
    )
    middle = len(servers) // 2
    return {
        "servers": list(servers),
        "afct": setup.measured(sets, "fct_mean_s", 1e3),
        "loss": setup.measured(sets, "drop_rate", 100),
        "queue": setup.measured(sets, "queue_mean_packets"),
        "SDC over others": [
            Estimate.of(
                np.mean(
                    [
                        own.values("fct_mean_s") / its.values("fct_mean_s")
                        for own, its in zip(sets[setup.SDC][middle:], sets[other][middle:], strict=True)
                    ],
                    axis=0,
                )
            )
            for other in (setup.SACK, setup.ECN)
        ],
        # Where many servers ask, one after the other's loss.
        "RACS's loss over": {
            other: ratio_of_means(
                *(
                    np.mean([s.values("drop_rate") for s in sets[who][middle:]], axis=0)
                    for who in (setup.RACS, other)
                )
            )
            for other in (setup.SDC, setup.RCP)
        },
        "over SDC at the fewest": [
            setup.ratio(sets, other, setup.SDC, "fct_mean_s")[0] for other in (setup.SACK, setup.ECN)
        ],
        "RACS over SDC": setup.ratio(sets, setup.RACS, setup.SDC, "fct_mean_s"),
        "SACK's drops": [Estimate.of(r.values("drops")) for r in sets[setup.SACK]],
        "SDC's drops": [Estimate.of(r.values("drops")) for r in sets[setup.SDC]],
        "loss, by bytes": setup.measured(by_bytes, "drop_rate", 100),
        "queue, by bytes": setup.measured(by_bytes, "queue_mean_packets"),
        "queue in KB, by bytes": setup.measured(by_bytes, "queue_mean_bytes", 1e-3),
        "RACS's drops, by bytes": [Estimate.of(r.values("drops")) for r in by_bytes[setup.RACS]],
    }


def _measure(lab: Lab) -> Measurement:
    runs, repetitions = lab.replications(3, 2), lab.pick(500, 60, 2)
    found = _incast(lab, setup.CHOSEN, SERVERS, runs, repetitions, beside=True)
    one = setup.Contender("one", setup.sdc(initial_window=1))
    more: dict[str, Any] = {"repetitions": repetitions, "response": "25KB"} | setup.REQUESTS
    small = setup.sweep(lab, "query", "servers", SERVERS[-1:], [one], runs=runs, **more)
    known = setup.contenders()[setup.SACK]
    points = [known.settings(servers=n, rwnd=f"{_TOGETHER // n}pkt", **more) for n in SERVERS]
    points.append(known.settings(servers=SERVERS[-1], rto_min="200ms", **more))
    *fitting, late = lab.sweep([("query", given) for given in points], runs=runs)
    return {
        "SACK's loss where windows fit": [Estimate.of(100 * r.values("drop_rate")) for r in fitting],
        "SACK's loss, RTOmin 200 ms": Estimate.of(100 * late.values("drop_rate")),
        **found,
        "first window of one": {
            "loss": setup.measured(small, "drop_rate", 100)["one"][0],
            "afct": setup.measured(small, "fct_mean_s", 1e3)["one"][0],
        },
    }


def _probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return _incast(lab, setup.at(settings), _FEW, 1, 20, beside=False)


def _drawn(
    m: Measurement, lab: Lab, key: str, name: str, who: Sequence[str], ylabel: str, title: str, **more: Any
) -> list[Path]:
    chosen = {label: m[key][label] for label in who}
    return [
        setup.curves(
            lab, name, m["servers"], chosen, xlabel="number of servers", ylabel=ylabel, title=title, **more
        )
    ]


def _draw_39(m: Measurement, lab: Lab) -> list[Path]:
    who = (*setup.CHAPTER_3, "DCTCP", "D3")
    return _drawn(m, lab, "afct", "M-3.9", who, "AFCT (ms)", "Incast: completion time")


def _draw_310(m: Measurement, lab: Lab) -> list[Path]:
    who = (*setup.CHAPTER_3, "DCTCP", "D3")
    return _drawn(m, lab, "loss", "M-3.10", who, "loss rate (%)", "Incast: loss")


def _draw_46(m: Measurement, lab: Lab) -> list[Path]:
    return _drawn(m, lab, "afct", "M-4.6", setup.CHAPTER_4, "AFCT (ms)", "Incast: completion time")


def _draw_47(m: Measurement, lab: Lab) -> list[Path]:
    counted = {"RACS, buffer 100 packets": [e.mean for e in m["loss"][setup.RACS]]}
    title = "Incast: loss (buffer 150 KB)"
    return _drawn(m, lab, "loss, by bytes", "M-4.7", setup.CHAPTER_4, "loss rate (%)", title, extra=counted)


def _where_slower(m: Measurement) -> list[int]:
    """The points from the middle on at which SDC is not the fastest."""
    afct = m["afct"]
    return [
        i
        for i in range(MANY, len(SERVERS))
        if afct[setup.SDC][i].mean > min(afct[setup.SACK][i].mean, afct[setup.ECN][i].mean)
    ]


_DROPS, _QUEUE_KB = "SACK's drops", "queue in KB, by bytes"
_FITTING, _LATE = "SACK's loss where windows fit", "SACK's loss, RTOmin 200 ms"

_row = partial(Row, measure=_measure, probe=_probe)

M_39 = _row(
    "M-3.9",
    "Incast: completion time (Fig 3.9)",
    draw=_draw_39,
    causes=(
        Cause(
            "where SDC is not the fastest it loses packets itself: its advantage was to lose none, and with "
            "a first window of one packet it is faster",
            holds=lambda m: (
                bool(_where_slower(m))
                and all(m["loss"][setup.SDC][i].mean > 0 for i in _where_slower(m))
                and m["first window of one"]["afct"].mean < m["afct"][setup.SDC][-1].mean
            ),
            evidence=lambda m: (
                f"n = {', '.join(str(SERVERS[i]) for i in _where_slower(m))}: it loses "
                f"{setup.told([m['loss'][setup.SDC][i] for i in _where_slower(m)], '.2g')} %; "
                f"at n = {SERVERS[-1]} its AFCT is {m['afct'][setup.SDC][-1].mean:.1f} ms, from one packet "
                f"{m['first window of one']['afct'].mean:.1f} ms"
            ),
            of=("better",),
        ),
    ),
    matters=(*setup.SIZE_AWARE, *setup.TCP),
)

M_310 = _row(
    "M-3.10",
    "Incast: loss (Fig 3.10)",
    draw=_draw_310,
    causes=(
        Cause(
            "it is a share of the packets sent: the number of packets that are lost increases with every "
            "number of servers",
            holds=lambda m: monotone().judge(m[_DROPS]) == CONFIRMED,
            evidence=lambda m: f"packets lost: {setup.over(m['servers'], m[_DROPS])} servers",
            of=("tcp-grows",),
        ),
        Cause(
            "RTOmin says what a loss costs, not how many there are: the windows of the first rounds exceed "
            "buffer and pipe before any loss tells, and where windows are held to what fits there are none",
            holds=lambda m: (
                claim_criterion("M-3.10/tcp-few").judge(m[_FITTING]) == CONFIRMED
                and m[_LATE].low > 0.5 * m["loss"][setup.SACK][-1].mean
            ),
            evidence=lambda m: (
                f"windows held to {_TOGETHER} packets together: {max(e.mean for e in m[_FITTING]):.2g} % at "
                f"most; RTOmin 200 ms instead of 10 ms at n = {SERVERS[-1]}: {m[_LATE].mean:.3g} % instead "
                f"of {m['loss'][setup.SACK][-1].mean:.3g} %"
            ),
            of=("tcp-few",),
        ),
    ),
    matters=(*setup.SIZE_AWARE, *setup.TCP),
)

M_46 = _row(
    "M-4.6",
    "Incast: completion time (Fig 4.6)",
    draw=_draw_46,
    causes=(
        Cause(
            "they part only where SDC loses packets, so that some of its flows wait for timeouts",
            holds=lambda m: all(
                m["loss"][setup.SDC][i].mean > 0
                for i, r in enumerate(m["RACS over SDC"])
                if abs(r.mean - 1) > setup.ABOUT
            ),
            evidence=lambda m: f"SDC's loss (%): {setup.over(m['servers'], m['loss'][setup.SDC])} servers",
        ),
    ),
    matters=(*setup.SIZE_AWARE, *setup.EXPLICIT),
)

M_47 = _row(
    "M-4.7",
    "Incast: loss (Fig 4.7)",
    draw=_draw_47,
    causes=(
        Cause(
            "RCP's flows start at an advertised rate and are paced, so that only bursts of SYNs could "
            "overflow the buffer: it loses next to nothing at any number of servers",
            holds=lambda m: max(e.mean for e in m["loss, by bytes"][setup.RCP]) < 0.1,
            evidence=lambda m: f"at most {max(e.mean for e in m['loss, by bytes'][setup.RCP]):.2g} %",
            of=("rcp-grows",),
        ),
        Cause(
            "it is the count of packets: where a share is less than a segment per round trip RACS cuts its "
            "segments, and counted in bytes, as this buffer is, the queue stays below a quarter of it",
            holds=lambda m: every(at_most(_BYTES_KB / 4)).judge(m[_QUEUE_KB][setup.RACS]) == CONFIRMED,
            evidence=lambda m: (
                f"KB of {_BYTES_KB}: {setup.over(m['servers'], m[_QUEUE_KB][setup.RACS])} servers; packets: "
                f"{setup.over(m['servers'], m['queue, by bytes'][setup.RACS])} servers"
            ),
            of=("racs-queue",),
        ),
    ),
    matters=(*setup.SIZE_AWARE, *setup.EXPLICIT),
)

INCAST_ROWS = [M_39, M_310, M_46, M_47]
