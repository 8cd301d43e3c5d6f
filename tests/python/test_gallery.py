"""The gallery: what its lessons say is so, by runs of the native engine; and its pages are there."""

import functools
import re
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from conftest import needs_chromium, needs_page

import penstock
from penstock import gallery, lessons, scenario, views

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {lesson.name: lesson for lesson in lessons.LESSONS}
SUMMARY = {key["name"] for key in scenario.describe()["summary_keys"]}
VALUES = {metric["name"] for metric in scenario.describe()["metrics"]}


@functools.cache
def _run(name, changed, part):
    lesson = BY_NAME[name]
    settings = {**lesson.settings, **dict(changed)}
    if part:
        settings |= {"warmup": f"{part[0]}s", "duration": f"{part[1]}s"}
    return penstock.run(lesson.scenario, settings=settings)


def run(lesson, changed=None, part=None):
    """The run of a lesson with some values changed, measured in part of it."""
    return _run(lesson.name, tuple(sorted((changed or {}).items())), part)


def summary(lesson, changed=None, part=None):
    """The summary, with goodput and drops of the flows of small runs."""
    found = run(lesson, changed, part)
    total = found.runs[0].summary
    own = {}
    for flow in found.flows.head(16).iter_rows(named=True):
        own[f"goodput_bps_of_{flow['flow']}"] = flow["delivered_bytes"] * 8 / total["measured_s"]
        own[f"drops_of_{flow['flow']}"] = flow["drops"]
    transfers = found.flows.filter(pl.col("transfers") == 1).group_by("workload").agg(pl.col("fct_s").mean())
    own |= {f"fct_mean_s_of_workload_{w}": mean for w, mean in transfers.iter_rows()}
    # A run that never trims or pauses has no such key.
    return SimpleNamespace(**({"trims": 0, "pauses": 0} | total | own))


@pytest.mark.parametrize("name", BY_NAME)
def test_what_a_lesson_says_is_so(name):
    lesson = BY_NAME[name]
    false = []
    for step in lesson.steps:
        runs = {"A": summary(lesson)} | ({"B": summary(lesson, step.set)} if step.set else {})
        false += [(step.title, claim) for claim in step.holds if not eval(claim, {**runs, "abs": abs})]
        for begin, end, claim in step.during:
            part = (begin, end)
            there = {"A": summary(lesson, None, part), "B": summary(lesson, step.set, part)}
            false += [(step.title, begin, end, claim) for _ in [0] if not eval(claim, there)]
        # Every number in the text is one that the run has.
        text = step.text + (step.ask.after if step.ask else "")
        for side, key in re.findall(r"\{([AB])\.(\w+)\}", text):
            assert getattr(runs[side], key) is not None, (step.title, side, key)
        if step.ask:
            answer = getattr(runs["B" if step.set else "A"], step.ask.key)
            assert step.ask.low <= answer <= step.ask.high, (step.title, answer)
    assert false == []


@pytest.mark.parametrize("name", BY_NAME)
def test_what_a_lesson_asks_to_drag_has_an_answer_that_shows(name):
    """Along the whole slider: what the text says of it, and a figure of the lesson that changes visibly."""
    lesson = BY_NAME[name]
    assert lesson.steps[-1].drags, "the last step asks for something"
    for step in lesson.steps:
        for drag in step.drags:
            slider = next(one for one in lesson.sliders if one.key == drag.key)
            runs = {v: summary(lesson, {**drag.set, drag.key: v}) for v in slider.values}
            every = list(runs.values())
            figures = [getattr(one, drag.figure) for one in every]
            names = {
                "at": runs.__getitem__,
                "every": every,
                "rises": lambda key, of=every: (
                    [getattr(s, key) for s in of] == sorted(getattr(s, key) for s in of)
                ),
                "falls": lambda key, of=every: (
                    [getattr(s, key) for s in of] == sorted((getattr(s, key) for s in of), reverse=True)
                ),
            }
            false = [claim for claim in drag.holds if not eval(claim, names)]
            assert false == [], (step.title, drag.key, drag.set, figures)
            assert None not in figures, (step.title, drag.key, figures)
            assert drag.figure in lesson.figures
            # At least by a fifth, from the left end of the slider to the right.
            assert max(figures) > 1.2 * min(figures), (step.title, drag.key, figures)
            for key, value in drag.set.items():
                assert value in next(one for one in lesson.sliders if one.key == key).values


@pytest.mark.parametrize("name", BY_NAME)
def test_a_lesson_is_complete(name):
    lesson = BY_NAME[name]
    assert 4 <= len(lesson.steps) <= 6
    assert sum(step.ask is not None for step in lesson.steps) == 1, "one prediction"
    claims = [claim for step in lesson.steps for claim in (*step.holds, *step.during)]
    assert len(claims) >= 3
    named = {re.sub(r"_of_\d+$", "", key) for key in lesson.figures}
    assert named <= SUMMARY and 4 <= len(lesson.figures) <= 5
    assert (ROOT / "docs" / "background" / f"{lesson.background[1]}.md").exists()
    network = run(lesson)
    length = gallery._seconds(_duration(lesson))
    for step in lesson.steps:
        assert step.value in VALUES | {""}
        first, last = step.window or (0, length)
        assert 0 <= first < last <= length, step.title
        if step.at is not None:
            assert first <= step.at <= last, step.title
        if step.flow is not None:
            assert step.flow in network.flows["flow"].to_list()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_lesson_takes_less_than_three_minutes(name):
    """At 220 words a minute, with ten seconds for a step's picture and its button, fifteen more for the
    prediction and thirty for the sliders.
    """
    lesson = BY_NAME[name]
    texts = [lesson.title, lesson.lead]
    for step in lesson.steps:
        texts += [step.title, step.text, *([step.ask.question, step.ask.after] if step.ask else [])]
        assert len(step.text.split()) <= 45, step.title
    words = len(" ".join(texts).split())
    assert words / 220 * 60 + 10 * len(lesson.steps) + 15 + 30 < 180, words


