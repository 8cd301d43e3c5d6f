"""Incast against ns-2.35: guards TCP's loss recovery under synchronised senders.

The reference is mean goodput in Mb/s over three seeds of NewReno at 1 Gb/s, with links of 50 us and a buffer
of 32 packets. A block has 256 segments of 1000 B (1040 B on the wire) per server. RTOmin is 200 ms by
default, the initial window 2, the receive window 1000.

UNEQUAL is ns-2 with links of 50 us + 0.37 us times the server's number (`tools/ns2_incast.tcl N 40 0.37e-6
SEED OVERHEAD`): no two packets meet at the same instant, so no rule for ties matters. EXACT is ns-2 with
equal links: packets of different servers meet the full buffer at the same instants, and its goodput is twice
what it is without the ties. docs/validation/ns2.md shows both beside penstock.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock

EXACT = {10: 108.1, 12: 112.9, 16: 119.8, 20: 124.7, 24: 130.4, 32: 137.1, 40: 138.8}
# (servers, overhead_): Mb/s.
UNEQUAL = {
    (3, "0s"): 29.6,
    (5, "0s"): 97.1,
    (9, "0s"): 79.9,
    (16, "0s"): 67.4,
    (24, "0s"): 68.0,
    (32, "0s"): 69.9,
    (48, "0s"): 71.3,
    (3, "1us"): 413.0,
    (9, "1us"): 83.6,
    (16, "1us"): 73.7,
    (32, "1us"): 81.9,
    (48, "1us"): 81.1,
}
UNEQUAL_LINKS = """
scenario = "custom"
switches = ["s"]
hosts = ["client", "h[0-{last}]"]
duration = "40s"
segment = "1000B"
rwnd = "1000pkt"
initial_window = 2
rto_initial = "3s"
window_validation = false
ssthresh_from = "cwnd"
host_queue = "unlimited"

[[workload]]
kind = "reads"
from = ["h[0-{last}]"]
to = "client"
sru = "256KB"
jitter = "20us"
jitter_mode = "cumulative"

[[link]]
between = ["s", "client"]
rate = "1Gbps"
delay = "50us"
buffer = "32pkt"

"""
FLOOR_200US = {1: 875.5, 10: 936.6, 16: 918.8, 24: 823.9, 32: 684.8}
# Link delay 100 us, receive window 20 segments: (buffer in packets, servers) -> Mb/s.
BUFFERS = {
    (32, 1): 369.0,
    (32, 4): 713.4,
    (32, 16): 136.5,
    (64, 4): 917.4,
    (64, 16): 160.8,
    (128, 10): 921.3,
    (128, 20): 217.7,
    (256, 16): 937.8,
    (256, 32): 299.0,
}


def goodput(servers: int, *, runs: int = 3, **settings: str) -> float:
    # In ns-2's script the next request reaches the servers with the last acknowledgement.
    given = {"duration": "40s", "requests": "instant", **settings}
    result = penstock.run("incast", servers=servers, runs=runs, **given)
    return result.mean("goodput_bps") / 1e6


def test_one_server_within_3_percent() -> None:
    assert goodput(1, runs=1, duration="5s") == pytest.approx(875.6, rel=0.03)


def test_collapse_begins_at_the_same_number_of_servers() -> None:
    # ns-2's goodput is below half of the ceiling of 961.5 Mb/s for the first time at 3 servers
    # (cumulative jitter).
    curve = {n: goodput(n, runs=1, duration="20s") for n in range(1, 9)}
    onset = min(n for n, rate in curve.items() if rate < 961.5 / 2)
    assert abs(onset - 3) <= 2, curve


@pytest.mark.parametrize("servers, noise", sorted(UNEQUAL))
def test_goodput_where_no_packets_tie(servers: int, noise: str, tmp_path: Path) -> None:
    """Within 12 %: three seeds each, some 200 timeouts per run."""
    links = "".join(
        f'[[link]]\nbetween = ["h{i}", "s"]\nrate = "1Gbps"\ndelay = "{50 + 0.37 * i:.2f}us"\n'
        for i in range(servers)
    )
    network = tmp_path / "unequal.toml"
    network.write_text(UNEQUAL_LINKS.format(last=servers - 1) + links)
    runs = penstock.run(network, send_jitter=noise, requests="instant", runs=3, keep=[])
    goodput = runs.mean("blocks") * servers * 256e3 * 8 / 40 / 1e6
    assert goodput == pytest.approx(UNEQUAL[servers, noise], rel=0.12)


@pytest.mark.parametrize("servers", sorted(EXACT))
def test_goodput_of_a_collapsed_incast(servers: int) -> None:
    """Equal links: the collapse is there, between ns-2's value without ties and its value with them."""
    assert 67 < goodput(servers) < EXACT[servers] * 1.33


@pytest.mark.parametrize("servers", sorted(FLOOR_200US))
def test_goodput_with_a_timeout_floor_of_200_us(servers: int) -> None:
    # Two seeds of 10 s, as the reference.
    ratio = goodput(servers, runs=2, duration="10s", rto_min="200us") / FLOOR_200US[servers]
    assert 0.75 <= ratio <= 1.33
    assert servers > 1 or ratio == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("buffer, servers", sorted(BUFFERS))
def test_goodput_with_other_buffers(buffer: int, servers: int) -> None:
    settings = {"buffer": f"{buffer}pkt", "link_delay": "100us", "rwnd": "20pkt", "duration": "20s"}
    assert 0.75 <= goodput(servers, runs=2, **settings) / BUFFERS[buffer, servers] <= 1.33
