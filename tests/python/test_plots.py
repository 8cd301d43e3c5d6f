"""Figures of a run and of a study: what they show is what the tables hold, and it can be read in grey."""

import json

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from conftest import inline, penstock, settings
from matplotlib.collections import LineCollection
from PIL import Image

import penstock as lab
from penstock import figures, layout, plot
from penstock.runs import FIGURES, Run, RunSet

TIMED = {"servers": "24", "blocks": "3", "sample": "500us", "series": "true"}


@pytest.fixture(scope="module")
def collapsed() -> RunSet:
    """An incast that collapses, with samples and a look at every packet."""
    return lab.run("incast", settings=TIMED | {"deliveries": "true"}, runs=2)


@pytest.fixture(scope="module")
def fabric() -> RunSet:
    return lab.run("permutation", topology="leaf-spine:4x2x4", duration="200us", runs=2)


# --- where nodes stand ---------------------------------------------------------------------------------


def links(*pairs: str) -> list[tuple[str, str]]:
    return [tuple(pair.split("-")) for pair in pairs]  # type: ignore[misc]


def test_a_star_has_those_who_only_receive_on_the_other_side():
    found = layout.layout(links("a-s", "b-s", "c-s"), sources=["a", "b"], sinks=["c"])
    assert found.kind == "star"
    assert found.hosts == {"a", "b", "c"}
    assert found.places["a"][0] == found.places["b"][0] < found.places["s"][0] < found.places["c"][0]


def test_a_dumbbell_and_a_chain_run_from_left_to_right():
    dumbbell = layout.layout(links("a-r1", "b-r1", "r1-r2", "r2-c", "r2-d"))
    assert dumbbell.kind == "chain"
    x = {name: place[0] for name, place in dumbbell.places.items()}
    assert x["a"] == x["b"] < x["r1"] < x["r2"] < x["c"] == x["d"]
    chain = layout.layout(links("a-r1", "r1-r2", "b-r2", "r2-r3", "r3-c"))
    assert [chain.places[r][0] for r in ("r1", "r2", "r3")] == pytest.approx([0.25, 0.5, 0.75])
    assert chain.places["b"] == (pytest.approx(0.5), -1.0)


@pytest.mark.parametrize(
    ("topology", "kind", "heights"),
    [
        ("leaf-spine:4x2x4", "tiers", {"h": -1, "leaf": 0, "spine": 1}),
        ("fat-tree:4", "tiers", {"h": -1, "edge": 0, "agg": 1, "core": 2}),
        ("dragonfly:1,2,1", "circle", {}),
    ],
)
def test_a_fabric_stands_in_its_tiers(topology, kind, heights):
    found = lab.run("permutation", topology=topology, duration="20us")
    names = [tuple(name.split("->")) for name in found.ports["name"]]
    net = layout.layout(names)
    assert net.kind == kind
    assert len(set(net.places.values())) == len(net.places), "two nodes at one place"
    assert set(net.places) == {end for pair in names for end in pair}
    for node, (_, y) in net.places.items():
        assert y == heights.get(node.rstrip("0123456789."), y)


def test_a_tree_of_switches_hangs_from_its_middle():
    found = layout.layout(links("m-h", "m-x", "m-y", "m-z", "x-a", "y-b", "z-c", "z-d"))
    assert found.kind == "tree"
    assert found.places["m"][1] > found.places["z"][1] > found.places["d"][1]
    assert found.places["z"][0] == pytest.approx((found.places["c"][0] + found.places["d"][0]) / 2)


def test_names_are_in_the_order_of_their_numbers():
    assert sorted(["h10", "h2", "agg1.10", "agg1.9"], key=layout.natural) == [
        "agg1.9",
        "agg1.10",
        "h2",
        "h10",
    ]


# --- the figures ------------------------------------------------------------------------------------------


