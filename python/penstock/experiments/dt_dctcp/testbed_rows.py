"""Section VI.B: queries on the testbed of Fig 13 (Fig 14 and 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock import figures
from penstock.experiments.dt_dctcp.setup import TESTBED, halves, means, save_table
from penstock.ledger import Finding, Row

if TYPE_CHECKING:
    from penstock.ledger import Lab
    from penstock.runs import RunSet

Floats = NDArray[np.float64]
PAPER = "dt-dctcp"

RULES = {
    "DCTCP": f"threshold:k={TESTBED['k']}",
    **{f"DT-DCTCP ({a}, {b})": f"hysteresis:k1={a},k2={b}" for a, b in TESTBED["pairs"]},
}
SERVERS = (2, 4, 8, 12, 16, 20, 24, 26, 28, *range(30, 51))
# A collapse: the first n, past the best one, with less than half of the best goodput.
HALF = 0.5


def query(servers: int, queue: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A point of section VI.B."""
    settings: dict[str, Any] = {
        "servers": servers,
        "queue": queue,
        "protocol": f"dctcp:alpha={TESTBED['alpha']},min_window={TESTBED['min_window']}",
    }
    keys = (
        "link_rate",
        "link_delay",
        "root_buffer",
        "leaf_buffer",
        "repetitions",
        "rto_min",
        "initial_window",
    )
    settings.update({key: TESTBED[key] for key in keys})
    settings.update({"connections": TESTBED["connections"], "jitter": TESTBED["jitter"]})
    settings.update(more)
    return "testbed", settings


def _runs(lab: Lab) -> int:
    return int(TESTBED["runs_quick"] if lab.quick else TESTBED["runs_full"])


def _sweep(lab: Lab, queue: str, **more: Any) -> list[RunSet]:
    return lab.sweep([query(n, queue, **more) for n in SERVERS], runs=_runs(lab))


def onset(goodput: Floats, servers: Sequence[int] = SERVERS) -> int | None:
    """The number of servers at which the goodput collapses; `goodput` at each of `servers`."""
    best = int(np.argmax(goodput))
    fallen = np.flatnonzero(goodput[best:] < HALF * goodput[best])
    return int(servers[best + fallen[0]]) if fallen.size else None


def like_figure_14(onsets: Sequence[int | None]) -> bool:
    """Fig 14 holds: collapse of DCTCP at 32 flows, of both kinds of DT-DCTCP at 37."""
    one, *two = onsets
    return one is not None and abs(one - 32) <= 1 and all(t is not None and abs(t - 37) <= 1 for t in two)


def like_figure_15(least: float, timeouts: Sequence[int | None]) -> bool:
    """Fig 15 holds: a shortest query of about 10 ms; first timeouts of DCTCP at 40 flows, of both kinds of
    DT-DCTCP at 42.
    """
    one, *two = timeouts
    return (
        abs(least - 10) <= 1.5
        and one is not None
        and abs(one - 40) <= 1
        and all(t is not None and abs(t - 42) <= 1 for t in two)
    )


def _incast(lab: Lab) -> Finding:
    sets = {name: _sweep(lab, rule) for name, rule in RULES.items()}
    goodput = {name: means(s, "goodput_bps") for name, s in sets.items()}
    found = {name: onset(g) for name, g in goodput.items()}

    # What decides: first windows against the room there is, with either rule.
    room = 128_000 / 1500 + 1e9 * 6 * 25e-6 / (8 * 1500)
    windows = {}
    for iw in (2, 4, 10):
        windows[iw] = [
            onset(means(_sweep(lab, rule, initial_window=iw), "goodput_bps"))
            for rule in list(RULES.values())[:2]
        ]
    other = {
        "alpha from 1": {"protocol": f"dctcp:alpha=1,min_window={TESTBED['min_window']}"},
        "persistent connections": {"connections": "persistent"},
    }
    readings = {
        name: [onset(means(_sweep(lab, rule, **more), "goodput_bps")) for rule in RULES.values()]
        for name, more in other.items()
    }
    with figures.style():
        figure, axes = figures.new(1, 1)
        for i, (name, s) in enumerate(sets.items()):
            figures.band(axes[0], SERVERS, goodput[name] / 1e6, halves(s, "goodput_bps") / 1e6, name, i)
        axes[0].set(
            xlabel="Number of synchronised flows", ylabel="Goodput (Mb/s)", title="Fig 14: 64 KB per worker"
        )
        axes[0].set_ylim(bottom=0)
        axes[0].legend()
    path = lab.save(figure, "dt-dctcp-fig14-incast")
    save_table(lab, "dt-dctcp-fig14", {"servers": SERVERS, **{k: v / 1e6 for k, v in goodput.items()}})
    said = ", ".join(f"{name} at {n or 'none'}" for name, n in found.items())
    best = max(g.max() for g in goodput.values()) / 1e6
    measured = f"collapse (less than half of the best goodput): {said}; best {best:.0f} Mb/s"
    scaling = "; ".join(
        f"{iw} segments: {a or 'none'} and {b or 'none'} (room / window {room / iw:.0f})"
        for iw, (a, b) in windows.items()
    )
    reads = "; ".join(f"{name}: {', '.join(str(x or 'none') for x in v)}" for name, v in readings.items())
    reason = (
        "the first windows of all flows arrive before any mark can return, so the onset is where n times the "
        f"initial window exceeds the buffer and the pipe ({room:.0f} packets; "
        f"{room / TESTBED['initial_window']:.0f} flows "
        f"at {TESTBED['initial_window']} segments), whatever the rule. With initial windows of {scaling} for "
        f"DCTCP and DT-DCTCP (34, 28). Other readings (DCTCP, (34, 28), (34, 30)): {reads}"
    )
    return Finding(like_figure_14(list(found.values())), measured, reason, (path,))


