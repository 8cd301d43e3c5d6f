"""Figures of a report: their series are read back from matplotlib as they were given, a script plots the same
ones, and without scripts the printed figure is there.
"""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from conftest import needs_chromium

from penstock import figure_series, figures, report, svg

needs_script = pytest.mark.skipif(not svg.SCRIPT.exists(), reason="the page is not built here")

X = [1, 2, 4, 8]
MEAN, HALF = [10.0, 20.0, 15.0, 12.5], [1.0, 2.0, 0.5, 4.0]


def two_panels():
    figure, (left, right) = figures.new(1, 2, width=8.6)
    figures.band(left, X, MEAN, HALF, "DCTCP", 0)
    figures.band(left, X, [5, 4, 3, 2], [np.nan] * 4, "NewReno <200 ms>", 1)
    left.axhline(18, color=figures.INK)
    left.axvspan(2, 3, color="#009E73", alpha=0.2)
    left.annotate("rate", (8, 18), xytext=(0, 3), textcoords="offset points", ha="right")
    left.set(xlabel="servers", ylabel="goodput (Mb/s)", title="Goodput")
    left.legend()
    right.errorbar(
        [3.0, 5.0], [0, 1], xerr=[[1.0, 2.0], [0.5, 0.25]], fmt="s", linestyle="none", label="DCTCP"
    )
    right.step([0, 5, 9], [0, 1, 1], where="post", label="NewReno <200 ms>")
    right.set_yticks([0, 1], ["one", "two"])
    right.set(xlabel="time (s)")
    return figure


@pytest.fixture
def drawn(tmp_path):
    with figures.style():
        figure = two_panels()
    return figures.write(figure, tmp_path, "two panels")


# ---- what is read back -------------------------------------------------------------------------------------


def test_series_are_those_that_were_given(drawn):
    data = json.loads(drawn.with_suffix(".json").read_text())
    left, right = data["panels"]
    first, second = left["series"]
    assert (first["label"], first["x"], first["y"]) == ("DCTCP", X, MEAN)
    assert np.allclose(first["y_low"], np.subtract(MEAN, HALF)) and np.allclose(
        first["y_high"], np.add(MEAN, HALF)
    )
    assert first["marker"] == "o" and second["marker"] == "s" and "dash" in second and "dash" not in first
    assert first["colour"].upper().startswith(figures.PALETTE[0])
    assert left["levels"][0]["at"] == 18 and left["levels"][0]["axis"] == "y"
    assert (left["areas"][0]["axis"], left["areas"][0]["from"], left["areas"][0]["to"]) == ("x", 2, 3)
    assert [(t["text"], t["x"], t["y"]) for t in left["texts"]] == [("rate", 8, 18)]
    assert left["x"]["label"] == "servers" and left["title"] == "Goodput"
    points, steps = right["series"]
    assert (points["x_low"], points["x_high"], points["bars"]) == ([2, 3], [3.5, 5.25], True)
    assert points["width"] == 0 and "y_low" not in points
    assert steps["steps"] == "post" and right["y"]["ticks"] == [[0, "one"], [1, "two"]]


def test_a_long_series_keeps_its_ends_and_extremes():
    with figures.style():
        figure, (ax,) = figures.new()
        x = np.arange(50_000) / 1e3
        y = np.sin(x)
        y[31_234] = 9.0
        ax.plot(x, y, label="sine")
        figure.canvas.draw()
    (series,) = figure_series.of(figure)["panels"][0]["series"]
    assert series["of"] == 50_000 and len(series["x"]) <= 2400
    assert series["x"][0] == 0 and series["x"][-1] == 49.999 and max(series["y"]) == 9.0


def test_curves_told_apart_by_number_keep_their_names():
    with figures.style():
        figure, (ax,) = figures.new()
        figures.lines(ax, [(i, f"flow {i}", [0, 1], [i, i]) for i in range(12)], "flow")
        figure.canvas.draw()
    data = figure_series.of(figure)
    assert [s["label"] for s in data["panels"][0]["series"]] == [f"flow {i}" for i in range(12)]
    assert len(data["panels"]) == 1, "the scale of colours is no panel"


