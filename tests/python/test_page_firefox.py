"""The page and a report in Firefox: open from disk with the network off, they do what they do in Chromium."""

import pytest
from conftest import INCAST
from firefox import PROGRAM, Firefox

import penstock
from penstock import figures, report, svg, views

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="Firefox is not installed"),
    pytest.mark.skipif(bool(views.available()), reason=views.available() or "-"),
]
READY = "globalThis.penstock?.logs()[0]?.result && document.body.dataset.state !== 'running'"


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    pytest.importorskip("tornado", reason="tornado is not installed")
    found = Firefox(tmp_path_factory.mktemp("firefox"))
    yield found
    found.close()


def value(firefox, element, text, event="input"):
    """Put a text into a control as a reader does."""
    firefox.evaluate(
        f"(e => {{ e.value = {text!r}; e.dispatchEvent(new Event('{event}', {{ bubbles: true }})); }})"
        f"(document.getElementById('{element}'))"
    )


def test_the_page_plays_scrubs_selects_runs_compares_and_restores(firefox, tmp_path):
    path = penstock.view("incast", settings=INCAST).save(tmp_path / "page.html")
    firefox.size(1280, 900)
    firefox.open(path.as_uri())
    firefox.wait(READY)
    shown = firefox.evaluate("penstock.logs()[0].result.summary")
    native = penstock.run("incast", seed=1, settings=INCAST).runs[0].summary
    assert all(shown[key] == native[key] for key in native if native[key] == native[key])

    before = firefox.evaluate("penstock.clock.t")
    firefox.click("#play")
    firefox.wait("penstock.frames.count > 3")
    firefox.click("#play")
    assert firefox.evaluate("penstock.clock.t") > before
    value(firefox, "scrub", "5000")
    assert firefox.evaluate("penstock.clock.t") == pytest.approx(0.02, rel=0.01)
    # Nothing happens any more at half time: the last event is before.
    firefox.click("#back")
    last = firefox.evaluate("penstock.clock.t")
    firefox.click("#back")
    assert firefox.evaluate("penstock.clock.t") < last < 0.02
    firefox.click("#forth")
    assert firefox.evaluate("penstock.clock.t") == last
    value(firefox, "flow", "3", "change")
    firefox.wait("document.getElementById('detail').textContent.includes('Flow 3')")

    value(firefox, "set-queue", "threshold:k=5pkt")
    firefox.click("#compare")
    firefox.wait("penstock.logs()[1]?.result && document.body.dataset.state === 'idle'")
    other = penstock.run("incast", seed=1, settings=INCAST | {"queue": "threshold:k=5pkt"}).runs[0].summary
    assert firefox.evaluate("penstock.logs()[1].result.summary.ce_marks") == other["ce_marks"]
    value(firefox, "set-servers", "0")
    firefox.click("#run")
    firefox.wait("!document.getElementById('error').hidden")
    with pytest.raises(penstock.ScenarioError) as line:
        penstock.resolve("incast", INCAST | {"servers": "0"})
    assert firefox.evaluate("document.getElementById('error').textContent") == str(line.value)

    firefox.evaluate("penstock.seek(0.0123)")
    firefox.wait("decodeURIComponent(location.hash).includes('0.0123')")
    link = firefox.evaluate("location.href")
    firefox.open("about:blank")
    firefox.open(link)
    firefox.wait(READY)
    firefox.wait("penstock.logs()[1]?.result")
    assert firefox.evaluate("penstock.clock.t") == pytest.approx(0.0123)
    assert firefox.evaluate("penstock.selected.flow") == 3
    assert firefox.errors == []


def test_a_recording_is_shown(firefox, tmp_path):
    from penstock import _engine, scenario

    path = tmp_path / "run.record"
    _engine.record(scenario.spec("incast", INCAST, 1), 0, str(path), _engine.Progress())
    firefox.open(penstock.view(path).save(tmp_path / "page.html").as_uri())
    firefox.wait("globalThis.penstock?.logs()[0]?.hops > 1000")
    assert firefox.errors == []


