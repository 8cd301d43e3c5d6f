"""The gallery: pages that each teach one thing, and the list of them with a picture of each. Nothing here is
drawn by hand; every page runs its scenario, every picture is a part of its record.

The lessons are in `penstock.lessons`; what they claim is tested (`tests/python/test_gallery.py`).
"""

from __future__ import annotations

import gzip
import html
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from penstock import _engine, record_window, results, runs, scenario, views
from penstock.lessons import LESSONS, Lesson
from penstock.views import Page, view

#: Points of a curve in the list, and the size of its picture.
_POINTS = 160
_WIDE, _HIGH = 300, 48
# The part of a run that a card plays: so many times as long as its longest hop, and at most so many bytes.
_HOPS, _CARD_BYTES = 10, 200_000


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
        f'<a href="{before.name}.html" rel="prev">← <span>{html.escape(before.title)}</span></a>'
        if before
        else "",
        f'<a href="{after.name}.html" rel="next"><span>{html.escape(after.title)}</span> →</a>'
        if after
        else "",
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
    results.put(folder / "index.html", index(cards))
    return folder / "index.html"


def index(cards: Sequence[str]) -> str:
    """The list of lessons, of their cards."""
    parts = {
        "CARDS": "\n".join(cards),
        "COUNT": str(len(LESSONS)),
        "SCRIPT": (views.PARTS / "cards.js").read_text("utf-8").replace("</script", "<\\/script"),
    }
    template = (Path(__file__).parent / "templates" / "gallery.html").read_text("utf-8")
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(template.split("__")))


def _card(lesson: Lesson, number: int) -> str:
    title, lead = html.escape(lesson.title), html.escape(lesson.lead)
    return (
        f'<li><a href="{lesson.name}.html">{_network(lesson)}{_picture(lesson)}'
        f'<h2><span class="number">{number}</span>{title}</h2><p>{lead}</p></a></li>'
    )


def _network(lesson: Lesson) -> str:
    """The network of the lesson at the moment of its step that looks closest, and the record to play it."""
    closest = min(
        (step for step in lesson.steps if step.at is not None and step.window and not step.set),
        key=lambda step: step.window[1] - step.window[0] if step.window else 0,
    )
    at = closest.at or 0.0
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder) / views.RECORD
        spec = json.loads(scenario.spec(lesson.scenario, lesson.settings, 1))
        asked = json.dumps({**spec, "record": {"until_s": 1.2 * at + 1e-3}})
        _engine.record(asked, 0, str(path), _engine.Progress())
        links = record_window.head(path)["links"]
        # Of hosts and switches the longest hop that is not an exception.
        hop = max(link["delay_ps"] * 1e-12 + 12_000 / link["rate_bps"] for link in links)
        length = _HOPS * hop
        start = max(0.0, at - length / 2)
        window = record_window.read(path, start, _CARD_BYTES, end=start + length, flows=False)
    length = window.end - window.start
    still = min(0.99, max(0.0, (at - window.start) / length))
    record = views.text(gzip.compress(window.record, mtime=0))
    label = html.escape(f"The network of the lesson, packet by packet, from {start * 1e3:.4g} ms on")
    return (
        f'<canvas role="img" aria-label="{label}" data-record="{lesson.name}" data-from="{start:.9g}" '
        f'data-length="{length:.9g}" data-still="{still:.3f}"></canvas>'
        f'<script type="text/plain" id="{lesson.name}">{record}</script>'
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
            x, y = t / length * _WIDE, _HIGH - v / most * (_HIGH - 4)
            steps.append(f"H{x:.1f}V{y:.1f}")
        if times:
            steps.append(f"H{times[-1] / length * _WIDE:.1f}V{_HIGH}")
        paths.append(f'<path class="{kind}" d="{"".join(steps)}"/>')
    label = html.escape(f"Queue over time: up to {most:g} packets in {length:g} s")
    return (
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"{''.join(paths)}</svg>"
    )
