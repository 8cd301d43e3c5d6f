"""Section VI as simulations: links, runs, and what is measured, of kernel sockets too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.runs import RunSet
from penstock_papers.experiments.piqi_rcp import setup
from penstock_papers.ledger import Estimate, Lab

NAMES = ("RCP", "PIQI-RCP")
# Senders with the stated tau1 that follow most of a change at once, to see what the stated tau2 does.
NIMBLE: dict[str, Any] = {"tau1": setup.CHOSEN["section6.tau"][0], "tau2": 0.88}
# A round trip half as long again: the answer to a crowd comes that much later.
LONGER = {"rtt": "75ms", "delay": "37.5ms"}
GIGABIT, CROWDED = 1e9, 100e6
MATTERS = ("section6.bound", "section6.packet_bytes", *setup.RCP)
MATTERS_CROWD = ("section6.sample", *MATTERS)


def path(chosen: Mapping[str, Any] = setup.CHOSEN) -> dict[str, Any]:
    """Settings of section VI's links and packets."""
    return {
        "rtt": "50ms",
        "delay": "25ms",
        "access_rate": "1Gbps",
        "segment": f"{chosen['section6.packet_bytes'] - 56}B",
    }


def pair(chosen: Mapping[str, Any] = setup.CHOSEN) -> tuple[str, str]:
    """Section VI's RCP and PIQI-RCP."""
    return setup.rcp_linux(chosen), setup.piqi_linux(chosen)


# ---- P-16, P-17, P-18: what is measured, of simulated and of kernel runs alike ---------------------------


def three_numbers(runs: Sequence[RunSet], every_s: float, capacity: float) -> dict[str, Any]:
    """Three flows come `every_s` seconds apart and stay thrice as long. Returns utilisation of the link of
    `capacity` bit/s, the largest arrival rate over it, and the largest queue in packets, in all and after
    each join.
    """
    found: dict[str, Any] = {"use": {}, "most": {}, "peak": {}, "after joins": {}}
    for name, r in zip(NAMES, runs, strict=True):
        t, y = setup.sampled(r, "arrival_rate_bps")
        found["most"][name] = float(y[t > every_s / 2].max()) / capacity
        found["use"][name] = float(y[(t > every_s / 2) & (t < 5 * every_s)].mean()) / capacity
        found["peak"][name] = float(r.mean("queue_max_packets"))
        tq, queue = setup.sampled(r, "queue_packets")
        found["after joins"][name] = [
            float(queue[(tq >= k * every_s) & (tq < k * every_s + 2)].max()) for k in (1, 2)
        ]
    return found


def moving(y: setup.Array, samples: int) -> setup.Array:
    """Means over so many samples up to each."""
    sums = np.concatenate([np.zeros(1), np.cumsum(y)])
    first = np.maximum(np.arange(1, y.size + 1) - samples, 0)
    last = np.arange(1, y.size + 1)
    return (sums[last] - sums[first]) / (last - first)


def crowd_numbers(runs: Sequence[RunSet], join: float, leave: float, sample: float) -> dict[str, Any]:
    """Ten flows join one on 100 Mb/s and leave: largest queue, largest and least arrival rate in Mb/s (means
    over `sample` seconds) while they are there, and the seconds below half of the capacity.
    """
    found: dict[str, Any] = {"peak": {}, "most": {}, "least": {}, "low for": {}}
    for name, r in zip(NAMES, runs, strict=True):
        t, y = setup.sampled(r, "arrival_rate_bps")
        found["peak"][name] = float(r.mean("queue_max_packets"))
        means = moving(y, max(1, round(sample / (t[1] - t[0]))))
        found["most"][name] = float(means[(t > join - 0.1) & (t < join + 2)].max()) / setup.MBPS
        # From the first answers to the crowd on.
        after = (t > join + 0.3) & (t < min(leave, join + 30))
        found["least"][name] = float(means[after].min()) / setup.MBPS
        found["low for"][name] = float((y[after] < 0.5 * CROWDED).sum() * (t[1] - t[0]))
    return found


def mice_numbers(runs: Sequence[RunSet], since: float, capacity: float) -> dict[str, Any]:
    """Largest excess and shortfall of the arrival rate from what each protocol aims at, as shares of it, and
    use of the link and mean queue in packets, over all replications.
    """
    found: dict[str, Any] = {"excess": {}, "shortfall": {}, "use": {}, "queue": {}}
    ranges = []
    for name, r, aim in zip(NAMES, runs, (1.0, 0.95), strict=True):
        up, down, use, queue = [], [], [], []
        for run in range(len(r.runs)):
            t, y = setup.sampled(r, "arrival_rate_bps", run=run)
            late = y[t > since] / capacity / aim - 1
            up.append(float(late.max()))
            down.append(-float(late.min()))
            use.append(float(y[t > since].mean()) / capacity)
            tq, q = setup.sampled(r, "queue_packets", run=run)
            queue.append(float(q[tq > since].mean()))
        ranges.append(np.array(up) + np.array(down))
        found["excess"][name], found["shortfall"][name] = Estimate.of(up), Estimate.of(down)
        found["use"][name], found["queue"][name] = Estimate.of(use), Estimate.of(queue)
    return {**found, "range over RCP's": Estimate.of(ranges[1] / ranges[0])}


# ---- runs -------------------------------------------------------------------------------------------------


def three_flows(
    lab: Lab, chosen: Mapping[str, Any], every_s: float, protocols: Sequence[str] = ()
) -> list[RunSet]:
    """Fig 16: three flows at 1 Gb/s, `every_s` seconds apart."""
    settings = {**path(chosen), "capacity": "1Gbps", "flows": 3, "every": f"{every_s:g}s"}
    settings |= {"lasting": f"{3 * every_s:g}s", "duration": f"{5 * every_s:g}s", "sample": "100ms"}
    points = [("staggered", {**settings, "protocol": p}) for p in protocols or pair(chosen)]
    return lab.sweep(points, keep=["series"])


def spacing(lab: Lab) -> float:
    """Seconds between the joins of Fig 16."""
    return lab.pick(30.0, 10.0, 1.0)


JOIN, LEAVE = 30.0, 113.0
SAMPLE = setup.seconds(setup.CHOSEN["section6.sample"])


def ten_join(
    lab: Lab,
    protocols: Sequence[str],
    chosen: Mapping[str, Any] = setup.CHOSEN,
    end: float = 120.0,
    more: Mapping[str, Any] | None = None,
) -> list[RunSet]:
    """Fig 18: ten flows join one at 100 Mb/s, and leave; `more` settings instead."""
    settings = {
        **path(chosen),
        "capacity": "100Mbps",
        "flows": 10,
        "join_at": f"{JOIN:g}s",
        "sample": "10ms",
        "series_flows": 1,
    }
    settings |= {"duration": f"{end:g}s", "leave_at": f"{min(LEAVE, end - 2):g}s", **(more or {})}
    return lab.sweep([("join", {**settings, "protocol": p}) for p in protocols], keep=["series"])


def crowd_end(lab: Lab) -> float:
    """When the runs of Fig 18 end."""
    return lab.pick(120.0, 120.0, 36.0)


def mice_settings(capacity: str, since: float, end: float, packets: int) -> dict[str, Any]:
    """One long flow from the start and Pareto flows from `since` on, five per second."""
    return {
        **path(),
        "capacity": capacity,
        "long_flows": 1,
        "arrivals": 5,
        "mean_packets": packets,
        "from": f"{since:g}s",
        "warmup": f"{since:g}s",
        "duration": f"{end:g}s",
        "sample": "10ms",
        "series": "true",
        "series_flows": 1,
    }