def test_marks_are_named_by_the_legend():
    from penstock.advice.page import _LOOKS

    with figures.style():
        figure, (ax,) = figures.new()
        handles = []
        for i, (word, (colour, mark)) in enumerate(_LOOKS.items()):
            ax.errorbar(i, i, xerr=1, color=colour, marker=mark, linestyle="none")
            handles.append(
                figures.mpl.lines.Line2D([], [], color=colour, marker=mark, linestyle="none", label=word)
            )
        figure.legend(handles=handles)
        figure.canvas.draw()
    series = figure_series.of(figure)["panels"][0]["series"]
    assert [s["label"] for s in series] == list(_LOOKS)


@pytest.mark.parametrize(
    "text, plain",
    [
        ("$K_0G$, N = 10", "K₀G, N = 10"),
        ("$-1/N_0$", "-1/N₀"),
        (r"$\alpha$ (\$)", "α ($)"),
        (r"$\mathdefault{10^{-3}}$", "10⁻³"),
        ("plain_text", "plain_text"),
    ],
)
def test_mathematical_texts_become_plain(text, plain):
    with figures.style():
        figure, (ax,) = figures.new()
        ax.plot([1, 2], [3, 4], label=text)
        figure.canvas.draw()
    assert figure_series.of(figure)["panels"][0]["series"][0]["label"] == plain


def test_a_curve_that_is_no_function_keeps_its_shape():
    with figures.style():
        figure, (ax,) = figures.new()
        turn = np.linspace(0, 40 * np.pi, 60_000)
        ax.plot(turn * np.cos(turn), turn * np.sin(turn))
        figure.canvas.draw()
    (series,) = figure_series.of(figure)["panels"][0]["series"]
    assert series["of"] == 60_000 and 500 < len(series["x"]) <= figure_series.MOST_POINTS
    reach = np.hypot(series["x"], series["y"])
    assert (np.diff(reach) > 0).all() and reach[-1] == pytest.approx(40 * np.pi, rel=1e-5)


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: ax.imshow([[0, 1], [1, 0]]),
        lambda ax: ax.contour([[0, 1], [1, 0]]),
        lambda ax: ax.barh([1, 2], [3, 4]),
        lambda ax: ax.twinx().plot([1, 2], [3, 4]),
        lambda ax: ax.set(title="nothing in it"),
    ],
    ids=["picture", "contours", "horizontal bars", "two scales", "empty"],
)
def test_what_has_no_form_in_a_plot_stays_printed(draw, tmp_path):
    with figures.style():
        figure, (ax,) = figures.new()
        ax.plot([1, 2], [3, 4]) if draw.__code__.co_names[-1] != "set" else None
        draw(ax)
    (tmp_path / "x.json").write_text("of an earlier figure")
    path = figures.write(figure, tmp_path, "x")
    assert not path.with_suffix(".json").exists()
    sprite = svg.Sprite()
    assert "data-figure" not in sprite.embed(path)
    assert "<script" not in sprite.defs()


# ---- in a browser ------------------------------------------------------------------------------------------


def opened(browser, drawn, tmp_path, **options):
    section = report.Section("Squares", ["text"], [(drawn, "a caption")])
    path = report.write(report.Page("Title", "lead", [section]), tmp_path / "report.html")
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True, **options)
    tab = context.new_page()
    tab.errors = []
    tab.on("console", lambda m: tab.errors.append(m.text) if m.type == "error" else None)
    tab.on("pageerror", lambda e: tab.errors.append(str(e)))
    tab.goto(path.as_uri())
    return tab


@needs_script
@needs_chromium
def test_without_scripts_the_printed_figure_is_shown(browser, drawn, tmp_path):
    tab = opened(browser, drawn, tmp_path, java_script_enabled=False)
    assert tab.locator("figure > svg[role=img]").is_visible()
    assert tab.locator(".pf").count() == 0


