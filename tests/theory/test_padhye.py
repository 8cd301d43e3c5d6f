"""One flow with random loss sends at the rate of the full formula within 15 %. Source: Padhye, Firoiu,
Towsley and Kurose, Modeling TCP Reno performance: a simple model and its empirical validation, IEEE/ACM ToN 8
(2), 2000.

Packets are lost independently with probability p, so the model's p, the chance that a packet is lost when
the one before it in its round was not, is the link's. The rate is that of everything sent, retransmissions
included; what arrives is 1 - p of it. The model has no limited transmit (RFC 3042) and no delayed-ACK timer:
the timer is one round trip here, so that a single segment, after a timeout, is answered in the next round.
"""

from __future__ import annotations

import math
from pathlib import Path

import networks
import pytest
from networks import SEGMENT

ROUND_TRIP = 0.1
TIMEOUT = 0.4
# Loss probability -> losses in a run. The spread of the rate is below 1 / sqrt(losses).
LOSSES = {0.001: 500, 0.003: 1000, 0.01: 2000, 0.02: 4000, 0.05: 16000}


def sending_rate(p: float, acknowledged: int) -> float:
    """Packets per second when every `acknowledged`-th packet is acknowledged: equations (28) to (32), from
    memory.
    """
    b = acknowledged
    shift = (2 + b) / (3 * b)
    window = shift + math.sqrt(8 * (1 - p) / (3 * b * p) + shift**2)
    # The chance that a loss ends in a timeout: fewer than three of the window's last packets arrive.
    three = (1 - p) ** 3
    q = min(1.0, (1 - three) * (1 + three * (1 - (1 - p) ** (window - 3))) / (1 - (1 - p) ** window))
    # A timeout's mean length, doubled up to 64 times.
    backoff = (1 + p + 2 * p**2 + 4 * p**3 + 8 * p**4 + 16 * p**5 + 32 * p**6) / (1 - p)
    packets = (1 - p) / p + window + q / (1 - p)
    return packets / (ROUND_TRIP * (b / 2 * window + 1) + q * TIMEOUT * backoff)


def test_the_formula_at_its_end() -> None:
    """For a small p it is the square-root law, sqrt(3 / (2 b p)) per round trip."""
    for b in (1, 2):
        law = math.sqrt(3 / (2 * b * 1e-8)) / ROUND_TRIP
        assert sending_rate(1e-8, b) == pytest.approx(law, rel=1e-3)


@pytest.mark.parametrize("delayed_ack", [1, 2])
@pytest.mark.parametrize("p", LOSSES)
@pytest.mark.parametrize("protocol", ["reno", "newreno", "sack"])
def test_a_flow_with_random_loss(tmp_path: Path, protocol: str, p: float, delayed_ack: int) -> None:
    expected = sending_rate(p, delayed_ack)
    one_way = {"rate": "1Gbps", "delay": f"{ROUND_TRIP / 2}s", "buffer": "10000000pkt"}
    result = networks.run(
        tmp_path,
        ["a", "b"],
        ["s"],
        [
            networks.link("a", "s", 10e9, 0.0),
            {"from": "s", "to": "b", **one_way, "loss": p},
            {"from": "b", "to": "s", **one_way},
        ],
        [{"kind": "flows", "from": "a", "to": "b"}],
        protocol=protocol,
        limited_transmit="false",
        delayed_ack=delayed_ack,
        rto_min=f"{TIMEOUT}s",
        warmup="20s",
        duration=f"{20 + LOSSES[p] / p / expected}s",
        **({"delayed_ack_timeout": f"{ROUND_TRIP}s"} if delayed_ack > 1 else {}),
    )
    sent = result.mean("packets_sent") / result.mean("measured_s")
    received = result.mean("goodput_bps") / 8 / SEGMENT
    print(
        f"{protocol}, p {p}, an ACK per {delayed_ack}: {expected:.1f} packets/s, found {sent:.1f}"
        f" ({sent / expected:.3f}), received {received:.1f}"
    )
    assert sent == pytest.approx(expected, rel=0.15)
    # Nothing but what the link drops is lost, and only that is sent twice, or little more.
    assert sent * (1 - p) * 0.97 < received <= sent * (1 - p) * 1.02
