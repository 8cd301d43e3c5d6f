"""Little's law over a whole network: packets in it = arrivals per second x their mean time in it.

The left side is what the ports integrate over time plus what is on the wires, the right side what the
senders measure: the round-trip times of all packets, by their timestamps. A packet counts from its sending
to the arrival of its acknowledgement, first as data, then as the ACK that it is answered with.
"""

from __future__ import annotations

from pathlib import Path

import networks
import numpy as np
import pytest

DURATION = 1.0
LEFT, RIGHT = [f"a{i}" for i in range(8)], [f"b{i}" for i in range(8)]
Case = tuple[dict[str, str], list[networks.Table]]
CASES: dict[str, Case] = {
    "long flows, marked": (
        {"protocol": "dctcp", "queue": "threshold:k=40pkt", "ect_syn": "true"},
        [
            {"kind": "flows", "from": LEFT, "to": RIGHT, "count": 2, "spread": "5ms"},
        ],
    ),
    "long flows both ways, limited by their receivers": (
        {"protocol": "cubic", "rwnd": "30pkt"},
        [
            {"kind": "flows", "from": LEFT, "to": RIGHT, "count": 2, "spread": "5ms"},
            {"kind": "flows", "from": RIGHT[:4], "to": LEFT[:4], "spread": "5ms"},
            {"kind": "flows", "from": LEFT[:4], "to": LEFT[4:], "spread": "5ms"},
        ],
    ),
    "short flows that come and go": (
        {"protocol": "newreno"},
        [
            {"kind": "poisson", "from": LEFT, "to": RIGHT, "rate": 4000, "sizes": "exponential:45KB"},
            {"kind": "poisson", "from": RIGHT, "to": LEFT + RIGHT, "rate": 2000, "sizes": "exponential:45KB"},
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_busy_network(tmp_path: Path, name: str) -> None:
    """Two racks of eight hosts."""
    settings, workloads = CASES[name]
    delays = {"host": 20e-6, "core": 150e-6}
    links = [networks.link(h, "s", 1e9, delays["host"]) for h in LEFT]
    links += [networks.link(h, "t", 1e9, delays["host"]) for h in RIGHT]
    links.append(networks.link("s", "t", 2e9, delays["core"]))
    result = networks.run(
        tmp_path,
        LEFT + RIGHT,
        ["s", "t"],
        links,
        workloads,
        timestamps="true",
        duration=f"{DURATION}s",
        keep=("flows", "ports"),
        **settings,
    )
    # Losses would break the pairing of packets and acknowledgements.
    assert result.mean("drops") == result.mean("retransmits") == 0
    flows = result.flows
    across = (flows["src"].str.slice(0, 1) != flows["dst"].str.slice(0, 1)).to_numpy()
    wires = 2 * (2 * delays["host"] + np.where(across, delays["core"], 0.0))
    # Every packet and every SYN gave a sample; a flow that has just begun has none yet.
    each = flows["packets_sent"].to_numpy() + 1.0
    packets = each.sum()
    time_in, on_wires = each @ np.nan_to_num(flows["rtt_mean_s"].to_numpy()), each @ wires
    in_ports = result.ports["queue_mean_packets"].sum()
    found, expected = in_ports + on_wires / DURATION, time_in / DURATION
    print(
        f"{name}: {packets / DURATION:.0f}/s x {time_in / packets * 1e6:.2f} us = {expected:.3f} packets,"
        f" found {found:.3f} ({in_ports:.1f} in ports): {found / expected - 1:+.3%}"
    )
    assert in_ports > 10, "a busy network"
    # What is under way at the end, some hundred of 10^5 packets, is in one side only, for half of its time.
    assert found == pytest.approx(expected, rel=2e-3)
