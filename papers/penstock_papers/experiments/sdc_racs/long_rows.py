"""Sections 3.5.1 and 4.3.1: utilisation and queue under long flows (Fig 3.7, 3.8, 4.4, 4.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from penstock_papers.experiments.sdc_racs import setup
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

SENDERS: tuple[int, ...] = tuple(setup.CHOSEN["simulation.long_flow_senders"])
# The search asks at the ends and in the middle.
_FEW = (2, 10, 50)
# Other queues that mark: whether a fall with N depends on the thresholds.
_MARKING = (
    setup.Contender("RED 5/15", "sack:ecn=true", "red:min=5pkt,max=15pkt,ecn=true"),
    setup.Contender("step at 20", "sack:ecn=true", "threshold:k=20pkt"),
)


def _long(
    lab: Lab,
    chosen: Mapping[str, Any],
    senders: Sequence[int],
    who: Sequence[str],
    runs: int,
    length: Mapping[str, Any],
) -> dict[str, Any]:
    sets = setup.sweep(lab, "long-flows", "flows", senders, who, runs=runs, chosen=chosen, **length)
    found: dict[str, Any] = {
        "senders": list(senders),
        "utilisation": setup.measured(sets, "utilisation", 100),
        "queue": setup.measured(sets, "queue_mean_packets"),
    }
    if setup.SACK in who:
        gaps = [
            a.values("utilisation") - b.values("utilisation")
            for a, b in zip(sets[setup.SACK], sets[setup.SDC], strict=True)
        ]
        found["SACK above SDC"] = Estimate.of(100 * sum(gaps) / len(gaps))
        found["ECN falls by"] = Estimate.of(
            100 * (sets[setup.ECN][0].values("utilisation") - sets[setup.ECN][-1].values("utilisation"))
        )
        found["ECN's queue over SACK's"] = setup.ratio(sets, setup.ECN, setup.SACK, "queue_mean_packets")
        found["SACK's queue less ECN's"] = setup.difference(sets, setup.SACK, setup.ECN, "queue_mean_packets")
    if setup.RCP in who:
        found["RACS above RCP"] = setup.difference(sets, setup.RACS, setup.RCP, "utilisation", 100)[0]
    return found


def _length(lab: Lab) -> dict[str, Any]:
    return lab.pick(
        {"warmup": "2s", "duration": "8s"},
        {"warmup": "500ms", "duration": "1500ms"},
        {"warmup": "50ms", "duration": "100ms"},
    )


def _measure(lab: Lab) -> Measurement:
    length, runs = _length(lab), lab.replications(5, 2)
    who = (*setup.CHAPTER_3, setup.RACS, setup.RCP, "DCTCP")
    found = _long(lab, setup.CHOSEN, SENDERS, who, runs, length)
    # Does any marking queue do what is said of RED? At the ends.
    ends = (SENDERS[0], SENDERS[-1])
    marking = setup.sweep(lab, "long-flows", "flows", ends, _MARKING, runs=runs, **length)
    # RCP's start beside the rest of it, with the fewest senders.
    rcp = setup.contenders()[setup.RCP]
    early, late = (
        lab.runs("long-flows", rcp.settings(flows=SENDERS[0], warmup=a, duration=b), runs=runs)
        for a, b in (("0s", "20ms"), ("100ms", "200ms"))
    )
    deep = setup.sweep(
        lab,
        "long-flows",
        "flows",
        ends[:1],
        [setup.SDC],
        runs=runs,
        chosen=setup.at({"sdc.gain_ac": 100}),
        **length,
    )
    return {
        **found,
        "SDC, gain 100": setup.measured(deep, "utilisation", 100)[setup.SDC][0],
        "other marking": setup.measured(marking, "utilisation", 100),
        "RCP early and late": [Estimate.of(100 * r.values("utilisation")) for r in (early, late)],
    }


def _probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    length = {"warmup": "200ms", "duration": "600ms"}
    return _long(lab, setup.at(settings), _FEW, (*setup.CHAPTER_3, setup.RACS, setup.RCP), 1, length)


def _figure(m: Measurement, lab: Lab, key: str, name: str, who: Sequence[str], ylabel: str) -> list[Path]:
    chosen = {label: m[key][label] for label in who}
    title = f"Long flows: {'utilisation' if key == 'utilisation' else 'queue'}"
    return [
        setup.curves(lab, name, m["senders"], chosen, xlabel="number of senders", ylabel=ylabel, title=title)
    ]


def _draw_37(m: Measurement, lab: Lab) -> list[Path]:
    return _figure(m, lab, "utilisation", "M-3.7", (*setup.CHAPTER_3, "DCTCP"), "link utilisation (%)")


def _draw_38(m: Measurement, lab: Lab) -> list[Path]:
    return _figure(
        m, lab, "queue", "M-3.8", (*setup.CHAPTER_3, "DCTCP"), f"mean queue (packets of {setup.BUFFER})"
    )


def _draw_44(m: Measurement, lab: Lab) -> list[Path]:
    return _figure(m, lab, "utilisation", "M-4.4", setup.CHAPTER_4, "link utilisation (%)")


def _draw_45(m: Measurement, lab: Lab) -> list[Path]:
    return _figure(m, lab, "queue", "M-4.5", setup.CHAPTER_4, f"mean queue (packets of {setup.BUFFER})")


_row = partial(Row, measure=_measure, probe=_probe)

M_37 = _row(
    "M-3.7",
    "Long flows: utilisation (Fig 3.7)",
    draw=_draw_37,
    causes=(
        Cause(
            "it depends on RED's thresholds, which are open: with a queue that marks earlier it falls",
            holds=lambda m: any(few.mean - many.mean >= 0.5 for few, many in m["other marking"].values()),
            evidence=lambda m: ", ".join(
                f"{label}: {few.mean:.1f} % at N = {SENDERS[0]}, {many.mean:.1f} % at N = {SENDERS[-1]}"
                for label, (few, many) in m["other marking"].items()
            ),
            of=("ecn-falls",),
        ),
    ),
    matters=(*setup.SIZE_AWARE, *setup.TCP),
)

M_38 = _row(
    "M-3.8",
    "Long flows: queue (Fig 3.8)",
    draw=_draw_38,
    causes=(
        Cause(
            "a window of one segment is the smallest there is: where the queue is not small, one segment of "
            "every sender is already more than the pipe holds",
            holds=lambda m: all(
                n > setup.PIPE
                for n, q in zip(m["senders"], m["queue"][setup.SDC], strict=True)
                if q.mean > setup.SMALL
            ),
            evidence=lambda m: (
                f"the pipe holds {setup.PIPE:.0f} packets; "
                f"{setup.over(m['senders'], m['queue'][setup.SDC])} senders"
            ),
            of=("sdc-small",),
        ),
    ),
    matters=(*setup.SIZE_AWARE, *setup.TCP),
)

M_44 = _row("M-4.4", "Long flows: utilisation (Fig 4.4)", draw=_draw_44, matters=setup.EXPLICIT)
M_45 = _row("M-4.5", "Long flows: queue (Fig 4.5)", draw=_draw_45, matters=setup.EXPLICIT)

LONG_ROWS = [M_37, M_38, M_44, M_45]
