"""The package as a user calls it from Python."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from conftest import SHORT
from matplotlib.figure import Figure

import penstock
from penstock import scenario
from penstock.runs import Run, RunSet


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


def test_models_and_live_are_there_after_a_plain_import():
    script = """
import sys
import penstock
assert not {"numpy", "polars", "matplotlib", "scipy", "rich", "penstock._engine"} & set(sys.modules)
assert penstock.live.compare and penstock.models.marking and penstock.figures.PALETTE
assert {"live", "models", "run"} <= set(dir(penstock)) and "marking" in dir(penstock.models)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="no attribute"):
        _ = penstock.models.nonsense


def test_every_name_of_penstock_in_an_annotation_exists():
    root = Path(__file__).parents[2]
    files = [
        *root.glob("tests/**/*.py"),
        *root.glob("python/**/*.py"),
        *root.glob("docs/**/*.md"),
        root / "README.md",
    ]
    used = {
        (path.name, name)
        for path in files
        for name in re.findall(r"\bpenstock\.([A-Z]\w*)", path.read_text(encoding="utf-8"))
    }
    assert {name for _, name in used} & {"RunSet", "ScenarioError"}
    assert [(file, name) for file, name in sorted(used) if not hasattr(penstock, name)] == []


def test_a_key_that_is_no_python_name_can_be_given(tmp_path):
    # `from` is a key of some scenarios, and a word of Python.
    for call in (penstock.run, penstock.resolve, penstock.live.resolve):
        with pytest.raises(penstock.ScenarioError, match=r"from = .*unknown key"):
            call("incast", settings={"from": "a0"})
    with pytest.raises(penstock.ScenarioError, match=r"from = .*unknown key"):
        penstock.sweep([("incast", {})], settings={"from": "a0"})
    assert penstock.resolve("incast", settings={"servers": 3})["set"]["servers"] == "3"
    assert penstock.resolve("incast", servers=3)["set"]["servers"] == "3"


def test_the_scenarios_that_have_such_a_key_take_it():
    taking = [
        entry["name"]
        for entry in penstock.describe()["scenarios"]
        if any(parameter["name"] == "from" for parameter in entry["params"])
    ]
    assert taking
    for name in taking:
        (parameter,) = [p for p in penstock.describe(name)["scenarios"][0]["params"] if p["name"] == "from"]
        value = parameter["default"]
        assert penstock.resolve(name, settings={"from": value})["given"] == ["from"]


def test_a_key_given_in_two_places_is_refused():
    for call in (penstock.run, penstock.resolve):
        with pytest.raises(penstock.ScenarioError, match=r"servers = .*given twice"):
            call("incast", settings={"servers": 3}, servers=4)
    with pytest.raises(penstock.ScenarioError, match=r"servers = .*given twice"):
        penstock.sweep([("incast", {"servers": 4})], settings={"servers": 3})


@pytest.mark.parametrize("runs", [10**9, 10**30])
def test_more_runs_than_memory_is_made_for_are_refused(runs):
    with pytest.raises(penstock.ScenarioError, match=r"runs = .*at most 100000"):
        penstock.run("incast", runs=runs)
    with pytest.raises(penstock.ScenarioError, match="200000 runs of 2 points"):
        penstock.sweep([("incast", {})] * 2, runs=100_000)
    with pytest.raises(penstock.ScenarioError, match=r"jobs = .*at most 1024"):
        penstock.run("incast", jobs=runs)


def warned(*per_run):
    runs = [Run(i, {}, {}, {}, {}, warnings=tuple(texts)) for i, texts in enumerate(per_run)]
    return RunSet("incast", 1, tuple(runs))


def test_warnings_of_all_runs_are_told_once_and_others_name_their_runs():
    assert warned(["a"]).warnings == ["a"]
    assert warned(["a"], ["a"]).warnings == ["a"]
    assert warned(["a", "b"], ["a"], ["a", "c"]).warnings == ["a", "run 0: b", "run 2: c"]
    assert warned(["b"], [], ["b"]).warnings == ["runs 0, 2: b"]
    most = warned(*[["d"]] * 9, [])
    assert most.warnings == ["9 of 10 runs (0, 1, 2, ...): d"]
    assert "&#9888; run 0: b" in warned(["b"], [])._repr_html_()


def test_warnings_of_one_cause_stand_once_whatever_their_figures():
    lines = ["1 flow of 8 waited 3 ms", "2 flows of 8 waited 1.5 s"]
    assert warned(*[[line] for line in lines]).warnings == [lines[0]]
    assert warned([lines[1]], [], [lines[0]], ["other"]).warnings == [
        f"runs 0, 2: {lines[1]}",
        "run 3: other",
    ]


def test_a_sweep_says_once_that_there_is_no_incast():
    # Blocks of 2 KB to 200 KB, all smaller than the port's 1 MB: the lines differ in figures and units.
    over = {"sru": ["100B", "1KB", "10KB"], "servers": [2, 20]}
    study = penstock.study("incast", over, settings={"buffer": "1MB", "blocks": 2, "jitter": "0s"})
    told = [line for line in study.warnings if "no incast" in line]
    assert len(told) == 1
    assert "fits into the port's" in told[0]


def test_a_notebook_shows_the_bottleneck(result):
    assert result.bottleneck == "switch->client"
    assert "bottleneck: switch-&gt;client" in result._repr_html_()


def test_describe_reads_well_and_is_plain_data():
    incast = penstock.describe("incast")
    assert incast["scenarios"][0]["name"] == "incast"
    assert json.loads(json.dumps(incast)) == incast
    for text in (str(incast), incast._repr_html_()):
        assert "rto_min" in text and "bytes each server sends per block" in text
    assert "scenario incast" in str(penstock.describe("sru")) or "incast" in str(penstock.describe("sru"))
    with pytest.raises(penstock.ScenarioError, match="near it: incast"):
        penstock.describe("incest")


def test_describe_shows_profiles_summary_keys_columns_and_controls(monkeypatch):
    value = {"key": "jitter", "value": "2us", "origin": "one packet time"}
    added = {
        "scenarios": [
            {
                "name": "incast",
                "text": "blocks",
                "params": [],
                "profiles": [{"name": "25g", "text": "25 Gb/s", "values": [value]}],
            }
        ],
        "receive_controls": [{"name": "ictcp", "text": "windows of the receiver", "params": []}],
        "summary_keys": [{"name": "goodput_bps", "unit": "bit/s", "text": "payload acknowledged"}],
        "tables": [
            {
                "name": "flows",
                "text": "one row per flow",
                "columns": [{"name": "fct_s", "unit": "s", "text": "time"}],
            }
        ],
    }
    monkeypatch.setattr(scenario, "describe", lambda: added)
    for name, words in {
        "incast": ["--profile 25g", "25 Gb/s", "jitter", "2us", "one packet time"],
        "ictcp": ["receiver-side control", "windows of the receiver"],
        "goodput_bps": ["summary key, in bit/s", "payload acknowledged"],
        "fct_s": ["column of table flows, in s", "time"],
        "flows": ["one row per flow", "fct_s"],
    }.items():
        shown = str(penstock.describe(name))
        for word in words:
            assert word in shown, (name, shown)


def test_the_engine_hears_the_name_of_a_file(tmp_path):
    path = tmp_path / "racks.toml"
    path.write_text('scenario = "incast"\n')
    document = json.loads(scenario.spec(path, {}, 1))
    assert document["name"] == str(path)
    assert document["base_dir"] == str(tmp_path)
