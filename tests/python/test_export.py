"""Runs in the formats of other programs: tshark reads the packets, the counts are the run's own."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

import penstock
from penstock import cli, export
from penstock.export import pcapng

TSHARK = shutil.which("tshark")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="needs tshark (Debian: apt-get install tshark)")
SENDERS = ["h1", "h2", "h3", "h4"]


def network(queue: str = "droptail") -> penstock.Network:
    """Four senders, one receiver, one short buffer, flows that end."""
    net = penstock.Network().host("h0", *SENDERS).switch("s")
    net.link("h0", "s", rate="10Gbps", delay="2us", buffer="60pkt", queue=queue)
    for host in SENDERS:
        net.link(host, "s", rate="10Gbps", delay="2us")
        net.add(penstock.Flows(host, "h0", size="1500KB"))
    return net


def counted(path: Path | list[Path], filter: str, *fields: str) -> list[tuple[str, ...]]:
    """The packets of one file or several that a filter of tshark's lets through, a row of fields each."""
    if isinstance(path, list):
        return [row for one in path for row in counted(one, filter, *fields)]
    assert TSHARK is not None
    arguments = [TSHARK, "-r", str(path), "-Y", filter, "-T", "fields"]
    for name in fields or ("frame.number",):
        arguments += ["-e", name]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


def captured(
    protocol: str, queue: str, folder: Path, **more: str
) -> tuple[penstock.RunSet, list[Path], Path]:
    """A run whose flows all end, and what its senders and its bottleneck see of it."""
    settings = {"protocol": protocol, "duration": "400ms", "rto_min": "2ms", **more}
    net = network(queue)
    result = penstock.run(net, **settings)
    assert result.summary["flows_completed"] == 4 and result.summary["retransmits"] > 20
    record = export.record.made(net, settings, 1)
    at_senders = export.pcap(record, folder / "senders.pcapng", at=SENDERS)
    return result, at_senders, export.pcap(record, folder / "port.pcapng", at=["s->h0"])


@needs_tshark
@pytest.mark.parametrize(
    ("protocol", "queue"), [("newreno", "droptail"), ("sack", "droptail"), ("dctcp", "threshold:k=55pkt")]
)
def test_tshark_finds_the_retransmissions_and_marks_that_a_tcp_run_reports(protocol, queue, tmp_path):
    result, senders, port = captured(protocol, queue, tmp_path)
    summary = result.summary
    # What tshark takes for out of order is sent again, too: nothing overtakes at the sender's own card.
    again = counted(
        senders, "tcp.len > 0 && (tcp.analysis.retransmission || tcp.analysis.out_of_order)", "tcp.srcport"
    )
    assert len(again) == summary["retransmits"]
    of_flow = {flow: sum(1 for (source,) in again if source == str(1024 + flow)) for flow in range(4)}
    assert of_flow == dict(result.flows.select("flow", "retransmits").iter_rows())
    # SACK says too much for a heuristic to be far off; without it tshark alone finds most.
    assert len(counted(senders, "tcp.analysis.retransmission")) > summary["retransmits"] / 2
    assert len(counted(senders, "tcp.len > 0")) == summary["packets_sent"]
    marked = counted(port, "ip.dsfield.ecn == 3", "tcp.flags.syn")
    assert len(marked) == summary["ce_marks"]
    assert (len(marked) > 100) == (protocol == "dctcp")
    if protocol == "dctcp":
        echoed = counted(senders, "tcp.flags.ece == 1 && tcp.flags.syn == 0")
        assert len(echoed) > 100
    # Whole captures, in order, nothing malformed.
    assert not counted(senders, "_ws.malformed || tcp.analysis.ack_lost_segment")
    times = [float(at) for (at,) in counted(port, "frame", "frame.time_epoch")]
    assert times == sorted(times)


