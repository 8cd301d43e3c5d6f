"""Section VI.B: queries on the testbed of Fig 13 (Fig 14 and 15)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock import figures
from penstock.runs import RunSet
from penstock_papers.experiments.common import centre, half, measured, onsets, save_table
from penstock_papers.experiments.dt_dctcp.setup import RULES, TESTBED, at, query, rules
from penstock_papers.ledger import CONFIRMED, Cause, Estimate, Lab, Measurement, Row, claim_criterion

Floats = NDArray[np.float64]

QUICK_QUERIES = 40
SERVERS = (2, 4, 8, 12, 16, 20, 24, 26, 28, *range(30, 51))


def _sweep(lab: Lab, queue: str, runs: int, **more: Any) -> list[RunSet]:
    """The paper's hundred queries at every number of servers; fewer when quick."""
    if lab.quick:
        more = {"repetitions": QUICK_QUERIES, **more}
    return lab.sweep([query(n, queue, **more) for n in SERVERS], runs=runs)


def _beside(lab: Lab, queue: str, **more: Any) -> list[RunSet]:
    """What explains the above, in one run each; as few servers and queries as in a search when quick."""
    if lab.quick:
        return lab.sweep([query(n, queue, repetitions=_FEW_QUERIES, **more) for n in _FEW])
    return _sweep(lab, queue, 1, **more)


def _asked(lab: Lab) -> tuple[int, ...]:
    """The numbers of servers of `_beside`."""
    return lab.pick(SERVERS, _FEW)


def _onsets(sets: Sequence[RunSet], servers: Sequence[int] = SERVERS) -> Estimate:
    """The onset of each replication, and its median; none is inf."""
    return Estimate.median(onsets(sets, servers))


def _first_timeouts(sets: Sequence[RunSet], servers: Sequence[int] = SERVERS) -> Estimate:
    """The smallest number of servers with a timeout in each replication, and its median; none is inf."""
    counts = np.array([s.values("timeouts") for s in sets])
    first = [servers[int(np.argmax(c > 0))] if np.any(c > 0) else np.inf for c in counts.T]
    return Estimate.median(first)


def _runs(lab: Lab) -> int:
    return lab.replications(TESTBED["runs_full"], TESTBED["runs_quick"])


MATTERS = tuple(
    f"testbed.{key}"
    for key in ("rto_min", "initial_window", "connections", "alpha", "min_window", "jitter", "unit")
)
# The search asks with fewer servers and queries.
_FEW = (8, 16, 24, 28, 30, 31, 32, 33, 34, 35, 36, 37, 38, 40, 41, 42, 43, 46, 50)
_FEW_QUERIES = 20


def _probed(lab: Lab, settings: Mapping[str, Any], **more: Any) -> dict[str, list[RunSet]]:
    testbed = at(TESTBED, "testbed", settings)
    more = {"repetitions": _FEW_QUERIES, **more}
    return {
        name: lab.sweep([query(n, rule, testbed, **more) for n in _FEW])
        for name, rule in rules(testbed).items()
    }


# ---- D-14 -------------------------------------------------------------------------------------------------


def _measure_incast(lab: Lab) -> Measurement:
    runs = _runs(lab)
    sets = {name: _sweep(lab, rule, runs) for name, rule in RULES.items()}
    first, second, _ = RULES.values()
    # What decides: the first windows against the room there is, with either rule.
    windows = {
        str(iw): [_onsets(_beside(lab, rule, initial_window=iw), _asked(lab)) for rule in (first, second)]
        for iw in (2, 4, 10)
    }
    other = {
        "alpha from 1": {"protocol": f"dctcp:alpha=1,min_window={TESTBED['min_window']}"},
        "persistent connections": {"connections": "persistent"},
    }
    return {
        "goodput": {name: measured(found, "goodput_bps") for name, found in sets.items()},
        "onset": {name: _onsets(found) for name, found in sets.items()},
        "windows": windows,
        "readings": {
            name: [_onsets(_beside(lab, rule, **more), _asked(lab)) for rule in RULES.values()]
            for name, more in other.items()
        },
        # The port's buffer and what six links hold, in packets.
        "room": 128_000 / 1500 + 1e9 * 6 * 25e-6 / (8 * 1500),
    }


