"""The published set-up: 144 hosts, the sizes of messages, a message's time alone, slowdowns by size bin."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import results
from penstock.models import homa
from penstock.network import Network
from penstock.workloads import Poisson
from penstock_papers.experiments.homa import sizes as distributions
from penstock_papers.experiments.lossless import seconds

RACKS, RACK, UPPER = 9, 16, 4
# Levels for scheduled packets, of eight (the authors' `adaptiveSchedPrioLevels`).
SCHEDULED = {"W1": 1, "W3": 4, "W5": 7}
# Bytes on the wire of which a sender knows without a grant, in the published data.
RTT_BYTES = 9328
# Lower and upper edge of a size bin in bytes, median and 99th percentile.
Bin = tuple[int, int, float, float]


def published(name: str = "published.toml") -> dict[str, list[Bin]]:
    """The bins of published.toml by transport."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return {name: [tuple(row) for row in rows] for name, rows in tomllib.loads(text).items()}


def protocol(at: Mapping[str, Any], transport: str, control: int, workload: str = "W1") -> str:
    """A transport as chosen; `control`: bytes of an acknowledgement, a request, a token."""
    over = at["network.overhead"]
    match transport:
        case "Homa":
            levels = SCHEDULED[workload]
            text = f"homa:header={over},control=84,rtt_bytes={RTT_BYTES},scheduled={levels}"
            text += ",unscheduled_by=remaining,tail=10000B"
            text += f",done_after={at['homa.done_after']},resend={at['homa.resend']}"
            if levels == 7:  # The one level that is left has no limits.
                return text
            # By the rule of the authors' simulator.
            cuts = homa.cutoffs(
                *distributions.of(workload),
                8 - levels,
                by="remaining",
                tail=10_000,
                grant=84,
                rtt_bytes=RTT_BYTES,
            )
            return f"{text},cutoffs={'+'.join(f'{cut}B' for cut in cuts)}"
        case "pFabric":
            window, rto = at["pfabric.window"], at["pfabric.rto"]
            return f"pfabric:header={over},ack={control},window={window},rto={rto},buffer=36864B"
        case "pHost":
            window = at["phost.window"]
            return f"phost:header={over},control={control},token_window={window},buffer=36864B"
        case _:
            k, threshold = at["pias.k"], at["pias.threshold"]
            return f"pias:header={over},ack={control},k={k}pkt,thresholds={threshold}"


def network(
    at: Mapping[str, Any],
    folder: Path,
    workload: str = "W1",
    racks: int = RACKS,
    *,
    cards: bool = False,
    buffer: str = "10MB",
) -> Network:
    """The 144 hosts, or those of some racks; sizes of messages are a file in `folder`, for W5 of whole
    packets of the payload in `at`. A switch's delay is that of the links towards it. With `cards` a host's
    link is a queue like a switch's, into which its transport puts what it may send: a node beside it.
    """
    sizes, cdf = distributions.of(workload)
    # Those of W5 are packets of 1,442 bytes.
    scale = at["network.payload"] / 1442 if workload == "W5" else 1.0
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{scale * size:.0f},{share:.9f}" for size, share in zip(sizes, cdf, strict=True)]
    text = "\n".join(["size,cdf", *rows, ""])
    # Points of a search write it side by side.
    results.put(folder / f"homa-{workload.lower()}.csv", text)
    net = Network(
        hosts=[f"h[0-{racks * RACK - 1}]"],
        switches=[
            f"leaf[0-{racks - 1}]",
            f"spine[0-{UPPER - 1}]",
            *([f"card[0-{racks * RACK - 1}]"] if cards else []),
        ],
        name="homa",
        folder=folder,
    )
    rate, switch = str(at["network.rate"]), at["network.switch"]
    fast = f"{4 * int(rate.removesuffix('Gbps'))}Gbps"
    for leaf in range(racks):
        first, last = RACK * leaf, RACK * leaf + RACK - 1
        hosts, upper = f"{'card' if cards else 'h'}[{first}-{last}]", f"spine[0-{UPPER - 1}]"
        for i in range(first, last + 1) if cards else ():
            net.link(f"h{i}", f"card{i}", "10000Gbps", "0s", buffer=buffer)
        ways = [(hosts, f"leaf{leaf}", rate, switch), (f"leaf{leaf}", hosts, rate, "0s")]
        ways += [(f"leaf{leaf}", upper, fast, switch), (upper, f"leaf{leaf}", fast, switch)]
        for a, b, speed, delay in ways:
            net.link(a, b, speed, delay, one_way=True, buffer=buffer)
    return net


