"""Section III and VI.A: how far the queue of N long flows swings (Fig 1 and 11)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock import figures
from penstock.models.fluid import solve
from penstock.models.marking import Marking
from penstock.runs import Run, RunSet
from penstock_papers.experiments.common import centre, differences, half, measured, save_table
from penstock_papers.experiments.dt_dctcp.setup import (
    DIRECTION,
    FLOWS,
    QUICK_FLOWS,
    SIM,
    SINGLE,
    at,
    double,
    link,
    long_flows,
    replications,
    single,
)
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row, claim_criterion

Floats = NDArray[np.float64]

# Sampling of the queue: 14 samples per round trip, a hundred per cycle.
QUEUE_SAMPLE, QUEUE_SAMPLE_S = "10us", 10e-6
WARMUP_S = 0.1
SHOWN = 2000  # samples in Fig 1: 20 ms
# Points of the search: every parameter that acts on long flows.
MATTERS = tuple(
    f"simulation.{key}"
    for key in ("packet_bytes", "count", "turn", "buffer", "delayed_ack", "min_window", "send_jitter")
)


def kept_queue(run: Run) -> Floats:
    """The measured part of a run's bottleneck queue (packets), one sample every 10 us."""
    series = run.tables["series"]
    rows = series.filter((series["metric"] == "queue_packets") & (series["time_s"] > WARMUP_S))
    return rows["value"].to_numpy()


# ---- D-1 --------------------------------------------------------------------------------------------------


def swing(run: Run) -> dict[str, float]:
    """Half the distance between the 1st and the 99th percentile of a kept queue (packets): its amplitude,
    without the single deepest and highest samples.
    """
    low, high = np.percentile(kept_queue(run), [1, 99])
    return {"swing_packets": float(high - low) / 2}


def _swings(lab: Lab, sim: Mapping[str, Any], runs: int) -> tuple[RunSet, RunSet]:
    points = [
        long_flows(n, single(sim), sim, sample=QUEUE_SAMPLE, series="true", series_flows=0) for n in (10, 100)
    ]
    few, many = lab.sweep(points, runs=runs, keep=("series",), derive=swing)
    return few, many


def _amplitudes(few: RunSet, many: RunSet) -> dict[str, Any]:
    a, b = few.values("swing_packets"), many.values("swing_packets")
    return {"ratio": Estimate.of(b / a), "N=10": Estimate.of(a), "N=100": Estimate.of(b)}


def _measure_oscillation(lab: Lab) -> Measurement:
    few, many = _swings(lab, SIM, replications(lab))
    kept = [
        lab.runs(*long_flows(n, SINGLE, sample=QUEUE_SAMPLE, series="true", series_flows=0), keep=("series",))
        for n in (10, 100)
    ]
    # Without a floor under the window, as in ns-3: what the floor does to the ratio.
    free = [
        long_flows(
            n,
            SINGLE,
            protocol=f"dctcp:g={SIM['g']},rules=linux,min_window=0",
            sample=QUEUE_SAMPLE,
            series="true",
            series_flows=0,
        )
        for n in (10, 100)
    ]
    unbound = lab.sweep(free, runs=replications(lab), keep=("series",), derive=swing)
    fluid = solve(link([10, 100]), Marking.single(SIM["k"]), growth="unmarked", inflow="window").queue
    return {
        **_amplitudes(few, many),
        "queues": [kept_queue(runs.runs[0])[:SHOWN] for runs in kept],
        "deviations": [Estimate.of(s.values("queue_std_packets")) for s in (few, many)],
        "fluid": float(np.ptp(fluid[:, 1]) / np.ptp(fluid[:, 0])),
        "without a floor": _amplitudes(unbound[0], unbound[1])["ratio"],
    }


