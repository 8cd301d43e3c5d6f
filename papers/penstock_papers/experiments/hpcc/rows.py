"""Tails (Fig 10, 11), and the list of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.runs import Run, RunSet
from penstock_papers.experiments.hpcc.reaction_rows import HPCC_13
from penstock_papers.experiments.hpcc.setup import CHOSEN, hpcc, laws
from penstock_papers.experiments.hpcc.testbed_rows import HPCC_9
from penstock_papers.ledger import CONFIRMED, Cause, Estimate, Lab, Measurement, Row, at_least, at_most

# ---- Fig 10 and 11 ----------------------------------------------------------------------------------------


# What may be called a small flow, in bytes at most.
SMALL_FLOWS: list[int] = [3000, 10000, 30000]


def tails(run: Run) -> dict[str, float]:
    """99th percentile of the slowdown of small flows, for each size that may be meant (NaN where a run has
    none), and mean slowdown of those of 1 MB and more.
    """
    table = run.tables["transfers"]
    found = {}
    for size in SMALL_FLOWS:
        small = table.filter(pl.col("bytes") <= size)["slowdown"].drop_nulls().drop_nans().to_numpy()
        found[f"p99:{size}"] = float(np.percentile(small, 99)) if small.size else float("nan")
    large = table.filter(pl.col("bytes") >= 1e6)["slowdown"].to_numpy()
    return {**found, "large_mean": float(np.nanmean(large))}


def _p99(at: Mapping[str, Any], runs: RunSet) -> Any:
    """The 99th percentile of small flows' slowdown of each run. ValueError where a run has no such flow."""
    values = runs.values(f"p99:{at['traffic.small']}")
    if not np.isfinite(values).all():
        raise ValueError(f"traffic.small: no flow of at most {at['traffic.small']} B in so short a run")
    return values


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
        "p99": {k: [Estimate.of(_p99(at, s)) for s in pair] for k, pair in one.items()},
        "cut": {k: Estimate.of(1 - _p99(at, h) / _p99(at, d)) for k, (h, d) in one.items()},
        "long": Estimate.of(sets[2].values("large_mean") / sets[3].values("large_mean")),
        "median queue": Estimate.of(sets[2].values("queue_mean_bytes") / 1e3),
        "DCQCN queue": Estimate.of(sets[3].values("queue_mean_bytes") / 1e3),
    }


def _pauses(lab: Lab, at: Mapping[str, Any], runs: int, duration: str) -> dict[str, Estimate]:
    more = {"incast_servers": at["traffic.incast"], "link_rate": at["network.rate"]}
    points = [_load(at, law, 0.3, duration, **more) for law in laws(at).values()]
    sets = lab.sweep(points, runs=runs)
    return {name: Estimate.of(s.values("pauses")) for name, s in zip(laws(at), sets, strict=True)}


# T_i and T_d of DCQCN's own paper.
OWN_TIMERS = "55us/50us"


def _measure_loads(lab: Lab) -> Measurement:
    runs, duration = lab.replications(8, 2), lab.pick("100ms", "20ms", "3ms")
    found = _loads(lab, CHOSEN, runs, duration)
    own = [_load(CHOSEN, law, 0.5, duration) for law in laws({**CHOSEN, "dcqcn.timers": OWN_TIMERS}).values()]
    h, d = lab.sweep(own, runs=runs, keep=("transfers",), derive=tails)
    return {
        **found,
        "cut, own timers": Estimate.of(1 - _p99(CHOSEN, h) / _p99(CHOSEN, d)),
        "p99, own timers": Estimate.of(_p99(CHOSEN, d)),
        "pauses": _pauses(lab, CHOSEN, lab.replications(4, 1), lab.pick("20ms", "5ms", "1ms")),
    }


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


_CUT_50 = at_least(0.9)

HPCC_10 = Row(
    "HPCC-10",
    "Tails under web search, pause frames of incasts: HPCC and DCQCN (Fig 10, Fig 11)",
    measure=_measure_loads,
    draw=_draw_loads,
    causes=(
        Cause(
            "which timers DCQCN has on the testbed is open, and they decide it: with those of its own paper "
            "the cut is as stated",
            holds=lambda m: _CUT_50.judge(m["cut, own timers"]) == CONFIRMED,
            evidence=lambda m: (
                f"T_i and T_d of {OWN_TIMERS}: a cut of {m['cut, own timers']}, from {m['p99, own timers']}; "
                f"of {CHOSEN['dcqcn.timers']}: {m['cut']['50 %']}, from {m['p99']['50 %'][1]}"
            ),
            of=("tail-50",),
        ),
    ),
    matters=("network.hosts", "dcqcn.rules", "dcqcn.timers", "traffic.small"),
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
        "p99": {k: [Estimate.of(_p99(at, s)) for s in pair] for k, pair in pairs.items()},
        "ratio": {k: Estimate.of(_p99(at, h) / _p99(at, d)) for k, (h, d) in pairs.items()},
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


def pauses_of_hpcc(m: Measurement) -> list[Any]:
    """Pauses with HPCC in each case."""
    return [pair[0] for pair in m["pauses"].values()]


HPCC_11 = Row(
    "HPCC-11",
    "FB_Hadoop on the fat tree of 320 hosts, with 60-to-1 incasts and without: HPCC and DCQCN (Fig 11)",
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
    matters=("dcqcn.rules", "dcqcn.timers", "traffic.small"),
    probe=lambda lab, settings: _wide(lab, {**CHOSEN, **settings}, 1, "1ms"),
)

ROWS: list[Row] = [HPCC_9, HPCC_10, HPCC_11, HPCC_13]
