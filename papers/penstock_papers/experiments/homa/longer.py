"""Slowdown by message size, W3 and W5: Homa, and pFabric with W3, beside the published data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.runs import Run
from penstock_papers.experiments.homa import judged, picture, setup
from penstock_papers.experiments.lossless import chosen
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

PAPER = "homa"
CHOSEN = chosen(__file__)
# By workload, transport and load in percent.
BINS = setup.published("published_longer.toml")
W3 = [name for name in BINS if name.startswith("W3")]
W5 = "W5 Homa 80"
# Seconds in which the published messages of W5 begin (97,570 of them), and in which the last ones end.
ARRIVALS, AFTER = 1.9, 0.6


def _middle(run: Run) -> dict[str, float]:
    """Percentiles of the messages of the middle of the run, "Homa.p50.0" ...: loads have the same bins."""
    found = setup.slowdowns(CHOSEN, run.tables, str(run.scenario["set"]["duration"]))
    bins = {name.split()[1]: BINS[name] for name in W3}
    return {
        f"{transport}.{key}": value
        for transport, edges in bins.items()
        for key, value in setup.percentiles(found, edges).items()
    }


def _each(run: Run) -> dict[str, float]:
    """As each receiver has them, of all messages."""
    return _of_all(run, 1)


def _each_two(run: Run) -> dict[str, float]:
    """The same of a run of half the length: two receivers have as many messages as one."""
    return _of_all(run, 2)


def _each_four(run: Run) -> dict[str, float]:
    """The same of a run of a quarter of the length."""
    return _of_all(run, 4)


def _of_all(run: Run, hosts: int) -> dict[str, float]:
    found = setup.slowdowns(CHOSEN, run.tables, None)
    together = setup.percentiles(found, BINS[W5]).items()
    return {
        **setup.by_receiver(found, BINS[W5], hosts),
        **{f"together.{key}": value for key, value in together},
    }


# Of runs with W3: racks and duration. Long messages need some time until there are as many as there will be:
# shorter runs have fewer hosts. Of runs with W5: racks, share of the published messages, evaluation.
FULL_W3, QUICK_W3, SMALLEST_W3 = (setup.RACKS, "20ms"), (3, "15ms"), (2, "500us")
FULL_W5, QUICK_W5, SMALLEST_W5 = (setup.RACKS, 1.0, _each), (3, 0.5, _each_two), (2, 0.01, _each_four)
PROBE_W5 = (3, 0.25, _each_four)


def _w3(lab: Lab, at: Mapping[str, Any], racks: int, duration: str) -> Measurement:
    network = setup.network(at, lab.out, "W3", racks)
    points = []
    for name in W3:
        _, transport, load = name.split()
        text = setup.protocol(at, transport, int(at["control.bytes"]), "W3")
        traffic = setup.messages(at, 0, "W3", int(load) / 100, racks)
        points.append((network, setup.settings(at, text, duration, traffic)))
    found = lab.sweep(points, keep=("flows", "transfers"), derive=_middle)
    return {
        name: judged.of_bins(runs, f"{name.split()[1]}.", BINS[name])
        for name, runs in zip(W3, found, strict=True)
    }


def _probe_w3(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """As quick: there are few different simulations in the space."""
    return _w3(lab, {**CHOSEN, **settings}, *QUICK_W3)


def _w5(
    lab: Lab, at: Mapping[str, Any], racks: int, share: float, derive: Callable[[Run], dict[str, float]]
) -> Measurement:
    text = setup.protocol(at, "Homa", int(at["control.bytes"]), "W5")
    traffic = setup.drained(at, "W5", racks, ARRIVALS * share)
    network = setup.network(at, lab.out, "W5", racks)
    duration = f"{1e3 * (ARRIVALS * share + AFTER):.0f}ms"
    point = network, setup.settings(at, text, duration, traffic)
    (found,) = lab.sweep([point], keep=("flows", "transfers"), derive=derive)
    return {W5: judged.of_bins(found, "", BINS[W5]), "together": judged.of_bins(found, "together.", BINS[W5])}


def near_published(m: Measurement, name: str, key: str, of: str = "") -> Estimate:
    """Share of the bins within ten per cent of the published numbers; `of` measures another percentile."""
    return Estimate.exact(judged.near(BINS[name], {key: m[name][of or key]}, key))


def _draw_w3(m: Measurement, lab: Lab) -> list[Path]:
    names = {name: name.removeprefix("W3 ") + " %" for name in W3}
    bins = {label: BINS[name] for name, label in names.items()}
    return picture.draw(lab, "W3", bins, {label: m[name] for name, label in names.items()})


def _draw_w5(m: Measurement, lab: Lab) -> list[Path]:
    label = "Homa 80 %"
    beside = {label: ("all receivers together", m["together"])}
    return picture.draw(lab, "W5", {label: BINS[W5]}, {label: m[W5]}, beside=beside, log=True)


HOMA_W3 = Row(
    "HOMA-W3",
    "Slowdown by message size of Homa and pFabric, W3 at 80 and 50 % (section 5.2)",
    measure=lambda lab: _w3(lab, CHOSEN, *lab.pick(FULL_W3, QUICK_W3, SMALLEST_W3)),
    draw=_draw_w3,
    matters=("homa.done_after", "homa.resend", "control.bytes", "pfabric.window"),
    probe=_probe_w3,
)

HOMA_W5 = Row(
    "HOMA-W5",
    "Slowdown by message size of Homa, W5 at 80 %, as each receiver has it (section 5.2)",
    measure=lambda lab: _w5(lab, CHOSEN, *lab.pick(FULL_W5, QUICK_W5, SMALLEST_W5)),
    draw=_draw_w5,
    matters=("homa.done_after", "homa.resend"),
    probe=lambda lab, settings: _w5(lab, {**CHOSEN, **settings}, *PROBE_W5),
)

ROWS: list[Row] = [HOMA_W3, HOMA_W5]
