"""The scenario `rdma`: its traffic, what it derives, and RDMA's bad input, through Python and the program."""

import json

import polars as pl
import pytest
from conftest import inline, penstock, settings

from penstock import run, scenario

#: Two leaves, two spines, eight hosts, and a time in which some flows are complete.
SMALL = {"topology": "leaf-spine:2x2x4", "duration": "1ms", "sizes": "exponential:50KB"}


def resolved(**chosen: str) -> dict:
    return scenario.resolve("rdma", chosen)


def test_an_incast_without_control_takes_the_time_of_its_packets():
    """Eight hosts, 100 packets of 1044 bytes each, at once into one link of 100 Gb/s, 1 us a link."""
    result = run(
        "rdma",
        topology="star:9",
        protocol="roce",
        load=0,
        incast_servers=8,
        incast_size="100KB",
        incast_every="400us",
        duration="950us",
        send_jitter="0s",
    )
    packet, ack = 1044 * 8 / 100e9, 48 * 8 / 100e9
    # The first packet's way to the switch, all 800 at its port, the last one's way on, its ACK's way back.
    # Incasts begin at 200 and 600 us.
    assert result.mean("blocks") == 2
    assert result.mean("block_mean_s") == pytest.approx(801 * packet + 2 * ack + 4e-6, abs=1e-12)
    assert (result.mean("drops"), result.mean("retransmits")) == (0, 0)
    by_block = result.flows.group_by("opened_s").agg(pl.col("dst").n_unique(), pl.col("src").n_unique())
    assert by_block.sort("opened_s")["dst"].to_list() == [1, 1]
    assert by_block["src"].to_list() == [8, 8]


def test_every_protocol_gets_the_same_flows():
    found = {}
    for protocol in ("hpcc", "dcqcn:rules=hpcc-ns3", "cubic"):
        result = run("rdma", protocol=protocol, incast_size="20KB", **SMALL)
        found[protocol] = result.flows.sort("flow").select("src", "dst", "size_bytes", "opened_s")
        assert result.mean("flows_completed") > 50
        # Incasts beside the flows.
        assert result.mean("offered_load") == pytest.approx(0.52)
        assert result.mean("size_mean_bytes") == 50_000
    first, *others = found.values()
    assert all(other.equals(first) for other in others)


def test_the_load_is_what_is_offered():
    """Without incasts: bytes with headers of all flows against the hosts' links; 1,900 flows of one size."""
    result = run("rdma", topology="star:8", sizes="fixed:20KB", load=0.4, incast_load=0, duration="1ms")
    bytes_ = result.flows["size_bytes"].sum() * 1040 / 1000
    assert bytes_ * 8 / 1e-3 / 800e9 == pytest.approx(0.4, rel=0.08)
    assert result.mean("pauses") == result.mean("drops") == 0


def test_switches_have_as_much_upwards_as_downwards_unless_asked_otherwise():
    assert resolved()["set"]["fabric_rate"] == "400Gbps"
    assert resolved(link_rate="10Gbps", topology="leaf-spine:4x4x8")["set"]["fabric_rate"] == "20Gbps"
    assert resolved(topology="fat-tree:4")["set"]["fabric_rate"] == "100Gbps"
    assert resolved(fabric_rate="200Gbps")["set"]["fabric_rate"] == "200Gbps"
    assert resolved(oversubscription="2")["set"]["oversubscription"] == "2"
    assert "fabric_rate" not in resolved(oversubscription="2").get("derived", {})


def test_times_and_memory_follow_the_links():
    derived = resolved()["derived"]
    assert derived["duration"].startswith("10ms: ")
    assert resolved(link_rate="1Gbps")["derived"]["duration"].startswith("1s: ")
    # 16 senders of 500 KB in 520 packets each of 1040 bytes, 2 % of 32 x 100 Gb/s.
    assert derived["incast_servers"] == "16"
    assert derived["incast_every"].startswith("1.04ms: ")
    # A protocol without pause frames: eight ports of 100 and two of 400 Gb/s, 9.375 KB per Gb/s.
    memory = resolved(protocol="cubic")["derived"]["buffer"].removeprefix("shared:alpha=1,size=")
    assert int(memory.removesuffix("B")) == pytest.approx(15_000_000, abs=10)
    assert "buffer" not in derived


def test_the_program_runs_it(tmp_path):
    out = tmp_path / "out"
    done = penstock("run", "rdma", *settings(SMALL), "--json", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mean"]["flows_completed"] > 50
    flows = pl.read_parquet(out / "flows.parquet")
    assert set(flows["workload"]) == {0, 1}


BAD = {
    "incast_servers": ("8", 'incast_servers = "8": must be at most 7: the network has 8 hosts'),
    "load": ("0", 'load = "0": must be above 0 where there are no incasts'),
    "topology": ("leaf-spine:2x2", 'topology = "leaf-spine:2x2": must be leaf-spine:LEAVESxSPINESxHOSTS'),
    "protocol": ("dcqcn:kmin=9KB,kmax=8KB", 'protocol:kmin = "9KB": must not be above kmax (8KB)'),
    "incast_every": ("1ps", "incast_every"),
    "pfc": ("off", "recovery=off sends nothing again and needs a fabric that loses nothing: pfc is off"),
}


@pytest.mark.parametrize("key", BAD)
def test_bad_input_is_one_line(key):
    value, words = BAD[key]
    beside = {"load": {"incast_load": "0"}, "pfc": {"protocol": "timely:recovery=off"}}
    chosen = {**SMALL, key: value, **beside.get(key, {})}
    done = inline("run", "rdma", *settings(chosen))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


@pytest.mark.parametrize("law", ["dcqcn", "dctcp-roce", "hpcc", "timely", "roce"])
def test_a_probability_above_one_is_refused(law):
    done = inline("run", "rdma", *settings({**SMALL, "protocol": f"{law}:pmax=1.2"}))
    assert done.returncode == 2
    assert "protocol:pmax" in done.stderr
    assert done.stderr.count("\n") == 1
