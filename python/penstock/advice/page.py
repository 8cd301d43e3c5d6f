"""The advice as one self-contained HTML page, and its picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from penstock import _engine, figures, report
from penstock.advice.judge import BETTER, SAME, UNDECIDED, WORSE
from penstock.advice.levers import NOT_CONSIDERED

if TYPE_CHECKING:
    from penstock.advice import Advice
    from penstock.advice.session import Trial

# A verdict's colour and mark: either alone tells it.
_LOOKS = {
    BETTER: ("#009E73", "^"),
    WORSE: ("#D55E00", "v"),
    SAME: ("#5A5A5A", "o"),
    UNDECIDED: ("#0072B2", "D"),
}
_BADGES = {BETTER: "confirmed", WORSE: "differs"}


def write(advice: Advice, folder: Path) -> Path:
    """Write figure and report.html into `folder`; the path of the report. Raises OSError."""
    sections = [report.Section("The answer", paragraphs=advice.sentences[1:] or advice.sentences)]
    if advice.baseline and advice.goals:
        sections[0] = _answer(advice, folder)
        sections += _tables(advice)
    sections.append(_limits(advice))
    sections.append(
        report.Section(
            "How to get each figure again",
            paragraphs=["Each command gives the same bytes on the same version of penstock."],
            commands=[f"# {what}\n{command}" for what, command in advice.commands()],
        )
    )
    lead = (
        f"{advice.name} with {', '.join(f'{k} = {v}' for k, v in advice.given.items()) or 'all defaults'}. "
    )
    lead += f"Goal: {', '.join(advice.goals.text) if advice.goals else 'none'}. "
    runs = sum(len(t.sets.runs) for t in (*advice.alone, *advice.together))
    lead += f"{runs} simulations of changes, {advice.cpu_s:.0f} s of one core."
    made = {"command": advice.whole_command, "penstock": _engine.__version__}
    page = report.Page(f"penstock: advice on {Path(advice.name).stem}", lead, sections, made)
    return report.write(page, folder / "report.html")


def _answer(advice: Advice, folder: Path) -> report.Section:
    key = advice.goals.aims[0].key if advice.goals else ""
    path = figures.write(figure(advice), folder, "advice")
    caption = f"{key} of every change alone, then together: mean over the runs, 95 % interval."
    verdict = f"{advice.confirmed} with fresh seeds" if advice.confirmed else ""
    return report.Section(
        "The answer",
        paragraphs=advice.sentences,
        figures=[(path, caption)],
        verdict=verdict,
        kind="confirmed" if advice.confirmed == "holds" else "differs" if verdict else "",
        warnings=advice.warnings,
    )


def _tables(advice: Advice) -> list[report.Section]:
    found = []
    for title, trials, text in (
        (
            "Every lever alone",
            advice.alone,
            "Against the scenario as it is, run by run under the same random numbers.",
        ),
        (
            "Beside the recommendation",
            advice.together,
            "On top of the changes that were already chosen, step by step.",
        ),
    ):
        if not trials:
            continue
        columns, rows = advice.rows(trials)
        reasons = [[t.change.text, t.change.why] for t in trials if t.change]
        tables = [report.Table(columns, rows, numbers=False)]
        if trials is advice.alone:
            tables.append(report.Table(["change", "where its value comes from"], reasons, numbers=False))
        found.append(report.Section(title, paragraphs=[text], tables=tables))
    return found


def _limits(advice: Advice) -> report.Section:
    length = ", ".join(f"{k} = {v}" for k, v in advice.length.items())
    facts = [("Not considered", text) for text in (*advice.impossible, *NOT_CONSIDERED)]
    if length:
        facts.insert(
            0, ("Run length", f"{length}, chosen so that the whole takes minutes; give a length to change it")
        )
    return report.Section("What this rests on", facts=facts)


def figure(advice: Advice) -> Figure:
    """The first goal for every change, a row each, ordered by lever; the recommendation last."""
    assert advice.goals is not None
    assert advice.baseline is not None
    key = advice.goals.aims[0].key
    rows: list[tuple[str, Trial]] = [(t.change.text, t) for t in advice.alone if t.change]
    if advice.best:
        rows.append(("all that is recommended", advice.best))
        rows += [("the same with fresh seeds", advice.fresh[1])] if advice.fresh else []
    base = advice.baseline.sets.summary.get(key, math.nan)
    with figures.style():
        drawn, (ax,) = figures.new(width=7.4, height=max(2.4, 1.2 + 0.27 * (len(rows) + 1)))
        ax.axvline(base, color=figures.INK, linewidth=1.2)
        means = [base]
        for place, (_, trial) in enumerate(rows):
            mean, half = trial.sets.summary.get(key, math.nan), np.nan_to_num(trial.sets.ci95(key))
            colour, mark = _LOOKS[trial.verdict]
            low = min(half, mean * 0.9) if mean > 0 else half  # an end below zero has no place on a log axis
            ax.errorbar(
                mean, place, xerr=[[low], [half]], color=colour, marker=mark, linestyle="none", capsize=2.5
            )
            means.append(mean)
        finite = [x for x in means if math.isfinite(x)]
        if finite and min(finite) > 0 and max(finite) > 30 * min(finite):
            ax.set_xscale("log")
        else:
            ax.set_xlim(left=0)
        if advice.best:
            count = len(rows) - (2 if advice.fresh else 1)
            ax.axhline(count - 0.5, color=figures.INK, linewidth=0.6, alpha=0.5)
        ax.set_yticks(range(len(rows)), [text for text, _ in rows])
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_xlabel(key)
        figures.units(ax.xaxis, key)
        words = [word for word in _LOOKS if any(t.verdict == word for _, t in rows)]
        marks = [
            Line2D([], [], color=_LOOKS[w][0], marker=_LOOKS[w][1], linestyle="none", label=w) for w in words
        ]
        marks.append(Line2D([], [], color=figures.INK, linewidth=1.2, label="as it is"))
        drawn.legend(handles=marks, loc="outside upper right", ncols=len(marks))
    return drawn
