"""The Linux sender's timeout while nothing arrives any more."""

import polars as pl
import pytest

import penstock


def timeouts(**settings) -> list[float]:
    """The timeouts of a flow whose link fails for good (s), in order."""
    network = penstock.Network(["a", "b"], ["switch"])
    network.link("a", "switch", rate="100Mbps", delay="0.2ms")
    network.link("switch", "b", rate="100Mbps", delay="0.2ms", buffer="100pkt")
    run = penstock.run(
        network,
        workloads=[penstock.Flows("a", "b", size="1GB")],
        duration="400s",
        fail="switch->b@0.5s",
        **settings,
    )
    return run.events.filter(pl.col("what").str.contains("timeout"))["rto_s"].to_list()


@pytest.mark.parametrize("how", [{"protocol": "linux-cubic"}, {"protocol": "dctcp", "tcp": "linux"}])
def test_the_timeout_of_linux_doubles_up_to_two_minutes(how):
    found = timeouts(**how)
    assert max(found) == pytest.approx(120.0)


def test_a_ceiling_and_a_factor_that_are_given_hold_for_linux_too():
    assert max(timeouts(protocol="linux-cubic", rto_max="30s")) == pytest.approx(30.0)
    few = timeouts(protocol="linux-cubic", backoff_max="4")
    assert max(few) == pytest.approx(4 * min(few), rel=0.01)


def test_other_senders_keep_the_ceiling_of_the_rfc():
    assert max(timeouts(protocol="cubic", backoff_max="100000")) == pytest.approx(60.0)
