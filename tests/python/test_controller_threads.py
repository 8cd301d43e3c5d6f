"""Compiled controllers on several threads, and what a controller that fails says on any number of them."""

import pytest
from test_controller import ACK, CONGESTION, CONTROL, HEAD, HERE, JIT, START, interpreted, tables, written

import penstock
from penstock import controllers

pytestmark = pytest.mark.skipif(not JIT, reason="needs Numba")
# Enough to do in a window for two threads; queues mark.
PERMUTATION = {"topology": "fat-tree:8", "link_rate": "100Gbps", "duration": "300us", "seed": 4}


def test_compiled_laws_and_queues_leave_the_same_bytes_on_one_thread_and_two():
    law = controllers.load(HERE / "examples/dctcp.py", "Dctcp")
    queue = controllers.load(HERE / "examples/red.py", "Threshold")(k=15)
    built_in = penstock.run("permutation", protocol="dctcp", queue="threshold:k=15pkt", **PERMUTATION)
    assert built_in.summary["ce_marks"] > 0
    for threads in (1, 2):
        by_code = penstock.run("permutation", protocol=law, queue=queue, threads=threads, **PERMUTATION)
        assert by_code.runs[0].timings["threads"] == threads
        assert by_code.summaries == built_in.summaries
        assert tables(by_code) == tables(built_in)


def test_interpreted_ones_are_run_on_one_thread_which_is_said():
    law = interpreted("examples/dctcp.py", "Dctcp")
    short = PERMUTATION | {"duration": "20us"}
    run = penstock.run("permutation", protocol=law, threads=2, **short).runs[0]
    assert run.timings["threads"] == 1
    assert "interpreted" in run.threads_note


def test_the_first_failure_is_told_whatever_the_run_was_made_on(tmp_path):
    # Every sender fails with its hundredth ACK; which one is first, and when, depends on the network.
    failing = ACK.replace(
        "        self.count += 1\n",
        "        self.count += 1\n        if self.count > 100:\n            self.cwnd = math.nan\n",
    )
    assert failing != ACK
    text = HEAD + START + failing + CONGESTION + CONTROL
    told = set()
    for threads, compile in ((1, False), (1, True), (2, True)):
        protocol = written(tmp_path, text, compile)
        with pytest.raises(RuntimeError) as problem:
            penstock.run("permutation", protocol=protocol, threads=threads, **PERMUTATION)
        told.add(str(problem.value))
    (message,) = told
    assert "cwnd becomes NaN" in message and "flow " in message
