"""Section VI.A: the mean queue of N long flows (Fig 10), and its spectrum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock import figures
from penstock.models.fluid import solve
from penstock.models.marking import Marking
from penstock.models.spectrum import Cycle, cycle
from penstock.runs import RunSet
from penstock_papers.experiments.common import centre, half, means, measured, save_table
from penstock_papers.experiments.dt_dctcp import setup
from penstock_papers.experiments.dt_dctcp.queue_rows import MATTERS, QUEUE_SAMPLE, QUEUE_SAMPLE_S, kept_queue
from penstock_papers.ledger import (
    CONFIRMED,
    Cause,
    Criterion,
    Estimate,
    Lab,
    Measurement,
    Row,
    claim_criterion,
)

Floats = NDArray[np.float64]
# Periodograms of 10 ms, half overlapping: about ten cycles each.
SEGMENT = 1000

_SINGLE = Marking.single(setup.SIM["k"])


def queue_runs(lab: Lab, points: list[tuple[int, str]]) -> list[RunSet]:
    """Runs whose bottleneck queue is kept every 10 us, one per (flows, discipline)."""
    settings = [setup.long_flows(n, q, sample=QUEUE_SAMPLE, series="true", series_flows=0) for n, q in points]
    return lab.sweep(settings, keep=("series",))


def queue_cycle(runs: RunSet) -> tuple[Cycle, Floats]:
    """The strongest oscillation of a kept queue, and the queue."""
    samples = kept_queue(runs.runs[0])
    return cycle(samples, QUEUE_SAMPLE_S, segments=2 * (len(samples) // SEGMENT) - 1), samples


# N of the search: the ends of each statement's range and the stated maximum with its neighbours.
_FEW = (10, 20, 30, 35, 50, 55, 60, 65, 70, 80, 100)


def _ratios(sets: Sequence[RunSet]) -> list[Estimate]:
    """The mean queue over that at the first N, run by run."""
    first = sets[0].values("queue_mean_packets")
    return [Estimate.of(s.values("queue_mean_packets") / first) for s in sets]


def local_maximum(flows: Sequence[int], ratio: ArrayLike) -> float:
    """The N from 35 on where a curve has its highest local maximum: more than 2 % of its span above the left
    neighbour, and a fall by as much beyond; inf where it has none.
    """
    r = np.asarray(ratio, dtype=float)
    room = 0.02 * np.ptp(r)
    tops = [
        i
        for i in range(1, len(r) - 1)
        if flows[i] >= 35 and r[i] > r[i - 1] + room and r[i] > r[i + 1 :].min() + room and r[i] >= r[i + 1]
    ]
    return float(flows[max(tops, key=lambda i: r[i])]) if tops else math.inf


def _span_of(sets: Sequence[RunSet]) -> Floats:
    """The range of the mean queue over N, over that at the first N, of each run."""
    curve = np.array([s.values("queue_mean_packets") for s in sets])
    return np.asarray((curve.max(axis=0) - curve.min(axis=0)) / curve[0])


def _strays(ratios: Mapping[str, Estimate]) -> float:
    """The largest deviation of these ratios from one."""
    return max((abs(e.mean - 1) for e in ratios.values()), default=0.0)


def strays_from_70(m: Measurement) -> list[float]:
    """How far DT-DCTCP's mean queue strays from N = 70 on, and that over how far it does before."""
    return [m["strays"], m["strays"] / max(m["strays before"], 1e-9)]


def strays_before_70(m: Measurement) -> list[float]:
    """The same with the numbers of flows before 70 and from there on exchanged."""
    return [m["strays before"], m["strays before"] / max(m["strays"], 1e-9)]


def _numbers(one: Sequence[RunSet], two: Sequence[RunSet], flows: Sequence[int]) -> dict[str, Any]:
    n = np.array(flows)
    ratio, other = _ratios(one), _ratios(two)

    def part(found: list[Estimate], where: Any) -> dict[str, Estimate]:
        return {f"N={m}": e for m, e, use in zip(n, found, where, strict=True) if use}

    late = part(ratio, n >= 35)
    return {
        "at N=10": [Estimate.of(s[0].values("queue_mean_packets")) for s in (one, two)],
        "early": part(ratio, n <= 30),
        "late": late,
        "largest": max(late.values(), key=lambda e: e.mean),
        "least": min(late.values(), key=lambda e: e.mean),
        "DT over DCTCP": {
            f"N={m}": Estimate.of(b.values("queue_mean_packets") / a.values("queue_mean_packets"))
            for m, a, b in zip(flows, one, two, strict=True)
        },
        "span, DT over DCTCP": Estimate.of(_span_of(two) / _span_of(one)),
        "maximum at": local_maximum(flows, centre(ratio)),
        "flat": part(other, n < 70),
        "strays": _strays(part(other, n >= 70)),
        "strays before": _strays(part(other, n < 70)),
    }


