"""Section IV-B: PIQI-RCP and the bound of Theorem 2 in a dumbbell (Fig 8, 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models import rcp_stability as rs
from penstock_papers.experiments.piqi_rcp import bounds, setup
from penstock_papers.ledger import Cause, Lab, Measurement, Row

# ---- P-8 --------------------------------------------------------------------------------------------------


def _piqi(
    lab: Lab, chosen: Mapping[str, Any], duration: float, flows: int, etas: Sequence[float]
) -> bounds.Runs:
    protocols = {eta: setup.piqi(eta, chosen) for eta in etas}
    return bounds.dumbbell(lab, protocols, chosen["dumbbell.rtt"], duration, flows)


def limit_map(points: int) -> dict[str, setup.Array]:
    """Exact limit of PIQI-RCP's loop at 120 ms over bound (20) by tau1 and tau2, (20) with the loop's "
    "delay."""
    tau1, tau2 = np.geomspace(0.002, 0.9, points), np.linspace(0.005, 0.99, points)
    ratio = np.full((tau2.size, tau1.size), np.nan)
    for i, b in enumerate(tau2):
        for j, a in enumerate(tau1):
            if a + 2 * b < 2:
                ratio[i, j] = setup.exact_limit([0.12], (float(a), float(b)), 1.0)
    return {"tau1": tau1, "tau2": tau2, "limit": ratio}


def _around(limit: float, chosen: Mapping[str, Any]) -> dict[str, float]:
    """Oscillation of (18) and (19) run directly, 3 % below and above this share of the bound."""
    d = setup.seconds(chosen["dumbbell.rtt"]) / setup.INTERVAL
    kappa = np.array([0.97, 1.03]) * limit * float(rs.piqi_bound(d + chosen["routers.lag"]))
    tau1, tau2 = setup.taus(chosen)
    delays = [round(d) + 1] * 2
    found = rs.simulate_piqi(kappa, delays, tau1=tau1, tau2=tau2, steps=30_000).oscillation(3_000)
    return {"below": float(found[0]), "above": float(found[1])}


# Control intervals (s) down to one that is "sufficiently small".
_INTERVALS = (1e-2, 1e-3, 1e-4, 1e-5)


def _by_interval(chosen: Mapping[str, Any], intervals: Sequence[float] = _INTERVALS) -> list[float]:
    """The exact limit of the loop at 120 ms over (20), by control interval."""
    tau1, tau2 = setup.taus(chosen)
    return [
        rs.critical_kappa([0.12 / t], tau1=tau1, tau2=tau2) / float(rs.piqi_bound(0.12 / t))
        for t in intervals
    ]


def _measure_piqi(lab: Lab) -> Measurement:
    limit = setup.exact_limit(
        [setup.seconds(setup.CHOSEN["dumbbell.rtt"])], setup.taus(), float(setup.CHOSEN["routers.lag"])
    )
    beyond = round(1.05 * limit, 3)
    duration, flows = lab.pick((600.0, 10), (200.0, 5), (30.0, 2))
    runs = _piqi(lab, setup.CHOSEN, duration, flows, (*bounds.PAIR, beyond))
    return {
        "swing": bounds.swings(runs),
        "limit": limit,
        "beyond": beyond,
        "recursion": _around(limit, setup.CHOSEN),
        "limit by interval": _by_interval(setup.CHOSEN, lab.pick(_INTERVALS, _INTERVALS, _INTERVALS[:2])),
        "map": limit_map(lab.pick(34, 16, 4)),
        "traces": bounds.by_eta(runs, (0, 1, flows - 1)),
    }


