"""The paper's settings as scenario settings, its choices, and the pair of controllers that it compares.

Plain TCP ("TCPv3") and CBC ("TCPv4") see the same requests (common random numbers), so they are compared run
by run. Statements about the time of the file transfers leave out their first two seconds.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.runs import RunSet
from penstock.stats import ci95
from penstock_papers.experiments.cbc import trace
from penstock_papers.experiments.common import ratio_of_means
from penstock_papers.ledger import Estimate, Lab, Measurement

PAPER = "cbc"
CHOICES: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "choices.toml").read_text())
# Every choice by its full name, as the search names them: "control.fraction".
CHOSEN: dict[str, Any] = {
    f"{table}.{key}": entry["value"] for table, entries in CHOICES.items() for key, entry in entries.items()
}
_SCENARIO = ("ftp_gets", "overhead", "link_delay", "protocol", "rto_min", "delayed_ack_timeout")
REQUESTS = {"requests": CHOSEN["scenario.requests"]}
_CONTROL = ("fraction", "min_segments", "form", "cap_rtt", "min_period", "set")
MATTERS = (
    *(f"scenario.{key}" for key in _SCENARIO),
    *(f"control.{key}" for key in _CONTROL if "range" in CHOICES["control"][key]),
)

S8, S4, S2 = "8 Mb/s, AF31, full", "4 Mb/s, AF31, full", "2 Mb/s, AF31, full"
H8, H4, D8 = "8 Mb/s, AF31, half", "4 Mb/s, AF31, half", "8 Mb/s, AF31, double"
E8, E4, EH4, EH2 = "8 Mb/s, AF21, full", "4 Mb/s, AF21, full", "4 Mb/s, AF21, half", "2 Mb/s, AF21, half"
A4 = "all AF31, full"

#: The paper's settings by name: offered files, classes, size of the queues.
SETTINGS: dict[str, dict[str, Any]] = {
    S8: {"ftp": "8Mbps"},
    S4: {"ftp": "4Mbps"},
    S2: {"ftp": "2Mbps"},
    H8: {"ftp": "8Mbps", "queues": "half"},
    H4: {"ftp": "4Mbps", "queues": "half"},
    D8: {"ftp": "8Mbps", "queues": "double"},
    E8: {"ftp": "8Mbps", "ftp_class": "af21"},
    E4: {"ftp": "4Mbps", "ftp_class": "af21"},
    EH4: {"ftp": "4Mbps", "ftp_class": "af21", "queues": "half"},
    EH2: {"ftp": "2Mbps", "ftp_class": "af21", "queues": "half"},
    A4: {"db_class": "af31"},
}
TABLES = ("series", "events", "ports")
#: Controllers that separate the causes of a difference.
CARRY, LOUD, ONE = "fractions carried over", "no delay trigger", "eta = 1"
VARIANTS: dict[str, dict[str, Any]] = {
    CARRY: {"fraction": "carry"},
    LOUD: {"rtt_ratio": 1000},
    ONE: {"eta": 1},
}


def at(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every choice at a point of the search."""
    return {**CHOSEN, **settings}


