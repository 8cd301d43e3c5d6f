"""Reaction to every ACK or once in a round trip (Fig 13), and where windows stand still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models.rdma import hpcc_equilibrium
from penstock.workloads import Flows
from penstock_papers.experiments.hpcc.setup import CHOSEN, hpcc
from penstock_papers.experiments.lossless import star
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

REACTIONS = ("both", "per-ack", "per-rtt")
FLOWS = (4, 16, 32, 64)


def _pipe(at: Mapping[str, Any]) -> float:
    """Return B T of a star of 100 Gb/s in bytes, times the margin. T is the delay of four links of 1 us and
    the time of four packets with headers and telemetry, as the law counts it.
    """
    wire = int(str(at["network.segment"]).removesuffix("B")) + 44 + 42
    return (100e9 / 8 * 4e-6 + 4 * wire) * float(at["hpcc.margin"])


def _law(at: Mapping[str, Any]) -> str:
    return f"{hpcc(at)},base_rtt={_pipe(at) * 8 / 100:.3f}ns"


def _reactions(lab: Lab, at: Mapping[str, Any], runs: int, duration: str) -> dict[str, Any]:
    rate, delay, law = at["network.rate"], at["network.delay"], _law(at)
    n, segment = int(at["traffic.incast"]), at["network.segment"]
    flows = [Flows([f"h{i}" for i in range(n)], "sink", spread=at["traffic.spread"])]
    more = {"segment": segment, "warmup": "20us", "duration": duration}
    points = [star(n, rate, delay, flows, protocol=f"{law},react={r}", **more) for r in REACTIONS]
    early = [(net, {**settings, "duration": "120us"}) for net, settings in points]
    whole, begin = lab.sweep(points, runs=runs), lab.sweep(early, runs=runs)
    load = {r: s.values("utilisation") for r, s in zip(REACTIONS, whole, strict=True)}
    queue = {r: s.values("queue_mean_bytes") / 1e3 for r, s in zip(REACTIONS, begin, strict=True)}
    return {
        "load": {r: Estimate.of(v) for r, v in load.items()},
        "queue": {r: Estimate.of(v) for r, v in queue.items()},
        "both over per-ACK": Estimate.of(load["both"] / load["per-ack"]),
        "per-RTT over both": Estimate.of(queue["per-rtt"] / queue["both"]),
    }


def _still(
    lab: Lab, at: Mapping[str, Any], runs: int, duration: str, flows: Sequence[int] = FLOWS
) -> dict[str, Any]:
    rate, delay = at["network.rate"], at["network.delay"]
    more = {"segment": at["network.segment"], "warmup": "2ms", "duration": duration}
    sets = lab.sweep([star(n, rate, delay, protocol=_law(at), **more) for n in flows], runs=runs)
    load, queue = hpcc_equilibrium(flows, _pipe(at), float(at["hpcc.w_ai"]), float(at["hpcc.eta"]))
    return {
        "U": [Estimate.of(s.values("utilisation")) for s in sets],
        "queues": [Estimate.of(s.values("queue_mean_bytes") / 1e3) for s in sets],
        "model U": list(np.minimum(load, 1.0)),
        "model queues": list(queue / 1e3),
        "U over model": [
            Estimate.of(s.values("utilisation") / min(x, 1.0)) for s, x in zip(sets, load, strict=True)
        ],
    }


# Packets of a quarter of the size; flows whose windows have less than two of the usual ones.
SMALL, TIGHT = "256B", 32


def _measure_reactions(lab: Lab) -> Measurement:
    runs, length = lab.replications(4, 1), lab.pick("10ms", "4ms", "3ms")
    small = _still(lab, {**CHOSEN, "network.segment": SMALL}, runs, length, (TIGHT,))
    return {
        **_reactions(lab, CHOSEN, runs, lab.pick("5ms", "2ms")),
        **_still(lab, CHOSEN, runs, length),
        "small packets": small["U over model"][0],
        "window": _pipe(CHOSEN) / TIGHT,
    }


def _probe_reactions(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    at = {**CHOSEN, **settings}
    return {**_reactions(lab, at, 1, "2ms"), **_still(lab, at, 1, "4ms")}


def _draw_reactions(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, axes = figures.new(1, 2, width=9.0, height=3.6)
        for ax, what, model in ((axes[0], "U", "model U"), (axes[1], "queues", "model queues")):
            ax.plot(FLOWS, m[model], label="windows stand still", **figures.line(1))
            half = [(e.high - e.low) / 2 for e in m[what]]
            figures.band(ax, FLOWS, [e.mean for e in m[what]], half, "packets", 0)
            ax.set_xlabel("flows N")
            ax.legend(fontsize=8)
        axes[0].set(ylabel="share of the link", ylim=(0.8, 1.02), title="HPCC: load")
        axes[1].set(ylabel="mean queue (KB)", ylim=(0, None), title="and queue")
    return [lab.save(figure, "hpcc-equilibrium")]


def queues_below_full(m: Measurement) -> list[Any]:
    """Queues at the numbers of flows for which the model expects less than full use."""
    return [m["queues"][i] for i, _ in enumerate(FLOWS) if m["model U"][i] < 1]


HPCC_13 = Row(
    "HPCC-13",
    "Reaction to every ACK or once in a round trip (Fig 13); where windows stand still (section 3.3)",
    measure=_measure_reactions,
    draw=_draw_reactions,
    matters=("network.segment", "hpcc.margin", "traffic.spread"),
    probe=_probe_reactions,
)
