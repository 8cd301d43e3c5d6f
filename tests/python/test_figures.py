"""Figures: nothing left out in silence, values at their place, pictures in a notebook, readable in grey."""

import io
import itertools

import matplotlib as mpl
import numpy as np
import pytest
from conftest import SHORT
from matplotlib.image import imread

import penstock
from penstock import figures, live
from penstock.runs import Run, RunSet

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def many():
    """Twelve runs with twelve sampled flows each."""
    return penstock.run("incast", **(SHORT | {"servers": "12"}), sample="1ms", series=True, runs=12)


def grey(line) -> float:
    return float(np.dot(mpl.colors.to_rgb(line.get_color()), (0.299, 0.587, 0.114)))


def test_every_run_has_its_line_in_the_distribution_of_completion_times(many):
    axes, bar = many.plot.fct().axes
    assert len(axes.lines) == 12
    assert "12 lines" in bar.get_ylabel()
    assert axes.get_legend() is None


def test_every_flow_has_its_line_over_time_and_a_median(many):
    axes, bar = many.plot.cwnd().axes
    assert len(axes.lines) == 12 + 1
    assert bar.get_ylabel() == "flow (12 lines)"
    samples = many.tables(0)["series"]
    assert len(axes.lines[3].get_xdata()) == samples.filter(metric="cwnd_bytes", number=3).height


def test_many_lines_can_be_ordered_in_grey(many):
    axes, _ = many.plot.fct().axes
    tones = [grey(line) for line in axes.lines]
    assert tones == sorted(tones)
    assert tones[-1] - tones[0] > 0.4
    assert tones[-1] < 0.85, "too pale for white paper"


def test_few_lines_differ_in_colour_and_dash(many):
    (axes,) = many.plot.cwnd(flows=range(8)).axes
    looks = {(line.get_color(), line.get_linestyle(), str(line._dash_pattern)) for line in axes.lines}
    assert len(looks) == 8
    assert len(axes.figure.legends[0].get_texts()) == 8


def test_a_notebook_shows_a_figure_as_a_picture(many):
    for figure in (many.plot.fct(), many.plot.cwnd(), many.plot.timeouts()):
        picture = figure._repr_png_()
        assert picture.startswith(PNG)
        pixels = imread(io.BytesIO(picture))
        assert pixels.shape[0] > 300
        assert pixels[..., :3].std() > 0.01, "an empty page"


def compared(values):
    """A comparison over `values` whose goodput is 1, 2, 3 ... Mb/s."""
    made = []
    for i, _ in enumerate(values):
        summary = {"goodput_bps": 1e6 * (i + 1), "timeouts": 0.0, "valid": 1}
        made.append(RunSet("incast", 1, (Run(0, {}, summary, {}, {}),)))
    noise = tuple(0.0 for _ in made)
    return live.Comparison("rto_min", tuple(values), tuple(made), tuple(made), noise, tuple(made))


def drawn(values):
    axes = compared(values).figure().axes[0]
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    return axes, list(axes.lines[0].get_xdata()), list(axes.lines[0].get_ydata()), ticks


def test_values_with_units_stand_at_their_value():
    axes, x, _, ticks = drawn(["200us", "1ms", "10ms"])
    assert x == pytest.approx([2e-4, 1e-3, 1e-2])
    assert axes.get_xscale() == "log"
    assert ticks == ["200us", "1ms", "10ms"]


def test_values_in_any_order_make_one_line_from_left_to_right():
    _, x, y, _ = drawn(["10ms", "200us", "1ms"])
    assert x == pytest.approx([2e-4, 1e-3, 1e-2])
    assert y == [2, 3, 1]


def test_numbers_that_span_little_stand_on_a_linear_axis():
    axes, x, _, _ = drawn([1, 4, 8, 16])
    assert x == [1, 4, 8, 16]
    assert axes.get_xscale() == "linear"
    _, x, _, _ = drawn(["500", "32KB", "1KiB"])
    assert x == [500, 1024, 32_000]


@pytest.mark.parametrize(
    "values", [["newreno", "dctcp:g=0.1", "cubic"], ["100pkt", "64KB", "1MB"], ["1ms", "unlimited", "2ms"]]
)
def test_what_has_no_common_measure_stands_in_order(values):
    axes, x, y, ticks = drawn(values)
    assert x == [0, 1, 2]
    assert y == [1, 2, 3]
    assert ticks == values
    assert axes.get_xscale() == "linear"


def drawn_labels(axes):
    """The boxes of the texts below the x axis, from left to right, and the texts."""
    axes.figure.canvas.draw()
    shown = [label for label in axes.get_xticklabels() if label.get_text()]
    return [label.get_window_extent() for label in shown], [label.get_text() for label in shown]


def test_texts_below_an_axis_do_not_touch():
    with figures.style():
        _, (left, right) = figures.new(1, 2)
        long = [f"threshold:k={k}pkt" for k in (5, 10, 20, 40)]
        assert list(figures.places(left, long, "queue")) == [0, 1, 2, 3]
        # 200 and 300 us are close on an axis that reaches to 200 ms.
        figures.places(right, ["200us", "300us", "10ms", "200ms"], "rto_min")
        left.set_xlim(-0.2, 3.2)
        _, texts = drawn_labels(left)
        assert texts == long
        assert all(label.get_rotation() == 30 for label in left.get_xticklabels())
        boxes, texts = drawn_labels(right)
        assert texts == ["200us", "10ms", "200ms"]
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


def test_texts_with_room_stay_level():
    with figures.style():
        _, (axes,) = figures.new()
        figures.places(axes, ["reno", "cubic", "dctcp"], "protocol")
        assert all(label.get_rotation() == 0 for label in axes.get_xticklabels())


def test_log_axes_of_the_ledger_have_plain_numbers():
    def texts(low, high):
        figure, (ax,) = figures.new()
        ax.plot([1, 2], [low, high])
        ax.set_yscale("log")
        figures.plain_logs(figure)
        figure.canvas.draw()
        ticks = [*ax.get_yticklabels(), *ax.get_yticklabels(minor=True)]
        within = [t for t in ticks if ax.get_ylim()[0] <= t.get_position()[1] <= ax.get_ylim()[1]]
        return sorted(text.get_text() for text in within if text.get_text())

    assert texts(1.5, 60) == ["10", "2", "20", "5", "50"]
    assert texts(0.2, 3000) == ["1", "10", "100", "1000"], "of many decades only the powers"
    assert all("10^{" in text for text in texts(10, 1e7)), "long numbers stay powers"
