"""The 144 hosts of Homa's paper (SIGCOMM 2018, section 5.2), for the tests that compare with its published
slowdowns.

The network has nine racks of 16 hosts and four aggregation switches, 10 and 40 Gb/s, 250 ns per switch, and
1.5 us of software and network card at a host. Switches store and forward; packets have 1,442 bytes and 96
more on the wire. A message's time ends when the receiving application has it, and is compared with the same
message alone.

Published tables and the sizes of W2 and W4 are not part of this repository: where they lie is said by
`PENSTOCK_HOMA_REFERENCE` (`homa_paper_slowdown.csv`, `homa_workload_cdfs.csv`; docs/validation/homa.md).

The published runs of pHost, PIAS and NDP are those of their authors' simulators. `OWN` has what these do
otherwise, as far as experiments showed it; what is chosen there was chosen after the tables were seen.

As a program: `python tests/validation/homa_paper.py WORKLOAD LOAD TRANSPORT [MILLISECONDS] [own|all]` prints
a comparison, and which share of the messages is beyond the published percentiles (`beyond`); `all` is the run
and the evaluation of Homa's authors (`run`, `compare`). `homa_paper.py W5 0.8 PIAS [PART] listed` is PIAS
with the messages of its published run that go to a third of its hosts, seven minutes of processor time.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import ns2_messages
import numpy as np
import polars as pl
from numpy.typing import NDArray

import penstock
from penstock.models import homa
from penstock_papers.experiments.homa import own, setup
from penstock_papers.experiments.homa import sizes as workloads

FOLDER = Path(os.environ.get("PENSTOCK_HOMA_REFERENCE", "no-reference"))
PAYLOAD, OVERHEAD = 1442, 96
HOST = 1.5e-6
"""Seconds of a host, from the application to the wire and back, in one direction."""
SCHEDULED = {"W1": 1, "W2": 3, "W3": 4, "W4": 7, "W5": 7}
"""Levels for scheduled packets, of eight (the authors' `adaptiveSchedPrioLevels`)."""
SETTINGS = {
    "pFabric": "pfabric:header=58,window=12,rto=45us,buffer=36864B",
    "pHost": "phost:header=58,buffer=36864B,token_window=8",
    # The first limit by the jump of the published medians, the others chosen (docs/validation/homa.md).
    "PIAS": "pias:header=58,k=65pkt,thresholds=1442B+10KB+30KB+100KB+300KB+1MB+3MB",
    "NDP": "ndp:header=58",
}


@dataclass(frozen=True)
class Rules:
    """What a simulator does otherwise than the set-up of Homa's paper.

    `bare`: payload of a packet and headers, which are all that is on the wire; there are as many messages as
    with Homa's packets. `cards`: a host's card is a queue like a switch's, into which the transport puts what
    its window admits. `cut_through`: the time of a message alone is one without stores. `packet`: bytes of a
    packet in the published sizes of W5, whose first bin is one packet whatever that has. `spread`,
    `buffer`: as the keys of a scenario. `rate`: messages per second and host at full load, where a simulator
    counts in its own way. `interpolated`: sizes are even between those listed, and published as they are.
    """

    text: str = ""
    bare: tuple[int, int] | None = None
    cards: bool = False
    cut_through: bool = False
    interpolated: bool = False
    packet: int = PAYLOAD
    spread: str = ""
    buffer: str = "10MB"
    rate: float = 0.0


def _of_row(name: str) -> Rules:
    """Those that a row of the ledger has for "W3 PIAS 80"."""
    r = own.rules(name)
    bare, more = (r.payload, r.header), {"spread": r.spread or "", "buffer": r.buffer, "rate": r.rate}
    own_times = {"cut_through": r.cut_through, "interpolated": r.interpolated}
    return Rules(r.protocol, bare, cards=r.cards, packet=r.packet, **own_times, **more)


HOMAS = Rules()
OWN = {
    # YAPS, ns-2 as Homa's authors state it, and htsim: the rules of the ledger's rows.
    "pHost W3": _of_row("W3 pHost 80"),
    "pHost W5": _of_row("W5 pHost 80"),
    "PIAS W3 80": _of_row("W3 PIAS 80"),
    "PIAS W3 50": _of_row("W3 PIAS 50"),
    "PIAS W5 80": _of_row("W5 PIAS 80"),
    "NDP W5 80": _of_row("W5 NDP 80"),
}
PAYLOAD_SHARE = {"W1": 0.657, "W2": 0.796, "W3": 0.887, "W4": 0.898, "W5": 0.898}
"""Payload of the bytes on the wire, by the description of the set-up."""


def distribution(workload: str) -> tuple[list[float], list[float]]:
    """Sizes and cdf, a step function: a message has the first size whose cdf is not below its draw."""
    if workload in ("W1", "W3", "W5"):
        return workloads.of(workload)
    table = pl.read_csv(FOLDER / "homa_workload_cdfs.csv").filter(pl.col("workload") == workload)
    unit = 1 if table["unit"][0] == "B" else PAYLOAD
    cdf = table["cdf"].to_list()
    return [size * float(unit) for size in table["size"].to_list()], [*cdf[:-1], 1.0]


def protocol(transport: str, workload: str) -> str:
    """A transport of the paper, for one of its workloads."""
    if transport != "Homa":
        return SETTINGS[transport]
    levels = SCHEDULED[workload]
    text = f"homa:header=58,control=46,rtt_bytes=9328,scheduled={levels},unscheduled_by=remaining,tail=10000B"
    text = f"{text},done_after=300us,resend=20ms"
    if levels == 7:  # The one level that is left has no limits.
        return text
    cuts = homa.cutoffs(*distribution(workload), 8 - levels, by="remaining", tail=10_000, grant=84)
    return f"{text},cutoffs={'+'.join(f'{c}B' for c in cuts)}"


def links(cards: bool, racks: int = 9, buffer: str = "10MB") -> list[str]:
    """The network. A card is a node between its host and the leaf, and no time away from the host."""
    lines: list[str] = []

    def link(a: str, b: str, rate: int, delay: int) -> None:
        lines.extend(
            ["[[link]]", f'from = "{a}"', f'to = "{b}"', f'rate = "{rate}Gbps"', f'delay = "{delay}ns"']
        )
        lines.append(f'buffer = "{buffer}"')

    for leaf in range(racks):
        first, last = 16 * leaf, 16 * leaf + 15
        edge = f"{'card' if cards else 'h'}[{first}-{last}]"
        for host in range(first, last + 1) if cards else ():
            link(f"h{host}", f"card{host}", 10_000, 0)
            link(f"card{host}", f"h{host}", 10_000, 0)
        link(edge, f"leaf{leaf}", 10, 250)
        link(f"leaf{leaf}", edge, 10, 0)
        link(f"leaf{leaf}", "spine[0-3]", 40, 250)
        link("spine[0-3]", f"leaf{leaf}", 40, 250)
    return lines


def run(
    path: Path,
    workload: str,
    load: float,
    text: str,
    *,
    ms: float,
    seed: int = 1,
    rules: Rules = HOMAS,
    racks: int = 9,
    after: float = 0.0,
    listed: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Messages that began in the middle eight tenths of `ms` milliseconds: `bytes`, `slowdown`, `start_s`,
    and the receiving host, `dst`.

    With fewer `racks` the same processor time gives a longer run, of hosts under the same load. In the last
    `after` milliseconds no message begins, as in the run of Homa's authors. Then the network is empty at its
    beginning and its end, all messages count, and grants are part of the load. The messages are drawn, or
    those `listed` (`ns2_messages`).
    """
    payload = rules.bare[0] if rules.bare else PAYLOAD
    hosts = 16 * racks
    sizes, cdf = (np.array(column) for column in distribution(workload))
    shares = np.diff(cdf, prepend=0.0)
    if rules.rate:
        per_second = load * hosts * rules.rate
    elif rules.bare or after:
        per_second = load * PAYLOAD_SHARE[workload] * hosts * 10e9 / 8 / float(np.sum(sizes * shares))
    else:
        # Bytes of whole packets: the key `load` would count headers by the mean size.
        wire = sizes + OVERHEAD * -(-sizes // PAYLOAD)
        per_second = load * hosts * 10e9 / 8 / float(np.sum(wire * shares))
    if rules.bare and workload == "W5":  # Its sizes are packets.
        sizes = sizes / PAYLOAD * payload
    rows = [f"{size:.0f},{share:.9f}" for size, share in zip(sizes, cdf, strict=True)]
    (path / "sizes.csv").write_text("\n".join(["size,cdf", *rows, ""]))
    nodes = f'"leaf[0-{racks - 1}]", "spine[0-3]"' + (f', "card[0-{hosts - 1}]"' if rules.cards else "")
    lines = [
        'scenario = "custom"',
        f'duration = "{ms + after}ms"',
        f'protocol = "{text}"',
        f'segment = "{payload}B"',
        f'framing = "{"none" if rules.bare else "ethernet"}"',
        'send_jitter = "0s"',
        *([f'spread = "{rules.spread}"'] if rules.spread else []),
        f'receive_delay = "{HOST}s"',
        f'hosts = ["h[0-{hosts - 1}]"]',
        f"switches = [{nodes}]",
        *links(rules.cards, racks, rules.buffer),
    ]
    if listed is None:
        lines += ["[[workload]]", 'kind = "poisson"', 'from = "all"', 'to = "all"', f"rate = {per_second}"]
        rule = "linear" if rules.interpolated else "upper"
        lines += ['sizes = "cdf:sizes.csv"', f'cdf_rule = "{rule}"']
        lines += [f"count = {int(per_second * ms * 1e-3)}" if after else "", ""]
    else:
        host = {side: pl.format("h{}", pl.col(side)) for side in ("src", "dst")}
        rows = listed.select("start_s", **host, bytes=payload * pl.col("packets"))
        rows.write_csv(path / "messages.csv", float_precision=12)
        lines += ["[[workload]]", 'kind = "trace"', 'file = "messages.csv"', ""]
    (path / "case.toml").write_text("\n".join(lines))
    result = penstock.run(path / "case.toml", seed=seed, keep=["flows", "transfers"])
    found = result.transfers.join(result.flows.select("flow", "src", "dst"), on="flow")
    begin, end = (0.0, np.inf) if after else (1e-4 * ms, 9e-4 * ms)
    found = found.filter(pl.col("start_s").is_between(begin, end) & pl.col("delivered_s").is_not_nan())
    ends = [found[side].cast(pl.String).str.slice(1).cast(pl.Int64).to_numpy() for side in ("src", "dst")]
    length = found["bytes"].cast(pl.Int64).to_numpy()
    took = (found["delivered_s"] - found["start_s"]).to_numpy()
    alone = ideal(length, ends[0] // 16 == ends[1] // 16, rules)
    if rules.interpolated and workload == "W5":  # The first published bin has two packets.
        length = np.where(length <= 2 * PAYLOAD, PAYLOAD, length)
    elif rules.bare and workload == "W5":  # The published sizes are whole packets.
        length = np.where(length <= payload, PAYLOAD, length // payload * rules.packet)
    return pl.DataFrame(
        {"bytes": length, "slowdown": took / alone, "start_s": found["start_s"], "dst": ends[1]}
    )


def ideal(
    sizes: NDArray[np.int64], same_rack: NDArray[np.bool_], rules: Rules = HOMAS
) -> NDArray[np.float64]:
    """Seconds of a message alone: packets follow each other on the first link, the last is stored at every
    switch; a short last one waits for the full one before it on the receiver's link.
    """
    payload, over = rules.bare or (PAYLOAD, OVERHEAD)
    packets = -(-sizes // payload)
    full, last = payload + over, sizes - (packets - 1) * payload + over
    slow, fast = 8e-10, 2e-10

    def arrival(links: list[float]) -> NDArray[np.float64]:
        if rules.cut_through:
            return ((packets - 1) * full + last) * slow
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


def compare(
    found: pl.DataFrame, table: pl.DataFrame, *, share: float = 0.005, by_receiver: bool = False
) -> list[Bin]:
    """Bins of a published table that hold `share` of the messages or more and have both percentiles: those of
    all messages, or `by_receiver` as the authors' evaluation has them (`setup.by_receiver`).
    """
    sizes, slowdown = found["bytes"].to_numpy(), found["slowdown"].to_numpy()
    edges = [0, *(int(float(upper)) for upper in table["size_upper"])]
    each = setup.by_receiver(found, [(a, b, 0.0, 0.0) for a, b in pairwise(edges)]) if by_receiver else None
    bins, lower = [], 0.0
    for i, row in enumerate(table.iter_rows(named=True)):
        upper = float(row["size_upper"])
        inside = slowdown[(sizes > lower) & (sizes <= upper)]
        lower = upper
        stated = (row["p50"], row["p99"])
        if row["pct_of_messages_in_bin"] < 100 * share or None in stated or len(inside) < 100:
            continue
        p50, p99 = np.quantile(inside, [0.5, 0.99])
        if each:
            p50, p99 = each[f"p50.{i}"], each[f"p99.{i}"]
        part = row["pct_of_messages_in_bin"] / 100
        bins.append(Bin(upper, part, len(inside), float(p50), float(p99), float(stated[0]), float(stated[1])))
    return bins


def within(bins: list[Bin], rel: float = 0.1) -> tuple[float, float]:
    """Shares of the bins whose median and whose 99th percentile are within `rel` of the published ones."""
    p50 = sum(abs(b.p50 / b.stated_p50 - 1) <= rel for b in bins)
    p99 = sum(abs(b.p99 / b.stated_p99 - 1) <= rel for b in bins)
    return p50 / len(bins), p99 / len(bins)


def beyond(
    found: pl.DataFrame, table: pl.DataFrame, *, above: float = 0.0, below: float = np.inf, blocks: int = 8
) -> tuple[float, float]:
    """Return a share of the messages of more than `above` and up to `below` bytes, and its standard error by
    the spread over parts of the run. It is the share that is slower than the published 99th percentile of
    their size: 0.01 if the two distributions are equal. It takes all messages together; a percentile has
    those of its bin.
    """
    bins = table.filter(pl.col("p99").is_not_null())
    upper = bins["size_upper"].cast(pl.Float64).to_numpy()
    limits = bins["p99"].cast(pl.Float64).to_numpy()
    found = found.filter((pl.col("bytes") > above) & (pl.col("bytes") <= below))
    at = np.minimum(np.searchsorted(upper, found["bytes"].to_numpy()), len(upper) - 1)
    slower = found["slowdown"].to_numpy() > limits[at]
    start = found["start_s"].to_numpy()
    part = (start - start.min()) / (start.max() - start.min()) * blocks
    shares = [float(np.mean(slower[part.astype(int).clip(0, blocks - 1) == k])) for k in range(blocks)]
    return float(np.mean(slower)), float(np.std(shares, ddof=1) / np.sqrt(blocks))


def published(workload: str, load: float, transport: str) -> pl.DataFrame:
    """The published bins."""
    table = pl.read_csv(FOLDER / "homa_paper_slowdown.csv", infer_schema_length=None)
    wanted = (pl.col("workload") == workload) & (pl.col("load") == load) & (pl.col("transport") == transport)
    return table.filter(wanted)


def messages(
    workload: str,
    load: float,
    transport: str,
    ms: float,
    *,
    own_rules: bool = False,
    racks: int = 9,
    after: float = 0.0,
) -> pl.DataFrame:
    """The messages of a run; `own_rules`: by the rules of the transport's own simulator."""
    names = (f"{transport} {workload} {100 * load:.0f}", f"{transport} {workload}", transport)
    rules = next((OWN[name] for name in names if own_rules and name in OWN), HOMAS)
    text = rules.text or protocol(transport, workload)
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), workload, load, text, ms=ms, rules=rules, racks=racks, after=after)


