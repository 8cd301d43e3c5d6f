"""Permutations with queues of eight packets, incasts, headers that return to their senders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.network import Network
from penstock.runs import RunSet
from penstock.workloads import Incast, Permutation
from penstock_papers.experiments.lossless import chosen
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

PAPER = "ndp"
CHOSEN = chosen(__file__)
# Bytes of NDP's headers on a packet.
HEADER = 64.0


def law(at: Mapping[str, Any], **more: Any) -> str:
    """NDP as `protocol`."""
    keys = {key: at[f"ndp.{key}"] for key in ("queue", "window", "paths")}
    return "ndp:" + ",".join(f"{key}={value}" for key, value in {**keys, **more}.items())


def point(at: Mapping[str, Any], protocol: str, workload: Any, **settings: Any) -> Any:
    """A point of `Lab.sweep` on the fat tree."""
    network = Network.fat_tree(
        int(at["network.k"]), link_rate=at["network.rate"], link_delay=at["network.delay"]
    )
    return network, {
        "workloads": [workload],
        "protocol": protocol,
        "segment": at["network.segment"],
        "deliveries": "true",
        **settings,
    }


def hosts(at: Mapping[str, Any]) -> int:
    """Hosts of the fat tree."""
    return int(at["network.k"]) ** 3 // 4


def used(at: Mapping[str, Any], runs: RunSet, header: float) -> Any:
    """Share of the hosts' links that delivered packets took, headers included, by run."""
    payload = float(str(at["network.segment"]).removesuffix("B"))
    rate = 1e9 * float(str(at["network.rate"]).removesuffix("Gbps"))
    return runs.values("goodput_bps") * (1 + header / payload) / (hosts(at) * rate)


# ---- permutation ----------------------------------------------------------------------------------------


def _permutation(
    lab: Lab, at: Mapping[str, Any], runs: int, duration: str, explained: bool
) -> dict[str, Any]:
    protocols: dict[str, tuple[str, dict[str, Any]]] = {
        "NDP": (law(at), {}),
        "DCTCP": ("dctcp", {"buffer": "200pkt", "spread": "flow"}),
    }
    if explained:
        protocols |= {
            "in turn": (law(at), {"spread": "round-robin"}),
            "roomy": (law({**at, "ndp.queue": 32}), {}),
        }
    points = [
        point(at, protocol, Permutation(None), warmup="1ms", duration=duration, deliveries="false", **more)
        for protocol, more in protocols.values()
    ]
    found = dict(zip(protocols, lab.sweep(points, runs=runs), strict=True))
    shares = {
        name: Estimate.of(used(at, one, 40.0 if name == "DCTCP" else HEADER)) for name, one in found.items()
    }
    return {"used": shares, "NDP": shares["NDP"]}


def _measure_permutation(lab: Lab) -> Measurement:
    return _permutation(lab, CHOSEN, lab.replications(6, 3), lab.pick("6ms", "3ms", "1200us"), True)


def _draw_permutation(m: Measurement, lab: Lab) -> list[Path]:
    names = {
        "NDP": "NDP",
        "in turn": "NDP, switches in turn",
        "roomy": "NDP, 32 packets",
        "DCTCP": "DCTCP, one path",
    }
    with figures.style():
        figure, (ax,) = figures.new()
        for i, (key, name) in enumerate(names.items()):
            one = m["used"][key]
            ax.bar(i, one.mean, 0.6, yerr=(one.high - one.low) / 2, color=figures.PALETTE[i], label=name)
        ax.axhline(0.92, color=figures.INK, linestyle="--", linewidth=1)
        ax.set(xticks=range(len(names)), ylabel="share of the links", title="Permutation", ylim=(0, 1))
        ax.set_xticklabels(list(names.values()), fontsize=8)
    return [lab.save(figure, "ndp-permutation")]


NDP_P = Row(
    "NDP-P",
    "A permutation over a fat tree with queues of eight packets (section 6.1)",
    measure=_measure_permutation,
    draw=_draw_permutation,
    matters=("network.k", "network.delay", "ndp.window", "ndp.paths"),
    probe=lambda lab, settings: _permutation(lab, {**CHOSEN, **settings}, 3, "3ms", False),
)