def messages(
    at: Mapping[str, Any],
    counted: int = 0,
    workload: str = "W1",
    load: float | None = None,
    racks: int = RACKS,
) -> Poisson:
    """A workload among all hosts, so many messages that data take `load` (unset: as chosen), or with
    `counted` bytes beside a message: whole packets count.
    """
    sizes, cdf = (np.array(column) for column in distributions.of(workload))
    payload, over = at["network.payload"], at["network.overhead"]
    mean = float(np.sum((sizes + over * -(-sizes // payload)) * np.diff(cdf, prepend=0.0))) + counted
    share = at["load.share"] if load is None else load
    return poisson(workload, share * racks * RACK * _rate(at) / 8 / mean)


def drained(at: Mapping[str, Any], workload: str, racks: int, seconds_of_arrivals: float) -> Poisson:
    """The same as the authors count it: payload has a given share of the load. None begin after so many
    seconds.
    """
    sizes, cdf = (np.array(column) for column in distributions.of(workload))
    goodput = at["load.share"] * at["load.payload"] * racks * RACK * _rate(at)
    per_second = goodput / 8 / float(np.sum(sizes * np.diff(cdf, prepend=0.0)))
    return poisson(workload, per_second).but(count=int(per_second * seconds_of_arrivals))


def _rate(at: Mapping[str, Any]) -> float:
    return 1e9 * float(str(at["network.rate"]).removesuffix("Gbps"))


def poisson(workload: str, per_second: float, *, interpolated: bool = False) -> Poisson:
    """So many messages per second among all hosts; `interpolated`: of sizes evenly between those listed."""
    rule, sizes = "linear" if interpolated else "upper", f"cdf:homa-{workload.lower()}.csv"
    return Poisson("all", "all", rate=per_second, sizes=sizes, cdf_rule=rule)


def point(
    at: Mapping[str, Any], folder: Path, text: str, duration: str, counted: int = 0
) -> tuple[Network, dict[str, Any]]:
    """A point of `Lab.sweep` with W1: what is beside data on the wire is part of their headers."""
    return network(at, folder), settings(at, text, duration, messages(at, counted))


def settings(at: Mapping[str, Any], text: str, duration: str, traffic: Poisson) -> dict[str, Any]:
    """The keys of a point."""
    return {
        "workloads": [traffic],
        "protocol": text,
        "segment": f"{at['network.payload']}B",
        "send_jitter": "0s",
        "receive_delay": at["network.host"],
        "duration": duration,
    }


def ideal(
    at: Mapping[str, Any], sizes: NDArray[np.int64], same_rack: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Seconds of a message alone: packets follow each other on the first link, the last is stored at every
    switch; a short last one waits for the full one before it on the receiver's link. With
    `network.cut_through` no switch stores.
    """
    payload, over = at["network.payload"], at["network.overhead"]
    packets = -(-sizes // payload)
    full, last = payload + over, sizes - (packets - 1) * payload + over
    slow = 8e-9 / float(str(at["network.rate"]).removesuffix("Gbps"))
    fast = slow / 4

    def arrival(links: list[float]) -> NDArray[np.float64]:
        if at.get("network.cut_through"):
            return ((packets - 1) * full + last) * slow
        first = (packets - 1) * full * slow + last * sum(links)
        behind = full * sum(links[:-1]) + (packets - 1) * full * slow + last * slow
        return np.where(packets > 1, np.maximum(first, behind), first)

    switch, host = seconds(at["network.switch"]), seconds(at["network.host"])
    across = arrival([slow, fast, fast, slow]) + 3 * switch
    return np.where(same_rack, arrival([slow, slow]) + switch, across) + host


def slowdowns(
    at: Mapping[str, Any], tables: Mapping[str, pl.DataFrame], duration: str | None, *, begun: bool = False
) -> pl.DataFrame:
    """Return `bytes`, `slowdown` and receiving host (`dst`) of messages that have arrived, in the middle
    eight tenths of a run or in all of it. With `begun`, they are those that began in the first half, without
    its first tenth; messages that have not arrived are infinitely slow.
    """
    flows, found = tables["flows"], tables["transfers"]
    found = found.join(flows.select("flow", "src", "dst"), on="flow")
    if not begun:
        found = found.filter(pl.col("delivered_s").is_not_nan())
    if duration is not None:
        end = seconds(duration)
        found = found.filter(pl.col("start_s").is_between(0.1 * end, (0.5 if begun else 0.9) * end))
    src, dst = (found[side].cast(pl.String).str.slice(1).cast(pl.Int64).to_numpy() for side in ("src", "dst"))
    length = found["bytes"].cast(pl.Int64).to_numpy()
    took = (found["delivered_s"] - found["start_s"]).fill_nan(np.inf).to_numpy()
    alone = ideal(at, length, src // RACK == dst // RACK)
    return pl.DataFrame({"bytes": length, "slowdown": took / alone, "dst": dst})


def percentiles(found: pl.DataFrame, bins: Sequence[Bin]) -> dict[str, float]:
    """Median and 99th percentile of each bin, "p50.0", "p99.0", ...; infinite where it has few messages."""
    sizes, slowdown = found["bytes"].to_numpy(), found["slowdown"].to_numpy()
    out: dict[str, float] = {}
    for i, (lower, upper, _, _) in enumerate(bins):
        inside = slowdown[(sizes > lower) & (sizes <= upper)]
        few = len(inside) < 100
        for key, q in (("p50", 0.5), ("p99", 0.99)):
            out[f"{key}.{i}"] = float("inf") if few else float(np.quantile(inside, q))
    return out


def by_receiver(found: pl.DataFrame, bins: Sequence[Bin], hosts: int = 1) -> dict[str, float]:
    """The same as the authors' evaluation has it (`digestModulesStats` in MetricsDashBoard.py of
    PlatformLab/HomaSimulation): the mean of what each receiving host has for its own messages, weighted by
    their number. A host that has few messages of a bin has the largest of them for its 99th percentile, and
    the mean is lower than the percentile of all. So many `hosts` are taken for one where a run is so many
    times shorter.
    """
    sizes, slowdown = found["bytes"].to_numpy(), found["slowdown"].to_numpy()
    receiver = found["dst"].to_numpy() // hosts
    out: dict[str, float] = {}
    for i, (lower, upper, _, _) in enumerate(bins):
        inside = (sizes > lower) & (sizes <= upper)
        own = [slowdown[inside & (receiver == one)] for one in np.unique(receiver[inside])]
        weights = [len(values) for values in own]
        for key, q in (("p50", 0.5), ("p99", 0.99)):
            # The value below or at which there are so many: no interpolation.
            at = [float(np.quantile(values, q, method="inverted_cdf")) for values in own]
            out[f"{key}.{i}"] = float(np.average(at, weights=weights)) if own else float("inf")
    return out
