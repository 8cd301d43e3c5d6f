"""A crowd of flows joins one (Fig 3, 13a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.runs import RunSet
from penstock_papers.experiments.piqi_rcp import setup
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

CAPACITY = 100e6
NAMES = ("RCP", "PIQI-RCP")
# ---- P-3 --------------------------------------------------------------------------------------------------

JOIN = 15.0
STATED_DRAIN = 7.5
STATED_QUEUE = 80_868
_BDP = 1250  # packets of 1000 B: "1.25 MB in this case"


# Parameters that the paper leaves open, one changed at a time.
_VARIANTS: dict[str, dict[str, Any]] = {
    "mean round trip over bytes": {"mean": "bytes"},
    "slow falls of the mean round trip": {"rtt_average": "slow-fall"},
    "a floor of one packet per round trip": {"floor": 1},
}


def _crowd(lab: Lab, protocol: str, rtt: str, duration: float) -> RunSet:
    settings = {"duration": f"{duration:g}s", "sample": "10ms", "series_flows": 2, "rtt": rtt}
    return lab.sweep([("join", {**settings, "protocol": protocol})], keep=["series"])[0]


def _crowd_numbers(runs: RunSet) -> dict[str, float]:
    _, y = setup.sampled(runs, "arrival_rate_bps")
    t, queue = setup.sampled(runs, "queue_packets")
    peak = float(runs.mean("queue_max_packets"))
    empty = t[(t > JOIN + 1) & (queue < 0.001 * peak)]
    return {
        "offered": float(y.max()) / 1e9,
        "peak": peak,
        "drained": float(empty.min()) - JOIN if empty.size else float(t[-1]) - JOIN,
    }


def _measure_crowd(lab: Lab) -> Measurement:
    duration = lab.pick(40.0, 30.0, 18.0)
    rtt = setup.CHOSEN["dumbbell.rtt"]
    runs = _crowd(lab, setup.rcp(), rtt, duration)
    variants = {
        name: _crowd_numbers(_crowd(lab, setup.rcp(**v), rtt, duration)) for name, v in _VARIANTS.items()
    }
    t, queue = setup.sampled(runs, "queue_packets")
    return {
        **_crowd_numbers(runs),
        "variants": variants,
        "traces": setup.traces(runs, (0, 1)),
        "queue": {"RCP": setup.thinned(t, queue)},
    }


def _probe_crowd(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    return _crowd_numbers(_crowd(lab, setup.rcp(chosen), chosen["dumbbell.rtt"], 30.0))


def _sent(packets: float) -> float:
    """Seconds in which the link sends so many packets."""
    return packets * 8000 / CAPACITY


def _draw_crowd(m: Measurement, lab: Lab) -> list[Path]:
    return [
        setup.over_time(lab, "P-3", m["traces"], "RCP: 50 flows join at t = 15 s"),
        setup.over_time(
            lab,
            "P-3-queue",
            m["queue"],
            "RCP: 50 flows join at t = 15 s",
            "queue (packets)",
            stated={"largest queue": STATED_QUEUE},
        ),
    ]


def peak_over_bdp(m: Measurement) -> Any:
    """The peak queue in bandwidth-delay products."""
    return m["peak"] / _BDP


P_3 = Row(
    "P-3",
    "RCP: 50 flows join one (Fig 3)",
    measure=_measure_crowd,
    draw=_draw_crowd,
    causes=(
        Cause(
            "flows go on sending while the queue drains, and how much depends on what the paper leaves "
            "open of the router: with another choice the time is as stated",
            holds=lambda m: any(
                abs(v["drained"] / STATED_DRAIN - 1) <= setup.EXACT for v in m["variants"].values()
            ),
            evidence=lambda m: "; ".join(
                f"{name}: {v['drained']:.1f} s" for name, v in m["variants"].items()
            ),
            of=("drained",),
        ),
        Cause(
            "it is the time in which the link sends the measured queue, and less than the stated one",
            holds=lambda m: (
                _sent(m["peak"]) < STATED_DRAIN * (1 - setup.EXACT) and m["drained"] < 1.1 * _sent(m["peak"])
            ),
            evidence=lambda m: (
                f"{m['peak']:,.0f} packets take {_sent(m['peak']):.2f} s at 100 Mb/s; the stated 80,868 "
                f"would take {_sent(80_868):.2f} s"
            ),
            of=("drained",),
        ),
    ),
    matters=("dumbbell.rtt", *setup.RCP),
    probe=_probe_crowd,
)

# ---- P-13a ------------------------------------------------------------------------------------------------

_KNEE, _LAST = 25, 250


def _sizes(
    lab: Lab, protocols: Sequence[str], counts: Sequence[int], rtt: str, duration: float = 30.0
) -> list[list[float]]:
    settings = {"duration": f"{duration:g}s", "series": "false", "sample": "1s", "rtt": rtt}
    points = [("join", {**settings, "protocol": p, "flows": n}) for p in protocols for n in counts]
    peaks = [float(r.mean("queue_max_packets")) for r in lab.sweep(points)]
    return [peaks[i * len(counts) : (i + 1) * len(counts)] for i in range(len(protocols))]


def _widens(counts: setup.Array, peaks: setup.Array) -> Estimate:
    ratio = peaks[0] / peaks[1]
    hundred = int(np.argmin(np.abs(counts - 100)))
    return Estimate.exact(ratio[-1] / ratio[hundred])


def _size_numbers(counts: Sequence[int], peaks: Sequence[Sequence[float]]) -> dict[str, Any]:
    many = np.array(counts) >= _KNEE
    ours = np.array(peaks)[:, many]
    slope = np.polyfit(np.log(np.array(counts)[many]), np.log(ours[0]), 1)[0]
    return {
        "counts": list(counts),
        "peaks": {name: list(p) for name, p in zip(NAMES, peaks, strict=False)},
        "RCP at the end": float(ours[0][-1]),
        "exponent": float(slope),
        "PIQI from the knee": ours[1].tolist(),
        # By how much RCP's queue over PIQI-RCP's grows from about a hundred flows to the most.
        "ratio grows by": _widens(np.array(counts), np.array(peaks)),
    }


# What senders close of each change at once that follow it, for comparison.
FOLLOWING = 0.9


def _measure_sizes(lab: Lab) -> Measurement:
    counts = lab.pick((1, 5, 10, 25, 50, 75, 100, 150, 200, 250), (1, 5, 25, 50, 100, 250), (1, 25, 50))
    rtt = setup.CHOSEN["dumbbell.rtt"]
    tau1 = setup.CHOSEN["senders.tau1"]
    followed = setup.simple(tau2=FOLLOWING)
    peaks = _sizes(lab, (setup.rcp(), setup.simple(), followed), counts, rtt, lab.pick(45.0, 30.0, 20.0))
    # Before the first answers of the router to the crowd: a round trip and an interval of N tau1 C.
    first = [n * tau1 * CAPACITY * 0.13 / 8000 for n in counts]
    return {
        **_size_numbers(counts, peaks),
        "senders that follow changes": peaks[2],
        "first round trip": first,
    }


def _probe_sizes(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    counts = (_KNEE, 100, _LAST)
    return _size_numbers(
        counts, _sizes(lab, (setup.rcp(chosen), setup.simple(chosen)), counts, chosen["dumbbell.rtt"])
    )


def _draw_sizes(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        fig, (ax,) = figures.new()
        for i, (name, peaks) in enumerate(m["peaks"].items()):
            ax.plot(m["counts"], peaks, label=name, **figures.look(i))
        ax.plot(
            m["counts"],
            m["senders that follow changes"],
            label=f"PIQI-RCP, tau2 = {FOLLOWING:g}",
            **figures.look(2),
        )
        ax.plot([_LAST, _LAST], [501_000, 10_000], "x", color=figures.INK, linestyle="none", label="stated")
        ax.set(yscale="log", xlabel="flows joining at t = 15 s", ylabel="peak queue (packets)")
        ax.set_title("Peak queue over flows that join")
        ax.legend()
        return [lab.save(fig, "P-13a")]


P_13A = Row(
    "P-13a",
    "Peak queue over joining flows (Fig 13a)",
    measure=_measure_sizes,
    draw=_draw_sizes,
    matters=("dumbbell.rtt", *setup.SENDERS, "routers.gamma", *setup.START),
    probe=_probe_sizes,
)

CROWD_ROWS = [P_3, P_13A]