def place(tab, panel, series, point):
    """Where a point of the plot is on the screen."""
    return tab.evaluate(
        """([panel, series, point]) => {
          const p = [...penstockFigures.values()][0].panels[panel], s = p.data.series[series];
          const over = p.plot.over.getBoundingClientRect();
          const at = [p.plot.valToPos(s.x[point], 'x'), p.plot.valToPos(s.y[point], 'y')];
          return [over.left + at[0], over.top + at[1]];
        }""",
        [panel, series, point],
    )


@needs_script
@needs_chromium
def test_values_zoom_and_curves_to_hide(browser, drawn, tmp_path):
    tab = opened(browser, drawn, tmp_path)
    tab.wait_for_selector(".pf canvas")
    assert not tab.locator("figure > svg").is_visible()

    tab.mouse.move(*place(tab, 0, 0, 1))
    assert tab.text_content(".pf-said") == "DCTCP: servers 2, goodput (Mb/s) 20 (18 to 22)"
    tab.mouse.move(*place(tab, 1, 0, 1))
    assert tab.text_content(".pf-said") == "DCTCP: time (s) 5 (3 to 5.25), y two"

    view = "(({ x }) => [x.min, x.max])([...penstockFigures.values()][0].panels[0].plot.scales)"
    before = tab.evaluate(view)
    assert tab.is_disabled("text=Whole")
    (a, y), (b, _) = place(tab, 0, 0, 1), place(tab, 0, 0, 2)
    tab.mouse.move(a, y)
    tab.mouse.down()
    tab.mouse.move(b, y + 5, steps=5)
    tab.mouse.up()
    low, high = tab.evaluate(view)
    assert (low, high) == pytest.approx((2, 4), abs=0.1)
    tab.click("text=Whole")
    assert tab.evaluate(view) == before

    ink = "[...penstockFigures.values()][0].panels[0].shapes().length"
    shown = tab.evaluate(ink)
    tab.click(".pf-legend button >> nth=0")
    assert tab.get_attribute(".pf-legend button >> nth=0", "aria-pressed") == "false"
    assert tab.evaluate(ink) < shown
    tab.mouse.move(*place(tab, 0, 0, 1))
    assert "DCTCP" not in tab.text_content(".pf-said"), "a hidden curve has no values"
    assert tab.errors == []


@needs_script
@needs_chromium
def test_keys_do_what_the_pointer_does(browser, drawn, tmp_path):
    tab = opened(browser, drawn, tmp_path)
    tab.wait_for_selector(".pf canvas")
    for _ in range(12):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.className") == "u-over":
            break
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    assert tab.text_content(".pf-said").startswith("DCTCP: servers 2,")
    tab.keyboard.press("ArrowDown")
    assert tab.text_content(".pf-said").startswith("NewReno <200 ms>: servers 2,")
    tab.keyboard.press("+")
    assert tab.is_enabled("text=Whole")
    tab.keyboard.press("0")
    assert tab.is_disabled("text=Whole")
    assert tab.get_attribute(".pf-said", "aria-live") == "polite"


