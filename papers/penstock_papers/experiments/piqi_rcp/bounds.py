"""Just below and just above a stability bound: runs in a dumbbell, claims, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.runs import RunSet
from penstock_papers.experiments.piqi_rcp.setup import STEADY, over_time, settled, traces
from penstock_papers.ledger import Claim, Lab, Measurement, at_least, at_most

BELOW, ABOVE = 0.99, 1.01
PAIR = (BELOW, ABOVE)
# What the arithmetic of a theorem leaves.
ROUNDING = 1e-6

Runs = dict[float, "RunSet"]


def dumbbell(
    lab: Lab, protocols: Mapping[float, str], rtt: str, duration: float, flows: int = 2, every: float = 10.0
) -> Runs:
    """A flow every so many seconds, once for each protocol; `rtt` as the scenario takes it."""
    settings = {"flows": flows, "every": f"{every:g}s", "rtt": rtt, "duration": f"{duration:g}s"}
    points = [("staggered", {**settings, "protocol": p}) for p in protocols.values()]
    return dict(zip(protocols, lab.sweep(points, keep=["series"]), strict=True))


def swings(runs: Runs) -> dict[str, float]:
    """Oscillation at the end by eta."""
    return {f"{eta:g}": settled(r) for eta, r in runs.items()}


def told(swing: Mapping[str, float]) -> str:
    """Oscillations in words."""
    return ", ".join(f"{x:.2%} at {eta}" for eta, x in swing.items())


def as_stated(swing: Mapping[str, float]) -> bool:
    """Steady just below the bound, oscillating just above it."""
    return swing[f"{BELOW:g}"] < STEADY < swing[f"{ABOVE:g}"]


def stable(eta: float, what: str, quote: str, where: str, key: str = "swing") -> Claim:
    """The announced rate is steady at the end with this share of the bound."""
    return Claim(
        f"stable-{eta:g}",
        f"{what} is stable at {eta:g} of the bound",
        "bound",
        f"stable at {eta:g}",
        lambda m: m[key][f"{eta:g}"],
        at_most(STEADY),
        quote=quote,
        where=where,
        why="stable: the announced rate moves by less than 1 % of itself in the last tenth of the run",
        say=lambda m: f"oscillation {told({f'{eta:g}': m[key][f'{eta:g}']})}",
    )


def unstable(eta: float, what: str, quote: str, where: str) -> Claim:
    """The announced rate still oscillates at the end."""
    return Claim(
        f"unstable-{eta:g}",
        f"{what} is unstable at {eta:g} times the bound",
        "bound",
        f"unstable at {eta:g}",
        lambda m: m["swing"][f"{eta:g}"],
        at_least(STEADY),
        quote=quote,
        where=where,
        why="unstable: the announced rate moves by more than 1 % of itself in the last tenth of the run",
        say=lambda m: f"oscillation {told({f'{eta:g}': m['swing'][f'{eta:g}']})}",
    )


def draw_rates(m: Measurement, lab: Lab, name: str, title: str) -> list[Path]:
    """A figure of rates over time for each eta."""
    return [
        over_time(lab, f"{name}-{eta}", found, f"{title}, {eta} of the bound")
        for eta, found in m["traces"].items()
    ]


def by_eta(runs: Runs, flows: Sequence[int]) -> dict[str, Any]:
    """Rates of some flows for each eta."""
    return {f"{eta:g}": traces(r, flows) for eta, r in runs.items()}
