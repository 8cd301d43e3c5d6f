"""Section VI.B with kernel sockets: live variants of D-14 and D-15.

The testbed's scenario scaled by rule: 1 Gb/s becomes 100 Mb/s and every time ten times as long, the floor of
the retransmission timeout too; buffers, thresholds, windows and sizes are kept. The senders run our DCTCP
inside the kernel, the marking rules are the simulator's own queues.

A query that times out takes 2 s here, so a point has few queries, a run ends after 4 s, and a rule's curve
ends two points after its collapse. What so few queries do to the onset is measured by the simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.runs import RunSet
from penstock_papers.experiments import common
from penstock_papers.experiments.common import HALF, Floats, means, onset, onsets, save_table
from penstock_papers.experiments.dt_dctcp.setup import RULES, query
from penstock_papers.experiments.dt_dctcp.testbed_rows import D_14, D_15
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement

FACTOR = 10
LIMIT = "4s"
# Fine where the statements are (32 and 37; 40 and 42), coarse elsewhere.
GOODPUT: dict[str, Any] = {"servers": (16, 24, 28, 30, 31, 32, 33, 35, 36, 37, 38), "repetitions": 8}
COMPLETION: dict[str, Any] = {
    "servers": (8, 16, 24, 28, 30, 32, 34, 36, 38, 39, 40, 41, 42, 43, 44),
    "repetitions": 12,
}
# How often the simulation repeats the few queries of a live point.
REPEATED = 8
# One thread runs all workers: the first segments of thirty answers were seen to leave within 0.43 to 0.61 ms,
# where the scaled jitter is 0.2 ms. Given unscaled, as the scenario's own jitter is.
APART = "60us"


def _scan(
    lab: Lab, rule: str, plan: dict[str, Any], fallen: Callable[[list[RunSet]], bool], **more: Any
) -> list[RunSet]:
    """Kernel runs of one marking rule, n by n, until two points after `fallen` says so."""
    found: list[RunSet] = []
    since = 0
    for n in plan["servers"]:
        point = query(n, rule, repetitions=plan["repetitions"], duration=LIMIT, **more)
        found.append(lab.live(point, scale=FACTOR))
        since += fallen(found)
        if since == 2:
            break
    return found


def _simulated(lab: Lab, plan: dict[str, Any], **more: Any) -> tuple[list[list[RunSet]], ...]:
    """Every rule and n in the simulation: with the live run's few queries, repeated, with the paper's 100,
    and with those where answers are as far apart as one thread of applications begins them.
    """
    few, many, apart = [], [], []
    for rule in RULES.values():
        points = [
            query(n, rule, repetitions=plan["repetitions"], duration=LIMIT, **more) for n in plan["servers"]
        ]
        few.append(lab.beside(points, scale=FACTOR, runs=REPEATED))
        points = [query(n, rule, duration="1000s", **more) for n in plan["servers"]]
        many.append(lab.beside(points, scale=FACTOR))
        points = [query(n, rule, duration="1000s", jitter=APART, **more) for n in plan["servers"]]
        apart.append(lab.beside(points, scale=FACTOR))
    return few, many, apart


def _quality(sets: Sequence[RunSet]) -> str:
    worst = max(float(s.mean("lag_p99_s")) for s in sets)
    return f"99 % of packets late by at most {worst * 1e6:.0f} us of a round trip of 1.5 ms"


def _draw(
    lab: Lab,
    kernel: Mapping[str, Sequence[float]],
    packet: Mapping[str, Sequence[float]],
    servers: Sequence[int],
    name: str,
    **axes_set: Any,
) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new(1, 1)
        for i, (rule, ours) in enumerate(kernel.items()):
            ax.plot(servers, packet[rule], color=figures.PALETTE[i], linewidth=4.5, alpha=0.3)
            ax.plot(servers[: len(ours)], ours, **figures.look(i), label=f"{rule}, kernel")
        ax.plot([], [], color=figures.INK, linewidth=4.5, alpha=0.3, label="the same, simulated, 100 queries")
        ax.set(xlabel="Number of synchronised flows", **axes_set)
        ax.legend()
    table: dict[str, Any] = {"servers": list(servers)}
    for rule, ours in kernel.items():
        table[f"{rule}, kernel"] = [*ours, *[None] * (len(servers) - len(ours))]
        table[f"{rule}, simulated"] = list(packet[rule])
    save_table(lab, name, table)
    return [lab.save(figure, name)]


def _exact(found: int | None) -> Estimate:
    return Estimate.exact(found or math.inf)


def _spread(values: Mapping[str, Estimate]) -> str:
    return "; ".join(f"{name} {e}" for name, e in values.items())


# What the two rows' experiments say together: `onset` of the kernel, `apart` of the simulation with answers
# as
# far apart as one thread leaves them, `few` of the simulation with as few queries.


def _apart_explains(key: str) -> Callable[[Measurement], bool]:
    return lambda m: all(abs(m["apart"][name].mean - e.mean) <= 1 for name, e in m[key].items())


def _few_explain(key: str) -> Callable[[Measurement], bool]:
    return lambda m: all(m["few"][name].low < e.mean <= m["few"][name].high for name, e in m[key].items())


def _causes(key: str, of: tuple[str, ...]) -> tuple[Cause, ...]:
    return (
        Cause(
            "one thread answers for all workers, and its answers leave farther apart than the scaled "
            "jitter: the simulation with answers so far apart has the kernel's numbers",
            holds=_apart_explains(key),
            evidence=lambda m: f"simulated with answers {APART} apart each: {_spread(m['apart'])}",
            of=of,
        ),
        Cause(
            "so few queries do not fix the number: the simulation with as few scatters across the kernel's",
            holds=_few_explain(key),
            evidence=lambda m: f"in {REPEATED} tries {_spread(m['few'])}",
            of=of,
        ),
    )


# ---- D-14-live --------------------------------------------------------------------------------------------

SMALLER = (32, 40, 44)


def _measure_incast(lab: Lab) -> Measurement:
    few, many, apart = _simulated(lab, GOODPUT)
    servers = GOODPUT["servers"]

    def fallen(sets: list[RunSet]) -> bool:
        goodput = means(sets, "goodput_bps")
        return bool(goodput[-1] < HALF * goodput.max())

    kernel = {name: _scan(lab, rule, GOODPUT, fallen) for name, rule in RULES.items()}
    # What decides, asked of the kernel: a smaller first window.
    queries = {"repetitions": GOODPUT["repetitions"], "duration": LIMIT, "initial_window": 2}
    windows = [lab.live(query(n, RULES["DCTCP"], **queries), scale=FACTOR) for n in SMALLER]
    goodput = {name: means(sets, "goodput_bps") / 1e6 for name, sets in kernel.items()}
    there = [means(sets, "goodput_bps") / 1e6 for sets in many]
    spread = [means(sets, "goodput_bps") for sets in apart]
    return {
        "goodput": goodput,
        "simulated goodput": dict(zip(RULES, there, strict=True)),
        "onset": {name: _exact(onset(servers[: len(g)], g)) for name, g in goodput.items()},
        "simulated": {name: _exact(onset(servers, g)) for name, g in zip(RULES, there, strict=True)},
        "apart": {name: _exact(onset(servers, g)) for name, g in zip(RULES, spread, strict=True)},
        "few": {name: Estimate.median(onsets(sets, servers)) for name, sets in zip(RULES, few, strict=True)},
        "smaller window": [float(s.mean("goodput_bps")) / 1e6 for s in windows],
        "quality": _quality([s for sets in kernel.values() for s in sets]),
    }


def _draw_incast(m: Measurement, lab: Lab) -> list[Path]:
    return _draw(
        lab,
        m["goodput"],
        m["simulated goodput"],
        GOODPUT["servers"],
        "D-14-live",
        ylabel="Goodput (Mb/s)",
        title="Fig 14 at 100 Mb/s: 64 KB per worker",
        ylim=(0, 100),
    )


def _window_decides(m: Measurement) -> bool:
    """Whether DCTCP, where it has collapsed, has not with a smaller first window."""
    best = float(np.max(m["goodput"]["DCTCP"]))
    at = m["onset"]["DCTCP"].mean
    later = [rate for n, rate in zip(SMALLER, m["smaller window"], strict=True) if n >= at]
    return bool(later) and later[0] >= HALF * best


D_14_LIVE = common.with_sockets(
    D_14,
    "Incast of 64 KB per worker, kernel sockets (Fig 14)",
    measure=_measure_incast,
    draw=_draw_incast,
    causes=(
        Cause(
            "the first windows of all flows arrive before a mark can act, with either rule: with a smaller "
            "first window the kernel does not collapse there",
            holds=_window_decides,
            evidence=lambda m: (
                "an initial window of 2 segments under DCTCP: "
                + ", ".join(f"{r:.0f} Mb/s at {n}" for n, r in zip(SMALLER, m["smaller window"], strict=True))
                + f"; {m['quality']}"
            ),
        ),
        *_causes("onset", ()),
    ),
)

# ---- D-15-live --------------------------------------------------------------------------------------------


def _times(sets: Sequence[RunSet]) -> Floats:
    return np.array([s.mean("measured_s") / max(1.0, s.mean("blocks")) for s in sets]) * 1e3


def _first(timeouts: Sequence[float] | Floats, servers: Sequence[int]) -> int | None:
    late = np.flatnonzero(np.array(timeouts) > 0)
    return int(servers[late[0]]) if late.size else None


def _measure_completion(lab: Lab) -> Measurement:
    few, many, apart = _simulated(lab, COMPLETION, total="1MB")
    servers = COMPLETION["servers"]

    def fallen(sets: list[RunSet]) -> bool:
        return sets[-1].mean("timeouts") > 0

    def first(sets: Sequence[RunSet]) -> Estimate:
        return _exact(_first(means(sets, "timeouts"), servers))

    def firsts(sets: Sequence[RunSet]) -> Estimate:
        counts = np.array([s.values("timeouts") for s in sets])
        return Estimate.median([_first(run, servers) or math.inf for run in counts.T])

    kernel = {name: _scan(lab, rule, COMPLETION, fallen, total="1MB") for name, rule in RULES.items()}
    took = {name: _times(sets) for name, sets in kernel.items()}
    return {
        "took": took,
        "simulated times": {name: _times(sets) for name, sets in zip(RULES, many, strict=True)},
        # In the paper's time.
        "least": float(min(t.min() for t in took.values())) / FACTOR,
        "first timeout": {name: first(sets) for name, sets in kernel.items()},
        "simulated": {name: first(sets) for name, sets in zip(RULES, many, strict=True)},
        "apart": {name: first(sets) for name, sets in zip(RULES, apart, strict=True)},
        "few": {name: firsts(sets) for name, sets in zip(RULES, few, strict=True)},
        "quality": _quality([s for sets in kernel.values() for s in sets]),
    }


def _draw_completion(m: Measurement, lab: Lab) -> list[Path]:
    return _draw(
        lab,
        m["took"],
        m["simulated times"],
        COMPLETION["servers"],
        "D-15-live",
        ylabel="Query completion time (ms)",
        title="Fig 15 at 100 Mb/s: 1 MB / n per worker",
        yscale="log",
    )


# What so few queries and numbers of flows can judge; how smooth a curve is they cannot.
LIVE_CLAIMS = ("least", "timeouts-dctcp", "timeouts-dt-dctcp")


D_15_LIVE = common.with_sockets(
    D_15,
    "Completion time of 1 MB over n workers, kernel sockets (Fig 15)",
    claims=tuple(claim for claim in D_15.claims if claim.id in LIVE_CLAIMS),
    measure=_measure_completion,
    draw=_draw_completion,
    causes=_causes("first timeout", ("timeouts-dctcp", "timeouts-dt-dctcp")),
)

LIVE_ROWS = [D_14_LIVE, D_15_LIVE]
