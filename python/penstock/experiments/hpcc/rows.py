"""Tails (Fig 10, 11), reaction (Fig 13), standing windows; and the list of all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.experiments.hpcc.setup import CHOSEN, PAPER, hpcc, laws
from penstock.experiments.hpcc.testbed_rows import HPCC_9
from penstock.experiments.lossless import star, where
from penstock.ledger import (
    CONFIRMED,
    Cause,
    Claim,
    Estimate,
    Measurement,
    Row,
    at_least,
    at_most,
    every,
    within,
)
from penstock.models.rdma import hpcc_equilibrium
from penstock.runs import Run
from penstock.workloads import Flows

if TYPE_CHECKING:
    from penstock.ledger import Lab

# ---- Fig 10 and 11 ----------------------------------------------------------------------------------------


def tails(run: Run) -> dict[str, float]:
    """99th percentile of the slowdown of small flows, mean slowdown of those of 1 MB and more."""
    table = run.tables["transfers"]
    small = table.filter(pl.col("bytes") <= CHOSEN["traffic.small"])["slowdown"].to_numpy()
    large = table.filter(pl.col("bytes") >= 1e6)["slowdown"].to_numpy()
    return {"small_p99": float(np.nanpercentile(small, 99)), "large_mean": float(np.nanmean(large))}


def _load(at: Mapping[str, Any], law: str, load: float, duration: str, **more: Any) -> Any:
    settings = {
        "topology": at["network.hosts"],
        "link_rate": at["network.testbed_rate"],
        "sizes": at["traffic.sizes"],
        "load": load,
        "protocol": law,
        "duration": duration,
        "incast_servers": 0,
        **more,
    }
    return "rdma", settings


def _loads(lab: Lab, at: Mapping[str, Any], runs: int, duration: str) -> dict[str, Any]:
    loads = (0.3, 0.5)
    points = [_load(at, law, load, duration) for load in loads for law in laws(at).values()]
    sets = lab.sweep(points, runs=runs, keep=("transfers",), derive=tails)
    one = {"30 %": sets[:2], "50 %": sets[2:]}
    return {
        "p99": {k: [Estimate.of(s.values("small_p99")) for s in pair] for k, pair in one.items()},
        "cut": {
            k: Estimate.of(1 - h.values("small_p99") / d.values("small_p99")) for k, (h, d) in one.items()
        },
        "long": Estimate.of(sets[2].values("large_mean") / sets[3].values("large_mean")),
        "median queue": Estimate.of(sets[2].values("queue_mean_bytes") / 1e3),
        "DCQCN queue": Estimate.of(sets[3].values("queue_mean_bytes") / 1e3),
    }


def _pauses(lab: Lab, at: Mapping[str, Any], runs: int, duration: str) -> dict[str, Estimate]:
    more = {"incast_servers": at["traffic.incast"], "link_rate": at["network.rate"]}
    points = [_load(at, law, 0.3, duration, **more) for law in laws(at).values()]
    sets = lab.sweep(points, runs=runs)
    return {name: Estimate.of(s.values("pauses")) for name, s in zip(laws(at), sets, strict=True)}


def _measure_loads(lab: Lab) -> Measurement:
    found = _loads(lab, CHOSEN, lab.replications(8, 2), lab.pick("100ms", "20ms", "3ms"))
    return {**found, "pauses": _pauses(lab, CHOSEN, lab.replications(4, 1), lab.pick("20ms", "5ms", "1ms"))}


def _probe_loads(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    at = {**CHOSEN, **settings}
    return {**_loads(lab, at, 1, "15ms"), "pauses": _pauses(lab, at, 1, "4ms")}


def _draw_loads(m: Measurement, lab: Lab) -> list[Path]:
    stated = {"30 %": (1.70, 11.2), "50 %": (2.70, 53.9)}
    with figures.style():
        figure, (ax,) = figures.new()
        for i, name in enumerate(laws(CHOSEN)):
            x = np.arange(2) + 0.36 * i - 0.18
            ax.bar(x, [m["p99"][k][i].mean for k in stated], 0.34, color=figures.PALETTE[i], label=name)
            ax.plot(x, [pair[i] for pair in stated.values()], "k_", markersize=22)
        ax.set(xticks=(0, 1), yscale="log", ylabel="slowdown of small flows, 99 %")
        ax.set(title="Fig 10: web search; strokes: stated, below 3 KB")
        ax.set_xticklabels([f"load {k}" for k in stated])
        ax.legend()
    return [lab.save(figure, "hpcc-fig10")]


HPCC_10 = Row(
    "HPCC-10",
    PAPER,
    "Tails under web search, pause frames of incasts: HPCC and DCQCN (Fig 10, Fig 11)",
    claims=(
        Claim(
            "tail-30",
            "at 30 % load HPCC cuts the 99th percentile of small flows' slowdown by 85 %",
            "ratio",
            "from 11.2 to 1.70",
            lambda m: m["cut"]["30 %"],
            at_least(0.7),
            where=where("section 5.2, Fig 10(a)"),
            why="stated 0.85; twice the slowdown that is stated would leave 0.7",
        ),
        Claim(
            "tail-50",
            "at 50 % load by 95 %",
            "ratio",
            "from 53.9 to 2.70",
            lambda m: m["cut"]["50 %"],
            at_least(0.9),
            where=where("abstract; section 5.2, Fig 10(b)"),
            why="stated 0.95; twice the slowdown that is stated would leave 0.9",
        ),
        Claim(
            "long-pay",
            "long flows are a little slower with HPCC than with DCQCN",
            "order",
            "slightly higher slowdown above 1 MB",
            "long",
            at_least(1.0),
            where=where("section 5.3"),
            why="5 % of the link and the telemetry in every packet are theirs",
        ),
        Claim(
            "queue",
            "at 50 % load HPCC's queues are near zero",
            "bound",
            "the median is zero",
            "median queue",
            at_most(5),
            where=where("section 5.2, Fig 10(d)"),
            why="mean of the port with the longest mean queue, which is above its median",
            unit="KB",
        ),
        Claim(
            "no-pauses",
            "with HPCC no pause frame is sent, incasts beside 30 % load included",
            "none lost",
            "no PFC pauses",
            lambda m: m["pauses"]["HPCC"],
            at_most(0),
            where=where("section 5.3, Fig 11(b)"),
        ),
        Claim(
            "dcqcn-pauses",
            "with DCQCN some are",
            "bound",
            "PFC pauses",
            lambda m: m["pauses"]["DCQCN"],
            at_least(1),
            where=where("section 5.3, Fig 11(b)"),
            why="one is one",
        ),
    ),
    measure=_measure_loads,
    draw=_draw_loads,
    matters=("dcqcn.rules",),
    probe=_probe_loads,
)

# ---- Fig 11 -----------------------------------------------------------------------------------------------


def _wide(lab: Lab, at: Mapping[str, Any], runs: int, duration: str) -> dict[str, Any]:
    network = {"topology": at["network.fat_tree"], "link_rate": at["network.rate"]}
    cases = {
        "30 %, incast": (0.3, {"incast_servers": at["traffic.wide_incast"]}),
        "50 %": (0.5, {"incast_servers": 0}),
    }
    points = [
        _load(at, law, load, duration, **network, sizes=at["traffic.simulated"], **incast)
        for load, incast in cases.values()
        for law in laws(at).values()
    ]
    sets = lab.sweep(points, runs=runs, keep=("transfers",), derive=tails)
    pairs = dict(zip(cases, zip(sets[::2], sets[1::2], strict=True), strict=True))
    return {
        "p99": {k: [Estimate.of(s.values("small_p99")) for s in pair] for k, pair in pairs.items()},
        "ratio": {
            k: Estimate.of(h.values("small_p99") / d.values("small_p99")) for k, (h, d) in pairs.items()
        },
        "pauses": {k: [Estimate.of(s.values("pauses")) for s in pair] for k, pair in pairs.items()},
    }


# Twice what a switch has here, some 30 MB for a top of rack, shared by its ports.
MORE_MEMORY = "shared:alpha=1,size=64MB"


def _measure_wide(lab: Lab) -> Measurement:
    runs, duration = lab.replications(2, 1), lab.pick("5ms", "1ms", "500us")
    more = {
        "topology": CHOSEN["network.fat_tree"],
        "link_rate": CHOSEN["network.rate"],
        "sizes": CHOSEN["traffic.simulated"],
        "incast_servers": CHOSEN["traffic.wide_incast"],
        "buffer": MORE_MEMORY,
    }
    roomy = lab.sweep([_load(CHOSEN, hpcc(CHOSEN), 0.3, duration, **more)], runs=runs)[0]
    return {
        **_wide(lab, CHOSEN, runs, duration),
        "pauses, more memory": Estimate.of(roomy.values("pauses")),
        "drops, more memory": Estimate.of(roomy.values("drops")),
    }


def _probe_wide(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return _wide(lab, {**CHOSEN, **settings}, 1, "1ms")


def _draw_wide(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        for i, name in enumerate(laws(CHOSEN)):
            x = np.arange(len(m["p99"])) + 0.36 * i - 0.18
            ax.bar(
                x, [pair[i].mean for pair in m["p99"].values()], 0.34, color=figures.PALETTE[i], label=name
            )
        ax.set(xticks=range(len(m["p99"])), yscale="log", ylabel="slowdown of small flows, 99 %")
        ax.set(title="Fig 11: FB_Hadoop on 320 hosts")
        ax.set_xticklabels([f"load {k}" for k in m["p99"]])
        ax.legend()
    return [lab.save(figure, "hpcc-fig11")]


HPCC_11 = Row(
    "HPCC-11",
    PAPER,
    "FB_Hadoop on the fat tree of 320 hosts, with 60-to-1 incasts and without: HPCC and DCQCN (Fig 11)",
    claims=(
        Claim(
            "tail-incast",
            "at 30 % load with 60-to-1 incasts small flows have a shorter tail with HPCC",
            "order",
            "HPCC below DCQCN",
            lambda m: m["ratio"]["30 %, incast"],
            at_most(1.0),
            where=where("section 5.3, Fig 11(a)"),
            why="HPCC's 99th percentile of the slowdown over DCQCN's",
        ),
        Claim(
            "tail-50",
            "so they do at 50 % load",
            "order",
            "HPCC below DCQCN",
            lambda m: m["ratio"]["50 %"],
            at_most(1.0),
            where=where("section 5.3, Fig 11(c)"),
            why="the same",
        ),
        Claim(
            "no-pauses",
            "with HPCC no pause frame is sent, under 60-to-1 incasts either",
            "none lost",
            "no PFC pauses",
            lambda m: [pair[0] for pair in m["pauses"].values()],
            every(at_most(0)),
            where=where("section 5.3, Fig 11(b), (d)"),
        ),
        Claim(
            "dcqcn-pauses",
            "with DCQCN the incasts cause some",
            "bound",
            "PFC pauses",
            lambda m: m["pauses"]["30 %, incast"][1],
            at_least(1),
            where=where("section 5.3, Fig 11(b)"),
            why="one is one",
        ),
    ),
    measure=_measure_wide,
    draw=_draw_wide,
    causes=(
        Cause(
            "the memory of a switch decides it: an incast begins with a window of each sender at once, and "
            "with twice the memory no pause frame is sent and nothing is lost",
            holds=lambda m: (
                at_most(0).judge(m["pauses, more memory"]) == CONFIRMED
                and at_most(0).judge(m["drops, more memory"]) == CONFIRMED
            ),
            evidence=lambda m: (
                f"{MORE_MEMORY}: {m['pauses, more memory']} frames, {m['drops, more memory']} drops; as it "
                f"is: {m['pauses']['30 %, incast'][0]} frames"
            ),
            of=("no-pauses",),
        ),
    ),
    matters=("dcqcn.rules",),
    probe=_probe_wide,
)

# ---- Fig 13 and the windows that stand still --------------------------------------------------------------

REACTIONS = ("both", "per-ack", "per-rtt")
FLOWS = (4, 16, 32, 64)


def _pipe(at: Mapping[str, Any]) -> float:
    """B T of a star of 100 Gb/s in bytes: four links of 1 us and the time of four packets with their headers
    and telemetry, as the law counts it by itself; times the margin.
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


