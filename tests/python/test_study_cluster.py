"""Studies on a Dask cluster: a worker that dies, Ctrl-C, a worker with another engine.

Needs the extra `cluster`, which the development packages hold.
"""

import hashlib
import json
import os
import signal
import sys
import time

import pytest
from conftest import inline

import penstock as lab
from penstock import scenario, store, sweeps

cloudpickle = pytest.importorskip("cloudpickle")
distributed = pytest.importorskip("distributed")
# The workers cannot import the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

BRIEF = {"duration": "100ms", "rto_min": "1ms", "sru": "32KB"}
OVER = {"servers": "4..22:10", "protocol": "newreno,cubic"}


class Diary(distributed.WorkerPlugin):
    """Writes down which run a worker begins, and when."""

    def __init__(self, path: str) -> None:
        self.path = path

    def setup(self, worker) -> None:
        from penstock import sweeps as there

        real, path = there._call, self.path

        def called(task, progress):
            with open(path, "a") as diary:
                diary.write(f"{time.time()} {hash_of(task.spec, task.run)}\n")
            return real(task, progress)

        there._call = called


def hash_of(spec: str, run: int) -> str:
    return hashlib.sha256(f"{spec} {run}".encode()).hexdigest()


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs="ERROR"
        ) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def pids(client) -> dict[str, int]:
    return dict(client.run(os.getpid))


def test_a_worker_that_dies_costs_nothing_that_was_stored(client, tmp_path, monkeypatch):
    """A hundred runs, the worker killed (SIGKILL) half-way."""
    diary = tmp_path / "diary"
    client.register_plugin(Diary(str(diary)), name="diary")
    stored: dict[str, float] = {}
    put = store.Store.put

    def noted(self, point, run, seed):
        put(self, point, run, seed)
        stored[f"{point} {run.run}"] = time.time()

    monkeypatch.setattr(store.Store, "put", noted)
    killed = []

    def half(done: float) -> None:
        if done >= 0.5 and not killed:
            killed.append(min(pids(client).values()))
            os.kill(killed[0], signal.SIGKILL)

    kept = tmp_path / "store"
    found = lab.study("incast", OVER, runs=5, settings=BRIEF, store=kept, executor=client, on_progress=half)
    assert killed and killed[0] not in pids(client).values()
    assert (found.ran, found.stored, found.unstored) == (100, 0, 0)
    serial = lab.study("incast", OVER, runs=5, settings=BRIEF, jobs=1)
    assert found.frame.write_csv() == serial.frame.write_csv()
    assert found.frame.height == 100
    assert len(stored) == 100
    begun: dict[str, list[float]] = {}
    for line in diary.read_text().splitlines():
        when, what = line.split()
        begun.setdefault(what, []).append(float(when))
    assert len(begun) == 100
    # A run that was under way, or whose result had not arrived, is run again; no other.
    again = 0
    for point in found.points:
        spec = scenario.spec("incast", {**BRIEF, **point}, 1)
        what = store.identity(spec, scenario.resolve("incast", {**BRIEF, **point}))
        for run in range(5):
            times = begun[hash_of(spec, run)]
            again += len(times) - 1
            assert all(when <= stored[f"{what} {run}"] for when in times)
    assert again >= 1, "the worker was killed while it did nothing"
    rest = lab.study("incast", OVER, runs=5, settings=BRIEF, store=kept, executor=client)
    assert (rest.ran, rest.stored) == (0, 100)


def test_the_same_argument_in_run_and_sweep(client):
    alone = lab.run("incast", settings=BRIEF, runs=2)
    found = lab.run("incast", settings=BRIEF, runs=2, executor=client)
    assert found.summaries == alone.summaries
    assert found.flows.equals(alone.flows)
    points = [("incast", {**BRIEF, "servers": n}) for n in (2, 4)]
    apart, here = (lab.sweep(points, executor=workers) for workers in (client, None))
    assert [runs.summaries for runs in apart] == [runs.summaries for runs in here]


def test_ctrl_c_keeps_what_is_finished_and_withdraws_the_rest(client, tmp_path):
    def cut(done: float) -> None:
        if done >= 0.1:
            raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(lab.Interrupted) as stop:
        lab.study(
            "incast", OVER, runs=5, settings=BRIEF, store=tmp_path, executor=client, seed=7, on_progress=cut
        )
    assert time.monotonic() - started < 10
    ended = stop.value.study.frame.height
    assert 10 <= ended < 100
    assert len(list((tmp_path / "runs").glob("*/[!.]*.json"))) == ended
    rest = lab.study("incast", OVER, runs=5, settings=BRIEF, store=tmp_path, executor=client, seed=7)
    assert (rest.ran, rest.stored) == (100 - ended, ended)
    # No task is left on the cluster without a caller that waits for it.
    while client.futures and time.monotonic() - started < 30:
        time.sleep(0.01)
    assert client.futures == {}


def test_a_run_that_is_wrong_there_names_itself(client):
    def late(task, engine):
        return sweeps.execute_there(task, "9.9.9-0123456789")

    real, sweeps.execute_there = sweeps.execute_there, late
    try:
        with pytest.raises(
            lab.RunFailed, match=r"incast, run \d: a worker has another engine: .* here it is 9.9.9"
        ):
            lab.run("incast", settings=BRIEF, executor=client)
    finally:
        sweeps.execute_there = real


def test_a_closed_client_is_a_failed_run(client):
    gone = distributed.Client(client.scheduler.address, set_as_default=False)
    gone.close()
    with pytest.raises(lab.RunFailed, match="the Dask client is closed"):
        lab.run("incast", settings=BRIEF, executor=gone)


def test_what_is_no_executor_is_refused():
    with pytest.raises(
        lab.ScenarioError, match=r'executor = "str": must be a concurrent.futures.Executor or a Dask'
    ):
        lab.run("incast", settings=BRIEF, executor="tcp://10.0.0.1:8786")


def test_the_command_line_sends_its_runs_to_a_cluster(client, tmp_path):
    words = [
        "sweep",
        "incast",
        "--over",
        "servers=2,4",
        "--set",
        "duration=50ms",
        "--set",
        "rto_min=1ms",
        "--json",
    ]
    there = inline(*words, "--executor", client.scheduler_info()["address"])
    assert there.returncode == 0, there.stderr
    assert without_time(there.stdout) == without_time(inline(*words).stdout)


def without_time(text):
    """What a sweep printed, but for the CPU time of its runs."""
    points = json.loads(text)
    for point in points:
        for summary in (point["mean"], point["ci95"], *(run["summary"] for run in point["runs"])):
            del summary["cpu_s"]
    assert points[0]["mean"]["goodput_bps"] > 0
    return points
