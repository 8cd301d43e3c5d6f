"""Networks and their traffic as objects, for every function that takes a scenario.

    net = penstock.Network.leaf_spine(4, 2, 8, link_rate="10Gbps", link_delay="1us")
    penstock.run(net, workloads=[penstock.Poisson("all", "all", load=0.4, sizes="websearch")], duration="5ms")

A network is what a scenario file with `scenario = "custom"` says, in memory: hosts, switches, links,
workloads and plain settings. It goes to the engine as the text of that file (`Network.to_toml`), so both give
the same bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from penstock import controllers, network_file, scenario
from penstock.workloads import OWN, Hosts, Table, Value, Workload, keys, nodes, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ports = dict[tuple[str, str], str]

# Keys that say what a network by name is.
_BY_NAME = ("topology", "link_rate", "fabric_rate", "oversubscription", "link_delay", "fabric_delay")
# What all families of networks by name call their hosts, and no switch.
_HOST = re.compile(r"h\d+")
# A picture of more links than this says nothing and takes long.
_MOST_DRAWN = 5000


class Link(Table):
    """Full-duplex links between all nodes of `a` and all nodes of `b`; with `one_way` from a to b only.

    `rate` and `delay` must be given ("10Gbps", "1us"). `buffer` ("100pkt", "64KB") and `queue` are of switch
    ports; of a host's port when `one_way`. `loss` is the probability that a packet is lost. `schedule`,
    `trim`, `reorder` and `fail` are what the scenario's keys of these names say of all links
    (docs/reference/fabric.md). Raises ScenarioError for a key that there is not.
    """

    table = "link"

    def __init__(
        self,
        a: Hosts,
        b: Hosts,
        rate: Value = None,
        delay: Value = None,
        *,
        buffer: Value = None,
        queue: str | None = None,
        loss: Value = None,
        schedule: str | None = None,
        trim: str | None = None,
        reorder: str | None = None,
        fail: str | None = None,
        one_way: bool = False,
        **more: Any,
    ) -> None:
        a, b = nodes("Link.a", a), nodes("Link.b", b)
        ends = {"from_": a, "to": b} if one_way else {"between": [a, b]}
        own = {"schedule": schedule, "trim": trim, "reorder": reorder, "fail": fail}
        super().__init__(
            **ends, rate=rate, delay=delay, buffer=buffer, queue=queue, loss=loss, **own, more=more
        )

    @property
    def one_way(self) -> bool:
        """Whether it has one direction only."""
        return "between" not in self.values

    @property
    def ends(self) -> tuple[Any, Any]:
        """What it joins, as given: names, ranges or lists of them."""
        if self.one_way:
            return self.values.get("from", ""), self.values.get("to", "")
        a, b = (*self.values["between"], "", "")[:2]
        return a, b

    def __repr__(self) -> str:
        others = {key: value for key, value in self.values.items() if key not in ("between", "from", "to")}
        shown = [*map(repr, self.ends), *(f"{key}={value!r}" for key, value in others.items())]
        return f"Link({', '.join([*shown, *(['one_way=True'] if self.one_way else [])])})"


class Network:
    """Hosts, switches and links, by themselves or ready-made, and what runs on them.

    `hosts` and `switches` are names or ranges of names ("h[0-3]"), `links` are `Link`s, `workloads` those of
    `penstock.workloads`; dicts with the keys of a scenario file do as well. `name` is what results call it.
    Files that workloads name are looked for in `folder` (None: the working directory). `settings` are any
    keys of the scenario `custom`: `duration="10ms"`, `protocol="dctcp"`. `protocols` are protocols and queues
    in Python, classes or "FILE.py:CLASS", that settings and workloads name; a class may also stand in their
    place: `Flows("a", "b", protocol=Tide(gain=2))`. Raises ScenarioError for what is no name and for unknown
    keys; what else is wrong is told when it runs.
    """

    def __init__(
        self,
        hosts: Hosts = (),
        switches: Hosts = (),
        links: Iterable[Link | Mapping[str, Any]] = (),
        *,
        workloads: Iterable[Workload | Mapping[str, Any]] = (),
        name: str = "network",
        folder: str | Path | None = None,
        protocols: Iterable[Any] = (),
        **settings: Any,
    ) -> None:
        self.name = name
        self.folder = None if folder is None else Path(folder)
        self._hosts: list[Any] = []
        self._switches: list[Any] = []
        self.links: list[Link | Mapping[str, Any]] = list(links)
        self.workloads: list[Workload | Mapping[str, Any]] = list(workloads)
        self.protocols: list[Any] = list(controllers.listed(protocols))
        self.settings: dict[str, Any] = dict(settings)
        self.host(*_several(hosts)).switch(*_several(switches))

    # ---- building ------------------------------------------------------------------------------------------

    def host(self, *names: str) -> Self:
        """Add hosts: names or ranges of names ("h[0-3]"). Returns the network. Raises ScenarioError."""
        return self._add(self._hosts, "host", names)

    def switch(self, *names: str) -> Self:
        """Add switches: names or ranges of names ("leaf[0-3]"). Returns the network. Raises ScenarioError."""
        return self._add(self._switches, "switch", names)

    def link(self, a: Hosts, b: Hosts, rate: Value = None, delay: Value = None, **more: Any) -> Self:
        """Add a `Link`, with its arguments. Returns the network. Raises ScenarioError."""
        self.links.append(Link(a, b, rate, delay, **more))
        return self

    def add(self, *workloads: Workload | Mapping[str, Any]) -> Self:
        """Add workloads, which run where `run` is given none. Returns the network."""
        self.workloads.extend(workloads)
        return self

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of all hosts, ranges written out. Raises ScenarioError for what is no range."""
        if "topology" in self.settings:
            return tuple(node for node in self._nodes() if _HOST.fullmatch(node))
        return tuple(network_file.expand("hosts", self._hosts))

    @property
    def switches(self) -> tuple[str, ...]:
        """Names of all switches, ranges written out. Raises ScenarioError for what is no range."""
        if "topology" in self.settings:
            return tuple(node for node in self._nodes() if not _HOST.fullmatch(node))
        return tuple(network_file.expand("switches", self._switches))

    # ---- ready-made ----------------------------------------------------------------------------------------

    @classmethod
    def star(
        cls, hosts: int, *, link_rate: Value, link_delay: Value, buffer: Value = None, **settings: Any
    ) -> Self:
        """Hosts h0, h1, ... around one switch, `switch`."""
        count = scenario.whole("Network.star.hosts", hosts, least=2)
        made = cls(_range("h", count), "switch", **settings)
        return made.link(_range("h", count), "switch", link_rate, link_delay, buffer=buffer)

    @classmethod
    def dumbbell(
        cls,
        pairs: int,
        *,
        link_rate: Value,
        link_delay: Value,
        fabric_rate: Value = None,
        fabric_delay: Value = None,
        buffer: Value = None,
        **settings: Any,
    ) -> Self:
        """sender0, sender1, ... at the switch `left`, receiver0, ... at `right`, one link between the
        switches: `fabric_rate` and `fabric_delay`, or as the others.
        """
        count = scenario.whole("Network.dumbbell.pairs", pairs, least=1)
        senders, receivers = _range("sender", count), _range("receiver", count)
        made = cls([senders, receivers], ["left", "right"], **settings)
        made.link(senders, "left", link_rate, link_delay, buffer=buffer)
        made.link(receivers, "right", link_rate, link_delay, buffer=buffer)
        middle = _or(fabric_rate, link_rate), _or(fabric_delay, link_delay)
        return made.link("left", "right", *middle, buffer=buffer)

    @classmethod
    def chain(
        cls,
        switches: int,
        hosts: int,
        *,
        link_rate: Value,
        link_delay: Value,
        fabric_rate: Value = None,
        fabric_delay: Value = None,
        buffer: Value = None,
        **settings: Any,
    ) -> Self:
        """Switches s0, s1, ... in a row, each with so many `hosts`: h0, h1, ... from s0 on. The links between
        switches have `fabric_rate` and `fabric_delay`, or are as the others.
        """
        row = scenario.whole("Network.chain.switches", switches, least=1)
        each = scenario.whole("Network.chain.hosts", hosts, least=1)
        made = cls(_range("h", row * each), _range("s", row), **settings)
        for i in range(row):
            made.link(_range("h", each, i * each), f"s{i}", link_rate, link_delay, buffer=buffer)
        for i in range(row - 1):
            middle = _or(fabric_rate, link_rate), _or(fabric_delay, link_delay)
            made.link(f"s{i}", f"s{i + 1}", *middle, buffer=buffer)
        return made

    @classmethod
    def leaf_spine(cls, leaves: int, spines: int, hosts: int, **settings: Any) -> Self:
        """`hosts` per leaf, every leaf linked to every spine. Keys as for all networks by name: `link_rate`
        and `link_delay` (must be given), `fabric_rate` or `oversubscription`, `buffer`.
        """
        return cls.by_name(f"leaf-spine:{leaves}x{spines}x{hosts}", **settings)

    @classmethod
    def fat_tree(cls, k: int, **settings: Any) -> Self:
        """k-ary fat tree (Al-Fares et al., SIGCOMM 2008) of k^3/4 hosts; keys as for `leaf_spine`."""
        return cls.by_name(f"fat-tree:{k}", **settings)

    @classmethod
    def rail(cls, servers: int, nics: int, spines: int, units: int | None = None, **settings: Any) -> Self:
        """Rail-optimised: NIC r of every server (a host of its own) on leaf r, one leaf per rail and unit of
        `servers`, every leaf linked to every spine; keys as for `leaf_spine`.
        """
        more = "" if units is None else f"x{units}"
        return cls.by_name(f"rail:{servers}x{nics}x{spines}{more}", **settings)

    @classmethod
    def dragonfly(cls, p: int, a: int, h: int, groups: int | None = None, **settings: Any) -> Self:
        """The network has p hosts per router, a routers per group, h links per router to other groups (Kim et
        al., ISCA 2008), and a h + 1 groups unless given. Keys are as for `leaf_spine`, without
        `oversubscription`.
        """
        more = "" if groups is None else f",{groups}"
        return cls.by_name(f"dragonfly:{p},{a},{h}{more}", **settings)

    @classmethod
    def by_name(cls, topology: str, **settings: Any) -> Self:
        """A network by its name in a scenario file, "fat-tree:4"; keys as for `leaf_spine`."""
        return cls(**{"name": topology, "topology": topology, **settings})

    # ---- files ---------------------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, source: str | Path) -> Self:
        """The network of a scenario file, with its workloads and settings. `source` is the path, or the text
        itself where it has more than one line. Raises ScenarioError for a file that is missing, is no TOML or
        is no `custom` scenario.
        """
        if isinstance(source, str) and "\n" in source:
            return cls.from_dict(network_file.read(source, ""))
        made = cls.from_dict(network_file.read(scenario.read(source), str(source)))
        made.name, made.folder = str(source), Path(source).resolve().parent
        return made

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The network that a dict with the keys of a scenario file describes; `links` and `workloads` may be
        plural. Raises ScenarioError for an unknown key of a link or workload.
        """
        rest = dict(document)
        kind = rest.pop("scenario", "custom")
        if kind != "custom":
            rule = 'a network is a scenario "custom"; another one runs by its name'
            raise scenario.error("scenario", kind, rule)
        links = [Link.of(table) for table in network_file.tables(rest, "link")]
        workloads = [Workload.of(table) for table in network_file.tables(rest, "workload")]
        own = rest.pop("protocols", ())
        made = cls(rest.pop("hosts", ()), rest.pop("switches", ()), links, workloads=workloads, protocols=own)
        for key, value in rest.items():
            if isinstance(value, Mapping | list):
                rule = unknown(key, network_file.TABLES, "table")
                raise scenario.error(key, "a table", rule)
            made.settings[key] = value
        return made

    def to_toml(self) -> str:
        """The text of a scenario file with this network, its workloads and settings. Raises ScenarioError for
        values that are neither texts nor numbers nor true or false.
        """
        return network_file.text(self.document())

    def save(self, path: str | Path) -> Path:
        """Write `to_toml` to a file, from which `penstock run` and `from_toml` run it; files that workloads
        name are named as seen from there. Returns the path. Raises ScenarioError, and OSError from the disk.
        """
        target = Path(path)
        document = self.document()
        here, there = (self.folder or Path()).resolve(), target.resolve().parent
        if "protocols" in document:
            own = [text.rpartition(":") for text in document["protocols"]]
            document["protocols"] = [f"{os.path.relpath(here / file, there)}:{name}" for file, _, name in own]
        for table in [document, *document.get("link", []), *document.get("workload", [])]:
            for key in OWN:
                if controllers.names_file(table.get(key)) and not Path(table[key]).is_absolute():
                    table[key] = os.path.relpath(here / table[key], there)
        for table in document.get("workload", []):
            network_file.move(table, lambda name: os.path.relpath(here / name, there))
        target.write_text(network_file.text(document), encoding="utf-8")
        return target

    def document(self) -> dict[str, Any]:
        """The keys and values of its scenario file. Raises ScenarioError as `to_toml`."""
        found: dict[str, Any] = {"scenario": "custom"}
        own = [
            controllers.place_of(item) if controllers.is_own(item) else str(item) for item in self.protocols
        ]
        own += [controllers.place_of(value) for value in self._own()]
        if own:
            found["protocols"] = list(dict.fromkeys(own))
        for key, value in self.settings.items():
            if value is not None:
                found[key] = scenario.plain(key, str(value) if controllers.is_own(value) else value)
        for key, names in (("hosts", self._hosts), ("switches", self._switches)):
            if names:
                found[key] = list(names)
        for key, tables in (("link", self._links()), ("workload", self._workloads())):
            if tables:
                found[key] = [table.document() for table in tables]
        return found

    def spec(self, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the engine is given for this network: its document, and the settings that are no part of it.

        `workloads` of the settings stand in place of its own, `workload[1].load` and the like change one
        value. Raises ScenarioError, in words of the objects.
        """
        net, rest = self.taking(settings)
        folder = (net.folder or Path()).resolve()
        net._load(folder)
        document = net.document()
        # The classes themselves: one that was made in a notebook has no file.
        own = [*controllers.listed(rest.pop("protocols", ())), *net.protocols, *net._own()]
        document.pop("protocols", None)
        if own:
            rest["protocols"] = own
        if "topology" not in {**document, **rest}:
            if "hosts" not in document:
                rule = (
                    'there are none: penstock.Network(hosts=...), net.host("a", "b") or a ready-made network'
                )
                raise scenario.error("hosts", "", rule)
            if "link" not in document:
                rule = 'there are none: net.link("a", "b", rate="10Gbps", delay="1us")'
                raise scenario.error("links", "", rule)
        if "workload" not in document:
            rule = 'there are none: workloads=[penstock.Flows("a", "b")]'
            raise scenario.error("workloads", "", rule)
        return {"toml": network_file.text(document), "name": "", "base_dir": str(folder)}, rest

    def _own(self) -> list[Any]:
        """The classes in Python that stand as values of settings, links and workloads."""
        tables = [*self._links(), *self._workloads()]
        values = [self.settings, *(table.values for table in tables)]
        return [value for found in values for value in found.values() if controllers.is_own(value)]

    def _load(self, folder: Path) -> None:
        """Put the classes in the place of every FILE.py:CLASS, which is found from `folder`."""
        self.protocols = [
            item if controllers.is_own(item) else controllers.in_file(item, folder) or item
            for item in self.protocols
        ]

        def loaded(table: Table) -> Any:
            found = {key: controllers.in_file(table.values.get(key), folder) for key in OWN}
            return (
                table.but(**{key: value for key, value in found.items() if value})
                if any(found.values())
                else table
            )

        self.links = [loaded(link) for link in self._links()]
        self.workloads = [loaded(workload) for workload in self._workloads()]
        for key in OWN:
            self.settings[key] = controllers.in_file(self.settings.get(key), folder) or self.settings.get(key)

    def taking(self, settings: Mapping[str, Any]) -> tuple[Network, dict[str, Any]]:
        """A copy with the `workloads` and single values (`workload[1].load`, `link[2].rate`; counted from 1)
        that are among the settings, and the other settings. Raises ScenarioError.
        """
        net, rest = self.copy(), dict(settings)
        if (workloads := rest.pop("workloads", None)) is not None:
            one = isinstance(workloads, Workload | Mapping)
            net.workloads = [workloads] if one else _listed("workloads", workloads)
        for path in [key for key in rest if scenario.TABLE_KEY.fullmatch(key)]:
            table, number, key = scenario.TABLE_KEY.fullmatch(path).groups()  # type: ignore[union-attr]
            one_of: list[Any] = net.links if table == "link" else net.workloads
            made: list[Any] = net._links() if table == "link" else net._workloads()
            if not 1 <= int(number) <= len(made):
                raise scenario.error(path, rest[path], f"there are {len(made)}, counted from 1")
            value = rest.pop(path)
            if key in OWN:
                # A file that is named here is found from here, not from the network's folder.
                value = controllers.in_file(value, Path()) or value
            one_of[int(number) - 1] = made[int(number) - 1].but(**{key: value})
        return net, rest

    def copy(self) -> Self:
        """A network of its own with the same links, workloads and settings."""
        made = type(self)(name=self.name, folder=self.folder)
        made._hosts, made._switches = list(self._hosts), list(self._switches)
        made.links, made.workloads = list(self.links), list(self.workloads)
        made.settings, made.protocols = dict(self.settings), list(self.protocols)
        return made

    # ---- looking at it -------------------------------------------------------------------------------------

    def plot(self) -> Figure:
        """The network as a matplotlib Figure, its links by what they are. Raises ScenarioError for a network
        that cannot be drawn: no links, or too many.
        """
        from penstock import figures, layout, network_plot

        ports = self._ports()
        if not ports:
            raise scenario.error(
                "links", "", 'there are none: net.link("a", "b", rate="10Gbps", delay="1us")'
            )
        if len(ports) > 2 * _MOST_DRAWN:
            raise scenario.error("links", len(ports) // 2, f"at most {_MOST_DRAWN} can be drawn")
        with figures.style():
            figure = network_plot.outline(layout.layout(ports, self.hosts), ports)
            figure.axes[0].set_title(f"{self}: {self._size()}")
        return figure

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        try:
            size = self._size()
        except scenario.ScenarioError as problem:
            size = str(problem)
        return f"<Network {self.name}: {size}; {_count(len(self.workloads), 'workload')}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.document() == other.document()

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        from penstock import network_plot

        return network_plot.page(self)

    def _size(self) -> str:
        ports = self._ports()
        links = {min(port, port[::-1]) for port in ports}
        if "topology" in self.settings:
            ends = {a for a, _ in ports}
            hosts = sum(1 for node in ends if _HOST.fullmatch(node))
            switches = len(ends) - hosts
        else:
            hosts, switches = len(self.hosts), len(self.switches)
        parts = (hosts, "host"), (switches, "switch"), (len(links), "link")
        return ", ".join(_count(number, word) for number, word in parts)

    def _links(self) -> list[Link]:
        return [table if isinstance(table, Link) else Link.of(_table("links", table)) for table in self.links]

    def _workloads(self) -> list[Workload]:
        return [
            table if isinstance(table, Workload) else Workload.of(_table("workloads", table))
            for table in self.workloads
        ]

    def _nodes(self) -> list[str]:
        from penstock.layout import natural

        return sorted({node for ends in self._ports() for node in ends}, key=natural)

    def _ports(self) -> Ports:
        """What every port's link is, by the two ends, the port's own first."""
        if "topology" in self.settings:
            return self._ports_by_name()
        found: Ports = {}
        for number, link in enumerate(self._links(), start=1):
            a, b = (network_file.expand(f"link[{number}]", end) for end in link.ends)
            text = _words(link.values)
            for x in a:
                for y in b:
                    found[x, y] = text
                    if not link.one_way:
                        found[y, x] = text
        return found

    def _ports_by_name(self) -> Ports:
        from penstock.runs import show

        known = {key: value for key, value in self.settings.items() if key in _BY_NAME and value is not None}
        built = _built(tuple(known.items()))
        delay, buffer = known["link_delay"], self.settings.get("buffer", "100pkt")
        found: Ports = {}
        words: dict[tuple[float, bool], str] = {}
        for name, rate in built:
            a, b = name.split("->", 1)
            kind = rate, bool(_HOST.fullmatch(a) or _HOST.fullmatch(b))
            if kind not in words:
                late = delay if kind[1] else known.get("fabric_delay", delay)
                words[kind] = _words({"rate": show("_bps", rate), "delay": late, "buffer": buffer})
            found[a, b] = words[kind]
        return found

    def _add(self, into: list[Any], what: str, names: Iterable[Any]) -> Self:
        for name in names:
            into.append(nodes(f"Network.{what}", name))
        return self


@lru_cache(maxsize=8)
def _built(known: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, float], ...]:
    """Name and rate of every port of a network by name as the engine builds it: from the table of ports of a
    run that ends at once. Raises ScenarioError.
    """
    from penstock import sweeps

    net = Network(workloads=[{"from": "h0", "to": "h1", "size": 1}], **dict(known))
    task = sweeps.Task("network", scenario.spec(net, {"duration": "1ns", "warmup": "0s"}, 1), 0, ("ports",))
    scenario.check(task.spec)
    return tuple(sweeps.execute(task).tables["ports"].select("name", "rate_bps").iter_rows())


def _words(values: Mapping[str, Any]) -> str:
    """What a link is, for people."""
    from penstock.runs import show

    shown = []
    for key in keys("link")[1]:
        value = values.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            unit = {"rate": "_bps", "delay": "_s"}.get(key)
            value = show(unit, value) if unit else f"{key} {value}"
        elif key not in ("rate", "delay"):
            value = f"{key} {value}"
        shown.append(value)
    return ", ".join(shown)


def _several(names: Hosts) -> list[Any]:
    return [names] if isinstance(names, str | int | float) else list(names or ())


def _range(head: str, count: int, first: int = 0) -> str:
    return f"{head}{first}" if count == 1 else f"{head}[{first}-{first + count - 1}]"


def _or(value: Value, other: Value) -> Value:
    return other if value is None else value


def _count(count: int, word: str) -> str:
    plural = "es" if word.endswith("h") else "s"
    return f"{count} {word}{'' if count == 1 else plural}"


def _listed(key: str, value: Any) -> list[Any]:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return list(value)
    raise scenario.error(key, repr(value), 'must be a list, as in workloads=[penstock.Flows("a", "b")]')


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise scenario.error(
        key, repr(value), "must be objects of penstock or dicts with the keys of a scenario file"
    )
