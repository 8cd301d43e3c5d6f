"""Run directories: one run each, whole or not there, and read back as they were written."""

import dataclasses
import json
import math
import os
import resource
import shutil
import subprocess
import sys

import polars as pl
import pytest
from conftest import PENSTOCK, inline, penstock, settings

import penstock as lab
from penstock import results
from penstock.runs import Run, RunSet

TINY = {"servers": "2", "duration": "20ms", "rto_min": "1ms"}
ARGUMENTS = ["run", "incast", *settings(TINY)]


def same(one, two) -> bool:
    """Equality, a NaN being equal to a NaN."""
    if isinstance(one, dict) and isinstance(two, dict):
        return set(one) == set(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, float) and math.isnan(one):
        return isinstance(two, float) and math.isnan(two)
    if isinstance(one, pl.DataFrame):
        return one.equals(two) and one.schema == two.schema
    return type(one) is type(two) and one == two


def test_every_field_of_a_run_set_is_read_back(tmp_path):
    ran = lab.run("incast", **TINY, runs=2)
    marked = tuple(
        dataclasses.replace(
            run,
            summary={**run.summary, "fct_mean_s": math.nan},
            completed=run.run == 0,
            notes=("99 % of the packets were late", "the device dropped 3"),
            warnings=(f"warning of {run.run}", "of both"),
            bottleneck="switch->client",
        )
        for run in ran.runs
    )
    written = RunSet("incast", ran.seed, marked)
    back = lab.load(written.save(tmp_path / "new"))
    assert (back.name, back.seed) == (written.name, written.seed)
    for one, two in zip(written.runs, back.runs, strict=True):
        for field in dataclasses.fields(Run):
            assert same(getattr(one, field.name), getattr(two, field.name)), field.name
    assert back.warnings == written.warnings
    assert not back.completed


def test_a_directory_of_another_run_is_refused_and_left_as_it_is(tmp_path):
    out = tmp_path / "out"
    assert inline(*ARGUMENTS, "--out", str(out)).returncode == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    others = (
        (["--seed", "2"], "seed 1, not 2"),
        (["--set", "servers=3"], "servers = 2, not 3"),
    )
    for changed, told in others:
        done = inline(*ARGUMENTS, *changed, "--out", str(out))
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = [line for line in done.stderr.splitlines() if not line.startswith("warning")]
        assert line.startswith(f'error: --out = "{out}": holds another run ({told})'), line
        assert "--force" in line
    done = inline("run", "long-flows", "--out", str(out))
    assert "holds another run (incast, not long-flows)" in done.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_force_replaces_another_run_and_nothing_of_it_stays(tmp_path):
    out = tmp_path / "out"
    sampled = [*ARGUMENTS, "--set", "sample=1ms", "--set", "series=true", "--set", "servers=4"]
    assert inline(*sampled, "--runs", "2", "--out", str(out)).returncode == 0
    (out / "mine.txt").write_text("notes of the reader")
    done = inline(*ARGUMENTS, "--out", str(out), "--force")
    assert done.returncode == 0, done.stderr
    back = lab.load(out)
    assert len(back.runs) == 1
    assert back.scenario["set"]["servers"] == "2"
    assert back.series.height == 0
    assert back.flows.height == 2
    assert (out / "mine.txt").read_text() == "notes of the reader"
    assert not list(out.glob(".*"))


def test_the_same_run_again_replaces_itself_but_not_more_runs_of_it(tmp_path):
    out = tmp_path / "out"
    for runs in ("1", "1", "3"):
        done = inline(*ARGUMENTS, "--runs", runs, "--out", str(out))
        assert done.returncode == 0, done.stderr
    assert len(lab.load(out).runs) == 3
    done = inline(*ARGUMENTS, "--runs", "2", "--out", str(out))
    assert done.returncode == 2
    assert "holds 3 runs of this scenario, more than these 2" in done.stderr
    assert inline(*ARGUMENTS, "--runs", "2", "--out", str(out), "--force").returncode == 0
    assert len(lab.load(out).runs) == 2


