"""Completion times of a transfer that has an idle path to itself, worked out by hand, to 0.01 %.

No event is simulated here. The transfer opens its connection (SYN and SYN + ACK of 40 B, RFC 9293 section
3.5). Every segment is acknowledged with 40 B at once, slow start sends two segments for each acknowledgement
(RFC 5681 eq. (2)), and links are first come, first served. `clocked` does that arithmetic segment by segment;
`closed_form` is the textbook's sum over rounds.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import networks
import pytest
from networks import HEADER, SEGMENT

# A link: rate in bit/s, delay in seconds.
Hops = tuple[tuple[float, float], ...]
PATHS: dict[str, Hops] = {
    "slow, fast": ((100e6, 5e-3), (1e9, 1e-3)),
    "fast, slow": ((10e9, 10e-6), (1e9, 40e-6)),
    "three, the slow one between": ((10e9, 5e-6), (2.5e9, 20e-6), (25e9, 7e-6)),
    "three, the slow one first": ((1e9, 12e-6), (10e9, 100e-6), (40e9, 3e-6)),
}
SIZES = {"1 packet": SEGMENT, "10 packets": 10 * SEGMENT, "1 MB": 1_000_000, "10 MB": 10_000_000}


def segments(size: int) -> list[int]:
    """Bytes on the wire of each segment of a transfer."""
    whole, rest = divmod(size, SEGMENT)
    return [SEGMENT + HEADER] * whole + ([rest + HEADER] if rest else [])


def one_way(path: Hops, size: int) -> float:
    """Time of a single packet over a path that stores and forwards."""
    return sum(size * 8 / rate + delay for rate, delay in path)


def clocked(path: Hops, size: int, initial_window: int) -> float:
    """Time from the write to the last acknowledgement."""
    handshake = 2 * one_way(path, HEADER)
    acked: list[float] = []
    forward, back = [0.0] * len(path), [0.0] * len(path)  # when each link is free
    for k, wire in enumerate(segments(size)):
        # Acknowledgement j (from 0) allows segments iw + 2 j and iw + 2 j + 1.
        time = handshake if k < initial_window else acked[(k - initial_window) // 2]
        for free, hops, length in ((forward, path, wire), (back, path[::-1], HEADER)):
            for i, (rate, delay) in enumerate(hops):
                free[i] = max(time, free[i]) + length * 8 / rate
                time = free[i] + delay
        acked.append(time)
    return acked[-1]


def closed_form(path: Hops, size: int, initial_window: int) -> float:
    """The completion time over a path whose first link is the slowest.

    As Kurose and Ross, Computer Networking, section 3.7 of the older editions (from memory), with an
    initial window of w segments.

    Round r sends w 2^r segments without a gap and then waits until the first of them is acknowledged.
    """
    wires = segments(size)
    full = (SEGMENT + HEADER) * 8 / path[0][0]
    back = one_way(path, HEADER)
    # From when the first segment of a round has left the host until its acknowledgement is there.
    answer = one_way(path, SEGMENT + HEADER) - full + back
    time = 2 * back + sum(wire * 8 / path[0][0] for wire in wires)
    sent, window = initial_window, initial_window
    while sent < len(wires):
        time += max(0.0, full + answer - window * full)
        window *= 2
        sent += window
    # After the first link the last segment may catch up with the one before it, if it is short.
    last, before = time, time - (wires[-1] * 8 / path[0][0] if len(wires) > 1 else math.inf)
    for (_, delay), (rate, _) in pairwise(path):
        before += delay + (SEGMENT + HEADER) * 8 / rate
        last = max(last + delay, before) + wires[-1] * 8 / rate
    return last + path[-1][1] + back


def measured(folder: Path, path: Hops, size: int, initial_window: int) -> float:
    nodes = ["a", *(f"s{i}" for i in range(1, len(path))), "b"]
    links = [
        networks.link(x, y, rate, delay) for x, y, (rate, delay) in zip(nodes, nodes[1:], path, strict=False)
    ]
    result = networks.run(
        folder,
        ["a", "b"],
        nodes[1:-1],
        links,
        [{"kind": "flows", "from": "a", "to": "b", "size": f"{size}B"}],
        protocol="newreno",
        initial_window=initial_window,
        host_queue="2pkt",  # the default: a host that holds packets back costs no time
        duration="20s",
    )
    assert result.mean("flows_completed") == 1
    assert result.mean("retransmits") == 0
    return result.mean("fct_mean_s")


@pytest.mark.parametrize("initial_window", [2, 10])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", PATHS)
def test_a_transfer_on_an_idle_path(tmp_path: Path, path: str, size: str, initial_window: int) -> None:
    links, length = PATHS[path], SIZES[size]
    expected = clocked(links, length, initial_window)
    if min(rate for rate, _ in links) == links[0][0]:
        assert closed_form(links, length, initial_window) == pytest.approx(expected, rel=1e-9)
    found = measured(tmp_path, links, length, initial_window)
    print(f"{path}; {size}; window {initial_window}: {expected * 1e6:.3f} us, found {found * 1e6:.3f} us")
    assert found == pytest.approx(expected, rel=1e-4)


def test_one_packet_by_hand(tmp_path: Path) -> None:
    """1460 B over 1 Gb/s and 10 us, 10 Gb/s and 20 us: 1500 B take 12 and 1.2 us, 40 B 0.32 and 0.032 us."""
    way_of_40 = 0.32 + 10 + 0.032 + 20
    by_hand = 2 * way_of_40 + (12 + 10 + 1.2 + 20) + way_of_40
    found = measured(tmp_path, ((1e9, 10e-6), (10e9, 20e-6)), 1460, 10)
    assert found * 1e6 == pytest.approx(by_hand, rel=1e-6)


def test_ten_packets_by_hand(tmp_path: Path) -> None:
    """A window of 2 on a long path: rounds of 2, 4 and 4 of the 8 that it allows. 1 Gb/s and 1 ms twice."""
    way_of_40 = 2 * (0.32 + 1000)
    round_trip = 2 * (12 + 1000) + way_of_40  # a segment and its acknowledgement
    # Handshake, two rounds to their first acknowledgement, then four segments one behind the other.
    by_hand = 2 * way_of_40 + 2 * round_trip + round_trip + 3 * 12
    found = measured(tmp_path, ((1e9, 1e-3), (1e9, 1e-3)), 14_600, 2)
    assert found * 1e6 == pytest.approx(by_hand, rel=1e-6)