def _duration(lesson):
    return penstock.resolve(lesson.scenario, lesson.settings)["set"]["duration"]


@pytest.mark.parametrize("name", BY_NAME)
def test_every_stop_of_a_slider_is_a_value(name):
    lesson = BY_NAME[name]
    given = penstock.resolve(lesson.scenario, lesson.settings)["set"]
    for slider in lesson.sliders:
        for value in slider.values:
            penstock.resolve(lesson.scenario, {**lesson.settings, slider.key: value})
        assert len(slider.data()["say"]) == len(slider.values) >= 2
        # The lesson's own value is among them, so that the slider stands where the run is.
        assert given.get(slider.key, "") in slider.values, (slider.key, given.get(slider.key))


def test_the_victim_is_stopped_and_free_without_pause():
    lesson = BY_NAME["pause-spreads"]
    rates = [
        run(lesson, changed).flows.row(8, named=True)["delivered_bytes"] for changed in ({}, {"pfc": "off"})
    ]
    assert rates[1] > 3 * rates[0]


def test_hashed_flows_collide_and_sprayed_ones_do_not():
    """How many flows share the fullest uplink: counted from the paths that the engine reports."""
    lesson = BY_NAME["spray-or-hash"]
    flows = run(lesson).flows
    leaf = {side: flows[side].str.slice(1).cast(int) >= 8 for side in ("src", "dst")}
    assert (~leaf["src"] & leaf["dst"]).sum() == (leaf["src"] & ~leaf["dst"]).sum() == 5
    slow = flows["slowdown"].sort()
    even = run(lesson, {"spread": "packet"}).flows["slowdown"].sort()
    # With a path each some are alone and others share: with spraying all take about as long.
    assert slow[-1] / slow[0] > 1.5 * even[-1] / even[0]


def test_numbers_become_sliders():
    def made(kind, value, **more):
        spec = {"name": "x", "kind": kind, "default": value, "min": 0.0, "max": 1e12, "unit": "", **more}
        return views._slider(spec, value)

    assert made("duration", "200ms").values[0] == "20ms" and "200ms" in made("duration", "200ms").values
    assert made("count", "3", min=1.0, max=10.0).values == ("1", "2", "3", "5", "10")
    assert made("text", "droptail") is None and made("amount", "shared:alpha=1") is None
    assert made("duration", "0s") is None and made("rate", "") is None
    assert made("rate", "10Gbps").data()["say"][0] == "1 Gb/s"


@needs_page
def test_the_gallery_is_written_with_its_list(tmp_path):
    index = gallery.write(tmp_path, docs="../").read_text()
    for number, lesson in enumerate(lessons.LESSONS):
        page = tmp_path / f"{lesson.name}.html"
        text = page.read_text()
        assert lesson.lead[:30] in text and page.name in index
        assert f'href="../background/{lesson.background[1]}.html"' in text
        assert page.stat().st_size <= views.MOST_BYTES_OF_ENGINE
        if number:
            assert f'href="{lessons.LESSONS[number - 1].name}.html"' in text
    pictures = re.findall(r'<path class="([ab])" d="([^"]+)"', index)
    assert len(pictures) == 2 * len(lessons.LESSONS)
    # The curves are of runs: all of them move.
    assert all(len(set(re.findall(r"V([\d.]+)", d))) > 2 for _, d in pictures)
    assert index.count("<canvas") == len(lessons.LESSONS) and len(index) < 400_000
    # Every card plays for some packets' time on its links.
    assert min(map(float, re.findall(r'data-length="([^"]+)"', index))) > 1e-5
    assert "src=" not in index and "http" not in index.replace("http-equiv", "")


@needs_page
@needs_chromium
def test_cards_show_their_lessons_packets_and_play(browser, tmp_path):
    chosen = [BY_NAME[name] for name in ("incast-timeout-floor", "dctcp-threshold", "pause-spreads")]
    cards = [gallery._card(lesson, number) for number, lesson in enumerate(chosen, 1)]
    (tmp_path / "index.html").write_text(gallery.index(cards))
    tab = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True).new_page()
    errors = []
    tab.on("pageerror", lambda e: errors.append(str(e)))
    tab.goto((tmp_path / "index.html").as_uri())
    tab.wait_for_function("() => globalThis.cards?.length === 3")
    assert all(n > 5 for n in tab.evaluate("cards.map((card) => card.packets)"))
    inked = """(i) => {
      const c = document.querySelectorAll('canvas')[i];
      const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      return [...data].reduce((sum, v, k) => sum + (k % 4 === 3 && v > 0), 0);
    }"""
    assert all(tab.evaluate(inked, i) > 500 for i in range(3))
    still = tab.evaluate("cards.map((card) => card.t)")
    tab.hover("li:nth-child(2) a")
    tab.wait_for_function(f"() => cards[1].t !== {still[1]}")
    tab.wait_for_timeout(100)
    now = tab.evaluate("cards.map((card) => card.t)")
    assert (now[0], now[2]) == (still[0], still[2])
    assert errors == []
    # With little motion they stay as they are.
    calm = browser.new_context(reduced_motion="reduce", offline=True).new_page()
    calm.goto((tmp_path / "index.html").as_uri())
    calm.wait_for_function("() => globalThis.cards?.length === 3")
    calm.hover("li:nth-child(2) a")
    calm.wait_for_timeout(300)
    assert calm.evaluate("cards[1].t") == still[1]