def cbc(chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> str:
    """The controller at these choices; `more` replaces or adds parameters."""
    parameters = {key: chosen[f"control.{key}"] for key in _CONTROL} | more
    return "cbc:" + ",".join(f"{key}={value}" for key, value in parameters.items())


def point(setting: str, control: str, chosen: Mapping[str, Any] = CHOSEN, **more: Any) -> dict[str, Any]:
    """A setting of the paper under a controller, as settings of `db-ftp`."""
    given = {key: chosen[f"scenario.{key}"] for key in _SCENARIO}
    if setting == A4:
        given["ftp"] = chosen["scenario.all_af31_ftp"]
    return {**given, **REQUESTS, **SETTINGS[setting], "control": control, **more}


def replications(lab: Lab) -> int:
    """Runs per point."""
    return lab.replications(30, 5)


def simulate(lab: Lab, points: Iterable[Mapping[str, Any]], runs: int) -> list[RunSet]:
    """Runs of `db-ftp` with the numbers of `trace.derive`."""
    chosen = [("db-ftp", dict(p)) for p in points]
    return lab.sweep(chosen, runs=runs, keep=TABLES, derive=trace.derive)


#: Numbers of a run that are kept, of either controller.
_KEPT = (
    *("db1", "db2", "ftp", "ratio", "cv1", "cv2", "cvf", "before1", "before2", "cv1_before", "cv2_before"),
    *(
        "drops",
        "drops_onset",
        "drops_later",
        "retransmits",
        "retransmits_std",
        "rtt_mean",
        "rtt_std",
        "rtt_std_late",
        "rtt_before",
    ),
    *("below", "after1", "after2", "ratio_after"),
    *("hump1", "dip1", "dip2", "retransmits2", "rtt2_mean", "rtt2_std", "other_drops", "busiest"),
    *("excursions", "excursion_s", "lost_share", "repeated_share"),
)
_CONTROLLED = (
    "latched",
    "controlled",
    "early",
    "by_timeout",
    "by_delay",
    "ready_for_loss",
    "backlog_kept",
    "before_kept",
)
# Quantities whose ratios statements are about.
_COMPARED = (
    *("cv1", "cv2", "cvf", "rtt_std", "rtt_mean", "below", "drops", "drops_later", "retransmits"),
    *("retransmits_std", "after1", "after2"),
)


def _estimates(runs: RunSet, keys: Iterable[str]) -> dict[str, Estimate]:
    return {key: Estimate.of(runs.values(key)) for key in keys if np.isfinite(runs.values(key)).any()}


def over(first: RunSet, second: RunSet, key: str) -> Estimate:
    """One setting's number over another's: run by run, or the ratio of the means where a run has none."""
    a, b = first.values(key), second.values(key)
    if (b > 0).all():
        return Estimate.of(a / b)
    return ratio_of_means(a, b)


def numbers(plain: RunSet, control: RunSet) -> dict[str, Any]:
    """What the statements of a figure are about: both controllers, and their differences run by run."""
    a, b = plain.values, control.values
    onset, later = b("drops_onset"), b("drops_later")
    lost = onset + later
    return {
        "plain": _estimates(plain, _KEPT),
        "cbc": _estimates(control, (*_KEPT, *_CONTROLLED)),
        # CBC's over plain TCP's.
        "over": {key: over(control, plain, key) for key in _COMPARED},
        "distance from two": ratio_of_means(np.abs(b("ratio") - 2), np.abs(a("ratio") - 2)),
        "distance from two, after": ratio_of_means(
            np.abs(b("ratio_after") - 2), np.abs(a("ratio_after") - 2)
        ),
        # Seconds that the link is not full at a stretch.
        "excursion": {
            who: ratio_of_means(f("excursion_s"), f("excursions")) for who, f in (("plain", a), ("cbc", b))
        },
        "excursions over": ratio_of_means(b("excursions"), a("excursions")),
        "DB1 over DB2": {
            "retransmits": ratio_of_means(a("retransmits"), a("retransmits2")),
            "rtt": {
                who: Estimate.of(f("rtt_mean") / f("rtt2_mean")) for who, f in (("plain", a), ("cbc", b))
            },
        },
        # Drops per second in the first two seconds over those in the other 58.
        "onset over later": ratio_of_means(onset / 2, later / 58),
        "at first": Estimate.of(np.where(lost > 0, onset / np.maximum(lost, 1), 1.0)),
        # What a database carries of what plain TCP carries before the files.
        "kept": {
            f"{who}{i}": Estimate.of(f(f"db{i}") / a(f"before{i}"))
            for who, f in (("plain", a), ("cbc", b))
            for i in (1, 2)
        },
        "control, files over before": ratio_of_means(b("controlled"), b("before_kept"))
        if np.isfinite(b("before_kept")).all()
        else Estimate.exact(math.inf),
        "files alike": Estimate.of(b("ftp") / a("ftp")),
        "rtt raised": Estimate.of(a("rtt_mean") / a("rtt_before")),
        "release": Estimate.median(np.where(np.isfinite(b("release")), b("release"), np.inf)),
        "relapses": Estimate.of(np.where(np.isfinite(b("relapses")), b("relapses"), 1.0)),
        # The share that DB1 loses over those that both lose.
        "cut, DB1's part": _part(1 - b("db1") / a("before1"), 1 - b("db2") / a("before2")),
        "offered": {
            "share": [Estimate.of(f("ftp") / _offered(r)) for f, r in ((a, plain), (b, control))],
            "bps": _offered(plain),
        },
    }


def _part(one: Any, other: Any) -> Estimate:
    """The part of one in the sum of two losses; a gain is no loss."""
    first, second = np.maximum(one, 0), np.maximum(other, 0)
    return ratio_of_means(first, first + second)


def _offered(runs: RunSet) -> float:
    """Payload of files offered in the direction of the bottleneck, bit/s."""
    given = runs.runs[0].scenario["set"]
    rate = float(str(given["ftp"]).removesuffix("Mbps")) * 1e6
    return rate * float(given["ftp_gets"]) * (1 + float(given["overhead"]))


def _compared(plain: RunSet, control: RunSet, other: tuple[RunSet, RunSet]) -> dict[str, Any]:
    """This setting less another, run by run, of either controller."""
    found: dict[str, Any] = {}
    for who, here, there in (("plain", plain, other[0]), ("cbc", control, other[1])):
        keys = ("drops", "retransmits", "cv1", "cv2", "rtt_std", "ratio")
        found[who] = {key: Estimate.of(here.values(key) - there.values(key)) for key in keys}
        found[f"{who} over"] = {key: over(here, there, key) for key in keys}
        found[f"{who} there"] = _estimates(there, (*keys, "rtt_mean"))
    # By how much more plain TCP's numbers grow from the other setting to this one than CBC's.
    found["plain's growth over CBC's"] = {
        key: Estimate.of(
            plain.values(key) / other[0].values(key) / (control.values(key) / other[1].values(key))
        )
        for key in ("cv1", "cv2")
    }
    return found


def _prevented(plain: RunSet, control: RunSet, loud: RunSet) -> Estimate:
    """The share of the drops that CBC prevents which it does not prevent without its delay trigger."""
    lost, kept, without = (r.values("drops") for r in (plain, control, loud))
    return ratio_of_means(without - kept, np.maximum(lost - kept, 0))


def _variant(runs: RunSet) -> dict[str, Any]:
    keys = (*_KEPT, *_CONTROLLED)
    return {
        key: float(np.nanmean(runs.values(key))) for key in keys if np.isfinite(runs.values(key)).any()
    } | {
        "relapses": float(np.nanmean(np.append(runs.values("relapses"), np.nan)))
        if np.isfinite(runs.values("relapses")).any()
        else float("nan")
    }


def _correlation(sets: Iterable[RunSet]) -> float:
    """Of the ratio kept with the ratio of the requirements that were frozen, over all runs."""
    kept, frozen = (np.concatenate([r.values(key) for r in sets]) for key in ("ratio", "latched"))
    fine = np.isfinite(kept) & np.isfinite(frozen)
    if fine.sum() < 3 or np.ptp(kept[fine]) == 0 or np.ptp(frozen[fine]) == 0:
        return 0.0
    return float(np.corrcoef(kept[fine], frozen[fine])[0, 1])


QUANTITIES = {
    "ftp": ("ftp_bps", "files carried (Mb/s)", 1e-6),
    "drops": ("drops", "drops at router 2 (packets/s)", 1.0),
    "retransmits": ("retransmits", "retransmissions to DB1 (packets/s)", 1.0),
    "db1": ("db1_bps", "DB1 carried (Mb/s)", 1e-6),
    "db2": ("db2_bps", "DB2 carried (Mb/s)", 1e-6),
    "rtt": ("rtt_s", "RTT of DB1 (ms)", 1e3),
}


def _curves(runs: RunSet) -> dict[str, Any]:
    """Every quantity per second: its mean over the runs, the half-width of the interval, and one run."""
    found = {}
    for name, (key, _, scale) in QUANTITIES.items():
        values = trace.curve(runs, key) * scale
        with np.errstate(invalid="ignore"):
            found[name] = {
                "mean": np.array([np.nanmean(c) if np.isfinite(c).any() else np.nan for c in values.T]),
                "half": np.array([ci95(column) for column in values.T]),
                "one": values[0],
            }
    return found


def _trap(plain: Mapping[str, Any], control: Mapping[str, Any]) -> dict[str, float]:
    """After the files: CBC's mean RTT where it is lowest, and where it is highest after that, over that of
    plain TCP undisturbed.
    """
    normal = float(np.nanmean(plain["rtt"]["mean"][15:30]))
    after = np.asarray(control["rtt"]["mean"][90:125])
    low = int(np.nanargmin(after[:15]))
    return {
        "second": 90.0 + low,
        "lowest": float(after[low]) / normal,
        "climbs": float(np.nanmax(after[low:])) / normal,
        "normal": normal,
    }


@lru_cache
def measurer(setting: str, beside: str = "") -> Callable[[Lab], Measurement]:
    """The measurement of a setting, compared with another; rows of one setting share it."""

    def measure(lab: Lab) -> Measurement:
        runs = replications(lab)
        points = [point(setting, "none"), point(setting, cbc())]
        points += [point(setting, cbc(**given)) for given in VARIANTS.values()]
        if beside:
            points += [point(beside, "none"), point(beside, cbc())]
        plain, control, *more = simulate(lab, points, runs)
        variants = dict(zip(VARIANTS, more, strict=False))
        curves = {"plain": _curves(plain), "cbc": _curves(control)}
        found = {
            **numbers(plain, control),
            "variants": {name: _variant(r) for name, r in variants.items()},
            "kept and frozen": _correlation([control, variants[LOUD], variants[CARRY]]),
            "curves": curves,
            "trap": _trap(curves["plain"], curves["cbc"]),
            "runs": runs,
            "prevented by the delay trigger": _prevented(plain, control, variants[LOUD]),
        }
        if beside:
            found["beside"] = _compared(plain, control, (more[-2], more[-1]))
        return found

    return measure


@lru_cache
def prober(setting: str, beside: str = "", *variants: str) -> Callable[[Lab, Mapping[str, Any]], Measurement]:
    """The same at one point of the search: one run of either controller, and of these of `VARIANTS`."""

    def probe(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
        chosen = at(settings)
        points = [
            point(s, control, chosen) for s in (setting, beside) if s for control in ("none", cbc(chosen))
        ]
        points += [point(setting, cbc(chosen, **VARIANTS[name]), chosen) for name in variants]
        plain, control, *more = simulate(lab, points, 1)
        found = {**numbers(plain, control), "trap": _trap(_curves(plain), _curves(control))}
        if beside:
            found["beside"] = _compared(plain, control, (more[0], more[1]))
        if variants:
            of = more[-len(variants) :]
            found["variants"] = {name: _variant(r) for name, r in zip(variants, of, strict=True)}
            if LOUD in variants:
                loud = of[variants.index(LOUD)]
                found["prevented by the delay trigger"] = _prevented(plain, control, loud)
        return found

    return probe


def draw(m: Measurement, lab: Lab, quantity: str, name: str, title: str) -> Path:
    """Plain TCP and CBC over time: mean over the runs with its 95 % band, and one run each, thin."""
    _, label, _ = QUANTITIES[quantity]
    with figures.style():
        figure, (ax,) = figures.new()
        for i, (who, text) in enumerate((("plain", "plain TCP"), ("cbc", "CBC"))):
            curve = {
                key: np.asarray(values, float)[15:125] for key, values in m["curves"][who][quantity].items()
            }
            when = np.arange(15, 15 + len(curve["mean"])) + 0.5
            look = figures.line(i)
            ax.plot(when, curve["mean"], label=f"{text}, mean of {m['runs']} runs", **look)
            low, high = curve["mean"] - curve["half"], curve["mean"] + curve["half"]
            ax.fill_between(when, low, high, color=str(look["color"]), alpha=0.2, linewidth=0)
            ax.plot(when, curve["one"], color=str(look["color"]), alpha=0.45, linewidth=0.6)
        ax.axvspan(trace.FTP_START, trace.FTP_STOP, color="0.5", alpha=0.08, linewidth=0)
        ax.set(xlabel="time (s); shaded: file transfers", ylabel=label, title=title, ylim=(0, None))
        ax.legend(loc="best")
        return lab.save(figure, name)
