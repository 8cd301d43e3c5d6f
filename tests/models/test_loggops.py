"""Finish times of a schedule under LogGOPS, by hand; LogGOPSim's own are among the engine's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.models import loggops

TWO = (
    "num_ranks 2\nrank 0 {\ns: send 11b to 1\n}\nrank 1 {\nr: recv 11b from 0\nc: calc 50\nc requires r\n}\n"
)


def test_one_message_takes_two_overheads_a_latency_and_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "two.goal"
    path.write_text(TWO)
    found = loggops.finish_times(path, latency=100, overhead=7, gap=5, per_byte=3)
    # The sender is free after o; the receiver after o + L + o + 10 G and its computation.
    assert found.tolist() == [7, 7 + 100 + 7 + 10 * 3 + 50]


def test_what_is_wrong_is_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "two.goal"
    path.write_text(TWO.replace("from 0", "from 3"))
    with pytest.raises(penstock.ScenarioError, match="names rank 3, but there are 2"):
        loggops.finish_times(path, latency=1, overhead=1, gap=1, per_byte=1)
