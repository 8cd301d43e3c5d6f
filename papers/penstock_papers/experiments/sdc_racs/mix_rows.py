"""Sections 3.5.2 and 4.3.2, short flows beside two long ones (Fig 3.11, 3.12, 4.8, 4.9; Tables 3.4, 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from penstock import figures
from penstock_papers.experiments.sdc_racs.mix import STATED_LOSS, STATED_MS, measure, probe
from penstock_papers.experiments.sdc_racs.setup import (
    ABOUT,
    BUFFER,
    CHAPTER_3,
    CHAPTER_4,
    ECN,
    EXPLICIT,
    RACS,
    RCP,
    SACK,
    SDC,
    SIZE_AWARE,
    TCP,
)
from penstock_papers.ledger import Cause, Lab, Measurement, Row

# ---- figures ----------------------------------------------------------------------------------------------


def _bars(m: Measurement, lab: Lab, name: str, who: Sequence[str]) -> Path:
    with figures.style():
        fig, (left, right) = figures.new(1, 2, width=9.6, height=3.9)
        x = np.arange(len(who))
        times = [m["afct"][label].mean for label in who]
        wide = max(times) > 10 * min(times)
        for i, (label, time) in enumerate(zip(who, times, strict=True)):
            afct, colour = m["afct"][label], figures.PALETTE[i]
            half_ = (afct.high - afct.low) / 2
            if wide:
                # A bar has no foot on a logarithmic axis.
                left.errorbar(i, time, half_, fmt="o", color=colour, capsize=3)
            else:
                left.bar(i, time, 0.7, yerr=half_, color=colour, capsize=3)
            right.bar(i, m["loss"][label].mean, 0.7, color=colour)
            for ax, stated in ((left, STATED_MS), (right, STATED_LOSS)):
                if label in stated:
                    ax.plot([i - 0.4, i + 0.4], [stated[label]] * 2, color=figures.INK, linestyle="--")
        left.set(ylabel="AFCT (ms); dashed: stated", **({"yscale": "log"} if wide else {"ylim": (0, None)}))
        none_lost = not any(m["loss"][label].mean for label in who)
        right.set(ylabel="loss rate (%)", ylim=(0, 1 if none_lost else None))
        if none_lost:
            right.set_title("no packet is lost here")
        for ax in (left, right):
            ax.set_xticks(x, [label.replace(" ", "\n", 1) for label in who], fontsize=8)
        left.set_title("Mix: short flows beside long ones")
        return lab.save(fig, name)


def _queues(m: Measurement, lab: Lab, name: str, who: Sequence[str]) -> Path:
    with figures.style():
        fig, (ax,) = figures.new()
        for i, label in enumerate(who):
            ax.plot(m["trace"][label]["time"], m["trace"][label]["queue"], label=label, **figures.line(i))
        ax.set(xlabel="time (s)", ylabel="queue (packets)", ylim=(0, BUFFER + 5), title="Mix: queue")
        ax.legend()
        return lab.save(fig, name)


def _sensitivity(m: Measurement, lab: Lab, who: str, name: str) -> Path:
    found = m["sensitivity"][who]
    labels = list(found["afct"])
    with figures.style():
        size = {"width": 9.6, "height": 0.32 * len(labels) + 1.6}
        fig, (left, right) = figures.new(1, 2, sharey=True, **size)
        y = np.arange(len(labels))[::-1]
        for ax, key in ((left, "afct"), (right, "utilisation")):
            values = np.array([found[key][label] for label in labels])
            ax.plot(values, y, "o", color=figures.PALETTE[0])
            ax.axvline(values[0], color=figures.INK, linewidth=0.8)
        left.set_yticks(y, labels)
        left.set(xlabel="AFCT (ms)", xlim=(0, None), title=f"Mix: {who}'s open parameters")
        right.set(xlabel="utilisation (%)")
        return lab.save(fig, name)


def _draw_t34(m: Measurement, lab: Lab) -> list[Path]:
    return [_bars(m, lab, "M-T3.4", (*CHAPTER_3, "DCTCP", "D3"))]


def _draw_311(m: Measurement, lab: Lab) -> list[Path]:
    return [_bars(m, lab, "M-3.11", CHAPTER_3), _sensitivity(m, lab, "SDC", "M-3.11-sensitivity")]


def _draw_48(m: Measurement, lab: Lab) -> list[Path]:
    return [_bars(m, lab, "M-4.8", CHAPTER_4), _sensitivity(m, lab, "RACS", "M-4.8-sensitivity")]


# ---- claims -----------------------------------------------------------------------------------------------

_IDS = {SDC: "sdc", SACK: "sack", ECN: "ecn", RACS: "racs", RCP: "rcp"}


_MATTERS_3 = ("simulation.mix_arrivals", "simulation.loss_unit", *SIZE_AWARE, *TCP)
_MATTERS_4 = ("simulation.mix_arrivals", *SIZE_AWARE, *EXPLICIT)


def _fast(label: str, text: str) -> Cause:
    """A scheme is faster than stated whatever the arrivals are."""
    return Cause(
        text,
        holds=lambda m: all(
            found["afct"][label].mean < STATED_MS[label] * (1 - ABOUT)
            for found in (*m["elsewhere"].values(), m)
        ),
        evidence=lambda m: ", ".join(
            f"{name}: {found['afct'][label].mean:.2f} ms at {found['utilisation'][label].mean:.0f} %"
            for name, found in m["elsewhere"].items()
        ),
        of=(f"afct-{_IDS[label]}",),
    )


_CAUSES = {
    "fast": _fast(
        RACS,
        "handshake, admission and 26 KB at RACS's share take less, whether flows come one by one or a "
        "thousand per second",
    ),
    "paced": _fast(
        RCP,
        "handshake and 26 KB at the router's rate take less, whether flows come one by one or a thousand "
        "per second",
    ),
}

_row = partial(Row, measure=measure, probe=probe)

M_T34 = _row("M-T3.4", "Mix: Table 3.4", draw=_draw_t34, matters=_MATTERS_3)
M_311 = Row("M-3.11", "Mix: completion time and loss (Fig 3.11)", measure=measure, draw=_draw_311)

M_312 = _row(
    "M-3.12",
    "Mix: queue (Fig 3.12)",
    draw=lambda m, lab: [_queues(m, lab, "M-3.12", CHAPTER_3)],
    matters=_MATTERS_3,
)

M_T42 = _row(
    "M-T4.2",
    "Mix: Table 4.2",
    draw=lambda m, lab: [_bars(m, lab, "M-T4.2", CHAPTER_4)],
    causes=(_CAUSES["fast"], _CAUSES["paced"]),
    matters=_MATTERS_4,
)

M_48 = Row(
    "M-4.8",
    "Mix: completion time and loss (Fig 4.8)",
    measure=measure,
    draw=_draw_48,
    causes=(_CAUSES["fast"], _CAUSES["paced"]),
)

M_49 = _row(
    "M-4.9",
    "Mix: queue (Fig 4.9)",
    draw=lambda m, lab: [_queues(m, lab, "M-4.9", CHAPTER_4)],
    matters=_MATTERS_4,
)

MIX_ROWS = [M_311, M_T34, M_312, M_48, M_T42, M_49]
