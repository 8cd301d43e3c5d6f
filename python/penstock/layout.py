"""Where the nodes of a network stand on paper: tiers, a chain, a tree or a circle, by what its links are."""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Place = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """`places` of all nodes, x from 0 to 1 and y upwards in units of its own; which of them are `hosts`;
    `kind` is star, chain, tiers, tree or circle.
    """

    kind: str
    places: dict[str, Place]
    hosts: frozenset[str]


def layout(
    links: Iterable[tuple[str, str]], sources: Iterable[str] = (), sinks: Iterable[str] = ()
) -> Layout:
    """Places for a network of these links. Hosts are the nodes with one link and all `sources` and `sinks` of
    flows; where there is one switch, sinks that send nothing stand on the other side of it.
    """
    near: dict[str, list[str]] = defaultdict(list)
    for a, b in links:
        if b not in near[a]:
            near[a].append(b)
            near[b].append(a)
    from_, to = set(sources), set(sinks)
    hosts = {node for node in near if len(near[node]) == 1 or node in from_ | to}
    switches = sorted((node for node in near if node not in hosts), key=natural)
    if not switches:
        # Two hosts back to back.
        row = sorted(hosts, key=natural)
        return Layout(
            "chain",
            {name: (x, 0.0) for name, x in zip(row, _spread(len(row)), strict=True)},
            frozenset(hosts),
        )
    among = {node: [other for other in near[node] if other not in hosts] for node in switches}
    homes = _homes(near, hosts, switches)
    if len(switches) == 1:
        kind, places = "star", _star(switches[0], homes[switches[0]], from_, to)
    elif (path := _chain(among)) is not None:
        kind, places = "chain", _along(path, homes)
    elif (tiers := _tiers(among, homes)) is not None:
        kind, places = "tiers", _stacked(tiers, among, homes)
    elif sum(map(len, among.values())) == 2 * (len(switches) - 1):
        kind, places = "tree", _tree(among, homes)
    else:
        kind, places = "circle", _circle(switches, homes)
    return Layout(kind, places, frozenset(hosts))


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts h2 before h10."""
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def _homes(
    near: Mapping[str, Sequence[str]], hosts: set[str], switches: Sequence[str]
) -> dict[str, list[str]]:
    """The hosts of each switch; one with several links stands at the first."""
    found: dict[str, list[str]] = {switch: [] for switch in switches}
    for host in sorted(hosts, key=natural):
        at = sorted((node for node in near[host] if node in found), key=natural)
        found[at[0] if at else switches[0]].append(host)
    return found


def _spread(count: int, low: float = 0.0, high: float = 1.0) -> list[float]:
    """So many places between two ends, each in the middle of its share."""
    return [low + (high - low) * (i + 0.5) / count for i in range(count)]


def _star(hub: str, hosts: Sequence[str], sources: set[str], sinks: set[str]) -> dict[str, Place]:
    ends = [host for host in hosts if host in sinks and host not in sources]
    others = [host for host in hosts if host not in ends]
    places = {hub: (0.5, 0.0)}
    if ends and others:
        places |= _column(others, 0.0) | _column(ends, 1.0)
    else:
        places |= {host: (x, -1.0) for host, x in zip(hosts, _spread(len(hosts)), strict=True)}
    return places


def _column(hosts: Sequence[str], x: float) -> dict[str, Place]:
    return {host: (x, 1.0 - 2.0 * y) for host, y in zip(hosts, _spread(len(hosts)), strict=True)}


def _chain(among: Mapping[str, Sequence[str]]) -> list[str] | None:
    """The switches from end to end when they make a path."""
    ends = [node for node, others in among.items() if len(others) == 1]
    if len(ends) != 2 or any(len(others) > 2 for others in among.values()):
        return None
    row = [ends[0]]
    while len(row) < len(among):
        row.append(next(node for node in among[row[-1]] if node not in row[-2:]))
        if row[-1] == ends[1] and len(row) < len(among):
            return None
    return row


def _along(row: Sequence[str], homes: Mapping[str, Sequence[str]]) -> dict[str, Place]:
    """Switches from left to right, hosts of the ends beside them and of the others below."""
    step = 1.0 / (len(row) + 1)
    places: dict[str, Place] = {}
    for i, switch in enumerate(row):
        x = step * (i + 1)
        places[switch] = (x, 0.0)
        hosts = homes[switch]
        if i in (0, len(row) - 1):
            places |= _column(hosts, 0.0 if i == 0 else 1.0)
        else:
            wide = zip(hosts, _spread(len(hosts), x - 0.4 * step, x + 0.4 * step), strict=True)
            places |= {host: (at, -1.0) for host, at in wide}
    return places


def _tiers(among: Mapping[str, Sequence[str]], homes: Mapping[str, Sequence[str]]) -> list[list[str]] | None:
    """Switches by their distance to the nearest host, when no link stays within a tier."""
    distance = {switch: 0 for switch, hosts in homes.items() if hosts}
    queue = deque(distance)
    while queue:
        node = queue.popleft()
        for other in among[node]:
            if other not in distance:
                distance[other] = distance[node] + 1
                queue.append(other)
    if len(distance) < len(among) or any(distance[a] == distance[b] for a in among for b in among[a]):
        return None
    count = 1 + max(distance.values())
    return [[node for node in among if distance[node] == tier] for tier in range(count)]


def _stacked(
    tiers: Sequence[Sequence[str]], among: Mapping[str, Sequence[str]], homes: Mapping[str, Sequence[str]]
) -> dict[str, Place]:
    """Hosts at the bottom, each tier above the one that it serves, leaves over the middle of their hosts."""
    below = [host for switch in tiers[0] for host in homes[switch]]
    places = {host: (x, -1.0) for host, x in zip(below, _spread(len(below)), strict=True)}
    for height, tier in enumerate(tiers):
        middle: dict[str, float] = {}
        for switch in tier:
            under = homes[switch] if height == 0 else [n for n in among[switch] if n in places]
            middle[switch] = sum(places[n][0] for n in under) / len(under)
        order = sorted(tier, key=lambda node: (round(middle[node], 9), natural(node)))
        at = [middle[node] for node in order] if height == 0 else _spread(len(order))
        places |= {node: (x, float(height)) for node, x in zip(order, at, strict=True)}
    return places


def _tree(among: Mapping[str, Sequence[str]], homes: Mapping[str, Sequence[str]]) -> dict[str, Place]:
    """Switches below the most central one, hosts below theirs."""
    root = min(among, key=lambda node: (_farthest(node, among), natural(node)))
    leaves: list[tuple[str, int]] = []
    spans: dict[str, tuple[int, int, int]] = {}

    def walk(node: str, parent: str | None, depth: int) -> None:
        first = len(leaves)
        leaves.extend((host, depth + 1) for host in homes[node])
        for child in among[node]:
            if child != parent:
                walk(child, node, depth + 1)
        if len(leaves) == first:
            leaves.append(("", depth + 1))
        spans[node] = (first, len(leaves), depth)

    walk(root, None, 0)
    at = _spread(len(leaves))
    places = {name: (x, -float(depth)) for (name, depth), x in zip(leaves, at, strict=True) if name}
    for node, (first, last, depth) in spans.items():
        places[node] = ((at[first] + at[last - 1]) / 2, -float(depth))
    return places


def _farthest(start: str, among: Mapping[str, Sequence[str]]) -> int:
    distance, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for other in among[node]:
            if other not in distance:
                distance[other] = distance[node] + 1
                queue.append(other)
    return max(distance.values())


def _circle(switches: Sequence[str], homes: Mapping[str, Sequence[str]]) -> dict[str, Place]:
    """Switches on a circle, their hosts outside it."""
    places: dict[str, Place] = {}
    share = 2 * math.pi / len(switches)
    for i, switch in enumerate(switches):
        angle = math.pi / 2 - share * i
        places[switch] = (0.5 + 0.34 * math.cos(angle), 0.68 * math.sin(angle))
        for host, turn in zip(homes[switch], _spread(len(homes[switch]), -0.4, 0.4), strict=True):
            out = angle - share * turn
            places[host] = (0.5 + 0.5 * math.cos(out), math.sin(out))
    return places
