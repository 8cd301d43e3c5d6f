"""Completion times under Poisson arrivals (Fig 13b)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.models import schedulers
from penstock.runs import RunSet
from penstock_papers.experiments.common import jackknife, over
from penstock_papers.experiments.piqi_rcp import setup
from penstock_papers.ledger import CONFIRMED, Cause, Estimate, Lab, Measurement, Row, claim_criterion

CAPACITY, RTT = 2.4e9, 0.1
LIMITED, QUICKER = "RCP, finite buffer", "PIQI-RCP, tau1 = 0.1"
PAPERS = ("RCP", "PIQI-RCP", "XCP", "TCP")
SIX = (*PAPERS, LIMITED, QUICKER)
# Routers with about a fifth of the stated gain, which is 0.95 of bound (35).
GENTLE = "PIQI-RCP, tau1 = 0.1, kappa 0.2 of its bound"
# Other values of tau1 above the chosen one, within (0, 1) as Theorem 2 has it; alone, and of any number.
HIGHER = {f"PIQI-RCP, tau1 = {tau1:g}": tau1 for tau1 in (0.3, 0.9)}
BRIDGES = (QUICKER, *HIGHER)
# Those whose differences are small beside what elephants make of them: runs are added for these alone.
CLOSE = ("RCP", "PIQI-RCP", QUICKER, GENTLE)
# Schedulers that the same flows are put under.
IDEAL = ("PS", "LAS", "SRPT")
EDGES = np.geomspace(8, 3000, 13)
# The load is 90 % of the link in packets of 1000 B, of which 944 B are payload, because a scenario's load
# counts payload. The paper's packets contain their headers, and its routers allocate 95 % of the link.
LOAD = 0.9 / setup.WIRE


def _workload(
    lab: Lab,
    length: float,
    runs: int,
    chosen: Mapping[str, Any] = setup.CHOSEN,
    *,
    names: Sequence[str] = SIX,
    keep: Sequence[str] = ("transfers", "flows"),
) -> dict[str, RunSet]:
    base = {"capacity": "2.4Gbps", "access_rate": "24Gbps", "duration": f"{length:g}s", "load": LOAD}
    points: dict[str, dict[str, Any]] = {
        "RCP": {"protocol": setup.rcp(chosen)},
        "PIQI-RCP": {"protocol": setup.simple(chosen)},
        "XCP": {"protocol": "xcp"},
        "TCP": {"protocol": "newreno", "initial_window": chosen["poisson.initial_window"]},
        LIMITED: {"protocol": setup.rcp(chosen), "buffer": chosen["poisson.buffer"]},
        QUICKER: {"protocol": setup.simple(chosen, tau1=0.1)},
        GENTLE: {"protocol": setup.piqi(0.2, chosen, bound="simple", tau1=0.1)},
        **{name: {"protocol": setup.simple(chosen, tau1=tau1)} for name, tau1 in HIGHER.items()},
    }
    found = lab.sweep([("poisson", {**base, **points[name]}) for name in names], runs=runs, keep=keep)
    return dict(zip(names, found, strict=True))


def _same_flows(sets: Mapping[str, RunSet], run: int, length: float) -> dict[str, pl.DataFrame]:
    """The transfers of each protocol that began in the middle of the run and were complete under all."""
    done = {
        name: s.tables(run)["transfers"].select("flow", "start_s", "bytes", "fct_s")
        for name, s in sets.items()
    }
    first, *others = done.values()
    common = first.filter((pl.col("start_s") > 0.2 * length) & (pl.col("start_s") < 0.6 * length)).select(
        "flow"
    )
    for table in others:
        common = common.join(table.select("flow"), on="flow")
    return {name: common.join(table, on="flow").sort("flow") for name, table in done.items()}


def _ideal(sets: Mapping[str, RunSet], run: int, wanted: setup.Array) -> dict[str, setup.Array]:
    """Completion times in seconds of the same flows under ideal schedulers.

    An ideal scheduler still needs the handshake and the way there and back: two round trips.
    """
    flows = next(iter(sets.values())).tables(run)["flows"].sort("flow")
    start, size = flows["opened_s"].to_numpy(), flows["size_bytes"].to_numpy() * setup.WIRE * 8
    position = np.searchsorted(flows["flow"].to_numpy(), wanted)
    schedules = {"PS": schedulers.ps_trace, "LAS": schedulers.las_trace, "SRPT": schedulers.srpt_trace}
    return {
        name: (trace(start, size, CAPACITY) - start)[position] + 2 * RTT for name, trace in schedules.items()
    }


def _by_size(packets: setup.Array, times: setup.Array) -> list[float]:
    which = np.digitize(packets, EDGES)
    return [
        float(times[which == b].mean()) if (which == b).any() else float("nan") for b in range(1, len(EDGES))
    ]


def _completion(sets: Mapping[str, RunSet], length: float, runs: int) -> dict[str, Any]:
    afct: dict[str, list[float]] = {}
    by_size: dict[str, list[float]] = {}
    counted = 0
    for run in range(runs):
        same = _same_flows(sets, run, length)
        first = next(iter(same.values()))
        times = {name: table["fct_s"].to_numpy() for name, table in same.items()}
        times |= _ideal(sets, run, first["flow"].to_numpy())
        for name, values in times.items():
            afct.setdefault(name, []).append(1e3 * float(values.mean()))
        counted += first.height
        if run == 0:
            packets = first["bytes"].to_numpy() / 944
            by_size = {name: _by_size(packets, 1e3 * values) for name, values in times.items()}
    means = {name: np.array(values) for name, values in afct.items()}
    return {
        "afct": {name: Estimate.of(values) for name, values in means.items()},
        "others over PIQI": {name: Estimate.of(means[name] / means["PIQI-RCP"]) for name in ("XCP", "TCP")},
        # Others over RCP, and RCP over the ideal.
        "over RCP": {name: Estimate.of(means[name] / means["RCP"]) for name in ("XCP", "TCP")},
        "RCP over PS": Estimate.of(means["RCP"] / means["PS"]),
        # Longest queues without a limit, and completion times with finite buffers under RCP.
        "RCP over TCP": {
            "buffer": Estimate.of(
                sets["RCP"].values("queue_max_packets") / sets["TCP"].values("queue_max_packets")
            ),
            "time": Estimate.of(means[LIMITED] / means["TCP"]),
        },
        "above PS": {name: Estimate.of(means[name] - means["PS"]) for name in PAPERS},
        "finite over infinite": Estimate.of(means[LIMITED] / means["RCP"]),
        "drops": float(sets[LIMITED].mean("drops")),
        "drop rate": float(sets[LIMITED].mean("drop_rate")),
        "by size": by_size,
        "flows": counted,
    }


def _compared(sets: Mapping[str, RunSet], length: float, runs: int) -> dict[str, Any]:
    """How much slower PIQI-RCP is than RCP, and how much of that others than PIQI-RCP as chosen close: of
    means over all runs, as some runs have next to no difference.
    """
    each: dict[str, list[float]] = {}
    for run in range(runs):
        same = _same_flows(sets, run, length)
        times = {name: table["fct_s"].to_numpy() for name, table in same.items()}
        times |= _ideal(sets, run, same["RCP"]["flow"].to_numpy())
        for name, values in times.items():
            each.setdefault(name, []).append(1e3 * float(values.mean()))
    means = {name: np.array(values) for name, values in each.items()}
    gap = means["PIQI-RCP"] - means["RCP"]

    def closed(runs: Sequence[int]) -> dict[str, float]:
        less = {name: means["PIQI-RCP"] - means[name] for name in (*BRIDGES, GENTLE) if name in means}
        found = {name: float(values[runs].mean() / gap[runs].mean()) for name, values in less.items()}
        return found | {"by some tau1": max(found[name] for name in BRIDGES if name in found)}

    return {
        "compared": {name: Estimate.of(values) for name, values in means.items()},
        "close above PS": {name: Estimate.of(means[name] - means["PS"]) for name in ("RCP", "PIQI-RCP")},
        "ideal less PS": {name: Estimate.of(means[name] - means["PS"]) for name in ("SRPT", "LAS")},
        "closed": jackknife(closed, runs),
        "over": {
            name: Estimate.of(means[name] / means["RCP"])
            for name in ("PIQI-RCP", *BRIDGES, "PS")
            if name in means
        },
        "peak, over the chosen tau1": {
            name: Estimate.of(
                sets[name].values("queue_max_packets") / sets["PIQI-RCP"].values("queue_max_packets")
            )
            for name in BRIDGES
            if name in sets
        },
    }


def worse_than_tcp(m: Measurement) -> Estimate:
    """By how much RCP needs more buffer than TCP, or is slower with a finite one: the larger of the two."""
    found: dict[str, Estimate] = m["RCP over TCP"]
    return max(found.values(), key=lambda e: e.mean)


def tau1_over(m: Measurement) -> Estimate:
    """The mean completion time with the highest tau1 over that with the chosen one, both over RCP's."""
    most, chosen = m["over"][BRIDGES[-1]], m["over"]["PIQI-RCP"]
    found: Estimate = over(most, chosen)
    return found


