"""Networks in the files of other programs: GraphML, and the topology files of the HPCC group's simulator.

A file has hosts, switches and full-duplex links with rate, delay and loss; buffers, queues and workloads are
penstock's own and stay behind, which `lost` says. GraphML (http://graphml.graphdrawing.org) is read as
networkx, yEd,
Gephi and the Topology Zoo write it: names of attributes as in `_WORDS`; a node that does not say what it is
is a host when
it has one link. An HPCC topology is: numbers of nodes, switches and links; the switches; `node node rate
delay
error-rate` for each.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _engine, network_file, scenario
from penstock.network import Network

_SPACE = "http://graphml.graphdrawing.org/xmlns"
# What attributes are called, ours first; numbers without a unit are bit/s and seconds.
_WORDS = {
    "kind": ("kind", "type", "role"),
    "name": ("name", "label", "id"),
    "rate": ("rate", "bandwidth", "capacity", "linkspeedraw"),
    "delay": ("delay", "latency"),
    "loss": ("loss", "error_rate"),
}
_UNITS = {"rate": "bit/s", "delay": "s"}
#: Ends of files and what they are.
ENDS = {".toml": "a scenario file", ".graphml": "GraphML", ".txt": "an HPCC topology"}


@dataclass(frozen=True)
class Cable:
    """A full-duplex link: rate in bit/s, delay in seconds, probability of loss."""

    a: str
    b: str
    rate_bps: float
    delay_s: float
    loss: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Hosts, switches and the cables between them."""

    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    cables: tuple[Cable, ...]

    def network(self) -> Network:
        """The same as a network, without workloads."""
        net = Network(list(self.hosts), list(self.switches))
        for cable in self.cables:
            loss = {"loss": repr(cable.loss)} if cable.loss else {}
            delay = f"{round(cable.delay_s * 1e12)}ps"
            net.link(cable.a, cable.b, f"{cable.rate_bps:.0f}bps", delay, **loss)
        return net


def read(path: str | Path) -> Network:
    """The network of a .toml, .graphml or .txt (HPCC topology) file. Raises ScenarioError for others."""
    end = _end(path)
    if end == ".toml":
        return Network.from_toml(path)
    return (from_graphml(path) if end == ".graphml" else from_hpcc(path)).network()


def write(net: Network, path: str | Path) -> tuple[str, ...]:
    """Write a network to a file; return what the form has no place for. Raises ScenarioError, OSError."""
    end = _end(path)
    if end == ".toml":
        net.save(path)
        return ()
    found = plan(net)
    text = graphml(found) if end == ".graphml" else hpcc(found)
    Path(path).write_text(text, encoding="utf-8")
    return lost(net)


def _end(path: str | Path) -> str:
    end = Path(path).suffix
    if end not in ENDS:
        known = ", ".join(f"{end} ({what})" for end, what in ENDS.items())
        raise scenario.error("file", path, f"must end in one of {known}")
    return end


# ---- networks --------------------------------------------------------------------------------------------


def plan(net: Network) -> Plan:
    """The hosts, switches and cables of a network. Raises ScenarioError for links in one direction only."""
    if "topology" in net.settings:
        rows = list(_by_name(net))
        switches = sorted({node for row in rows for node in (row.a, row.b) if not _is_host(node)})
        hosts = {node for row in rows for node in (row.a, row.b)} - set(switches)
        from penstock.layout import natural

        return Plan(tuple(sorted(hosts, key=natural)), tuple(sorted(switches, key=natural)), tuple(rows))
    return Plan(tuple(net.hosts), tuple(net.switches), tuple(_by_hand(net)))


def lost(net: Network) -> tuple[str, ...]:
    """What a network has that only a scenario file can say."""
    found = [f"{len(net.workloads)} workloads"] if net.workloads else []
    given: set[str] = set()
    if "topology" not in net.settings:
        given = {key for link in net._links() for key, value in link.values.items() if value is not None}
    found += sorted(given - {"rate", "delay", "loss", "between", "from", "to"})
    return (*found, *(key for key in net.settings if key not in _OF_SHAPE))


