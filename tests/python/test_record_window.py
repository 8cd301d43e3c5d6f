"""A record that is larger than a page may be opens as a window, and the window has what the record has."""

import json
import os
import resource
import subprocess
import sys

import pytest
from conftest import PEAK, Tab, needs_chromium, needs_linux, needs_page

import penstock
from penstock import ScenarioError, _engine, record_window, scenario, views
from penstock.export import record as export

# Drops, and flows that end.
SHORT = {"servers": "16", "protocol": "newreno", "rto_min": "1ms", "duration": "40ms"}
# More than a million records of packets and hops.
LONG = {
    "link_rate": "100Gbps",
    "rtt": "200us",
    "start_spread": "0s",
    "flows": "16",
    "protocol": "cubic",
    "rwnd": "64MB",
    "duration": "50ms",
    "warmup": "1ms",
}


def made(path, name, settings):
    _engine.record(scenario.spec(name, settings, 1), 0, str(path), _engine.Progress())
    return path


def under_way(found, at):
    """Where every packet is at a moment: its port, whether it waits there, and what packet it is."""
    out = []
    for hop in [*found.hops, *found.held]:
        if hop.queued <= at < hop.arrived:
            packet = found.packets[hop.packet]
            out.append((hop.port, hop.left > at, packet.flow, packet.seq, packet.at, packet.bytes))
    return sorted(out)


@pytest.mark.parametrize("piece", [1000, 1 << 23])
def test_a_window_has_every_packet_of_its_time(tmp_path, monkeypatch, piece):
    path = made(tmp_path / "run.record", "incast", SHORT)
    monkeypatch.setattr(record_window, "PIECE", piece)
    window = record_window.read(path, 0.01, 300_000)
    assert not window.whole and window.size == path.stat().st_size
    assert len(window.record) < 320_000 < window.size
    assert window.start == 0.01 < window.end < 0.03
    (tmp_path / "part.record").write_bytes(window.record)
    whole, part = export.read(path), export.read(tmp_path / "part.record")
    assert part.result["packets_from_s"] == 0.01
    assert part.result["packets_until_s"] == pytest.approx(window.end)
    assert part.result["summary"] == whole.result["summary"]
    assert part.flows == whole.flows and part.closed == whole.closed and part.timeouts == whole.timeouts
    assert 0 < len(part.packets) < len(whole.packets) / 2
    busy = 0
    for share in (0, 0.2, 0.5, 0.8, 0.99):
        at = int((window.start + share * (window.end - window.start)) * 1e12)
        found = under_way(part, at)
        assert found == under_way(whole, at)
        busy += len(found)
    assert busy > 50
    lost = [drop for drop in whole.dropped if 0.01e12 <= drop[2] < window.end * 1e12 * 0.99]
    assert len(lost) > 0
    ours = {(whole.packets[p].flow, whole.packets[p].at, t) for _, p, t, _ in lost}
    assert ours <= {(part.packets[p].flow, part.packets[p].at, t) for _, p, t, _ in part.dropped}
    assert 0 < len(part.values) <= 300_000 * 0.3 / 24


def test_the_engines_own_window_has_what_was_under_way(tmp_path):
    whole = export.read(made(tmp_path / "run.record", "incast", SHORT))
    spec = json.dumps({**json.loads(scenario.spec("incast", SHORT, 1)), "record": {"from_s": 0.01}})
    _engine.record(spec, 0, str(tmp_path / "part.record"), _engine.Progress())
    part = export.read(tmp_path / "part.record")
    early = sum(packet.at < 10_000_000_000 for packet in part.packets)
    assert 10 < early < 1000 and len(part.packets) < len(whole.packets)
    for at in (10_000_000_000, 10_000_500_000, 10_100_000_000, 20_000_000_000, 39_000_000_000):
        assert under_way(part, at) == under_way(whole, at)
    assert under_way(part, 10_000_000_000) != []
    # What was over by then is not in it.
    assert min(hop.arrived for hop in part.hops if hop.packet == 0) < 10_100_000_000


def test_a_window_may_have_packets_alone(tmp_path):
    path = made(tmp_path / "run.record", "incast", SHORT)
    window = record_window.read(path, 0.01, 20_000, end=0.0101, flows=False)
    assert window.end == 0.0101 and len(window.record) < 25_000
    (tmp_path / "part.record").write_bytes(window.record)
    part = export.read(tmp_path / "part.record")
    assert part.flows == {} and part.values == [] and len(part.packets) > 20
    at, hosts = 10_050_000_000, {i for i, link in enumerate(part.head["links"]) if link["from"] != 0}
    found, all_of_it = under_way(part, at), under_way(export.read(path), at)
    assert set(found) <= set(all_of_it) and len(found) > 10
    # What is missing waits in a host all the time.
    assert all(waits and port in hosts for port, waits, *_ in set(all_of_it) - set(found))


