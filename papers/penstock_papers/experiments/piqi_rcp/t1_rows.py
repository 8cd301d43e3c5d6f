"""Topology T1 (Fig 1): QI-RCP (Fig 6) and PIQI-RCP (Fig 10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from penstock.models import rcp_stability as rs
from penstock.runs import RunSet
from penstock_papers.experiments.piqi_rcp import setup
from penstock_papers.experiments.piqi_rcp.t1_rcp_rows import JOIN, LONG, SHORT, mbps, t1
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

# ---- P-6, P-10 --------------------------------------------------------------------------------------------

HALF, NEAR = 0.5, 0.99
PAIR = {"0.5": HALF, "0.99": NEAR}
# (6) of QI-RCP, or (20) of PIQI-RCP, of a delay in intervals.
Bound = Callable[[ArrayLike], setup.Array]
# What must not settle here by the same rule.
RCP = "RCP"


def grain(eta: float, lag: float, mbps: float, bound: Bound) -> float:
    """What one packet per flow and interval, more or less, does to the rate of l3 in one step of (4), whose
    gain is `eta` times a bound.

    Nine flows that started together count together: 9 packets of 1000 B in an interval's share of 0.95 C.
    """
    packets = 0.95 * mbps * 1e6 * setup.INTERVAL / 8000
    return eta * float(bound(max(1.0, SHORT / setup.INTERVAL + lag))) * 9 / packets


def _pair_numbers(
    runs: Mapping[str, RunSet], chosen: Mapping[str, Any], duration: float, bound: Bound
) -> dict[str, Any]:
    found: dict[str, Any] = {"end": {}, "allowed": {}, "dip": {}, "within": {}, "roughness": {}}
    for name, r in runs.items():
        first, last = setup.ports(r)[:2]
        found["end"][name] = {"l1": setup.settled(r, first), "l3": setup.settled(r, last)}
        room = grain(PAIR.get(name, NEAR), float(chosen["routers.lag"]), mbps(chosen["t1.l3"]), bound)
        found["allowed"][name] = {"l1": setup.STEADY, "l3": max(setup.STEADY, room)}
        t, rate = setup.flow_rates(r, 0)
        final = float(setup.tail(t, rate, 0.9 * duration).mean())
        after = rate[t > JOIN]
        found["dip"][name] = float(rate[(t > JOIN + 1) & (t < 2 * JOIN)].min()) / final
        away = np.flatnonzero(np.abs(after / final - 1) > 0.05)
        found["within"][name] = float(t[t > JOIN][away[-1]] - JOIN) if away.size else 0.0
        # How much x1 goes up and down on its way, beside how far it goes.
        found["roughness"][name] = float(np.abs(np.diff(after)).sum() / final)
    return found


def faster(m: Measurement) -> Estimate:
    """The time until x1 stays at its final rate, eta = 0.5 over 0.99."""
    slow, quick = m["within"]["0.5"], m["within"]["0.99"]
    return Estimate.exact(slow / max(quick, 1e-3))


def over(m: Measurement, name: str) -> list[float]:
    """What each announced rate moves by at the end, over what counts as steady."""
    return [m["end"][name][link] / m["allowed"][name][link] for link in ("l1", "l3")]


def _draw_pair(m: Measurement, lab: Lab, name: str, who: str) -> list[Path]:
    return [
        setup.over_time(lab, f"{name}-{eta}", found, f"{who} in T1, eta = {eta}")
        for eta, found in m["traces"].items()
    ]


def _measure_qi(lab: Lab) -> Measurement:
    duration = lab.pick(300.0, 120.0, 45.0)
    counted = setup.at({"routers.lag": 1})
    runs = t1(lab, [setup.qi(HALF), setup.qi(NEAR), setup.qi(NEAR, counted), setup.rcp()], duration)
    pair = dict(zip(PAIR, runs, strict=False))
    return {
        **_pair_numbers({**pair, RCP: runs[3]}, setup.CHOSEN, duration, rs.qi_bound),
        "one interval more": _pair_numbers({"0.99": runs[2]}, counted, duration, rs.qi_bound),
        "limit": setup.exact_limit([SHORT], None, float(setup.CHOSEN["routers.lag"])),
        "traces": {name: setup.traces(r, (0, 1)) for name, r in pair.items()},
    }


def _probe_qi(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    runs = t1(lab, [setup.qi(eta, chosen) for eta in PAIR.values()], 100.0, chosen["t1.l3"])
    return _pair_numbers(dict(zip(PAIR, runs, strict=True)), chosen, 100.0, rs.qi_bound)


P_6 = Row(
    "P-6",
    "QI-RCP in T1 (Fig 6)",
    measure=_measure_qi,
    draw=lambda m, lab: _draw_pair(m, lab, "P-6", "QI-RCP"),
    causes=(
        Cause(
            "the flows of l3 have a round trip of two intervals, and a rate shows one interval after it, "
            "which D/T does not count: with D/T + 1 in (6) both links settle",
            holds=lambda m: m["limit"] < NEAR and max(over(m["one interval more"], "0.99")) <= 1,
            evidence=lambda m: (
                f"the exact limit of l3's loop is {m['limit']:.3f} times (6) for D/T; with D/T + 1 the rates "
                "move by "
                + ", ".join(f"{x:.2%} ({link})" for link, x in m["one interval more"]["end"]["0.99"].items())
            ),
            of=("stable-0.99", "faster"),
        ),
    ),
    matters=("t1.l3", *setup.ROUTERS),
    probe=_probe_qi,
)


def _measure_piqi(lab: Lab) -> Measurement:
    duration = lab.pick(300.0, 120.0, 45.0)
    # Senders for which Theorem 2's step is as good as at T = 10 ms the limit of T is small.
    fine = setup.piqi(NEAR, setup.CHOSEN, interval="1ms")
    runs = t1(lab, [setup.piqi(HALF), setup.piqi(NEAR), fine, setup.rcp()], duration)
    pair = dict(zip(PAIR, runs, strict=False))
    lag = float(setup.CHOSEN["routers.lag"])
    return {
        **_pair_numbers({**pair, RCP: runs[3]}, setup.CHOSEN, duration, rs.piqi_bound),
        "limit": {
            "l1": setup.exact_limit([LONG], setup.taus(), lag),
            "l3": setup.exact_limit([SHORT], setup.taus(), lag),
        },
        "at 1 ms": {
            link: setup.settled(runs[2], p)
            for link, p in zip(("l1", "l3"), setup.ports(runs[2]), strict=False)
        },
        "limit at 1 ms": {
            "l1": setup.exact_limit([LONG], setup.taus(), lag, 1e-3),
            "l3": setup.exact_limit([SHORT], setup.taus(), lag, 1e-3),
        },
        "traces": {name: setup.traces(r, (0, 1)) for name, r in pair.items()},
    }


def _probe_piqi(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    runs = t1(lab, [setup.piqi(eta, chosen) for eta in PAIR.values()], 100.0, chosen["t1.l3"])
    return _pair_numbers(dict(zip(PAIR, runs, strict=True)), chosen, 100.0, rs.piqi_bound)


P_10 = Row(
    "P-10",
    "PIQI-RCP in T1 (Fig 10)",
    measure=_measure_piqi,
    draw=lambda m, lab: _draw_pair(m, lab, "P-10", "PIQI-RCP"),
    causes=(
        Cause(
            "Theorem 2 holds for a small T, and with these senders 10 ms is not: the exact limit of a loop "
            "lies below, and with T = 1 ms above",
            holds=lambda m: min(m["limit"].values()) < NEAR <= min(m["limit at 1 ms"].values()),
            evidence=lambda m: (
                ", ".join(f"{link} {x:.2f}" for link, x in m["limit"].items())
                + " times (20), at 1 ms "
                + ", ".join(f"{link} {x:.2f}" for link, x in m["limit at 1 ms"].items())
                + "; there the rates move by "
                + ", ".join(f"{x:.2%} ({link})" for link, x in m["at 1 ms"].items())
            ),
            of=("stable-0.99",),
        ),
    ),
    matters=("t1.l3", *setup.SENDERS, *setup.ROUTERS),
    probe=_probe_piqi,
)

T1_ROWS = [P_6, P_10]
