"""Topology T1 (Fig 1): RCP is unstable (Fig 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models import rcp_stability as rs
from penstock.runs import RunSet
from penstock_papers.experiments.piqi_rcp import setup
from penstock_papers.ledger import Cause, Lab, Measurement, Row

L1_MBPS, JOIN, LONG, SHORT = 155.0, 30.0, 0.71, 0.02
# Of ten flows, one of 710 ms and nine of 20 ms: what section III computes.
MEAN_RTT = (LONG + 9 * SHORT) / 10
# "Unstable": x1's rate, in windows of its round trip, moves by more than this share of itself.
UNSTABLE = 0.1
L3 = (20, 45, 70, 100, 130, 150)


def t1(lab: Lab, protocols: Sequence[str], duration: float, l3: str = setup.CHOSEN["t1.l3"]) -> list[RunSet]:
    """T1 once for each protocol."""
    settings = {"duration": f"{duration:g}s", "l3": l3}
    return lab.sweep([("t1", {**settings, "protocol": p}) for p in protocols], keep=["series"])


def mbps(text: str) -> float:
    """A rate such as "70Mbps" in Mb/s."""
    return float(text.removesuffix("Mbps"))


# ---- P-2 --------------------------------------------------------------------------------------------------


def _pinned(share: float, mean_rtt: float) -> float:
    """RCP's recursion at l1 with x1 pinned to it and the rest of the link taken by constant traffic."""
    run = rs.simulate_rcp(
        rtts_s=[LONG],
        capacity=1.0,
        interval_s=setup.INTERVAL,
        steps=20_000,
        mean_rtt_s=mean_rtt,
        unresponsive=1 - share,
    )
    return float(run.oscillation(5_000)[0])


def _smooth(runs: RunSet, since: float) -> setup.Array:
    """Throughput of x1 in windows of its round trip: bursts of a window protocol are no oscillation."""
    t, rate = setup.flow_rates(runs, 0)
    step = max(1, round(LONG / (t[1] - t[0])))
    late = rate[t >= since]
    return late[: len(late) // step * step].reshape(-1, step).mean(axis=1)


def _joined(runs: RunSet, duration: float) -> float:
    return setup.oscillation(_smooth(runs, JOIN + 0.6 * (duration - JOIN)))


def _rcp_numbers(runs: RunSet, xcp: RunSet, l3: str, duration: float) -> dict[str, Any]:
    share = 1 - mbps(l3) / L1_MBPS
    t, rate = setup.flow_rates(runs, 0)
    # The router of l1 is the first of the sampled ones.
    t_mean, mean_rtt = setup.sampled(runs, "mean_rtt_s")
    late = t_mean > JOIN + 0.6 * (duration - JOIN)
    # What queues add to the mean of ten flows: all cross l1, nine of them l3.
    first, last = setup.ports(runs)[:2]
    waits = [
        float(np.mean(setup.sampled(runs, "queue_packets", port)[1][late])) * 8000 / rate
        for port, rate in ((first, L1_MBPS * 1e6), (last, mbps(l3) * 1e6))
    ]
    return {
        "alone": float(rate[(t > JOIN - 5) & (t < JOIN)].mean() * setup.WIRE / 1e6),
        "swing": _joined(runs, duration),
        "xcp": _joined(xcp, duration),
        "mean RTT": float(np.mean(mean_rtt[late])),
        "queueing": waits[0] + 0.9 * waits[1],
        # Without the queues that the join fills: the 89 ms are propagation times.
        "mean RTT less queueing": float(np.mean(mean_rtt[late])) - waits[0] - 0.9 * waits[1],
        "pinned": _pinned(share, MEAN_RTT),
        "pinned, own mean": _pinned(share, LONG),
        "gain": float(
            rs.rcp_loop_gain(alpha=0.4, responsive_share=share, responsive_rtt_s=LONG, mean_rtt_s=MEAN_RTT)
        ),
    }


def _measure_rcp(lab: Lab) -> Measurement:
    duration = lab.pick(200.0, 70.0, 40.0)
    chosen = setup.CHOSEN["t1.l3"]
    shown, xcp = t1(lab, [setup.rcp(), "xcp"], duration)
    capacities = lab.pick(L3, (20, 70, 130), (70,))
    by_rule = {
        f"mean over {mean}": [
            _joined(t1(lab, [setup.rcp(mean=mean)], duration, f"{c}Mbps")[0], duration) for c in capacities
        ]
        for mean in ("flows", "bytes")
    }
    return {
        **_rcp_numbers(shown, xcp, chosen, duration),
        "capacities": list(capacities),
        "by l3": {**by_rule, "pinned, recursion": [_pinned(1 - c / L1_MBPS, MEAN_RTT) for c in capacities]},
        "traces": setup.traces(shown, (0, 1)),
    }


def _probe_rcp(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    runs = t1(lab, [setup.rcp(chosen), "xcp"], 80.0, chosen["t1.l3"])
    return _rcp_numbers(runs[0], runs[1], chosen["t1.l3"], 80.0)


def _draw_rcp(m: Measurement, lab: Lab) -> list[Path]:
    paths = [setup.over_time(lab, "P-2", m["traces"], "RCP in T1")]
    with figures.style():
        fig, (ax,) = figures.new()
        for i, (name, values) in enumerate(m["by l3"].items()):
            ax.plot(m["capacities"], values, label=name, **figures.look(i))
        ax.axhline(UNSTABLE, color=figures.INK, linewidth=0.8)
        ax.set(xlabel="capacity of l3 (Mb/s)", ylabel="oscillation of x1 (half range / mean)")
        ax.set(title="Where RCP is unstable in T1")
        ax.legend()
        return [*paths, lab.save(fig, "P-2-l3")]


P_2 = Row(
    "P-2",
    "RCP in topology T1 (Fig 2)",
    measure=_measure_rcp,
    draw=_draw_rcp,
    causes=(
        Cause(
            "no capacity of l3 that was run makes x1 oscillate so much",
            holds=lambda m: max(m["by l3"]["mean over flows"]) < UNSTABLE,
            evidence=lambda m: ", ".join(
                f"{x:.1%} at {c} Mb/s"
                for c, x in zip(m["capacities"], m["by l3"]["mean over flows"], strict=True)
            ),
            of=("unstable",),
        ),
    ),
    matters=("t1.l3", *setup.RCP),
    probe=_probe_rcp,
)

T1_RCP_ROWS = [P_2]