def test_a_record_with_room_is_taken_whole(tmp_path):
    path = made(tmp_path / "run.record", "incast", SHORT)
    window = record_window.read(path, 0.01, 10**9)
    assert window.whole and window.record == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "start", "words"),
    [
        (lambda data: b"PENSTUCK" + data[8:], 0, "is no record of a run"),
        (lambda data: data[:8] + b"\2" + data[9:], 0, "has version 2; this penstock reads version 1"),
        (lambda data: data[:-2], 0, "is damaged: record the run again"),
        (lambda data: data[:40], 0, "is damaged: record the run again"),
        (lambda data: data, 1, 'packets_from = "1s": must be before the end of the run, 0.04 s'),
    ],
    ids=["other file", "version", "cut", "no head", "after the end"],
)
def test_what_is_no_record_is_one_line(tmp_path, change, start, words):
    path = made(tmp_path / "run.record", "incast", SHORT)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ScenarioError) as raised:
        record_window.read(path, start, 100_000)
    assert words in str(raised.value) and "\n" not in str(raised.value)


@needs_linux
@needs_page
@needs_chromium
def test_a_record_of_a_million_events_opens_as_a_window(browser, tmp_path):
    path = made(tmp_path / "run.record", "long-flows", LONG)
    size = path.stat().st_size
    page = tmp_path / "page.html"
    peak = (
        "import sys; from penstock import cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "finally: print('peak', peak(), file=sys.stderr)"
    )
    words = ["view", str(path), "--from", "20ms", "--out", str(page)]
    found = {}
    for limit in (record_window.PIECE, size + 1):
        code = f"{PEAK}from penstock import record_window; record_window.PIECE = {limit}\n{peak}"
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True, env=os.environ
        )
        found[limit] = int(done.stderr.split("peak ")[1].split()[0])
    # Read in pieces it takes much less memory than at once.
    assert found[record_window.PIECE] < found[size + 1] - size
    assert "the page has the packets from 0.02 s to 0.02" in done.stderr and "--from TIME" in done.stderr
    assert page.stat().st_size < views.MOST_BYTES

    shown = Tab(browser, page)
    # An event has 24 to 44 bytes of record.
    assert size > 1_000_000 * 44
    status = shown.text_content("#side-a .status")
    assert f"of a record of {size / 1e6:.4g} MB, packets from 20" in status and "MB in memory" in status
    clock = shown.evaluate("penstock.clock")
    assert clock["from"] == pytest.approx(0.02) and clock["to"] < 0.03
    assert shown.evaluate("penstock.logs()[0].packets") > 10_000
    (queue,) = shown.evaluate("penstock.charts()['queue'].unknown.length ? [0] : [1]")
    assert queue == 1
    # Elsewhere the page has nothing, and says how to get it.
    shown.evaluate("penstock.seek(0.001)")
    shown.wait_for_selector("#elsewhere")
    assert shown.text_content("#elsewhere") == f"penstock view {path} --from 0.001s"
    shown.evaluate("penstock.zoom(0, 0.05)")
    shown.drawn()
    unknown = shown.evaluate("penstock.charts()['queue'].unknown")
    assert [len(unknown), unknown[0][0], unknown[0][1]] == [2, 0, pytest.approx(0.02)]
    assert shown.errors == []


@pytest.mark.full
@needs_page
@needs_chromium
def test_a_window_of_a_hundred_megabytes_opens_within_seconds(browser, tmp_path):
    path = made(tmp_path / "run.record", "long-flows", LONG | {"duration": "110ms"})
    size = path.stat().st_size
    assert size >= 100e6
    page = tmp_path / "page.html"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "penstock", "view", str(path), "--from", "60ms", "--out", str(page)],
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of a processor: the wall time of a shared machine says little.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 10
    shown = Tab(browser, page)
    ready = shown.evaluate("performance.getEntriesByName('penstock: first picture')[0].duration")
    assert ready < 10_000
    # The page says which part it has and the memory of it.
    status = shown.text_content("#side-a .status")
    memory = shown.evaluate("penstock.logs()[0].memory") / 1e6
    assert f"of a record of {size / 1e6:.4g} MB, packets from 60" in status
    assert f"{memory:.4g} MB in memory" in status and memory < 20
    assert shown.evaluate("penstock.logs()[0].packets") > 10_000
    assert shown.errors == []


@needs_page
@needs_chromium
def test_packets_from_sets_the_beginning_of_a_pages_own_run(browser, tmp_path):
    page = penstock.view("incast", settings=SHORT, packets_from="10ms").save(tmp_path / "page.html")
    shown = Tab(browser, page)
    assert shown.input_value("#record-from") == "10"
    assert shown.evaluate("penstock.logs()[0].from") == pytest.approx(0.01)
    assert shown.evaluate("penstock.clock.from") == pytest.approx(0.01)
    # Packets that were sent before are there.
    assert shown.evaluate("penstock.logs()[0].sent.data[0]") < 0.01
    shown.evaluate("penstock.seek(0.010001)")
    assert shown.evaluate("penstock.shown().packets") > 0
    for bad in ("soon", "-1s", "5KB", -1.0):
        with pytest.raises(ScenarioError, match="must be a time"):
            penstock.view("incast", settings=SHORT, packets_from=bad)
    with pytest.raises(ScenarioError, match=r"must be before the end of the run, 0\.04 s"):
        penstock.view("incast", settings=SHORT, packets_from="1s")
