"""The collapse (Fig 1.5), and how one flow's window moves (Fig 2.5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock import figures
from penstock_papers.experiments.common import Floats, onset
from penstock_papers.experiments.incast import setup
from penstock_papers.ledger import CONFIRMED, Cause, Estimate, Lab, Measurement, Row, claim_criterion

SEGMENT = 1000

# ---- I-1.5 ------------------------------------------------------------------------------------------------

# "by one or two orders of magnitude below its Ethernet link capacity"
DEPTH = claim_criterion("I-1.5/depth")


def _depth(curve: setup.Curve) -> Estimate:
    """How many times below the link's rate the goodput is where it is lowest past its best."""
    goodput = curve.per_run()
    best = int(np.argmax(goodput.mean(axis=1)))
    lowest = best + int(np.argmin(goodput[best:].mean(axis=1)))
    return Estimate.of(setup.LINK_BPS / goodput[lowest])


def _waited(curve: setup.Curve) -> Estimate:
    """The share of the time that blocks take too long, past the peak, in which a sender is in a timeout."""
    many = np.array(curve.servers) >= 8
    late, waited = (curve.per_run(key)[many].sum(axis=0) for key in ("late_s", "waited_s"))
    return Estimate.of(waited / np.maximum(late, 1e-9))


def _collapse(curve: setup.Curve) -> dict[str, Any]:
    return {
        "curve": curve.numbers(),
        "onset": Estimate.median(curve.onsets),
        "depth": _depth(curve),
        "waited": _waited(curve),
    }


def _measure_collapse(lab: Lab) -> Measurement:
    carried = setup.table_3_1(lab, {"restart_after_idle": False})
    return {
        **_collapse(setup.table_3_1(lab)),
        "carried over": carried.numbers(),
        "depth carried over": _depth(carried),
    }


def _draw_collapse(m: Measurement, lab: Lab) -> list[Path]:
    shown = {"NewReno, 32 KB buffer": m["curve"], "windows carried over": m["carried over"]}
    return [lab.save(setup.draw("Goodput collapse for synchronised reads", shown), "I-1.5")]


I_1_5 = Row(
    "I-1.5",
    "Goodput collapse under synchronised reads (Fig 1.5)",
    measure=_measure_collapse,
    draw=_draw_collapse,
    causes=(
        Cause(
            "how deep the goodput falls depends on what an idle sender does with its window: carried over "
            "from block to block, as section 3.2 tells it, it falls as far as stated",
            holds=lambda m: DEPTH.judge(m["depth carried over"]) == CONFIRMED,
            evidence=lambda m: f"{m['depth carried over']} times below the link's rate then",
            of=("depth",),
        ),
    ),
    matters=setup.MATTERS,
    probe=lambda lab, point: _collapse(setup.probed(lab, point)),
)

# ---- I-2.5 ------------------------------------------------------------------------------------------------

RTT_S = 0.05
# A single flow through a short buffer. Slow start overshoots by a whole window, which plain Reno cannot mend
# without a timeout; after that single losses end each rise.
ONE_FLOW: dict[str, Any] = {
    "flows": 1,
    "protocol": "reno",
    "link_rate": "10Mbps",
    "access_rate": "100Mbps",
    "rtt": "50ms",
    "buffer": "20pkt",
    "segment": f"{SEGMENT}B",
    "initial_window": 2,
    "rto_min": "200ms",
    "send_jitter": "0s",
    "start_spread": "0s",
    "duration": "20s",
    "warmup": "0s",
    "sample": "2ms",
    "series": "true",
}
SHOWN = 4  # every fourth sample is drawn


# Open parameters of the book's runs that act on one flow too.
ONE_FLOW_MATTERS = tuple(name for name in setup.OPEN if name != "jitter_mode")


def _measure_window(lab: Lab, more: Mapping[str, Any] | None = None) -> Measurement:
    runs = lab.runs("long-flows", ONE_FLOW | dict(more or {}), keep=["series", "events"])
    time, cwnd = track(runs.tables(0)["series"], "cwnd_bytes", 0)
    _, ssthresh = track(runs.tables(0)["series"], "ssthresh_bytes", 0)
    events = runs.tables(0)["events"]
    timeouts = events.filter(pl.col("what").str.starts_with("timeout"))
    times = timeouts["time_s"].to_numpy()
    found = {"time": time[::SHOWN], "window": cwnd[::SHOWN] / SEGMENT, "timeouts": times}
    return found | window_numbers(time, cwnd, ssthresh, times, timeouts["outstanding_bytes"].to_numpy())


