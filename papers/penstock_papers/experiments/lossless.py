"""What the rows of part II share: the source of statements, networks round one switch, tails of a run.

The texts of these papers were not at hand. Every statement is one of which its author is certain from memory;
there are no quotes, and `where` says so for each.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.network import Network
from penstock.runs import Run
from penstock.workloads import Flows

Floats = NDArray[np.float64]


def where(place: str) -> str:
    """Section and figure of a statement, and that it is remembered, not read."""
    return f"{place}; from memory, the text was not at hand"


def chosen(package: str) -> dict[str, Any]:
    """The values of a paper's choices.toml by their names ("network.rate")."""
    tables = tomllib.loads((Path(package).parent / "choices.toml").read_text(encoding="utf-8"))
    return {
        f"{table}.{key}": entry["value"]
        for table, entries in tables.items()
        for key, entry in entries.items()
    }


# Memory of a switch where nothing else is said: with 100 packets for each port pause frames act, no law.
MEMORY = "shared:alpha=1,size=12MB"


def point(network: Network, flows: Sequence[Any], **settings: Any) -> tuple[Network, dict[str, Any]]:
    """A point of `Lab.sweep`: packets of 1,000 bytes of payload, as RoCE has them."""
    memory = {} if settings.get("pfc") == "off" else {"buffer": MEMORY}
    return network, {"workloads": list(flows), "segment": "1000B", **memory, **settings}


def star(
    senders: int,
    rate: str,
    delay: str,
    flows: Sequence[Any] = (),
    *,
    port_buffer: str | None = None,
    **settings: Any,
) -> tuple[Network, dict[str, Any]]:
    """`senders` hosts h0, h1, ... and the receiver "sink" round one switch, by links of the same rate.

    The queue to the receiver is sampled. `flows` unset: one without end from each, begun within 100 us.
    `port_buffer` is that of each switch port where pause frames are off.
    """
    hosts = [f"h{i}" for i in range(senders)]
    network = Network(hosts=[*hosts, "sink"], switches="s", name="star")
    network.link([*hosts, "sink"], "s", rate, delay, buffer=port_buffer)
    return point(network, flows or [Flows(hosts, "sink", spread="100us")], bottleneck="s->sink", **settings)


def samples(run: Run, metric: str, number: int | None = None, after: float = 0.0) -> pl.DataFrame:
    """The samples of a metric (of one flow) taken at or after a time in seconds: time_s, number, value."""
    table = run.tables["series"].filter((pl.col("metric") == metric) & (pl.col("time_s") >= after))
    return table if number is None else table.filter(pl.col("number") == number)


def seconds(text: str) -> float:
    """A time of a scenario, "2ms", in seconds."""
    for unit, size in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * size
    raise ValueError(f"{text!r} is no time with a unit")


def after_warmup(run: Run) -> float:
    """Where the measured part of a run begins, in seconds."""
    return seconds(str(run.scenario["set"]["warmup"]))


def queue_tails(run: Run) -> dict[str, float]:
    """Quantiles of the sampled queue of the bottleneck after the warm-up, bytes."""
    queue = samples(run, "queue_bytes", after=after_warmup(run))["value"].to_numpy()
    shares = {"queue_p50_bytes": 50, "queue_p90_bytes": 90, "queue_p99_bytes": 99}
    return {key: float(np.percentile(queue, q)) for key, q in shares.items()}


def delivered(run: Run) -> Floats:
    """Payload delivered of each flow in the measured part, bytes, in the order of their senders' names."""
    table = run.tables["flows"].sort("src", "flow")
    return np.asarray(table["delivered_bytes"].to_numpy(), dtype=float)
