"""Finished work is never lost: readers that go away, signals, full disks, kills during a write."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PENSTOCK, inline, settings

import penstock as lab
from penstock import results

TINY = {"servers": "2", "duration": "20ms", "rto_min": "1ms"}
ARGUMENTS = ["run", "incast", *settings(TINY)]
# So short that some hundred are finished when the signal comes.
MANY = ["run", "incast", "--set", "servers=4", "--set", "duration=5ms", "--runs", "30000", "--jobs", "1"]
SIGNALS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}


def ends(path: Path, what: list[str], **how) -> subprocess.CompletedProcess[str]:
    """Run the program with `--out path` through a shell-like pipe."""
    return subprocess.run(
        [str(PENSTOCK), *what, "--out", str(path)], stderr=subprocess.PIPE, text=True, check=False, **how
    )


def closed_pipe() -> int:
    """The writing end of a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def pressed(out: Path, number: int, wait: float, poll: float = 0.02) -> tuple[int, str]:
    """Start many runs, send a signal `wait` seconds after they are begun; the exit code and stderr."""
    # A shell that starts jobs in the background lets them ignore Ctrl-C.
    program = subprocess.Popen(
        [str(PENSTOCK), *MANY, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (out / "run.json").exists():
        assert program.poll() is None, program.communicate()
        time.sleep(poll)
    time.sleep(wait)
    program.send_signal(number)
    _, err = program.communicate(timeout=60)
    return program.returncode, err


def kept_after_signals(tmp_path: Path, name: str, times: int) -> None:
    kept = 0
    for i in range(times):
        out = tmp_path / f"{name}-{i}"
        code, err = pressed(out, getattr(signal, name), 0.3 + 0.05 * (i % 7))
        assert code == SIGNALS[name], err
        assert "Traceback" not in err
        about = json.loads((out / "run.json").read_text())
        assert (about["state"], about["reason"]) == ("partial", "interrupted")
        found = lab.load(out)
        complete = sum(run.completed for run in found.runs)
        assert f"interrupted: {complete} of 30000 runs complete" in err
        kept += complete
        # Replications are made in order: none is missing in between.
        numbers = [run.run for run in found.runs if run.completed]
        assert numbers == list(range(len(numbers)))
    # On a busy machine a signal may come before the first run is complete.
    assert kept > 0


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_keeps_every_finished_run(tmp_path, name):
    kept_after_signals(tmp_path, name, 2)


@pytest.mark.full
@pytest.mark.parametrize("name", SIGNALS)
def test_thirty_signals_keep_every_finished_run(tmp_path, name):
    kept_after_signals(tmp_path, name, 30)


def told_after_signals_at_once(tmp_path: Path, name: str, times: int) -> None:
    for i in range(times):
        out = tmp_path / f"{name}-{i}"
        code, err = pressed(out, getattr(signal, name), 0.0005 * i, poll=0.0)
        assert code == SIGNALS[name], err
        assert "Traceback" not in err
        about = json.loads((out / "run.json").read_text())
        assert (about["state"], about["reason"]) == ("partial", "interrupted")
        assert lab.load(out).name == "incast"
        assert [path.name for path in out.iterdir() if path.name.startswith(".")] == []


@pytest.mark.full
@pytest.mark.parametrize("name", SIGNALS)
def test_thirty_signals_as_a_run_begins_leave_none_under_way(tmp_path, name):
    told_after_signals_at_once(tmp_path, name, 30)


# A signal in the instant in which run.json has been written for the first time.
CLAIMED = """
import os, signal, sys
from penstock import cli, results
put = results.put

def press(path, *more, **how):
    results.put = put
    put(path, *more, **how)
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))

results.put = press
cli.main(["run", "incast", "--set", "servers=4", "--set", "duration=1000s", "--out", sys.argv[2]])
"""


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_as_a_run_begins_does_not_leave_it_under_way(tmp_path, name):
    command = [sys.executable, "-c", CLAIMED, name, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == SIGNALS[name], done.stderr
    assert "interrupted: 0 of 1 runs complete" in done.stderr
    about = json.loads((tmp_path / "run.json").read_text())
    assert (about["state"], about["reason"]) == ("partial", "interrupted")


def kept_after_closed_pipes(tmp_path: Path, times: int) -> None:
    for i in range(times):
        out = tmp_path / str(i)
        how = ["--json"] if i % 2 else []
        writer = closed_pipe()
        done = ends(out, [*ARGUMENTS, *how], stdout=writer)
        os.close(writer)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert lab.load(out).completed


def test_a_reader_that_goes_away_costs_no_result(tmp_path):
    kept_after_closed_pipes(tmp_path, 2)


@pytest.mark.full
def test_thirty_readers_that_go_away_cost_no_result(tmp_path):
    kept_after_closed_pipes(tmp_path, 30)


def test_a_full_output_costs_no_result(tmp_path):
    with open("/dev/full", "w") as full:
        done = ends(tmp_path / "a", ARGUMENTS, stdout=full)
    assert done.returncode == 3
    assert "error: the output cannot be written (No space left on device)" in done.stderr
    assert lab.load(tmp_path / "a").completed


def test_a_reader_that_goes_away_costs_no_report_of_advise_and_reproduce(tmp_path):
    few = ["--runs", "2", "--most", "2", "--fresh", "2"]
    jobs = (
        (["advise", "incast", *settings({**TINY, "duration": "5ms"}), *few], "report.html"),
        (["reproduce", "I-4.1", "--quick"], "verdicts.json"),
        (["sweep", "incast", "--over", "servers=1,2", "--set", "duration=5ms"], "summary.csv"),
    )
    for i, (job, file) in enumerate(jobs):
        writer = closed_pipe()
        done = ends(tmp_path / str(i), job, stdout=writer)
        os.close(writer)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / str(i) / file).stat().st_size > 0, job


def test_a_closed_output_is_one_line_and_no_traceback(tmp_path):
    command = [str(PENSTOCK), *ARGUMENTS, "--out", str(tmp_path / "a")]
    for streams in (">&-", "2>&-", ">&- 2>&-", "<&- >&-"):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {streams}', "sh", *command, "--force"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert ("the output is closed" in done.stderr) == (streams in (">&-", "<&- >&-"))
        assert lab.load(tmp_path / "a").completed
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", str(PENSTOCK), "describe"], capture_output=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)


def test_a_terminal_without_the_characters_gets_their_codes():
    ascii_ = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for what in (["describe"], ["describe", "incast"], ["--help"], ["sweep", "--help"]):
        done = subprocess.run([str(PENSTOCK), *what], capture_output=True, env=ascii_)
        assert (done.returncode, done.stderr) == (0, b"")
        done.stdout.decode("ascii")


def test_a_place_that_is_no_text_is_refused_before_the_run(tmp_path):
    for option in ("--out", "--record"):
        place = os.fsencode(tmp_path) + b"/\xff"
        done = subprocess.run(
            [str(PENSTOCK), "run", "incast", "--set", "duration=100s", option, place],
            capture_output=True,
            timeout=30,
        )
        assert done.returncode == 2
        (line,) = done.stderr.decode().splitlines()
        assert line.endswith("must be a name in UTF-8")


def test_an_interruption_while_the_result_is_written_waits_for_it(tmp_path, monkeypatch):
    found = lab.run("incast", **TINY)
    fill = results._fill

    def slow(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        fill(*arguments)

    monkeypatch.setattr(results, "_fill", slow)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        found.save(tmp_path / "a")
    finally:
        signal.signal(signal.SIGINT, before)
    assert lab.load(tmp_path / "a").completed


# --- A kill at any point of a write -------------------------------------------------------------------------


class Killed(BaseException):
    """What a kill is here: from one call of the system on none is made any more, not even to tidy up."""


def killed(monkeypatch, at: int, write) -> bool:
    """Call `write`, which is killed at its `at`-th call; whether it came so far."""
    count = 0
    with monkeypatch.context() as patch:
        for name in ("rename", "replace", "unlink", "mkdir", "rmdir", "fsync"):

            def made(*args, call=getattr(os, name), **more):
                nonlocal count
                count += 1
                if count >= at:
                    raise Killed
                return call(*args, **more)

            patch.setattr(os, name, made)
        try:
            write()
        except Killed:
            return True
    return False


def state_of(folder: Path) -> str:
    """Which result a directory has, all of it, or what is said instead."""
    try:
        found = lab.load(folder)
    except lab.ScenarioError as problem:
        return f"refused: {problem}"
    servers = found.scenario["set"]["servers"]
    assert found.flows["src"].n_unique() == int(servers)
    assert json.loads((folder / "summary.json").read_text())["scenario"]["set"]["servers"] == servers
    assert ("deliveries" in found.runs[0].tables) == (servers == "2")
    return servers


def test_a_kill_at_any_point_of_a_write_leaves_the_old_result_or_the_new_one(tmp_path, monkeypatch):
    old, folder = tmp_path / "old", tmp_path / "d"
    lab.run("incast", servers=2, duration="5ms", deliveries=True).save(old)
    new, found = lab.run("incast", servers=3, duration="5ms"), []
    for at in range(1, 100):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(old, folder)
        if not killed(monkeypatch, at, lambda: new.save(folder, force=True)):
            break
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        found.append(state_of(folder))
        # The next write leaves nothing of the killed one behind.
        new.save(copy, force=True)
        assert state_of(copy) == "3"
        assert [path.name for path in copy.iterdir() if path.name.startswith(".")] == []
    assert set(found) == {"2", "3"}
    # Once the new one is there it stays.
    assert found == sorted(found)


def test_a_whole_result_is_read_where_nothing_can_be_renamed(tmp_path, monkeypatch):
    lab.run("incast", servers=2, duration="5ms").save(tmp_path)
    monkeypatch.setattr(results, "_finish", lambda folder: None)
    monkeypatch.setattr(results, "_put_in_place", lambda folder: None)
    lab.run("incast", servers=3, duration="5ms").save(tmp_path, force=True)
    assert (tmp_path / ".complete").is_dir()
    assert lab.load(tmp_path).scenario["set"]["servers"] == "3"


def test_two_writers_at_once_leave_one_whole_result(tmp_path):
    script = """
import sys, penstock
found = penstock.run("incast", servers=int(sys.argv[2]), duration="5ms")
for _ in range(10):
    found.save(sys.argv[1], force=True)
"""
    python = str(PENSTOCK.with_name("python"))
    pair = [
        subprocess.Popen([python, "-c", script, str(tmp_path), n], stderr=subprocess.PIPE, text=True)
        for n in ("2", "3")
    ]
    for one in pair:
        _, err = one.communicate(timeout=60)
        assert one.returncode == 0, err
    assert lab.load(tmp_path).scenario["set"]["servers"] in ("2", "3")


# --- Damaged directories ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "run"
    lab.run("incast", **TINY, sample="1ms", series=True).save(folder)
    return folder


def damaged(saved: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)
    return folder


def test_run_json_has_length_and_checksum_of_every_file(saved):
    about = json.loads((saved / "run.json").read_text())
    assert set(about["files"]) == {path.name for path in saved.iterdir()} - {"run.json"}
    for name, facts in about["files"].items():
        content = (saved / name).read_bytes()
        assert facts == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_missing_an_edited_or_a_cut_file_is_one_line(saved, tmp_path):
    for name in sorted(path.name for path in saved.iterdir()):
        for change in ("missing", "edited", "cut", "empty", "garbage", "folder"):
            folder = damaged(saved, tmp_path)
            path = folder / name
            content = path.read_bytes()
            path.unlink()
            if change == "edited":
                swapped = content.replace(b'"seed": 1', b'"seed": 2')
                path.write_bytes(swapped if swapped != content else content[:-9] + b"X" + content[-8:])
            elif change == "cut":
                path.write_bytes(content[: len(content) // 2])
            elif change == "empty":
                path.write_bytes(b"")
            elif change == "garbage":
                path.write_bytes(bytes(range(256)) * 4)
            elif change == "folder":
                path.mkdir()
            with pytest.raises(lab.ScenarioError) as said:
                lab.load(folder)
            assert len(str(said.value).splitlines()) == 1
            assert str(said.value).startswith(f'folder = "{folder}": ')


def test_a_manifest_of_other_types_is_one_line(saved, tmp_path):
    for key in ("runs", "scenario", "seed", "name", "files"):
        for value in (None, 7, {}, [[]], [{}]):
            folder = damaged(saved, tmp_path)
            about = json.loads((folder / "run.json").read_text())
            about.pop("sha256")
            if about[key] == value:
                continue
            (folder / "run.json").write_text(json.dumps({**about, key: value}))
            done = inline("view", str(folder), "--out", str(tmp_path / "page.html"))
            assert "Traceback" not in done.stderr, (key, value)
            if done.returncode:
                assert len(done.stderr.splitlines()) == 1, (key, value, done.stderr)


def test_a_file_system_without_locks_is_written_all_the_same(tmp_path, monkeypatch):
    import fcntl

    def refuse(*_args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / ".writing-young").mkdir()
    (tmp_path / ".writing-old").mkdir()
    os.utime(tmp_path / ".writing-old", (0, 0))
    lab.run("incast", servers=2, duration="5ms").save(tmp_path)
    assert lab.load(tmp_path).completed
    # A young copy may belong to a running process; an old one belongs to none.
    assert {path.name for path in tmp_path.glob(".*")} == {".writing-young"}