def _probe_piqi(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    return {
        "swing": bounds.swings(_piqi(lab, chosen, 150.0, 2, bounds.PAIR)),
        "limit by interval": _by_interval(chosen),
    }


def _draw_piqi(m: Measurement, lab: Lab) -> list[Path]:
    paths = bounds.draw_rates(m, lab, "P-8", "PIQI-RCP")
    with figures.style():
        fig, (ax,) = figures.new(width=6.6, height=4.4)
        levels = [0.7, 0.8, 0.9, 0.99, 1.01, 1.25, 1.6, 2.5, 5.0]
        found = {key: np.asarray(value, float) for key, value in m["map"].items()}
        lines = ax.contour(found["tau1"], found["tau2"], found["limit"], levels=levels, cmap="viridis")
        ax.clabel(lines, fmt="%g", fontsize=8)
        ax.plot(*setup.taus(), "s", color=figures.PALETTE[0], label="stated in section VI")
        ax.set(xscale="log", xlabel="tau1", ylabel="tau2", title="Exact limit over bound (20), 120 ms")
        ax.legend(loc="upper right")
        return [*paths, lab.save(fig, "P-8-limit")]


_FILTER = Cause(
    "Theorem 2 replaces the senders' filter by its value at zero, which needs a control interval far "
    "shorter than the time in which senders follow: without that step the exact limit of the loop with "
    "these senders is higher, and both (18) with (19) and the packets become unstable there",
    holds=lambda m: (
        m["limit"] > bounds.ABOVE
        and m["recursion"]["below"] < setup.STEADY < m["recursion"]["above"]
        and m["swing"][f"{m['beyond']:g}"] >= setup.STEADY
    ),
    evidence=lambda m: (
        f"exact limit {m['limit']:.2f} times (20); oscillation of the recursion "
        f"{m['recursion']['below']:.2%} and {m['recursion']['above']:.1%} just below and above it, of the "
        f"packets {m['swing'][format(m['beyond'], 'g')]:.1%} at {m['beyond']:g}"
    ),
    of=(f"unstable-{bounds.ABOVE:g}",),
)

P_8 = Row(
    "P-8",
    "PIQI-RCP, equal round trips (Fig 8)",
    measure=_measure_piqi,
    draw=_draw_piqi,
    causes=(_FILTER,),
    matters=(*setup.SENDERS, *setup.ROUTERS),
    probe=_probe_piqi,
)

# ---- P-9 --------------------------------------------------------------------------------------------------

NINE = [0.12, *[0.3] * 9]


def _nine(
    lab: Lab, chosen: Mapping[str, Any], duration: float, every: float, etas: Sequence[float]
) -> bounds.Runs:
    protocols = {eta: setup.piqi(eta, chosen) for eta in etas}
    return bounds.dumbbell(lab, protocols, "120ms,300ms", duration, 10, every)


def _directly(eta: float, lag: float, duration: float) -> float:
    """Oscillation at the end of (18) and (19) run directly for as long, without packets."""
    delays = [round(rtt / setup.INTERVAL) + 1 for rtt in NINE]
    kappa = eta * float(rs.piqi_bound(max(NINE) / setup.INTERVAL + lag))
    tau1, tau2 = setup.taus()
    steps = round(duration / setup.INTERVAL)
    run = rs.simulate_piqi(kappa, delays, tau1=tau1, tau2=tau2, steps=steps)
    return float(run.oscillation(steps // 10)[0])


def _measure_nine(lab: Lab) -> Measurement:
    duration, every = lab.pick((900.0, 10.0), (600.0, 5.0), (30.0, 1.0))
    lag = float(setup.CHOSEN["routers.lag"])
    limit = setup.exact_limit(NINE, setup.taus(), lag)
    beyond = round(1.05 * limit, 3)
    # So near the limit what the joins leave takes minutes to die away; beyond it grows sooner.
    runs = _nine(lab, setup.CHOSEN, duration, every, bounds.PAIR)
    runs |= _nine(lab, setup.CHOSEN, min(duration, 300.0), every, [beyond])
    return {
        "swing": bounds.swings(runs),
        "beyond": beyond,
        "limit": limit,
        "recursion": _directly(bounds.BELOW, lag, duration),
        "limit of QI-RCP": setup.exact_limit(NINE, None, lag),
        "limit, one interval more": setup.exact_limit(NINE, setup.taus(), 1.0),
        "traces": bounds.by_eta(runs, (0, 1, 9)),
    }


def _probe_nine(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return {"swing": bounds.swings(_nine(lab, setup.at(settings), 450.0, 2.0, bounds.PAIR))}


P_9 = Row(
    "P-9",
    "PIQI-RCP, unlike round trips (Fig 9)",
    measure=_measure_nine,
    draw=lambda m, lab: bounds.draw_rates(m, lab, "P-9", "PIQI-RCP"),
    causes=(
        Cause(
            "the exact limit of the loop for this set of round trips lies above, and packets become "
            "unstable beyond it",
            holds=lambda m: m["limit"] > bounds.ABOVE and m["swing"][f"{m['beyond']:g}"] >= setup.STEADY,
            evidence=lambda m: (
                f"{m['limit']:.3f} times (20), {m['limit of QI-RCP']:.3f} times (6) for QI-RCP; oscillation "
                f"{m['swing'][format(m['beyond'], 'g')]:.1%} at {m['beyond']:g}"
            ),
            of=(f"unstable-{bounds.ABOVE:g}",),
        ),
    ),
    matters=(*setup.SENDERS, *setup.ROUTERS),
    probe=_probe_nine,
)

PIQI_ROWS = [P_8, P_9]