def test_a_lesson_asks_and_its_slider_runs_again(firefox, tmp_path):
    from penstock import gallery, lessons

    lesson = next(one for one in lessons.LESSONS if one.name == "dctcp-threshold")
    firefox.size(1280, 900)
    firefox.open(gallery.page(lesson).save(tmp_path / "page.html").as_uri())
    firefox.wait(READY)
    step = next(i for i, one in enumerate(lesson.steps) if one.ask)
    firefox.evaluate(f"document.querySelectorAll('.dots button')[{step}].click()")
    firefox.wait("document.getElementById('check')")
    assert firefox.evaluate("document.getElementById('side-b').hidden")
    firefox.click("#check")
    firefox.wait("document.querySelector('.bar.answer')")
    assert "929.6 Mb/s" in firefox.evaluate("document.querySelector('.bars').textContent")
    assert "4.5 % less than A" in firefox.evaluate("document.getElementById('figures').textContent")
    both = "['A', 'B'].map((s) => penstock.charts(s).queue.scale[1])"
    firefox.wait(f"new Set({both}).size === 1")
    value(firefox, "slide-flows", "3")
    firefox.wait("penstock.logs()[1]?.result && penstock.logs()[1].flows.size === 4")
    # What is not recorded is empty.
    value(firefox, "record-from", "50")
    firefox.click("#run")
    firefox.wait(f"penstock.logs()[0].from === 0.05 && {READY}")
    firefox.evaluate("penstock.zoom(0, 0.1)")
    firefox.wait("penstock.charts().queue.unknown.length === 1")
    assert firefox.evaluate("penstock.charts().rate.csv.includes('NaN')")
    assert firefox.errors == []


@pytest.mark.full
@pytest.mark.parametrize("width", [1280, 390])
def test_every_lesson_answers(firefox, tmp_path, width):
    from penstock import gallery, lessons

    high = 800 if width > 1000 else 844
    firefox.size(width, high)
    for lesson in lessons.LESSONS:
        firefox.open("about:blank")
        firefox.open(gallery.page(lesson).save(tmp_path / f"{lesson.name}.html").as_uri())
        firefox.wait(READY)
        box = "document.querySelector('{}').getBoundingClientRect()"
        picture, sliders = box.format("canvas.network"), box.format("#sliders")
        assert firefox.evaluate(f"{picture}.bottom <= {sliders}.top && {sliders}.bottom <= {high}"), (
            lesson.name
        )
        step = next(i for i, one in enumerate(lesson.steps) if one.ask)
        firefox.evaluate(f"document.querySelectorAll('.dots button')[{step}].click()")
        firefox.wait("document.getElementById('check')")
        firefox.evaluate("document.getElementById('check').click()")
        firefox.wait("document.querySelector('.bar.answer')")
        assert firefox.evaluate("document.documentElement.scrollWidth") <= width, lesson.name
        last = box.format("#figures > div:last-child" if width > 1000 else ".turn")
        assert firefox.evaluate(f"{last}.bottom + scrollY") <= high, lesson.name
        assert firefox.errors == [], lesson.name


@pytest.mark.skipif(not svg.SCRIPT.exists(), reason="the page is not built here")
def test_a_report_has_plots(firefox, tmp_path):
    with figures.style():
        figure, (ax,) = figures.new()
        figures.band(ax, [1, 2, 3], [1, 4, 9], [0.1, 0.2, 0.3], "squares", 0)
        figures.band(ax, [1, 2, 3], [1, 8, 27], [0.1, 0.2, 0.3], "cubes", 1)
    section = report.Section("Squares", figures=[(figures.write(figure, tmp_path, "squares"), "")])
    path = report.write(report.Page("Title", "lead", [section]), tmp_path / "report.html")
    firefox.open(path.as_uri())
    firefox.wait("document.querySelector('.pf canvas')")
    firefox.evaluate("document.querySelector('.pf .u-over').focus()")
    firefox.keys("Right", "Right")
    firefox.wait(
        "document.querySelector('.pf-said').textContent.startsWith('squares: x 2, y 4 (3.8 to 4.2)')"
    )
    plot = "[...penstockFigures.values()][0]"
    shown = firefox.evaluate(f"{plot}.panels[0].shapes().length")
    firefox.click(".pf-legend button")
    assert firefox.evaluate(f"{plot}.panels[0].shapes().length") < shown
    text = firefox.evaluate(f"{plot}.svg()")
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg"') and "cubes" in text
    assert firefox.errors == []
