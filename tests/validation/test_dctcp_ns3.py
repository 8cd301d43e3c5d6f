"""DCTCP against ns-3 (TcpDctcp, optimised build): long flows, 10 Gb/s, RTT 100 us, K = 40, an ACK per packet.

ns-3 counts neither the packet in its device queue nor the one on the wire, penstock counts both: two packets
are added to its mean and to K. ns-3's SYN is ECN-capable. Its sender follows Linux where RFC 8257 differs
(`rules=linux`), but there is no floor under its window (`min_window=0`). tools/ns3_dctcp.cc gives the numbers
of the tests that change ns-3's rules.
"""

from __future__ import annotations

import pytest

import penstock

# Flows -> mean queue (without the two packets), its standard deviation, mean alpha.
Point = tuple[float, float, float]
NS3: dict[int, Point] = {
    10: (34.365, 9.699, 0.308),
    20: (36.398, 14.471, 0.392),
    30: (40.460, 17.879, 0.435),
    40: (43.968, 22.001, 0.477),
    50: (48.476, 25.055, 0.524),
    60: (51.103, 27.901, 0.569),
    70: (53.094, 29.965, 0.605),
    80: (59.006, 32.801, 0.629),
    90: (57.835, 31.870, 0.649),
    100: (60.407, 33.337, 0.665),
}
# Values of ns-3.37 with a floor of one segment (RFC 3168) or two (Linux) under the window after a mark.
FLOORS: dict[tuple[int, int], Point] = {
    (1, 80): (59.552, 32.357, 0.635),
    (1, 90): (65.399, 38.071, 0.676),
    (1, 100): (67.181, 37.676, 0.739),
    (2, 40): (43.380, 22.488, 0.485),
    (2, 100): (113.734, 0.442, 1.000),
}
# Values of ns-3.37 with the rules of RFC 8257 and a floor of one segment.
RFC: dict[int, Point] = {
    10: (35.589, 7.930, 0.311),
    40: (41.480, 20.652, 0.470),
    70: (49.011, 23.676, 0.536),
    100: (70.534, 33.969, 0.606),
}


def long_flows(flows: int, protocol: str, **changes: str) -> penstock.RunSet:
    options = {
        "flows": flows,
        "link_rate": "10Gbps",
        "rtt": "100us",
        "buffer": "1000pkt",
        "queue": "threshold:k=42pkt",
        "protocol": protocol,
        "ect_syn": "true",
        "duration": "0.6s",
        "warmup": "0.1s",
        "sample": "10us",
        "send_jitter": "0s",
    }
    return penstock.run("long-flows", **(options | changes))


def agrees(result: penstock.RunSet, point: Point) -> None:
    mean, deviation, alpha = point
    assert result.mean("queue_mean_packets") == pytest.approx(mean + 2, rel=0.10)
    assert result.mean("queue_std_packets") == pytest.approx(deviation, rel=0.15)
    assert result.mean("alpha_mean") == pytest.approx(alpha, abs=0.05)
    assert result.mean("utilisation") > 0.99


@pytest.mark.parametrize("flows", NS3)
def test_queue_and_alpha(flows: int) -> None:
    agrees(long_flows(flows, "dctcp:rules=linux,min_window=0"), NS3[flows])


@pytest.mark.parametrize("floor, flows", FLOORS)
def test_a_floor_under_the_window_does_the_same_in_both(floor: int, flows: int) -> None:
    agrees(long_flows(flows, f"dctcp:rules=linux,min_window={floor}"), FLOORS[floor, flows])


@pytest.mark.parametrize("flows", RFC)
def test_the_rules_of_rfc_8257_do_the_same_in_both(flows: int) -> None:
    """Without the tenth of a microsecond of jitter, exactly equal clocks lock the senders into phase."""
    agrees(long_flows(flows, "dctcp", send_jitter="0.1us"), RFC[flows])


def test_forty_flows_with_every_key_but_k_at_its_default() -> None:
    """Guards the defaults: who sets only rate, RTT, number and K gets what the reference has at 40 flows."""
    result = penstock.run(
        "long-flows",
        flows=40,
        link_rate="10Gbps",
        rtt="100us",
        protocol="dctcp",
        queue="threshold:k=42pkt",
        sample="100us",
    )
    agrees(result, RFC[40])
    assert result.mean("drops_nonect") == 0
    assert result.warnings == []
