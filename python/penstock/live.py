"""The kernel view: scenarios with real TCP sockets across the simulator's own ports (Linux, root).

>>> from penstock import live
>>> result = live.run("long-flows", flows=1, access_rate="1Gbps")
>>> both = live.compare("incast", over=("servers", [1, 4, 8, 16]), rto_min="10ms")
>>> print(both.table())

Scenarios run at 100 Mb/s and a round trip of 1 ms by default, because a thread that a timer wakes is tens of
microseconds late. `scale` divides a scenario's rates and multiplies its times instead. A run that delivers
packets too late is marked invalid (`valid` = 0 in its summary) and left out of figures. See
docs/reference/live.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from numpy.typing import NDArray

from penstock import _engine, figures
from penstock import scenario as scenarios
from penstock.errors import ScenarioError
from penstock.interrupts import look
from penstock.runs import TABLES, RunSet
from penstock.sweeps import Interrupted, RunFailed, Task, count_of_runs, run_tasks, sweep, tables

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.network import Network
    from penstock.scenario import Scenario

Over = tuple[str, Sequence[Any]]

# What a comparison shows: summary key, heading, divisor.
METRICS = (
    ("goodput_bps", "goodput, Mb/s", 1e6),
    ("queue_mean_packets", "mean queue, packets", 1.0),
    ("drops", "drops", 1.0),
    ("retransmits", "retransmissions", 1.0),
    ("timeouts", "timeouts", 1.0),
)
# Keys of the simulation that stand for a machine's noise.
STILL = {
    "receive_jitter": "0s",
    "receive_lag": "none",
    "data_handover": "none",
    "ack_handover": "none",
    "timer_lag": "none",
    "receiver_turn": "none",
    "dupack_turn": "none",
    "sender_turn": "none",
    "missed_ticks_write": "0",
    "missed_ticks_arrival": "0",
    "write_lag": "none",
    "write_time": "none",
    "write_turn": "none",
    "application_lag": "none",
    "application_turn": "none",
    "application_correlation": "0",
    "processing_delay": "0s",
}
NOISE = tuple(STILL)
# How many of the largest values a live run's summary has, by rank (crates/live/src/quality.rs).
RANKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
# Of how late the network of a live run wakes: the summary's keys and which quantiles they are; the largest.
WAKE = {
    "wake_p10_s": 0.1,
    "wake_p25_s": 0.25,
    "wake_p50_s": 0.5,
    "wake_p75_s": 0.75,
    "wake_p90_s": 0.9,
    "wake_p95_s": 0.95,
    "wake_p99_s": 0.99,
    "wake_p995_s": 0.995,
    "wake_p999_s": 0.999,
}
WAKE_LARGEST = {f"wake_{rank}_s": rank for rank in RANKS}
# The network's thread sets its timer for so much earlier than it has to wake (crates/live/src/switch.rs).
EARLY_S = 15e-6
# Of its pauses by length, from that many milliseconds to the next: those that can be judged and those in
# which hosts went on (crates/live/src/pauses.rs).
PAUSES = {ms: (f"wake_pauses_{ms}ms", f"wake_pauses_{ms}ms_sent") for ms in (1, 2, 4, 8)}
# Quantiles of the time in which the network thread delivers a packet and does nothing else.
DATA_HANDOVER, ACK_HANDOVER = (
    {f"{kind}_handover_p{share}_s": share / 100 for share in (1, 10, 25, 50, 75, 90, 99)}
    for kind in ("data", "ack")
)
# Quantiles of a host's time for a packet. A receiver answers data with an ACK or a duplicate ACK, a sender
# answers an ACK with data, and an application's read releases an ACK.
RECEIVER, DUPACK, SENDER, APPLICATION = (
    {f"{end}_turn_p{share}_s": share / 100 for share in (1, 10, 25, 50, 75, 90, 99)}
    for end in ("receiver", "dupack", "sender", "application")
)
# Quantiles of writes on open connections: the delay until the thread of all applications begins them (lag),
# their duration (time), and from their beginning to the packet that they send (turn).
WRITE_LAG, WRITE_TIME, WRITE_TURN = (
    {f"write_{what}_p{share}_s": share / 100 for share in (1, 10, 25, 50, 75, 90, 99)}
    for what in ("lag", "time", "turn")
)
# The share of the kernel's ticks that pass over its timers, by the processor that they were set on.
MISSED_TICKS = ("missed_ticks_write", "missed_ticks_arrival")
# Of how late applications come to read: the summary's keys and which quantiles they are; the largest.
APPLICATION_LAG = {
    f"application_lag_p{name}_s": float(f"0.{name}") for name in (10, 25, 50, 75, 90, 95, 99, 995, 999)
}
APPLICATION_LAG_LARGEST = {f"application_lag_{rank}_s": rank for rank in RANKS}
# For how long they go on so: correlations of successive ones and of those `FAR` apart
# (crates/live/src/quality.rs), and packets for each.
RECEIVER_LASTS, DUPACK_LASTS, SENDER_LASTS = (
    (f"{end}_turn_near", f"{end}_turn_far", f"{end}_turn_packets") for end in ("receiver", "dupack", "sender")
)
APPLICATION_LASTS, APPLICATION_LAG_LASTS = (
    (f"application_{what}_near", f"application_{what}_far") for what in ("turn", "lag")
)
FAR = 20


def doctor() -> list[dict[str, Any]]:
    """What this machine has and lacks for live runs: a list of `what`, `required`, `found`, `detail`,
    `remedy`.
    """
    found: list[dict[str, Any]] = json.loads(_engine.doctor())
    return found


def resolve(
    scenario: Scenario,
    settings: Mapping[str, Any] | None = None,
    *,
    seed: int = 1,
    scale: str | float = "none",
    kernel: str = "",
    gate: float = 0.1,
) -> dict[str, Any]:
    """The scenario as a live run would have it: live defaults filled in, scaled, checked.

    `scale` is "none", "auto" (the fastest link becomes 100 Mb/s) or a factor. `kernel` is a congestion
    control of the kernel, "dctcp" or "steered" ("" = by protocol). `gate` is the largest lateness of 99 % of
    packets in a valid run, as a share of the round trip. Raises ScenarioError naming what is wrong.
    """
    found: dict[str, Any] = json.loads(
        scenarios.check(_spec(scenario, settings, seed, scale, kernel, gate), _engine.live_resolve)
    )
    return found


def run(
    scenario: Scenario,
    /,
    *,
    seed: int = 1,
    runs: int = 1,
    keep: Iterable[str] = TABLES,
    scale: str | float = "none",
    kernel: str = "",
    gate: float = 0.1,
    on_progress: Callable[[float], None] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> RunSet:
    """Run a scenario with kernel sockets and return what was measured, in the tables and keys of
    `penstock.run`.

    Settings as with `penstock.run`. Takes as long as the scenario's `duration`, one run after the other. The
    summary has more keys: `valid`, `lag_p50_s`, `lag_p99_s`, `lag_max_s`, those of `WAKE`,
    `RECEIVER`, `DUPACK`, `SENDER`, `APPLICATION` and `APPLICATION_LAG`, `late_windows`, `device_drops`,
    `other_cpu_cores`, `tail_loss_probes`. Raises ScenarioError for what is wrong or what the machine lacks;
    RunFailed and Interrupted as `penstock.run`.
    """
    points = [scenarios.taken(scenario, scenarios.merged(settings, more))]
    return _runs(points, seed, runs, keep, (scale, kernel, gate), on_progress)[0]


def compare(
    scenario: Scenario,
    /,
    *,
    over: Over | None = None,
    seed: int = 1,
    runs: int = 1,
    scale: str | float = "none",
    kernel: str = "",
    gate: float = 0.1,
    on_progress: Callable[[float], None] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Comparison:
    """Run a scenario with kernel sockets and the very same scenario simulated.

    `over` is a key and the values it takes, one point each. Without it the queue is sampled every millisecond
    (unless `sample` says otherwise), to be drawn over time. Simulated hosts receive as late as those of the
    kernel's runs did (`measured_noise`), unless a key of `NOISE` is given. A simulation without
    noise stands beside it. Raises as `run`.
    """
    chosen = scenarios.merged(settings, more)
    key, values = over if over is not None else ("", [None])
    if over is not None and not values:
        raise scenarios.error("over", key, "needs at least one value")
    if over is None:
        chosen = {"sample": "1ms", "series": "true", **chosen}
    points = [
        scenarios.taken(scenario, scenarios.merged(chosen, {key: value} if key else {})) for value in values
    ]
    options = (scale, kernel, gate)
    packet: list[tuple[str | Path | Network, dict[str, Any]]] = []
    for name, point in points:
        # The simulation has the live run's own values, whatever they come from.
        resolved = resolve(name, point, seed=seed, scale=scale, kernel=kernel, gate=gate)
        same = {k: resolved["set"][k] for k in resolved["given"]}
        packet.append((name, same))

    def progress(fraction: float) -> None:
        if on_progress:
            on_progress(fraction * 0.95)

    live = _runs(points, seed, runs, TABLES if over is None else (), options, progress)
    noise = [
        {key: same[key] for key in NOISE if key in same} or measured_noise(found)
        for (_, same), found in zip(packet, live, strict=True)
    ]
    still = [STILL] * len(noise)
    try:
        simulated, noiseless = (
            sweep(
                [(name, {**same, **late}) for (name, same), late in zip(packet, lates, strict=True)],
                runs=runs,
                seed=seed,
                keep=kept,
            )
            for lates, kept in ((noise, TABLES if over is None else ()), (still, ()))
        )
    except (Interrupted, RunFailed) as stop:
        # The kernel's runs took their own duration: they are not to be lost over a simulation.
        stop.results = [*live, *stop.results]
        raise
    return Comparison(key, tuple(values), tuple(live), tuple(simulated), tuple(noise), tuple(noiseless))


def measured_noise(kernel: RunSet) -> dict[str, str]:
    """What these live runs say of how late simulated hosts are to be: `noise_of` their summaries."""
    return noise_of([run.summary for run in kernel.runs])


def noise_of(summaries: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """The settings of a simulation whose hosts are as late as those of live runs with these summaries.

    Every key has quantiles (docs/reference/hosts.md), followed by their persistence (`lasting`):

    - `receive_lag`: lateness of the network thread after a sleep (`WAKE`).
    - `timer_lag`: those quantiles up to the 99th percentile plus `EARLY_S`, the lateness of the network's own
      timers, followed by the share of pauses in which hosts stood still, by length (`PAUSES`).
    - `data_handover`, `ack_handover`: time to deliver a packet (`DATA_HANDOVER`, `ACK_HANDOVER`).
    - `receiver_turn`, `dupack_turn`: from a data packet to its ACK or duplicate ACK (`RECEIVER`, `DUPACK`).
    - `sender_turn`: from an ACK to the data that it releases (`SENDER`).
    - `application_lag`, `application_turn`: from the first unread byte to the read and to its ACK
      (`APPLICATION_LAG`, `APPLICATION`); `application_correlation` is their correlation (`together`).
    - `write_lag`, `write_time`, `write_turn`: the application thread (`WRITE_LAG` and others).
    - `missed_ticks_write`, `missed_ticks_arrival`: shares of ticks at which due timers do not run
      (`MISSED_TICKS`); "none" without any.

    Each is the median over the runs: the valid ones, if there are any. Above the 99th percentile only
    `receive_lag` and `application_lag` grow, by the largest values of all runs together (`_tail`), because a
    pause belongs to these two. The result has no noise if nothing was delivered.
    """
    needed = (*WAKE, "wake_1_s", "wake_times")
    told = [summary for summary in summaries if all(key in summary for key in needed)]
    told = [summary for summary in told if summary["valid"] == 1] or told
    if not told:
        return {key: text for key, text in STILL.items() if text == "none"}
    lags = _lags(told, "wake", WAKE)
    timers = [(share, min(late + EARLY_S, 1.0)) for share, late in lags if share <= 0.99]
    timers.append((1.0, timers[-1][1]))
    timer = _text(timers)
    waited = []
    for ms, keys in PAUSES.items():
        judged, sent = (sum(summary.get(key, 0.0) for summary in told) for key in keys)
        if judged > 0:
            waited.append(f"{ms}ms:{1 - sent / judged:.6g}")
    timer += ";" + ",".join(waited) if waited else ""
    return {
        "receive_lag": _text(lags),
        "data_handover": _quantiles(told, DATA_HANDOVER),
        "ack_handover": _quantiles(told, ACK_HANDOVER),
        "timer_lag": timer,
        "receiver_turn": _turn(told, RECEIVER, RECEIVER_LASTS),
        "dupack_turn": _turn(told, DUPACK, DUPACK_LASTS),
        "sender_turn": _turn(told, SENDER, SENDER_LASTS),
        **{key: _share(told, key) for key in MISSED_TICKS},
        "write_lag": _quantiles(told, WRITE_LAG),
        "write_time": _quantiles(told, WRITE_TIME),
        "write_turn": _quantiles(told, WRITE_TURN),
        "application_lag": _lasting(
            told, _lags(told, "application_lag", APPLICATION_LAG), APPLICATION_LAG_LASTS
        ),
        "application_turn": _turn(told, APPLICATION, APPLICATION_LASTS),
        "application_correlation": _together(told),
    }


def _lags(
    summaries: Sequence[Mapping[str, float]], name: str, quantiles: Mapping[str, float]
) -> list[tuple[float, float]]:
    """Quantiles of how late something was: the medians over the runs up to the 99th percentile, and behind it
    all that the runs have had.
    """
    needed = (*quantiles, f"{name}_1_s", f"{name}_times")
    told = [summary for summary in summaries if all(key in summary for key in needed)]
    if not told:
        return []
    # A second is the most that the key takes.
    lags = {share: min(median(summary[key] for summary in told), 1.0) for key, share in quantiles.items()}
    points = [(share, lag) for share, lag in lags.items() if share <= 0.99]
    return points + _tail(told, name, quantiles, lags[0.99])


def _tail(
    summaries: Sequence[Mapping[str, float]], name: str, quantiles: Mapping[str, float], least: float
) -> list[tuple[float, float]]:
    """The tails of several runs in one distribution, behind its 0.99-quantile `least`: what one run in three
    has once is as rare in it, where a median over the runs would leave it out.

    The largest that were measured come as they are, each by itself: pauses are of a few lengths, with
    nothing between. Where a rank is left out, and behind the 0.99-quantile to the least of them, a power law.
    """
    # By run: how often it was measured; the largest, descending; times before them and shares that are later.
    tails = []
    for summary in summaries:
        count = summary[f"{name}_times"]
        ranked = [(r, summary[f"{name}_{r}_s"]) for r in RANKS if f"{name}_{r}_s" in summary]
        # A time below a nanosecond is none, a second the most there is.
        ranks, times = zip(*((math.log(r), math.log(min(max(t, 1e-9), 1.0))) for r, t in ranked), strict=True)
        largest = np.exp(np.interp(np.log(np.arange(1, ranked[-1][0] + 1)), ranks, times))
        before = [(summary[key], 1 - q) for key, q in quantiles.items() if q >= 0.99]
        before = [(max(t, 1e-9), x) for t, x in before if x > len(largest) / count and t < largest[-1]]
        before.append((largest[-1], len(largest) / count))
        tails.append((count, largest, np.log(before)))

    def later(time: float, *, too: bool) -> float:
        """The share that is later, or not earlier."""
        total = 0.0
        for count, largest, before in tails:
            if time < largest[-1]:
                total += math.exp(np.interp(math.log(time), before[:, 0], before[:, 1]))
            else:
                total += ((largest >= time) if too else (largest > time)).sum() / count
        return total / len(tails)

    ends = {float(t) for _, largest, _ in tails for t in largest}
    low, high = math.log(max(least, 1e-9)), math.log(max(largest[-1] for _, largest, _ in tails))
    rise = {math.exp(low + (high - low) * part / 24) for part in range(24)} if low < high else set()
    points, share = [], 0.99
    # Numbers are written with twelve digits.
    digit = 1e-11
    for time in sorted(t for t in ends | rise if t >= least):
        begin, end = 1 - later(time, too=True), 1 - later(time, too=False)
        if end > share + 2 * digit:
            if end > begin + digit:
                points.append((max(begin, share + digit), time))
            points.append((end, time))
            share = end
    return points if share == 1 else [*points, (1.0, max(least, *ends))]


def _points(
    summaries: Sequence[Mapping[str, float]], quantiles: Mapping[str, float]
) -> list[tuple[float, float]]:
    told = [summary for summary in summaries if all(key in summary for key in quantiles)]
    if not told:
        return []
    points = [(share, min(median(s[key] for s in told), 1.0)) for key, share in quantiles.items()]
    return [*points, (1.0, points[-1][1])]


def _text(points: Sequence[tuple[float, float]]) -> str:
    return ",".join(f"{share:.12g}:{took * 1e9:.0f}ns" for share, took in points) or "none"


def _quantiles(summaries: Sequence[Mapping[str, float]], quantiles: Mapping[str, float]) -> str:
    return _text(_points(summaries, quantiles))


def _share(summaries: Sequence[Mapping[str, float]], key: str) -> str:
    told = [summary[key] for summary in summaries if key in summary]
    # What the key takes at most; a run too short to say is not told.
    return f"{min(median(told), 0.49):.6g}" if told else "0"


def _turn(
    summaries: Sequence[Mapping[str, float]], quantiles: Mapping[str, float], lasts: tuple[str, ...]
) -> str:
    told = [summary for summary in summaries if all(key in summary for key in quantiles)]
    return _lasting(told, _points(told, quantiles), lasts)


def _lasting(
    summaries: Sequence[Mapping[str, float]], points: Sequence[tuple[float, float]], lasts: tuple[str, ...]
) -> str:
    """Quantiles, and how what they are of lasts: two correlations, and packets for each where these are more
    than one.
    """
    text = _text(points)
    told = [summary for summary in summaries if all(key in summary for key in lasts)]
    if points and told:
        near, far, *packets = (median(summary[key] for summary in told) for key in lasts)
        share, kept = lasting(points, near, far, *packets)
        text += f";{share:.6g}:{kept:.6g}" if share > 0 else ""
    return text


def _together(summaries: Sequence[Mapping[str, float]]) -> str:
    told = [s for s in summaries if "application_turn_lag" in s]
    lags, turns = (_lags(told, "application_lag", APPLICATION_LAG), _points(told, APPLICATION))
    if not (told and lags and turns):
        return "0"
    return f"{together(lags, turns, median(s['application_turn_lag'] for s in told)):.6g}"


def together(
    first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]], correlation: float
) -> float:
    """The correlation of two normal deviates at whose places times with the quantiles `first` and `second`
    are, whose logarithms have that `correlation`; -1 or 1 where none has as much of it.

    With the Hermite coefficients c_n and d_n of the two logarithms theirs is the sum of c_n d_n a^n over the
    root of the sums of c_n^2 and of d_n^2 (Mehler's formula).
    """
    (a, rest_a), (b, rest_b) = _hermite(first), _hermite(second)
    variances = ((a**2).sum() + rest_a, (b**2).sum() + rest_b)
    # A constant has what sums are rounded to.
    if min(variances) < 1e-9:
        return 0.0
    scale = math.sqrt(variances[0] * variances[1])
    powers = np.arange(1, len(a) + 1)
    low, high = -1.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        found = (a * b * middle**powers).sum() / scale
        low, high = (middle, high) if found < correlation else (low, middle)
    return (low + high) / 2


def _hermite(points: Sequence[tuple[float, float]]) -> tuple[NDArray[np.float64], float]:
    """Hermite coefficients, from the first on, of the logarithm of a time with the quantiles `points` at a
    normal deviate, and the variance that higher ones have.
    """
    # Probabilists' Hermite polynomials, each over the root of n!, at the nodes of a quadrature.
    z, weight = np.polynomial.hermite_e.hermegauss(180)
    shares = [0.0, *(share for share, _ in points)]
    took = [points[0][1], *(max(time, 1e-9) for _, time in points)]
    place = np.array([NormalDist().cdf(x) for x in z])
    log = np.interp(place, shares, np.log(np.maximum(took, 1e-9)))
    weight = weight / weight.sum()
    before, this, found = np.zeros_like(z), np.ones_like(z), []
    for n in range(60):
        found.append(float((weight * log * this).sum()))
        before, this = this, (z * this - n**0.5 * before) / (n + 1) ** 0.5
    terms = np.array(found[1:])
    return terms, max(float((weight * log**2).sum()) - found[0] ** 2 - float((terms**2).sum()), 0.0)


def lasting(
    points: Sequence[tuple[float, float]], near: float, far: float, packets: float = 1.0
) -> tuple[float, float]:
    """Return the share of the variance that persists, and for how many packets on average, as `receiver_turn`
    takes them. The turns have the quantiles `points`; the logarithms of successive ones have the correlation
    `near`, and of those `FAR` apart `far`. The share is 0 without correlation.

    A kept part that the next turn finds kept with p gives turns k apart the correlation f(share) p^k. With
    the Hermite coefficients c_n of the logarithm at a normal deviate, f(a) is the sum of c_n^2 a^n over that
    of c_n^2 (Mehler's formula).
    """
    if near <= 0:
        return 0.0, 1.0
    # Correlations are known to some thousandths. With p below `near`, f would be above 1.
    kept = max((max(far, 1e-3) / near) ** (1 / (FAR - 1)), near)
    each = min(kept ** (1 / max(packets, 1.0)), 1 - 1e-6)
    wanted = min(near / kept, 1.0)
    coefficients, rest = _hermite(points)
    # What is left of the variance is in higher terms, which count for a share near 1 alone.
    terms = coefficients**2
    if terms.sum() <= 0:
        return 0.0, 1.0
    powers = np.arange(1, len(terms) + 1)
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        found = (terms * middle**powers).sum() + rest * middle ** (len(terms) + 1)
        low, high = (middle, high) if found < wanted * (terms.sum() + rest) else (low, middle)
    return high, 1 / (1 - each)


@dataclass(frozen=True)
class Comparison:
    """The same points with kernel sockets and simulated; `key` is what was varied ("" = a single point)."""

    key: str
    values: tuple[Any, ...]
    kernel: tuple[RunSet, ...]
    #: Simulated, hosts as late as `noise` says: settings, those of `noise_of` if measured.
    packet: tuple[RunSet, ...]
    noise: tuple[dict[str, str], ...]
    #: Simulated without that noise.
    noiseless: tuple[RunSet, ...]

    def valid(self) -> NDArray[np.bool_]:
        """Whether every live run of a point passed the gate, one per point."""
        return np.array([bool(np.all(r.values("valid") == 1)) for r in self.kernel])

    def table(self) -> pl.DataFrame:
        """One row per point and metric: the metric's summary key, `kernel`, `packet`, their ratio, the
        simulation's `noiseless`, the noise that `packet` has, as `KEY=VALUE`, `valid`.
        """
        rows = []
        columns = (self.values, self.kernel, self.packet, self.noise, self.noiseless, self.valid())
        for value, live, sim, noise, still, valid in zip(*columns, strict=True):
            for metric, _, _ in METRICS:
                if metric not in live.summary or metric not in sim.summary:
                    continue
                a, b = live.mean(metric), sim.mean(metric)
                ratio = a / b if b else float("nan")
                point = "" if value is None else str(value)
                rows.append(
                    {
                        "point": point,
                        "metric": metric,
                        "kernel": a,
                        "packet": b,
                        "ratio": ratio,
                        "noiseless": still.mean(metric),
                        "noise": " ".join(f"{key}={value}" for key, value in noise.items()),
                        "valid": valid,
                    }
                )
        types = {"point": pl.String, "metric": pl.String, "valid": pl.Boolean}
        return pl.DataFrame(rows, schema_overrides=types)

    def document(self) -> dict[str, Any]:
        """The comparison as one JSON document."""
        from penstock import results

        points = [
            {
                "value": value,
                "valid": bool(valid),
                "kernel": results.document(a),
                "packet": results.document(b),
                "noise": noise,
                "noiseless": results.document(c),
            }
            for value, valid, a, b, noise, c in zip(
                self.values,
                self.valid(),
                self.kernel,
                self.packet,
                self.noise,
                self.noiseless,
                strict=True,
            )
        ]
        return {"key": self.key, "points": points}

    def figure(self) -> Figure:
        """Kernel and simulation in one figure: over the varied key, or the queue over time for one point.

        Points whose live run is invalid are left out of the kernel's curve and named in the title.
        """
        with figures.style():
            return self._curves() if self.key else self._over_time()

    def _curves(self) -> Figure:
        figure, axes = figures.new(1, 2, width=9.6, height=4.0)
        good = self.valid()
        for ax, (metric, label, unit) in zip(axes, (METRICS[0], METRICS[4]), strict=True):
            x = figures.places(ax, self.values, self.key)
            order = np.argsort(x, kind="stable")
            curves = (
                ("kernel", self.kernel),
                ("simulated", self.packet),
                ("simulated, no noise", self.noiseless),
            )
            for i, (name, sets) in enumerate(curves):
                shown = good if name == "kernel" else np.ones_like(good)
                mean = np.array([r.mean(metric) / unit for r in sets])
                half = np.array([r.ci95(metric) / unit for r in sets])
                drawn = order[shown[order]]
                figures.band(ax, x[drawn], mean[drawn], half[drawn], name, i)
            ax.set_ylabel(label)
            ax.set_ylim(bottom=0)
        axes[0].legend()
        left_out = [str(v) for v, ok in zip(self.values, good, strict=True) if not ok]
        note = f" (late, not drawn: {', '.join(left_out)})" if left_out else ""
        axes[0].set_title(f"{self.kernel[0].name}: kernel and simulation{note}")
        return figure

    def _over_time(self) -> Figure:
        figure, axes = figures.new(2, 1, width=7.2, height=5.0, sharex=True)
        live, sim = self.kernel[0], self.packet[0]
        for ax, (name, runs) in zip(axes, (("kernel", live), ("simulated", sim)), strict=True):
            series = runs.series.filter(
                (pl.col("metric") == "queue_packets") & (pl.col("run") == runs.runs[0].run)
            )
            i = 0 if name == "kernel" else 1
            valid = name != "kernel" or self.valid()[0]
            if valid:
                ax.plot(series["time_s"], series["value"], color=figures.PALETTE[i], linewidth=0.8)
            mean = runs.mean("queue_mean_packets")
            ax.axhline(mean, color=figures.INK, linestyle=":", linewidth=1.0)
            goodput = runs.mean("goodput_bps") / 1e6
            text = f"{name}: mean queue {mean:.1f} packets, goodput {goodput:.1f} Mb/s"
            if name == "simulated":
                text += ", with noise"
            ax.set_title(text if valid else f"{name}: late packets, run invalid, not drawn")
            ax.set_ylabel("queue, packets")
            ax.set_ylim(bottom=0)
        axes[1].set_xlabel("time, s")
        return figure


def period(runs: RunSet, flow: int = 0) -> float:
    """Period of the sawtooth of one flow's window in seconds: the mean time between two cuts by a quarter or
    more, after the warm-up; NaN when there are fewer than two. Needs a run with `sample` and `series`.
    """
    gaps: list[float] = []
    warmup = float(runs.runs[0].summary["measured_s"])
    for run in runs.runs:
        rows = run.tables["series"].filter(
            (pl.col("metric") == "cwnd_bytes") & (pl.col("entity") == "flow") & (pl.col("number") == flow)
        )
        time, window = rows["time_s"].to_numpy(), rows["value"].to_numpy()
        measured = time >= time[-1] - warmup
        time, window = time[measured], window[measured]
        # The kernel lowers its window packet by packet during recovery: a cut lasts until the window grows.
        peak, falling, cuts = 0.0, False, []
        for t, w in zip(time, window, strict=True):
            if falling and w <= peak:
                peak = w
                continue
            peak, falling = max(peak, w), False
            if w < 0.75 * peak:
                cuts.append(t)
                peak, falling = w, True
        gaps += list(np.diff(cuts))
    return float(np.mean(gaps)) if gaps else float("nan")


def _runs(
    points: Sequence[tuple[Scenario, dict[str, Any]]],
    seed: int,
    runs: int,
    keep: Iterable[str],
    options: tuple[str | float, str, float],
    on_progress: Callable[[float], None] | None,
) -> list[RunSet]:
    count_of_runs("runs", runs, len(points))
    kept = tables(keep)
    tasks = []
    try:
        for name, settings in points:
            look()
            spec = _spec(name, settings, seed, *options)
            scenarios.check(spec, _engine.live_resolve)
            tasks += [Task(str(name), spec, number, kept, live=True) for number in range(runs)]
    except KeyboardInterrupt:
        raise Interrupted([RunSet(str(name), seed, ()) for name, _ in points]) from None
    # One after the other: two live runs at once would make each other late.
    done, stop = run_tasks(tasks, jobs=1, on_progress=on_progress)
    sets = [
        RunSet(str(name), seed, tuple(r for r in done[i * runs : (i + 1) * runs] if r is not None))
        for i, (name, _) in enumerate(points)
    ]
    if isinstance(stop, KeyboardInterrupt):
        raise Interrupted(sets)
    if stop is not None:
        if isinstance(stop.__cause__, ScenarioError):
            raise stop.__cause__
        raise RunFailed(str(stop), sets) from stop.__cause__
    return sets


def _spec(
    scenario: Scenario,
    settings: Mapping[str, Any] | None,
    seed: int,
    scale: str | float,
    kernel: str,
    gate: float,
) -> str:
    document = json.loads(scenarios.spec(scenario, settings or {}, seed))
    document["live"] = {"scale": str(scale), "kernel": kernel, "gate": str(gate)}
    return json.dumps(document)