@needs_script
@needs_chromium
def test_downloads_are_what_is_shown(browser, drawn, tmp_path):
    tab = opened(browser, drawn, tmp_path)
    tab.wait_for_selector(".pf canvas")

    def got(kind):
        with tab.expect_download() as loading:
            tab.click(f".pf-tools >> text={kind}")
        assert loading.value.suggested_filename == f"two panels.{kind.lower()}"
        return loading.value.path().read_bytes()

    rows = list(csv.DictReader(io.StringIO(got("CSV").decode())))
    first = [row for row in rows if row["panel"] == "Goodput" and row["series"] == "DCTCP"]
    assert [float(row["x"]) for row in first] == X and [float(row["y"]) for row in first] == MEAN
    assert [float(row["y_high"]) for row in first] == [m + h for m, h in zip(MEAN, HALF, strict=True)]

    root = ET.fromstring(got("SVG"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    for expected in ("Goodput", "servers", "goodput (Mb/s)", "rate", "two", "NewReno <200 ms>"):
        assert expected in words, expected
    tab.click(".pf-legend button >> nth=1")
    words = [t.text for t in ET.fromstring(got("SVG")).iter("{http://www.w3.org/2000/svg}text")]
    assert "NewReno <200 ms>" not in words

    from PIL import Image

    image = Image.open(io.BytesIO(got("PNG"))).convert("RGB")
    assert image.width == 2 * float(root.get("width"))
    assert len(image.getcolors(1 << 20)) > 20, "something is drawn"
    assert tab.errors == []


@needs_script
@needs_chromium
@pytest.mark.parametrize(
    "limits, texts",
    [
        ((6e7, 3e10), ["100M", "1G", "10G"]),
        ((300, 40_000), ["500", "1000", "2000", "5000", "10k", "20k"]),
        ((1100, 1450), ["1100", "1200", "1300", "1400"]),
        ((0.002, 0.009), ["0.002", "0.003", "0.004", "0.005", "0.006", "0.007", "0.008", "0.009"]),
    ],
)
def test_a_log_axis_has_round_numbers(browser, tmp_path, limits, texts):
    with figures.style():
        figure, (ax,) = figures.new()
        ax.plot([1, 2, 3], np.geomspace(*limits, 3))
        ax.set_yscale("log")
        ax.set_ylim(*limits)
    tab = opened(browser, figures.write(figure, tmp_path, "log"), tmp_path)
    tab.wait_for_selector(".pf canvas")
    shown = tab.evaluate("[...penstockFigures.values()][0].panels[0].plot.axes[1]._values")
    assert [text for text in shown if text] == texts


HATCHES = ("", "//", "..", "xx", "--")


@needs_script
@needs_chromium
def test_columns_have_the_hatches_of_the_printed_ones(browser, tmp_path):
    with figures.style():
        figure, (ax,) = figures.new()
        for i, hatch in enumerate(HATCHES):
            ax.bar([i, i + 10], [4, -2], 0.8, label=f"kind {i}", color="#0072B2", hatch=hatch)
        ax.legend()
    tab = opened(browser, figures.write(figure, tmp_path, "columns"), tmp_path)
    tab.wait_for_selector(".pf canvas")
    shapes = tab.evaluate(
        "[...penstockFigures.values()][0].panels[0].shapes().map((s) => [s.d, s.fill ?? ''])"
    )
    columns = [
        [float(v) for v in re.findall(r"-?[\d.]+", d)] for d, fill in shapes if fill.startswith("#0072")
    ]
    strokes = [d for d, fill in shapes if not fill and d.count("M") > 4]
    assert len(columns) == len(HATCHES) and len(set(strokes)) == len(strokes) == len(HATCHES) - 1
    for column, stroke in zip(columns[1:], strokes, strict=True):
        # M x y h width v height h -width, of one column above and one below the axis.
        boxes = [(x, min(y, y + h), w, abs(h)) for x, y, w, h in (column[:4], column[5:9])]
        ends = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", stroke)
        met = [
            [
                x - 0.02 <= float(u) <= x + w + 0.02 and y - 0.02 <= float(v) <= y + h + 0.02
                for x, y, w, h in boxes
            ]
            for u, v in ends
        ]
        assert all(map(any, met)), "no stroke leaves its column"
        assert all(sum(one) >= 4 for one in zip(*met, strict=True)), "both columns have some"
    with tab.expect_download() as loading:
        tab.click(".pf-tools >> text=SVG")
    swatches = ET.parse(loading.value.path()).getroot().iter("{http://www.w3.org/2000/svg}rect")
    assert sum(r.get("width") == "28" for r in swatches) == len(HATCHES)
    assert tab.errors == []


@needs_script
@needs_chromium
def test_print_has_the_printed_figure(browser, drawn, tmp_path):
    tab = opened(browser, drawn, tmp_path)
    tab.wait_for_selector(".pf canvas")
    tab.emulate_media(media="print")
    assert tab.locator("figure > svg").is_visible() and not tab.locator(".pf").is_visible()
