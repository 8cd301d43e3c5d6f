"""Protocols and queues in Python wherever a name of one may stand."""

import textwrap

import polars as pl
import pytest
from conftest import inline, penstock

import penstock as lab
from penstock import views
from penstock.controller_code import compiler

TIDE = '''
import penstock

@penstock.controller(name="tide", ecn="dctcp")
class Tide:
    """Additive increase, halved by marks and losses"""

    gain: float = penstock.param(1.0, "segments added per round trip", range=(0.01, 100))
    cwnd: float = 0.0

    def on_start(self, config):
        self.cwnd = config.initial_window

    def on_ack(self, ack, flow):
        if ack.acked:
            self.cwnd += self.gain * flow.segment * ack.acked / self.cwnd

    def on_congestion(self, event, flow):
        self.cwnd = max(self.cwnd / 2, flow.segment)

    def control(self):
        return self.cwnd

@penstock.queue
class Short:
    """Drops beyond ten packets"""

    def on_arrival(self, packet, port):
        if port.queue_packets > 10:
            return penstock.Verdict.DROP
        return penstock.Verdict.ACCEPT
'''
NET = """
scenario = "custom"
hosts = ["a[0-1]", "b[0-1]"]
switches = ["s"]
{own}
duration = "10ms"
rto_min = "2ms"
[[link]]
between = ["a[0-1]", "s"]
rate = "1Gbps"
delay = "10us"
[[link]]
between = ["b[0-1]", "s"]
rate = "1Gbps"
delay = "10us"
{queue}
[[workload]]
kind = "trace"
file = "flows.csv"
[[workload]]
from = "a0"
to = "b0"
size = "100KB"
{flows}
"""
LISTED = 'protocols = ["tide.py:Tide"]\nprotocol = "tide"'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tide.py").write_text(TIDE)
    (tmp_path / "flows.csv").write_text("start_s,src,dst,bytes\n0,a1,b1,20000\n0.001,b0,a1,5000\n")

    def write(own: str = LISTED, flows: str = "", queue: str = ""):
        path = tmp_path / "net.toml"
        path.write_text(NET.format(own=own, flows=flows, queue=queue))
        return path

    return write


def protocols(result: lab.RunSet) -> dict[tuple[str, str], str]:
    """The protocol of each flow by its ends."""
    return {(a, b): name for a, b, name in result.flows.select("src", "dst", "protocol").rows()}


def test_a_file_that_lists_own_protocols_takes_changes_of_its_tables(folder):
    path = folder()
    plain = lab.run(path)
    changed = lab.run(path, settings={"workload[1].class": 1, "workload[2].size": "50KB"})
    assert set(protocols(plain).values()) == set(protocols(changed).values()) == {"tide"}
    assert changed.flows.filter(pl.col("src") == "a0")["size_bytes"].to_list() == [50_000]
    assert str(changed.scenario["file"]["tables"]["workload"][0]["class"]) == "1"
    assert lab.run(lab.Network.from_toml(path)).summaries == plain.summaries


def test_values_of_its_tables_are_swept(folder):
    done = inline("sweep", str(folder()), "--over", "workload[2].size=10KB,20KB", "--json")
    assert done.returncode == 0, done.stderr
    found = lab.study(str(folder()), {"workload[2].size": ["10KB", "20KB"]})
    assert [r.summary["flows_completed"] for r in found.sets] == [3, 3]


@pytest.mark.parametrize("own", [LISTED, 'protocol = "tide.py:Tide"'])
def test_a_network_with_own_code_is_saved_and_converted(folder, own, tmp_path):
    path, there = folder(own), tmp_path / "below"
    there.mkdir()
    plain = lab.run(path)
    lab.Network.from_toml(path).save(there / "a.toml")
    assert inline("convert", str(path), str(there / "b.toml")).returncode == 0
    for name in ("a.toml", "b.toml"):
        assert lab.run(there / name).summaries == plain.summaries
    done = inline("convert", str(path), str(there / "c.graphml"))
    assert done.returncode == 0, done.stderr