def _draw_oscillation(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, axes = figures.new(2, 1, width=6.6, height=5.4, sharex=True, sharey=True)
        for ax, n, q in zip(axes, (10, 100), m["queues"], strict=True):
            time = np.arange(len(q)) * QUEUE_SAMPLE_S * 1e3
            ax.plot(time, q, color=figures.PALETTE[0], linewidth=0.9)
            ax.axhline(SIM["k"], **{**figures.line(1), "linewidth": 1.0}, label=f"K = {SIM['k']}")
            ax.set(title=f"N = {n}", ylabel="Queue (packets)")
            ax.legend(loc="upper right")
        axes[1].set_xlabel("Time (ms)")
    return [lab.save(figure, "dt-dctcp-fig1-queue")]


D_1 = Row(
    "D-1",
    "Queue over time, N = 10 and 100 (Fig 1)",
    measure=_measure_oscillation,
    draw=_draw_oscillation,
    causes=(
        Cause(
            "no window falls below one segment, which decides how far many flows swing: without that floor "
            "the ratio is the stated one",
            holds=lambda m: claim_criterion("D-1/amplitude").judge(m["without a floor"]) == "confirmed",
            evidence=lambda m: f"{m['without a floor']} times without it",
            of=("amplitude",),
        ),
    ),
    matters=tuple(name for name in MATTERS if not name.endswith("turn")),
    probe=lambda lab, settings: _amplitudes(*_swings(lab, at(SIM, "simulation", settings), runs=2)),
)


# ---- D-11 -------------------------------------------------------------------------------------------------

KINDS = ("threshold", "K1 < K2", "K1 < K2, direction", "K1 > K2", "RED ramp")
COUNTS = (10, 40, 80)
STATED_K = 40


def scaled(kind: str, middle: float) -> str:
    """A discipline of the given kind around `middle` packets; bands as wide as the paper's, (0.75, 1.25)."""
    if kind == "threshold":
        return f"threshold:k={middle:.0f}pkt"
    if kind == "RED ramp":
        # Marked with a probability from 0 to 1 over the middle +- half of it, on the queue itself.
        low, high = round(middle / 2), round(1.5 * middle)
        return f"red:min={low}pkt,max={high}pkt,max_p=1,wq=1,gentle=true,ecn=true,wait=false"
    low, high = round(0.75 * middle), round(1.25 * middle)
    if kind == "K1 > K2":
        low, high = high, low
    turn = "direction" if kind == "K1 < K2, direction" else "hold"
    return f"hysteresis:k1={low}pkt,k2={high}pkt,turn={turn}"


def _at_mean(mean: Floats, std: Floats, target: float) -> float:
    """Deviation at a mean queue, by linear interpolation over the thresholds tried; nan outside them."""
    order = np.argsort(mean)
    return float(np.interp(target, mean[order], std[order], left=np.nan, right=np.nan))


def _both(lab: Lab, sim: Mapping[str, Any], flows: tuple[int, ...], runs: int) -> dict[str, list[RunSet]]:
    return {
        name: lab.sweep([long_flows(n, rule, sim) for n in flows], runs=runs)
        for name, rule in (("DCTCP", single(sim)), ("DT-DCTCP", double(sim)))
    }


def _deviations(sets: dict[str, list[RunSet]]) -> dict[str, Any]:
    return {
        "std": {name: measured(s, "queue_std_packets") for name, s in sets.items()},
        "DCTCP less DT-DCTCP": differences(sets["DCTCP"], sets["DT-DCTCP"], "queue_std_packets"),
        # DT-DCTCP's over DCTCP's, the geometric mean over N of each run.
        "mean ratio": Estimate.of(
            np.exp(
                np.mean(
                    [
                        np.log(b.values("queue_std_packets") / a.values("queue_std_packets"))
                        for a, b in zip(sets["DCTCP"], sets["DT-DCTCP"], strict=True)
                    ],
                    axis=0,
                )
            )
        ),
    }


def _measure_deviation(lab: Lab) -> Measurement:
    runs, flows = replications(lab), lab.pick(FLOWS, QUICK_FLOWS)
    sets = _both(lab, SIM, flows, runs)
    direction = lab.sweep([long_flows(n, DIRECTION) for n in flows], runs=runs)
    steady = lab.sweep([long_flows(n, SINGLE, send_jitter="0s") for n in (10, 40, 70, 100)])
    middles = lab.pick((15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80), (25, 40, 60))
    grid = lab.sweep([long_flows(n, scaled(kind, c)) for n in COUNTS for kind in KINDS for c in middles])
    shape = (len(COUNTS), len(KINDS), len(middles))
    q, s, u = (
        np.array([r.mean(key) for r in grid]).reshape(shape)
        for key in ("queue_mean_packets", "queue_std_packets", "utilisation")
    )
    reference = q[:, 0, middles.index(STATED_K)]
    equal = [
        [_at_mean(q[i, j], s[i, j], reference[i]) for j in range(len(KINDS))] for i in range(len(COUNTS))
    ]
    return {
        **_deviations(sets),
        "N": list(flows),
        "mean": {name: measured(found, "queue_mean_packets") for name, found in sets.items()},
        "direction": measured(direction, "queue_std_packets"),
        "direction lower": differences(sets["DCTCP"], direction, "queue_std_packets"),
        "without send jitter": measured(steady, "queue_std_packets"),
        "thresholds": list(middles),
        "grid": {"mean": q, "std": s, "utilisation": u},
        "equal mean": reference,
        "at equal mean": equal,
    }


def _draw_deviation(m: Measurement, lab: Lab) -> list[Path]:
    n = np.array(m["N"])
    q, s = np.asarray(m["grid"]["mean"]), np.asarray(m["grid"]["std"])
    with figures.style():
        over_n, (ax,) = figures.new()
        for i, (name, found) in enumerate(m["std"].items()):
            figures.band(ax, n, centre(found), half(found), name, i)
        ax.plot(n, centre(m["direction"]), label="DT-DCTCP, turn=direction", **figures.look(2))
        ax.set(xlabel="Number of flows N", ylabel="Standard deviation (packets)", title="Fig 11")
        ax.set_ylim(bottom=0)
        ax.legend()
        at_mean, axes = figures.new(1, len(COUNTS), width=11.0, height=4.1, sharey=True)
        for i, (count, ax) in enumerate(zip(COUNTS, axes, strict=True)):
            for j, kind in enumerate(KINDS):
                ax.plot(q[i, j], s[i, j], label=kind, **figures.look(j))
            ax.axvline(m["equal mean"][i], color="0.4", linewidth=0.8)
            ax.set(xlabel="Mean queue (packets)", title=f"N = {count}, thresholds varied")
        # Of all panels, so after the last.
        axes[0].set_ylim(bottom=0)
        axes[0].set_ylabel("Standard deviation (packets)")
        axes[0].legend(fontsize=8)
    places = [(c, k, x) for c in range(len(COUNTS)) for k in range(len(KINDS)) for x in range(q.shape[2])]
    save_table(
        lab,
        "dt-dctcp-equal-mean",
        {
            "flows": [COUNTS[c] for c, _, _ in places],
            "rule": [KINDS[k] for _, k, _ in places],
            "centre": [m["thresholds"][x] for _, _, x in places],
            "queue_mean": q.ravel(),
            "queue_std": s.ravel(),
            "utilisation": np.asarray(m["grid"]["utilisation"]).ravel(),
        },
    )
    return [lab.save(over_n, "dt-dctcp-fig11-deviation"), lab.save(at_mean, "dt-dctcp-equal-mean")]


# N of the search: where the rule changes sides, and the ends.
_FEW = (10, 20, 30, 40, 60, 80, 100)


def _exceptions(m: Measurement) -> list[int]:
    """The places among the N at which DT-DCTCP's deviation is not the lower one."""
    return [i for i, gap in enumerate(m["DCTCP less DT-DCTCP"]) if gap.mean < 0]


def _longer_there(m: Measurement) -> bool:
    """Whether DT-DCTCP's mean queue is the longer one wherever its deviation is not lower, and the band gains
    nothing at an equal mean queue at one of the N of the second figure at least.
    """
    places = _exceptions(m)
    longer = all(m["mean"]["DT-DCTCP"][i].low > m["mean"]["DCTCP"][i].high for i in places)
    return bool(places) and longer and any(row[1] >= row[0] for row in m["at equal mean"])


def _told_equal(m: Measurement) -> str:
    there = ", ".join(
        f"N = {m['N'][i]}: mean queue {m['mean']['DT-DCTCP'][i].mean:.0f} against "
        f"{m['mean']['DCTCP'][i].mean:.0f} packets"
        for i in _exceptions(m)
    )
    gains = ", ".join(
        f"{row[1] - row[0]:+.1f} at N = {n}" for n, row in zip(COUNTS, m["at equal mean"], strict=True)
    )
    return f"{there}; the band changes the deviation at DCTCP's mean queue by {gains}"


def lower_in_words(m: Measurement) -> str:
    """At how many N DT-DCTCP's deviation is lower, with either rule for a queue that turns round."""
    own, other = m["DCTCP less DT-DCTCP"], m["direction lower"]
    return (
        f"lower at {sum(gap.mean > 0 for gap in own)} of {len(own)} N (with turn=direction at "
        f"{sum(gap.mean > 0 for gap in other)})"
    )


D_11 = Row(
    "D-11",
    "Standard deviation of the queue (Fig 11)",
    measure=_measure_deviation,
    draw=_draw_deviation,
    causes=(
        Cause(
            "the deviation follows the mean queue, and where DT-DCTCP's deviation is not lower its queue is "
            "longer; at an equal mean queue the band does not lower it everywhere",
            holds=_longer_there,
            evidence=_told_equal,
            of=("lower",),
        ),
        Cause(
            "one threshold alone acts where the swing does not cross the band, so the curve bends where the "
            "swing begins or ceases to cross it, and there are the steps back",
            holds=lambda m: _bends_at_the_band(m),
            evidence=lambda m: _told_bend(m),
            of=("grows-dt-dctcp",),
        ),
    ),
    matters=MATTERS,
    probe=lambda lab, settings: _deviations(_both(lab, at(SIM, "simulation", settings), _FEW, runs=1)),
)


def _steps_back(m: Measurement) -> list[int]:
    std = centre(m["std"]["DT-DCTCP"])
    return [i for i in range(len(std) - 1) if std[i + 1] < std[i] - 0.02 * np.ptp(std)]


def _bends_at_the_band(m: Measurement) -> bool:
    """Whether every step back is where the reach of the queue (mean and amplitude of an equal sinusoid) first
    covers K1 to K2, within two neighbours.
    """
    mean, std = centre(m["mean"]["DT-DCTCP"]), np.sqrt(2) * centre(m["std"]["DT-DCTCP"])
    covers = (mean - std < SIM["k1"]) & (mean + std > SIM["k2"])
    changes = np.flatnonzero(np.diff(covers.astype(int)))
    steps = _steps_back(m)
    return bool(steps) and all(changes.size and np.abs(changes - i).min() <= 2 for i in steps)


def _told_bend(m: Measurement) -> str:
    steps = ", ".join(f"N = {m['N'][i]} to {m['N'][i + 1]}" for i in _steps_back(m))
    return f"the deviation steps back from {steps}"


__all__ = ["D_1", "D_11", "MATTERS", "QUEUE_SAMPLE", "QUEUE_SAMPLE_S", "kept_queue"]