# ---- incast ---------------------------------------------------------------------------------------------

SENDERS = (8, 32, 127)


def _incast(at: Mapping[str, Any], protocol: str, senders: int, packets: Any) -> Any:
    response = int(packets) * int(str(at["network.segment"]).removesuffix("B"))
    one = Incast(f"h[1-{senders}]", "h0", response=f"{response}B", count=1, every="1s")
    return point(at, protocol, one, duration="150ms")


def over_ideal(runs: RunSet) -> Any:
    """Completion of the incast over its ideal, by run."""
    return runs.values("receiver_completion_s") / runs.values("receiver_ideal_s")


def _crowd(lab: Lab, at: Mapping[str, Any], runs: int) -> dict[str, Any]:
    points = [_incast(at, law(at), n, at["incast.packets"]) for n in SENDERS]
    points.append(_incast(at, law(at, weight=1000), SENDERS[-1], at["incast.packets"]))
    *found, headers_first = lab.sweep(points, runs=runs)
    return {
        "senders": list(SENDERS),
        "over ideal": [Estimate.of(over_ideal(one)) for one in found],
        "timeouts": [Estimate.of(one.values("timeouts")) for one in found],
        "lost": float(found[-1].mean("drops")),
        "headers first": float(headers_first.mean("timeouts")),
    }


def _draw_crowd(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        mean = np.array([e.mean for e in m["over ideal"]])
        half = np.array([(e.high - e.low) / 2 for e in m["over ideal"]])
        figures.band(ax, m["senders"], mean, half, "NDP", 0)
        ax.set(
            xscale="log", xlabel="senders", ylabel="completion over ideal", title="Incast", ylim=(0.95, None)
        )
        ax.set_xticks(m["senders"], [str(n) for n in m["senders"]])
    return [lab.save(figure, "ndp-incast")]


NDP_I = Row(
    "NDP-I",
    "Incasts to one host of a fat tree (section 6.1)",
    measure=lambda lab: _crowd(lab, CHOSEN, lab.replications(6, 2)),
    draw=_draw_crowd,
    causes=(
        Cause(
            "no header is lost: ten headers for one packet of data leave those of the largest incast in the "
            "queue for longer than the timeout of 1 ms",
            holds=lambda m: m["lost"] == 0 and m["headers first"] == 0 and m["timeouts"][-1].mean > 0,
            evidence=lambda m: (
                f"headers lost: {m['lost']:.0f}; timeouts: {m['timeouts'][-1].mean:.0f}, "
                f"with 1,000 headers for one packet {m['headers first']:.0f}"
            ),
            of=("no-timeouts",),
        ),
    ),
    matters=("network.k", "network.delay", "ndp.window", "incast.packets"),
    probe=lambda lab, settings: _crowd(lab, {**CHOSEN, **settings}, 1),
    cheap=True,
)

# ---- return to sender -----------------------------------------------------------------------------------


def _returned(lab: Lab, at: Mapping[str, Any], runs: int) -> dict[str, Any]:
    few = {"header_queue": at["returned.header_queue"]}
    laws = (law(at, **few), law(at, **few, return_to_sender="false"))
    points = [_incast(at, text, hosts(at) - 1, at["returned.packets"]) for text in laws]
    with_, without = lab.sweep(points, runs=runs)
    return {
        "with": Estimate.of(over_ideal(with_)),
        "without": Estimate.of(over_ideal(without)),
        "timeouts": Estimate.of(with_.values("timeouts")),
        "timeouts without": Estimate.of(without.values("timeouts")),
        "returned": Estimate.of(with_.values("returned")),
    }


def timeouts_left(m: Measurement) -> Estimate:
    """Timeouts with return to sender over those without."""
    return Estimate.exact(m["timeouts"].mean / max(m["timeouts without"].mean, 1e-9))


NDP_R = Row(
    "NDP-R",
    "Headers without room return to their senders (section 3.2.4)",
    measure=lambda lab: _returned(lab, CHOSEN, lab.replications(6, 3)),
    matters=("network.k", "network.delay", "ndp.window"),
    probe=lambda lab, settings: _returned(lab, {**CHOSEN, **settings}, 1),
    cheap=True,
)

ROWS: list[Row] = [NDP_P, NDP_I, NDP_R]
