"""Probabilistic retransmission in numbers (section 4.2, Fig 4.4 to 4.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from penstock_papers.experiments.common import Floats, measured
from penstock_papers.experiments.incast import setup
from penstock_papers.ledger import Estimate, Lab, Measurement

# "when the number of senders is greater than eight" (section 4.2.2).
ABOVE = 9
SERVERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48)
QUICK = (1, 2, 4, 5, 6, 8, 10, 16, 20, 32, 48)
LEAST = (2, 6, 12)
SETTING = setup.BASE | {"rto_initial": "200ms"}

# Quick: more short runs have a narrower interval than fewer long ones.
BRIEF: dict[str, Any] = {"duration": "1s"}
BRIEF_RUNS = 4
# At a point of the search.
SHORT = {"duration": "700ms", "warmup": "200ms"}

PROBABILITIES = (1e-4, 1e-3, 1e-2, 1e-1)
BEST = 1e-3
THREAD: dict[str, Any] = {
    key: setup.CHOSEN[key] for key in ("retransmit_segment", "retransmit_rests", "retransmit_every")
}
PLAIN, FAST_TIMER = "RTOmin 200 ms", "RTOmin 200 us"


def label(p: float) -> str:
    """The label of a curve with retransmission probability `p`."""
    return f"p = {p:g}"


LABELS = [label(p) for p in PROBABILITIES]


def compare(
    lab: Lab, variants: Mapping[str, Mapping[str, Any]], servers: Sequence[int] = ()
) -> dict[str, setup.Curve]:
    """One curve per variant: 20 s and three runs, when quick `BRIEF` at fewer numbers of servers."""
    servers = servers or lab.pick(SERVERS, QUICK, LEAST)
    given = {name: SETTING | dict(settings) for name, settings in variants.items()}
    length = lab.pick({"duration": "20s"}, BRIEF, {"duration": "500ms"})
    return setup.curves(lab, given, servers, length=length, runs=lab.replications(3, BRIEF_RUNS))


def _variants() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {PLAIN: {}, FAST_TIMER: {"rto_min": "200us"}}
    return found | {label(p): THREAD | {"retransmit_probability": p} for p in PROBABILITIES}


def above_eight(curve: setup.Curve, key: str = "goodput_bps") -> Floats:
    """The mean above eight servers, of each run."""
    return curve.per_run(key)[np.array(curve.servers) >= ABOVE].mean(axis=0)


def goodput_numbers(found: Mapping[str, setup.Curve]) -> dict[str, Any]:
    """What Fig 4.4's statements are judged by."""
    names = [PLAIN, *LABELS]
    means = {name: above_eight(found[name]) for name in names}
    return {
        "means": {name: Estimate.of(mean / 1e6) for name, mean in means.items()},
        "steps": [Estimate.of(means[b] / means[a]) for a, b in pairwise(names)],
        "gain": Estimate.of(np.max([means[name] for name in LABELS], axis=0) / means[PLAIN]),
        "gain of the least p": Estimate.of(means[LABELS[0]] / means[PLAIN]),
    }


def drop_numbers(found: Mapping[str, setup.Curve]) -> dict[str, Any]:
    """What Fig 4.5's statements are judged by."""
    drops = {name: above_eight(found[name], "drop_rate") for name in (PLAIN, FAST_TIMER, *LABELS)}
    worth = np.array([above_eight(found[name]) / drops[name] for name in LABELS])
    return {
        "drops": {name: Estimate.of(drop) for name, drop in drops.items()},
        "most over plain": Estimate.of(drops[LABELS[-1]] / drops[PLAIN]),
        "drop steps": [Estimate.of(drops[b] / drops[a]) for a, b in pairwise(LABELS)],
        "best p": Estimate.median(np.log10(PROBABILITIES)[np.argmax(worth, axis=0)]),
        "worth": {name: Estimate.of(row / 1e6) for name, row in zip(LABELS, worth, strict=True)},
    }


def least_gain(m: Mapping[str, Any]) -> Estimate:
    """What the lowest p of the figure and a tenth of it gain over plain TCP: the smaller of the two."""
    found: list[Estimate] = [m["gain of the least p"], m["gain of a tenth of the least p"]]
    return min(found, key=lambda e: e.mean)