def test_python_refuses_and_forces_alike(tmp_path):
    one = lab.run("incast", **TINY)
    two = lab.run("incast", **TINY, seed=2)
    one.save(tmp_path / "out")
    with pytest.raises(lab.ScenarioError, match=r"folder = .*another run \(seed 1, not 2\).*force=True"):
        two.save(tmp_path / "out")
    two.save(tmp_path / "out", force=True)
    assert lab.load(tmp_path / "out").seed == 2


def test_a_scenario_file_may_move_and_its_run_is_still_the_same(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.toml").write_text('scenario = "incast"\nservers = 2\nduration = "20ms"\n')
    out = tmp_path / "out"
    assert inline("run", str(tmp_path / "here" / "here.toml"), "--out", str(out)).returncode == 0
    done = inline("run", str(tmp_path / "there" / "there.toml"), "--out", str(out))
    assert done.returncode == 0, done.stderr


def test_a_killed_run_is_not_read_as_a_result_and_may_be_run_again(tmp_path):
    out = tmp_path / "out"
    long = ["run", "incast", "--set", "servers=2", "--set", "duration=100000s"]
    program = subprocess.Popen([str(PENSTOCK), *long, "--out", str(out)], stderr=subprocess.PIPE)
    while not (out / "run.json").exists():
        assert program.poll() is None, program.communicate()
    program.kill()
    program.communicate()
    about = json.loads((out / "run.json").read_text())
    assert (about["state"], about["scenario"]["set"]["servers"]) == ("running", "2")
    with pytest.raises(lab.ScenarioError, match="never ended"):
        lab.load(out)
    # Another scenario needs --force even here: the directory still says what it was for.
    assert inline(*ARGUMENTS, "--out", str(out)).returncode == 2
    results.begin(out, "incast", lab.resolve("incast", {"servers": "2", "duration": "100000s"}), 1)


def test_a_result_stays_until_the_next_one_is_whole(tmp_path, monkeypatch):
    out = tmp_path / "out"
    ran = lab.run("incast", **TINY)
    ran.save(out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results, "_json", full)
    with pytest.raises(OSError, match=r"cannot be written \(No space left on device\)"):
        ran.save(out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_full_disk_costs_the_files_and_not_the_result(tmp_path):
    out = tmp_path / "out"

    def little() -> None:
        # run.json of the beginning fits, the tables do not.
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    sampled = [*ARGUMENTS, "--set", "sample=10us", "--set", "series=true", "--json"]
    done = subprocess.run(
        [str(PENSTOCK), *sampled, "--out", str(out)],
        capture_output=True,
        text=True,
        preexec_fn=little,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["mean"]["goodput_bps"] > 0
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("warning")]
    assert line == f"error: {out} cannot be written (File too large)"
    assert json.loads((out / "run.json").read_text())["state"] == "running"


@pytest.fixture
def tiny_disk(tmp_path):
    """A disk of 64 KiB, where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("a file system can only be mounted by root")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_up_leaves_the_old_result_whole(tiny_disk):
    done = penstock(*ARGUMENTS, "--json", "--out", str(tiny_disk))
    assert done.returncode == 0, done.stderr
    old = lab.load(tiny_disk)
    (tiny_disk / "ballast").write_bytes(bytes(12_000))
    sampled = [*ARGUMENTS, "--set", "sample=1us", "--set", "series=true", "--json", "--force"]
    done = penstock(*sampled, "--out", str(tiny_disk))
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["mean"]["goodput_bps"] > 0
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("warning")]
    assert line.startswith(f"error: {tiny_disk} cannot be written (")
    assert "space" in line
    assert lab.load(tiny_disk).summaries == old.summaries


def test_a_full_standard_output_is_one_line_and_exit_code_3():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(PENSTOCK), *ARGUMENTS, "--json"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    said = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert said == ["error: the output cannot be written (No space left on device)"]


def test_a_place_that_cannot_be_written_is_told_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    long = ["run", "incast", "--set", "duration=10s"]
    for place in ("file", "file/below"):
        done = inline(*long, "--out", str(tmp_path / place))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f'error: --out = "{tmp_path / place}": ')
        assert len(done.stderr.splitlines()) == 1
    for command in (["demo"], ["reproduce", "I-4.1"]):
        done = inline(*command, "--out", str(tmp_path / "file"))
        assert done.returncode == 2, done.stderr
        assert "is a file" in done.stderr