def _draw_incast(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        for i, (name, goodput) in enumerate(m["goodput"].items()):
            figures.band(ax, SERVERS, centre(goodput) / 1e6, half(goodput) / 1e6, name, i)
        ax.axvline(32, color="0.5", linestyle=":", label="stated: collapse of DCTCP")
        ax.axvline(37, color="0.5", linestyle="--", label="stated: collapse of DT-DCTCP")
        ax.set(
            xlabel="Number of synchronised flows", ylabel="Goodput (Mb/s)", title="Fig 14: 64 KB per worker"
        )
        ax.set_ylim(bottom=0)
        ax.legend(fontsize=8)
    table = {name: centre(goodput) / 1e6 for name, goodput in m["goodput"].items()}
    save_table(lab, "dt-dctcp-fig14", {"servers": SERVERS, **table})
    return [lab.save(figure, "dt-dctcp-fig14-incast")]


def _probe_incast(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    return {"onset": {name: _onsets(found, _FEW) for name, found in _probed(lab, settings).items()}}


def _names() -> tuple[str, ...]:
    return tuple(RULES)


def postponed(m: Measurement) -> list[Estimate]:
    """By how many flows either setting of DT-DCTCP collapses later than DCTCP; inf where it never does."""
    one, *two = (m["onset"][name] for name in _names())
    return [
        Estimate(t.mean - one.mean, t.low - one.high, t.high - one.low)
        if math.isfinite(one.high)
        else Estimate.exact(0.0)
        for t in two
    ]


def _follows_windows(m: Measurement) -> bool:
    """Whether the onset moves with the initial window and comes, with either rule, where the first windows of
    all flows exceed the room, give or take a quarter.
    """
    windows = m["windows"].items()
    near = [
        abs(found.mean * int(iw) / m["room"] - 1) < 0.25
        for iw, pair in windows
        for found in pair
        if math.isfinite(found.mean)
    ]
    return len(near) >= 2 and all(near)


def _pairs(m: Measurement) -> list[tuple[float, float]]:
    """Onsets of DCTCP and DT-DCTCP (34, 28), as chosen and with every other window and reading."""
    one, two, _ = (m["onset"][name] for name in _names())
    pairs = [(one, two), *(pair[:2] for pair in (*m["windows"].values(), *m["readings"].values()))]
    return [(a.mean, b.mean) for a, b in pairs]


def _told_windows(m: Measurement) -> str:
    told = "; ".join(
        f"initial window {iw}: {a} and {b} flows, room for {m['room'] / int(iw):.0f}"
        for iw, (a, b) in m["windows"].items()
    )
    return f"DCTCP and DT-DCTCP (34, 28): {told}"


_AT_37 = claim_criterion("D-14/dt-dctcp")

D_14 = Row(
    "D-14",
    "Incast of 64 KB per worker (Fig 14)",
    stated="throughput collapses at 32 flows for DCTCP and at 37 for DT-DCTCP, with (34, 28) and (34, 30) KB",
    measure=_measure_incast,
    draw=_draw_incast,
    causes=(
        Cause(
            "the first windows of all flows arrive before any mark can return, so the collapse comes where "
            "they exceed the buffer and the pipe, whatever the rule",
            holds=_follows_windows,
            evidence=_told_windows,
            of=("dt-dctcp", "postponed"),
        ),
        Cause(
            "both rules collapse together whatever the first window, the first alpha and the connections "
            "are: what decides comes before the rules part",
            holds=lambda m: all(abs(a - b) <= 1 for a, b in _pairs(m)),
            evidence=lambda m: (
                "DCTCP and DT-DCTCP (34, 28): " + ", ".join(f"{a:g} and {b:g} flows" for a, b in _pairs(m))
            ),
            of=("postponed",),
        ),
        Cause(
            "the first window, which the paper leaves open, moves the collapse by more than the rule does: "
            "with another one DT-DCTCP's comes at the stated number",
            holds=lambda m: any(_AT_37.judge([pair[1]]) == CONFIRMED for pair in m["windows"].values()),
            evidence=_told_windows,
            of=("dt-dctcp",),
        ),
    ),
    matters=MATTERS,
    probe=_probe_incast,
)


# ---- D-15 -------------------------------------------------------------------------------------------------

TOTAL = "1MB"


def _times(sets: Sequence[RunSet]) -> list[Estimate]:
    """Mean time of a query (ms): queries follow each other, so it is a run's length over its queries."""
    return [Estimate.of(s.values("measured_s") / s.values("blocks") * 1e3) for s in sets]


def _least(times: Mapping[str, Sequence[Estimate]]) -> Estimate:
    return min((t for found in times.values() for t in found), key=lambda t: t.mean)


def _completion(
    sets: dict[str, list[RunSet]],
    servers: Sequence[int],
    between: Mapping[str, Sequence[RunSet]] | None = None,
) -> dict[str, Any]:
    """What Fig 15's statements are judged by; `between` are runs at `_BETWEEN` numbers of servers."""
    times = {name: _times(found) for name, found in sets.items()}
    least = _least(times)
    first = {name: _first_timeouts(found, servers) for name, found in sets.items()}
    # A query that times out once takes a timeout more: the burst of single queries, not of the mean.
    return {
        "servers": list(servers),
        "times": times,
        "least": least,
        "burst": {
            name: max(found, key=lambda t: t.mean) / min(t.mean for t in found)
            for name, found in times.items()
        },
        "sudden": {name: _sudden(servers, found) for name, found in times.items()},
        # The least time over the link's for 1 MB in packets of 1500 B.
        "least over the link's time": least / (1e3 * 1e6 * 8 * 1500 / 1460 / 1e9),
        "first timeout": first,
        "before the timeouts": {
            name: _before(*_joined(servers, found, (between or {}).get(name, ())))
            for name, found in sets.items()
        },
    }


def _sudden(servers: Sequence[int], times: Sequence[Estimate]) -> float:
    """The largest rise from one number of flows to the next, as a share of the whole rise from the least time
    to the longest, both as logarithms.
    """
    log = np.log(centre(times))
    rises = np.diff(log)[np.diff(servers) == 1]
    return float(rises.max() / np.ptp(log)) if rises.size else 0.0


# Numbers of flows that the axis leaves out, and between which a climb to the first timeout may lie.
_BETWEEN = tuple(n for n in range(22, SERVERS[-1]) if n not in SERVERS)


def _joined(
    servers: Sequence[int], sets: Sequence[RunSet], between: Sequence[RunSet]
) -> tuple[list[int], list[RunSet]]:
    """The runs of the axis and those between, by their number of flows."""
    more = zip(_BETWEEN, between, strict=True) if between else ()
    both = sorted([*zip(servers, sets, strict=True), *more], key=lambda at: at[0])
    return [n for n, _ in both], [s for _, s in both]


def swings(sets: Sequence[RunSet]) -> list[Estimate]:
    """The largest rise of completion times from any earlier number of flows to a later one, and their largest
    fall, as factors, over the runs.
    """
    times = np.array([s.values("measured_s") / s.values("blocks") for s in sets])
    rise, fall = times / np.minimum.accumulate(times), np.maximum.accumulate(times) / times
    return [Estimate.of(rise.max(axis=0)), Estimate.of(fall.max(axis=0))]


def _before(servers: Sequence[int], sets: Sequence[RunSet]) -> dict[str, Any]:
    """What the times do over the numbers of flows that end with the first timeout.

    The climb is the last time over the first of eight numbers, as from 35 to 42. The largest step is its part
    of that climb, on a log scale, from one number to the next. The swings are the largest rise and fall over
    seven numbers, as from 34 to 40.
    """
    first = _first_timeouts(sets, servers).mean
    both = [(n, t.mean) for n, t in zip(servers, _times(sets), strict=True)]
    climb = [t for n, t in both if first - 7 <= n <= first]
    rises = np.diff(np.log(climb))
    return {
        "climb": climb[-1] / climb[0] if len(climb) > 1 else 1.0,
        "swings": swings(
            [s for n, s in zip(servers, sets, strict=True) if first - 6 <= n <= first] or sets[:1]
        ),
        "largest step": float(np.abs(rises).max() / max(abs(rises.sum()), 1e-9)) if rises.size else 1.0,
    }


def _measure_completion(lab: Lab) -> Measurement:
    runs = _runs(lab)
    sets = {name: _sweep(lab, rule, runs, total=TOTAL) for name, rule in RULES.items()}
    more: dict[str, Any] = {"repetitions": QUICK_QUERIES} if lab.quick else {}
    between = {
        name: lab.sweep([query(n, rule, total=TOTAL, **more) for n in _BETWEEN], runs=runs)
        for name, rule in RULES.items()
    }
    first, second, _ = RULES.values()
    return {
        **_completion(sets, SERVERS, between),
        "with buffer": {
            buffer: [
                _first_timeouts(_beside(lab, rule, total=TOTAL, root_buffer=buffer), _asked(lab))
                for rule in (first, second)
            ]
            for buffer in ("160KB", "256KB")
        },
    }


def _draw_completion(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        for i, (name, times) in enumerate(m["times"].items()):
            figures.band(ax, SERVERS, centre(times), half(times), name, i)
        ax.axvline(40, color="0.5", linestyle=":", label="stated: timeouts of DCTCP")
        ax.axvline(42, color="0.5", linestyle="--", label="stated: timeouts of DT-DCTCP")
        ax.set(
            xlabel="Number of synchronised flows",
            ylabel="Query completion time (ms)",
            title="Fig 15: 1 MB / n per worker",
            yscale="log",
        )
        ax.legend(fontsize=8)
    save_table(
        lab, "dt-dctcp-fig15", {"servers": SERVERS, **{name: centre(t) for name, t in m["times"].items()}}
    )
    return [lab.save(figure, "dt-dctcp-fig15-completion")]


def climbs_before(m: Measurement) -> list[float]:
    """Of either setting of DT-DCTCP: the largest step's part of the climb to its first timeout."""
    return [m["before the timeouts"][name]["largest step"] for name in _names()[1:]]


def sudden_steps(m: Measurement) -> list[float]:
    """Of either setting of DT-DCTCP: the largest step's part of the whole burst."""
    return [m["sudden"][name] for name in _names()[1:]]


def climb_before(m: Measurement) -> list[float]:
    """Of either setting of DT-DCTCP: how far the times climb up to its first timeout, as a factor."""
    return [m["before the timeouts"][name]["climb"] for name in _names()[1:]]


def _more_buffer_later(m: Measurement) -> bool:
    """Whether more buffer postpones the first timeout of both rules."""
    now = [m["first timeout"][name].mean for name in _names()[:2]]
    return all(
        more.mean > before
        for found in m["with buffer"].values()
        for more, before in zip(found, now, strict=True)
    )


def _told_buffer(m: Measurement) -> str:
    def flows(first: Estimate, second: Estimate) -> str:
        if math.isinf(first.mean) and math.isinf(second.mean):
            return "with neither"
        return " and ".join("never" if math.isinf(e.mean) else f"{e.mean:.0f} flows" for e in (first, second))

    now = [m["first timeout"][name] for name in _names()[:2]]
    buffers = {"the stated buffer": now, **m["with buffer"]}
    told = "; ".join(f"with {size}: {flows(*found)}" for size, found in buffers.items())
    return f"first timeouts of DCTCP and DT-DCTCP (34, 28); {told}"


def of_dt_dctcp(m: Measurement, key: str) -> dict[str, Estimate]:
    """A number of each setting of DT-DCTCP."""
    return {name: m[key][name] for name in _names()[1:]}


D_15 = Row(
    "D-15",
    "Completion time of 1 MB over n workers (Fig 15)",
    stated="minimum about 10 ms; DCTCP oscillates from 34 flows and times out at 40; DT-DCTCP is smooth from "
    "35 and times out at 42",
    measure=_measure_completion,
    draw=_draw_completion,
    causes=(
        Cause(
            "completion jumps with the first timeout, and timeouts begin where the first windows of all "
            "flows overflow the port before a mark can act: more buffer postpones them with either rule",
            holds=_more_buffer_later,
            evidence=_told_buffer,
            of=("timeouts-dctcp", "timeouts-dt-dctcp"),
        ),
    ),
    matters=MATTERS,
    probe=lambda lab, settings: _completion(_probed(lab, settings, total=TOTAL), _FEW),
)

TESTBED_ROWS = [D_14, D_15]
