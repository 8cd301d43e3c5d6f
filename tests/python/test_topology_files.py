"""Networks as GraphML and as topologies of the HPCC group's simulator, there and back."""

from __future__ import annotations

import pytest

import penstock
from penstock import cli, topology_files

HPCC = """6 2 5
4 5
0 4 100Gbps 1000ns 0
1 4 100Gbps 0.001ms 0
2 5 100Gbps 1us 0
3 5 100Gbps 1us 0.001
4 5 400Gbps 1us 0
"""
# As networkx writes it, with attributes of other names, and no kinds.
FOREIGN = """<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d1" for="edge" attr.name="latency" attr.type="string" />
  <key id="d0" for="edge" attr.name="Bandwidth" attr.type="long" />
  <graph edgedefault="undirected">
    <node id="a"/><node id="b"/><node id="core"/>
    <edge source="a" target="core"><data key="d0">10000000000</data><data key="d1">5us</data></edge>
    <edge source="b" target="core"><data key="d0">10000000000</data><data key="d1">5us</data></edge>
  </graph>
</graphml>
"""


def short(net: penstock.Network, duration: str = "20ms") -> dict[str, float]:
    """A run of one flow between the first and the last host."""
    net = net.copy()
    net.add(penstock.Flows(net.hosts[0], net.hosts[-1], size="300KB"))
    return dict(penstock.run(net, duration=duration, rto_min="5ms").summary)


@pytest.mark.parametrize("end", [".graphml", ".txt"])
def test_a_network_by_name_comes_back_and_runs_alike(end, tmp_path):
    settings = {"link_rate": "10Gbps", "link_delay": "1us", "fabric_rate": "40Gbps", "fabric_delay": "2us"}
    net = penstock.Network.leaf_spine(2, 2, 3, **settings)
    path = tmp_path / f"net{end}"
    assert topology_files.write(net, path) == ()
    back = topology_files.read(path)
    assert len(back.hosts) == 6 and len(back.switches) == 4
    found = topology_files.plan(back)
    assert sorted({(c.rate_bps, c.delay_s) for c in found.cables}) == [(10e9, 1e-6), (40e9, 2e-6)]
    again = tmp_path / f"again{end}"
    topology_files.write(back, again)
    assert topology_files.plan(topology_files.read(again)) == found
    # A flow takes the same time over two switches of these rates and delays, whatever their names.
    mine, theirs = short(penstock.Network.leaf_spine(2, 2, 3, **settings)), short(back)
    assert theirs["fct_mean_s"] == pytest.approx(mine["fct_mean_s"], rel=1e-9)


def test_a_topology_of_the_hpcc_simulator_is_read_and_written(tmp_path):
    path = tmp_path / "net.txt"
    path.write_text(HPCC)
    found = topology_files.from_hpcc(path)
    assert found.hosts == ("h0", "h1", "h2", "h3") and found.switches == ("s4", "s5")
    assert [c.loss for c in found.cables] == [0, 0, 0, 0.001, 0]
    text = topology_files.hpcc(found)
    assert text.splitlines()[:3] == ["6 2 5", "4 5", "0 4 100000000000bps 1000ns 0"]
    (tmp_path / "again.txt").write_text(text)
    assert topology_files.from_hpcc(tmp_path / "again.txt") == found
    assert short(topology_files.read(path))["flows_completed"] == 1


def test_graphml_of_other_programs(tmp_path):
    path = tmp_path / "net.graphml"
    path.write_text(FOREIGN)
    net = topology_files.read(path)
    assert (net.hosts, net.switches) == (("a", "b"), ("core",))
    # 300 KB at 10 Gb/s, and what TCP takes to get going.
    assert 240e-6 < short(net)["fct_mean_s"] < 500e-6


