"""The package as a user calls it from Python."""

import math

import numpy as np
import polars as pl
import pytest
from conftest import SHORT
from matplotlib.figure import Figure

import penstock


@pytest.fixture(scope="module")
def result():
    return penstock.run("incast", servers=4, duration="200ms", protocol="newreno", runs=3)


def test_a_result_has_means_intervals_values_and_tables(result):
    assert len(result.runs) == 3
    values = result.values("goodput_bps")
    assert values.shape == (3,)
    assert result.mean("goodput_bps") == pytest.approx(values.mean())
    assert result.summary["goodput_bps"] == pytest.approx(values.mean())
    assert result.ci95("goodput_bps") == pytest.approx(4.3027 * values.std(ddof=1) / math.sqrt(3), rel=1e-4)
    assert isinstance(result.flows, pl.DataFrame)
    assert result.flows["run"].unique().sort().to_list() == [0, 1, 2]
    assert result.tables(1)["ports"].height > 0
    assert result.statistics().columns == ["key", "mean", "ci95"]


def test_numbers_of_any_kind_are_taken():
    one = penstock.run("incast", servers=np.int64(4), duration="50ms", sru=np.float64(64_000))
    two = penstock.run("incast", servers="4", duration="50ms", sru="64KB")
    assert one.summaries == two.summaries


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"servers": -1}, ["servers", "-1", "at least"]),
        ({"sevrers": 3}, ["sevrers"]),
        ({"link_rate": "10km"}, ["link_rate", "10km"]),
        ({"servers": [1, 2]}, ["servers", "[1, 2]", "a string, a number"]),
        ({"servers": None}, ["servers", "None"]),
        ({"runs": 0}, ["runs", "0", "at least 1"]),
        ({"seed": 1.5}, ["seed", "1.5", "whole number"]),
        ({"seed": True}, ["seed"]),
        ({"jobs": 0}, ["jobs", "0"]),
        ({"keep": ["flow"]}, ["keep", "flow", "flows"]),
    ],
)
def test_a_bad_argument_is_a_value_error_that_names_it(settings, words):
    with pytest.raises(ValueError) as caught:
        penstock.run("incast", **settings)
    assert isinstance(caught.value, penstock.ScenarioError)
    assert len(str(caught.value).splitlines()) == 1
    for word in words:
        assert word in str(caught.value)
    assert caught.value.key in words
    assert caught.value.rule


def test_a_bad_point_stops_a_sweep_before_anything_runs():
    heard = []
    points = [("incast", {"duration": "100s"}), ("incast", {"servers": "x"})]
    with pytest.raises(penstock.ScenarioError, match="servers"):
        penstock.sweep(points, on_progress=heard.append)
    assert heard == []


def test_an_unknown_summary_key_is_answered_with_the_known_ones(result):
    with pytest.raises(KeyError, match="goodput_bps"):
        result.mean("goodput")


def test_a_table_that_was_not_kept_is_named():
    with pytest.raises(KeyError, match="flows"):
        _ = penstock.run("incast", **SHORT, keep=()).flows


def test_a_run_directory_reads_back_as_it_was(result, tmp_path):
    back = penstock.load(result.save(tmp_path))
    assert back.summaries == result.summaries
    assert back.scenario == result.scenario
    assert back.flows.equals(result.flows)
    assert back.ports.equals(result.ports)
    with pytest.raises(penstock.ScenarioError, match="no run directory"):
        penstock.load(tmp_path / "nothing")


def test_a_notebook_shows_a_table(result):
    text = result._repr_html_()
    assert "goodput_bps" in text
    assert "Mb/s" in text
    assert "3 runs" in text
    assert "servers = 4" in text


def test_figures_of_a_result(result):
    assert isinstance(result.plot.fct(), Figure)
    assert isinstance(result.plot.timeouts(), Figure)
    with pytest.raises(KeyError, match="sampled"):
        result.plot.queue()


def test_samples_draw_queue_and_window():
    sampled = penstock.run("incast", **SHORT, sample="100us", series=True)
    (axes,) = sampled.plot.queue().axes
    assert "packets" in axes.get_ylabel()
    assert len(axes.lines) == 1
    (axes,) = sampled.plot.cwnd(flows=[0, 2]).axes
    assert len(axes.lines) == 2
    with pytest.raises(KeyError, match="cwnd_bytes"):
        sampled.plot.metric("nonsense")


def test_resolve_and_describe_are_plain_data():
    assert "incast" in [entry["name"] for entry in penstock.describe()["scenarios"]]
    assert penstock.resolve("incast", {"servers": 7})
    with pytest.raises(AttributeError, match="no attribute"):
        _ = penstock.ran
