"""Section IV-A: QI-RCP and the bound of Theorem 1 in a dumbbell (Fig 4, 5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models import rcp_stability as rs
from penstock_papers.experiments.piqi_rcp import bounds, setup
from penstock_papers.ledger import Lab, Measurement, Row

# ---- P-4 --------------------------------------------------------------------------------------------------


def _equal(lab: Lab, chosen: Mapping[str, Any], duration: float) -> bounds.Runs:
    return bounds.dumbbell(
        lab, {eta: setup.qi(eta, chosen) for eta in bounds.PAIR}, chosen["dumbbell.rtt"], duration
    )


def _equal_delays() -> dict[str, Any]:
    """The exact limit of (5) for equal delays of 1 to 100 T over (6), its extremes, and (6) at one T."""
    delays = np.arange(1, 101)
    limits = np.array([rs.critical_kappa([d]) for d in delays]) / rs.qi_bound(delays)
    return {
        "limit of (5) over (6)": [float(limits.min()), float(limits.max())],
        "bound at D = T": float(rs.qi_bound(1)),
    }


def _measure_qi(lab: Lab) -> Measurement:
    duration = lab.pick(600.0, 200.0, 30.0)
    runs = _equal(lab, setup.CHOSEN, duration)
    counted = _equal(lab, setup.at({"routers.lag": 1}), duration)
    rtt = setup.seconds(setup.CHOSEN["dumbbell.rtt"])
    w = np.geomspace(0.02, np.pi, 1500)
    kappa = bounds.BELOW * float(rs.qi_bound(30))
    loci = {
        name: rs.qi_locus(w, d, kappa) for name, d in (("all 300 ms", [30]), ("120 and 300 ms", [12, 30]))
    }
    return {
        "swing": bounds.swings(runs),
        "one interval more": bounds.swings(counted),
        "limit": setup.exact_limit([rtt], None, float(setup.CHOSEN["routers.lag"])),
        **_equal_delays(),
        "traces": bounds.by_eta(runs, (0, 1)),
        "loci": {name: {"re": g.real, "im": g.imag} for name, g in loci.items()},
    }


def _probe_qi(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return {"swing": bounds.swings(_equal(lab, setup.at(settings), 150.0)), **_equal_delays()}


def _draw_qi(m: Measurement, lab: Lab) -> list[Path]:
    paths = bounds.draw_rates(m, lab, "P-4", "QI-RCP")
    with figures.style():
        fig, (ax,) = figures.new(width=5.6, height=4.4)
        for i, (name, g) in enumerate(m["loci"].items()):
            ax.plot(g["re"], g["im"], label=name, **figures.line(i))
        ax.plot([-1], [0], "k+", markersize=10)
        ax.set(xlim=(-1.6, 0.6), ylim=(-1.6, 0.6), xlabel="Re G", ylabel="Im G", title="Loci at 0.99 of (6)")
        ax.legend()
        return [*paths, lab.save(fig, "P-4-nyquist")]


def off_the_limit(m: Measurement) -> float:
    """The largest distance of the exact limit from (6), as a share of it."""
    return max(abs(x - 1) for x in m["limit of (5) over (6)"])


P_4 = Row(
    "P-4",
    "QI-RCP, equal round trips (Fig 4)",
    measure=_measure_qi,
    draw=_draw_qi,
    matters=setup.ROUTERS,
    probe=_probe_qi,
)

# ---- P-5 --------------------------------------------------------------------------------------------------

ETAS = (bounds.BELOW, 1.2, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)
_FEW = (bounds.BELOW, 1.6, 1.7, 1.8, 1.9)


def _unlike(lab: Lab, chosen: Mapping[str, Any], etas: Sequence[float], duration: float) -> bounds.Runs:
    rtt = f"{chosen['p5.short']},{chosen['p5.long']}"
    return bounds.dumbbell(lab, {eta: setup.qi(eta, chosen) for eta in etas}, rtt, duration)


def _unlike_numbers(runs: bounds.Runs, chosen: Mapping[str, Any]) -> dict[str, Any]:
    swing = bounds.swings(runs)
    rtts = [setup.seconds(chosen["p5.short"]), setup.seconds(chosen["p5.long"])]
    return {
        "swing": swing,
        "onset": next((float(eta) for eta, x in swing.items() if x >= setup.STEADY), math.inf),
        "limit": setup.exact_limit(rtts, None, float(chosen["routers.lag"])),
    }


def random_sets(count: int) -> list[float]:
    """Exact limit of (5) over bound (6) of random sets of two to ten delays of 1 to 100 intervals."""
    rng = np.random.default_rng(1)
    sets = [rng.integers(1, 101, rng.integers(2, 11)) for _ in range(count)]
    return [rs.critical_kappa(d) / float(rs.qi_bound(d.max())) for d in sets]


def _measure_unlike(lab: Lab) -> Measurement:
    duration = lab.pick(400.0, 200.0, 30.0)
    runs = _unlike(lab, setup.CHOSEN, lab.pick(ETAS, _FEW, (bounds.BELOW, 1.9)), duration)
    limits = random_sets(lab.pick(200, 40, 4))
    shown = {eta: r for eta, r in runs.items() if eta in (bounds.BELOW, 1.9)}
    return {
        **_unlike_numbers(runs, setup.CHOSEN),
        "random sets": [min(limits), max(limits), len(limits)],
        "traces": bounds.by_eta(shown, (0, 1)),
    }


def _probe_unlike(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen, limits = setup.at(settings), random_sets(40)
    return {
        **_unlike_numbers(_unlike(lab, chosen, _FEW, 150.0), chosen),
        "random sets": [min(limits), max(limits), len(limits)],
    }


P_5 = Row(
    "P-5",
    "QI-RCP, unlike round trips (Fig 5)",
    measure=_measure_unlike,
    draw=lambda m, lab: bounds.draw_rates(m, lab, "P-5", "QI-RCP"),
    matters=("p5.short", "p5.long", *setup.ROUTERS),
    probe=_probe_unlike,
)

QI_ROWS = [P_4, P_5]
