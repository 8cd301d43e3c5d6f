"""What the text states beside its figures: crowds, steady states, topology T1, small control intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.models import rcp_stability as rs
from penstock.models.maxmin import max_min
from penstock.runs import RunSet
from penstock_papers.experiments.piqi_rcp import setup
from penstock_papers.experiments.piqi_rcp.share_rows import HOPS, PATHS, WINDOWS, _lot
from penstock_papers.experiments.piqi_rcp.t1_rcp_rows import JOIN as T1_JOIN
from penstock_papers.experiments.piqi_rcp.t1_rcp_rows import L1_MBPS, LONG, SHORT, mbps, t1
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

CAPACITY = 100e6
# The product of rate and round trip of 100 ms, which section III calls commonly deployed.
FINITE = "1250pkt"


def one(value: float) -> Estimate:
    """What a single run says: exactly that, as these scenarios have no randomness, whatever the seed."""
    return Estimate.exact(float(value))


# ---- a crowd joins one flow (section III, Fig 3) ----------------------------------------------------------


def _crowd(lab: Lab, protocol: str, duration: float, **more: Any) -> RunSet:
    given = {
        "rtt": setup.CHOSEN["dumbbell.rtt"],
        "sample": "10ms",
        "series_flows": 2,
        "duration": f"{duration:g}s",
    }
    return lab.sweep([("join", {**given, "protocol": protocol, **more})], keep=["series"])[0]


def _crowded_for(runs: RunSet) -> float:
    """Seconds for which the arrival rate stays at nine tenths of its peak."""
    t, y = setup.sampled(runs, "arrival_rate_bps")
    return float(np.sum(y >= 0.9 * y.max()) * (t[1] - t[0]))


def _share_lost(runs: RunSet) -> float:
    lost = float(runs.mean("drops"))
    return lost / (lost + 5 * CAPACITY / 8000)


def measure_crowd(lab: Lab) -> Measurement:
    """Fifty flows join one under RCP, QI-RCP and PIQI-RCP, and under RCP with a finite buffer."""
    duration = lab.pick(40.0, 30.0, 18.0)
    peaks = {
        name: float(_crowd(lab, protocol, 18.0).mean("queue_max_packets"))
        for name, protocol in {
            "RCP": setup.rcp(),
            "QI-RCP": setup.qi(0.95),
            "PIQI-RCP": setup.simple(),
            "PIQI-RCP, tau2 = 0": setup.simple(tau2=0),
        }.items()
    }
    shown = _crowd(lab, setup.rcp(), duration)
    finite = _crowd(lab, setup.rcp(), 20.0, buffer=FINITE)
    return {
        "peak": peaks,
        "QI-RCP over RCP": one(peaks["QI-RCP"] / peaks["RCP"]),
        "with tau2 over without": one(peaks["PIQI-RCP"] / peaks["PIQI-RCP, tau2 = 0"]),
        "crowded, round trips": one(_crowded_for(shown) / setup.seconds(setup.CHOSEN["dumbbell.rtt"])),
        # Of the packets that came in the five seconds from the join on.
        "lost with a finite buffer": one(_share_lost(finite)),
        "lost with an unlimited queue": one(_share_lost(shown)),
    }


# ---- steady states ----------------------------------------------------------------------------------------


def measure_steady(lab: Lab) -> Measurement:
    """What RCP, QI-RCP and PIQI-RCP settle at after joins, and what XCP shares on two links."""
    given = {"flows": 3, "every": "5s", "rtt": setup.CHOSEN["dumbbell.rtt"], "duration": "40s"}
    gamma = float(setup.CHOSEN["routers.gamma"])
    # What each aims at, as a share of the capacity.
    aims = {"RCP": 1.0, "QI-RCP": gamma, "PIQI-RCP": gamma}
    protocols = (setup.rcp(), setup.qi(0.5), setup.piqi(0.5))
    runs = lab.sweep([("staggered", {**given, "protocol": p}) for p in protocols], keep=["series"])
    names = tuple(aims)

    def late(r: RunSet, key: str) -> float:
        t, values = setup.sampled(r, key)
        return float(setup.tail(t, values, 0.9 * t[-1]).mean())

    scale = float(setup.CHOSEN["parking_lot.quick_scale"])
    shares = {f"{b / a:.2g} of the first": _lot_shares(lab, scale, "xcp", (a, b)) for a, b in LOTS}
    return {
        "use over aim": {
            name: one(late(r, "arrival_rate_bps") / (aims[name] * CAPACITY))
            for name, r in zip(names, runs, strict=True)
        },
        "queue": {name: late(r, "queue_packets") for name, r in zip(names, runs, strict=True)},
        "peak": {name: float(r.mean("queue_max_packets")) for name, r in zip(names, runs, strict=True)},
        # By the second link's rate.
        "XCP over max-min": shares,
        "XCP, farthest from max-min": one(max(max(s, 1 / s) for share in shares.values() for s in share)),
        "RCP, farthest from max-min": one(
            max(max(s, 1 / s) for s in _lot_shares(lab, scale, setup.rcp(), HOPS))
        ),
    }


# Rates of the two links of the parking lot in Mb/s: those of Fig 14, and second links that are slower still.
LOTS = (HOPS, *((HOPS[0], HOPS[0] * part) for part in (0.5, 0.2, 0.1)))


def _lot_shares(lab: Lab, scale: float, protocol: str, links: Sequence[float]) -> list[float]:
    """The rates of three flows on a parking lot over their max-min shares of the same total: XCP fills links
    less than full.
    """
    [runs] = _lot(lab, scale, (protocol,), links)
    (begin, end), present = WINDOWS["three"]
    exact = max_min(list(links), [PATHS[f] for f in present]).rates
    rates = [_rate(runs, f, begin, end) for f in present]
    total = float(sum(rates))
    return [r / total * float(sum(exact)) / w for r, w in zip(rates, exact, strict=True)]


def _rate(runs: RunSet, flow: int, begin: float, end: float) -> float:
    t, rate = setup.flow_rates(runs, flow)
    return float(rate[(t > begin) & (t <= end)].mean())


# ---- topology T1 ------------------------------------------------------------------------------------------


def _windows(runs: RunSet, flow: int, width: float) -> tuple[setup.Array, setup.Array]:
    """Throughput of a flow in windows."""
    t, rate = setup.flow_rates(runs, flow)
    step = max(1, round(width / (t[1] - t[0])))
    whole = len(t) // step * step
    return t[:whole].reshape(-1, step)[:, -1], rate[:whole].reshape(-1, step).mean(axis=1)


def measure_t1(lab: Lab) -> Measurement:
    """RCP in T1: how soon x1 converges, and what l3's flows do after the join."""
    duration = lab.pick(200.0, 70.0, 40.0)
    [runs] = t1(lab, [setup.rcp()], duration)
    late = T1_JOIN + 0.6 * (duration - T1_JOIN)
    when, rate = _windows(runs, 0, LONG)
    alone = when < T1_JOIN
    final = rate[alone][-5:].mean()
    away = when[alone][np.abs(rate[alone] / final - 1) > 0.02]
    t_x2, x2 = _windows(runs, 1, 10 * SHORT)
    last = setup.ports(runs)[1]
    t_rtt, rtt = setup.sampled(runs, "mean_rtt_s", last)
    return {
        "converged, round trips": one((float(away[-1]) if away.size else LONG) / LONG),
        "x2 moves by": one(setup.oscillation(x2[t_x2 > late])),
        "mean round trip at l3 moves by": one(setup.oscillation(rtt[t_rtt > late])),
        "l3": mbps(setup.CHOSEN["t1.l3"]),
        "x1 alone": float(final) * 1000 / 944 / 1e6 / L1_MBPS,
    }


