"""The fluid model: which parameters converge (Fig 11), one fixed point and its stability (CoNEXT 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models.rdma import Dcqcn, Trajectory
from penstock.workloads import Flows
from penstock_papers.experiments.dcqcn.setup import CAPACITY, CHOSEN, fluid, protocol
from penstock_papers.experiments.lossless import samples, seconds, star
from penstock_papers.ledger import Cause, Lab, Measurement, Row

VARIANTS = ("strawman", "slow counter", "fast timer", "deployed")
# The figures show 200 ms.
DURATION, SMALLEST = 0.2, 0.01


@lru_cache
def _gap(name: str, duration: float = DURATION) -> tuple[float, float, Any]:
    """Mean difference of both rates over the last half and their mean sum, as shares of the link; curves."""
    model = fluid(name, flows=2)
    path = model.solve(duration, rates=[CAPACITY, CHOSEN["strawman.start_share"] * CAPACITY], step=4e-6)
    last = path.t > duration / 2
    gap = np.abs(path.rates[last, 0] - path.rates[last, 1]).mean() / CAPACITY
    step = 50
    return (
        float(gap),
        float(path.rates[last].sum(axis=1).mean() / CAPACITY),
        path.rates[::step] / CAPACITY * 40,
    )


def _packets(
    lab: Lab, name: str, length: str, at: Mapping[str, Any] = CHOSEN
) -> tuple[float, dict[str, Any]]:
    """Two flows, the second 5 ms later, as both begin at the link's rate: the same difference, and curves."""
    flows = [Flows("h0", "sink"), Flows("h1", "sink", start="5ms")]
    point = star(
        2,
        at["network.rate"],
        at["network.delay"],
        flows,
        protocol=protocol(name, at),
        duration=length,
        sample="100us",
        series=True,
    )
    run = lab.sweep([point], keep=("series",))[0].runs[0]
    a, b = (samples(run, "rate_bps", i, after=0.006) for i in (0, 1))
    count = min(len(a), len(b))
    one, two = (x["value"].to_numpy()[:count] / 1e9 for x in (a, b))
    gap = float(np.abs(one - two)[count // 2 :].mean() / 40)
    return gap, {"ms": a["time_s"].to_numpy()[:count] * 1e3, "one": one, "two": two}


def _measure_convergence(lab: Lab) -> Measurement:
    length = lab.pick(DURATION, DURATION, SMALLEST)
    found: dict[str, Any] = {"gap": {}, "load": {}, "packets": {}, "fluid curves": {}, "packet curves": {}}
    found["solved"] = length
    for name in VARIANTS:
        found["gap"][name], found["load"][name], found["fluid curves"][name] = _gap(name, length)
        found["packets"][name], found["packet curves"][name] = _packets(
            lab, name, lab.pick("200ms", "60ms", "10ms"), CHOSEN
        )
    return found


def _probe_convergence(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """The packets, for half the quick length; the fluid model's delay is stated and not that of links, so at
    each point it says the same.
    """
    at = {**CHOSEN, **settings}
    return {
        "gap": {name: _gap(name)[0] for name in VARIANTS},
        "packets": {name: _packets(lab, name, "30ms", at)[0] for name in ("strawman", "deployed")},
    }


def _draw_convergence(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, axes = figures.new(2, len(VARIANTS), width=11.0, height=4.6, sharey=True)
        for i, name in enumerate(VARIANTS):
            curves = np.asarray(m["fluid curves"][name], float)
            when = np.linspace(0, m["solved"] * 1e3, len(curves))
            for flow in (0, 1):
                axes[i].plot(when, curves[:, flow], color=figures.PALETTE[flow], linewidth=0.9)
            packets = m["packet curves"][name]
            for flow, key in enumerate(("one", "two")):
                axes[4 + i].plot(packets["ms"], packets[key], color=figures.PALETTE[flow], linewidth=0.7)
            axes[i].set(title=name, ylim=(0, 41))
            axes[4 + i].set_xlabel("time (ms)")
        axes[0].set_ylabel("fluid (Gb/s)")
        axes[4].set_ylabel("packets (Gb/s)")
    return [lab.save(figure, "dcqcn-fig11")]


DCQCN_11 = Row(
    "DCQCN-11",
    "Which parameters let two flows converge (section 5.2, Fig 11, 12)",
    measure=_measure_convergence,
    draw=_draw_convergence,
    matters=("network.delay",),
    probe=_probe_convergence,
)

FLOWS = (2, 10, 64)
FIXED = (1, 2, 4, 8, 16, 32, 64)


LENGTH = 0.15
"""Seconds of a solution."""


def _delayed(flows: int, at: Mapping[str, Any], delay: float) -> Dcqcn:
    kmin, kmax, pmax = (float(at[f"fluid.{key}"]) for key in ("kmin", "kmax", "pmax"))
    if at["fluid.beyond"] == "line":
        # RED's slope, continued up to a share of 1.
        kmax, pmax = kmin + (kmax - kmin) / pmax, 1.0
    return Dcqcn(capacity=CAPACITY, flows=flows, kmin=kmin, kmax=kmax, pmax=pmax, delay=delay)


def _swing(flows: int, at: Mapping[str, Any], delay: float, length: float = LENGTH) -> tuple[float, Any]:
    """How the rates swing in the end; curve of the queue."""
    path = _delayed(flows, at, delay).solve(length, rates=_begun(flows), step=4e-6)
    return _unrest(path, length), path.queue[:: max(1, len(path.t) // 600)]


def _begun(flows: int) -> Any:
    """Rates about the fair one, with which flows begin."""
    return np.full(flows, CAPACITY / flows) * np.linspace(0.99, 1.01, flows)


def _unrest(path: Trajectory, length: float = LENGTH) -> float:
    """Deviation of the rates' sum over its mean in the last third."""
    total = path.rates.sum(axis=1)[path.t > 2 / 3 * length]
    return float(total.std() / total.mean())


def _roots(flows: int, at: Mapping[str, Any]) -> int:
    """How often the fixed-point equation changes sign over ten decades of p."""
    sign = np.sign([_delayed(flows, at, 4e-6).imbalance(p) for p in np.geomspace(1e-11, 0.3, 2000)])
    return int((np.diff(sign) != 0).sum())


def _stability(at: Mapping[str, Any], length: float) -> dict[str, Any]:
    delay = seconds(str(at["fluid.delay"]))
    # Never shorter: the swing of ten flows takes most of this to grow.
    far = {n: _swing(n, at, delay) for n in FLOWS}
    near = {n: _swing(n, at, 4e-6, length) for n in FLOWS}
    return {
        "85 us": {str(n): value for n, (value, _) in far.items()},
        "4 us": {str(n): value for n, (value, _) in near.items()},
        "curves": {str(n): curve for n, (_, curve) in far.items()},
        "roots": [_roots(n, at) for n in FIXED],
        "solved": LENGTH,
    }


def _measure_stability(lab: Lab) -> Measurement:
    length = lab.pick(LENGTH, LENGTH, SMALLEST)
    # The line without its jump to 1 at kmax.
    line = {**CHOSEN, "fluid.beyond": "line"}
    marked, _ = _delayed(64, CHOSEN, 4e-6).fixed_point()
    delays = {"4 us": 4e-6, "85 us": seconds(CHOSEN["fluid.delay"])}
    on_line = {name: _swing(64, line, delay, length)[0] for name, delay in delays.items()}
    return {**_stability(CHOSEN, length), "line": on_line, "p of 64": marked}


def _probe_stability(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    """The same, all numbers of flows in one solution."""
    at = {**CHOSEN, **settings}
    rates = [_begun(n) for n in FLOWS]
    found: dict[str, Any] = {"roots": [_roots(n, at) for n in FIXED]}
    for name, delay in {"85 us": seconds(str(at["fluid.delay"])), "4 us": 4e-6}.items():
        paths = _delayed(1, at, delay).solve_for(FLOWS, LENGTH, rates, step=4e-6)
        found[name] = {str(n): _unrest(path) for n, path in zip(FLOWS, paths, strict=True)}
    return found


def _draw_stability(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, axes = figures.new(1, len(FLOWS), width=10.0, height=3.0)
        for ax, n in zip(axes, FLOWS, strict=True):
            curve = np.asarray(m["curves"][str(n)], float)
            ax.plot(
                np.linspace(0, m["solved"] * 1e3, len(curve)), curve, color=figures.PALETTE[0], linewidth=0.8
            )
            ax.set(title=f"N = {n}", xlabel="time (ms)", ylim=(0, None))
        axes[0].set_ylabel("queue (packets)")
    return [lab.save(figure, "dcqcn-stability")]


# A stable loop forgets how it began: what is left after 0.1 s is below the first; another swings for ever.
STILL, SWINGS = 0.02, 0.05

DCQCN_C4 = Row(
    "DCQCN-C4",
    "One fixed point; stability is not monotone in the flows (CoNEXT 2016, theorem 1, Fig 4)",
    measure=_measure_stability,
    draw=_draw_stability,
    causes=(
        Cause(
            "the fixed point of 64 flows marks more than pmax, where the line jumps to 1: the queue swings "
            "about kmax; on a line that goes on with its slope, as linear analysis has it, it is stable",
            holds=lambda m: (
                m["p of 64"] > CHOSEN["fluid.pmax"] and all(x <= STILL for x in m["line"].values())
            ),
            evidence=lambda m: "; ".join(
                [
                    f"p* of 64 flows: {m['p of 64']:.3f}, pmax: {CHOSEN['fluid.pmax']}",
                    *(
                        f"delay {name}: swing {m[name]['64']:.3f}, without the jump {x:.2g}"
                        for name, x in m["line"].items()
                    ),
                ]
            ),
            of=("near", "many"),
        ),
    ),
    matters=("fluid.kmin", "fluid.pmax", "fluid.beyond"),
    probe=_probe_stability,
)
