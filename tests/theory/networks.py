"""Networks of the tests against theory, written as scenario files.

Theory knows no host: hosts keep an exact clock and hand the network whatever their window allows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import penstock

Table = Mapping[str, str | int | float | Sequence[str]]
HEADER = 40  # bytes of IP and TCP header
SEGMENT = 1460  # payload of a full segment


#: Settings of a host without noise and without a limit of its own.
IDEAL_HOST = {"send_jitter": "0s", "host_queue": "unlimited"}


def link(a: str, b: str, rate: float, delay: float, **more: str | float) -> Table:
    """Both directions between two nodes: bit/s, seconds; a buffer for everything unless one is given."""
    return {
        "between": [a, b],
        "rate": f"{rate!r}bps",
        "delay": f"{delay * 1e12:.0f}ps",
        "buffer": "10000000pkt",
        **more,
    }


def run(
    folder: Path,
    hosts: Iterable[str],
    switches: Iterable[str],
    links: Iterable[Table],
    workloads: Iterable[Table],
    *,
    seed: int = 1,
    runs: int = 1,
    keep: Iterable[str] = (),
    **settings: str | float,
) -> penstock.RunSet:
    """Run a network. `keep` names the tables to hold on to."""
    lines = [
        'scenario = "custom"',
        f"hosts = {json.dumps(list(hosts))}",
        f"switches = {json.dumps(list(switches))}",
    ]
    for name, tables in (("link", links), ("workload", workloads)):
        for table in tables:
            lines.append(f"[[{name}]]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    path = folder / "network.toml"
    path.write_text("\n".join(lines) + "\n")
    return penstock.run(path, seed=seed, runs=runs, keep=keep, **(IDEAL_HOST | settings))
