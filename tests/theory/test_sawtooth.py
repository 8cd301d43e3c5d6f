"""One NewReno flow and a buffer that is smaller than the path: utilisation of the sawtooth, within 2 %.

In packets: the path holds P when nothing waits (one in service included), the port b P more before it
overflows. A loss is found at a window of (1 + b) P, the window is halved (RFC 5681 eq. (4)), then grows by a
packet per round trip (eq. (3)). Below P a round trip takes R and the link is partly idle; above, W packets
take W R / P. Over one tooth

    packets = integral of W dW from (1 + b) P / 2 to (1 + b) P = 3/8 (1 + b)^2 P^2
    time    = (P - (1 + b) P / 2) R + ((1 + b)^2 - 1) P^2 / 2 R / P

so the utilisation is 3/4 (1 + b)^2 / (1 + b + b^2): 3/4 without a buffer, 1 with b = 1. The round trip in
which the loss is repaired adds half a window of (1 + b) P / 2 packets and R of time, a correction of the
order of 1 / P.
"""

from __future__ import annotations

from pathlib import Path

import networks
import pytest
from networks import HEADER, SEGMENT

RATE = 50e6
PACKET = (SEGMENT + HEADER) * 8 / RATE
ACCESS = 1e9
ROUND_TRIP = 0.04  # propagation


def utilisation(pipe: float, buffer: int) -> float:
    """`pipe` packets fill the path, `buffer` packets the port, the one in service included in both."""
    b = (buffer - 1) / pipe
    assert 0 <= b < 1
    top = (1 + b) * pipe
    packets = 3 / 8 * top**2 + top / 2
    time = (pipe - top / 2) * pipe + (top**2 - pipe**2) / 2 + pipe
    return packets / time


def test_the_ends_of_the_formula() -> None:
    """A long path: 3/4 without a buffer, 1 with a whole one."""
    assert utilisation(1e6, 1) == pytest.approx(0.75, rel=1e-5)
    assert utilisation(1e6, 1_000_000) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.2, 0.35, 0.5, 0.75, 0.95])
def test_utilisation_with_a_small_buffer(tmp_path: Path, share: float) -> None:
    # The times of a segment and its acknowledgement apart from waiting, in packets.
    around = ROUND_TRIP + 8 / ACCESS * (SEGMENT + 2 * HEADER) + (SEGMENT + 2 * HEADER) * 8 / RATE
    pipe = around / PACKET
    buffer = max(2, round(share * pipe))
    result = networks.run(
        tmp_path,
        ["a", "b"],
        ["s"],
        [
            networks.link("a", "s", ACCESS, 0.0),
            networks.link("s", "b", RATE, ROUND_TRIP / 2, buffer=f"{buffer}pkt"),
        ],
        [{"kind": "flows", "from": "a", "to": "b"}],
        protocol="newreno",
        # The window itself is halved: without it a tooth begins up to a packet lower.
        ssthresh_from="cwnd",
        bottleneck="s->b",
        warmup="20s",
        duration="120s",
    )
    expected, found = utilisation(pipe, buffer), result.mean("utilisation")
    print(f"buffer {buffer} of {pipe:.1f}: {expected:.4f}, found {found:.4f}, {found / expected - 1:+.2%}")
    assert result.mean("timeouts") == 0
    assert found == pytest.approx(expected, rel=0.02)
