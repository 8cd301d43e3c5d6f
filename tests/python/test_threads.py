"""One run on several threads: the bytes of one thread, by the library and by the command line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from conftest import inline

from penstock import ScenarioError, run, sweeps

#: Enough to do in a window for seven threads.
SETTINGS = {
    "topology": "fat-tree:6",
    "duration": "100us",
    "buffer": "10pkt",
    "sample": "10us",
    "series": True,
}


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of the files of a run directory that do not depend on the machine."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "run.json"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_result_files_are_the_same_for_any_number_of_threads(tmp_path: Path) -> None:
    found = {}
    for threads in (1, 2, 3, 7):
        out = tmp_path / str(threads)
        chosen = [f"--set={key}={str(value).lower()}" for key, value in SETTINGS.items()]
        done = inline("run", "permutation", *chosen, "--threads", str(threads), "--out", str(out))
        assert done.returncode == 0, done.stderr
        assert "one thread" not in done.stderr
        found[threads] = hashes(out)
        assert json.loads((out / "run.json").read_text())["runs"][0]["timings"]["threads"] == threads
    assert set(found[1]) >= {"summary.json", "flows.parquet", "series.parquet"}
    assert found[2] == found[3] == found[7] == found[1]


def test_a_run_that_cannot_be_divided_says_why() -> None:
    done = inline("run", "incast", "--set", "duration=10ms", "--set", "requests=instant", "--threads", "2")
    assert done.returncode == 0, done.stderr
    assert "one thread: its requests take no time (requests=instant)" in done.stderr
    single = run("incast", duration="10ms", requests="instant", threads=2).runs[0]
    assert single.timings["threads"] == 1
    assert single.summary == run("incast", duration="10ms", requests="instant").runs[0].summary


def test_workloads_that_react_run_on_several_threads() -> None:
    """Closed loops of requests over a network of two tiers, with losses: the same tables, windows counted."""
    network: dict[str, object] = {
        "topology": "leaf-spine:4x2x4",
        "link_rate": "10Gbps",
        "link_delay": "20us",
        "buffer": "20pkt",
        "protocol": "newreno",
        "duration": "10ms",
        "workload": [{"kind": "incast", "to": "h0", "from": "h[1-15]", "response": "64KB", "every": "1ms"}],
    }
    one, two = (run({"scenario": "custom"} | network, threads=n).runs[0] for n in (1, 2))
    assert (one.timings["threads"], two.timings["threads"]) == (1, 2)
    assert two.timings["windows"] > 0 and two.timings["hops_per_window"] > 0
    assert one.summary == two.summary


def test_runs_have_the_cores_before_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps.os, "cpu_count", lambda: 8)
    assert sweeps.threads_of_each(4, 1, 8) == 4
    assert sweeps.threads_of_each(4, 2, 8) == 4
    assert sweeps.threads_of_each(4, 3, 8) == 2
    assert sweeps.threads_of_each(4, 100, 8) == 1
    assert sweeps.threads_of_each(4, 100, 2) == 4
    assert sweeps.threads_of_each(4, 2, None) == 1


def test_a_number_of_threads_that_is_none_is_refused() -> None:
    done = inline("run", "permutation", "--threads", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--threads" in done.stderr
    with pytest.raises(ScenarioError, match="threads"):
        run("permutation", threads=0)


def test_why_a_run_is_made_on_fewer_threads_is_said_before_its_end():
    heard: list[str] = []
    when: list[float] = []
    done = [0.0]

    def on_note(text: str) -> None:
        heard.append(text)
        when.append(done[0])

    point = ("incast", {"duration": "5s", "servers": "8", "requests": "instant"})
    [found] = sweeps.sweep(
        [point], threads=3, jobs=1, on_progress=lambda part: done.__setitem__(0, part), on_note=on_note
    )
    assert heard == [found.runs[0].threads_note]
    assert "requests=instant" in heard[0]
    assert when[0] < 0.9
