"""The speed table's jobs: each is a scenario that the engine takes, and has a floor. No speed is judged."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import scenario

_spec = importlib.util.spec_from_file_location(
    "bench", Path(__file__).resolve().parents[2] / "tools" / "bench.py"
)
assert _spec is not None and _spec.loader is not None
bench = importlib.util.module_from_spec(_spec)
sys.modules["bench"] = bench
_spec.loader.exec_module(bench)


@pytest.mark.parametrize("job", bench.JOBS, ids=lambda job: job.name)
def test_every_job_is_a_scenario(job) -> None:
    scenario.check(scenario.spec(job.scenario, job.settings, 1))
    assert job.beside is None or job.beside[1] in [other.name for other in bench.JOBS]


def test_every_floor_moves_packets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "FLOOR", tmp_path / "floor")
    if not bench.build_floor():
        pytest.skip("no rustc")
    for network, size in {(job.floor[0], job.floor[1]) for job in bench.JOBS if job.floor is not None}:
        micros = "20000" if network == "star" else "20"
        done = subprocess.run(
            [str(bench.FLOOR), network, str(size), "10", micros], check=True, capture_output=True, text=True
        )
        # By heap, by wheel and by pods: the same packets at the same times, or this raises.
        kinds = {"heap", "wheel", "pods"} if network == "fat-tree" else {"heap", "wheel"}
        times = bench.floor_times(done.stdout)
        assert times.keys() == kinds and min(times.values()) > 0
        assert int(done.stdout.split()[2]) > 100, (network, size)


def test_floors_that_move_different_packets_are_refused() -> None:
    assert bench.floor_times("heap 30.5 10 77\nwheel 20.5 10 77\n") == {"heap": 30.5, "wheel": 20.5}
    with pytest.raises(ValueError, match="same packets"):
        bench.floor_times("heap 30.5 10 77\nwheel 20.5 10 78\n")


def test_a_goal_that_is_missed_is_named() -> None:
    cost = {"cpu_s": 2.0, "hops": 1e7, "threads": 1, "flows": 1000, "wall_s": 3.0, "mb": 250.0}
    job = bench.Job("a job", "incast", {}, goal_ns=100, goal_mb=200, goal_us_per_flow=3000, goal_gain=1.6)
    slow = bench.row(job, bench.Measured([cost], [cost | {"wall_s": 2.0}], {"heap": 60.0, "wheel": 50.0}), [])
    assert (slow["ns_per_hop"], slow["times_floor"], slow["us_per_flow"], slow["gain"]) == (200, 4, 2000, 1.5)
    assert slow["floor_kind"] == "wheel"
    assert bench.missed(slow) == [
        "a job: ns_per_hop 200.00, goal 100.00",
        "a job: peak_mb 250.00, goal 200.00",
        "a job: gain 1.50, goal 1.60",
    ]
    good = cost | {"cpu_s": 0.9, "mb": 199.0}
    assert bench.missed(bench.row(job, bench.Measured([cost, good], [good | {"wall_s": 1.0}], {}), [])) == [
        "a job: peak_mb 250.00, goal 200.00"
    ]
