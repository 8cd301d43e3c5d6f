"""A lesson as a student goes through it: predict, drag, see why."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Tab, needs_chromium, needs_page

import penstock
from penstock import gallery, lessons

BY_NAME = {lesson.name: lesson for lesson in lessons.LESSONS}
pytestmark = [needs_page, needs_chromium]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lessons")

    def page(name):
        path = folder / f"{name}.html"
        return path if path.exists() else gallery.page(BY_NAME[name]).save(path)

    return page


def answered(page):
    """Gives the prediction of the step, where it asks for one."""
    if page.locator("#check").count():
        page.click("#check")
        page.settle()
        page.wait_for_selector(".bar.answer")


def test_the_story_asks_and_the_view_follows(browser, pages):
    lesson = BY_NAME["dctcp-threshold"]
    page = Tab(browser, pages(lesson.name))
    assert page.text_content("#telling h2") == lesson.steps[0].title
    for i, step in enumerate(lesson.steps):
        if i:
            page.click(".turn .main")
            page.settle()
        assert page.text_content("#telling h2") == step.title
        clock = page.evaluate("penstock.clock")
        assert (clock["from"], clock["to"]) == pytest.approx(step.window)
        assert clock["t"] == pytest.approx(step.at)
        if step.ask:
            # No answer before the prediction.
            assert page.is_hidden("#side-b") and step.ask.after[:20] not in page.text_content("#telling")
            page.focus("#guess")
            page.keyboard.press("End")
            assert page.text_content(".guess") == "1 Gb/s"
            answered(page)
            said = page.text_content(".bars")
            assert "You said1 Gb/s" in said and "B929.6 Mb/s" in said and "A973.4 Mb/s" in said
            assert step.ask.after[:20] in page.text_content("#telling")
            words = page.text_content("#figures")
            assert "Goodput" in words and "4.5 % less than A" in words
        assert page.is_visible("#side-b") == (step.set is not None), step.title
        if step.set:
            assert page.evaluate("JSON.stringify(penstock.b.edits)") == str(step.set).replace(
                "'", '"'
            ).replace(": ", ":")
        # Every number is there, and none is missing.
        assert "…" not in page.text_content(".prose") and "{" not in page.text_content(".prose")
    assert page.is_disabled(".turn .main")
    assert page.errors == []


def test_dragging_runs_again_and_the_last_value_counts(browser, pages):
    page = Tab(browser, pages("incast-timeout-floor"))
    values = BY_NAME["incast-timeout-floor"].sliders[0].values
    slider = page.locator("#slide-servers")
    assert slider.get_attribute("aria-valuetext") == "32"
    # As a drag does it: one value after the other, faster than runs are.
    page.evaluate(
        """async () => { const e = document.getElementById('slide-servers');
          for (let i = 7; i >= 2; i--) {
            e.value = i; e.dispatchEvent(new Event('input')); await new Promise((r) => setTimeout(r, 20));
          } }"""
    )
    page.settle()
    assert values[2] == "4" and page.evaluate("penstock.logs()[0].flows.size") == 4
    native = (
        penstock.run("incast", settings=BY_NAME["incast-timeout-floor"].settings | {"servers": 4})
        .runs[0]
        .summary
    )
    assert page.evaluate("penstock.logs()[0].result.summary.goodput_bps") == native["goodput_bps"]
    # What the page began with stands beside it.
    said = page.text_content("#figures > div:first-child small")
    assert said.startswith("at first ") and said.endswith("Mb/s")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.settle()
    assert page.evaluate("penstock.logs()[0].flows.size") == 8
    assert page.is_hidden("#stale")
    # Beside A it is B that follows.
    page.click("#compare")
    page.settle()
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.settle()
    assert page.evaluate("penstock.logs().map((l) => l.flows.size)") == [8, 4]
    page.click("#reset")
    page.settle()
    assert page.evaluate("penstock.logs()[0].flows.size") == 32 and page.is_hidden("#side-b")
    assert slider.get_attribute("aria-valuetext") == "32"
    assert page.locator("#figures small").count() == 0
    assert page.errors == []


def test_captions_and_curves_are_of_the_run_that_was_dragged_to(browser, pages):
    """Records of runs of one size come in as many pieces: what is drawn must not take one for the other."""
    page = Tab(browser, pages("incast-timeout-floor"))
    page.click(".dots li:last-child button")
    page.settle()
    for first, last, servers in [(5, 3, 8), (4, 5, 16), (6, 3, 8)]:
        page.evaluate(
            """async (drags) => { const e = document.getElementById('slide-servers');
              for (const i of drags) {
                e.value = i; e.dispatchEvent(new Event('input')); await new Promise((r) => setTimeout(r, 20));
              } }""",
            [first, last],
        )
        page.settle()
        assert page.evaluate("penstock.logs()[0].flows.size") == servers
        said = page.locator("#side-a figcaption").all_text_contents()
        assert f"of {servers}" in said[2] or (servers <= 8 and "all flows" in said[2]), said
        drawn = page.evaluate("penstock.charts()")
        # Charts that have drawn nothing before.
        page.evaluate("penstock.a.charts = []")
        assert page.evaluate("penstock.charts()") == drawn
    assert page.errors == []


@pytest.mark.parametrize("name", BY_NAME)
def test_what_a_lesson_asks_to_drag_is_on_the_screen_with_the_picture(browser, pages, name):
    """On a small laptop, at every step: the story, all sliders and the figures without scrolling."""
    page = Tab(browser, pages(name), height=800)
    box = "(s) => (({ top, bottom, left, right }) => ({ top, bottom, left, right }))"
    box += "(document.querySelector(s).getBoundingClientRect())"
    for i, step in enumerate(BY_NAME[name].steps):
        if i:
            page.click(".turn .main")
            page.settle()
        answered(page)
        picture, sliders = page.evaluate(box, "canvas.network"), page.evaluate(box, "#sliders")
        assert picture["bottom"] <= sliders["top"] and sliders["bottom"] <= 800, step.title
        assert page.evaluate(box, ".turn")["bottom"] < 800, step.title
        assert page.evaluate(box, "#figures > div:last-child")["bottom"] <= 800, step.title
    for part in (".turn", "#story", "#figures", "#sliders"):
        wide = page.evaluate(
            "(s) => { const e = document.querySelector(s); return e.scrollWidth - e.clientWidth; }", part
        )
        assert wide <= 0, part
    assert page.errors == []


@pytest.mark.parametrize("name", BY_NAME)
def test_a_phone_shows_the_picture_first(browser, pages, name):
    """Title, picture, clock, the story and its buttons, all on the first screen at every step."""
    page = Tab(browser, pages(name), width=390, height=844)
    parts = [
        "h1",
        "#lesson",
        "#side-a canvas.network",
        ".clock",
        "#story",
        "#sliders",
        "#results",
        "#side-a figure",
    ]
    find = """(all) => all.map((s) => document.querySelector(s).getBoundingClientRect())
      .map(({ top, bottom }) => [top, bottom])"""
    boxes = page.evaluate(find, parts)
    for i in range(len(parts) - 1):
        assert boxes[i][1] <= boxes[i + 1][0], parts[i : i + 2]
    assert boxes[parts.index("#results")][0] < 844
    for i, step in enumerate(BY_NAME[name].steps):
        if i:
            page.click(".turn .main")
            page.settle()
        for said in (False, True):
            if said:
                answered(page)
            page.evaluate("scrollTo(0, 0)")
            ((picture, _), (_, turn)) = page.evaluate(find, ["#side-a canvas.network", ".turn"])
            assert picture < 200 and turn <= 844, (step.title, said)
    # Where the last step asks to drag, what is dragged is on the screen with the picture and the results.
    ((_, sliders), (results, _)) = page.evaluate(find, ["#sliders", "#results"])
    assert sliders < 844 and results < 800
    assert page.errors == []


@pytest.mark.parametrize("name", BY_NAME)
def test_the_picture_of_a_step_shows_what_its_text_says(browser, pages, name):
    """At the moment of a step packets are on wires or in ports, unless the step says that a run is idle."""
    page = Tab(browser, pages(name))
    full = """(side) => { const { shown } = penstock[side].picture;
      return shown.packets + shown.queues.reduce((sum, n) => sum + n, 0); }"""
    for i, step in enumerate(BY_NAME[name].steps):
        if i:
            page.click(".turn .main")
            page.settle()
        answered(page)
        for side in "AB" if step.set else "A":
            inside = page.evaluate(full, side.lower())
            assert inside < 3 if side in step.idle else inside >= 3, (step.title, side, inside)
    assert page.errors == []


def test_the_first_step_of_the_pause_lesson_is_before_the_first_pause(browser, pages):
    page = Tab(browser, pages("pause-spreads"))
    stopped = "penstock.a.log.pauses.filter((p) => p.at <= penstock.clock.t).length"
    assert page.evaluate(stopped) == 0
    page.click(".turn .main")
    page.settle()
    assert page.evaluate(stopped) > 0


def test_hashed_flows_meet_on_uplinks(browser, pages):
    """Some uplinks carry two or three flows, others none, as the lesson says."""
    page = Tab(browser, pages("spray-or-hash"))
    carried = page.evaluate(
        """() => {
          const { log } = penstock.a, name = (n) => log.head.nodes[n][0], flows = new Map();
          log.head.links.forEach((l, port) => name(l.from).startsWith('leaf')
            && name(l.to).startsWith('spine') && flows.set(port, new Set()));
          for (let h = 0; h < log.hops; h++) {
            const p = log.hopPacket.data[h];
            if (log.payload.data[p] > 0) flows.get(log.hopPort.data[h])?.add(log.flow.data[p]);
          }
          return [...flows.values()].map((f) => f.size).sort();
        }"""
    )
    assert carried == [0, 0, 0, 1, 2, 2, 2, 3]


def test_all_links_of_the_ring_work_at_the_moment_that_says_so(browser, pages):
    page = Tab(browser, pages("ring-all-reduce"))
    page.click(".turn .main")
    page.settle()
    busy = page.evaluate(
        """() => {
          const { log } = penstock.a, { t } = penstock.clock, ports = new Set();
          log.at(t, (h) => log.payload.data[log.hopPacket.data[h]] && ports.add(log.hopPort.data[h]));
          return [ports.size, log.head.links.length];
        }"""
    )
    assert busy[0] == busy[1] == 16


def test_what_is_dragged_is_said_as_its_slider_says_it(browser, pages):
    """No raw values, rows of events that stay at none, and the lengths of two runs that end by themselves."""
    page = Tab(browser, pages("pause-spreads"))
    page.evaluate("penstock.slide('pfc', 'off')")
    page.settle()
    assert page.text_content("#edited") == "Pause when a port holds: never"
    assert "Pausesnone" in page.text_content("#figures").replace(" ", "")
    ring = Tab(browser, pages("ring-all-reduce"))
    ring.click(".dots li:nth-child(3) button")
    ring.settle()
    answered(ring)
    assert ring.text_content("#measured") == "of the whole runs, A 1.83 ms, B 4.82 ms"
    assert page.errors == ring.errors == []


def test_bars_of_a_prediction_are_on_one_rail(browser, pages):
    page = Tab(browser, pages("rcp-and-xcp"))
    page.click(".dots li:nth-child(4) button")
    page.settle()
    answered(page)
    rails = page.evaluate(
        """() => [...document.querySelectorAll('.rail')].map((e) => e.getBoundingClientRect())
          .map(({ left, width }) => [left, width])"""
    )
    assert len(rails) == 3 and len({tuple(rail) for rail in rails}) == 1


def test_the_curve_that_a_step_speaks_of_stands_first(browser, pages):
    lesson = BY_NAME["pause-spreads"]
    page = Tab(browser, pages(lesson.name), height=800)
    titles = []
    for i, step in enumerate(lesson.steps):
        if i:
            page.click(".turn .main")
            page.settle()
        answered(page)
        titles.append(page.text_content("#side-a figcaption b"))
        assert titles[-1].startswith("Payload" if step.first == "rate" else "Queue"), step.title
    assert len(set(titles)) == 2
    assert page.errors == []


def test_a_choice_runs_at_once(browser, pages):
    page = Tab(browser, pages("trimming"))
    page.check("#sliders input[value=dctcp]", force=True)
    page.settle()
    assert page.evaluate("penstock.logs()[0].head.protocols") == ["dctcp"]
    assert page.errors == []


def test_arrow_keys_say_the_values_of_a_curve(browser, pages):
    page = Tab(browser, pages("dctcp-threshold"))
    curve = page.locator("#side-a figure").first.locator(".u-over")
    curve.focus()
    before = page.time()
    page.keyboard.press("ArrowRight")
    said = page.locator("#side-a .said").first
    first = said.text_content()
    assert first.startswith("queue: ") and " packet" in first and " at " in first
    page.keyboard.press("ArrowRight")
    assert said.text_content() != first
    page.keyboard.press("ArrowDown")
    assert said.text_content().startswith("threshold: 20 packets")
    # The clock stays: these keys are the curve's.
    assert page.time() == before
    assert curve.get_attribute("aria-label").startswith("Queue of")
    page.keyboard.press("Escape")
    assert said.text_content() == ""


def of_module(name, expression):
    """The value of an expression over the exports `m` of a module of the page, in Node."""
    if (node := shutil.which("node")) is None:
        pytest.skip("Node is not installed")
    code = f"""
      import {{ build }} from "esbuild";
      const made = await build({{
        entryPoints: ["src/{name}.ts"], bundle: true, write: false, format: "esm",
      }});
      const code = encodeURIComponent(made.outputFiles[0].text);
      const m = await import("data:text/javascript," + code);
      console.log(JSON.stringify({expression}));
    """
    root = Path(__file__).resolve().parents[2] / "page"
    done = subprocess.run(
        [node, "--input-type=module", "-e", code], cwd=root, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_words_of_comparison():
    pairs = "[[973.4, 929.6], [100, 860], [5, 5], [0, 3], [3, 0], [1000, 1000.1], [null, 1]]"
    assert of_module("results", f"{pairs}.map(([a, b]) => m.against(a, b))") == [
        "4.5 % less than A",
        "8.6 times A",
        "as in A",
        "none in A",
        "none, unlike A",
        "under 0.1 % more than A",
        "",
    ]


def test_times_of_an_axis_have_the_digits_of_their_step():
    calls = (
        "[[[5, 7.5, 10], 2.5, 15], [[0.005, 0.0075], 0.0025, 0.015], [[0, 1], 1, 10],"
        " [[0.0002, 0.00020025], 2.5e-7, 3e-6], [[0.1, 0.2], 0.1, 3], [[0.01, 0.0101], 1e-4, 5e-4],"
        " [[1.2, 1.201], 1e-3, 0.01]]"
    )
    assert of_module("format", f"{calls}.map(([t, step, window]) => m.ticks(t, step, window))") == [
        ["5.0", "7.5", "10.0 s"],
        ["5.0", "7.5 ms"],
        ["0", "1 s"],
        ["200.00", "200.25 µs"],
        ["0.1", "0.2 s"],
        ["10.0", "10.1 ms"],
        ["1.200", "1.201 s"],
    ]
    moments = "[[0.0004, 0.01], [0.0101, 5e-4], [3.3, 1.4], [1.2, 0.01], [0.3, 2]]"
    assert of_module("format", f"{moments}.map(([t, window]) => m.moment(t, window))") == [
        "0.400 ms",
        "10.1000 ms",
        "3.30000 s",
        "1.20000 s",
        "0.3000 s",
    ]


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", BY_NAME)
def test_every_lesson_is_walked_through(browser, pages, name, width, scheme):
    walk(browser, pages(name), BY_NAME[name], width, scheme)


@pytest.mark.parametrize("name", ["ring-all-reduce", "rcp-and-xcp"])
def test_a_lesson_is_walked_through_on_a_phone(browser, pages, name):
    walk(browser, pages(name), BY_NAME[name], 390, "light")


def walk(browser, path, lesson, width, scheme):
    """All steps: nothing is wider than the window or smaller than 11 pixels, and the console is empty."""
    page = Tab(browser, path, width=width, color_scheme=scheme)
    for i, step in enumerate(lesson.steps):
        if i:
            page.click(".turn .main")
            page.settle()
        answered(page)
        assert page.text_content("#telling h2") == step.title
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        small = page.evaluate(
            """() => [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility()
              && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())
              && parseFloat(getComputedStyle(e).fontSize) < 11).map((e) => e.outerHTML.slice(0, 80))"""
        )
        assert small == []
        text = page.text_content("#telling")
        assert "…" not in text and "not measured" not in text, (step.title, text)
        assert page.is_hidden("#error"), page.text_content("#error")
    assert page.errors == []
