"""Sections 3.5.3 and 4.3.3, benchmark traffic: Pareto flows beside two long ones (Fig 3.13, 4.10 to 4.13)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock_papers.experiments.sdc_racs.benchmark import BINS, RATES, TIMES, measure, probe
from penstock_papers.experiments.sdc_racs.setup import (
    CHAPTER_3,
    CHAPTER_4,
    CHOSEN,
    ECN,
    EXPLICIT,
    RACS,
    RCP,
    SIZE_AWARE,
    TCP,
    curves,
    over,
)
from penstock_papers.ledger import CONFIRMED, Cause, Estimate, Lab, Measurement, Row, claim_criterion

# ---- figures ----------------------------------------------------------------------------------------------


def _afct(m: Measurement, lab: Lab, name: str, who: Sequence[str], **more: Any) -> list[Path]:
    chosen = {label: m["afct"][label] for label in who}
    labels: dict[str, Any] = {"xlabel": "flow arrival rate (flows/s)", "ylabel": "AFCT (ms)"}
    title = "Benchmark traffic: completion time"
    return [curves(lab, name, m["rates"], chosen, log=True, title=title, extra=m["theory"], **labels, **more)]


def _draw_410(m: Measurement, lab: Lab) -> list[Path]:
    return _afct(m, lab, "M-4.10", CHAPTER_4, stated=[("RCP, stated at the end", [RATES[-1]], [29.36])])


def _draw_411(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        fig, (ax,) = figures.new()
        for i, (label, y) in enumerate(m["bins"].items()):
            ax.plot(np.arange(len(BINS)), y, label=label, **figures.look(i))
        ax.set_yscale("log")
        ax.set_xticks(np.arange(len(BINS)), BINS)
        ax.set(xlabel="flow size", ylabel="AFCT (ms)")
        ax.set_title(f"Benchmark traffic: completion time by size ({RATES[-1]} flows/s)")
        ax.legend()
        return [lab.save(fig, "M-4.11")]


def _cdf(m: Measurement, lab: Lab, name: str, **how: Any) -> list[Path]:
    with figures.style():
        fig, (ax,) = figures.new()
        for i, (label, share) in enumerate(m["distribution"].items()):
            ax.plot(1e3 * np.array(TIMES), share, label=label, **figures.line(i))
        ax.plot([10, 10], [98, 84], linestyle="none", marker="x", color=figures.INK, label="stated")
        ax.set(xlabel="time t (ms)", ylabel="flows complete before t (%)", **how)
        ax.set_title(f"Benchmark traffic ({RATES[-1]} flows/s)")
        ax.legend(loc="lower right")
        return [lab.save(fig, name)]


def _draw_412(m: Measurement, lab: Lab) -> list[Path]:
    return _cdf(m, lab, "M-4.12", xlim=(0, 20), ylim=(0, 101))


def _draw_413(m: Measurement, lab: Lab) -> list[Path]:
    return _cdf(m, lab, "M-4.13", xscale="log", ylim=(80, 100.5))


# ---- claims -----------------------------------------------------------------------------------------------


# Ideal processor sharing with both long flows, and two round trips: a line of the figures.
_SHARED = "PS with both long flows + 2 RTT"

_row = partial(Row, measure=measure, probe=probe)

M_313 = _row(
    "M-3.13",
    "Benchmark traffic (Fig 3.13)",
    draw=lambda m, lab: _afct(m, lab, "M-3.13", (*CHAPTER_3, "DCTCP", "D3")),
    causes=(
        Cause(
            "the queue that RED keeps with ECN is the same at any rate of short flows, and next to nothing "
            "is lost: a flow finds the same path at every rate",
            holds=lambda m: (
                m["queue"][ECN][-1].mean < 1.25 * m["queue"][ECN][0].mean
                and max(e.mean for e in m["loss"][ECN]) < 0.1
            ),
            evidence=lambda m: (
                f"mean queue: {over(m['rates'], m['queue'][ECN])} flows/s; loss: at most "
                f"{max(e.mean for e in m['loss'][ECN]):.2g} %"
            ),
            of=("ecn-rises",),
        ),
    ),
    matters=(*SIZE_AWARE, *TCP),
)

_ABOUT_TWO = claim_criterion("M-4.10/racs-value")
# A round trip in ms, and how many are looked for: as many as a flow takes at the lowest rate.
_ROUND, _MOST = 1e3 * CHOSEN["simulation.rtt_s"], 4


def _rounds(m: Measurement) -> int:
    """How many whole round trips more would bring every rate to the stated time, with the slower decay of the
    weight; 0 where none do.
    """
    for n in range(1, _MOST + 1):
        later = [Estimate(*(x + n * _ROUND for x in (e.mean, e.low, e.high))) for e in m["slower decay"]]
        if _ABOUT_TWO.judge(later) == CONFIRMED:
            return n
    return 0


M_410 = _row(
    "M-4.10",
    "Benchmark traffic (Fig 4.10)",
    draw=_draw_410,
    causes=(
        Cause(
            "RACS takes what ideal processor sharing beside both long flows takes, at every rate, and that "
            "is less than stated",
            holds=lambda m: all(
                abs(e.mean / ideal - 1) < 0.1 and ideal < 1.8
                for e, ideal in zip(m["afct"][RACS], m["theory"][_SHARED], strict=True)
            ),
            evidence=lambda m: "; ".join(
                f"{rate} flows/s: {e.mean:.2f} ms for {ideal:.2f} ms"
                for rate, e, ideal in zip(m["rates"], m["afct"][RACS], m["theory"][_SHARED], strict=True)
            ),
            of=("racs-value",),
        ),
        Cause(
            "links of 300 us may be read as there and back of each, two of which make the round trip: then "
            "the statement holds",
            holds=lambda m: any(_ABOUT_TWO.judge(found) == CONFIRMED for found in m["longer links"].values()),
            evidence=lambda m: "; ".join(
                f"{name}: {over(m['rates'], found)} flows/s"
                for name, found in zip(
                    ("as chosen otherwise", "weight decaying within 1 MB"),
                    m["longer links"].values(),
                    strict=True,
                )
            ),
            of=("racs-value",),
        ),
        Cause(
            "two things: how fast the weight decays, which is open and sets the rise, and round trips at "
            "which every flow is short of the stated time, whatever the rate: with a weight that decays "
            "within 1 MB only a whole number of round trips is missing, which section 4.2 does not describe",
            holds=lambda m: _rounds(m) > 0 and _ABOUT_TWO.judge(m["slower decay"]) != CONFIRMED,
            evidence=lambda m: (
                f"weight decaying within 1 MB: {over(m['rates'], m['slower decay'])} flows/s; missing: "
                f"{_rounds(m) or 'no whole number of'} round trips of {_ROUND:.1f} ms; waiting: at "
                f"most {max(e.mean for e in m['queue'][RACS]):.1f} packets in the mean queue"
            ),
            of=("racs-value",),
        ),
    ),
    matters=(*SIZE_AWARE, *EXPLICIT),
)


def bins_in_words(m: Measurement) -> str:
    """AFCT of RACS over RCP, bin by bin."""
    pairs = zip(BINS, m["RACS over RCP by size"], strict=True)
    return "AFCT of RACS over RCP: " + ", ".join(f"{name} {r}" for name, r in pairs if math.isfinite(r.high))


def _admission(m: Measurement) -> float:
    """By how many round trips RACS is later than RCP with the smallest flows."""
    return float((m["bins"][RACS][0] - m["bins"][RCP][0]) / (1e3 * CHOSEN["simulation.rtt_s"]))


M_411 = _row(
    "M-4.11",
    "Benchmark traffic by flow size (Fig 4.11)",
    draw=_draw_411,
    causes=(
        Cause(
            "a flow of RACS is admitted a round trip before it may send, which costs the smallest flows more "
            "than their weight brings",
            holds=lambda m: 0.5 <= _admission(m) <= 2,
            evidence=lambda m: f"flows of {BINS[0]}: {_admission(m):.1f} round trips later than with RCP",
            of=("below",),
        ),
        Cause(
            "where the two cross follows from the open decay of the weight: with a = 1 / 1 MB other sizes "
            "win",
            holds=lambda m: any(
                math.isfinite(r.high) and (s < 1) != (r.mean < 1)
                for s, r in zip(m["shifted"], m["RACS over RCP by size"], strict=True)
            ),
            evidence=lambda m: (
                "then " + ", ".join(f"{name} {s:.2f}" for name, s in zip(BINS, m["shifted"], strict=True))
            ),
        ),
    ),
    matters=EXPLICIT,
)


M_412 = _row("M-4.12", "Completion times, first 20 ms (Fig 4.12)", draw=_draw_412, matters=EXPLICIT)

M_413 = Row(
    "M-4.13", "Completion times, the tail (Fig 4.13)", measure=measure, draw=_draw_413, causes=M_412.causes
)

BENCHMARK_ROWS = [M_313, M_410, M_411, M_412, M_413]