def test_a_workload_and_a_link_name_a_file_in_python(folder):
    path = folder("", 'protocol = "tide.py:Tide:gain=2"', 'queue = "tide.py:Short"')
    found = lab.run(path)
    assert protocols(found)["a0", "b0"] == "tide:gain=2" and protocols(found)["a1", "b1"] == "newreno"
    # Named on the command line a file is found from the working directory.
    tide = path.with_name("tide.py")
    changed = lab.run(folder(""), settings={"workload[1].protocol": f"{tide}:Tide"})
    assert protocols(changed) == {("a1", "b1"): "tide", ("b0", "a1"): "tide", ("a0", "b0"): "newreno"}


def test_a_class_stands_for_its_name_in_objects(folder):
    from penstock import controllers

    tide = controllers.load(folder().with_name("tide.py"), "Tide")
    short = controllers.load(folder().with_name("tide.py"), "Short")
    net = lab.Network.star(4, link_rate="1Gbps", link_delay="10us", queue=short)
    own, gained = (
        lab.Flows("h0", "h1", size="50KB", protocol=tide),
        lab.Flows("h2", "h3", size="50KB", protocol=tide(gain=2)),
    )
    found = lab.run(net, workloads=[own, gained, lab.Flows("h1", "h2", size="50KB")], duration="20ms")
    assert protocols(found) == {("h0", "h1"): "tide", ("h2", "h3"): "tide:gain=2", ("h1", "h2"): "newreno"}
    fct = dict(found.flows.select("src", "fct_s").rows())
    assert fct["h2"] < fct["h0"]
    # Its file is named in what is saved.
    text = net.add(gained).to_toml()
    assert 'tide.py:Tide"' in text and 'protocol = "tide:gain=2"' in text
    assert lab.run(lab.Network.from_toml(text), duration="20ms").flows["protocol"].to_list() == [
        "tide:gain=2"
    ]


@pytest.mark.skipif(bool(views.available()), reason="the page is not built here")
def test_a_page_of_own_code_shows_its_record(folder, tmp_path, monkeypatch):
    path = folder()
    for what in (
        ["incast", "--set", f"protocol={path.with_name('tide.py')}:Tide", "--set", "duration=5ms"],
        [str(path)],
    ):
        done = penstock("view", *what, "--out", str(tmp_path / "page.html"))
        assert done.returncode == 0, done.stderr
        assert "the page shows a record of run 0" in done.stderr and "Traceback" not in done.stderr
        assert (tmp_path / "page.html").stat().st_size > 10_000
    # A long one is cut to the room of a page.
    whole = views.view(str(path), duration="5ms")
    monkeypatch.setattr(views, "_MOST_RECORDED", 20_000)
    cut = views.view(str(path), duration="5ms")
    assert "it has room for the first" in cut.note and "room" not in whole.note
    assert len(cut.text) < len(whole.text)


@pytest.mark.skipif(not compiler(), reason="needs Numba")
def test_another_container_in_compiled_code_is_one_line_with_what_is_possible(tmp_path):
    method, end = "def on_arrival(self, packet, port):", "return penstock.Verdict.ACCEPT"
    body = {
        "local": f"{method}\n        q = [packet.flow]\n        {end}",
        "filled": f"{method}\n        q = {{1: 2}}\n        {end}",
        "field": f"n: dict = {{}}\n    {method}\n        {end}",
        "call": f"{method}\n        q = dict()\n        {end}",
    }
    for name, text in body.items():
        path = tmp_path / f"{name}.py"
        path.write_text(f"import penstock\n@penstock.queue\nclass Fq:\n    {text}\n")
        done = penstock(
            "run", "long-flows", "--set", f"queue={path}:Fq", "--set", "duration=5ms", "--set", "warmup=0s"
        )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert f"{name}.py:" in line and "dict[int, int] = {}" in line


def test_state_by_flow_works_where_it_is_interpreted(tmp_path):
    (tmp_path / "fq.py").write_text(
        textwrap.dedent(
            """
            import penstock
            seen = {}
            @penstock.queue(compile=False)
            class Fq:
                def on_arrival(self, packet, port):
                    seen[packet.flow] = seen.get(packet.flow, 0) + 1
                    return penstock.Verdict.DROP if seen[packet.flow] == 20 else penstock.Verdict.ACCEPT
            """
        )
    )
    found = lab.run("long-flows", queue=f"{tmp_path / 'fq.py'}:Fq", flows=2, duration="5ms", warmup="0s")
    # The twentieth packet of either flow.
    assert found.summary["drops"] >= 2
