"""Just below and just above a stability bound: runs in a dumbbell, claims, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.runs import RunSet
from penstock_papers.experiments.piqi_rcp.setup import over_time, settled, traces
from penstock_papers.ledger import Lab, Measurement

BELOW, ABOVE = 0.99, 1.01
PAIR = (BELOW, ABOVE)

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


def draw_rates(m: Measurement, lab: Lab, name: str, title: str) -> list[Path]:
    """A figure of rates over time for each eta."""
    return [
        over_time(lab, f"{name}-{eta}", found, f"{title}, {eta} of the bound")
        for eta, found in m["traces"].items()
    ]


def by_eta(runs: Runs, flows: Sequence[int]) -> dict[str, Any]:
    """Rates of some flows for each eta."""
    return {f"{eta:g}": traces(r, flows) for eta, r in runs.items()}
