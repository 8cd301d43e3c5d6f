"""The published set-up: 144 hosts, the sizes of W1, a message's time alone, slowdowns by size bin."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.experiments.lossless import seconds
from penstock.models import homa
from penstock.network import Network
from penstock.workloads import Poisson

RACKS, RACK, UPPER = 9, 16, 4
# Bytes on the wire of which a sender knows without a grant, in the published data.
RTT_BYTES = 9328
# Lower and upper edge of a size bin in bytes, median and 99th percentile.
Bin = tuple[int, int, float, float]

# W1: share of messages of at most 1, 2, ..., 15 bytes (Atikoglu et al., SIGMETRICS 2012).
_W1_FIRST = (
    0.00583, 0.18403, 0.27642, 0.2766, 0.304, 0.30465, 0.31071, 0.31094, 0.31931, 0.32768, 0.41757, 0.41849,
    0.42175, 0.44155, 0.47,
)  # fmt: skip


def w1() -> tuple[list[float], list[float]]:
    """Sizes in bytes and cdf of W1, a step function: above 15 bytes a generalised Pareto distribution."""
    k, sigma = 0.348238, 214.476
    sizes, cdf = [float(i) for i in range(1, 16)], list(_W1_FIRST)
    n = 16
    while cdf[-1] < 1.0 - 2e-8:
        sizes.append(float(n))
        cdf.append(1.0 - 0.53 / (1.0 + (n + 0.5 - 15.0) * k / sigma) ** (1.0 / k))
        n = n + 1 if n < 300 else int(n * 1.01)
    cdf[-1] = 1.0
    return sizes, cdf


def published() -> dict[str, list[Bin]]:
    """The bins of published.toml by transport."""
    text = Path(__file__).with_name("published.toml").read_text(encoding="utf-8")
    return {name: [tuple(row) for row in rows] for name, rows in tomllib.loads(text).items()}


def protocol(at: Mapping[str, Any], transport: str, control: int) -> str:
    """A transport as chosen; `control`: bytes of an acknowledgement, a request, a token."""
    over = at["network.overhead"]
    match transport:
        case "Homa":
            # One scheduled level of eight for W1; limits by the rule of the authors' simulator.
            cuts = homa.cutoffs(*w1(), 7, by="remaining", tail=10_000, grant=84, rtt_bytes=RTT_BYTES)
            limits = "+".join(f"{cut}B" for cut in cuts)
            return (
                f"homa:header={over},control=84,rtt_bytes={RTT_BYTES},scheduled=1,unscheduled_by=remaining,"
                f"tail=10000B,cutoffs={limits},done_after=300us,resend=20ms"
            )
        case "pFabric":
            window, rto = at["pfabric.window"], at["pfabric.rto"]
            return f"pfabric:header={over},ack={control},window={window},rto={rto},buffer=36864B"
        case "pHost":
            window = at["phost.window"]
            return f"phost:header={over},control={control},token_window={window},buffer=36864B"
        case _:
            k, threshold = at["pias.k"], at["pias.threshold"]
            return f"pias:header={over},ack={control},k={k}pkt,thresholds={threshold}"


def network(at: Mapping[str, Any], folder: Path) -> Network:
    """The 144 hosts; their W1 is a file in `folder`. A switch's delay is that of the links towards it."""
    sizes, cdf = w1()
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{size:.0f},{share:.9f}" for size, share in zip(sizes, cdf, strict=True)]
    (folder / "homa-w1.csv").write_text("\n".join(["size,cdf", *rows, ""]), encoding="utf-8")
    net = Network(
        hosts=[f"h[0-{RACKS * RACK - 1}]"],
        switches=[f"leaf[0-{RACKS - 1}]", f"spine[0-{UPPER - 1}]"],
        name="homa",
        folder=folder,
    )
    rate, switch = str(at["network.rate"]), at["network.switch"]
    fast = f"{4 * int(rate.removesuffix('Gbps'))}Gbps"
    for leaf in range(RACKS):
        hosts, upper = f"h[{RACK * leaf}-{RACK * leaf + RACK - 1}]", f"spine[0-{UPPER - 1}]"
        ways = [(hosts, f"leaf{leaf}", rate, switch), (f"leaf{leaf}", hosts, rate, "0s")]
        ways += [(f"leaf{leaf}", upper, fast, switch), (upper, f"leaf{leaf}", fast, switch)]
        for a, b, speed, delay in ways:
            net.link(a, b, speed, delay, one_way=True, buffer="10MB")
    return net


def messages(at: Mapping[str, Any], counted: int = 0) -> Poisson:
    """W1 among all hosts, so many that data take the load, or with `counted` bytes beside a message: whole
    packets count.
    """
    sizes, cdf = (np.array(column) for column in w1())
    payload, over = at["network.payload"], at["network.overhead"]
    mean = float(np.sum((sizes + over * -(-sizes // payload)) * np.diff(cdf, prepend=0.0))) + counted
    bits = 1e9 * float(str(at["network.rate"]).removesuffix("Gbps"))
    per_second = at["load.share"] * RACKS * RACK * bits / 8 / mean
    return Poisson("all", "all", rate=per_second, sizes="cdf:homa-w1.csv", cdf_rule="upper")


def point(
    at: Mapping[str, Any], folder: Path, text: str, duration: str, counted: int = 0
) -> tuple[Network, dict[str, Any]]:
    """A point of `Lab.sweep`: what is beside data on the wire is part of their headers."""
    return network(at, folder), {
        "workloads": [messages(at, counted)],
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
    switch; a short last one waits for the full one before it on the receiver's link.
    """
    payload, over = at["network.payload"], at["network.overhead"]
    packets = -(-sizes // payload)
    full, last = payload + over, sizes - (packets - 1) * payload + over
    slow = 8e-9 / float(str(at["network.rate"]).removesuffix("Gbps"))
    fast = slow / 4

    def arrival(links: list[float]) -> NDArray[np.float64]:
        first = (packets - 1) * full * slow + last * sum(links)
        behind = full * sum(links[:-1]) + (packets - 1) * full * slow + last * slow
        return np.where(packets > 1, np.maximum(first, behind), first)

    switch, host = seconds(at["network.switch"]), seconds(at["network.host"])
    across = arrival([slow, fast, fast, slow]) + 3 * switch
    return np.where(same_rack, arrival([slow, slow]) + switch, across) + host


def slowdowns(at: Mapping[str, Any], tables: Mapping[str, pl.DataFrame], duration: str) -> pl.DataFrame:
    """`bytes` and `slowdown` of the messages of the middle eight tenths that have arrived."""
    flows, found = tables["flows"], tables["transfers"]
    found = found.join(flows.select("flow", "src", "dst"), on="flow")
    end = seconds(duration)
    found = found.filter(
        pl.col("start_s").is_between(0.1 * end, 0.9 * end) & pl.col("delivered_s").is_not_nan()
    )
    racks = [
        found[side].cast(pl.String).str.slice(1).cast(pl.Int64).to_numpy() // RACK for side in ("src", "dst")
    ]
    length = found["bytes"].cast(pl.Int64).to_numpy()
    took = (found["delivered_s"] - found["start_s"]).to_numpy()
    return pl.DataFrame({"bytes": length, "slowdown": took / ideal(at, length, racks[0] == racks[1])})


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