def test_every_port_has_its_half_of_a_link_and_its_value(fabric):
    axes = fabric.plot.utilisation().axes[0]
    (drawn,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    means = fabric.ports.group_by("name").agg(pl.col("utilisation").mean())
    assert len(drawn.get_segments()) == means.height
    assert sorted(drawn.get_array().tolist()) == pytest.approx(sorted(means["utilisation"]))
    widths = np.asarray(drawn.get_linewidths())
    assert (np.diff(widths[np.argsort(drawn.get_array())]) >= 0).all(), "more is not wider"
    # A half begins at the node whose port it is.
    net = layout.layout([tuple(name.split("->")) for name in means["name"]])
    begins = {tuple(np.round(piece[0], 9)) for piece in drawn.get_segments()}
    assert begins == {tuple(np.round(place, 9)) for place in net.places.values()}


def test_another_column_of_the_ports_can_be_shown(fabric):
    figure = fabric.plot.utilisation("ce_marks")
    assert figure.axes[1].get_ylabel() == "ce_marks"
    with pytest.raises(lab.ScenarioError, match=r"column = \"name\": must be one of .*utilisation"):
        fabric.plot.utilisation("name")


def test_the_share_of_the_time_that_a_queue_was_so_long(collapsed):
    axes = collapsed.plot.queue_cdf().axes[0]
    assert len(axes.lines) == 2
    samples = collapsed.samples(1).filter(pl.col("metric") == "queue_packets")["value"].to_numpy()
    x, y = axes.lines[1].get_data()
    for length in (0, 10, 31):
        assert y[np.searchsorted(x, length, side="right") - 1] == pytest.approx((samples <= length).mean())


def test_a_story_tells_queue_windows_drops_and_timeouts_on_one_axis(collapsed):
    low, high = 0.15, 0.45
    figure = collapsed.plot.story(low, high)
    queue, windows, drops, timeouts = figure.axes
    assert len({ax.get_xlim() for ax in figure.axes}) == 1
    assert queue.get_xlim() == (low, high)
    samples = collapsed.samples().filter(pl.col("time_s").is_between(low, high))
    long = samples.filter(pl.col("metric") == "queue_packets")
    assert list(queue.lines[0].get_ydata()) == long["value"].to_list()
    assert len([line for line in windows.lines if len(line.get_xdata()) > 2]) == 24 + 1
    # The bars of a window that begins later count from there, not from the start of the run.
    total = collapsed.samples().filter(pl.col("metric") == "drops")
    until = [total.filter(pl.col("time_s") <= t)["value"].max() for t in (low - 1e-9, high)]
    assert sum(bar.get_height() for bar in drops.patches) == until[1] - until[0]
    late = collapsed.tables()["events"].filter(
        pl.col("what").str.starts_with("timeout") & pl.col("time_s").is_between(low, high)
    )
    marks = [line for line in timeouts.lines if line.get_marker() not in ("None", "")]
    assert late.height > 5
    assert sum(len(line.get_xdata()) for line in marks) == late.height
    assert len({line.get_marker() for line in marks}) == len(marks) == late["what"].n_unique()


def test_a_story_of_some_flows(collapsed):
    figure = collapsed.plot.story(flows=[1, 5])
    labels = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert labels == ["flow 1", "flow 5"]
    with pytest.raises(lab.ScenarioError, match=r"t0, t1 = \"9, 10\": hold no sample; there are some from"):
        collapsed.plot.story(9, 10)


def test_what_was_not_recorded_says_what_to_add():
    bare = lab.run("incast", servers=2, duration="10ms", keep=["ports"])
    half = lab.run("incast", servers=2, duration="1ms", sample="1ms")
    none = lab.run("incast", servers=2, duration="10ms", sample="1ms", series=True, keep=[])
    for make, said in (
        (lambda: bare.flows, 'table "flows" was not kept: add keep=["flows"]'),
        (
            bare.plot.queue,
            'nothing was sampled in these runs: add sample="100us" (or another interval) and series=True',
        ),
        (half.plot.cwnd, "nothing was sampled in these runs: add series=True"),
        (none.plot.story, 'table "series" was not kept: add keep=["series"]'),
        (bare.plot.timeouts, 'table "events" was not kept: add keep=["events"]'),
        (bare.plot.slowdown, 'table "flows" was not kept: add keep=["flows"]'),
        (half.plot.fct, "none of the flows and transfers was completed in these runs"),
        (lambda: bare.mean("nothing"), "no summary key 'nothing'; there are:"),
    ):
        with pytest.raises(KeyError) as problem:
            make()
        assert str(problem.value).startswith(said)


def test_completion_times_are_those_of_flows_where_nothing_is_written_twice():
    found = lab.run("poisson", duration="1s", keep=["flows"])
    axes = found.plot.fct().axes[0]
    assert axes.get_ylabel() == "share of flows"
    done = found.flows.filter(pl.col("fct_s").is_finite())["fct_s"].sort()
    assert list(axes.lines[0].get_xdata()) == done.to_list()


def test_slowdown_of_one_size_has_bars_for_its_intervals(collapsed):
    axes = collapsed.plot.slowdown().axes[0]
    quantiles = collapsed.by_size()
    assert quantiles.height == 1
    (bar,) = axes.collections[-1].get_segments()
    low, high = bar[0][1], bar[1][1]
    assert (high + low) / 2 == pytest.approx(quantiles["slowdown_p99"][0])
    assert (high - low) / 2 == pytest.approx(quantiles["slowdown_p99_ci95"][0])


def test_few_flows_have_hollow_marks():
    found = lab.run("poisson", duration="1s", runs=2)
    assert found.by_size(bins=4)["flows"].max() < 200
    lines = found.plot.slowdown(bins=4).axes[0].lines
    hollow = [line for line in lines if line.get_markerfacecolor() == "white"]
    assert [len(line.get_xdata()) for line in hollow] == [4], "the median needs two flows, the 99th 100"


# --- many lines -------------------------------------------------------------------------------------------


def made_up(count: int) -> lab.Study:
    points = tuple({"servers": n, "k": k} for k in range(count) for n in (1, 2, 4))
    sets = tuple(
        RunSet("x", 1, tuple(Run(i, {}, {"drops": 10.0 * p["k"] + p["servers"] + i}, {}, {}) for i in (0, 1)))
        for p in points
    )
    return lab.Study("x", 1, ("servers", "k"), points, sets)


def test_eight_lines_share_a_panel_with_the_names_beside_it():
    figure = made_up(8).plot.curve("servers", "drops")
    assert len(figure.axes) == 1
    assert len(figure.axes[0].lines) == 8
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [str(k) for k in range(8)]


@pytest.mark.parametrize("count", [9, 24])
def test_more_get_a_panel_each_with_band(count):
    figure = made_up(count).plot.curve("servers", "drops")
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_title(loc="left") for ax in shown] == [str(k) for k in range(count)]
    assert all(len(ax.collections) == 1 for ax in shown), "a band is missing"
    assert list(shown[3].lines[-1].get_ydata()) == [31.5, 32.5, 34.5]


