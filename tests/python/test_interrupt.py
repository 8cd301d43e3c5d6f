"""Ctrl-C: within a second, exit code 130, what was measured so far is kept."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import PENSTOCK, inline, measuring, row, settings

import penstock
from penstock import results, sweeps
from penstock.interrupts import Deferred
from penstock_papers.ledger import selection

# Far longer than any test may take.
LONG = {"servers": "8", "duration": "100000s", "protocol": "newreno"}


def interrupt(out: Path, *arguments: str) -> tuple[int, float, str, str]:
    """Start a run into `out`, press Ctrl-C once it is under way; return code, seconds to end, output."""
    program = subprocess.Popen(
        [str(PENSTOCK), *arguments, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (out / "run.json").exists():
        assert program.poll() is None, program.communicate()
        time.sleep(0.05)
    assert json.loads((out / "run.json").read_text())["state"] == "running"
    time.sleep(1.5)
    pressed = time.monotonic()
    program.send_signal(signal.SIGINT)
    stdout, stderr = program.communicate(timeout=20)
    return program.returncode, time.monotonic() - pressed, stdout, stderr


def test_a_run_ends_within_a_second_and_keeps_what_it_had(tmp_path):
    arguments = ["run", "incast", *settings(LONG), "--runs", "3", "--json"]
    code, seconds, out, err = interrupt(tmp_path, *arguments)
    assert code == 130
    # A second on an idle machine; where others compete for the cores it takes as much longer.
    assert seconds < 1.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert "Traceback" not in err
    assert "interrupted: 0 of 3 runs complete" in err
    document = json.loads(out)
    kept = json.loads((tmp_path / "run.json").read_text())
    assert kept["state"] == "partial"
    assert kept["reason"] == "interrupted"
    assert [run["completed"] for run in kept["runs"]] == [False] * len(document["runs"])
    assert document["runs"][0]["summary"]["blocks"] > 0
    assert (tmp_path / "flows.parquet").exists()


def test_runs_that_were_complete_stay_complete(tmp_path):
    # One worker, two points: the sweep is stopped in the second.
    script = f"""
import json, penstock
points = [("incast", {{"servers": 4, "duration": "10ms"}}), ("incast", {LONG!r})]
try:
    # The first point is done when the fraction is one half.
    penstock.sweep(points, jobs=1, on_progress=lambda done: print("ready" if done >= 0.5 else "", flush=True))
except penstock.Interrupted as stop:
    # Ctrl-C may have come between a text and the end of its line.
    print("\\n" + json.dumps([[run.completed for run in runs.runs] for runs in stop.results]))
"""
    program = subprocess.Popen(
        [str(PENSTOCK.with_name("python")), "-c", script], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    for line in program.stdout:
        if line == "ready\n":
            break
    time.sleep(0.5)
    program.send_signal(signal.SIGINT)
    out, _ = program.communicate(timeout=20)
    assert json.loads(out.splitlines()[-1]) == [[True], [False]]


FOREIGN = f"""
import json, os, sys
from concurrent.futures import ProcessPoolExecutor
import penstock
points = [("incast", {{"servers": 4, "duration": "10ms"}}), ("incast", {LONG!r}), ("incast", {LONG!r})]
pool = ProcessPoolExecutor(1)
try:
    # The first of three is done.
    penstock.sweep(points, executor=pool, on_progress=lambda done: print("ready" if done else "", flush=True))