def _measure(lab: Lab) -> Measurement:
    runs, every_n = setup.replications(lab), lab.pick(setup.FLOWS, setup.QUICK_FLOWS, _FEW)

    def sweep(queue: str, flows: Sequence[int] = every_n, **more: Any) -> list[RunSet]:
        return lab.sweep([setup.long_flows(n, queue, **more) for n in flows], runs=runs)

    [upper] = sweep(f"threshold:k={setup.SIM['k2']}pkt", setup.FLOWS[:1])
    one, two, direction = sweep(setup.SINGLE), sweep(setup.double()), sweep(setup.DIRECTION)
    # A window of no less than two segments, as of ns-2's patch and of Linux.
    some = every_n[:: lab.pick(3, 3, 5)]
    floor = sweep(setup.SINGLE, some, protocol=f"dctcp:g={setup.SIM['g']},min_window=2")
    few = (2, 3, 5, 7)
    packets = np.concatenate(
        [means(sweep(setup.SINGLE, few), "queue_mean_packets"), means(one, "queue_mean_packets")]
    )
    flows = np.array([*few, *every_n])
    senders: dict[str, Any] = {"growth": "unmarked"}
    models = {
        "equations (1)-(3)": solve(setup.link(flows), _SINGLE),
        "no growth on marks": solve(setup.link(flows), _SINGLE, **senders),
        "and conserved packets": solve(setup.link(flows), _SINGLE, **senders, inflow="window"),
        "and whole packets, whole cuts": solve(
            setup.link(flows), _SINGLE, **senders, inflow="window", whole=True
        ),
    }
    return {
        **_numbers(one, two, every_n),
        "N": list(every_n),
        "ratio": {"DCTCP": _ratios(one), "DT-DCTCP": _ratios(two)},
        "direction": _numbers(one, direction, every_n),
        "ratio, direction": centre(_ratios(direction)),
        "floor": {
            "flows": list(some),
            "mean": measured(floor, "queue_mean_packets"),
            "ratio": _ratios(floor),
        },
        "K2 alone": Estimate.of(upper.values("queue_mean_packets")),
        # A sinusoid of equal mean and power reaches down to here.
        "reaches": two[0].mean("queue_mean_packets") - np.sqrt(2) * two[0].mean("queue_std_packets"),
        "flows": flows,
        "packets": packets,
        "window": np.asarray(setup.link(flows).window_at(packets)),
        "fluid": {name: track.queue.mean(axis=0) for name, track in models.items()},
    }


def _draw(m: Measurement, lab: Lab) -> list[Path]:
    n = m["N"]
    with figures.style():
        own, (ax,) = figures.new()
        for i, (name, ratio) in enumerate(m["ratio"].items()):
            figures.band(
                ax, n, centre(ratio), half(ratio), f"{name} (N=10: {m['at N=10'][i].mean:.0f} packets)", i
            )
        ax.plot(n, m["ratio, direction"], label="DT-DCTCP, turn=direction", **figures.look(2))
        ax.axhspan(0.94, 1.01, color="0.5", alpha=0.15, label="stated for DT-DCTCP to N=70")
        ax.plot([60], [1.83], "k*", label="stated: largest of DCTCP")
        ax.set(xlabel="Number of flows N", ylabel="Mean queue / mean queue at N=10", title="Fig 10")
        ax.legend(fontsize=8)
        fluid, (ax,) = figures.new()
        ax.plot(m["flows"], m["packets"], label="packets", **figures.look(0))
        for i, (name, queue) in enumerate(m["fluid"].items()):
            ax.plot(m["flows"], queue, label=name, **figures.line(i + 1))
        ax.plot(
            m["floor"]["flows"], centre(m["floor"]["mean"]), label="packets, window >= 2", **figures.look(4)
        )
        ax.set(xlabel="Number of flows N", ylabel="Mean queue (packets)", title="DCTCP: fluid and packets")
        ax.legend(fontsize=8)
    columns = {"flows": m["flows"], "window": m["window"], "packets": m["packets"]}
    save_table(
        lab,
        "dt-dctcp-fluid-mean-queue",
        {**columns, **{f"fluid: {name}": queue for name, queue in m["fluid"].items()}},
    )
    return [lab.save(own, "dt-dctcp-fig10-mean-queue"), lab.save(fluid, "dt-dctcp-fig10-fluid")]


