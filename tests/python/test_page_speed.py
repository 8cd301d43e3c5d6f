"""The page is as fast as it must be: measured as `make bench` does, the best of some attempts.

A machine with other work cannot show it: where all attempts miss the goal while others had more than a fifth
of the processors, the test is skipped with what was measured. The goals are the same everywhere. What the
page's main thread does is measured in its own processor time, and is asserted whatever else runs.
"""

import importlib.util
import time
from pathlib import Path

import pytest
from conftest import needs_chromium, needs_page

ATTEMPTS = 4
# Of all processors, by processes that are not ours.
MOST_BY_OTHERS = 0.2

pytestmark = [needs_page, needs_chromium]

_spec = importlib.util.spec_from_file_location(
    "bench_page", Path(__file__).resolve().parents[2] / "tools" / "bench_page.py"
)
bench = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(bench)


class Processors:
    """The share of all processors that others have had since it was made."""

    def __init__(self):
        self.psutil = pytest.importorskip("psutil", reason="psutil is not installed")
        self.before = self._seconds()

    def _seconds(self):
        times = self.psutil.cpu_times()
        busy = times.user + times.nice + times.system
        own = 0.0
        me = self.psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            try:
                found = process.cpu_times()
            except self.psutil.NoSuchProcess:
                continue
            own += found.user + found.system
        return time.monotonic(), busy, own

    def others(self):
        (t0, busy0, own0), (t1, busy1, own1) = self.before, self._seconds()
        return max(0.0, (busy1 - busy0) - (own1 - own0)) / (t1 - t0) / self.psutil.cpu_count()


def best(measure, met, browser, folder):
    """The first attempt that meets its goals, else the last; skipped where others had the machine."""
    busy = []
    for _ in range(ATTEMPTS):
        clock = Processors()
        found = measure(browser, folder)
        busy.append(clock.others())
        if met(found):
            return found
    if min(busy) > MOST_BY_OTHERS:
        said = ", ".join(f"{key} {value:.3g}" for key, value in found.items())
        pytest.skip(f"others had {min(busy):.0%} of the processors or more; measured: {said}")
    return found


def test_first_picture_and_rerun(browser, tmp_path):
    goals = {key: bench.GOALS[key] for key in ("first_s", "rerun_s")}
    found = best(bench.incast, lambda f: all(f[k] <= v for k, v in goals.items()), browser, tmp_path)
    for key, goal in goals.items():
        assert found[key] <= goal, found


def test_packet_hops_per_second(browser, tmp_path):
    goal = bench.GOALS["hops_per_s"]
    found = best(bench.hops, lambda f: f["hops_per_s"] >= goal, browser, tmp_path)
    assert found["hops_per_s"] >= goal


def test_frames_per_second_with_a_hundred_thousand_packets(browser, tmp_path):
    goal = bench.GOALS["frames_per_s"]
    found = best(bench.frames, lambda f: f["frames_per_s"] >= goal, browser, tmp_path)
    assert found["packets"] >= bench.PACKETS
    assert found["frames_per_s"] >= goal, found


def test_the_main_thread_has_time_left(browser, tmp_path):
    goals = bench.MAIN_GOALS
    found = bench.incast(browser, tmp_path) | bench.frames(browser, tmp_path)
    assert {key: found[key] for key, goal in goals.items() if found[key] > goal} == {}
