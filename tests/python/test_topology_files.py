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


def short(net: penstock.Network) -> dict[str, float]:
    """A run of one flow between the first and the last host."""
    net = net.copy()
    net.add(penstock.Flows(net.hosts[0], net.hosts[-1], size="300KB"))
    return dict(penstock.run(net, duration="20ms", rto_min="5ms").summary)


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
    # The same flow takes the same time: two switches of these rates and delays, whatever they are called.
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
        topology_files.plan(net)