def _probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    sim = setup.at(setup.SIM, "simulation", settings)
    one, two = (
        lab.sweep([setup.long_flows(n, rule, sim) for n in _FEW])
        for rule in (setup.single(sim), setup.double(sim))
    )
    return _numbers(one, two, _FEW)


def _span(found: Mapping[str, Estimate]) -> str:
    low, high = min(e.mean for e in found.values()), max(e.mean for e in found.values())
    return f"{low:.2f} to {high:.2f} times its value at N=10"


_FLUID = "and conserved packets"
STEADY, STRAYS = claim_criterion("D-10/steady"), claim_criterion("D-10/strays")
FLAT, BASELINE = claim_criterion("D-10/flat"), claim_criterion("D-10/baseline-dt-dctcp")


def _rises_on(m: Measurement) -> bool:
    """Whether packets and the fluid of such senders are highest at the last N."""
    return bool(np.argmax(m["packets"]) == len(m["packets"]) - 1) and bool(
        np.argmax(m["fluid"][_FLUID]) == len(m["fluid"][_FLUID]) - 1
    )


def _turned(claim: str, value: Any, criterion: Criterion) -> Cause:
    """What a queue that turns between the thresholds means decides a claim on DT-DCTCP."""
    return Cause(
        "what a queue that turns round between K1 and K2 means decides it: where marking follows the queue's "
        "direction the statement holds",
        holds=lambda m: criterion.judge(value(m["direction"])) == CONFIRMED,
        evidence=lambda m: (
            f"turn=direction: {m['direction']['at N=10'][1]} packets at N=10, "
            f"{_span(m['direction']['flat'])} to N=70"
        ),
        of=(claim,),
    )


def _locked(m: Measurement) -> float:
    """What 2N packets leave in the queue once the path is full, at the last N of the floor's runs."""
    n = m["floor"]["flows"][-1]
    return float(2 * n - setup.link(n).window_at(0.0) * n)


D_10 = Row(
    "D-10",
    "Mean queue over N (Fig 10)",
    measure=_measure,
    draw=_draw,
    causes=(
        Cause(
            "the queue rises on to the last N, in packets and in the fluid of such senders alike: windows "
            "shrink towards a segment, and there is nothing that turns it round",
            holds=_rises_on,
            evidence=lambda m: (
                f"{m['packets'][-1]:.0f} packets and {m['fluid'][_FLUID][-1]:.0f} in the fluid at "
                f"N={setup.FLOWS[-1]}, where a window is {m['window'][-1]:.1f} segments"
            ),
            of=("maximum",),
        ),
        Cause(
            "with windows of no less than two segments the queue locks at what they overfill the path by",
            holds=lambda m: abs(m["floor"]["mean"][-1].mean / _locked(m) - 1) < 0.1,
            evidence=lambda m: (
                f"{m['floor']['mean'][-1]} packets at N={m['floor']['flows'][-1]}, where 2N less the "
                f"path's are {_locked(m):.0f}; {m['floor']['ratio'][-1]} times that at N=10"
            ),
            of=("strays", "largest"),
        ),
        Cause(
            "a queue that swings about K2 alone has the stated mean; here its swing reaches below K1, and "
            "marking goes on down to there",
            holds=lambda m: BASELINE.judge(m["K2 alone"]) == CONFIRMED and m["reaches"] < setup.SIM["k1"],
            evidence=lambda m: (
                f"one threshold at K2: {m['K2 alone']} packets; the swing at N=10 reaches down to "
                f"{m['reaches']:.0f}"
            ),
            of=("baseline-dt-dctcp",),
        ),
        _turned("baseline-dt-dctcp", lambda m: m["at N=10"][1], BASELINE),
        _turned("flat", lambda m: m["flat"], FLAT),
    ),
    matters=MATTERS,
    probe=_probe,
)
