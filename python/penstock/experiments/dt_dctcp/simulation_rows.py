"""Section III and VI.A: the queue of N long flows (Fig 1, 10, 11, 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock import figures
from penstock.experiments.dt_dctcp.setup import (
    DIRECTION,
    DOUBLE,
    FLOWS,
    SIM,
    SINGLE,
    halves,
    link,
    long_flows,
    means,
    replications,
    save_table,
)
from penstock.ledger import Finding, Row
from penstock.models.fluid import operating_mark, solve
from penstock.models.marking import Marking
from penstock.models.spectrum import Cycle, cycle

if TYPE_CHECKING:
    from penstock.ledger import Lab
    from penstock.runs import RunSet

Floats = NDArray[np.float64]
PAPER = "dt-dctcp"

# Sampling of the queue for spectra: 14 samples per round trip, a hundred per cycle.
QUEUE_SAMPLE, QUEUE_SAMPLE_S = "10us", 10e-6
# Periodograms of 10 ms, half overlapping: about ten cycles each.
SEGMENT = 1000

_SINGLE = Marking.single(SIM["k"])
_DOUBLE = Marking(SIM["k1"], SIM["k2"], SIM["turn"])


def queue_runs(lab: Lab, points: list[tuple[int, str]]) -> list[RunSet]:
    """Runs whose bottleneck queue is kept every 10 us, one per (flows, discipline)."""
    settings = [long_flows(n, q, sample=QUEUE_SAMPLE, series="true", series_flows=0) for n, q in points]
    return lab.sweep(settings, keep=("series",))


def queue_samples(runs: RunSet) -> Floats:
    """The measured part of the bottleneck's queue (packets), one sample every 10 us."""
    series = runs.tables(0)["series"]
    rows = series.filter((series["metric"] == "queue_packets") & (series["time_s"] > 0.1))
    return rows["value"].to_numpy()


