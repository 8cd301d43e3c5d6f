"""Networks in the files of other programs: GraphML, and the topology files of the HPCC group's simulator.

A file has hosts, switches and links with rate, delay and loss; buffers, queues and workloads are penstock's
own and stay behind, which `lost` says. GraphML (http://graphml.graphdrawing.org) is read as networkx, yEd,
Gephi and the Topology Zoo write it: names of attributes are in `_WORDS`, with their `<default>`. A node
without a kind is a host if it has one neighbour. An edge is a full-duplex link. A directed edge is a link of
one direction, and two equal ones in opposite directions are one full-duplex link. An HPCC topology is:
numbers of nodes, switches and links; the switches; `node node rate delay error-rate` for each.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
    """A link: rate in bit/s, delay in seconds, probability of loss. Full-duplex, or from a to b only."""

    a: str
    b: str
    rate_bps: float
    delay_s: float
    loss: float = 0.0
    one_way: bool = False

    @property
    def back(self) -> Cable:
        """The same link from b to a."""
        return replace(self, a=self.b, b=self.a)


@dataclass(frozen=True)
class Plan:
    """Hosts, switches and the cables between them."""

    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    cables: tuple[Cable, ...]

    def network(self) -> Network:
        """The network of these hosts, switches and cables, without workloads."""
        net = Network(list(self.hosts), list(self.switches))
        for cable in self.cables:
            loss = {"loss": repr(cable.loss)} if cable.loss else {}
            delay = f"{round(cable.delay_s * 1e12)}ps"
            rate = f"{cable.rate_bps:.0f}bps"
            net.link(cable.a, cable.b, rate, delay, one_way=cable.one_way, **loss)
        return net


def read(path: str | Path, **missing: Any) -> Network:
    """The network of a .toml, .graphml or .txt (HPCC topology) file. Of GraphML `missing` are `link_rate` and
    `link_delay` of edges that have none, and `hosts_per_switch`, hosts to add to every switch. Raises
    ScenarioError for others.
    """
    end = _end(path)
    if missing and end != ".graphml":
        key, value = next(iter(missing.items()))
        raise scenario.error(key, value, f"is for GraphML or a topology by name; {ENDS[end]} says it itself")
    if end == ".toml":
        return Network.from_toml(path)
    return (from_graphml(path, **missing) if end == ".graphml" else from_hpcc(path)).network()


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
    """The hosts, switches and cables of a network. Raises ScenarioError."""
    if "topology" in net.settings:
        rows = list(_by_name(net))
        switches = sorted({node for row in rows for node in (row.a, row.b) if not _is_host(node)})
        hosts = {node for row in rows for node in (row.a, row.b)} - set(switches)
        from penstock.layout import natural

        return Plan(tuple(sorted(hosts, key=natural)), tuple(sorted(switches, key=natural)), tuple(rows))
    return Plan(tuple(net.hosts), tuple(net.switches), joined(_by_hand(net)))


def joined(cables: Iterable[Cable]) -> tuple[Cable, ...]:
    """The same links, each two of one direction that are alike as one full-duplex link."""
    found: list[Cable] = []
    waiting: dict[Cable, list[int]] = {}
    for cable in cables:
        if cable.one_way and waiting.get(cable.back):
            at = waiting[cable.back].pop()
            found[at] = replace(found[at], one_way=False)
            continue
        if cable.one_way:
            waiting.setdefault(cable, []).append(len(found))
        found.append(cable)
    return tuple(found)


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
        values = link.values
        rate, delay = (_amount(f"{key}.{of}", values.get(of), unit) for of, unit in _UNITS.items())
        loss = float(values.get("loss") or 0.0)
        a, b = (network_file.expand(key, end) for end in link.ends)
        for x in a:
            for y in b:
                yield Cable(x, y, rate, delay, loss, link.one_way)


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
        way = {"directed": "true"} if cable.one_way else {}
        edge = ElementTree.SubElement(graph, "edge", {"source": cable.a, "target": cable.b, **way})
        values = {
            "rate": cable.rate_bps,
            "delay": cable.delay_s,
            **({"loss": cable.loss} if cable.loss else {}),
        }
        for name, value in values.items():
            ElementTree.SubElement(edge, "data", key=name).text = repr(float(value))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def from_graphml(
    path: str | Path, link_rate: Any = None, link_delay: Any = None, hosts_per_switch: Any = None
) -> Plan:
    """The plan of a GraphML file. `link_rate` and `link_delay` are those of edges that have none.
    `hosts_per_switch` adds so many hosts to every switch, by links of this rate and delay: a map of routers
    has no hosts. Raises ScenarioError, one line, for what is no GraphML, and for a node or an edge that lacks
    what a network needs.
    """
    text = scenario.read(path)
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as problem:
        raise scenario.error("file", path, f"is no XML: {problem}") from None
    graph = next((node for node in root.iter() if _tag(node) == "graph"), None)
    if _tag(root) != "graphml" or graph is None:
        raise scenario.error("file", path, "is no GraphML: it has no <graphml> with a <graph>")
    names: dict[str, str] = {}
    defaults: dict[str, dict[str, str]] = {"node": {}, "edge": {}}
    for key in (item for item in root.iter() if _tag(item) == "key"):
        name = names[key.get("id", "")] = key.get("attr.name", key.get("id", "")).lower()
        for part in key:
            if _tag(part) == "default" and part.text:
                for of in ("node", "edge") if key.get("for", "all") == "all" else (key.get("for", ""),):
                    defaults.setdefault(of, {})[name] = part.text.strip()
    given = {
        of: None if value is None else _amount(f"link_{of}", value, _UNITS[of])
        for of, value in (("rate", link_rate), ("delay", link_delay))
    }
    nodes: dict[str, dict[str, str]] = {}
    edges: list[Cable] = []
    for item in graph:
        tag = _tag(item)
        if tag == "hyperedge" or any(_tag(part) == "graph" for part in item):
            what = "a hyperedge" if tag == "hyperedge" else f"a graph inside node {item.get('id', '')}"
            raise scenario.error("file", path, f"has {what}, which no network has")
        if tag not in ("node", "edge"):
            continue
        data = defaults[tag] | {
            names.get(part.get("key", ""), part.get("key", "")): (part.text or "").strip()
            for part in item
            if _tag(part) == "data"
        }
        if tag == "node":
            nodes[item.get("id", "")] = data
        else:
            directed = item.get("directed", str(graph.get("edgedefault") == "directed").lower()) == "true"
            edges.append(_edge(path, item, data, given, directed))
    for cable in edges:
        for end in (cable.a, cable.b):
            if end not in nodes:
                raise scenario.error(f"edge {cable.a} - {cable.b}", end, "is no node of the file")
        if cable.a == cable.b:
            raise scenario.error(f"edge {cable.a} - {cable.b}", path, "leads from a node to itself")
    near: dict[str, set[str]] = {}
    for cable in edges:
        near.setdefault(cable.a, set()).add(cable.b)
        near.setdefault(cable.b, set()).add(cable.a)
    kinds = {node: _kind(path, node, data, len(near.get(node, ()))) for node, data in nodes.items()}
    hosts, switches = (tuple(n for n, kind in kinds.items() if kind == of) for of in ("host", "switch"))
    if hosts_per_switch is not None:
        return _with_hosts(path, tuple(nodes), joined(edges), given, hosts_per_switch)
    if not hosts or not edges:
        rule = "must have edges and hosts (nodes of kind host, or with one neighbour)"
        raise scenario.error("file", path, f"{rule}; to a map of routers add --set hosts_per_switch=1")
    return Plan(hosts, switches, joined(edges))


def _edge(
    path: str | Path,
    item: ElementTree.Element,
    data: dict[str, str],
    given: dict[str, float | None],
    directed: bool,
) -> Cable:
    a, b = item.get("source", ""), item.get("target", "")
    key = f"edge {a} - {b}"
    values: dict[str, float] = {}
    for of, unit in _UNITS.items():
        value, default = _said(data, of), given[of]
        if value:
            values[of] = _amount(f"{key}: {of}", value, unit)
        elif default is not None:
            values[of] = default
        else:
            rule = f"has no {of}; it must have one of the attributes {', '.join(_WORDS[of])}"
            example = "10Gbps" if of == "rate" else "1ms"
            raise scenario.error(key, path, f"{rule}, or give one to all without: --set link_{of}={example}")
    said = _said(data, "loss") or "0"
    try:
        loss = float(said)
    except ValueError:
        loss = -1.0
    if not 0 <= loss <= 1:
        raise scenario.error(f"{key}: loss", said, "must be a probability of 0 to 1")
    return Cable(a, b, values["rate"], values["delay"], loss, directed)


def _with_hosts(
    path: str | Path,
    switches: tuple[str, ...],
    cables: tuple[Cable, ...],
    given: dict[str, float | None],
    each: Any,
) -> Plan:
    """All nodes as switches, each with hosts of its own: `h-NODE-0`, `h-NODE-1`, ..."""
    count = _engine.quantity(str(each))
    if count is None or count[1] or count[0] != int(count[0]) or not 1 <= count[0] <= 1000:
        raise scenario.error("hosts_per_switch", each, "must be a whole number of 1 to 1000")
    rate, delay = given["rate"], given["delay"]
    if rate is None or delay is None:
        raise scenario.error(
            "hosts_per_switch", each, f"needs link_rate and link_delay of their links ({path})"
        )
    hosts = {f"h-{node}-{i}": node for node in switches for i in range(int(count[0]))}
    more = tuple(Cable(host, node, rate, delay) for host, node in hosts.items())
    return Plan(tuple(hosts), switches, (*cables, *more))


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
        if cable.one_way:
            what = f"{cable.a} -> {cable.b}"
            raise scenario.error("link", what, "goes one way; an HPCC topology has links of both ways only")
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
