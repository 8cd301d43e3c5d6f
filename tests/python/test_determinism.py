"""Same seed, same bytes, for any number and kind of workers."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from conftest import SHORT, penstock

from penstock import sweep


def run(short: list[str], out: Path, *arguments: str) -> dict[str, bytes]:
    done = penstock("run", *short, "--runs", "3", "--out", str(out), *arguments)
    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {"run.json", "summary.json", "flows.parquet", "ports.parquet"} <= set(files)
    # Host, timings: the one file that tells machines apart.
    del files["run.json"]
    return files


def test_one_and_two_workers_write_the_same_files(tmp_path, short):
    one = run(short, tmp_path / "one", "--jobs", "1")
    two = run(short, tmp_path / "two", "--jobs", "2")
    again = run(short, tmp_path / "again", "--jobs", "2")
    assert one == two == again


def test_another_seed_gives_another_result(tmp_path, short):
    first = run(short, tmp_path / "1", "--seed", "1")
    second = run(short, tmp_path / "2", "--seed", "2")
    assert first["summary.json"] != second["summary.json"]
    assert first["flows.parquet"] != second["flows.parquet"]


def test_replications_differ_from_one_another():
    (result,) = sweep([("incast", SHORT)], runs=3)
    assert len({str(summary) for summary in result.summaries}) == 3


def test_a_replication_does_not_depend_on_how_many_there_are():
    (three,) = sweep([("incast", SHORT)], runs=3)
    (one,) = sweep([("incast", SHORT)], runs=1)
    assert three.summaries[0] == one.summaries[0]


def test_results_come_in_declared_order_though_long_points_end_last():
    points = [("incast", SHORT | {"duration": d}) for d in ("400ms", "10ms", "200ms")]
    together = sweep(points, jobs=3)
    alone = [sweep([point])[0] for point in points]
    assert [r.summaries for r in together] == [r.summaries for r in alone]


def test_worker_processes_give_the_same_result():
    with ProcessPoolExecutor(2) as pool:
        (processes,) = sweep([("incast", SHORT)], runs=4, executor=pool, keep=["flows"])
    (threads,) = sweep([("incast", SHORT)], runs=4, keep=["flows"])
    assert processes.summaries == threads.summaries
    assert processes.flows.equals(threads.flows)


@pytest.mark.parametrize("protocol", ["reno", "sack", "cubic", "dctcp"])
def test_each_protocol_repeats_itself(protocol):
    given = SHORT | {"protocol": protocol, "servers": "8"}
    first, second = (sweep([("incast", given)], runs=2)[0] for _ in range(2))
    assert first.summaries == second.summaries
