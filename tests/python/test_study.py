"""Studies: points, the store (killed, extended, damaged), pairing, adaptive replication, `penstock sweep`."""

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from conftest import PENSTOCK, inline, penstock, settings

import penstock as lab
from penstock import grid, store, studies
from penstock.runs import Run, RunSet

BRIEF = {"duration": "40ms", "rto_min": "1ms", "sru": "32KB"}
OVER = {"servers": [2, 4], "protocol": ["newreno", "cubic"]}


def brief(**more) -> studies.Study:
    return lab.study("incast", more.pop("over", OVER), **{"runs": 2, "settings": BRIEF, **more})


def entries(folder: Path) -> dict[str, int]:
    """The stored runs with the time each was written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "runs").glob("*/[!.]*.json")}


def test_a_grid_has_every_combination_in_the_order_given():
    found = grid.grid({"b": "1,2", "a": ["x", "y"]})
    assert [(p["b"], p["a"]) for p in found] == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("5..80:6", "", [5, 20, 35, 50, 65, 80]),
        ("0..1:5", "", [0, 0.25, 0.5, 0.75, 1]),
        ("100us..1ms:4", "", ["100us", "400us", "700us", "1000us"]),
        ("1ms..100ms:3:log", "", ["1ms", "10ms", "100ms"]),
        ("10..40pkt:4", "", ["10pkt", "20pkt", "30pkt", "40pkt"]),
        ("1..8:3", "count", [1, 4, 8]),
        ("threshold:k=5pkt..15pkt:2", "text", ["threshold:k=5pkt", "threshold:k=15pkt"]),
        ("red:min=5pkt,max=9pkt,droptail", "text", ["red:min=5pkt,max=9pkt", "droptail"]),
        ("dctcp, cubic", "text", ["dctcp", "cubic"]),
    ],
)
def test_a_list_or_range_gives_these_values(text, kind, values):
    assert [point["k"] for point in grid.grid({"k": text}, {"k": kind})] == values


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("5..80", "N from 2"),
        ("5..80:1", "N from 2"),
        ("5us..80pkt:3", "different units"),
        ("5furlong..8furlong:3", "none that is known"),
        ("0..8:3:log", "above zero"),
        ("5..5:3", "equal ends"),
        ("5..8:x", "must be A..B:N"),
        ("4,4", "given twice"),
        ("1..2:200000", "at most|N from 2"),
    ],
)
def test_what_is_no_range_is_refused(text, rule):
    with pytest.raises(lab.ScenarioError, match=rule):
        grid.grid({"k": text})


def test_a_latin_hypercube_has_one_point_in_every_slice():
    points = grid.latin({"a": "0..10", "t": "1ms..100ms:log", "p": ["x", "y"]}, 10, 7)
    assert sorted(int(p["a"]) for p in points) == list(range(10))
    powers = [math.log10(float(p["t"].removesuffix("ms"))) for p in points]
    assert sorted(int(5 * power) for power in powers) == list(range(10))
    assert [p["p"] for p in points].count("x") == 5
    assert points == grid.latin({"a": "0..10", "t": "1ms..100ms:log", "p": ["x", "y"]}, 10, 7)
    assert points != grid.latin({"a": "0..10", "t": "1ms..100ms:log", "p": ["x", "y"]}, 10, 8)


def test_a_range_to_sample_takes_no_number_of_values():
    with pytest.raises(lab.ScenarioError, match="without a number of values"):
        grid.latin({"a": "0..10:3"}, 10, 7)


def test_a_point_of_a_study_is_what_run_gives():
    found = brief()
    for point, runs in zip(found.points, found.sets, strict=True):
        alone = lab.run("incast", runs=2, settings={**BRIEF, **point})
        assert json.dumps(runs.summaries) == json.dumps(alone.summaries)
        assert runs.warnings == alone.warnings
        assert runs.scenario == alone.scenario


def test_the_frame_is_tidy():
    found = brief(over={"rto_max": "1s,60s", "buffer": "16pkt,32pkt", "blocks": "3,4"}, runs=1)
    frame = found.frame
    # `blocks` is a summary key too.
    assert frame.columns[:4] == ["rto_max_s", "buffer_packets", "set_blocks", "run"]
    assert frame.height == 8
    assert frame["rto_max_s"].to_list() == [1.0] * 4 + [60.0] * 4
    assert frame["set_blocks"].to_list() == [3, 4] * 4
    summary = found.sets[3].runs[0].summary
    assert {key: frame[key][3] for key in ("goodput_bps", "drops")} == {
        key: summary[key] for key in ("goodput_bps", "drops")
    }
    means = brief().mean()
    assert means["runs"].to_list() == [2] * 4
    one = brief().sets[2]
    assert means["goodput_bps"][2] == one.mean("goodput_bps")
    assert means["goodput_bps_ci95"][2] == one.ci95("goodput_bps")


def test_values_of_several_kinds_are_text():
    assert grid.column("buffer", ["16pkt", "32KB"], "amount").to_list() == ["16pkt", "32KB"]
    assert grid.column("sru", ["1000", "2KB"], "size").name == "sru_bytes"


def test_points_that_name_different_keys_show_the_scenarios_own_value():
    found = lab.study("incast", points=[{"servers": 2}, {"protocol": "cubic"}], settings=BRIEF)
    assert found.frame["servers"].to_list() == [2, 32]
    assert found.frame["protocol"].to_list() == [found.sets[0].scenario["set"]["protocol"], "cubic"]


def test_what_is_stored_is_not_run_again_and_an_extension_runs_what_is_new(tmp_path):
    first = brief(store=tmp_path)
    assert (first.ran, first.stored) == (8, 0)
    written = entries(tmp_path)
    assert len(written) == 8
    again = brief(store=tmp_path)
    assert (again.ran, again.stored) == (0, 8)
    assert again.frame.write_csv() == first.frame.write_csv() == brief().frame.write_csv()
    assert again.warnings == first.warnings
    more = brief(over={"protocol": ["newreno", "cubic"], "servers": [2, 4, 6]}, runs=3, store=tmp_path)
    assert (more.ran, more.stored) == (10, 8)
    now = entries(tmp_path)
    assert len(now) == 18
    assert {name: now[name] for name in written} == written


def test_points_that_come_to_the_same_scenario_share_their_runs(tmp_path):
    found = lab.study("incast", points=[{"servers": 32}, {}], settings=BRIEF, store=tmp_path)
    assert found.ran == 1
    assert found.sets[0].summaries == found.sets[1].summaries


def test_another_seed_engine_or_file_is_another_run(tmp_path, monkeypatch):
    sizes, file = tmp_path / "sizes.csv", tmp_path / "it.toml"
    file.write_text('scenario = "mix"\nduration = "20ms"\nwarmup = "0s"\nsizes = "cdf:sizes.csv"\n')
    sizes.write_text("1000 50\n2000 100\n")
    kept = tmp_path / "store"

    def ran(**more) -> int:
        return lab.study(file, {"segment": ["1000B"]}, store=kept, **more).ran

    assert (ran(), ran(), ran(seed=2), ran(seed=2)) == (1, 0, 1, 0)
    sizes.write_text("1000 50\n4000 100\n")
    assert (ran(), ran()) == (1, 0)
    monkeypatch.setattr(store, "engine", lambda: "another")
    assert ran() == 1


@pytest.mark.parametrize("damage", ["cut short", "emptied", "changed"])
def test_a_damaged_entry_is_found_and_run_again(tmp_path, damage):
    first = brief(store=tmp_path)
    hurt = sorted((tmp_path / "runs").glob("*/*.json"))[3]
    text = hurt.read_text()
    broken = {"cut short": text[: len(text) // 2], "emptied": "", "changed": text.replace("0", "1")}
    hurt.write_text(broken[damage])
    again = brief(store=tmp_path)
    assert (again.ran, again.stored) == (1, 7)
    assert "1 entries of the store were damaged and were run again" in again.warnings
    assert again.frame.equals(first.frame)
    assert brief(store=tmp_path).ran == 0


def test_tables_are_stored_when_asked_for_and_damage_to_one_is_found(tmp_path):
    brief(store=tmp_path)
    kept = brief(store=tmp_path, keep=["flows"])
    assert kept.ran == 8
    again = brief(store=tmp_path, keep="flows")
    assert again.ran == 0
    assert again.sets[1].flows.equals(kept.sets[1].flows)
    table = next((tmp_path / "runs").glob("*/*.parquet"))
    table.write_bytes(table.read_bytes()[:100])
    assert brief(store=tmp_path, keep=["flows"]).ran == 1


def test_a_disk_that_takes_no_more_loses_no_result(tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.Store, "put", full)
    found = brief(store=tmp_path)
    assert found.frame.height == 8
    assert "8 runs could not be stored (No space left on device)" in found.warnings
    done = inline("sweep", "incast", "--over", "servers=2", *settings(BRIEF), "--out", str(tmp_path))
    assert done.returncode == 3


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    (tmp_path / "store.json").write_text('{"format": 99}')
    with pytest.raises(lab.ScenarioError, match="format 99"):
        brief(store=tmp_path)
    lab.run("incast", settings=BRIEF, keep=(), servers=2).save(tmp_path / "run")
    with pytest.raises(lab.ScenarioError, match="holds a run"):
        brief(store=tmp_path / "run")


SWEEP = ["sweep", "incast", "--over", "servers=2..16:8", "--over", "protocol=newreno,cubic", "--runs", "2"]
SWEEP += [*settings({**BRIEF, "duration": "300ms"}), "--jobs", "2", "--json"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("straight")
    done = penstock(*SWEEP, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_a_study_that_is_killed_again_and_again_ends_with_the_same_bytes(tmp_path, straight):
    total, made, kills = 32, [], 0
    for least in (1, 6, 18):
        program = subprocess.Popen(
            [str(PENSTOCK), *SWEEP, "--out", str(tmp_path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while program.poll() is None and len(entries(tmp_path)) < least:
            time.sleep(0.002)
        program.kill()
        kills += program.wait() == -signal.SIGKILL
        made.append(entries(tmp_path))
    assert kills >= 2, "the study was over before it could be killed"
    last = penstock(*SWEEP, "--out", str(tmp_path))
    assert last.returncode == 0, last.stderr
    # Entries that exist after a kill are whole and were not written again.
    final = entries(tmp_path)
    assert len(final) == total
    for there in made:
        assert {name: final[name] for name in there} == there
    assert f"({total - len(made[-1])} runs made now, {len(made[-1])} from the store)" in last.stderr
    for name in ("summary.csv", "summary.parquet"):
        assert (tmp_path / name).read_bytes() == (straight / name).read_bytes()


@pytest.mark.full
def test_two_hundred_points_killed_at_ten_random_moments(tmp_path):
    """The same bytes as one that ran through, and no run done twice."""
    command = ["sweep", "incast", "--over", "servers=2..51:50", "--over", "protocol=newreno,cubic,sack,reno"]
    command += [*settings({**BRIEF, "duration": "200ms"}), "--jobs", "2"]
    total, draw = 200, random.Random(19)
    moments = sorted(draw.randrange(total) for _ in range(10))
    there: dict[str, int] = {}
    kills = 0
    for least in moments:
        program = subprocess.Popen(
            [str(PENSTOCK), *command, "--out", str(tmp_path / "killed")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while program.poll() is None and len(entries(tmp_path / "killed")) <= least:
            time.sleep(draw.uniform(0.0005, 0.003))
        program.kill()
        kills += program.wait() == -signal.SIGKILL
        now = entries(tmp_path / "killed")
        assert {name: now[name] for name in there} == there, "nothing that was stored is written again"
        there = now
    assert kills >= 9, "the study was over before it could be killed"
    last = penstock(*command, "--out", str(tmp_path / "killed"), timeout=600)
    assert f"({total - len(there)} runs made now, {len(there)} from the store)" in last.stderr
    assert penstock(*command, "--out", str(tmp_path / "straight"), timeout=600).returncode == 0
    for name in ("summary.csv", "summary.parquet"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
    assert len(entries(tmp_path / "killed")) == total


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    program = subprocess.Popen(
        [str(PENSTOCK), *SWEEP, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while program.poll() is None and len(entries(tmp_path)) < 3:
        time.sleep(0.002)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=20)
    assert program.returncode == 130, err
    assert "Traceback" not in err
    ended = sum(len(point["runs"]) for point in json.loads(out))
    assert 3 <= ended < 32
    assert ended == len(entries(tmp_path))
    assert f"interrupted: {ended} runs are finished" in err


def test_interrupted_in_python_has_the_study(monkeypatch):
    seen = []

    def cut(done: float) -> None:
        seen.append(done)
        if done >= 0.5:
            raise KeyboardInterrupt

    with pytest.raises(lab.Interrupted) as stop:
        brief(jobs=1, on_progress=cut)
    assert stop.value.study is not None
    assert 4 <= stop.value.study.frame.height < 8
    assert all(runs.completed for runs in stop.value.results)


def test_a_study_whose_workers_die_goes_on_from_what_was_stored(tmp_path):
    from concurrent.futures import BrokenExecutor, Executor, Future

    class Dying(Executor):
        """Does three jobs and takes no fourth."""

        jobs = 0

        def submit(self, fn, /, *args, **kwargs):
            self.jobs += 1
            if self.jobs > 3:
                raise BrokenExecutor("the workers died")
            future = Future()
            future.set_result(fn(*args, **kwargs))
            return future

    with pytest.raises(lab.RunFailed, match="the workers died") as stop:
        brief(store=tmp_path, executor=Dying())
    assert stop.value.study is not None
    assert stop.value.study.frame.height == len(entries(tmp_path)) == 3
    rest = brief(store=tmp_path)
    assert (rest.ran, rest.stored) == (5, 3)
    assert rest.frame.equals(brief().frame)


def test_worker_processes_give_the_same_frame():
    with ProcessPoolExecutor(2) as pool:
        processes = brief(executor=pool)
    assert processes.frame.write_csv() == brief(jobs=1).frame.write_csv()


def made_up(values: dict[str, list[float]]) -> studies.Study:
    """A study of protocols with these goodputs by run."""
    points = tuple({"protocol": name} for name in values)
    runs = [
        tuple(Run(i, {}, {"goodput_bps": value}, {}, {}) for i, value in enumerate(found))
        for found in values.values()
    ]
    sets = tuple(RunSet("incast", 1, found) for found in runs)
    return studies.Study("incast", 1, ("protocol",), points, sets)


def test_paired_differences_are_those_of_equal_run_numbers():
    found = made_up({"a": [10.0, 20.0, 30.0], "b": [11.0, 23.0, 32.0, 99.0], "c": [9.0, 19.0, 29.0]})
    frame = found.paired("goodput_bps", "protocol", "a")
    assert frame["protocol"].to_list() == ["b", "c"]
    # Differences 1, 3, 2: mean 2, standard deviation 1; t(2, 0.975) = 4.302653.
    assert frame["difference"].to_list() == [2.0, -1.0]
    assert frame["ci95"][0] == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert frame["low"][0] == pytest.approx(2 - 2.484138, abs=1e-5)
    assert frame["ci95"][1] == 0.0
    assert frame["n"].to_list() == [3, 3]


@pytest.mark.parametrize(
    ("key", "by", "baseline", "rule"),
    [
        ("nokey", "protocol", "a", "no summary key"),
        ("goodput_bps", "servers", "a", "was not varied"),
        ("goodput_bps", "protocol", "z", "no value of protocol"),
    ],
)
def test_a_pairing_of_what_is_not_there_is_refused(key, by, baseline, rule):
    with pytest.raises(lab.ScenarioError, match=rule):
        made_up({"a": [1.0], "b": [2.0]}).paired(key, by, baseline)


def of_schemes() -> studies.Study:
    """Three protocols, each with a queue of its own."""
    points = (
        {"protocol": "dctcp", "queue": "threshold:k=20pkt"},
        {"protocol": "newreno", "queue": "droptail"},
        {"protocol": "cubic", "queue": "droptail"},
    )
    sets = tuple(RunSet("incast", 1, (Run(0, {}, {"goodput_bps": x}, {}, {}),)) for x in (5.0, 3.0, 4.0))
    return studies.Study("incast", 1, ("protocol", "queue"), points, sets)


def test_a_pairing_that_would_leave_points_out_names_the_keys_that_differ():
    with pytest.raises(lab.ScenarioError) as raised:
        of_schemes().paired("goodput_bps", by="protocol", baseline="dctcp")
    said = str(raised.value)
    assert "leaves 2 of 3 points without a baseline, as queue differs too" in said
    assert 'by=["protocol", "queue"]' in said and "\n" not in said
    with pytest.raises(lab.ScenarioError, match="leaves 1 of 3 points"):
        of_schemes().paired("goodput_bps", by="protocol", baseline="newreno")


def test_keys_that_change_together_are_paired_together():
    frame = of_schemes().paired("goodput_bps", by=["protocol", "queue"], baseline="dctcp")
    assert frame["protocol"].to_list() == ["newreno", "cubic"]
    assert frame["difference"].to_list() == [-2.0, -1.0]


def test_a_baseline_that_is_several_points_is_refused():
    with pytest.raises(lab.ScenarioError, match="is several points that differ in protocol"):
        of_schemes().paired("goodput_bps", by=["queue", "protocol"], baseline="droptail")


def test_pairs_are_made_within_the_same_values_of_the_other_keys():
    frame = brief().paired("goodput_bps", "protocol", "newreno")
    assert frame["servers"].to_list() == [2, 4]
    found = brief()
    values = [runs.values("goodput_bps") for runs in found.sets]
    assert frame["difference"].to_list() == pytest.approx(
        [(values[1] - values[0]).mean(), (values[3] - values[2]).mean()]
    )


def test_adaptive_replication_stops_where_the_interval_is_narrow_enough(tmp_path):
    how = {"over": {"servers": [2, 4]}, "runs": None, "store": tmp_path}
    loose = brief(until=("goodput_bps", 10.0, 40), **how)
    assert loose.mean()["runs"].to_list() == [5, 5]
    assert loose.frame["reached"].all()
    tight = brief(until=("goodput_bps", 0.02, 40), **how)
    for runs, reached in zip(tight.sets, tight.mean()["reached"], strict=True):
        narrow = runs.ci95("goodput_bps") <= 0.02 * runs.mean("goodput_bps")
        assert narrow == reached
        assert narrow or len(runs.runs) == 40
    assert sum(len(runs.runs) for runs in tight.sets) > 10
    never = brief(until=("goodput_bps", 1e-9, 7), **how)
    assert never.mean()["runs"].to_list() == [7, 7]
    assert not never.frame["reached"].any()
    assert "the 95 % interval of goodput_bps is wider than 1e-09 of the mean after 7 runs" in never.warnings
    assert brief(until=("goodput_bps", 0.02, 40), **how).ran == 0


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"over": None}, "give either"),
        ({"points": [{}]}, "give either"),
        ({"over": {"servers": []}}, "no values"),
        ({"over": {"duration": ["1s"]}}, "given twice"),
        ({"sample": ("sobol", 4)}, "latin"),
        ({"until": ("nokey", 0.1, 9)}, "no summary key"),
        ({"until": ("drops", 0, 9)}, "above 0"),
        ({"until": ("drops", 0.1, 9), "runs": 10}, "from 2 to 9"),
        ({"until": ("drops", 0.1, 90_000)}, "at most 100000"),
        ({"runs": 50_000}, "at most 100000"),
        ({"keep": ["nothing"]}, "must be one of"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(more, rule):
    with pytest.raises(lab.ScenarioError, match=rule):
        brief(**more)


def test_figures_of_a_study(tmp_path):
    found = lab.study(
        "incast", {"servers": "2..10:9", "protocol": "newreno,cubic"}, settings={**BRIEF, "duration": "5ms"}
    )
    few = found.plot.curve("servers", "goodput_bps", by="protocol")
    assert [text.get_text() for text in few.axes[0].get_legend().get_texts()] == ["newreno", "cubic"]
    # Nine lines: a panel each, with its name and the other eight behind it in pale.
    many = found.plot.curve("protocol", "goodput_bps")
    assert [ax.get_title(loc="left") for ax in many.axes if ax.get_visible()] == [
        str(n) for n in range(2, 11)
    ]
    assert all(len(ax.lines) == 9 for ax in many.axes)
    mean = found.where(servers=4).mean()["goodput_bps"].to_list()
    assert list(many.axes[2].lines[-1].get_ydata()) == mean
    heat = found.plot.heatmap("servers", "protocol", "drops")
    assert heat.axes[0].images[0].get_array().shape == (2, 9)
    compared = found.plot.compare("goodput_bps", "protocol")
    assert len(compared.axes) == 1
    names = [text.get_text() for text in compared.legends[0].get_texts()]
    assert names == [str(n) for n in range(2, 11)]
    for figure in (few, many, heat):
        figure.savefig(tmp_path / "figure.png")
    with pytest.raises(lab.ScenarioError, match="varies too"):
        found.plot.curve("servers", "goodput_bps", by=[])
    with pytest.raises(lab.ScenarioError, match="no summary key"):
        found.plot.curve("servers", "nokey")
    one = found.where(protocol="cubic")
    assert len(one.points) == 9
    assert "<table>" in one._repr_html_()


def test_slowdown_by_size_is_the_quantile_of_each_class(tmp_path):
    import numpy as np

    given = {"duration": "2s"}
    found = lab.study("poisson", {"load": [0.3, 0.6]}, settings=given, runs=2, keep=["flows"])
    figure = found.plot.slowdown(bins=3)
    figure.savefig(tmp_path / "slowdown.png")
    median, tail = figure.axes
    named = {ax: [line for line in ax.lines if not line.get_label().startswith("_")] for ax in figure.axes}
    assert [line.get_label() for line in named[median]] == ["0.3", "0.6"]
    done = [
        [run.tables["flows"].filter(run.tables["flows"]["slowdown"].is_finite()) for run in runs.runs]
        for runs in found.sets
    ]
    sizes = np.concatenate([part["size_bytes"].to_numpy() for point in done for part in point])
    smallest = np.unique(np.quantile(sizes, [1 / 3, 2 / 3], method="nearest"))[0]
    for line, point in zip(named[tail], done, strict=True):
        chosen = [part.filter(part["size_bytes"] <= smallest)["slowdown"].to_numpy() for part in point]
        worst = np.mean([np.quantile(values, 0.99) for values in chosen if values.size])
        assert line.get_ydata()[0] == pytest.approx(worst)
    with pytest.raises(KeyError, match="was not kept: add keep="):
        brief(runs=1).plot.slowdown()


def test_run_takes_an_executor():
    with ProcessPoolExecutor(1) as pool:
        apart = lab.run("incast", settings=BRIEF, runs=2, executor=pool, keep=())
    assert apart.summaries == lab.run("incast", settings=BRIEF, runs=2, keep=()).summaries


def test_without_pandas_its_installation_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        made_up({"a": [1.0]}).to_pandas()


def test_the_command_prints_the_contracts_document(straight):
    done = inline(*SWEEP, "--out", str(straight))
    points = json.loads(done.stdout)
    assert len(points) == 16
    assert points[0]["point"] == {"servers": 2, "protocol": "newreno"}
    assert list(points[0]) == ["point", "mean", "ci95", "runs"]
    assert [run["run"] for run in points[0]["runs"]] == [0, 1]
    alone = json.loads(
        inline(
            "run", "incast", *settings({**BRIEF, "duration": "300ms", "servers": "2", "protocol": "newreno"}),
            "--runs", "2", "--json",
        ).stdout
    )  # fmt: skip
    for document in (points[0], alone):
        for part in (document["mean"], document["ci95"], *(run["summary"] for run in document["runs"])):
            assert "cpu_s" in part
            del part["cpu_s"]
    assert {key: points[0][key] for key in ("mean", "ci95", "runs")} == {
        key: alone[key] for key in ("mean", "ci95", "runs")
    }


def test_the_command_prints_a_table():
    done = inline("sweep", "incast", "--over", "servers=2,4", *settings(BRIEF))
    assert done.returncode == 0, done.stderr
    assert "goodput_bps" in done.stdout
    assert done.stdout.startswith("incast  seed 1, 2 points")


BAD = {
    "unknown key": (["--over", "sevrers=2,4"], "sevrers"),
    "bad value at the last point": (["--over", "servers=2,4,none"], 'servers = "none"'),
    "bad value behind a good setting": (["--over", "rto_min=1ms,5"], "rto_min"),
    "no equals sign": (["--over", "servers"], "--over"),
    "no values": (["--over", "servers="], "--over"),
    "twice": (["--over", "servers=2", "--over", "servers=4"], "second time"),
    "also set": (["--over", "servers=2", "--set", "servers=4"], "--set servers=4"),
    "half a range": (["--over", "servers=2..8"], "N from 2"),
    "too many runs": (["--over", "servers=2..8:7", "--runs", "20000"], "at most 100000"),
    "too many points": (["--over", "servers=1..900:900", "--over", "sru=1KB..900KB:900"], "810000 points"),
    "until": (["--over", "servers=2", "--until", "goodput_bps"], "KEY:SHARE:MAX"),
    "until of no key": (["--over", "servers=2", "--until", "goodputs:0.1:9"], "goodputs"),
    "no over": ([], "--over"),
    "bad setting": (["--over", "servers=2,4", "--set", "durration=1s"], "durration"),
}


def test_a_directory_of_a_run_is_refused_by_the_options_name(tmp_path):
    lab.run("incast", settings=BRIEF, keep=(), servers=2).save(tmp_path)
    done = inline("sweep", "incast", "--over", "servers=2,4", "--out", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: --out = ")


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_before_anything_runs(tmp_path, name):
    words, told = BAD[name]
    done = inline("sweep", "incast", *words, "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert told in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_completion_knows_the_values_after_a_comma():
    environment = os.environ | {
        "_PENSTOCK_COMPLETE": "complete_bash",
        "COMP_WORDS": "penstock sweep incast --over protocol=newreno,dc",
        "COMP_CWORD": "4",
    }
    done = subprocess.run([str(PENSTOCK)], env=environment, capture_output=True, text=True, check=False)
    assert "newreno,dctcp" in done.stdout.split()


def test_runs_that_are_made_again_for_their_tables_are_told(tmp_path):
    words = [
        "sweep",
        "incast",
        "--over",
        "servers=2,3",
        "--set",
        "duration=5ms",
        "--out",
        str(tmp_path / "s"),
    ]
    assert inline(*words).returncode == 0
    done = inline(*words, "--plot", "slowdown")
    assert done.returncode == 0, done.stderr
    assert "2 runs are there without their tables flows and transfers, which are asked for: made again" in (
        " ".join(done.stderr.split())
    )
    again = inline(*words, "--plot", "slowdown")
    assert "made again" not in again.stderr and "2 from the store" in again.stderr
