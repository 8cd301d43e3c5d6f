"""Section 4.1.4: DCTCP under incast, and every remedy of chapter 4 beside the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock_papers.experiments.common import centre, half, later
from penstock_papers.experiments.incast.segment_rows import RESIZING
from penstock_papers.experiments.incast.setup import (
    BASE,
    CHOSEN,
    MATTERS,
    PROBED,
    Curve,
    beside_plot,
    buffer,
    chosen,
    curves,
    draw,
)
from penstock_papers.experiments.incast.thread import THREAD
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

UP_TO_128 = (1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)
QUICK_128 = (2, 4, 6, 8, 10, 16, 24, 32, 48, 64, 96, 128)


UNMARKED = "DCTCP, no marks"


def _unmarked() -> dict[str, Any]:
    """The same sender over a switch that does not mark."""
    return {"protocol": "dctcp", "rto_initial": "200ms"}


def _marking(k: int) -> dict[str, Any]:
    return {"protocol": "dctcp", "queue": f"threshold:k={k}pkt", "rto_initial": "200ms"}


# From how many servers on plain TCP has collapsed.
COLLAPSED = 8


def past(curve: Curve, beside: Curve) -> Estimate:
    """Mean goodput past plain TCP's collapse over that of another curve, run by run."""
    where = np.array(curve.servers) >= COLLAPSED
    return Estimate.of(curve.per_run()[where].mean(axis=0) / beside.per_run()[where].mean(axis=0))


def _dctcp(found: Mapping[str, Curve]) -> dict[str, Any]:
    tcp, other = found["NewReno"], found["DCTCP"]
    return {
        "DCTCP over TCP": past(other, tcp),
        "without marks over TCP": past(found[UNMARKED], tcp),
        "onsets": [Estimate.median(tcp.onsets), Estimate.median(other.onsets)],
        "later": later(tcp.onsets, other.onsets),
        "onset": Estimate.median(other.onsets),
    }


def _measure_dctcp(lab: Lab) -> Measurement:
    given = {"NewReno": BASE | {"rto_initial": "200ms"}, "DCTCP": BASE | _marking(CHOSEN["dctcp_k"])}
    given[UNMARKED] = BASE | _unmarked()
    length = {"duration": lab.pick("20s", "2s", "1s")}
    found = curves(lab, given, lab.pick(UP_TO_128, QUICK_128, (2, 8, 32, 128)), length=length)
    servers = lab.pick((1, 2, 4, 6, 8, 12, 16, 24, 32, 48), (2, 4, 8, 16, 32, 48), (2, 8))
    beside = curves(lab, {name: BASE | given for name, given in remedies().items()}, servers, length=length)
    return {
        **_dctcp(found),
        "curves": {label: curve.numbers() for label, curve in found.items()},
        "remedies": {label: curve.numbers() for label, curve in beside.items()},
    }


def remedies() -> dict[str, dict[str, Any]]:
    """Every remedy of chapter 4 and ICTCP, one scenario option each."""
    found: dict[str, dict[str, Any]] = {
        "none": {},
        "buffer 128 KB": {"buffer": "128pkt"},
        "SRU 1 MB": {"sru": "1MB"},
        "RTOmin 200 us, tick 100 us": {"rto_min": "200us", "rto_granularity": "100us"},
        "tail-loss probe (SACK)": {"protocol": "sack", "tail_loss_probe": True},
        "DCTCP": _marking(CHOSEN["dctcp_k"]),
        "ICTCP": {"receive_control": "ictcp"},
        "retransmit thread, p = 0.001": THREAD | {"retransmit_probability": 1e-3},
        "segment resizing, compressed": RESIZING | {"header_compression": True, "buffer": "32KB"},
    }
    return {name: given | {"rto_initial": "200ms"} for name, given in found.items()}


def _draw_dctcp(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new(width=8.2, height=4.6)
        (none, first), *others = m["remedies"].items()
        ax.plot(first["servers"], centre(first["goodput"]), color=figures.INK, linewidth=2.6, label=none)
        for i, (label, curve) in enumerate(others):
            figures.band(ax, curve["servers"], centre(curve["goodput"]), half(curve["goodput"]), label, i)
        ax.set(xlabel="number of servers", ylabel="goodput (Mb/s)", ylim=(0, 1000))
        ax.set_title("Remedies side by side")
        beside_plot(ax)
    return [lab.save(draw("DCTCP under incast", m["curves"]), "I-dctcp"), lab.save(figure, "I-remedies")]


def _probe_dctcp(lab: Lab, point: Mapping[str, Any]) -> Measurement:
    base = chosen(point) | buffer(32, point) | {"rto_initial": "200ms"}
    given = {"NewReno": base, "DCTCP": base | _marking(point["dctcp_k"]), UNMARKED: base | _unmarked()}
    return _dctcp(
        curves(lab, given, (2, 4, 6, 8, 12, 20, 32, 48, 64, 128), length={"duration": "4s"}, runs=PROBED)
    )


I_DCTCP = Row(
    "I-dctcp",
    "DCTCP under incast (section 4.1.4)",
    measure=_measure_dctcp,
    draw=_draw_dctcp,
    matters=(*MATTERS, "dctcp_k"),
    probe=_probe_dctcp,
)

DCTCP_ROWS = [I_DCTCP]
