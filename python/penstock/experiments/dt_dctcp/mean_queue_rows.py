"""Section VI.A: the mean queue of N long flows (Fig 10), and its spectrum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock import figures
from penstock.experiments.common import means, save_table
from penstock.experiments.dt_dctcp.queue_rows import QUEUE_SAMPLE, QUEUE_SAMPLE_S, kept_queue
from penstock.experiments.dt_dctcp.setup import (
    DIRECTION,
    DOUBLE,
    FLOWS,
    PAPER,
    SIM,
    SINGLE,
    link,
    long_flows,
    replications,
)
from penstock.ledger import Finding, Row
from penstock.models.fluid import solve
from penstock.models.marking import Marking
from penstock.models.spectrum import Cycle, cycle

if TYPE_CHECKING:
    from penstock.ledger import Lab
    from penstock.runs import RunSet

Floats = NDArray[np.float64]
# Periodograms of 10 ms, half overlapping: about ten cycles each.
SEGMENT = 1000

_SINGLE = Marking.single(SIM["k"])


def queue_runs(lab: Lab, points: list[tuple[int, str]]) -> list[RunSet]:
    """Runs whose bottleneck queue is kept every 10 us, one per (flows, discipline)."""
    settings = [long_flows(n, q, sample=QUEUE_SAMPLE, series="true", series_flows=0) for n, q in points]
    return lab.sweep(settings, keep=("series",))


def queue_cycle(runs: RunSet) -> tuple[Cycle, Floats]:
    """The strongest oscillation of a kept queue, and the queue."""
    samples = kept_queue(runs.runs[0])
    return cycle(samples, QUEUE_SAMPLE_S, segments=2 * (len(samples) // SEGMENT) - 1), samples


def _sweep(lab: Lab, queue: str, **more: Any) -> list[RunSet]:
    return lab.sweep([long_flows(n, queue, **more) for n in FLOWS], runs=replications(lab))


def _mean_queue(lab: Lab) -> Finding:
    n = np.array(FLOWS)
    sets = {"DCTCP": _sweep(lab, SINGLE), "DT-DCTCP": _sweep(lab, DOUBLE)}
    direction = _sweep(lab, DIRECTION)
    floor = lab.sweep(
        [long_flows(int(m), SINGLE, protocol=f"dctcp:g={SIM['g']},min_window=2") for m in n[::3]],
        runs=replications(lab),
    )
    mean = {name: means(s, "queue_mean_packets") for name, s in sets.items()}
    ratio = {name: m / m[0] for name, m in mean.items()}
    one, two = ratio["DCTCP"], ratio["DT-DCTCP"]

    models_n = np.array([2, 3, 5, 7, *FLOWS])
    senders: dict[str, Any] = {"growth": "unmarked"}
    models = {
        "equations (1)-(3)": solve(link(models_n), _SINGLE),
        "no growth on marks": solve(link(models_n), _SINGLE, **senders),
        "and conserved packets": solve(link(models_n), _SINGLE, **senders, inflow="window"),
        "and whole packets, whole cuts": solve(
            link(models_n), _SINGLE, **senders, inflow="window", whole=True
        ),
    }
    fluid = {name: t.queue.mean(axis=0) for name, t in models.items()}
    few = lab.sweep([long_flows(int(m), SINGLE) for m in models_n[:4]], runs=replications(lab))
    packets = np.concatenate([means(few, "queue_mean_packets"), mean["DCTCP"]])
    error = {name: m / packets - 1 for name, m in fluid.items()}
    window = np.asarray(link(models_n).window_at(packets))

    early = bool(np.all(np.abs(one[n <= 30] - 1) < 0.10))
    band = bool(np.all((one[n >= 35] >= 1.10) & (one[n >= 35] <= 1.83)))
    at60 = int(np.flatnonzero(n == 60)[0])
    peak = bool(one[at60] > max(one[at60 - 1], one[at60 + 1]))
    flat = bool(np.all((two[n <= 70] >= 0.94) & (two[n <= 70] <= 1.01)))

    with figures.style():
        figure, axes = figures.new(1, 2, width=11.0, height=4.2)
        for i, (name, s) in enumerate(sets.items()):
            half = np.array([r.ci95("queue_mean_packets") for r in s]) / mean[name][0]
            figures.band(axes[0], n, ratio[name], half, f"{name} (N=10: {mean[name][0]:.0f} packets)", i)
        axes[0].plot(
            n,
            means(direction, "queue_mean_packets") / direction[0].mean("queue_mean_packets"),
            label="DT-DCTCP, turn=direction",
            **figures.look(2),
        )
        axes[0].axhspan(0.94, 1.01, color="0.5", alpha=0.15, label="stated for DT-DCTCP to N=70")
        axes[0].set(xlabel="Number of flows N", ylabel="Mean queue / mean queue at N=10", title="Fig 10")
        axes[1].plot(models_n, packets, label="packets", **figures.look(0))
        for i, (name, m) in enumerate(fluid.items()):
            axes[1].plot(models_n, m, label=name, **figures.line(i + 1))
        axes[1].plot(
            n[::3], means(floor, "queue_mean_packets"), label="packets, window >= 2", **figures.look(4)
        )
        axes[1].set(
            xlabel="Number of flows N", ylabel="Mean queue (packets)", title="DCTCP: fluid and packets"
        )
        for ax in axes:
            ax.legend(fontsize=8)
    path = lab.save(figure, "dt-dctcp-fig10-mean-queue")
    columns: dict[str, Any] = {"flows": models_n, "window": window, "packets": packets}
    columns.update({f"fluid: {name}": m for name, m in fluid.items()})
    save_table(lab, "dt-dctcp-fluid-mean-queue", columns)

    fits = "; ".join(
        f"{name}: {_where(models_n, e, 0.15)}, largest error {np.max(np.abs(e)):.0%}"
        for name, e in error.items()
    )
    measured = (
        f"at N=10 {mean['DCTCP'][0]:.0f} packets (stated 32) and {mean['DT-DCTCP'][0]:.0f} (stated 42); "
        f"DCTCP {one[n >= 35].min():.2f}..{one[n >= 35].max():.2f} times that from N=35, steady to N=30: "
        f"{_yes(early)}, maximum at N={n[int(np.argmax(one))]}; DT-DCTCP {two[n <= 70].min():.2f}.."
        f"{two[n <= 70].max():.2f} times to N=70 (turn=direction: {_span(direction, n)}). "
        f"Fluid mean within 15 % of the packets' at N = {fits}"
    )
    locked = floor[-1].mean("queue_mean_packets")
    no_point = models_n[np.argmax(np.asarray(link(models_n).window_at(SIM["k"])) < 2)]
    reason = (
        "the rise has no maximum at 60: packets and the fluid of DCTCP senders rise on to N=100, as "
        "W_0 falls "
        f"from {window[4]:.0f} to {window[-1]:.1f} packets and no window can fall below one. With a "
        "floor of two "
        f"segments the queue locks at 2N - dC ({locked:.0f} packets at N={n[::3][-1]}), as the printed "
        "(1) does, "
        f"which has no operating point from N={no_point} on (W_0 < 2). A DT-DCTCP queue that swings about K2 "
        "alone has the stated 42 packets; here its swing at N=10 reaches below K1, and it goes on about K1"
    )
    return Finding(early and band and peak and flat, measured, reason, (path,))


def _where(n: Any, error: Floats, limit: float) -> str:
    """The values of n at which the error is within the limit, as ranges."""
    good = np.abs(error) <= limit
    ranges: list[list[int]] = []
    for i, value in enumerate(n):
        if good[i] and i > 0 and good[i - 1]:
            ranges[-1][1] = int(value)
        elif good[i]:
            ranges.append([int(value), int(value)])
    return ", ".join(f"{a}..{b}" if b > a else f"{a}" for a, b in ranges) or "none"


def _span(sets: list[RunSet], n: Any) -> str:
    m = means(sets, "queue_mean_packets")
    part = (m / m[0])[n <= 70]
    return f"{part.min():.2f}..{part.max():.2f}"


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


MEAN_QUEUE_ROWS = [
    Row(
        "D-10",
        PAPER,
        "Mean queue over N (Fig 10)",
        "DCTCP: steady to N=30, then 1.10 to 1.83 times its N=10 value, local maximum at N=60; "
        "DT-DCTCP: 0.94 to 1.01 times to N=70",
        _mean_queue,
    ),
]