def queue_cycle(runs: RunSet) -> tuple[Cycle, Floats]:
    """The strongest oscillation of a kept queue, and the queue."""
    samples = queue_samples(runs)
    return cycle(samples, QUEUE_SAMPLE_S, segments=2 * (len(samples) // SEGMENT) - 1), samples


def _sweep(lab: Lab, queue: str, **more: Any) -> list[RunSet]:
    return lab.sweep([long_flows(n, queue, **more) for n in FLOWS], runs=replications(lab))


def _oscillation(lab: Lab) -> Finding:
    points = [(10, SINGLE), (100, SINGLE)]
    runs = queue_runs(lab, points)
    swings, samples = [], []
    for r in runs:
        _, q = queue_cycle(r)
        samples.append(q)
        low, high = np.percentile(q, [1, 99])
        swings.append((high - low) / 2)
    ratio = swings[1] / swings[0]
    stds = [float(q.std()) for q in samples]
    fluid = solve(link([10, 100]), _SINGLE, growth="unmarked", inflow="window").queue
    theirs = float(np.ptp(fluid[:, 1]) / np.ptp(fluid[:, 0]))
    with figures.style():
        figure, axes = figures.new(2, 1, width=6.6, height=5.4, sharex=True, sharey=True)
        shown = 2000
        for ax, (n, _), q in zip(axes, points, samples, strict=True):
            ax.plot(
                np.arange(shown) * QUEUE_SAMPLE_S * 1e3, q[:shown], color=figures.PALETTE[0], linewidth=0.9
            )
            ax.axhline(SIM["k"], **{**figures.line(1), "linewidth": 1.0}, label=f"K = {SIM['k']}")
            ax.set(title=f"N = {n}", ylabel="Queue (packets)")
            ax.legend(loc="upper right")
        axes[1].set_xlabel("Time (ms)")
    path = lab.save(figure, "dt-dctcp-fig1-queue")
    measured = (
        f"amplitude (half the 1..99 % swing) {swings[0]:.1f} packets at N=10 and {swings[1]:.1f} at N=100, "
        f"{ratio:.2f} times; standard deviation {stds[0]:.1f} and {stds[1]:.1f}: "
        f"{stds[1] / stds[0]:.2f} times; "
        f"fluid model {theirs:.2f} times"
    )
    # "3 or 4 times" read off a plot: what rounds to 3 or to 4.
    good = 2.5 <= ratio < 4.5
    return Finding(good, measured, "" if good else "the measured ratio does not round to 3 or 4", (path,))


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
            half = halves(s, "queue_mean_packets") / mean[name][0]
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


def _scaled(kind: str, centre: float) -> str:
    """A discipline of the given kind around `centre` packets; bands as wide as the paper's, (0.75, 1.25)."""
    if kind == "threshold":
        return f"threshold:k={centre:.0f}pkt"
    if kind == "RED ramp":
        # Marked with a probability from 0 to 1 over centre +- half of it, on the queue itself.
        low, high = round(centre / 2), round(1.5 * centre)
        return f"red:min={low}pkt,max={high}pkt,max_p=1,wq=1,gentle=true,ecn=true,wait=false"
    low, high = round(0.75 * centre), round(1.25 * centre)
    if kind == "K1 > K2":
        low, high = high, low
    turn = "direction" if kind == "K1 < K2, direction" else "hold"
    return f"hysteresis:k1={low}pkt,k2={high}pkt,turn={turn}"


def _deviation(lab: Lab) -> Finding:
    n = np.array(FLOWS)
    sets = {"DCTCP": _sweep(lab, SINGLE), "DT-DCTCP": _sweep(lab, DOUBLE)}
    direction = means(_sweep(lab, DIRECTION), "queue_std_packets")
    steady = means(
        lab.sweep([long_flows(m, SINGLE, send_jitter="0s") for m in (10, 40, 70, 100)]), "queue_std_packets"
    )
    std = {name: means(s, "queue_std_packets") for name, s in sets.items()}
    half = {name: halves(s, "queue_std_packets") for name, s in sets.items()}
    # "Grows with N": every rise over fifteen more flows, so that two neighbours' noise does not decide.
    grows = all(bool(np.all(s[3:] > s[:-3])) for s in std.values())
    lower = std["DT-DCTCP"] < std["DCTCP"]

    kinds = ["threshold", "K1 < K2", "K1 < K2, direction", "K1 > K2", "RED ramp"]
    centres = (20, 30, 40, 55, 70) if lab.quick else (15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80)
    counts = (10, 40, 80)
    grid = lab.sweep([long_flows(m, _scaled(k, c)) for m in counts for k in kinds for c in centres])
    shape = (len(counts), len(kinds), len(centres))
    q = means(grid, "queue_mean_packets").reshape(shape)
    s = means(grid, "queue_std_packets").reshape(shape)
    u = means(grid, "utilisation").reshape(shape)
    reference = q[:, 0, centres.index(40)]
    equal = np.array(
        [[_at(q[i, j], s[i, j], reference[i]) for j in range(len(kinds))] for i in range(len(counts))]
    )

    with figures.style():
        figure, axes = figures.new(1, 4, width=15.0, height=4.1)
        for i, name in enumerate(sets):
            figures.band(axes[0], n, std[name], half[name], name, i)
        axes[0].plot(n, direction, label="DT-DCTCP, turn=direction", **figures.look(2))
        axes[0].set(xlabel="Number of flows N", ylabel="Standard deviation (packets)", title="Fig 11")
        for i, count in enumerate(counts):
            ax = axes[i + 1]
            for j, kind in enumerate(kinds):
                ax.plot(q[i, j], s[i, j], label=kind, **figures.look(j))
            ax.axvline(reference[i], color="0.4", linewidth=0.8)
            ax.set(xlabel="Mean queue (packets)", title=f"N = {count}, thresholds varied")
        for ax in axes:
            ax.set_ylim(bottom=0)
        axes[0].legend(fontsize=8)
        axes[1].legend(fontsize=8)
    path = lab.save(figure, "dt-dctcp-fig11-deviation")
    rows = [(c, k, x) for c in range(len(counts)) for k in range(len(kinds)) for x in range(len(centres))]
    save_table(
        lab,
        "dt-dctcp-equal-mean",
        {
            "flows": [counts[c] for c, _, _ in rows],
            "rule": [kinds[k] for _, k, _ in rows],
            "centre": [centres[x] for _, _, x in rows],
            "queue_mean": q.ravel(),
            "queue_std": s.ravel(),
            "utilisation": u.ravel(),
        },
    )
    at_equal = "; ".join(
        f"N={count}, mean {reference[i]:.0f}: "
        + ", ".join(f"{kind} {equal[i, j]:.1f}" for j, kind in enumerate(kinds))
        for i, count in enumerate(counts)
    )
    measured = (
        f"DCTCP {std['DCTCP'][0]:.1f} -> {std['DCTCP'][-1]:.1f}, DT-DCTCP {std['DT-DCTCP'][0]:.1f} -> "
        f"{std['DT-DCTCP'][-1]:.1f} packets, both growing: {_yes(grows)}; DT lower at "
        f"{int(lower.sum())} of {len(n)} N "
        f"(turn=direction: {int((direction < std['DCTCP']).sum())}). Deviation at equal mean queue: "
        f"{at_equal}. Without "
        f"send jitter DCTCP has {', '.join(f'{x:.1f}' for x in steady)} at N=10, 40, 70, 100"
    )
    exceptions = ", ".join(
        f"N={m} ({b:.1f} against {a:.1f})"
        for m, a, b in zip(n[~lower], std["DCTCP"][~lower], std["DT-DCTCP"][~lower], strict=True)
    )
    reason = (
        f"not lower at {exceptions}. Where the swing does not cross the band, one threshold alone "
        "acts, and the "
        f"lower deviation comes with a lower mean queue: at equal mean queue the band changes it by "
        f"{', '.join(f'{x:+.1f}' for x in equal[:, 1] - equal[:, 0])} packets at N = "
        f"{', '.join(map(str, counts))}, "
        f"with turn=direction by {', '.join(f'{x:+.1f}' for x in equal[:, 2] - equal[:, 0])}"
    )
    return Finding(grows and bool(lower.all()), measured, reason, (path,))


def _at(mean: Floats, std: Floats, target: float) -> float:
    """Deviation at a mean queue, by linear interpolation over the thresholds tried; nan outside them."""
    order = np.argsort(mean)
    return float(np.interp(target, mean[order], std[order], left=np.nan, right=np.nan))


def _alpha(lab: Lab) -> Finding:
    n = np.array(FLOWS)
    sets = {"DCTCP": _sweep(lab, SINGLE), "DT-DCTCP": _sweep(lab, DOUBLE)}
    alpha = {name: means(s, "alpha_mean") for name, s in sets.items()}
    queue = {name: means(s, "queue_mean_packets") for name, s in sets.items()}
    gap = alpha["DCTCP"] - alpha["DT-DCTCP"]
    # Any rule at all: does alpha depend on it?
    rules = (DIRECTION, "hysteresis:k1=45pkt,k2=75pkt", "hysteresis:k1=50pkt,k2=30pkt")
    few = (20, 40)
    others = np.array([means(lab.sweep([long_flows(m, r) for m in few]), "alpha_mean") for r in rules])
    here = [int(np.flatnonzero(n == m)[0]) for m in few]
    every = np.vstack([others, alpha["DCTCP"][here], alpha["DT-DCTCP"][here]])
    with figures.style():
        figure, axes = figures.new(1, 2, width=11.0, height=4.2)
        for i, (name, s) in enumerate(sets.items()):
            figures.band(axes[0], n, alpha[name], halves(s, "alpha_mean"), name, i)
            window = np.asarray(link(n).window_at(queue[name]))
            axes[1].plot(window, alpha[name], label=name, **{**figures.look(i), "linestyle": "none"})
        w = np.geomspace(1.4, 12, 100)
        axes[1].plot(w, operating_mark(w, "unmarked"), label="$1 - p = W p^2/2$", **figures.line(2))
        axes[1].plot(w, np.minimum(operating_mark(w), 1), label="$\\sqrt{2/W}$, printed", **figures.line(3))
        axes[0].set(xlabel="Number of flows N", ylabel="Mean alpha", title="Fig 12", ylim=(0, 1))
        axes[1].set(xlabel="Window $W_0$ (packets)", ylabel="Mean alpha", title="Alpha follows the window")
        for ax in axes:
            ax.legend(fontsize=8)
    path = lab.save(figure, "dt-dctcp-fig12-alpha")
    everywhere = bool(np.all(gap > 0))
    measured = (
        f"DCTCP {alpha['DCTCP'][0]:.2f} -> {alpha['DCTCP'][-1]:.2f}, DT-DCTCP {alpha['DT-DCTCP'][0]:.2f} -> "
        f"{alpha['DT-DCTCP'][-1]:.2f}; DCTCP minus DT-DCTCP: mean {gap.mean():+.3f}, from "
        f"{gap.min():+.3f} to "
        f"{gap.max():+.3f}; DT lower at {int((gap > 0).sum())} of {len(n)} N"
    )
    reason = (
        "growth on unmarked packets balances cuts on marked ones at a share that the window W_0 = (dC "
        "+ q)/N sets, "
        f"not the rule: five rules with mean queues from {queue['DT-DCTCP'][here[0]]:.0f} packets up "
        "have alpha "
        f"{every[:, 0].min():.2f}..{every[:, 0].max():.2f} at N=20 and {every[:, 1].min():.2f}.."
        f"{every[:, 1].max():.2f} at N=40. Beyond N=45, with windows near one packet, DT-DCTCP is higher"
    )
    # "About 0.1": within half of it, on average over N.
    return Finding(everywhere and abs(gap.mean() - 0.1) <= 0.05, measured, reason, (path,))


SIMULATION_ROWS = [
    Row(
        "D-1",
        PAPER,
        "Queue over time, N = 10 and 100 (Fig 1)",
        "the amplitude of the queue at N=100 is three to four times that at N=10",
        _oscillation,
    ),
    Row(
        "D-10",
        PAPER,
        "Mean queue over N (Fig 10)",
        "DCTCP: steady to N=30, then 1.10 to 1.83 times its N=10 value, local maximum at N=60; "
        "DT-DCTCP: 0.94 to 1.01 times to N=70",
        _mean_queue,
    ),
    Row(
        "D-11",
        PAPER,
        "Standard deviation of the queue (Fig 11)",
        "grows with N for both; lower for DT-DCTCP at every N",
        _deviation,
    ),
    Row("D-12", PAPER, "Mean alpha (Fig 12)", "lower for DT-DCTCP at every N, by about 0.1", _alpha),
]