_OF_SHAPE = ("topology", "link_rate", "fabric_rate", "oversubscription", "link_delay", "fabric_delay", "name")


def _is_host(node: str) -> bool:
    from penstock.network import _HOST

    return bool(_HOST.fullmatch(node))


def _by_name(net: Network) -> Iterator[Cable]:
    from penstock.network import _BY_NAME, _built

    known = {key: value for key, value in net.settings.items() if key in _BY_NAME and value is not None}
    seen = set()
    for name, rate in _built(tuple(known.items())):
        a, b = name.split("->", 1)
        if (b, a) in seen:
            continue
        seen.add((a, b))
        edge = _is_host(a) or _is_host(b)
        delay = known["link_delay"] if edge else known.get("fabric_delay", known["link_delay"])
        yield Cable(a, b, rate, _amount("link_delay", delay, "s"))


def _by_hand(net: Network) -> Iterator[Cable]:
    for number, link in enumerate(net._links(), start=1):
        key = f"link[{number}]"
        if link.one_way:
            raise scenario.error(key, repr(link), "goes one way; such a file has links of both ways only")
        values = link.values
        rate, delay = (_amount(f"{key}.{of}", values.get(of), unit) for of, unit in _UNITS.items())
        loss = float(values.get("loss") or 0.0)
        a, b = (network_file.expand(key, end) for end in link.ends)
        for x in a:
            for y in b:
                yield Cable(x, y, rate, delay, loss)


def _amount(key: str, value: Any, unit: str) -> float:
    """A value with or without its unit as a number of it. Raises ScenarioError."""
    try:
        return _positive(float(value), unit)
    except (TypeError, ValueError):
        found = _engine.quantity(str(value).strip())
    if found is None or found[1] != unit:
        example = "10Gbps" if unit == "bit/s" else "1us"
        raise scenario.error(
            key, value, f"must be a number of {unit} or a text with a unit, such as {example}"
        )
    return found[0]


def _positive(value: float, unit: str) -> float:
    if not (value > 0 or (unit == "s" and value == 0)) or value == float("inf"):
        raise ValueError(unit)
    return value


# ---- GraphML ---------------------------------------------------------------------------------------------


