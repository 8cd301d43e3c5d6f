"""The page and reports for readers of all kinds: contrast, keys, little motion, no colour (WCAG 2.2 AA)."""

import re
from pathlib import Path

import pytest
from conftest import INCAST, Tab, needs_chromium, needs_page

import penstock
from penstock import figures, views

ROOT = Path(__file__).resolve().parents[2]
TEXT, GRAPHIC = 4.5, 3.0


def luminance(colour):
    """WCAG's relative luminance of #rrggbb."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def schemes(text):
    """The colours of a style sheet's two :root blocks, light and dark; the dark one overrides."""
    blocks = re.findall(r":root\s*\{(.*?)\}", text, re.DOTALL)
    light, dark = [dict(re.findall(r"--([\w-]+):\s*(#[0-9a-fA-F]{6})", block)) for block in blocks[:2]]
    return {"light": light, "dark": light | dark}


# Foreground, background, least contrast: text, and what must be seen to use the page (1.4.3, 1.4.11).
PAGE = [
    ("text", "ground", TEXT),
    ("text", "panel", TEXT),
    ("soft", "ground", TEXT),
    ("soft", "panel", TEXT),
    ("alarm", "ground", TEXT),
    ("ground", "accent", TEXT),
    ("ground", "text", TEXT),
    ("pale", "ground", GRAPHIC),
    ("accent", "ground", GRAPHIC),
    ("accent", "panel", GRAPHIC),
]
REPORT = [
    ("ink", "page", TEXT),
    ("ink", "card", TEXT),
    ("soft", "page", TEXT),
    ("soft", "card", TEXT),
    ("link", "page", TEXT),
    ("link", "card", TEXT),
    ("good", "good-back", TEXT),
    ("bad", "bad-back", TEXT),
]
# The outcomes' badges: robust, fails, chosen, undecided, not run or identity.
LEDGER = [*REPORT, *((name, f"{name}-back", TEXT) for name in ("part", "open", "none"))]
SHEETS = {
    "page": (ROOT / "page" / "src" / "page.css", PAGE),
    "report": (ROOT / "python" / "penstock" / "templates" / "report.html.j2", REPORT),
    "ledger": (ROOT / "papers" / "penstock_papers" / "templates" / "ledger.css", LEDGER),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sheet", SHEETS)
def test_colours_have_contrast(sheet, scheme):
    path, pairs = SHEETS[sheet]
    colours = schemes(path.read_text())[scheme]
    poor = {
        (a, b): contrast(colours[a], colours[b])
        for a, b, least in pairs
        if contrast(colours[a], colours[b]) < least
    }
    assert not poor


def test_contrast_is_wcags():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_neighbouring_series_differ_without_colour():
    """In greyscale: every dash with its marker is there once."""
    looks = [(str(dash), mark) for dash, mark in zip(figures.DASHES, figures.MARKERS, strict=True)]
    assert len(set(looks)) == len(looks) == len(figures.PALETTE)


@pytest.fixture(scope="module")
def incast(tmp_path_factory):
    settings = INCAST | {"queue": "threshold:k=5pkt"}
    return penstock.view("incast", settings=settings).save(tmp_path_factory.mktemp("page") / "incast.html")


@needs_page
@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_flows_can_be_told_from_the_ground(browser, incast, scheme):
    page = Tab(browser, incast, color_scheme=scheme)
    ink = page.evaluate("penstock.ink")
    assert luminance(ink["ground"]) < 0.05 if scheme == "dark" else luminance(ink["ground"]) > 0.9
    assert len(set(ink["palette"])) == len(figures.PALETTE)
    for colour in ink["palette"]:
        assert contrast(colour, ink["ground"]) >= GRAPHIC, colour


@needs_page
@needs_chromium
def test_every_control_is_reached_by_the_tab_key(browser, incast):
    page = Tab(browser, incast)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
          .filter((e) => e.checkVisibility() && !e.disabled).map((e, i) => (e.dataset.k = i))"""
    )
    assert len(wanted) > 25
    page.locator("body").press("Home")
    page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(2 * len(wanted)):
        page.keyboard.press("Tab")
        key = page.evaluate("document.activeElement.dataset.k ?? ''")
        if not key:
            break
        reached.append(int(key))
        style = page.evaluate(
            "(s => [s.outlineStyle, parseFloat(s.outlineWidth)])(getComputedStyle(document.activeElement))"
        )
        assert style[0] != "none" and style[1] >= 2, "the focus can be seen"
    assert sorted(reached) == wanted
    named = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, canvas')].filter((e) => !(e.ariaLabel
          || e.ariaHidden
          || e.textContent.trim() || e.labels?.length || e.closest('[role=img]')?.ariaLabel)).length"""
    )
    assert named == 0, "every control has a name"


