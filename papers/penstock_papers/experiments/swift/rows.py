"""Swift: delay at its target, flow and hop scaling (section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models.rdma import Swift
from penstock.network import Network
from penstock.runs import Run
from penstock.workloads import Flows
from penstock_papers.experiments.lossless import after_warmup, delivered, point, samples, seconds, star
from penstock_papers.experiments.swift.incast_rows import SWIFT_2
from penstock_papers.experiments.swift.setup import CHOSEN, HEADER, law, payload, round_trip
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

# ---- delay at its target ----------------------------------------------------------------------------------

TARGETS = (25, 40, 60, 80, 100)
FLOWS = (4, 16, 64, 256)


def _at_target(at: Mapping[str, Any], flows: int, target: str, duration: str, fs_range: str) -> Any:
    return star(
        flows,
        at["network.line"],
        at["network.delay"],
        protocol=law(at, base_target=target, fs_range=fs_range),
        pfc="off",
        port_buffer=at["network.buffer"],
        segment=at["network.packet"],
        warmup="20ms",
        duration=duration,
        sample="50us",
        series=True,
    )


def _targets(lab: Lab, at: Mapping[str, Any], duration: str) -> dict[str, Any]:
    points = [_at_target(at, 16, f"{t}us", duration, "0s") for t in TARGETS]
    more = [_at_target(at, n, at["swift.base_target"], duration, at["swift.fs_range"]) for n in FLOWS]
    sets = lab.sweep([*points, *more], keep=("series",), derive=round_trip)
    packet = 8 * (payload(at) + HEADER)
    model = Swift(
        capacity=100e9 / packet,
        base_rtt=4 * seconds(str(at["network.delay"])) + 3 * packet / 100e9,
        base_target=seconds(str(at["swift.base_target"])),
        fs_range=seconds(str(at["swift.fs_range"])),
    )
    window, _ = model.equilibrium(FLOWS)
    scaled = [float(t) for t in 1e6 * model.target(window)]
    rtt = [float(s.mean("rtt_us")) for s in sets]
    return {
        "rtt": rtt[: len(TARGETS)],
        "over target": [r / t for r, t in zip(rtt, TARGETS, strict=False)],
        "link": [float(s.mean("utilisation")) for s in sets[: len(TARGETS)]],
        "rtt of N": rtt[len(TARGETS) :],
        "model of N": scaled,
        "over model": [r / t for r, t in zip(rtt[len(TARGETS) :], scaled, strict=True)],
    }


def _draw_targets(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, axes = figures.new(1, 2, width=9.0, height=3.6)
        axes[0].plot(TARGETS, TARGETS, label="target", **figures.line(1))
        axes[0].plot(TARGETS, m["rtt"], label="packets, 16 flows", **figures.look(0))
        axes[0].set(xlabel="target delay (us)", ylabel="mean RTT (us)", ylim=(0, None))
        axes[1].plot(FLOWS, m["model of N"], label="target of the windows", **figures.line(1))
        axes[1].plot(FLOWS, m["rtt of N"], label="packets", **figures.look(0))
        axes[1].set(xlabel="flows N", ylabel="mean RTT (us)", xscale="log", ylim=(0, None))
        axes[0].set_title("Delay follows the target")
        axes[1].set_title("Flow scaling (section 3.5)")
        for ax in axes:
            ax.legend(fontsize=8)
    return [lab.save(figure, "swift-target")]


SWIFT_T = Row(
    "SWIFT-3.5",
    "Delay is kept at its target, which grows with the flows (sections 3.2, 3.5)",
    measure=lambda lab: _targets(lab, CHOSEN, lab.pick("60ms", "25ms")),
    draw=_draw_targets,
    matters=("network.delay", "network.packet", "swift.base_target", "swift.fs_range"),
    probe=lambda lab, settings: _targets(lab, {**CHOSEN, **settings}, "24ms"),
    cheap=True,
)

# ---- fairness ---------------------------------------------------------------------------------------------

MANY = 100


def long_share(run: Run) -> dict[str, float]:
    """Share of the flow over more switches in what both delivered."""
    far, near = delivered(run)
    return {"long_share": float(far / (far + near))}


def _paths(at: Mapping[str, Any], hop: str, duration: str) -> Any:
    """Two flows share the last link; one comes from five switches away, the other from the last of them."""
    network = Network(hosts=["a-far", "b-near", "sink"], switches="s[0-4]", name="paths")
    delay, line = at["network.delay"], at["network.line"]
    memory = at["network.buffer"]
    network.link("a-far", "s0", line, delay, buffer=memory)
    network.link(["b-near", "sink"], "s4", line, delay, buffer=memory)
    for i in range(4):
        # What hop scaling is for: each switch more is delay more.
        network.link(f"s{i}", f"s{i + 1}", line, "500ns", buffer=memory)
    more = {
        "warmup": "10ms",
        "duration": duration,
        "segment": at["network.packet"],
        "bottleneck": "s4->sink",
        "pfc": "off",
    }
    flows = [Flows(["a-far", "b-near"], "sink", spread="100us")]
    return point(network, flows, protocol=law(at, fs_range="0s", hop_scale=hop), **more)


def _fairness(lab: Lab, at: Mapping[str, Any], runs: int, duration: str) -> dict[str, Any]:
    paths = lab.sweep(
        [_paths(at, hop, duration) for hop in ("0s", "1us")], runs=runs, keep=("flows",), derive=long_share
    )
    plain, scaled = (np.abs(0.5 - s.values("long_share")) for s in paths)
    many = {
        "pfc": "off",
        "port_buffer": at["network.buffer"],
        "segment": at["network.packet"],
        "warmup": "10ms",
        "duration": duration,
    }
    points = [
        star(MANY, at["network.line"], at["network.delay"], protocol=law(at, fs_range=r), **many)
        for r in ("0s", at["swift.fs_range"])
    ]
    without, with_it = (s.values("jain") for s in lab.sweep(points, runs=runs))
    return {
        "shares": {
            n: Estimate.of(s.values("long_share")) for n, s in zip(("plain", "scaled"), paths, strict=True)
        },
        "less unfair": Estimate.of(plain - scaled),
        "jain": {"without": Estimate.of(without), "with": Estimate.of(with_it)},
        "fairer": Estimate.of(with_it - without),
    }


SWIFT_F = Row(
    "SWIFT-F",
    "Fairness by scaling the target with hops and with flows (section 3.5)",
    measure=lambda lab: _fairness(lab, CHOSEN, lab.replications(8, 3), lab.pick("60ms", "30ms")),
    matters=("network.delay", "network.packet", "swift.base_target", "swift.fs_range"),
    probe=lambda lab, settings: _fairness(lab, {**CHOSEN, **settings}, 2, "25ms"),
)

# ---- within hosts -----------------------------------------------------------------------------------------


def at_hosts(run: Run) -> dict[str, float]:
    """Means after the warm-up: delay within hosts as senders smooth it, and RTT, us."""
    delay = samples(run, "endpoint_delay_s", after=after_warmup(run))["value"].to_numpy()
    return {"endpoint_us": float(1e6 * delay.mean()), **round_trip(run)}


def _slow_host(at: Mapping[str, Any], duration: str, **more: Any) -> Any:
    return star(
        16,
        at["network.line"],
        at["network.delay"],
        protocol=law(at, **more),
        pfc="off",
        port_buffer=at["network.buffer"],
        segment=at["network.packet"],
        processing_delay=at["host.processing"],
        warmup="5ms",
        duration=duration,
        sample="50us",
        series=True,
    )


def _hosts(lab: Lab, at: Mapping[str, Any], duration: str) -> dict[str, Any]:
    chosen_target = at["swift.endpoint_target"]
    target = 1e6 * seconds(str(chosen_target))
    # A target of a second switches the hosts' control off. A gain of one switches smoothing off.
    changes: tuple[dict[str, Any], ...] = ({}, {"endpoint_target": "1s"}, {"endpoint_gain": 1})
    points = [_slow_host(at, duration, **{"endpoint_target": chosen_target, **more}) for more in changes]
    own, blind, sharp = lab.sweep(points, keep=("series",), derive=at_hosts)
    return {
        "over target": float(own.mean("endpoint_us") / target),
        "not smoothed": float(sharp.mean("endpoint_us") / target),
        "shorter": float(blind.mean("rtt_us") / own.mean("rtt_us")),
        "rtt": {"with": float(own.mean("rtt_us")), "without": float(blind.mean("rtt_us"))},
        "kept": float(own.mean("goodput_bps") / blind.mean("goodput_bps")),
    }


SWIFT_E = Row(
    "SWIFT-3.3",
    "Congestion within hosts has a window of its own (section 3.3)",
    measure=lambda lab: _hosts(lab, CHOSEN, lab.pick("40ms", "15ms")),
    matters=("network.delay", "network.packet", "swift.endpoint_target", "host.processing"),
    probe=lambda lab, settings: _hosts(lab, {**CHOSEN, **settings}, "12ms"),
)

ROWS: list[Row] = [SWIFT_2, SWIFT_E, SWIFT_T, SWIFT_F]
