"""Long and short flows, incast, fairness on the testbed (Fig 9)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.runs import Run
from penstock.workloads import Flows
from penstock_papers.experiments.hpcc.setup import CHOSEN, laws
from penstock_papers.experiments.lossless import queue_tails, samples, star
from penstock_papers.ledger import Lab, Measurement, Row


def _testbed(at: Mapping[str, Any], senders: int, flows: list[Flows], **more: Any) -> list[Any]:
    rate, delay = at["network.testbed_rate"], at["network.star_delay"]
    return [star(senders, rate, delay, flows, protocol=law, **more) for law in laws(at).values()]


# ---- Fig 9 ------------------------------------------------------------------------------------------------

STAGES = 4
STAGE_MS = 5


def stage_shares(run: Run) -> dict[str, float]:
    """Jain's index of mean rates over the last 3 of each stage's 5 ms, a flow more in each stage."""
    found = {}
    rates = samples(run, "rate_bps")
    for stage in range(1, STAGES):
        first, last = STAGE_MS * 1e-3 * (stage + 1) - 3e-3, STAGE_MS * 1e-3 * (stage + 1)
        part = rates.filter(
            (pl.col("time_s") >= first) & (pl.col("time_s") < last) & (pl.col("number") <= stage)
        )
        each = part.group_by("number").agg(pl.col("value").mean())["value"].to_numpy()
        found[f"jain_{stage + 1}"] = float(each.sum() ** 2 / (len(each) * (each**2).sum()))
    return found


def _testbed_numbers(lab: Lab, at: Mapping[str, Any]) -> dict[str, Any]:
    names = list(laws(at))
    # A short flow of 1 MB at 1 ms is over before 2 ms; what the long one takes of the link 2 ms later.
    long_short = [Flows("h0", "sink"), Flows("h1", "sink", start="1ms", size="1MB")]
    recovery = lab.sweep(_testbed(at, 2, long_short, warmup="3ms", duration="4ms"))
    # Seven join one.
    incast = [Flows("h0", "sink"), Flows([f"h{i}" for i in range(1, 8)], "sink", start="1ms", size="500KB")]
    sampled = {"sample": "5us", "series": True}
    queue = lab.sweep(
        _testbed(at, 8, incast, warmup="1100us", duration="2100us", **sampled),
        keep=("series",),
        derive=queue_tails,
    )
    stages = [Flows(f"h{i}", "sink", start=f"{STAGE_MS * i}ms") for i in range(STAGES)]
    shares = lab.sweep(
        _testbed(at, STAGES, stages, duration=f"{STAGE_MS * STAGES}ms", sample="20us", series=True),
        keep=("series",),
        derive=stage_shares,
    )
    keys = [f"jain_{n}" for n in range(2, STAGES + 1)]
    return {
        "recovered": {n: float(r.mean("utilisation")) for n, r in zip(names, recovery, strict=True)},
        "queue": {n: float(q.mean("queue_mean_bytes") / 1e3) for n, q in zip(names, queue, strict=True)},
        "jain": {n: [float(s.mean(key)) for key in keys] for n, s in zip(names, shares, strict=True)},
    }


def _measure_testbed(lab: Lab) -> Measurement:
    found = _testbed_numbers(lab, CHOSEN)
    incast = [Flows("h0", "sink"), Flows([f"h{i}" for i in range(1, 8)], "sink", start="1ms", size="500KB")]
    points = _testbed(CHOSEN, 8, incast, duration="2100us", sample="5us", series=True)
    curves = {}
    for name, runs in zip(laws(CHOSEN), lab.sweep(points, keep=("series",)), strict=True):
        curve = samples(runs.runs[0], "queue_bytes")
        curves[name] = {"ms": curve["time_s"].to_numpy() * 1e3, "KB": curve["value"].to_numpy() / 1e3}
    return {**found, "curves": curves}


def _draw_testbed(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        for i, (name, curve) in enumerate(m["curves"].items()):
            ax.plot(curve["ms"], np.asarray(curve["KB"], float) + 0.1, label=name, **figures.line(i))
        ax.set(
            xlabel="time (ms)",
            ylabel="queue (KB), 0.1 added",
            yscale="log",
            title="Fig 9: seven flows join one",
        )
        ax.legend()
    return [lab.save(figure, "hpcc-fig9")]


HPCC_9 = Row(
    "HPCC-9",
    "A short flow, an incast, flows that join: HPCC and DCQCN (Fig 9)",
    measure=_measure_testbed,
    draw=_draw_testbed,
    matters=("network.star_delay", "dcqcn.rules", "dcqcn.timers"),
    probe=lambda lab, settings: _testbed_numbers(lab, {**CHOSEN, **settings}),
    cheap=True,
)
