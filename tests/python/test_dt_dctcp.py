"""Double-threshold marking in whole runs: one threshold where it must be; the design call checked."""

import numpy as np
import pytest

import penstock
from penstock.models.design import threshold_for
from penstock_papers.experiments.dt_dctcp.setup import SINGLE, long_flows

SHORT = {"duration": "60ms", "warmup": "20ms"}


def same(one: penstock.RunSet, two: penstock.RunSet) -> bool:
    """Whether two results agree in every summary key and every cell of every table."""
    assert one.summaries == two.summaries
    assert set(one.tables(0)) == set(two.tables(0))
    return all(table.equals(two.tables(0)[name]) for name, table in one.tables(0).items())


@pytest.mark.parametrize("turn", ["hold", "direction"])
@pytest.mark.parametrize(("k", "flows"), [("40pkt", 10), ("60KB", 40)])
def test_equal_thresholds_give_dctcp_byte_for_byte(turn: str, k: str, flows: int) -> None:
    settings = {"series": "true", "sample": "50us", "series_flows": 5, **SHORT}
    one, two = (
        penstock.run(name, **values, runs=2)
        for name, values in (
            long_flows(flows, f"threshold:k={k}", **settings),
            long_flows(flows, f"hysteresis:k1={k},k2={k},turn={turn}", **settings),
        )
    )
    assert same(one, two)
    assert one.mean("ce_marks") > 100


@pytest.mark.parametrize("queue", ["hysteresis:k1=34KB,k2=28KB", "hysteresis:k1=30pkt,k2=50pkt"])
def test_different_thresholds_do_not(queue: str) -> None:
    one = penstock.run("testbed", servers=10, repetitions=3)
    two = penstock.run("testbed", servers=10, repetitions=3, queue=queue)
    assert one.summaries != two.summaries


@pytest.mark.parametrize("connections", ["fresh", "persistent"])
def test_testbed_delivers_every_answer(connections: str) -> None:
    result = penstock.run("testbed", servers=20, repetitions=4, total="1MB", connections=connections)
    assert result.mean("blocks") == 4
    assert result.mean("goodput_bps") * result.mean("measured_s") / 8 == pytest.approx(4e6, rel=1e-6)
    # Only Switch 1 marks: its port towards the aggregator and those towards the leaves.
    marking = result.ports.filter(result.ports["ce_marks"] > 0)["name"].to_list()
    assert marking
    assert all(name.startswith("S1->") for name in marking)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"queue": "hysteresis:k1=30KB,k2=50pkt"}, "same unit"),
        ({"queue": "hysteresis:turn=sideways"}, "turn"),
        ({"servers": 20, "total": "19B"}, "at least one byte"),
        ({"root_buffer": "1000B"}, "must hold at least one packet"),
    ],
)
def test_bad_settings_are_named(settings: dict, words: str) -> None:
    with pytest.raises(penstock.ScenarioError, match=words):
        penstock.run("testbed", **settings)


@pytest.mark.parametrize(
    ("flows", "band"), [([5], 0.0), ([10], 0.0), ([10], -0.2), ([40], 0.0), ([20], 0.25)]
)
def test_advised_threshold_keeps_the_link_busy_in_packets(flows: list[int], band: float) -> None:
    """The design call answers from the models; packets must agree: above 99 %, a bounded queue."""
    advice = threshold_for(10e9, 100e-6, flows, band=band)
    assert advice.marking is not None
    k1, k2 = (max(1, round(float(k))) for k in (advice.marking.k1, advice.marking.k2))
    for n in flows:
        name, values = long_flows(n, f"hysteresis:k1={k1}pkt,k2={k2}pkt", duration="200ms", warmup="50ms")
        result = penstock.run(name, **values)
        assert result.mean("utilisation") > 0.99
        assert result.mean("queue_max_packets") < 2.5 * float(np.max(advice.chosen.queue_max)) + 10


def test_alpha_and_queue_of_ten_flows() -> None:
    """What the rows and their reasons build on, at one point: 33 packets, alpha 0.31 (ns-3: 0.308)."""
    name, values = long_flows(10, SINGLE, duration="200ms", warmup="50ms")
    result = penstock.run(name, **values)
    assert result.mean("queue_mean_packets") == pytest.approx(33, rel=0.1)
    assert result.mean("alpha_mean") == pytest.approx(0.31, rel=0.1)
    assert result.mean("drops") == 0
