"""Section VI: three flows at 1 Gb/s (Fig 16), and the queues at the router (Fig 17)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock_papers.experiments.piqi_rcp import linux, setup
from penstock_papers.ledger import CONFIRMED, Cause, Lab, Measurement, Row, claim_criterion


def _measure_three(lab: Lab) -> Measurement:
    every_s = linux.spacing(lab)
    runs = linux.three_flows(lab, setup.CHOSEN, every_s)
    return {
        **linux.three_numbers(runs, every_s, linux.GIGABIT),
        "traces": {name: setup.traces(r, (0, 1, 2)) for name, r in zip(linux.NAMES, runs, strict=True)},
    }


def _probe_three(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return linux.three_numbers(linux.three_flows(lab, setup.at(settings), 4.0), 4.0, linux.GIGABIT)


def _draw_three(m: Measurement, lab: Lab) -> list[Path]:
    return [
        setup.over_time(lab, f"P-16-{name.lower()}", found, f"{name}: three flows at 1 Gb/s")
        for name, found in m["traces"].items()
    ]


# ---- P-16 -------------------------------------------------------------------------------------------------


P_16 = Row(
    "P-16",
    "Three flows at 1 Gb/s (Fig 16)",
    measure=_measure_three,
    draw=_draw_three,
    matters=linux.MATTERS,
    probe=_probe_three,
)

# ---- P-17 -------------------------------------------------------------------------------------------------

STATED_A, STATED_B = 9415, 11_000


def _measure_queues(lab: Lab) -> Measurement:
    every_s = linux.spacing(lab)
    three = linux.three_flows(lab, setup.CHOSEN, every_s)
    quick = setup.piqi_linux(**linux.NIMBLE)
    *crowd, nimble_b = linux.ten_join(lab, (*linux.pair(), quick), end=linux.crowd_end(lab))
    (longer,) = linux.ten_join(lab, linux.pair()[:1], end=linux.JOIN + 6, more=linux.LONGER)
    # The peak follows the second flow's join, whenever that comes.
    (nimble_a,) = linux.three_flows(lab, setup.CHOSEN, min(every_s, 4.0), [quick])
    queue = {
        part: {
            name: setup.thinned(*setup.sampled(r, "queue_packets"), 600)
            for name, r in zip(linux.NAMES, runs, strict=True)
        }
        for part, runs in (("a", three), ("b", crowd))
    }
    return {
        "a": linux.three_numbers(three, every_s, linux.GIGABIT),
        "b": linux.crowd_numbers(crowd, linux.JOIN, linux.LEAVE, linux.SAMPLE),
        "nimble": {
            part: float(r.mean("queue_max_packets")) for part, r in (("a", nimble_a), ("b", nimble_b))
        },
        "longer": float(longer.mean("queue_max_packets")),
        "queue": queue,
    }


def _probe_queues(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    crowd = linux.ten_join(lab, linux.pair(chosen), chosen, 45.0)
    return {
        "a": linux.three_numbers(linux.three_flows(lab, chosen, 4.0), 4.0, linux.GIGABIT),
        "b": linux.crowd_numbers(crowd, linux.JOIN, linux.LEAVE, setup.seconds(chosen["section6.sample"])),
    }


def _draw_queues(m: Measurement, lab: Lab) -> list[Path]:
    titles = {"a": "Three flows at 1 Gb/s", "b": "Ten flows join one at 100 Mb/s"}
    stated = {"a": STATED_A, "b": STATED_B}
    return [
        setup.over_time(
            lab,
            f"P-17{part}",
            m["queue"][part],
            title,
            "queue (packets)",
            stated={"largest queue of RCP": stated[part]},
        )
        for part, title in titles.items()
    ]


_CROWD = claim_criterion("P-17/b-rcp")
_LATER = Cause(
    "the peak is what the crowd sends, each flow at the rate of the whole link, until the router's answer "
    "reaches it: with a loop longer by half of the stated round trip the queue is as stated",
    holds=lambda m: _CROWD.judge(m["longer"]) == CONFIRMED,
    evidence=lambda m: (
        f"with a round trip of 50 ms: {m['b']['peak']['RCP']:,.0f} packets; of "
        f"{linux.LONGER['rtt'][:-2]} ms: {m['longer']:,.0f} packets"
    ),
    of=("b-rcp",),
)

P_17 = Row(
    "P-17",
    "Queues at the router (Fig 17)",
    measure=_measure_queues,
    draw=_draw_queues,
    causes=(_LATER,),
    matters=linux.MATTERS,
    probe=_probe_queues,
)

THREE_ROWS = [P_16, P_17]