@needs_tshark
def test_tshark_has_no_complaint_of_a_run_without_loss(tmp_path):
    # Longer than the 18.4 ms from which on Wireshark 4.0 misreads times in picoseconds.
    net = network()
    net.add(penstock.Flows("h1", "h0", size="100KB", start="30ms"))
    for place in ("h0", "h1", "s->h0"):
        path = export.pcap(
            net,
            tmp_path / "x.pcapng",
            at=place,
            protocol="newreno",
            duration="60ms",
            send_jitter="0s",
            rwnd="20KB",
        )
        rows = counted(path, "frame", "frame.time_epoch", "tcp.seq", "tcp.len")
        times = [float(row[0]) for row in rows]
        assert times == sorted(times) and len(rows) > 1000 and times[-1] > 0.03
        assert counted(path, "tcp.flags.syn == 1", "tcp.options.mss_val")[0] == ("1460",)
        # Neither retransmissions nor gaps.
        assert not counted(path, "tcp.analysis.flags && !tcp.analysis.window_update || _ws.malformed")


@needs_tshark
def test_tshark_reads_roce_with_the_retransmissions_and_marks_of_the_run(tmp_path):
    result, senders, port = captured("dcqcn", "ramp:kmin=5KB,kmax=60KB,pmax=0.2", tmp_path, pfc="off")
    data = counted(senders, "infiniband.bth.opcode <= 4", "infiniband.bth.destqp", "infiniband.bth.psn")
    seen: set[tuple[str, str]] = set()
    again = 0
    for pair, number in data:
        again += (pair, number) in seen
        seen.add((pair, number))
    assert again == result.summary["retransmits"]
    assert len(data) == result.summary["packets_sent"]
    assert len(counted(port, "ip.dsfield.ecn == 3")) == result.summary["ce_marks"] > 0
    kinds = {int(code) for (code,) in counted(senders, "infiniband", "infiniband.bth.opcode")}
    # Sends, acknowledgements, congestion notifications.
    assert {0, 1, 2, 17, 0x81} <= kinds
    refused = counted(senders, "infiniband.aeth.syndrome.opcode == 3")
    assert refused, "a NACK asks for what was lost"
    assert not counted(senders, "_ws.malformed")


def test_every_protocol_has_a_wire_format():
    names = {entry["name"] for entry in penstock.describe()["protocols"]}
    own = pcapng.ROCE | pcapng.UEC | pcapng.OTHER
    assert own <= names
    stacks = (Path(__file__).parents[2] / "crates/models/src/registry/standard.rs").read_text()
    listed = stacks.split("pub const STACKS")[1].split("];")[0].count("&protocols::")
    assert listed == len(own)


def test_a_file_s_blocks_are_whole(tmp_path):
    net = network()
    path, port = export.pcap(
        net, tmp_path / "x.pcapng", at=["h0", "s->h0"], protocol="ndp", duration="2ms", seed=4
    )
    assert (path.name, port.name) == ("x-h0.pcapng", "x-s-to-h0.pcapng")
    content, at, kinds = path.read_bytes(), 0, []
    while at < len(content):
        kind, length = (int.from_bytes(content[at + i : at + i + 4], "little") for i in (0, 4))
        assert length % 4 == 0 and content[at + length - 4 : at + length] == content[at + 4 : at + 8]
        kinds.append(kind)
        at += length
    assert kinds[:2] == [0x0A0D0D0A, 1] and set(kinds[2:]) == {6} and len(kinds) > 100
    again = export.pcap(net, tmp_path / "y.pcapng", at=["h0"], protocol="ndp", duration="2ms", seed=4)
    assert again.read_bytes() == content


