"""Explicit rates on random trees: long flows against the max-min fair allocation.

The allocation is worked out here by water filling (Bertsekas and Gallager, Data Networks, section 6.5.2),
apart from `penstock.models.maxmin`. A sender's acknowledgements load the way back: what they take of a link
is not there for the flows that use it forwards, so the filling is repeated until both fit. Hosts' own links
are too fast to matter, and every flow has hosts of its own.

RCP's rate is steady where alpha (C - y) = beta q / d (its equation (2)). Random meetings of packets keep the
queue q at a packet or two, which costs beta / alpha q / (C d) of the link. The trees are fast and long, so
that this is below 3 %. PIQI-RCP does not use the queue and rests at gamma C exactly (its equation (18)).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import networks
import pytest

SEGMENT, HEADERS = 944, 56  # bytes: 1000 on the wire with RCP's 16
ACK_SHARE = HEADERS / (SEGMENT + HEADERS)  # bytes back per byte forwards
HOST_RATE = 1e9

Port = tuple[int, int]


@dataclass(frozen=True)
class Tree:
    """Switches joined to a tree, and flows between switches."""

    rate: dict[Port, float]  # both directions, bit/s
    delay: dict[Port, float]
    flows: list[list[int]]  # switches of each flow's path

    def ports(self, flow: int) -> list[Port]:
        path = self.flows[flow]
        return list(pairwise(path))


@dataclass(frozen=True)
class Case:
    """A protocol, the share of a link that it aims at, how far off it may be, and what its trees are like."""

    protocol: str
    share: float
    tolerance: float
    rate: float  # bit/s; links have one to eight times as much
    delay: float  # seconds; links have one to five times as much


CASES = {
    "rcp": Case("rcp", 1.0, 0.03, 20e6, 5e-3),
    "piqi-rcp": Case("piqi-rcp:gamma=0.95", 0.95, 0.01, 5e6, 1e-3),
}


def draw(seed: int, case: Case) -> Tree:
    """4 to 8 switches, 5 to 12 flows."""
    rng = random.Random(seed)
    switches = rng.randint(4, 8)
    parent = {child: rng.randrange(child) for child in range(1, switches)}
    rate, delay = {}, {}
    for child, above in parent.items():
        # Forwards and back differ: both are bottlenecks of their own.
        rate[child, above], rate[above, child] = (case.rate * rng.uniform(1, 8) for _ in range(2))
        delay[child, above] = delay[above, child] = case.delay * rng.uniform(1, 5)

    def to_root(node: int) -> list[int]:
        return [node, *(to_root(parent[node]) if node in parent else [])]

    def path(a: int, b: int) -> list[int]:
        up, down = to_root(a), to_root(b)
        while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
            up.pop()
            down.pop()
        return up + down[-2::-1]

    flows = [path(*rng.sample(range(switches), 2)) for _ in range(rng.randint(5, 12))]
    return Tree(rate, delay, flows)


def water_filling(capacity: dict[Port, float], paths: Sequence[Sequence[Port]]) -> list[float]:
    """All rates rise together until a link is full; its flows keep theirs, the others rise on."""
    left = dict(capacity)
    rates = [0.0] * len(paths)
    rising = set(range(len(paths)))
    while rising:
        users = {port: sum(port in paths[f] for f in rising) for port in left}
        step, full = min((left[port] / n, port) for port, n in users.items() if n)
        for port, n in users.items():
            left[port] -= n * step
        for flow in rising:
            rates[flow] += step
        rising -= {flow for flow in rising if full in paths[flow]}
    return rates


def allocation(tree: Tree, share: float) -> list[float]:
    """Max-min rates on the wire in bit/s when this share of every link is given away, to data and their
    acknowledgements."""
    paths = [tree.ports(flow) for flow in range(len(tree.flows))]
    rates = [0.0] * len(paths)
    for _ in range(100):
        capacity = {port: share * rate for port, rate in tree.rate.items()}
        for path, rate in zip(paths, rates, strict=True):
            for a, b in path:
                capacity[b, a] -= rate * ACK_SHARE
        rates = water_filling(capacity, paths)
    return rates


def test_water_filling_by_hand() -> None:
    """Link A (6) carries flows 0, 1, 2: 2 each; link B (10) also 0, and 3 and 4: (10 - 2) / 2 = 4 each."""
    a, b = (0, 1), (1, 2)
    assert water_filling({a: 6.0, b: 10.0}, [[a, b], [a], [a], [b], [b]]) == [2, 2, 2, 4, 4]


def measured(folder: Path, tree: Tree, protocol: str) -> list[float]:
    """Rates on the wire in bit/s."""
    flows = range(len(tree.flows))
    links = [
        {"from": f"s{a}", "to": f"s{b}", "rate": f"{rate!r}bps", "delay": f"{tree.delay[a, b]!r}s",
         "buffer": "100000pkt"}
        for (a, b), rate in tree.rate.items()
    ]  # fmt: skip
    for i in flows:
        path = tree.flows[i]
        links += [networks.link(f"a{i}", f"s{path[0]}", HOST_RATE, 1e-4),
                  networks.link(f"b{i}", f"s{path[-1]}", HOST_RATE, 1e-4)]  # fmt: skip
    hosts = [f"a{i}" for i in flows] + [f"b{i}" for i in flows]
    result = networks.run(
        folder,
        hosts,
        sorted({f"s{a}" for a, _ in tree.rate}),
        links,
        [{"kind": "flows", "from": hosts[: len(flows)], "to": hosts[len(flows) :], "spread": "10ms"}],
        protocol=protocol,
        segment=f"{SEGMENT}B",
        initial_window=2,
        warmup="10s",
        duration="14s",
        keep=("flows",),
    )
    # Flows are numbered as they start; their senders tell which is which.
    acked = dict(zip(result.flows["src"], result.flows["acked_bytes"], strict=True))
    wire = 8 * (SEGMENT + HEADERS) / SEGMENT / result.mean("measured_s")
    return [acked[f"a{i}"] * wire for i in flows]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", CASES)
def test_rates_on_a_random_tree(tmp_path: Path, name: str, seed: int) -> None:
    case = CASES[name]
    tree = draw(seed, case)
    expected, found = allocation(tree, case.share), measured(tmp_path, tree, case.protocol)
    errors = [f / e - 1 for f, e in zip(found, expected, strict=True)]
    print(
        f"{name}, tree {seed}: {len(errors)} flows, {min(expected) / 1e6:.2f} to"
        f" {max(expected) / 1e6:.2f} Mb/s,"
        f" off by {min(errors):+.2%} to {max(errors):+.2%}"
    )
    assert found == pytest.approx(expected, rel=case.tolerance)
