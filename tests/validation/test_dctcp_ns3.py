"""DCTCP against ns-3 (TcpDctcp, optimised build): long flows, 10 Gb/s, RTT 100 us, K = 40, an ACK per packet.

ns-3 counts neither the packet in its device queue nor the one on the wire, penstock counts both: two packets
are added to its mean and to K. ns-3's SYN is ECN-capable. Its sender follows Linux where RFC 8257 differs
(`rules=linux`).
"""

from __future__ import annotations

import pytest

import penstock

# Flows -> mean queue (without the two packets), its standard deviation, mean alpha.
NS3 = {
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
OPEN = pytest.mark.xfail(strict=True, reason="queue 9 and 13 % longer, cause unknown: docs/validation.md")


@pytest.mark.parametrize("flows", [pytest.param(n, marks=OPEN) if n >= 90 else n for n in NS3])
def test_queue_and_alpha(flows: int) -> None:
    result = penstock.run(
        "long-flows",
        flows=flows,
        link_rate="10Gbps",
        rtt="100us",
        buffer="1000pkt",
        queue="threshold:k=42pkt",
        protocol="dctcp:rules=linux",
        ect_syn="true",
        duration="0.6s",
        warmup="0.1s",
        sample="10us",
        send_jitter="0s",
    )
    mean, deviation, alpha = NS3[flows]
    assert result.mean("queue_mean_packets") == pytest.approx(mean + 2, rel=0.10)
    assert result.mean("queue_std_packets") == pytest.approx(deviation, rel=0.15)
    assert result.mean("alpha_mean") == pytest.approx(alpha, abs=0.05)
    assert result.mean("utilisation") > 0.99
