"""Slowdown by message size, W1 at 80 %: Homa, pFabric, pHost and PIAS beside the published data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.runs import Run
from penstock_papers.experiments.homa import judged, longer, own, picture, setup
from penstock_papers.experiments.lossless import chosen
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

PAPER = "homa"
CHOSEN = chosen(__file__)
BINS = setup.published()
# The transports whose control packets the published set-up leaves open, with how many a message of one packet
# has, and the experiment on them: hardly any bytes, and counted as load.
OTHERS = {"pHost": 3, "PIAS": 1}
SMALL = 20
# pFabric's simulation is that of YAPS: acknowledgements have 20 bytes, which are part of the load.
PFABRIC_ACK = 20
MATTERS = (
    "homa.done_after",
    "homa.resend",
    "control.bytes",
    "pfabric.window",
    "phost.window",
    "pias.threshold",
)


def by_size(run: Run) -> dict[str, float]:
    """Percentiles of every transport's bins, "Homa.p50.0" ..."""
    found = setup.slowdowns(CHOSEN, run.tables, str(run.scenario["set"]["duration"]))
    return {
        f"{name}.{key}": value
        for name, bins in BINS.items()
        for key, value in setup.percentiles(found, bins).items()
    }


def _slowdowns(
    lab: Lab, at: Mapping[str, Any], duration: str, transports: Sequence[str], small: Iterable[str]
) -> dict[str, Any]:
    cases = [
        (name, PFABRIC_ACK, PFABRIC_ACK) if name == "pFabric" else (name, int(at["control.bytes"]), 0)
        for name in transports
    ]
    cases += [(name, SMALL, SMALL * OTHERS[name]) for name in small]
    points = [
        setup.point(at, lab.out, setup.protocol(at, name, control), duration, counted)
        for name, control, counted in cases
    ]
    found = lab.sweep(points, keep=("flows", "transfers"), derive=by_size)
    measured: dict[str, Any] = {"at": {}, "small": {}}
    for i, ((name, _, _), runs) in enumerate(zip(cases, found, strict=True)):
        numbers = judged.of_bins(runs, f"{name}.", BINS[name])
        measured["at" if i < len(transports) else "small"][name] = numbers
    return measured


def _probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return _slowdowns(lab, {**CHOSEN, **settings}, "500us", tuple(BINS), ())


def _measure_order(lab: Lab) -> Measurement:
    return _slowdowns(lab, CHOSEN, lab.pick("2ms", "500us", "150us"), ("Homa", "pFabric"), OTHERS)


def _mean(m: Measurement, name: str) -> Estimate:
    """Mean over the bins of the 99th percentile, with small control packets for those where they are open."""
    return Estimate.exact(float(np.mean(m["small" if name in m["small"] else "at"][name]["p99"])))


def near_published(m: Measurement, name: str, key: str) -> Estimate:
    """Share of a transport's bins within ten per cent of the published numbers."""
    return Estimate.exact(judged.near(BINS[name], m["at"][name], key))


def beside_the_better(m: Measurement) -> dict[str, Estimate]:
    """Mean 99th percentile of Homa, and of the better of pHost and PIAS."""
    others = (_mean(m, name) for name in ("pHost", "PIAS"))
    return {"Homa": _mean(m, "Homa"), "the better of pHost and PIAS": min(others, key=lambda e: e.mean)}


def over_pfabric(m: Measurement, name: str = "Homa") -> Estimate:
    """Mean 99th percentile of a transport over pFabric's."""
    return Estimate.exact(_mean(m, name).mean / _mean(m, "pFabric").mean)


def _differences(of: Mapping[str, Any], name: str, key: str) -> NDArray[np.float64]:
    return judged.differences(BINS[name], of[name], key)


def _said(m: Measurement, name: str) -> str:
    """Range of the differences with control packets as chosen and small."""
    parts = []
    for size, of in ((f"{CHOSEN['control.bytes']} bytes", m["at"]), (f"{SMALL} bytes as load", m["small"])):
        both = [_differences(of, name, key) for key in ("p50", "p99")]
        ranges = " and ".join(f"{100 * d.min():+.0f} to {100 * d.max():+.0f} %" for d in both)
        parts.append(f"{size} {ranges}")
    return "medians and 99th percentiles with control packets of " + ", of ".join(parts)


def _halves(m: Measurement, name: str) -> bool:
    """Small control packets bring a transport's numbers to half their distance or less."""
    return all(
        np.abs(_differences(m["small"], name, key)).mean()
        <= 0.5 * np.abs(_differences(m["at"], name, key)).mean()
        for key in ("p50", "p99")
    )


def _cause(name: str) -> Cause:
    return Cause(
        "what is sent beside data weighs on messages as short as W1's: with acknowledgements, requests and "
        "tokens of hardly any bytes, and these counted as load, half of the difference or less is left",
        holds=lambda m: _halves(m, name),
        evidence=lambda m: _said(m, name),
        of=(f"{name.lower()}-median", f"{name.lower()}-tail"),
    )


def _draw(m: Measurement, lab: Lab) -> list[Path]:
    found = {name: m["small" if name in m["small"] else "at"][name] for name in BINS}
    return picture.draw(lab, "W1", BINS, found, load=", 80 %")


HOMA_W1 = Row(
    "HOMA-W1",
    "Slowdown by message size of four transports, W1 at 80 % (section 5.2)",
    measure=lambda lab: _slowdowns(lab, CHOSEN, lab.pick("2ms", "500us", "150us"), tuple(BINS), OTHERS),
    draw=_draw,
    causes=tuple(_cause(name) for name in OTHERS),
    matters=MATTERS,
    probe=_probe,
)

HOMA_ORDER = Row(
    "HOMA-O",
    "Homa beside the others: mean over the sizes of the 99th percentile, W1 at 80 % (abstract)",
    measure=_measure_order,
    # With control packets of one size for all, as the search has them.
    matters=MATTERS,
    probe=_probe,
    cheap=True,
)

ROWS: list[Row] = [HOMA_W1, HOMA_ORDER, *longer.ROWS, *own.ROWS]