def order_numbers(thread: setup.Curve, fast: setup.Curve, plain: setup.Curve) -> dict[str, Any]:
    """What Fig 4.6's statements are judged by: ratios of goodput, run by run."""
    n = np.array(thread.servers)
    over_fast, over_plain = thread.per_run() / fast.per_run(), thread.per_run() / plain.per_run()

    def at(ratio: Floats, where: Any) -> dict[str, Estimate]:
        both = zip(n, ratio, where, strict=True)
        return {f"{int(m)} servers": Estimate.of(row) for m, row, use in both if use}

    return {
        # One server alone reads nothing in step with others.
        "over plain": at(over_plain, n >= 2),
        "over fast above ten": at(over_fast, n > 10),
        "over fast from five to ten": at(over_fast, (n >= 5) & (n <= 10)),
    }


# ---- measuring --------------------------------------------------------------------------------------------


def measure(lab: Lab) -> Measurement:
    """The curves of figures 4.4 to 4.6 and what explains them."""
    found = compare(lab, _variants())
    many = [n for n in lab.pick(SERVERS, QUICK, LEAST) if n >= ABOVE]
    newest = compare(
        lab,
        {
            f"{label(p)}, newest": {"retransmit_probability": p, "retransmit_rests": True}
            | {"retransmit_segment": "newest"}
            for p in PROBABILITIES[1:]
        },
        lab.pick((4, 8, 12, 16, 24, 32, 48), (4, 10, 20, 48), (12,)),
    )
    # The thread ten times as rarely, and ten times as often.
    rarely = compare(
        lab,
        {
            label(p): THREAD | {"retransmit_probability": p, "retransmit_every": "200us"}
            for p in PROBABILITIES
        },
        many,
    )
    often = compare(lab, {"": THREAD | {"retransmit_probability": BEST, "retransmit_every": "2us"}})[""]
    # Windows carried from block to block, as section 3.2 has them.
    best = max(PROBABILITIES, key=lambda p: float(above_eight(found[label(p)]).mean()))
    kept = {"restart_after_idle": False}
    carried = compare(lab, {PLAIN: kept, label(best): THREAD | {"retransmit_probability": best} | kept}, many)
    alone = lab.runs(
        "incast",
        SETTING
        | THREAD
        | {"servers": 1, "duration": "3s", "retransmit_probability": PROBABILITIES[-1], "loss_events": True},
        keep=("events",),
    )
    slow = {PLAIN: found[PLAIN], **rarely}
    without, once, again = above_eight(found[PLAIN]), *map(above_eight, carried.values())
    return {
        **goodput_numbers(found),
        **drop_numbers(found),
        **order_numbers(found[label(BEST)], found[FAST_TIMER], found[PLAIN]),
        "every 200 us": {name: Estimate.of(above_eight(curve) / 1e6) for name, curve in slow.items()},
        "gain of a tenth of the least p": Estimate.of(above_eight(rarely[LABELS[0]]) / without),
        "windows carried": {"gain": Estimate.of(again / once), PLAIN: Estimate.of(once / 1e6)},
        "newest": {name: Estimate.of(above_eight(curve) / 1e6) for name, curve in newest.items()},
        "every 2 us": order_numbers(often, found[FAST_TIMER], found[PLAIN]),
        "room": setup.LINK_BPS / np.mean(without),
        "alone": {
            "drops": alone.mean("drops"),
            "fast retransmits": alone.events.filter(pl.col("what") == "fast retransmit").height,
            "goodput": alone.mean("goodput_bps") / 1e6,
        },
        "curves": {name: curve.numbers() for name, curve in found.items()},
        "curves, newest": {name: curve.numbers() for name, curve in newest.items()},
        "curve, every 2 us": often.numbers(),
        "drop ratios": {name: measured(curve.sets, "drop_rate") for name, curve in found.items()},
    }


def probe(lab: Lab, point: Mapping[str, Any]) -> Measurement:
    """The same curves at a point of the search: four numbers of servers, short runs."""
    base = setup.chosen(point) | setup.buffer(32, point) | {"rto_initial": "200ms"}
    thread = {key: point[key] for key in THREAD}
    given: dict[str, dict[str, Any]] = {PLAIN: base, FAST_TIMER: base | {"rto_min": "200us"}}
    given |= {label(p): base | thread | {"retransmit_probability": p} for p in PROBABILITIES}
    found = setup.curves(lab, given, (5, 10, 16, 32), length=SHORT, runs=setup.PROBED)
    return {
        **goodput_numbers(found),
        **drop_numbers(found),
        **order_numbers(found[label(BEST)], found[FAST_TIMER], found[PLAIN]),
    }
