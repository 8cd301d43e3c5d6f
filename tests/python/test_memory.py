"""Tables larger than the memory they may take: the same rows, by the library and by the command line."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from conftest import inline
from polars.testing import assert_frame_equal

from penstock import ScenarioError, run
from penstock.runs import TABLES
from penstock.spill import GROUP, Tables

#: 1.3 million samples, 31 MB of rows; flows, transfers, timeouts and what became of packets beside them.
SAMPLED = {
    "servers": 8,
    "duration": "1s",
    "sample": "20us",
    "series": True,
    "protocol": "newreno",
    "deliveries": True,
}


@pytest.fixture(scope="module")
def whole():
    return run("incast", seed=2, settings=SAMPLED)


def test_tables_on_disk_have_the_rows_of_those_in_memory(whole, tmp_path: Path) -> None:
    bounded = run("incast", seed=2, settings=SAMPLED, memory="16MB")
    assert bounded.summaries == whole.summaries
    tables = bounded.tables()
    assert isinstance(tables, Tables) and tables.on_disk("series") and not tables.on_disk("ports")
    assert set(tables) == set(TABLES) and len(tables) == len(TABLES) and "series" in tables
    for name in TABLES:
        assert_frame_equal(bounded.table(name), whole.table(name), check_exact=True)
        assert_frame_equal(bounded.scan(name).collect(), whole.scan(name).collect(), check_exact=True)
    assert whole.series.height > 2 * GROUP and whole.table("receivers").height == 1
    folder = bounded.save(tmp_path / "run")
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        p.name for p in whole.save(tmp_path / "whole").iterdir()
    )
    for name in TABLES:
        again = pl.read_parquet(folder / f"{name}.parquet")
        assert_frame_equal(again, whole.table(name), check_exact=True)


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_tables_on_disk_are_exported_as_others(whole, form: str, tmp_path: Path) -> None:
    bounded = run("incast", seed=2, settings=SAMPLED, memory="16MB")
    read = pl.read_csv if form == "csv" else pl.read_ipc
    pairs = zip(bounded.export(tmp_path / "a", form), whole.export(tmp_path / "b", form), strict=True)
    for mine, theirs in pairs:
        assert_frame_equal(read(mine), read(theirs), check_exact=True)


def test_files_go_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bounded = run("incast", seed=2, settings=SAMPLED, memory="16MB", keep=["series"])
    (folder,) = tmp_path.iterdir()
    assert {path.suffix for path in folder.iterdir()} == {".parquet"}
    del bounded
    assert not list(tmp_path.iterdir())


def test_the_command_line_writes_the_same_tables(whole, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = [word for key, value in SAMPLED.items() for word in ("--set", f"{key}={value}".lower())]
    done = inline(
        "run", "incast", *given, "--seed", "2", "--out", str(out), "--memory", "16MB", "--threads", "2"
    )
    assert done.returncode == 0, done.stderr
    assert "its tables go to disk as they grow" in done.stderr
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]
    assert json.loads((out / "summary.json").read_text())["runs"][0]["summary"]["drops"] > 0
    for name in TABLES:
        assert_frame_equal(pl.read_parquet(out / f"{name}.parquet"), whole.table(name), check_exact=True)


@pytest.mark.parametrize("value", ["much", "10Gbps", "15MB", "-1GB", "0", "nan", ""])
def test_a_memory_that_is_none_is_one_line(value: str, tmp_path: Path) -> None:
    done = inline("run", "incast", "--memory", value, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.strip() == (f'error: --memory = "{value}": must be a size of at least 16MB, as in 1GB')
    with pytest.raises(ScenarioError, match=r"^memory = .*: must be a size of at least 16MB, as in 1GB$"):
        run("incast", memory=value)


def test_memory_is_for_runs_in_this_process() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(ScenarioError, match=r"memory = .*: is for runs in this"),
    ):
        run("incast", memory="1GB", executor=pool)
    with pytest.raises(ScenarioError, match=r"memory = .*: is for runs: an approximation"):
        run("permutation", memory="1GB", approximate="links")


def test_a_folder_without_room_fails_the_run_in_one_line(tmp_path: Path) -> None:
    """The file that rows go to may not grow: the run ends, no table with holes is written."""
    out = tmp_path / "out"
    words = ["run", "incast", "--seed", "2", "--memory", "16MB", "--out", str(out)]
    words += [word for key, value in SAMPLED.items() for word in ("--set", f"{key}={value}".lower())]

    def small_files() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, 4_000_000))

    command = [sys.executable, "-m", "penstock", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=small_files)
    assert done.returncode == 3, done.stderr
    told = "incast, run 0: the run failed: the tables of the run cannot be written to"
    assert told in done.stderr.splitlines()[-1] or any(told in line for line in done.stderr.splitlines())
    assert not list(out.glob("*.parquet"))
