"""RCP, QI-RCP, PIQI-RCP and XCP in the simulator: max-min shares, the stability bound, losses, bad input."""

import numpy as np
import pytest

import penstock
from penstock.models.maxmin import max_min
from penstock.scenario import ScenarioError

# Payload over wire length of a full packet of these scenarios.
WIRE = 1000 / 944
# Protocol and the share of the capacity it aims at.
FAMILY = {"rcp": 1.0, "qi-rcp:eta=0.5": 0.95, "piqi-rcp:eta=0.5": 0.95}


def shares(runs: penstock.RunSet, flows: int) -> np.ndarray:
    """Throughput of each flow on the wire, in bit/s, over the measured part."""
    acked = runs.flows.sort("flow")["acked_bytes"].to_numpy()[:flows]
    return acked * 8 * WIRE / runs.mean("measured_s")


@pytest.mark.parametrize("protocol", FAMILY)
@pytest.mark.parametrize("seed", range(6))
def test_random_chains_reach_the_exact_max_min_shares(protocol, seed):
    # Guards: minimum over the path, sharing at several bottlenecks, routers that control few of many flows.
    rng = np.random.default_rng(seed)
    links = int(rng.integers(2, 5))
    # At least 100 packets per round trip: RCP's queue term gives away 2.5 q/d of the link, which a single
    # waiting packet makes several percent of a link that holds ten.
    hops = rng.integers(60, 200, links)  # Mb/s
    paths = []
    for _ in range(int(rng.integers(2, 7))):
        first, last = sorted(rng.integers(0, links, 2).tolist())
        paths.append(list(range(first, last + 1)))
    text = ",".join(f"{p[0] + 1}-{p[-1] + 1}@{i * 0.2:.1f}s" for i, p in enumerate(paths))
    runs = penstock.run(
        "parking-lot",
        protocol=protocol,
        hops=",".join(f"{h}Mbps" for h in hops),
        flows=text,
        delay="8ms",
        duration="12s",
        warmup="8s",
        series="false",
        keep=["flows"],
    )
    exact = max_min(hops * FAMILY[protocol] * 1e6, paths).rates
    assert shares(runs, len(paths)) == pytest.approx(exact, rel=0.01), (hops, text)


@pytest.mark.parametrize("protocol", ["qi-rcp:lag=1", "piqi-rcp:lag=1,tau1=0.05,tau2=0.88"])
def test_the_stability_bound_separates_steady_from_oscillating(protocol):
    # Guards: kappa from the largest RTT, the loop's delay, equations (4), (18), (19), all at once. With these
    # values the printed bounds are the loop's own within a percent; with the paper's, the defaults, not.
    swing = []
    for eta in (0.95, 1.05):
        runs = penstock.run(
            "staggered", flows=2, every="5s", duration="90s", protocol=f"{protocol},eta={eta}", sample="50ms"
        )
        port = runs.series.filter(runs.series["metric"] == "fair_rate_bps")
        late = port.filter(port["time_s"] > 80)["value"].to_numpy()
        swing.append((late.max() - late.min()) / (2 * late.mean()))
    assert swing[0] < 0.01 < 0.05 < swing[1]


@pytest.mark.parametrize("protocol", ["rcp", "qi-rcp", "piqi-rcp", "xcp"])
def test_losses_of_data_and_feedback_are_repaired(protocol):
    # A crowd at a buffer far below what these protocols need: packets and the feedback in them are lost.
    runs = penstock.run("join", flows=30, join_at="2s", duration="30s", buffer="40pkt", protocol=protocol)
    assert runs.mean("drops") > 100
    late = penstock.run(
        "join", flows=30, join_at="2s", duration="60s", warmup="50s", buffer="40pkt", protocol=protocol
    )
    assert late.mean("utilisation") > 0.9
    assert late.mean("jain") > 0.95


@pytest.mark.parametrize("protocol", ["rcp", "qi-rcp", "piqi-rcp"])
def test_many_slow_senders_do_not_fill_the_link_with_headers(protocol):
    # Ten flows on 10 Mb/s at an RTT below that of one full packet: 37 bytes per flow and RTT.
    run = penstock.run(
        "long-flows", flows=10, link_rate="10Mbps", rtt="100us", duration="2s", warmup="1s", protocol=protocol
    )
    assert run.mean("goodput_bps") > 2e6


def test_short_flows_complete_through_a_small_buffer():
    runs = penstock.run("poisson", duration="40s", buffer="60pkt", load=0.6, protocol="rcp", keep=["flows"])
    early = runs.flows.filter((runs.flows["opened_s"] < 10) & (runs.flows["size_bytes"] < 100_000))
    assert runs.mean("drops") > 0
    assert early["complete"].all()


def test_xcp_shares_one_link_equally():
    runs = penstock.run("join", protocol="xcp", flows=4, join_at="5s", duration="60s", warmup="50s")
    assert runs.mean("jain") > 0.999
    assert runs.mean("utilisation") > 0.99


def test_leaving_flows_close():
    runs = penstock.run("join", flows=3, join_at="2s", leave_at="5s", duration="10s", keep=["flows"])
    flows = runs.flows.sort("flow")
    assert flows["complete"].to_list() == [False, True, True, True]
    assert np.all(flows["closed_s"].to_numpy()[1:] < 6)


@pytest.mark.parametrize(
    ("scenario", "settings", "key"),
    [
        ("join", {"protocol": "piqi-rcp:tau1=0.5,tau2=0.9"}, "protocol:tau2"),
        ("join", {"protocol": "newreno", "interval": "10ms"}, "interval"),
        ("join", {"rtt": "50ms", "delay": "50ms"}, "rtt"),
        ("staggered", {"rtt": "120ms,fast"}, "rtt"),
        ("parking-lot", {"flows": "2-1@0s"}, "flows"),
        ("parking-lot", {"flows": "1-9@0s"}, "flows"),
        ("parking-lot", {"hops": "970"}, "hops"),
    ],
)
def test_bad_values_are_named(scenario, settings, key):
    with pytest.raises(ScenarioError, match=f"^{key}"):
        penstock.run(scenario, **settings)


def test_the_interval_key_is_the_protocols_interval():
    a = penstock.run("join", duration="3s", join_at="1s", interval="5ms", protocol="rcp")
    b = penstock.run("join", duration="3s", join_at="1s", protocol="rcp:interval=5ms")
    assert a.summaries == b.summaries
