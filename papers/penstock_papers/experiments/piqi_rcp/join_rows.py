"""Flows join one after the other (Fig 11, 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.models import rcp_stability as rs
from penstock.runs import RunSet
from penstock_papers.experiments.piqi_rcp import setup
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

CAPACITY = 100e6
# Other senders: with these the exact limit of P-8's loop is (20) within 1 %, its measuring interval counted.
OTHER = (0.005, 0.95)


def _other(chosen: Mapping[str, Any] = setup.CHOSEN) -> str:
    return setup.simple(chosen, tau1=OTHER[0], tau2=OTHER[1])


# ---- P-11, P-12 -------------------------------------------------------------------------------------------

NAMES = ("RCP", "PIQI-RCP")


def _staggered(lab: Lab, protocols: Sequence[str], every_s: float) -> list[RunSet]:
    settings = {"flows": 10, "every": f"{every_s:g}s", "rtt": "120ms,300ms", "sample": "20ms"}
    settings["duration"] = f"{12 * every_s:g}s"
    return lab.sweep([("staggered", {**settings, "protocol": p}) for p in protocols], keep=["series"])


def _overshoots(runs: RunSet, every_s: float) -> list[float]:
    """Largest arrival rate over the capacity in the 2 s after each join."""
    t, y = setup.sampled(runs, "arrival_rate_bps")
    return [float(y[(t >= every_s * k) & (t < every_s * k + 2)].max()) / CAPACITY for k in range(1, 10)]


def _spread(runs: RunSet, every_s: float) -> float:
    rates = np.array([np.mean(setup.tail(*setup.flow_rates(runs, f), 11 * every_s)) for f in range(10)])
    return float(np.ptp(rates) / rates.mean())


def _least(runs: RunSet, every_s: float) -> list[float]:
    """Least arrival rate between each join and the next, as a share of the capacity."""
    t, y = setup.sampled(runs, "arrival_rate_bps")
    return [float(y[(t > every_s * k) & (t <= every_s * (k + 1))].min()) / CAPACITY for k in range(1, 10)]


def _late(queue: tuple[setup.Array, setup.Array], every_s: float) -> float:
    """Mean queue from two seconds after the second flow's join on."""
    t, packets = queue
    return float(packets[t > every_s + 2].mean())


def _joins(runs: Sequence[RunSet], every_s: float) -> dict[str, Any]:
    late = [setup.sampled(r, "queue_packets") for r in runs]
    least = {name: _least(r, every_s) for name, r in zip(NAMES, runs, strict=True)}
    ratio = np.geomspace(1, 1e4, 200)  # D over T
    return {
        # Of formulas alone: no choice moves it.
        "(35) over (20)": float(np.max(1 / (2 * (1 + ratio)) / rs.piqi_bound(ratio))),
        "spread": {name: _spread(r, every_s) for name, r in zip(NAMES, runs, strict=True)},
        "overshoot": {name: _overshoots(r, every_s) for name, r in zip(NAMES, runs, strict=True)},
        "least": least,
        # The share of the joins after which the arrival rate falls drastically, to half of the capacity.
        "drastic falls": {name: float(np.mean([x <= 0.5 for x in found])) for name, found in least.items()},
        "peak": {name: float(r.mean("queue_max_packets")) for name, r in zip(NAMES, runs, strict=True)},
        "later": {name: _late(q, every_s) for name, q in zip(NAMES, late, strict=True)},
    }


def _measure_joins(lab: Lab) -> Measurement:
    every_s = lab.pick(10.0, 10.0, 2.5)
    runs = _staggered(lab, (setup.rcp(), setup.simple(), _other()), every_s)
    queue = {name: setup.sampled(r, "queue_packets") for name, r in zip((*NAMES, "other"), runs, strict=True)}
    return {
        **_joins(runs[:2], every_s),
        "later, other senders": _late(queue["other"], every_s),
        "peak, other senders": float(runs[2].mean("queue_max_packets")),
        "traces": {name: setup.traces(r, (0, 1, 2, 5, 9)) for name, r in zip(NAMES, runs[:2], strict=True)},
        "queue": {name: setup.thinned(t, q, 600) for name, (t, q) in queue.items()},
    }


def _probe_joins(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    return _joins(_staggered(lab, (setup.rcp(chosen), setup.simple(chosen)), 10.0), 10.0)


def _draw_joins(m: Measurement, lab: Lab) -> list[Path]:
    return [
        setup.over_time(lab, f"P-11-{name.lower()}", found, f"{name}: a flow joins every 10 s")
        for name, found in m["traces"].items()
    ]


def _draw_queues(m: Measurement, lab: Lab) -> list[Path]:
    labels = {"other": f"PIQI-RCP, tau1 = {OTHER[0]:g}, tau2 = {OTHER[1]:g}"}
    drawn = {labels.get(name, name): found for name, found in m["queue"].items()}
    stated = {"peak of RCP": STATED_RCP, "peak of PIQI-RCP": STATED_PIQI}
    return [setup.over_time(lab, "P-12", drawn, "A flow joins every 10 s", "queue (packets)", stated)]


# Fig 12, packets.
STATED_RCP, STATED_PIQI = 3500, 550


def overshoot_over(m: Measurement) -> Estimate:
    """PIQI-RCP's largest excess over the capacity over RCP's."""
    most = {name: max(m["overshoot"][name]) - 1 for name in ("RCP", "PIQI-RCP")}
    return Estimate.exact(max(most["PIQI-RCP"], 0.0) / most["RCP"])


P_11 = Row(
    "P-11",
    "RCP and PIQI-RCP, unlike round trips (Fig 11)",
    measure=_measure_joins,
    draw=_draw_joins,
    matters=(*setup.SENDERS, "routers.gamma", *setup.RCP),
    probe=_probe_joins,
)

P_12 = Row(
    "P-12",
    "Queue of the same (Fig 12)",
    measure=_measure_joins,
    draw=_draw_queues,
    matters=(*setup.SENDERS, "routers.gamma", *setup.RCP),
    probe=_probe_joins,
)

JOIN_ROWS = [P_11, P_12]
