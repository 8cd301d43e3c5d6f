"""Section 3.3: what eta does to recovery and to the variation of the throughput."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models import cbc as model
from penstock.runs import Run, RunSet
from penstock_papers.experiments.cbc import trace
from penstock_papers.experiments.cbc.setup import S8, TABLES, at, cbc, point
from penstock_papers.experiments.cbc.states import series
from penstock_papers.experiments.common import ratio_of_means
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

#: The databases are cut by the files, and recover from there.
RECOVERY = {"ftp_start": "15s", "ftp_stop": "30s", "duration": "45s", "sample": "20ms"}
STOP, SAMPLE = 30.0, 0.02
ETAS = (0.7, 0.8, 0.9, 1.0, 1.02, 1.05, 1.15, 1.3, 2.0)
LOW, CALM, CHOSEN_ETA, HIGH = 1.0, 1.05, 1.15, 2.0
#: Slightly larger than one: any that is too sluggish is enough.
SLIGHTLY = (1.02, CALM)


def recovery(run: Run) -> Mapping[str, float]:
    """Measure how the set recovers after the files. `start` is available over required at their end. `back`
    is whether the caps reach the requirements (eta * available = required) within 15 s, after `rounds` and
    `seconds` (NaN if they do not). `lag` is the factor by which rates exceed caps meanwhile: the mean of
    RTT_avg over the latest RTT, by rounds.
    """
    given = str(dict(run.scenario["set"])["control"])
    eta = float(given.split("eta=")[1].split(",")[0])
    times, _ = series(run, 0, "available_bps")
    metrics = ("available_bps", "required_bps", "current_rtt_s", "rtt_s")
    both = {m: (series(run, 0, m)[1] + series(run, 1, m)[1]) / 2 for m in metrics}
    share = both["available_bps"] / np.maximum(both["required_bps"], 1.0)
    now, average = np.maximum(both["rtt_s"], 1e-3), both["current_rtt_s"]
    first = int(np.searchsorted(times, STOP))
    reached = np.flatnonzero(share[first:] * eta >= 1.0)
    nan = float("nan")
    if not reached.size:
        return {"start": float(share[first]), "back": 0.0, "rounds": nan, "seconds": nan, "lag": nan}
    last = first + max(int(reached[0]), 1)
    rounds = SAMPLE / now[first:last]
    return {
        "start": float(share[first]),
        "back": 1.0,
        "rounds": float(rounds.sum()),
        "seconds": float(times[last] - STOP),
        "lag": float(np.sum(average[first:last] / now[first:last] * rounds) / rounds.sum()),
    }


def _mean(runs: RunSet, key: str) -> float:
    values = np.asarray(runs.values(key), float)
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _numbers(back: dict[float, RunSet], busy: dict[float, RunSet]) -> dict[str, Any]:
    return {
        # The share of runs whose caps were back within 15 s.
        "back": {str(eta): _mean(r, "back") for eta, r in back.items()},
        "more variable": Estimate.of(busy[HIGH].values("cv1") - busy[CALM].values("cv1")),
        "variation, high over calm": Estimate.of(busy[HIGH].values("cv1") / busy[CALM].values("cv1")),
        "DB1, slightly above one over chosen": min(
            (Estimate.of(busy[eta].values("db1") / busy[CHOSEN_ETA].values("db1")) for eta in SLIGHTLY),
            key=lambda e: e.mean,
        ),
        "time back, slightly above one over chosen": max(
            (
                ratio_of_means(
                    np.nan_to_num(back[eta].values("seconds"), nan=15.0),
                    np.nan_to_num(back[CHOSEN_ETA].values("seconds"), nan=15.0),
                )
                for eta in SLIGHTLY
            ),
            key=lambda e: e.mean,
        ),
        "slower": Estimate.of(
            np.nan_to_num(back[CALM].values("seconds"), nan=15.0)
            - np.nan_to_num(back[CHOSEN_ETA].values("seconds"), nan=15.0)
        ),
    }


def _runs(lab: Lab, etas: tuple[float, ...], count: int, chosen: Mapping[str, Any]) -> tuple[Any, Any]:
    # Fractions of segments are carried over, so that caps follow the recursion.
    given = {eta: cbc(chosen, fraction="carry", eta=eta) for eta in etas}
    back = [("db-ftp", point(S8, control, chosen) | RECOVERY) for control in given.values()]
    busy = [("db-ftp", point(S8, control, chosen)) for control in given.values()]
    first = lab.sweep(back, runs=count, keep=TABLES, derive=recovery)
    second = lab.sweep(busy, runs=count, keep=TABLES, derive=trace.derive)
    return dict(zip(etas, first, strict=True)), dict(zip(etas, second, strict=True))


def _measure(lab: Lab) -> Measurement:
    back, busy = _runs(lab, ETAS, lab.replications(20, 3), at({}))
    start, lag = (np.array([_mean(r, key) for r in back.values()]) for key in ("start", "lag"))
    # The caps are back at eta * a = 1 all the same, but the loop gain is eta times the lag.
    etas = np.array(ETAS)
    gain = np.where(np.isfinite(lag), etas * lag, 0.0)
    grown = np.log(model.growth(gain))
    lagged = np.where(grown > 0, np.log(1 / (etas * start)) / np.where(grown > 0, grown, 1.0), np.nan)
    return {
        **_numbers(back, busy),
        "rounds": [_mean(r, "rounds") for r in back.values()],
        "recursion": model.recovery_updates(start, etas),
        "recursion, RTT falling": lagged,
        "lag": {str(eta): float(x) for eta, x in zip(ETAS, lag, strict=True)},
        "cv1": [Estimate.of(r.values("cv1")) for r in busy.values()],
        "drops": [_mean(r, "drops") for r in busy.values()],
    }


def _probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    back, busy = _runs(lab, (0.8, LOW, *SLIGHTLY, CHOSEN_ETA, HIGH), 1, at(settings))
    return _numbers(back, busy)


def _draw(m: Measurement, lab: Lab) -> list[Path]:
    etas, paths = np.array(ETAS), []
    with figures.style():
        figure, (ax,) = figures.new()
        for i, (label, key) in enumerate(
            (
                ("simulated", "rounds"),
                ("recursion, constant RTT", "recursion"),
                ("recursion, RTT falling as measured", "recursion, RTT falling"),
            )
        ):
            y = np.asarray(m[key], float)
            ax.plot(
                etas, np.where(np.isfinite(y), np.maximum(y, 0.1), np.nan), label=label, **figures.look(i)
            )
        ax.set(xlabel="eta", ylabel="round trips until the caps are back", yscale="log")
        ax.set_title("Recovery after the files")
        ax.legend()
        paths.append(lab.save(figure, "K-eta"))
        figure, (ax,) = figures.new()
        half = [(e.high - e.low) / 2 for e in m["cv1"]]
        figures.band(ax, etas, [e.mean for e in m["cv1"]], half, "variation of DB1", 0)
        ax.set(xlabel="eta", ylabel="coefficient of variation", ylim=(0, None), title="8 Mb/s of files")
        ax.legend()
        paths.append(lab.save(figure, "K-eta-variation"))
    return paths


def stuck(m: Measurement) -> list[float]:
    """The share of runs in which the caps are back within 15 s, at each eta of at most one."""
    return [share for eta, share in m["back"].items() if float(eta) <= 1]


def back_above_one(m: Measurement) -> list[float]:
    """The share of runs in which the caps are back within 15 s, at each eta from 1.15 on."""
    return [share for eta, share in m["back"].items() if float(eta) >= 1.15]


K_ETA = Row(
    "K-eta",
    "Section 3.3: the role of eta",
    measure=_measure,
    draw=_draw,
    matters=("scenario.link_delay", "scenario.rto_min", "control.min_segments", "control.cap_rtt"),
    probe=_probe,
)
