"""What the text states beside its figures: sections II to V on long flows, section VI.B on queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.models.fluid import solve
from penstock.models.loops import Plant
from penstock.models.marking import Marking
from penstock.runs import Run, RunSet
from penstock_papers.experiments.common import onset
from penstock_papers.experiments.dt_dctcp import analysis, setup
from penstock_papers.experiments.dt_dctcp.queue_rows import QUEUE_SAMPLE, kept_queue
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

Floats = NDArray[np.float64]

# Drop-tail beside DCTCP: the buffer of DCTCP's simulations (choices.toml).
DEEP = "250pkt"
# Thresholds far below the stated 40, packets.
LOW = (1, 2, 5, 10)


def _inside(run: Run) -> dict[str, float]:
    """The share of a run in which its queue lies between K1 and K2, and in which it is empty."""
    queue = kept_queue(run)
    return {
        "between": float(np.mean((queue >= setup.SIM["k1"]) & (queue <= setup.SIM["k2"]))),
        "empty": float(np.mean(queue <= 0)),
    }


def _kept(lab: Lab, points: Sequence[tuple[str, dict[str, Any]]], runs: int) -> list[RunSet]:
    return lab.sweep(points, runs=runs, keep=("series",), derive=_inside)


def _sampled(queue: str, flows: int = 10, **more: Any) -> tuple[str, dict[str, Any]]:
    return setup.long_flows(flows, queue, sample=QUEUE_SAMPLE, series="true", series_flows=0, **more)


def _over(a: RunSet, b: RunSet, key: str) -> Estimate:
    """A summary key of one over that of the other, run by run."""
    return Estimate.of(a.values(key) / b.values(key))


def measure_long(lab: Lab) -> Measurement:
    """Both rules over the numbers of flows, DCTCP beside drop-tail, and thresholds that are too low."""
    runs, flows = setup.replications(lab), lab.pick(setup.FLOWS, setup.QUICK_FLOWS, (10, 60, 80, 100))
    one, two = (
        lab.sweep([setup.long_flows(n, rule) for n in flows], runs=runs)
        for rule in (setup.SINGLE, setup.double())
    )
    tcp = [setup.long_flows(n, "droptail", protocol="newreno", buffer=DEEP) for n in (10, 20)]
    plain = lab.sweep(tcp, runs=runs)
    marked = [one[flows.index(10)], lab.runs(*setup.long_flows(20, setup.SINGLE), runs=runs)]
    stated, *low = _kept(
        lab,
        [_sampled(setup.SINGLE), *(_sampled(f"threshold:k={k}pkt,count={setup.SIM['count']}") for k in LOW)],
        runs,
    )
    held, full = _kept(
        lab, [_sampled(setup.double()), _sampled("droptail", protocol="newreno", buffer=DEEP)], runs
    )
    late, last = flows.index(80), len(flows) - 1

    def growth(sets: Sequence[RunSet]) -> Floats:
        return np.asarray(sets[last].values("alpha_mean") - sets[late].values("alpha_mean"))

    worst = min(low, key=lambda r: r.mean("utilisation"))
    return {
        "N": list(flows),
        "last growth of alpha, DCTCP over DT": Estimate.of(growth(one) / growth(two)),
        "DCTCP over drop tail": {
            key: [_over(a, b, name) for a, b in zip(marked, plain, strict=True)]
            for key, name in (("throughput", "utilisation"), ("queue", "queue_mean_packets"))
        },
        "too low": {
            "throughput": _over(worst, stated, "utilisation"),
            "empty": Estimate.of(worst.values("empty")),
        },
        "as stated, empty": Estimate.of(stated.values("empty")),
        "between K1 and K2": Estimate.of(held.values("between")),
        "between K1 and K2, DCTCP": Estimate.of(stated.values("between")),
        "between K1 and K2, drop tail": Estimate.of(full.values("between")),
    }


# ---- models -----------------------------------------------------------------------------------------------


def _crossing(plant: Plant) -> float:
    """The frequency (rad/s) at which a plant first crosses the negative real axis."""
    omega = np.geomspace(0.2, 30, 20_000) / plant.rtt
    imaginary = plant.response(omega).imag
    turns = np.flatnonzero(np.diff(np.sign(imaginary)) != 0)
    crossing = [i for i in turns if plant.response(omega[i : i + 1]).real[0] < 0]
    return float(omega[crossing[0]])


def _third_harmonic(flows: int) -> float:
    """The third harmonic of a relay's output behind the plant, over its first: a square wave has a third of
    it.
    """
    plant = Plant(analysis.CAPACITY, analysis.RTT, flows, analysis.G)
    at = _crossing(plant)
    first, third = np.abs(plant.response(np.array([at, 3 * at])))
    return float(third / (3 * first))


def measure_models(lab: Lab) -> Measurement:
    """The fluid equations and the loci of sections II to V."""
    flows = list(analysis.FLOWS)
    queue = solve(setup.link(flows), Marking.single(setup.SIM["k"])).queue
    late = queue[len(queue) // 2 :]
    one, two = analysis.margins(analysis.Reading("as printed"), flows)
    every, _ = analysis.margins(analysis.Reading("as printed"), range(1, flows[-1] + 1))
    window = np.asarray(setup.link(flows).window_at(float(setup.SIM["k"])))
    mark = np.sqrt(2 / window)
    return {
        "N": flows,
        # The highest over the lowest queue of the fluid, where it has settled.
        "swing of the fluid": [float(x) for x in late.max(axis=0) / np.maximum(late.min(axis=0), 1.0)],
        "third harmonic": [_third_harmonic(n) for n in flows],
        # -1/N0 of one threshold goes along the real axis and back: a locus that reaches it crosses it twice.
        "N with two intersections": int(np.sum(every <= 1)),
        "margin": {"DCTCP": one, "DT-DCTCP": two},
        # dW/dt and d(alpha)/dt of (1) and (2) at the operating point, in units of 1/R.
        "left at the operating point": float(np.max(np.abs(1 - window * mark * mark / 2))),
    }


# ---- section VI.B -----------------------------------------------------------------------------------------

TOTAL = "1MB"
SEVERAL = (34, 35, 36, 37, 38, 39, 40, 41, 42)
# The buffer of the port to the client (packets of 1500 B).
BUFFER = 128_000 / 1500
# From so much of it on a buffer is full: a packet less may not fit.
FULL = 0.98
# The lowest threshold of any rule in packets of 1500 B: with fewer the port is still filling.
PACKET = 1500
LOWEST = 28_000 / PACKET
# Numbers of workers of 64 KB among which the last four before a collapse are.
APPROACH = range(20, 38)


def _switches(run: Run) -> dict[str, float]:
    """Drops at the port towards the aggregator, and at every other port."""
    ports = run.tables["ports"]
    lost = ports["drops_overflow"].cast(float) + ports["drops_early"].cast(float)
    root = ports["bottleneck"]
    return {
        "drops at the root": float(lost.filter(root).sum()),
        "drops elsewhere": float(lost.filter(~root).sum()),
    }


def _steady(run: Run) -> dict[str, float]:
    """The deviation of the queue (packets) within a query while all workers send: from when the queue first
    holds the lowest threshold of any rule to the first response that is complete. The root of the mean square
    over the queries, without the filling and the emptying of the port.
    """
    transfers = run.tables["transfers"].sort("start_s")
    workers = int(dict(run.scenario["set"])["servers"])
    starts = transfers["start_s"].to_numpy().reshape(-1, workers).min(axis=1)
    ends = transfers["delivered_s"].to_numpy().reshape(-1, workers).min(axis=1)
    series = run.tables["series"].filter(pl.col("metric") == "queue_bytes")
    times, queue = series["time_s"].to_numpy(), series["value"].to_numpy() / PACKET
    squares = []
    for start, end in zip(starts, ends, strict=True):
        inside = queue[(times >= start) & (times < end)]
        held = np.flatnonzero(inside >= LOWEST)
        if held.size and inside.size - held[0] >= 10:
            squares.append(float(np.var(inside[held[0] :])))
    return {"deviation": float(np.sqrt(np.mean(squares))) if squares else float("nan")}


def measure_queries(lab: Lab) -> Measurement:
    """Queries of 64 KB per worker and of 1 MB in all, at a few numbers of workers."""
    runs = lab.replications(5, 2)
    more: dict[str, Any] = lab.pick({}, {"repetitions": 40}, {"repetitions": 5})
    several = lab.pick(SEVERAL, SEVERAL[::2], SEVERAL[:2])

    def ask(servers: Sequence[int], rule: str, **given: Any) -> list[RunSet]:
        points = [setup.query(n, rule, **more, **given) for n in servers]
        return lab.sweep(points, runs=runs, keep=("ports",), derive=_switches)

    total = {name: ask(several, rule, total=TOTAL) for name, rule in setup.RULES.items()}
    alone = {name: ask([1], rule, total=TOTAL) for name, rule in setup.RULES.items()}
    approach = lab.pick(APPROACH, APPROACH, APPROACH[::4])
    rising = {name: ask(approach, rule) for name, rule in setup.RULES.items()}
    collapse = min(
        onset(approach, [s.mean("goodput_bps") for s in sets]) or approach[-1] + 1 for sets in rising.values()
    )
    before = [n for n in approach if n < collapse][-4:] or [approach[0]]

    def calm(rule: str, servers: Sequence[int], runs: int, **chosen: Any) -> list[RunSet]:
        given = {**more, "series": "true", "series_flows": 0, "sample": "50us"}
        points = [setup.query(n, rule, {**setup.TESTBED, **chosen}, **given) for n in servers]
        return lab.sweep(points, runs=runs, keep=("series", "transfers"), derive=_steady)

    steady = {name: calm(rule, before, runs) for name, rule in setup.RULES.items()}
    first, *others = setup.RULES
    # Without the floor under windows, and with shorter first windows: one run, at the last number before.
    elsewhere = [
        [calm(setup.RULES[name], before[-1:], 1, **chosen)[0].mean("deviation") for name in (first, *others)]
        for chosen in ({"min_window": 1}, {"initial_window": 2}, {"min_window": 1, "initial_window": 2})
    ]

    def mean(sets: Sequence[RunSet], key: str) -> Floats:
        return np.asarray(np.mean([s.values(key) for s in sets], axis=0))

    def changes(sets: Sequence[RunSet]) -> Estimate:
        longest = np.array([s.values("queue_max_packets") for s in sets])
        return Estimate.of(longest.max(axis=0) / longest.min(axis=0))

    every: Mapping[str, list[RunSet]] = {name: [*total[name], *rising[name]] for name in setup.RULES}
    return {
        "servers": list(several),
        "workers before the collapse": before,
        # Of the times of all queries with 34 to 42 workers.
        "tail, DT over DCTCP": {
            name: Estimate.of(mean(total[name], "block_p99_s") / mean(total[first], "block_p99_s"))
            for name in others
        },
        "tail": {name: Estimate.of(1e3 * mean(sets, "block_p99_s")) for name, sets in total.items()},
        "deviation, DT over DCTCP": {
            name: Estimate.of(mean(steady[name], "deviation") / mean(steady[first], "deviation"))
            for name in others
        },
        "least deviation elsewhere": min(x / one for one, *two in elsewhere for x in two),
        "longest queue, most over least": {name: changes(sets) for name, sets in total.items()},
        # With one worker beside them, whose packets do not queue.
        "from one worker": {name: changes([*alone[name], *sets]) for name, sets in total.items()},
        "least of the longest over the buffer": min(
            float(s.values("queue_max_packets").min()) / BUFFER for sets in total.values() for s in sets
        ),
        "drops elsewhere": {
            name: Estimate.of(np.sum([s.values("drops elsewhere") for s in sets], axis=0))
            for name, sets in every.items()
        },
        "drops at the root": {
            name: Estimate.of(np.sum([s.values("drops at the root") for s in sets], axis=0))
            for name, sets in every.items()
        },
    }


def longest_of_two(m: Measurement) -> list[Estimate]:
    """The longest queue of either setting of DT-DCTCP, most over least over the numbers of workers. Where
    each number fills the buffer it could not be longer, and the interval is without end.
    """
    found = [m["longest queue, most over least"][name] for name in list(setup.RULES)[1:]]
    full = m["least of the longest over the buffer"] >= FULL
    return [Estimate.unknown() for _ in found] if full else found


def longest_from_one(m: Measurement) -> list[Estimate]:
    """The same with one worker beside them."""
    return [m["from one worker"][name] for name in list(setup.RULES)[1:]]


TEXT_ROWS = [
    Row("D-long", "Sections I to III: long flows", measure=measure_long),
    Row("D-loci", "Sections III to V: the fluid and the loci", measure=measure_models),
    Row("D-query", "Section VI.B: what drops, and the longest delays", measure=measure_queries),
]