def test_still_more_are_shaded_in_order():
    figure = made_up(25).plot.curve("servers", "drops")
    assert len(figure.axes[0].lines) == 25
    tones = [grey(line.get_color()) for line in figure.axes[0].lines]
    assert tones == sorted(tones)


def grey(colour) -> float:
    return float(np.dot(mpl.colors.to_rgb(colour), (0.299, 0.587, 0.114)))


# --- grey ---------------------------------------------------------------------------------------------------


def test_looks_differ_without_colour():
    looks = {(figures.look(i)["linestyle"], figures.look(i)["marker"]) for i in range(8)}
    assert len({str(dash) for dash, _ in looks}) == len({mark for _, mark in looks}) == 8
    assert all(grey(colour) < 0.7 for colour in figures.PALETTE), "too pale for white paper"


def test_the_scale_of_the_network_is_monotone_in_grey(fabric):
    drawn = fabric.plot.utilisation().axes[0].collections[0]
    tones = [grey(drawn.cmap(x)) for x in np.linspace(0, 1, 50)]
    assert (np.diff(tones) < 0).all(), "busy is not darker"
    assert tones[0] < 0.8


@pytest.mark.parametrize("value", np.linspace(0, 1, 11))
def test_numbers_can_be_read_on_every_cell(value):
    cell = mpl.colormaps[figures.MAP](value)
    ink = figures.ink_on(cell)
    light, dark = sorted((luminance(cell), luminance(ink)), reverse=True)
    # WCAG 2.1, section 1.4.3 (large text).
    assert (light + 0.05) / (dark + 0.05) > 3


