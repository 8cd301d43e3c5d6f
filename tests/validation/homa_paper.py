"""The 144 hosts of Homa's paper (SIGCOMM 2018, section 5.2), for the tests that compare with its published
slowdowns.

Nine racks of 16 hosts and four aggregation switches, 10 and 40 Gb/s, 250 ns per switch, 1.5 us of software
and network card at a host, store and forward, packets of 1,442 bytes and 96 beside them on the wire. A
message's time ends where the receiving application has it, and is compared with the same message alone.

Published tables and size distributions are not part of this repository: where they lie is said by
`PENSTOCK_HOMA_REFERENCE` (`homa_paper_slowdown.csv`, `homa_workload_cdfs.csv`; docs/validation.md). W1's
distribution is a formula and is here.

As a program: `python tests/validation/homa_paper.py WORKLOAD LOAD TRANSPORT [MILLISECONDS]` prints a
comparison.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import penstock
from penstock.experiments.homa import setup
from penstock.models import homa

FOLDER = Path(os.environ.get("PENSTOCK_HOMA_REFERENCE", "no-reference"))
PAYLOAD, OVERHEAD = 1442, 96
HOST = 1.5e-6
"""Seconds of a host, from the application to the wire and back, in one direction."""
SCHEDULED = {"W1": 1, "W2": 3, "W3": 4, "W4": 7, "W5": 7}
"""Levels for scheduled packets, of eight (the authors' `adaptiveSchedPrioLevels`)."""
SETTINGS = {
    "pFabric": "pfabric:header=58,window=12,rto=45us,buffer=36864B",
    "pHost": "phost:header=58,buffer=36864B,token_window=8",
    # The first limit by the jump of the published medians, the others chosen (docs/validation.md).
    "PIAS": "pias:header=58,k=65pkt,thresholds=1442B+10KB+30KB+100KB+300KB+1MB+3MB",
    "NDP": "ndp:header=58",
}


def distribution(workload: str) -> tuple[list[float], list[float]]:
    """Sizes and cdf, a step function: a message has the first size whose cdf is not below its draw."""
    if workload == "W1":
        return setup.w1()
    table = pl.read_csv(FOLDER / "homa_workload_cdfs.csv").filter(pl.col("workload") == workload)
    unit = 1 if table["unit"][0] == "B" else PAYLOAD
    cdf = table["cdf"].to_list()
    return [size * float(unit) for size in table["size"].to_list()], [*cdf[:-1], 1.0]


def protocol(transport: str, workload: str) -> str:
    """A transport of the paper, for one of its workloads."""
    if transport != "Homa":
        return SETTINGS[transport]
    levels = SCHEDULED[workload]
    cuts = homa.cutoffs(*distribution(workload), 8 - levels, by="remaining", tail=10_000, grant=84)
    text = f"homa:header=58,control=46,rtt_bytes=9328,scheduled={levels},unscheduled_by=remaining,tail=10000B"
    # With one level all have the first: any limit is of those that are left.
    return f"{text},cutoffs={'+'.join(f'{c}B' for c in cuts) or '10GB'},done_after=300us,resend=20ms"


def run(path: Path, workload: str, load: float, text: str, *, ms: float, seed: int = 1) -> pl.DataFrame:
    """Messages that began in the middle eight tenths of `ms` milliseconds: `bytes` and `slowdown`."""
    rows = [f"{size:.0f},{share:.9f}" for size, share in zip(*distribution(workload), strict=True)]
    (path / "sizes.csv").write_text("\n".join(["size,cdf", *rows, ""]))
    lines = [
        'scenario = "custom"',
        f'duration = "{ms}ms"',
        f'protocol = "{text}"',
        f'segment = "{PAYLOAD}B"',
        'framing = "ethernet"',
        'send_jitter = "0s"',
        f'receive_delay = "{HOST}s"',
        'hosts = ["h[0-143]"]',
        'switches = ["leaf[0-8]", "spine[0-3]"]',
    ]
    for leaf in range(9):
        hosts = f"h[{16 * leaf}-{16 * leaf + 15}]"
        for a, b, rate, delay in (
            (hosts, f"leaf{leaf}", 10, 250),
            (f"leaf{leaf}", hosts, 10, 0),
            (f"leaf{leaf}", "spine[0-3]", 40, 250),
            ("spine[0-3]", f"leaf{leaf}", 40, 250),
        ):
            lines += [
                "[[link]]",
                f'from = "{a}"',
                f'to = "{b}"',
                f'rate = "{rate}Gbps"',
                f'delay = "{delay}ns"',
            ]
            lines += ['buffer = "10MB"']
    # Bytes of whole packets: the key `load` would count headers by the mean size.
    sizes, cdf = (np.array(column) for column in distribution(workload))
    wire = sizes + OVERHEAD * -(-sizes // PAYLOAD)
    per_second = load * 144 * 10e9 / 8 / float(np.sum(wire * np.diff(cdf, prepend=0.0)))
    lines += ["[[workload]]", 'kind = "poisson"', 'from = "all"', 'to = "all"', f"rate = {per_second}"]
    lines += ['sizes = "cdf:sizes.csv"', 'cdf_rule = "upper"', ""]
    (path / "case.toml").write_text("\n".join(lines))
    result = penstock.run(path / "case.toml", seed=seed, keep=["flows", "transfers"])
    found = result.transfers.join(result.flows.select("flow", "src", "dst"), on="flow")
    begin, end = 1e-4 * ms, 9e-4 * ms
    found = found.filter(pl.col("start_s").is_between(begin, end) & pl.col("delivered_s").is_not_nan())
    racks = [
        found[side].cast(pl.String).str.slice(1).cast(pl.Int64).to_numpy() // 16 for side in ("src", "dst")
    ]
    length = found["bytes"].cast(pl.Int64).to_numpy()
    took = (found["delivered_s"] - found["start_s"]).to_numpy()
    return pl.DataFrame({"bytes": length, "slowdown": took / ideal(length, racks[0] == racks[1])})


def ideal(sizes: NDArray[np.int64], same_rack: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Seconds of a message alone: packets follow each other on the first link, the last is stored at every
    switch; a short last one waits for the full one before it on the receiver's link.
    """
    packets = -(-sizes // PAYLOAD)
    full, last = PAYLOAD + OVERHEAD, sizes - (packets - 1) * PAYLOAD + OVERHEAD
    slow, fast = 8e-10, 2e-10

    def arrival(links: list[float]) -> NDArray[np.float64]:
        first = (packets - 1) * full * slow + last * sum(links)
        behind = full * sum(links[:-1]) + (packets - 1) * full * slow + last * slow
        return np.where(packets > 1, np.maximum(first, behind), first)

    across = arrival([slow, fast, fast, slow]) + 750e-9
    return np.where(same_rack, arrival([slow, slow]) + 250e-9, across) + HOST


@dataclass(frozen=True)
class Bin:
    """A published size bin, up to `upper` bytes and with `share` of the messages, beside what was found."""

    upper: float
    share: float
    count: int
    p50: float
    p99: float
    stated_p50: float
    stated_p99: float


def compare(found: pl.DataFrame, table: pl.DataFrame, *, share: float = 0.005) -> list[Bin]:
    """Bins of a published table that hold `share` of the messages or more and have both percentiles."""
    sizes, slowdown = found["bytes"].to_numpy(), found["slowdown"].to_numpy()
    bins, lower = [], 0.0
    for row in table.iter_rows(named=True):
        upper = float(row["size_upper"])
        inside = slowdown[(sizes > lower) & (sizes <= upper)]
        lower = upper
        stated = (row["p50"], row["p99"])
        if row["pct_of_messages_in_bin"] < 100 * share or None in stated or len(inside) < 100:
            continue
        p50, p99 = np.quantile(inside, [0.5, 0.99])
        part = row["pct_of_messages_in_bin"] / 100
        bins.append(Bin(upper, part, len(inside), float(p50), float(p99), float(stated[0]), float(stated[1])))
    return bins


def within(bins: list[Bin], rel: float = 0.1) -> tuple[float, float]:
    """Shares of the bins whose median and whose 99th percentile are within `rel` of the published ones."""
    p50 = sum(abs(b.p50 / b.stated_p50 - 1) <= rel for b in bins)
    p99 = sum(abs(b.p99 / b.stated_p99 - 1) <= rel for b in bins)
    return p50 / len(bins), p99 / len(bins)


def published(workload: str, load: float, transport: str) -> pl.DataFrame:
    """The published bins."""
    table = pl.read_csv(FOLDER / "homa_paper_slowdown.csv", infer_schema_length=None)
    wanted = (pl.col("workload") == workload) & (pl.col("load") == load) & (pl.col("transport") == transport)
    return table.filter(wanted)


def case(workload: str, load: float, transport: str, ms: float) -> list[Bin]:
    """A comparison with the published bins."""
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), workload, load, protocol(transport, workload), ms=ms)
    return compare(found, published(workload, load, transport))


def main() -> None:
    """Prints a comparison."""
    workload, load, transport, *ms = sys.argv[1:]
    bins = case(workload, float(load), transport, float(ms[0]) if ms else 10.0)
    p50, p99 = within(bins)
    for b in bins[:: max(1, len(bins) // 15)]:
        medians = f"{b.p50:7.3f} {b.stated_p50:7.3f} {100 * (b.p50 / b.stated_p50 - 1):+6.1f} %"
        tails = f"{b.p99:8.3f} {b.stated_p99:8.3f} {100 * (b.p99 / b.stated_p99 - 1):+6.1f} %"
        print(f"{b.upper:9.0f} {b.count:8d}  {medians}  {tails}")
    shares = f"{100 * p50:.0f} % and {100 * p99:.0f} %"
    print(f"{workload} {load} {transport}: of {len(bins)} bins {shares} within 10 %")


if __name__ == "__main__":
    main()