def window_numbers(
    time: Floats, cwnd: Floats, ssthresh: Floats, timeouts: Floats, outstanding: Sequence[float] | Floats
) -> dict[str, Any]:
    """What Fig 2.5's statements are judged by, of samples of window and threshold (bytes) and of timeouts (s)
    with the bytes outstanding before each. Without a timeout its numbers are inf.
    """
    first = float(timeouts[0]) if len(timeouts) else math.inf
    peak = int(np.argmax(np.where(time < first, cwnd, 0)))
    upto = (np.arange(time.size) <= peak) & (cwnd >= 4 * SEGMENT) & (cwnd <= 0.75 * cwnd[peak])
    after = time > (timeouts[-1] if len(timeouts) else 0.0)
    rises, cuts = sawtooth(time[after], cwnd[after])
    found: dict[str, Any] = {
        "growth": _growth(time[upto], cwnd[upto]),
        "peak": float(cwnd[peak] / SEGMENT),
        "rises": rises,
        "cuts": cuts,
        "first timeout": first,
        "left": math.inf,
        "threshold": math.inf,
        "growth again": math.inf,
    }
    if len(timeouts):
        at = int(np.searchsorted(time, first)) + 1
        again = (time > first) & (cwnd >= 2 * SEGMENT) & (cwnd <= 0.9 * ssthresh[at])
        # Up to where the window first reaches its threshold.
        beyond = np.flatnonzero((time > first) & (cwnd > 0.9 * ssthresh[at]))
        again &= np.arange(time.size) < (beyond[0] if beyond.size else time.size)
        found |= {
            "left": float(cwnd[at - 1 : at + 1].min() / SEGMENT),
            "threshold": float(ssthresh[at] / outstanding[0]),
            "growth again": _growth(time[again], cwnd[again]),
        }
    return found


def _growth(time: Floats, cwnd: Floats) -> float:
    """Factor per RTT, from a fit of log2 of the window; inf with fewer than three samples."""
    # The queue it builds lengthens the RTT; while the window is below the path's own capacity it does not.
    return float(2 ** (np.polyfit(time, np.log2(cwnd), 1)[0] * RTT_S)) if time.size > 2 else math.inf


def sawtooth(time: Floats, cwnd: Floats) -> tuple[list[float], list[float]]:
    """Slopes of the rises (segments per RTT), and what each fast retransmit leaves of the window (bytes)."""
    # A fast retransmit shows as a fall by more than a quarter between two samples 2 ms apart, or over the
    # recovery.
    drops = np.flatnonzero((cwnd[1:] < 0.75 * cwnd[:-1]) & (cwnd[:-1] > 4 * SEGMENT))
    slopes = []
    for begin, end in zip(drops[:-1] + 1, drops[1:], strict=True):
        rise = slice(begin + (end - begin) // 4, end)
        slopes.append(float(np.polyfit(time[rise], cwnd[rise] / SEGMENT, 1)[0] * RTT_S))
    return slopes, [float(cwnd[at + 1 : at + 200].min() / cwnd[at]) for at in drops]


def _draw_window(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        ax.plot(m["time"], m["window"], **figures.line(0))
        for i, at in enumerate(m["timeouts"]):
            ax.axvline(at, color=figures.PALETTE[1], linestyle=":", label="timeout" if i == 0 else None)
        ax.set(xlabel="time (s)", ylabel="congestion window (segments)", xlim=(0, float(m["time"][-1])))
        ax.set_ylim(bottom=0)
        ax.set_title("One Reno flow: slow start, timeout, sawtooth")
        if len(m["timeouts"]):
            ax.legend()
    return [lab.save(figure, "I-2.5")]


def track(series: pl.DataFrame, metric: str, number: int | None = None) -> tuple[Floats, Floats]:
    """Times (s) and values of a sampled metric, of one flow when a number is given."""
    part = series.filter(pl.col("metric") == metric)
    if number is not None:
        part = part.filter((pl.col("entity") == "flow") & (pl.col("number") == number))
    return part["time_s"].to_numpy(), part["value"].to_numpy()


def onset_backwards(m: Measurement) -> float:
    """The number of servers from which the goodput collapses as servers are taken away; inf where none is."""
    curve = m["curve"]
    found = onset(curve["servers"][::-1], [e.mean for e in curve["goodput"]][::-1])
    return float(found or math.inf)


def slow_start_rise(m: Measurement) -> list[float]:
    """By how many segments the window grew in the last round trip of the first slow start."""
    return [m["peak"] * (1 - 1 / m["growth"])]


def rises(m: Measurement) -> Any:
    """By how many segments per RTT the window rises in each congestion avoidance; inf where it never does."""
    return m["rises"] or [math.inf]


def cuts(m: Measurement) -> Any:
    """What each fast retransmit leaves of the window; inf where there is none."""
    return m["cuts"] or [math.inf]


I_2_5 = Row(
    "I-2.5",
    "The window of one flow (Fig 2.5)",
    measure=_measure_window,
    draw=_draw_window,
    matters=ONE_FLOW_MATTERS,
    probe=lambda lab, point: _measure_window(
        lab, {setup.OPEN[name]: point[name] for name in ONE_FLOW_MATTERS}
    ),
    cheap=True,
)


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}" if len(values) else "nothing"


COLLAPSE_ROWS = [I_1_5, I_2_5]