NO_HOSTS = FOREIGN.replace('<node id="a"/>', "").replace("<edge", "<egde").replace("</edge", "</egde")
MISTAKES = {
    "no XML": (FOREIGN[:200], "is no XML"),
    "no GraphML": ("<html><body/></html>", "is no GraphML"),
    "no rate": (FOREIGN.replace("Bandwidth", "width"), "edge a - core = .*has no rate; it must have one of"),
    "a rate that is none": (FOREIGN.replace("10000000000", "fast", 1), "must be a number of bit/s"),
    "an edge to nowhere": (FOREIGN.replace('target="core"', 'target="cor"', 1), "is no node of the file"),
    "no hosts": (NO_HOSTS, "hosts"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_in_a_graphml_file_is_one_line(what, tmp_path, capsys):
    text, rule = MISTAKES[what]
    path = tmp_path / "net.graphml"
    path.write_text(text)
    with pytest.raises(penstock.ScenarioError, match=rule):
        topology_files.read(path)
    with pytest.raises(SystemExit) as stop:
        cli.main(["convert", str(path), str(tmp_path / "net.toml")])
    assert stop.value.code == 2 and not (tmp_path / "net.toml").exists()


def test_the_command_line_converts(tmp_path, capsys):
    graphml, toml = tmp_path / "net.graphml", tmp_path / "net.toml"
    rates = ["--set", "link_rate=10Gbps", "--set", "link_delay=1us"]
    for arguments in (["fat-tree:4", str(graphml), *rates], [str(graphml), str(toml)]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["convert", *arguments])
        assert stop.value.code == 0, capsys.readouterr().err
    assert "there are no flows yet" in " ".join(capsys.readouterr().err.split())
    assert len(penstock.Network.from_toml(toml).hosts) == 16
    with pytest.raises(SystemExit) as stop:
        cli.main(["convert", str(graphml), str(tmp_path / "net.dot")])
    assert stop.value.code == 2 and "must end in one of" in capsys.readouterr().err
    net = penstock.Network().host("a", "b").link("a", "b", rate="1Gbps", delay="1us", one_way=True)
    with pytest.raises(penstock.ScenarioError, match="goes one way"):
        topology_files.hpcc(topology_files.plan(net))


# A map of routers as the Topology Zoo has it: labels and places, a raw speed here and there, no delays.
ZOO = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d35" />
  <key attr.name="LinkLabel" attr.type="string" for="edge" id="d32" />
  <key attr.name="label" attr.type="string" for="node" id="d29" />
  <key attr.name="Internal" attr.type="int" for="node" id="d30" />
  <key attr.name="Network" attr.type="string" for="graph" id="d15" />
  <graph edgedefault="undirected">
    <data key="d15">Ring</data>
    <node id="0"><data key="d30">1</data><data key="d29">A Town</data></node>
    <node id="1"><data key="d30">1</data><data key="d29">B Town</data></node>
    <node id="2"><data key="d30">1</data><data key="d29">C Town</data></node>
    <edge source="0" target="1"><data key="d32">Lit</data></edge>
    <edge source="1" target="2"><data key="d35">2500000000.0</data></edge>
    <edge source="2" target="0" />
  </graph>
</graphml>
"""
KEYS = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="r" for="edge" attr.name="rate" attr.type="double"><default>1e10</default></key>
<key id="d" for="edge" attr.name="delay" attr.type="double"><default>1e-6</default></key>
<key id="l" for="edge" attr.name="loss" attr.type="double"/>
<key id="k" for="node" attr.name="kind" attr.type="string"><default>switch</default></key>
"""
NODES = (
    '<node id="a"><data key="k">host</data></node><node id="s"/><node id="b"><data key="k">host</data></node>'
)


def of_edges(tmp_path, edges: str, default: str = "undirected") -> penstock.Network:
    path = tmp_path / "net.graphml"
    path.write_text(f'{KEYS}<graph edgedefault="{default}">{NODES}{edges}</graph></graphml>')
    return topology_files.read(path)


def ports(net: penstock.Network) -> dict[str, tuple[float, float]]:
    """Rate and delay by direction."""
    found = {}
    for c in topology_files.plan(net).cables:
        found[f"{c.a}->{c.b}"] = (c.rate_bps, c.delay_s)
        if not c.one_way:
            found[f"{c.b}->{c.a}"] = (c.rate_bps, c.delay_s)
    return found


def test_a_map_of_routers_loads_with_what_is_missing_given(tmp_path):
    path, toml = tmp_path / "ring.graphml", tmp_path / "ring.toml"
    path.write_text(ZOO)
    for missing, rule in (
        ({}, "has no rate.*or give one to all without: --set link_rate=10Gbps"),
        ({"link_rate": "1Gbps"}, "has no delay.*--set link_delay=1ms"),
        ({"link_rate": "1Gbps", "link_delay": "1ms"}, "--set hosts_per_switch=1"),
        ({"link_rate": "1Gbps", "link_delay": "1ms", "hosts_per_switch": "no"}, "must be a whole number"),
    ):
        with pytest.raises(penstock.ScenarioError, match=rule):
            topology_files.read(path, **missing)
    given = {"link_rate": "1Gbps", "link_delay": "1ms", "hosts_per_switch": "1"}
    options = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    with pytest.raises(SystemExit) as stop:
        cli.main(["convert", str(path), str(toml), *options])
    assert stop.value.code == 0
    net = penstock.Network.from_toml(toml)
    assert (net.switches, net.hosts) == (("0", "1", "2"), ("h-0-0", "h-1-0", "h-2-0"))
    rates = {name: rate for name, (rate, _) in ports(net).items()}
    assert (rates["0->1"], rates["1->2"], rates["h-0-0->0"]) == (1e9, 2.5e9, 1e9)
    assert short(net, "200ms")["flows_completed"] == 1


def test_defaults_of_keys_count(tmp_path):
    net = of_edges(tmp_path, '<edge source="a" target="s"/><edge source="s" target="b"/>')
    assert (net.hosts, net.switches) == (("a", "b"), ("s",))
    assert set(ports(net).values()) == {(1e10, 1e-6)}
    assert short(net, "200ms")["flows_completed"] == 1


def test_directed_edges_are_kept_as_they_are(tmp_path):
    def edge(a, b, rate, delay, more=""):
        said = f'<data key="r">{rate}</data><data key="d">{delay}</data>'
        return f'<edge source="{a}" target="{b}"{more}>{said}</edge>'

    # Alike in both directions: one full-duplex link.
    alike = edge("a", "s", 1e10, 1e-6) + edge("s", "a", 1e10, 1e-6)
    rest = edge("s", "b", 1e10, 1e-6) + edge("b", "s", 1e10, 5e-3)
    net = of_edges(tmp_path, alike + rest, "directed")
    assert [link.one_way for link in net.links] == [False, True, True]
    assert ports(net)["b->s"] == (1e10, 5e-3) and ports(net)["s->b"] == (1e10, 1e-6)
    assert short(net, "200ms")["flows_completed"] == 1
    # Directed edges among others.
    one = ' directed="true"'
    mixed = edge("a", "s", 1e10, 1e-6, one) + edge("s", "a", 1e9, 1e-6, one) + edge("s", "b", 1e10, 1e-6)
    assert ports(of_edges(tmp_path, mixed))["a->s"][0] == 1e10
    assert ports(of_edges(tmp_path, mixed))["s->a"][0] == 1e9
    # One direction stays one direction, there and back.
    net = of_edges(tmp_path, edge("a", "s", 1e10, 1e-6) + edge("s", "b", 1e10, 1e-6), "directed")
    assert set(ports(net)) == {"a->s", "s->b"}
    topology_files.write(net, tmp_path / "again.graphml")
    assert ports(topology_files.read(tmp_path / "again.graphml")) == ports(net)
    with pytest.raises(penstock.ScenarioError, match="goes one way"):
        topology_files.write(net, tmp_path / "again.txt")


def test_what_no_network_has_is_one_line(tmp_path):
    edges = '<edge source="a" target="s"/><edge source="s" target="b">{}</edge>'
    for text, rule in (
        (edges.format('<data key="l">abc</data>'), 'edge s - b: loss = "abc": must be a probability'),
        (edges.format('<data key="l">1.5</data>'), "must be a probability of 0 to 1"),
        (edges.format("") + '<edge source="s" target="s"/>', "leads from a node to itself"),
        (edges.format("") + '<hyperedge><endpoint node="a"/></hyperedge>', "a hyperedge"),
        (edges.format("") + '<node id="n"><graph id="in"/></node>', "a graph inside node n"),
    ):
        with pytest.raises(penstock.ScenarioError, match=rule) as said:
            of_edges(tmp_path, text)
        assert len(str(said.value).splitlines()) == 1
