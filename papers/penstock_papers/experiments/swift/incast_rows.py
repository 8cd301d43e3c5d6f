"""Swift: incasts of thousands, with windows below one packet and without (table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.workloads import Flows
from penstock_papers.experiments.lossless import star
from penstock_papers.experiments.swift.setup import CHOSEN, HEADER, law, payload, round_trip
from penstock_papers.ledger import CONFIRMED, Cause, Lab, Measurement, Row, within

# In place of some hundred microseconds to a millisecond.
LATER_TIMEOUTS = ("5ms", "20ms")
LOST = within(0.287, 0.5)
# The share of its time from which on a link counts as never idle.
FULL = 0.99


def _crowd(at: Mapping[str, Any], protocol: str, warmup: str, duration: str) -> Any:
    machines = int(at["incast.machines"])
    count = int(at["incast.flows"]) // machines
    flows = [Flows([f"h{i}" for i in range(machines)], "sink", count=count, spread="20ms")]
    return star(
        machines,
        at["network.rate"],
        at["network.delay"],
        flows,
        protocol=protocol,
        pfc="off",
        port_buffer=at["network.buffer"],
        segment=at["network.packet"],
        warmup=warmup,
        duration=duration,
        sample="1ms",
        series=True,
        deliveries=True,
    )


def first_copies(at: Mapping[str, Any], runs: Any) -> float:
    """Payload that reached the receiver for the first time, in Gb/s: what its link carried, less what came
    again. What is acknowledged is not it: it may have come before the measured time.
    """
    rate = float(str(at["network.rate"]).removesuffix("Gbps"))
    carried = runs.mean("utilisation") * rate * payload(at) / (payload(at) + HEADER)
    return float(carried - 8e-9 * runs.mean("duplicate_bytes") / runs.mean("measured_s"))


def _thousands(lab: Lab, at: Mapping[str, Any], warmup: str, duration: str) -> dict[str, Any]:
    points = [_crowd(at, law(at, **more), warmup, duration) for more in ({}, {"min_cwnd": 1})]
    small, whole = lab.sweep(points, keep=("series",), derive=round_trip)
    rate = float(str(at["network.rate"]).removesuffix("Gbps"))
    return {
        "throughput": float(small.mean("utilisation") * rate),
        "loss": float(small.mean("drop_rate")),
        "rtt": float(small.mean("rtt_us")),
        "without": {
            "loss": float(whole.mean("drop_rate")),
            "rtt": float(whole.mean("rtt_us")),
            "goodput": first_copies(at, whole),
            "use": float(whole.mean("utilisation")),
        },
        "goodput ratio": first_copies(at, small) / first_copies(at, whole),
    }


def _measure_thousands(lab: Lab) -> Measurement:
    length = lab.pick(("300ms", "500ms"), ("60ms", "90ms"), ("5ms", "8ms"))
    later = [_crowd(CHOSEN, law(CHOSEN, min_cwnd=1, rto=rto, rto_low=rto), *length) for rto in LATER_TIMEOUTS]
    sets = dict(zip(LATER_TIMEOUTS, lab.sweep(later), strict=True))
    return {
        **_thousands(lab, CHOSEN, *length),
        "loss, later timeouts": {rto: float(s.mean("drop_rate")) for rto, s in sets.items()},
        "use, later timeouts": {rto: float(s.mean("utilisation")) for rto, s in sets.items()},
    }


SWIFT_2 = Row(
    "SWIFT-T2",
    "5,000 to one, with and without windows below one packet (section 5.4, table 2)",
    measure=_measure_thousands,
    causes=(
        Cause(
            "how long a lost packet waits before it is sent again, which is not remembered, decides how much "
            "of what is sent is lost: with a later timeout it is as stated",
            holds=lambda m: any(LOST.judge(x) == CONFIRMED for x in m["loss, later timeouts"].values()),
            evidence=lambda m: "; ".join(
                f"timeout {rto}: loss {x:.3f}" for rto, x in m["loss, later timeouts"].items()
            ),
            of=("without-loss",),
        ),
        Cause(
            "one packet of each sender is more than the port holds, so the link to the receiver is never "
            "idle, however late what is lost is sent again: a whole link's worth arrives",
            holds=lambda m: min(m["without"]["use"], *m["use, later timeouts"].values()) > FULL,
            evidence=lambda m: (
                f"link in use: {m['without']['use']:.3f}; "
                + "; ".join(f"timeout {rto}: {x:.3f}" for rto, x in m["use, later timeouts"].items())
            ),
            of=("without-throughput",),
        ),
    ),
    matters=(
        "incast.machines",
        "network.delay",
        "network.buffer",
        "network.packet",
        "swift.base_target",
        "swift.fs_range",
    ),
    probe=lambda lab, settings: _thousands(lab, {**CHOSEN, **settings}, "60ms", "80ms"),
)