except penstock.Interrupted as stop:
    print(json.dumps([[run.completed for run in runs.runs] for runs in stop.results]), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("whole_group", [False, True], ids=["the caller alone", "the workers too"])
def test_a_sweep_on_a_foreign_executor_keeps_what_is_finished(whole_group):
    # From a terminal the workers hear Ctrl-C too; a cluster's do not, and their runs cannot be stopped.
    program = subprocess.Popen(
        [str(PENSTOCK.with_name("python")), "-c", FOREIGN],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    # The workers hold the pipe open: read to the line, not to the end.
    watchdog = threading.Timer(60, os.killpg, (program.pid, signal.SIGKILL))
    watchdog.start()
    try:
        assert program.stdout is not None
        next(line for line in program.stdout if line == "ready\n")
        time.sleep(0.5)
        (os.killpg if whole_group else os.kill)(program.pid, signal.SIGINT)
        kept = json.loads(next(line for line in program.stdout if line.startswith("[")))
    finally:
        watchdog.cancel()
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    assert kept[0] == [True]
    # The one under way is there, cut short, when its worker heard of it.
    assert kept[1:] in ([[], []], [[False], []])


# Ctrl-C in the instant in which a wait has taken the locks of the futures that it waits for.
AT_ONCE = f"""
import json, os, signal, time
from concurrent.futures import _base
import penstock
taken, begun, pressed = _base._AcquireFutures.__enter__, time.monotonic(), []

def enter(self):
    taken(self)
    if time.monotonic() - begun > 1 and not pressed:
        pressed.append(True)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

_base._AcquireFutures.__enter__ = enter
try:
    penstock.run("incast", settings={LONG!r}, keep=())
except penstock.Interrupted as stop:
    print(json.dumps([run.completed for runs in stop.results for run in runs.runs]))
"""


def test_ctrl_c_while_locks_are_held_leaves_nobody_waiting():
    python = str(PENSTOCK.with_name("python"))
    done = subprocess.run([python, "-c", AT_ONCE], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [False]


def test_presses_are_counted_and_the_handler_is_given_back():
    heard = []
    with Deferred(lambda: heard.append(True)) as presses:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert presses.count == len(heard) == 2
        with pytest.raises(KeyboardInterrupt):
            presses.look()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_somebody_else_stays():
    own = []
    before = signal.signal(signal.SIGINT, lambda *_: own.append(True))
    try:
        with Deferred() as presses:
            os.kill(os.getpid(), signal.SIGINT)
        assert (presses.count, own) == (0, [True])
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_ctrl_c_ends_the_waiting_and_not_the_keeping(monkeypatch):
    pressed = []

    def wait(futures, timeout=None, return_when=None):
        found = real(futures, timeout=5)
        if found.done or pressed:
            pressed.append(len(pressed))
            raise KeyboardInterrupt
        return found

    real = sweeps.wait
    monkeypatch.setattr(sweeps, "wait", wait)
    with pytest.raises(penstock.Interrupted) as stop:
        penstock.sweep([("incast", {"servers": 2, "duration": "10ms"})])
    assert len(pressed) == 2
    assert [run.completed for run in stop.value.results[0].runs] == [True]


def test_an_executor_whose_workers_died_is_a_failed_run_with_the_others_kept():
    from concurrent.futures import BrokenExecutor, Executor, Future

    class Dying(Executor):
        """Does one job and takes no second one."""

        jobs = 0

        def submit(self, fn, /, *args, **kwargs):
            self.jobs += 1
            if self.jobs > 1:
                raise BrokenExecutor("the workers died")
            future = Future()
            future.set_result(fn(*args, **kwargs))
            return future

    with pytest.raises(penstock.RunFailed, match=r"incast, run 1: the workers died") as stop:
        penstock.sweep([("incast", {"servers": 2, "duration": "10ms"})], runs=3, executor=Dying())
    assert [run.run for run in stop.value.results[0].runs] == [0]


def interrupted_sweep(*_args, **_more):
    """A sweep of three points that was stopped in the second."""
    ended = penstock.run("incast", servers=2, duration="10ms", keep=())
    none = penstock.RunSet("incast", 1, ())
    raise penstock.Interrupted([ended, none, none])


def test_the_demo_keeps_the_points_that_have_runs(tmp_path, monkeypatch):
    from penstock_papers.experiments.incast import study

    monkeypatch.setattr(study, "sweep", interrupted_sweep)
    done = inline("demo", "--out", str(tmp_path))
    assert done.returncode == 130
    assert done.stderr == f"interrupted: 1 points have runs: {tmp_path / 'partial.json'}\n"
    (kept,) = json.loads((tmp_path / "partial.json").read_text())
    assert kept["runs"][0]["summary"]["goodput_bps"] > 0


def test_reproduce_keeps_its_verdicts(tmp_path, monkeypatch):
    def cut(lab):
        raise KeyboardInterrupt

    rows = [row("A", measuring(1)), row("B", cut), row("C", measuring(1))]
    monkeypatch.setattr(selection, "rows", lambda live=False: rows)
    done = inline("reproduce", "--all", "--json", "--out", str(tmp_path))
    assert done.returncode == 130
    assert [v["verdict"] for v in json.loads(done.stdout)] == ["confirmed", "not run", "not run"]
    assert json.loads((tmp_path / "verdicts.json").read_text()) == json.loads(done.stdout)
    assert "interrupted: 1 of 3 rows have a verdict" in done.stderr
    assert (tmp_path / "report.html").exists()


def test_a_comparison_keeps_the_kernels_runs_when_the_simulation_is_stopped(monkeypatch):
    from penstock import live

    ran = penstock.run("incast", servers=2, duration="10ms", keep=())
    monkeypatch.setattr(live, "_runs", lambda *args: [ran])
    # The runs that stand for the kernel's have no lag.
    monkeypatch.setattr(live, "measured_noise", lambda kernel: {})
    monkeypatch.setattr(live, "resolve", lambda *args, **more: ran.scenario)
    monkeypatch.setattr(live, "sweep", interrupted_sweep)
    with pytest.raises(penstock.Interrupted) as stop:
        live.compare("incast", over=("servers", [2]))
    assert stop.value.results[0] is ran
    assert len(stop.value.results) == 4


def test_ctrl_c_while_files_are_written_leaves_what_was_there(tmp_path, monkeypatch):
    ran = penstock.run("incast", servers=2, duration="10ms")
    ran.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def press(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "_json", press)
    with pytest.raises(KeyboardInterrupt):
        ran.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_ctrl_c_is_heard_while_a_large_network_is_set_up():
    # Another process presses: a thread of this one would wait for the engine to give the interpreter back.
    program = """
import os, subprocess, time
from penstock import scenario
begun = time.monotonic()
subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -INT {os.getpid()}"])
try:
    for _ in range(20):
        scenario.resolve("permutation", {"topology": "fat-tree:48", "protocol": "dcqcn"})
except KeyboardInterrupt:
    print(time.monotonic() - begun - 0.3)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # To build it once takes seconds.
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert float(done.stdout) < 1.0 * busy, done.stdout + done.stderr


def test_an_interruption_before_the_first_result_is_one_line(monkeypatch, capsys):
    """Wherever it strikes: in a command, and where other code puts its own exception in its place."""
    from penstock import catalogue, cli

    def pressed(*_args, **_more):
        raise KeyboardInterrupt

    def replaced(*_args, **_more):
        try:
            pressed()
        except KeyboardInterrupt as interrupt:
            raise RuntimeError("Error calling __set_name__") from interrupt

    for way in (pressed, replaced):
        monkeypatch.setattr(catalogue, "show", way)
        with pytest.raises(SystemExit) as end:
            cli.main(["describe", "dctcp"])
        assert end.value.code == 130
        assert capsys.readouterr().err == "interrupted\n"
