"""A flow alone in an idle network: its slowdown is one, whatever the transport sends beside the payload."""

from __future__ import annotations

import pytest

import penstock

OWN = ["roce", "dcqcn", "hpcc", "timely", "dctcp-roce", "swift", "powertcp"]
OWN += ["ndp", "pfabric", "homa", "phost", "pias", "nscc", "rccc", "nscc-rccc", "eqds"]

LONE = """
scenario = "custom"
topology = "star:2"
link_rate = "100Gbps"
link_delay = "1us"
send_jitter = "0s"
duration = "20ms"
protocol = "{protocol}"

[[workload]]
kind = "trace"
file = "flows.csv"
"""


def slowdown(tmp_path, protocol: str, size: int) -> float:
    """Slowdown of the only flow of a run."""
    (tmp_path / "flows.csv").write_text(f"start_s,src,dst,bytes\n0.0001,h0,h1,{size}\n")
    (tmp_path / "lone.toml").write_text(LONE.format(protocol=protocol))
    return penstock.run(tmp_path / "lone.toml", seed=1).runs[0].tables["flows"]["slowdown"][0]


@pytest.mark.parametrize("protocol", OWN)
def test_a_lone_packet_of_a_transport_without_handshake_takes_the_ideal_time(tmp_path, protocol):
    # pHost's request of 40 bytes leaves before it: 3.2 ns of 4.2 us.
    rest = 3.2 / 4174 if protocol == "phost" else 0
    assert slowdown(tmp_path, protocol, 1000) == pytest.approx(1 + rest, abs=1e-6)


@pytest.mark.parametrize("protocol", OWN)
def test_a_lone_long_flow_is_hardly_slower_than_ideal(tmp_path, protocol):
    assert 1 - 1e-9 < slowdown(tmp_path, protocol, 1_000_000) < 1.1


def test_tcp_has_its_handshake_in_the_ideal_time(tmp_path):
    # SYN and its answer, data and ACK: 4 x 2 links of 1 us at 100 Gb/s, 3 x 40 bytes and 1,040.
    assert slowdown(tmp_path, "dctcp", 1000) == pytest.approx(1, abs=1e-6)
    table = penstock.run(tmp_path / "lone.toml", seed=1).runs[0].tables["flows"]
    assert table["ideal_fct_s"][0] == pytest.approx(8e-6 + 2 * (3 * 40 + 1040) * 8e-11)
