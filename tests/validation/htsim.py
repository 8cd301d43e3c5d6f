"""The set-ups of the htsim runs, for the tests that compare with them.

The reference is uet-htsim (commit 40ccb05) for Ultra Ethernet and csg-htsim (841d9e7) for NDP and EQDS, built
and run apart from this repository. The network is a fat tree of 128 hosts with links of 100 Gb/s and 1 us,
and packets of 4,096 bytes and 64 of headers. Completion is the sender's, by the last acknowledgement.
Matrices are those of its seed 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import penstock
from penstock.runs import RunSet

# fmt: off
PERMUTATION = [
    64, 27, 82, 13, 51, 81, 23, 125, 9, 15, 98, 57, 25, 119, 117, 62, 69, 116, 100, 92, 31, 104, 68, 67,
    70, 107, 63, 10, 47, 40, 6, 17, 90, 94, 102, 58, 127, 110, 48, 114, 95, 7, 113, 53, 35, 86, 72, 52,
    122, 8, 77, 29, 89, 88, 80, 18, 12, 36, 60, 33, 50, 101, 112, 22, 5, 11, 76, 4, 20, 78, 21, 108, 111,
    75, 106, 26, 118, 73, 87, 85, 59, 126, 93, 28, 34, 56, 105, 97, 24, 43, 103, 84, 115, 91, 3, 44, 65,
    2, 46, 41, 120, 0, 71, 96, 61, 42, 37, 1, 83, 99, 38, 30, 124, 45, 79, 121, 32, 49, 39, 123, 55, 74,
    109, 14, 54, 16, 66, 19,
]
"""Destination of every host."""
EIGHT = ([30, 52, 62, 63, 86, 98, 119, 125], 27)
"""Senders and receiver of the small incast, and of the large one."""
THIRTY_TWO = (
    [
        0, 2, 4, 7, 9, 12, 14, 18, 20, 23, 34, 41, 47, 50, 51, 57, 66, 70, 78, 81, 82, 84, 88, 93, 98,
        101, 107, 108, 112, 114, 120, 127,
    ],
    1,
)
# fmt: on

SEEDS = range(1, 6)
"""Seeds of our own, whose mean is compared."""

# The longest unloaded round trip as uet-htsim computes it: 12 links of 1 us, six packets and six headers.
_UEC = "rtt=14.0288us"
PROTOCOLS = {
    "nscc": f"nscc:{_UEC},paths=PATHS,paths_by=RULE",
    "rccc": f"rccc:{_UEC},paths=PATHS,paths_by=RULE",
    "nscc-rccc": f"nscc-rccc:{_UEC},paths=PATHS,paths_by=RULE",
    # A limit of 8 packets and 45 unasked; its choice of paths cannot be chosen.
    "eqds": f"eqds:{_UEC},paths=PATHS,window=187200B,queue=33280B",
    # The limit of 8 x 4,096 bytes is of seven packets with headers; headers go first, all but strictly.
    "ndp": "ndp:pace=0.99,queue=7,window=45,paths=PATHS,rto=50ms,weight=10000,header_queue=65536",
}

# A first window of 45 packets; base, scaling by hops and by the window as there; no pauses.
SWIFT = (
    "swift:base_rtt=14.9us,base_target=20us,hop_scale=3.053us,fs_range=100us,max_cwnd=1000,"
    "header=64,pfc_alpha=64"
)


def protocol(name: str, rule: str) -> str:
    """A protocol of the reference with a rule for paths, "ecmp" being one path per flow."""
    one = rule == "ecmp"
    text = PROTOCOLS[name].replace("PATHS", "1" if one else "128")
    return text.replace("RULE", "oblivious" if one else rule)


def permutation() -> list[tuple[int, int, int]]:
    """Every host sends 2 MB."""
    return [(src, dst, 2_000_000) for src, dst in enumerate(PERMUTATION)]


def incast(which: tuple[list[int], int]) -> list[tuple[int, int, int]]:
    """Every sender has 1 MB."""
    return [(src, which[1], 1_000_000) for src in which[0]]


@dataclass(frozen=True)
class Found:
    """Means over our seeds: completion times in us, and counts; `largest` has the largest time by seed."""

    mean: float
    max: float
    trims: float
    largest: tuple[float, ...]


def _links(slow: bool) -> list[str]:
    """A fat tree of 8 link by link, the way from the first core down to pod 0 at a tenth where it is slow."""
    pairs = [(f"agg{p}.{i}", f"core{4 * i + c}") for p in range(8) for i in range(4) for c in range(4)]
    pairs += [(f"edge{p}.{e}", f"agg{p}.{i}") for p in range(8) for e in range(4) for i in range(4)]
    pairs += [
        (f"h{16 * p + 4 * e + h}", f"edge{p}.{e}") for p in range(8) for e in range(4) for h in range(4)
    ]
    text = []
    for a, b in [*pairs, *((b, a) for a, b in pairs)]:
        rate = "10Gbps" if slow and (a, b) == ("core0", "agg0.0") else "100Gbps"
        text.append(
            f'[[link]]\nfrom = "{a}"\nto = "{b}"\nrate = "{rate}"\ndelay = "1us"\nbuffer = "4000pkt"\n'
        )
    return text


def run(
    path: Path,
    flows: list[tuple[int, int, int]],
    text: str,
    *,
    seed: int,
    slow: bool = False,
    buffer: str = "4000pkt",
) -> RunSet:
    """Runs flows from time 0 with a protocol; files go to `path`. `slow`: one link at a tenth."""
    lines = ['scenario = "custom"', 'segment = "4096B"', 'send_jitter = "0s"', 'duration = "60ms"']
    lines.append(f'protocol = "{text}"')
    if slow:
        switches = ["core[0-15]"] + [f"{kind}{p}.[0-3]" for p in range(8) for kind in ("agg", "edge")]
        lines += ['hosts = ["h[0-127]"]', f"switches = {switches}".replace("'", '"'), *_links(slow)]
    else:
        lines += [
            'topology = "fat-tree:8"',
            'link_rate = "100Gbps"',
            'link_delay = "1us"',
            f'buffer = "{buffer}"',
        ]
    lines += ["[[workload]]", 'kind = "matrix"', 'file = "case.cm"', ""]
    rows = [f"{src}->{dst} id {i} start 0 size {size}" for i, (src, dst, size) in enumerate(flows, 1)]
    (path / "case.cm").write_text("\n".join(["Nodes 128", f"Connections {len(rows)}", *rows]) + "\n")
    (path / "case.toml").write_text("\n".join(lines))
    return penstock.run(path / "case.toml", seed=seed)


def five(path: Path, flows: list[tuple[int, int, int]], text: str, *, slow: bool = False) -> Found:
    """What `run` finds with each of our seeds; every flow completes and nothing is dropped."""
    means, largest, trims = [], [], []
    for seed in SEEDS:
        result = run(path, flows, text, seed=seed, slow=slow)
        times = [1e6 * x for x in result.transfers["fct_s"].to_list()]
        assert len(times) == len(flows) and result.mean("drops") == 0
        means.append(sum(times) / len(times))
        largest.append(max(times))
        trims.append(result.runs[0].summary.get("trims", 0))
    n = len(SEEDS)
    return Found(sum(means) / n, sum(largest) / n, sum(trims) / n, tuple(largest))