def luminance(colour) -> float:
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in mpl.colors.to_rgb(colour)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_colours_of_lines_cover_the_page_in_grey_as_in_colour(collapsed, tmp_path):
    path = figures.write(collapsed.plot.story(), tmp_path, "story")
    with Image.open(path) as picture:
        ink = np.asarray(picture.convert("L"))
    for part in np.array_split(ink[: int(0.93 * len(ink))], 4):
        assert (part < 170).mean() > 0.002, "a panel has nothing that shows in grey"


# --- the command line ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_every_name_is_a_figure(collapsed, name):
    figure = plot.draw(collapsed, name)
    assert figure.axes[0].get_title(loc="left").startswith("incast")
    assert any(ax.lines or ax.collections for ax in figure.axes)


def test_run_draws_what_it_is_asked_for(tmp_path):
    out = tmp_path / "it"
    done = inline(
        "run",
        "incast",
        *settings(TIMED | {"blocks": "1", "sample": "2ms"}),
        "--plot",
        "utilisation,story,fct",
        "--out",
        str(out),
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scenario"]["scenario"] == "incast"
    for name in ("utilisation", "story", "fct"):
        path = out / "figures" / f"{name}.png"
        assert f"figure: {path}" in done.stderr
        with Image.open(path) as picture:
            assert np.asarray(picture.convert("L")).std() > 5, "an empty page"
        assert path.with_suffix(".svg").stat().st_size > 2000
    assert lab.load(out).summaries


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--plot", "fct"], '--plot = "fct": needs --out DIR'),
        (["--plot", "nope", "--out", "x"], '--plot = "nope": must be one of fct, slowdown'),
        (["--plot", "", "--out", "x"], '--plot = "": must be one of'),
        (
            ["--plot", "queue", "--out", "x"],
            "needs samples: add --set sample=100us (or another interval) and",
        ),
        (["--plot", "story", "--set", "sample=1ms", "--out", "x"], "needs samples: add --set series=true"),
        (["--plot", "reordering", "--out", "x"], "needs a look at every packet: add --set deliveries=true"),
    ],
)
def test_a_figure_that_cannot_be_is_refused_before_the_run(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = inline("run", "incast", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_figure_without_anything_to_show_is_said_so(tmp_path):
    words = ["incast", "--set", "duration=1ms", "--plot", "fct,utilisation", "--out", str(tmp_path / "it")]
    done = inline("run", *words)
    assert done.returncode == 0
    assert "warning: no figure fct: none of the flows and transfers was completed" in done.stderr
    assert (tmp_path / "it/figures/utilisation.png").exists()


def test_the_shell_completes_figures():
    from penstock import completion

    assert [name for name, _ in completion.figures("q")] == ["queue", "queue-cdf"]
    assert [name for name, _ in completion.figures("fct,s")] == ["fct,slowdown", "fct,story"]
    assert "plot" in penstock("run", "--help").stdout


def told(figure) -> str:
    """All text of a figure."""
    import matplotlib.text

    return "\n".join(text.get_text() for text in figure.findobj(matplotlib.text.Text))


def test_a_story_of_thousands_of_blocks_is_no_black_area():
    found = lab.run("incast", servers=2, sru="5KB", duration="1s", sample="200us", series=True)
    blocks = found.events.filter(pl.col("what") == "block").height
    assert blocks > 1000
    figure = found.plot.story()
    assert all(len(ax.lines) < 50 for ax in figure.axes)
    assert "blocks end" in told(figure) and "shaded: least to most" in told(figure)
    # The range of a bin holds every sample of it, the mean is the samples' mean.
    from penstock.plot import _binned

    when, values = np.arange(10_000) / 1e4, np.tile([0.0, 4.0], 5000)
    at, least, mean, most = _binned(when, values)
    assert at.size == 400 and set(least) == {0.0} and set(most) == {4.0}
    assert abs(mean.mean() - 2.0) < 0.05


@pytest.mark.parametrize(
    ("protocol", "label"), [("dcqcn", "rate\n(b/s)"), ("timely", "rate\n(b/s)"), ("hpcc", "window\n(bytes)")]
)
def test_a_story_of_rdma_shows_what_holds_its_senders_back(protocol, label):
    more = {"protocol": protocol, "topology": "star:8", "duration": "1ms"}
    found = lab.run("rdma", **more, sample="10us", series=True)
    figure = found.plot.story()
    assert label in told(figure)
    assert figure.axes[1].lines or figure.axes[1].collections
