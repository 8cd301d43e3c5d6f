"""The gallery: pages that each teach one thing, and the list of them with a picture of each. Nothing here is
drawn by hand; every page runs its scenario, every picture is of a run.

The lessons are in `penstock.lessons`; what they claim is tested (`tests/python/test_gallery.py`).
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl

from penstock import results, runs, scenario
from penstock.lessons import LESSONS, Lesson
from penstock.views import Page, view

#: Points of a curve in the list, and the size of its picture.
_POINTS = 220
_WIDE, _HIGH = 300, 110


def page(lesson: Lesson, docs: str = "") -> Page:
    """The page of a lesson. `docs`: where the documentation is, seen from the page ("../"); without it the
    chapter of background is named and not linked. Raises `views.NotBuiltError`.
    """
    at = LESSONS.index(lesson)
    before, after = LESSONS[at - 1] if at else None, LESSONS[at + 1] if at + 1 < len(LESSONS) else None
    title, chapter = lesson.background
    href = f"{docs}background/{chapter}.html" if docs else ""
    story = {
        "number": at + 1,
        "of": len(LESSONS),
        "steps": [step.data() for step in lesson.steps],
    }
    links = [
        f'<a href="index.html">All lessons</a><span>Lesson {at + 1} of {len(LESSONS)}</span>',
        f'<a href="{before.name}.html" rel="prev">← {html.escape(before.title)}</a>' if before else "",
        f'<a href="{after.name}.html" rel="next">{html.escape(after.title)} →</a>' if after else "",
    ]
    navigation = f'<nav class="lessons" aria-label="Lessons">{"".join(links)}</nav>'
    name = html.escape(title)
    background = f'<a href="{href}">{name}</a>' if href else f"{name} (docs/background/{chapter}.md)"
    return view(
        lesson.scenario,
        settings=lesson.settings,
        title=lesson.title,
        lesson=[lesson.lead],
        background=background,
        sliders=lesson.sliders,
        story=story,
        figures=lesson.figures,
        navigation=navigation,
    )


def write(folder: Path, on_page: Callable[[str], None] = lambda name: None, docs: str = "") -> Path:
    """Write all pages and their list into `folder`; the path of the list. `docs` as for `page`. Raises
    `views.NotBuiltError`, OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cards = []
    for number, lesson in enumerate(LESSONS, 1):
        page(lesson, docs).save(folder / f"{lesson.name}.html")
        cards.append(_card(lesson, number))
        on_page(lesson.name)
    template = (Path(__file__).parent / "templates" / "gallery.html").read_text("utf-8")
    text = template.replace("__CARDS__", "\n".join(cards)).replace("__COUNT__", str(len(LESSONS)))
    results.put(folder / "index.html", text)
    return folder / "index.html"


def _card(lesson: Lesson, number: int) -> str:
    title, lead = html.escape(lesson.title), html.escape(lesson.lead)
    return (
        f'<li><a href="{lesson.name}.html">{_picture(lesson)}<span class="number">{number}</span>'
        f"<h2>{title}</h2><p>{lead}</p></a></li>"
    )


def _queues(lesson: Lesson, changed: dict[str, str]) -> tuple[pl.DataFrame, float]:
    """The queues of ports over time, and the length of the run."""
    settings = {**lesson.settings, **changed}
    resolved = json.loads(scenario.check(scenario.spec(lesson.scenario, settings, 1)))
    length = _seconds(resolved["set"]["duration"])
    sampled = runs.run(
        lesson.scenario,
        settings={**settings, "sample": f"{length / _POINTS:.9g}s", "series": "true", "series_flows": 0},
        keep=("series",),
    )
    series = sampled.series
    return series.filter((pl.col("entity") == "port") & (pl.col("metric") == "queue_packets")), length


def _seconds(text: str) -> float:
    for unit, factor in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise ValueError(text)


def _picture(lesson: Lesson) -> str:
    """The queue of the lesson's run, and of the one that is put beside it, on the same axes."""
    (first, length), (second, length_of_second) = _queues(lesson, {}), _queues(lesson, lesson.other)
    # The port with most in it; of the run beside it the same one.
    mean = first.group_by("number").agg(pl.col("value").mean()).sort(["value", "number"])
    port = mean["number"][-1]
    length = max(length, length_of_second)
    curves = [queue.filter(pl.col("number") == port) for queue in (first, second)]
    most = max(float(curve["value"].max() or 0) for curve in curves) or 1.0  # type: ignore[arg-type]
    paths = []
    for kind, curve in zip("ab", curves, strict=True):
        times, values = curve["time_s"].to_list(), curve["value"].to_list()
        steps = [f"M0 {_HIGH}"]
        for t, v in zip(times, values, strict=True):
            x, y = t / length * _WIDE, _HIGH - v / most * (_HIGH - 8)
            steps.append(f"H{x:.1f}V{y:.1f}")
        if times:
            steps.append(f"H{times[-1] / length * _WIDE:.1f}V{_HIGH}")
        paths.append(f'<path class="{kind}" d="{"".join(steps)}"/>')
    label = html.escape(f"Queue over time: up to {most:g} packets in {length:g} s")
    return (
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'{"".join(paths)}<path class="hand" d="M0 0V{_HIGH}"/></svg>'
    )
