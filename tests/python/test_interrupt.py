"""Ctrl-C: within a second, exit code 130, what was measured so far is kept."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from conftest import PENSTOCK, settings

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
    print(json.dumps([[run.completed for run in runs.runs] for runs in stop.results]))
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