def _completion(lab: Lab) -> Finding:
    # The queries run one after the other, so a run's length over its queries is their mean time.
    sets = {name: _sweep(lab, rule, total="1MB") for name, rule in RULES.items()}
    time = {
        name: np.array([np.mean(s.values("measured_s") / s.values("blocks")) for s in v]) * 1e3
        for name, v in sets.items()
    }
    timeouts = {name: means(v, "timeouts") for name, v in sets.items()}
    n = np.array(SERVERS)
    first = {name: int(n[np.argmax(t > 0)]) if np.any(t > 0) else None for name, t in timeouts.items()}
    least = min(t.min() for t in time.values())
    burst = max(t.max() for t in time.values()) / least
    before = n < 34
    calm = {name: float(np.ptp(t[before & (n >= 8)])) for name, t in time.items()}
    with figures.style():
        figure, axes = figures.new(1, 1)
        for i, (name, v) in enumerate(sets.items()):
            half = np.array([s.ci95("measured_s") / s.mean("blocks") for s in v]) * 1e3
            figures.band(axes[0], n, time[name], half, name, i)
        axes[0].set(
            xlabel="Number of synchronised flows",
            ylabel="Query completion time (ms)",
            title="Fig 15: 1 MB / n per worker",
            yscale="log",
        )
        axes[0].legend()
    path = lab.save(figure, "dt-dctcp-fig15-completion")
    save_table(lab, "dt-dctcp-fig15", {"servers": SERVERS, **time})
    persistent = {
        name: means(_sweep(lab, rule, total="1MB", connections="persistent"), "timeouts")
        for name, rule in list(RULES.items())[:2]
    }
    ladder = {}
    for buffer in ("160KB", "256KB"):
        t = [
            means(_sweep(lab, rule, total="1MB", root_buffer=buffer), "timeouts")
            for rule in list(RULES.values())[:2]
        ]
        ladder[buffer] = [int(n[np.argmax(x > 0)]) if np.any(x > 0) else None for x in t]
    said = ", ".join(f"{name} {x or 'none'}" for name, x in first.items())
    measured = (
        f"least {least:.1f} ms, longest {burst:.0f} times that; first timeouts at n: {said}; spread of "
        "the mean "
        f"from n=8 to 33: {', '.join(f'{name} {x:.1f} ms' for name, x in calm.items())}"
    )
    grown = "; ".join(f"{b}: {', '.join(str(x or 'none') for x in v)}" for b, v in ladder.items())
    kept = ", ".join(
        f"{name} {t.sum() / (len(SERVERS) * TESTBED['repetitions']):.2f} per query"
        for name, t in persistent.items()
    )
    reason = (
        "completion jumps with the first timeout, and timeouts start where the first windows of all flows "
        "overflow the port before a mark can act; both come later only with more buffer (first "
        "timeouts of DCTCP "
        f"and DT-DCTCP (34, 28) with {grown}). With persistent connections timeouts are {kept}"
    )
    return Finding(like_figure_15(least, list(first.values())), measured, reason, (path,))


TESTBED_ROWS = [
    Row(
        "D-14",
        PAPER,
        "Incast of 64 KB per worker (Fig 14)",
        "throughput collapses at 32 flows for DCTCP and at 37 for DT-DCTCP, with (34, 28) and (34, 30) KB",
        _incast,
    ),
    Row(
        "D-15",
        PAPER,
        "Completion time of 1 MB over n workers (Fig 15)",
        "minimum about 10 ms; DCTCP oscillates from 34 flows and times out at 40; DT-DCTCP is smooth "
        "from 35 and "
        "times out at 42",
        _completion,
    ),
]
