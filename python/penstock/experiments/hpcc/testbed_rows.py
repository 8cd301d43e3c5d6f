"""Long and short flows, incast, fairness on the testbed (Fig 9)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.experiments.hpcc.setup import CHOSEN, PAPER, laws
from penstock.experiments.lossless import queue_tails, samples, star, where
from penstock.ledger import Claim, Measurement, Row, at_least, at_most, every
from penstock.runs import Run
from penstock.workloads import Flows

if TYPE_CHECKING:
    from penstock.ledger import Lab


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


def _probe_testbed(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return _testbed_numbers(lab, {**CHOSEN, **settings})


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
    PAPER,
    "A short flow, an incast, flows that join: HPCC and DCQCN (Fig 9)",
    claims=(
        Claim(
            "recovers",
            "after a short flow HPCC's long flow has the link again at once",
            "bound",
            "recovers immediately",
            lambda m: m["recovered"]["HPCC"],
            at_least(0.9),
            where=where("section 5.2, Fig 9(a)"),
            why="share of the link from some 1 to 2 ms after its end; eta is 0.95",
            unit="of the link",
        ),
        Claim(
            "dcqcn-does-not",
            "DCQCN's does not have it 2 ms after the short flow has finished",
            "bound",
            "cannot recover to line rate",
            lambda m: m["recovered"]["DCQCN"],
            at_most(0.9),
            where=where("section 5.2, Fig 9(a)"),
            why="the same share",
            unit="of the link",
        ),
        Claim(
            "empty",
            "when seven flows join one, HPCC's queue is near zero soon after",
            "bound",
            "near zero",
            lambda m: m["queue"]["HPCC"],
            at_most(10),
            where=where("section 5.2, Fig 9(c)"),
            why="mean over 1 ms from 0.1 ms on; ten packets are 3 us at 25 Gb/s",
            unit="KB",
        ),
        Claim(
            "dcqcn-queue",
            "DCQCN's is hundreds of KB",
            "bound",
            "hundreds of KB",
            lambda m: m["queue"]["DCQCN"],
            at_least(100),
            where=where("section 5.2, Fig 9(c)"),
            why="the least that is hundreds",
            unit="KB",
        ),
        Claim(
            "fair",
            "flows of HPCC that join one after the other have equal shares",
            "equal",
            "fair, at short time scales too",
            lambda m: m["jain"]["HPCC"],
            every(at_least(0.95)),
            where=where("section 5.2, Fig 9(g)"),
            why="Jain's index over 3 ms of rates that differ by a fifth of their mean is 0.96",
            unit="of Jain's index",
        ),
    ),
    measure=_measure_testbed,
    draw=_draw_testbed,
    matters=("network.star_delay", "dcqcn.rules", "dcqcn.timers"),
    probe=_probe_testbed,
    cheap=True,
)