def graphml(found: Plan) -> str:
    """The text of GraphML: rate in bit/s, delay in seconds, loss as numbers, kind of a node as text."""
    root = ElementTree.Element("graphml", xmlns=_SPACE)
    kinds = (("kind", "node", "string"), ("rate", "edge", "double"), ("delay", "edge", "double"))
    for name, of, kind in (*kinds, ("loss", "edge", "double")):
        ElementTree.SubElement(root, "key", {"id": name, "for": of, "attr.name": name, "attr.type": kind})
    graph = ElementTree.SubElement(root, "graph", id="network", edgedefault="undirected")
    for kind, names in (("host", found.hosts), ("switch", found.switches)):
        for name in names:
            node = ElementTree.SubElement(graph, "node", id=name)
            ElementTree.SubElement(node, "data", key="kind").text = kind
    for cable in found.cables:
        edge = ElementTree.SubElement(graph, "edge", source=cable.a, target=cable.b)
        values = {
            "rate": cable.rate_bps,
            "delay": cable.delay_s,
            **({"loss": cable.loss} if cable.loss else {}),
        }
        for name, value in values.items():
            ElementTree.SubElement(edge, "data", key=name).text = repr(float(value))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def from_graphml(path: str | Path) -> Plan:
    """The plan of a GraphML file. Raises ScenarioError, one line, for what is no GraphML, and for a node or
    an edge that lacks what a network needs.
    """
    text = scenario.read(path)
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as problem:
        raise scenario.error("file", path, f"is no XML: {problem}") from None
    graph = next((node for node in root.iter() if _tag(node) == "graph"), None)
    if _tag(root) != "graphml" or graph is None:
        raise scenario.error("file", path, "is no GraphML: it has no <graphml> with a <graph>")
    names = {key.get("id", ""): key.get("attr.name", "").lower() for key in root.iter() if _tag(key) == "key"}
    nodes: dict[str, dict[str, str]] = {}
    cables: list[Cable] = []
    ends: dict[str, int] = {}
    for item in graph:
        data = {
            names.get(part.get("key", ""), part.get("key", "")): (part.text or "").strip()
            for part in item
            if _tag(part) == "data"
        }
        if _tag(item) == "node":
            nodes[item.get("id", "")] = data
        elif _tag(item) == "edge":
            a, b = item.get("source", ""), item.get("target", "")
            key = f"edge {a} - {b}"
            for end in (a, b):
                ends[end] = ends.get(end, 0) + 1
            values = {}
            for of, unit in _UNITS.items():
                value = _said(data, of)
                if not value:
                    rule = f"has no {of}; it must have one of the attributes {', '.join(_WORDS[of])}"
                    raise scenario.error(key, path, rule)
                values[of] = _amount(f"{key}: {of}", value, unit)
            loss = float(_said(data, "loss") or 0.0)
            cables.append(Cable(a, b, values["rate"], values["delay"], loss))
    both = {(cable.a, cable.b) for cable in cables}
    if graph.get("edgedefault") == "directed":
        # One cable for both directions.
        cables = [c for c in cables if (c.b, c.a) not in both or c.a < c.b]
        ends = {}
        for cable in cables:
            for end in (cable.a, cable.b):
                ends[end] = ends.get(end, 0) + 1
    for cable in cables:
        for end in (cable.a, cable.b):
            if end not in nodes:
                raise scenario.error(f"edge {cable.a} - {cable.b}", end, "is no node of the file")
    kinds = {node: _kind(path, node, data, ends.get(node, 0)) for node, data in nodes.items()}
    hosts, switches = (tuple(n for n, kind in kinds.items() if kind == of) for of in ("host", "switch"))
    if not hosts or not cables:
        raise scenario.error("file", path, "must have hosts (nodes of kind host, or with one edge) and edges")
    return Plan(hosts, switches, tuple(cables))


def _tag(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


def _said(data: dict[str, str], of: str) -> str:
    return next((data[word] for word in _WORDS[of] if data.get(word)), "")


def _kind(path: str | Path, node: str, data: dict[str, str], links: int) -> str:
    said = next((data[word].lower() for word in _WORDS["kind"] if data.get(word)), "")
    if said in ("host", "server", "switch", "router"):
        return "host" if said in ("host", "server") else "switch"
    if said and "kind" in data:
        raise scenario.error(f"node {node}", said, f"must be host or switch ({path})")
    return "host" if links == 1 else "switch"


# ---- the HPCC group's topologies -------------------------------------------------------------------------


def hpcc(found: Plan) -> str:
    """The text of an HPCC topology: hosts have the first numbers, in their order, switches the next."""
    number = {name: i for i, name in enumerate((*found.hosts, *found.switches))}
    lines = [f"{len(number)} {len(found.switches)} {len(found.cables)}"]
    lines.append(" ".join(str(number[name]) for name in found.switches))
    for cable in found.cables:
        delay = f"{cable.delay_s * 1e9:.6g}ns"
        lines.append(f"{number[cable.a]} {number[cable.b]} {cable.rate_bps:.0f}bps {delay} {cable.loss:g}")
    return "\n".join([*lines, ""])


def from_hpcc(path: str | Path) -> Plan:
    """The plan of an HPCC topology file; nodes are called as `penstock run --import hpcc` does. Raises
    ScenarioError with file, line and key.
    """
    from penstock import hpcc_import

    topology = hpcc_import.read_topology(Path(path))
    hosts = tuple(topology.name(node) for node in topology.hosts())
    switches = tuple(topology.name(node) for node in sorted(topology.switches))
    cables = [
        Cable(topology.name(a), topology.name(b), rate, round(delay * 1e12) / 1e12, errors)
        for a, b, rate, delay, errors, _ in topology.links
    ]
    return Plan(hosts, switches, tuple(cables))