def _measure_completion(lab: Lab) -> Measurement:
    length = lab.pick(40.0, 3.0, 1.5)
    few, runs = lab.pick(3, 2, 1), lab.replications(3, 2)
    sizes = schedulers.pareto(30 * 8000, 1.4)  # bits on the wire
    load = {"arrivals": 0.9 * CAPACITY / (30 * 8000), "capacity": CAPACITY}
    formula = {
        "PS": 1e3 * (float(schedulers.ps_mean(sizes, **load)) + 2 * RTT),
        "SRPT": 1e3 * (float(schedulers.srpt_mean(sizes, **load)) + 2 * RTT),
    }
    # With the tables of flows first: runs without them would be made again.
    six = _workload(lab, length, few)
    first, *others = CLOSE
    close = _workload(lab, length, runs, names=[first])
    close |= _workload(lab, length, runs, names=(*others, *HIGHER), keep=("transfers",))
    return {**_completion(six, length, few), **_compared(close, length, runs), "M/G/1": formula}


def _probe_completion(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """All six, one run each: means of one run are values without an interval."""
    length = 4.0
    sets = _workload(lab, length, 1, setup.at(settings))
    close = {name: sets[name] for name in CLOSE if name in sets}
    return {**_completion(sets, length, 1), **_compared(close, length, 1)}


def _draw_completion(m: Measurement, lab: Lab) -> list[Path]:
    middle = np.sqrt(EDGES[:-1] * EDGES[1:])
    with figures.style():
        fig, (ax,) = figures.new(width=7.2, height=4.6)
        curves = {name: np.asarray(values, float) for name, values in m["by size"].items()}
        for i, (name, curve) in enumerate(each for each in curves.items() if each[0] not in IDEAL):
            ax.plot(middle, curve, label=name, **figures.look(i))
        # The schedulers that the same flows would meet at best: thin, in ink, below them all.
        for name, dashes in zip(IDEAL, ("-", "--", ":"), strict=True):
            ax.plot(middle, curves[name], label=name, color=figures.INK, linestyle=dashes, linewidth=1)
        ax.set(xscale="log", yscale="log", xlabel="flow size (packets)", ylabel="AFCT (ms)")
        ax.set(title="Load 90 % of 2.4 Gb/s, round trip 100 ms")
        ax.legend(fontsize=8)
        return [lab.save(fig, "P-13b")]


_BRIDGED = claim_criterion("P-13b/tau1")


def above_ps(m: Measurement) -> dict[str, Any]:
    """AFCT above processor sharing's, of the rates announced and of the bounds close to it."""
    return {**m["above PS"], **m["close above PS"]}


P_13B = Row(
    "P-13b",
    "Completion times (Fig 13b)",
    measure=_measure_completion,
    draw=_draw_completion,
    causes=(
        Cause(
            "the gain of the routers decides it, not tau1 alone: with the higher tau1 and about a fifth of "
            "that gain the difference is bridged",
            holds=lambda m: _BRIDGED.judge(m["closed"][GENTLE]) == CONFIRMED,
            evidence=lambda m: (
                f"kappa 0.95 of its bound: {m['closed'][QUICKER]} of the difference closed; 0.2 of it: "
                f"{m['closed'][GENTLE]}"
            ),
            of=("tau1",),
        ),
    ),
    matters=("poisson.buffer", "poisson.initial_window", *setup.SENDERS, "routers.gamma", *setup.START),
    probe=_probe_completion,
    # Another replication of the four that are compared is most of a minute of processor time.
    budget=4,
)

COMPLETION_ROWS = [P_13B]