@needs_page
@needs_chromium
def test_keys_play_step_zoom_and_say_packets(browser, incast):
    page = Tab(browser, incast)
    page.evaluate("penstock.seek(0.0006)")
    page.wait_for_timeout(100)
    page.locator("canvas.network").first.focus()
    page.keyboard.press("n")
    first = page.text_content("#detail")
    assert first.startswith("Packet ") and page.is_visible("#tip")
    page.keyboard.press("n")
    assert page.text_content("#detail") != first
    page.keyboard.press("p")
    assert page.text_content("#detail") == first
    length = "penstock.clock.to - penstock.clock.from"
    whole = page.evaluate(length)
    page.keyboard.press("+")
    assert page.evaluate(length) == pytest.approx(whole / 4)
    page.keyboard.press("0")
    assert page.evaluate(length) == whole
    before = page.time()
    page.keyboard.press("ArrowRight")
    assert page.time() > before
    page.keyboard.press(" ")
    page.wait_for_timeout(300)
    page.keyboard.press(" ")
    assert page.evaluate("penstock.frames.count") > 0
    assert page.errors == []


@needs_page
@needs_chromium
def test_who_wants_little_motion_gets_stills(browser, incast):
    page = Tab(browser, incast, reduced_motion="reduce")
    page.evaluate("penstock.play()")
    page.wait_for_timeout(2200)
    count, seconds = page.evaluate("[penstock.frames.count, penstock.frames.seconds]")
    assert 1 <= count <= 5 and seconds / count >= 0.5
    moving = page.evaluate("document.getAnimations().length")
    assert moving == 0


@needs_page
@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(browser, incast, width):
    page = Tab(browser, incast, width=width)
    page.select_option("#flow", "3")
    page.click("#compare")
    page.settle()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # A finger needs 24 pixels (2.5.8).
    small = page.evaluate(
        """() => [...document.querySelectorAll('button, select, input[type=text]')]
          .filter((e) => e.checkVisibility()).map((e) => [e.id || e.textContent, e.getBoundingClientRect()])
          .filter(([, b]) => b.width < 24 || b.height < 24).map(([name]) => name)"""
    )
    assert small == []


AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
needs_axe = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed (npm ci in page)")


def violations(tab):
    """What axe finds against WCAG 2.2 A and AA and its best practices."""
    tab.add_script_tag(path=str(AXE))
    tab.wait_for_timeout(100)
    found = tab.evaluate("axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html)]))")
    return {rule: nodes[:3] for rule, nodes in found}


@needs_page
@needs_chromium
@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(browser, tmp_path, scheme, width):
    from penstock import gallery, lessons

    lesson = next(one for one in lessons.LESSONS if one.name == "dctcp-threshold")
    path = gallery.page(lesson, docs="../").save(tmp_path / "page.html")
    page = Tab(browser, path, color_scheme=scheme, width=width)
    assert violations(page.tab) == {}
    page.locator(".dots button").nth(3).click()
    page.click("#check")
    page.settle()
    page.click("#charted")
    assert page.is_visible("#side-b")
    assert violations(page.tab) == {}
    assert page.errors == []


@pytest.mark.full
@needs_page
@needs_chromium
@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_in_any_lesson(browser, tmp_path, scheme, width):
    from penstock import gallery, lessons

    for lesson in lessons.LESSONS:
        path = gallery.page(lesson).save(tmp_path / f"{lesson.name}.html")
        page = Tab(browser, path, color_scheme=scheme, width=width)
        page.locator(".dots button").nth([bool(s.ask) for s in lesson.steps].index(True)).click()
        page.click("#check")
        page.settle()
        assert violations(page.tab) == {}, lesson.name
        assert page.errors == []
        page.context.close()


@needs_page
@needs_chromium
@needs_axe
def test_axe_finds_nothing_in_the_list_of_lessons(browser, tmp_path):
    from penstock import gallery

    card = gallery._card(gallery.LESSONS[2], 3)
    (tmp_path / "index.html").write_text(gallery.index([card]))
    for scheme in ("light", "dark"):
        tab = browser.new_context(color_scheme=scheme, offline=True).new_page()
        tab.goto((tmp_path / "index.html").as_uri())
        assert violations(tab) == {}


def test_the_page_has_landmarks_and_a_skip_link():
    text = (Path(views.__file__).parent / "templates" / "page.html").read_text()
    for part in (
        "<main>",
        "<header>",
        "<footer>",
        "<aside ",
        'id="story" aria-label="Story"',
        '<html lang="en">',
        'class="skip" href="#parameters"',
    ):
        assert part in text
    assert 'id="parameters"' in text and 'role="alert"' in text