def test_a_perfetto_trace_has_what_the_run_counts(tmp_path):
    net = network("threshold:k=55pkt")
    settings = {"protocol": "dctcp", "duration": "100ms", "rto_min": "2ms"}
    result = penstock.run(net, **settings)
    trace = json.loads(export.perfetto(net, tmp_path / "x.json", **settings).read_text())
    events = trace["traceEvents"]
    named = {
        (event["pid"], event["tid"]): event["args"]["name"].removeprefix("port ")
        for event in events
        if event["name"] == "thread_name"
    }
    assert named.keys() and set(named.values()) == set(result.ports["name"])
    of = {name: [e for e in events if e["name"] == name] for name in ("dropped", "marked")}
    assert len(of["dropped"]) == result.summary["drops"] > 0
    assert len(of["marked"]) == result.summary["ce_marks"] > 0
    slices: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "X":
            place = (event["pid"], event["tid"])
            slices.setdefault(place, []).append((event["ts"], event["ts"] + event["dur"]))
    for place, rows in slices.items():
        rows.sort()
        # A link sends one packet at a time.
        assert all(b <= c + 1e-6 for (_, b), (c, _) in itertools.pairwise(rows)), named[place]
    sent = dict(result.ports.select("name", "packets_departed").iter_rows())
    for place, name in named.items():
        assert len(slices.get(place, ())) == sent[name], name
    begun = [e for e in events if e["ph"] == "b"]
    assert len(begun) == 4 == len([e for e in events if e["ph"] == "e"])
    timeouts = [e for e in events if e["name"].startswith("timeout of")]
    assert len(timeouts) == result.summary["timeouts"]
    queue = [e["args"]["packets"] for e in events if e["name"] == "queue s->h0"]
    assert min(queue) == 0 == queue[-1] and max(queue) == result.summary["queue_max_packets"]
    assert any(e["name"].endswith(" alpha") for e in events if e["ph"] == "C")


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_tables_as_csv_and_arrow_are_the_tables(form, tmp_path):
    result = penstock.run("incast", servers=3, duration="20ms", runs=2, keep=("flows", "ports", "transfers"))
    paths = result.export(tmp_path, form)
    assert {path.name for path in paths} == {f"{name}.{form}" for name in ("flows", "ports", "transfers")}
    for path in paths:
        table = result.table(path.stem)
        found = pl.read_csv(path, schema=table.schema) if form == "csv" else pl.read_ipc(path)
        assert found.equals(table.cast(dict(found.schema)))
    with pytest.raises(penstock.ScenarioError, match=r"export = \"xml\".*must be one of csv, arrow"):
        result.export(tmp_path, "xml")


def test_the_command_line_exports(tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ["run", "incast", "--set", "servers=3", "--set", "duration=10ms", "--out", str(out)]
    exports = ["--pcap", "client,switch->client", "--perfetto", str(tmp_path / "t.json"), "--export", "csv"]
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments, *exports])
    assert stop.value.code == 0, capsys.readouterr().err
    captures = {path.name for path in out.glob("*.pcapng") if path.stat().st_size > 1000}
    assert captures == {"packets-client.pcapng", "packets-switch-to-client.pcapng"}
    assert (out / "flows.csv").exists()
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {path.name for path in tmp_path.iterdir()} == {"run", "t.json"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["--pcap", "clint"],
            'pcap = "clint": is no host and no port (a->b) of this network; near it: client',
        ),
        (["--pcap", "switch"], 'pcap = "switch": is a switch: name one of its ports'),
        (["--export", "xml"], '--export = "xml": must be one of csv, arrow'),
    ],
)
def test_a_wrong_export_is_one_line(given, said, tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", "incast", "--set", "servers=3", "--set", "duration=5ms", *out, *given])
    assert stop.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == [], "told before the run"


def test_exports_need_a_directory(capsys):
    for option in (["--pcap", "client"], ["--export", "csv"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["run", "incast", "--set", "duration=5ms", *option])
        assert stop.value.code == 2 and "needs --out DIR" in capsys.readouterr().err


def test_a_file_that_is_no_record_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(penstock.ScenarioError, match="is no record of a run"):
        export.read(tmp_path / "x")
