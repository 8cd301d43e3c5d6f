"""All-to-all web-search traffic at 60 % on a leaf-spine network (leaf_spine_websearch.toml).

Buffers of 4 MB never fill, so DCTCP must lose nothing. Where control packets were not ECN-capable, the
marking threshold dropped tens of thousands of acknowledgements and SYNs.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import penstock
from penstock.runs import RunSet

CASE = Path(__file__).with_name("leaf_spine_websearch.toml")


@pytest.fixture(scope="module")
def result() -> RunSet:
    return penstock.run(CASE, runs=3, seed=1)


@pytest.mark.parametrize("key", ["drops", "drops_nonect", "timeouts"])
def test_nothing_is_lost(result: RunSet, key: str) -> None:
    assert [run.summary[key] for run in result.runs] == [0, 0, 0]


@pytest.mark.parametrize("cause", ["overflow", "early", "nonect"])
def test_no_port_drops(result: RunSet, cause: str) -> None:
    assert result.ports[f"drops_{cause}"].sum() == 0


def test_the_case_is_what_it_says(result: RunSet) -> None:
    """The load is offered, ports do fill to K, and no buffer is ever full."""
    assert result.mean("offered_load") == 0.6
    assert result.mean("size_mean_bytes") == 1_711_250
    assert result.mean("ce_marks") > 10_000
    switches = result.ports.filter(~pl.col("name").str.starts_with("h"))
    # The threshold bites, and 4 MB (2,667 packets) are far away.
    assert 65 <= switches["queue_max_packets"].max() < 2_000
    to_hosts = switches.filter(pl.col("name").str.contains("->h"))["utilisation"].mean()
    # Flows of 30 MB begin and do not end within 300 ms: what is offered is not all carried.
    assert 0.4 < to_hosts < 0.66