# ---- models -----------------------------------------------------------------------------------------------


def measure_models(lab: Lab) -> Measurement:
    """The bounds of Theorems 1 and 2 where T is small, where it is not, and where round trips are alike."""
    small = np.array([50.0, 100.0, 300.0])
    alike = np.array([98.0, 99.0, 100.0])
    return {
        # (6) over pi T / (2 D).
        "small T": [float(x) for x in rs.qi_bound(small) / (np.pi / (2 * small))],
        "T of a round trip": float(rs.qi_bound(1.0) / (np.pi / 2)),
        "exact over (6), alike": float(rs.critical_kappa(alike) / rs.qi_bound(alike.max())),
        "(6) over (20)": float(rs.qi_bound(12.0) / rs.piqi_bound(12.0)),
        "interval": setup.INTERVAL,
    }


_BOTH = ("QI-RCP", "PIQI-RCP")


def use_of_both(m: Measurement) -> dict[str, Estimate]:
    """What QI-RCP and PIQI-RCP use at the end, over what they aim at."""
    return {name: m["use over aim"][name] for name in _BOTH}


def queue_of_both(m: Measurement) -> dict[str, float]:
    """The mean queue of QI-RCP and PIQI-RCP at the end, packets."""
    return {name: m["queue"][name] for name in _BOTH}


TEXT_ROWS = [
    Row("P-crowd", "Sections III and IV: crowds", measure=measure_crowd),
    Row("P-steady", "Sections II to IV: steady states", measure=measure_steady),
    Row("P-T1", "Section III: topology T1 after the join", measure=measure_t1),
    Row("P-small", "Section IV: the bounds at small intervals", measure=measure_models),
]