def _tight(m: Measurement) -> Any:
    return m["U over model"][FLOWS.index(TIGHT)]


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


HPCC_13 = Row(
    "HPCC-13",
    PAPER,
    "Reaction to every ACK or once in a round trip (Fig 13); where windows stand still (section 3.3)",
    claims=(
        Claim(
            "per-ack-overreacts",
            "reacting to every ACK alone loses throughput",
            "ratio",
            "overreacts, low throughput",
            "both over per-ACK",
            at_least(1.05),
            where=where("section 5.4, Fig 13(a)"),
            why="5 % less would show in the figure",
        ),
        Claim(
            "per-rtt-slow",
            "reacting once in a round trip alone drains the queue of 16 to 1 more slowly",
            "ratio",
            "slow to drain the queue",
            "per-RTT over both",
            at_least(1.2),
            where=where("section 5.4, Fig 13(b)"),
            why="mean queue from 20 to 120 us; a fifth more would show in the figure",
        ),
        Claim(
            "both-good",
            "HPCC, with both, keeps the link at its target",
            "number",
            "near eta",
            lambda m: m["load"]["both"],
            within(0.95, by=0.04),
            where=where("section 5.4, Fig 13"),
            why="give or take 0.04: W_AI adds to eta",
        ),
        Claim(
            "standing",
            "N flows load a link with eta + N W_AI / (B T)",
            "number",
            "U = eta + N W_AI / (B T), 1 at most",
            "U over model",
            every(within(1, 0.04)),
            where=where("section 3.2 algorithm 1, 3.3"),
            why="follows from line 13 of the algorithm; the queue in packets is no fluid",
        ),
        Claim(
            "no-queue",
            "as long as N W_AI is below (1 - eta) B T, hardly anything queues",
            "bound",
            "W_AI = W_init (1 - eta) / N keeps queues empty",
            lambda m: [m["queues"][i] for i, n in enumerate(FLOWS) if m["model U"][i] < 1],
            every(at_most(5)),
            where=where("section 3.3"),
            why="five packets",
            unit="KB",
        ),
    ),
    measure=_measure_reactions,
    draw=_draw_reactions,
    causes=(
        Cause(
            "a window is a share of B T, a sender sends whole packets: where less than two fit, the second "
            "waits for the acknowledgement of the first; with packets of a quarter of the size the load is "
            "that of the formula",
            holds=lambda m: _tight(m).high < 0.96 <= m["small packets"].mean <= 1.04,
            evidence=lambda m: (
                f"{TIGHT} flows: windows of {m['window']:.0f} B; load over the formula's with packets of "
                f"1,000 B: {_tight(m).mean:.3f}; with packets of {SMALL}: {m['small packets'].mean:.3f}"
            ),
            of=("standing",),
        ),
    ),
    matters=("network.segment", "hpcc.margin", "traffic.spread"),
    probe=_probe_reactions,
)

ROWS: list[Row] = [HPCC_9, HPCC_10, HPCC_11, HPCC_13]