def messages_of_pias(part: int) -> pl.DataFrame:
    """PIAS with W5, those of a third of the receivers of the published run, with 29 connections kept of a
    pair, so that each has as many messages as there.
    """
    rules = OWN["PIAS W5 80"]
    text = re.sub(r"kept=\d+", "kept=29", rules.text)
    listed = ns2_messages.third(ns2_messages.published(), part)
    with tempfile.TemporaryDirectory() as folder:
        ms = 1e3 * listed["start_s"][-1]
        return run(Path(folder), "W5", 0.8, text, ms=ms, rules=rules, racks=3, after=300.0, listed=listed)


def case(workload: str, load: float, transport: str, ms: float, *, own_rules: bool = False) -> list[Bin]:
    """A comparison with the published bins."""
    return compare(
        messages(workload, load, transport, ms, own_rules=own_rules), published(workload, load, transport)
    )


def main() -> None:
    """Prints a comparison."""
    workload, load, transport, *rest = sys.argv[1:]
    theirs, all_of = rest[-1:] == ["own"], rest[-1:] == ["all"]
    if rest[-1:] == ["listed"]:
        found = messages_of_pias(int(rest[0]) if rest[1:] else 0)
    else:
        ms = float(rest[0]) if rest[theirs or all_of :] else 10.0
        after = 600.0 if all_of else 0.0
        found = messages(workload, float(load), transport, ms, own_rules=theirs, after=after)
    table = published(workload, float(load), transport)
    bins = compare(found, table, by_receiver=all_of)
    p50, p99 = within(bins)
    for b in bins[:: max(1, len(bins) // 15)]:
        medians = f"{b.p50:7.3f} {b.stated_p50:7.3f} {100 * (b.p50 / b.stated_p50 - 1):+6.1f} %"
        tails = f"{b.p99:8.3f} {b.stated_p99:8.3f} {100 * (b.p99 / b.stated_p99 - 1):+6.1f} %"
        print(f"{b.upper:9.0f} {b.count:8d}  {medians}  {tails}")
    shares = f"{100 * p50:.0f} % and {100 * p99:.0f} %"
    print(f"{workload} {load} {transport}: of {len(bins)} bins {shares} within 10 %")
    share, error = beyond(found, table)
    print(f"slower than the 99th percentile of their size: {100 * share:.1f} +- {100 * error:.1f} %")


if __name__ == "__main__":
    main()
