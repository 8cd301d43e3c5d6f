"""Section VI with kernel sockets: live variants of P-16 to P-19.

The senders are sockets of the kernel whose pacing the simulator's own controllers set; the routers are the
simulator's own too. Congestion headers travel beside the kernel's packets inside the emulated network, where
they pay their bytes; the packets themselves carry none. Rates are a tenth of the paper's 1 Gb/s (100 Mb/s
where the paper has that already), the round trip of 50 ms is the paper's, the times of joining and leaving
are shortened as each row says.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from penstock.experiments.piqi_rcp.common import MBPS, PIQI_VI, RCP_VI, fair_rate, flow_rates
from penstock.experiments.piqi_rcp.linux import (
    NIMBLE,
    PATH,
    collapse,
    kept,
    like_figure_17,
    like_figure_18,
    like_figure_19,
    shares,
    swings,
)
from penstock.figures import INK, PALETTE, new, style
from penstock.ledger import Finding, Lab, Row
from penstock.runs import RunSet
from penstock.sweeps import Point

CAPACITY = 100e6
# Flows come every 5 s and stay 15 s (the paper's 30 s and 90 s); ten flows join after 5 s and leave
# after 18.8 s (30 s and 113 s).
SHORTER = 6
EVERY = 30 / SHORTER
JOIN, LEAVE = 30 / SHORTER, 113 / SHORTER
# Mice from 5 s to 25 s (15 s to the end), and how often the simulation draws two minutes of them.
MICE = 5.0
LONGER_RUNS = 5
# Said by every row.
HOW = "kernel sockets, congestion headers beside their packets"


def _three(every: float = EVERY) -> list[Point]:
    settings = PATH | {"capacity": "100Mbps", "flows": 3, "every": f"{every}s", "lasting": f"{3 * every}s"}
    settings |= {"duration": f"{5 * every}s", "warmup": "0s", "sample": "100ms", "series": "true"}
    return [("staggered", settings | {"protocol": p}) for p in (RCP_VI, PIQI_VI)]


def _crowd(*protocols: str) -> list[Point]:
    settings = PATH | {"capacity": "100Mbps", "flows": 10, "join_at": f"{JOIN}s", "leave_at": f"{LEAVE}s"}
    settings |= {"duration": "20s", "warmup": "0s", "sample": "100ms", "series": "true"}
    return [("join", settings | {"protocol": p}) for p in protocols or (RCP_VI, PIQI_VI)]


def _both(lab: Lab, points: list[Point]) -> tuple[list[RunSet], list[RunSet]]:
    """Simulated and, after that, with kernel sockets."""
    packet = lab.beside(points, keep=["series"])
    return [lab.live(point) for point in points], packet


def _single(runs: RunSet) -> list[RunSet]:
    return [replace(runs, runs=(run,)) for run in runs.runs]


def _quality(*sets: RunSet) -> str:
    worst = max(float(s.mean("lag_p99_s")) for s in sets)
    return f"99 % of packets late by at most {worst * 1e6:.0f} us"


def _at(runs: RunSet, time: float, metric: str) -> float:
    t, y = fair_rate(runs, metric=metric)
    return float(y[np.searchsorted(t, time)])


def _first_round(runs: RunSet) -> float:
    """Bytes per joining flow that arrive between the handshake and the first acknowledgements."""
    t, y = fair_rate(runs, metric="arrival_rate_bps")
    before = y[(t > JOIN - 0.1) & (t < JOIN)].mean()
    # The data leave a round trip after the SYN, and for another one nothing comes back.
    during = (t > JOIN + 0.045) & (t < JOIN + 0.105)
    return float((y[during] - before).sum() * 0.01 / 8 / 10)


def _draw(ax: Axes, t: np.ndarray, y: np.ndarray, i: int, simulated: bool = False) -> None:
    """The kernel's curve in full colour, the simulation's beneath it, wide and pale."""
    if simulated:
        ax.plot(t, y, color=PALETTE[i], linewidth=4.0, alpha=0.3, zorder=1)
    else:
        ax.plot(t, y, color=PALETTE[i], linewidth=1.1, zorder=2)


def _key(ax: Axes, names: list[str]) -> None:
    lines = [Line2D([], [], color=PALETTE[i], label=name) for i, name in enumerate(names)]
    lines += [Line2D([], [], color=INK, linewidth=1.1, label="kernel")]
    lines += [Line2D([], [], color=INK, linewidth=4.0, alpha=0.3, label="simulated")]
    ax.legend(handles=lines)


def three_flows(lab: Lab) -> Finding:
    """P-16-live: three flows come one after the other; throughput and shares."""
    kernel, packet = _both(lab, _three())
    use, spread = shares(kernel, EVERY, CAPACITY)
    there, apart = shares(packet, EVERY, CAPACITY)
    with style():
        figure, axes = new(1, 2, width=10.5, height=3.8, sharey=True)
        for ax, pair, name in zip(
            axes, zip(kernel, packet, strict=True), ("RCP, alpha = 0.1", "PIQI-RCP"), strict=True
        ):
            for runs, simulated in zip(pair, (False, True), strict=True):
                for f in range(3):
                    t, rate = flow_rates(runs, f)
                    _draw(ax, t, rate / MBPS, f, simulated)
            ax.set(xlabel="time (s)", title=name)
        axes[0].set(ylabel="rate (Mb/s)", ylim=(-5, 130))
        _key(axes[1], ["x1", "x2", "x3"])
    measured = (
        f"{HOW}; 100 Mb/s, flows {EVERY:g} s apart for {3 * EVERY:g} s: arrival rate {use[0]:.1%} (RCP), "
        f"{use[1]:.1%} (PIQI, gamma = 0.95) of the link (simulated {there[0]:.1%}, {there[1]:.1%}); spread "
        f"of the three rates {spread[0]:.1%}, {spread[1]:.1%} (simulated {apart[0]:.1%}, {apart[1]:.1%}); "
        f"{_quality(*kernel)}"
    )
    good = kept(use, spread)
    reason = ""
    if not good:
        # The same with the paper's times, which the wall clock has no room for.
        long_use, long_spread = shares(lab.beside(_three(30), keep=["series"]), 30, CAPACITY)
        reason = (
            f"with the paper's 30 s and 90 s the simulation of the same link has {long_use[0]:.1%}, "
            f"{long_use[1]:.1%} and a spread of {long_spread[0]:.1%}, {long_spread[1]:.1%}; with the times "
            "of the live run what is in brackets. "
        ) + (
            "The kernel makes the difference"
            if kept(there, apart)
            else "It is the shortening, not the kernel: PIQI's senders need about a second to follow a rate "
            "(tau1 = 0.01 every 10 ms), and after 2.5 s the third is still below its share"
        )
    return Finding(good, measured, reason, (lab.save(figure, "P-16-live"),))


def queues(lab: Lab) -> Finding:
    """P-17-live: queues of the staggered flows (a) and of the abrupt join (b)."""
    three, simulated_three = _both(lab, _three())
    crowd, simulated_crowd = _both(lab, _crowd())
    (nimble,) = lab.beside(_crowd(NIMBLE), keep=["series"])
    fine: list[Point] = [
        (name, {**chosen, "sample": "10ms", "duration": "7s"}) for name, chosen in _crowd(RCP_VI)
    ]
    first = [_first_round(runs[0]) for runs in _both(lab, fine)]
    a, b = ([r.mean("queue_max_packets") for r in runs] for runs in (three, crowd))
    sa, sb = ([r.mean("queue_max_packets") for r in runs] for runs in (simulated_three, simulated_crowd))
    with style():
        figure, axes = new(1, 2, width=10.5, height=3.8)
        parts = (
            (axes[0], three, simulated_three, "(a) three flows"),
            (axes[1], crowd, simulated_crowd, "(b) ten flows join one"),
        )
        for ax, kernel, packet, title in parts:
            for runs, simulated in ((packet, True), (kernel, False)):
                for i, r in enumerate(runs):
                    t, q = fair_rate(r, metric="queue_packets")
                    _draw(ax, t, q, i, simulated)
            ax.set(xlabel="time (s)", ylabel="queue (packets)", title=title)
        _key(axes[1], ["RCP", "PIQI-RCP"])
    measured = (
        f"{HOW}; (a) at 100 Mb/s RCP {a[0]:,.0f} packets (simulated {sa[0]:,.0f}; a tenth of the stated is "
        f"942), PIQI {a[1]:,.0f} ({sa[1]:,.0f}); (b) RCP {b[0]:,.0f} ({sb[0]:,.0f}), PIQI {b[1]:,.0f} "
        f"({sb[1]:,.0f}); {_quality(*three, *crowd)}"
    )
    good = like_figure_17(a, b, scale=10)
    reason = (
        ""
        if good
        else "the simulation of the same scenarios (in brackets) has queues of the same kind, and P-17 at "
        "the stated rate and times too: it is not the kernel. PIQI's are not empty because with the "
        "stated tau1 = 0.01 senders need 1 s to follow a falling rate, and until then new and old ones "
        "together exceed the link (simulated (b) with the senders of section V: "
        f"{nimble.mean('queue_max_packets'):,.0f} packets). RCP's of (b) are smaller with the kernel "
        "because a SYN cannot offer a window above 64 KB (RFC 7323): in the round trip after the join the "
        f"ten new flows send {first[0] / 1e3:,.0f} KB each, simulated {first[1] / 1e3:,.0f} KB"
    )
    return Finding(good, measured, reason, (lab.save(figure, "P-17-live"),))


def abrupt_join(lab: Lab) -> Finding:
    """P-18-live: arrival rate through the abrupt join and leave."""
    kernel, packet = _both(lab, _crowd())
    # How long RCP stays silent differs from run to run: twice.
    again = lab.live(_crowd(RCP_VI)[0], seed=2)
    found = [collapse(r, JOIN + 0.3, LEAVE) for r in (*kernel, again)]
    there = [collapse(r, JOIN + 0.3, LEAVE) for r in packet]
    with style():
        figure, axes = new(1, 2, width=10.5, height=3.8, sharey=True)
        for i, (ax, name) in enumerate(zip(axes, ("RCP", "PIQI-RCP"), strict=True)):
            for r, simulated in (
                (packet[i], True),
                (kernel[i], False),
                *([(again, False)] if i == 0 else []),
            ):
                t, y = fair_rate(r, metric="arrival_rate_bps")
                _draw(ax, t, y / MBPS, i, simulated)
            ax.axhline(CAPACITY / MBPS, color=INK, linestyle=":", linewidth=0.9)
            ax.set(xlabel="time (s)", title=f"{name}: ten flows join at {JOIN:g} s, leave at {LEAVE:.1f} s")
        axes[0].set(ylabel="arrival rate (Mb/s)", ylim=(0, 400))
        _key(axes[1], ["RCP (two runs)", "PIQI-RCP"])
    (low, short), (calm, still), (low_again, long) = found
    measured = (
        f"{HOW}; RCP falls to {low:.1f} and {low_again:.1f} Mb/s and stays below half the capacity for "
        f"{short:.1f} s and {long:.1f} s in two runs (simulated {there[0][0]:.1f} Mb/s, {there[0][1]:.1f} "
        f"s); PIQI falls to {calm:.1f} Mb/s, {still:.1f} s below half (simulated {there[1][0]:.1f} Mb/s, "
        f"{there[1][1]:.1f} s); {_quality(*kernel, again)}"
    )
    good = like_figure_18([low, calm], [short, still]) and like_figure_18([low_again, calm], [long, still])
    # RCP's rate grows the faster the smaller the mean RTT that the router knows.
    slow, soon = (_at(r, JOIN + 2, "mean_rtt_s") for r in (kernel[0], packet[0]))
    reason = (
        ""
        if good
        else "where the routers grant less than a packet per round trip, a sender waits between two "
        "packets. The kernel's pacing does not shorten a wait that it has begun, so fewer packets tell "
        "the router that the queue is gone: two seconds after the join its mean RTT is still "
        f"{slow * 1e3:.0f} ms (simulated {soon * 1e3:.0f} ms), and RCP's rate recovers in inverse "
        "proportion to it. How long that takes differs from run to run"
    )
    return Finding(good, measured, reason, (lab.save(figure, "P-18-live"),))


def mice(lab: Lab) -> Finding:
    """P-19-live: one long flow and Pareto mice, five per second."""
    settings = PATH | {"capacity": "100Mbps", "long_flows": 1, "arrivals": 5, "mean_packets": 10}
    settings |= {"from": f"{MICE:g}s", "warmup": f"{MICE:g}s", "duration": f"{5 * MICE:g}s"}
    settings |= {"sample": "10ms", "series": "true", "series_flows": 1}
    points: list[Point] = [("poisson", settings | {"protocol": p}) for p in (RCP_VI, PIQI_VI)]
    kernel, packet = _both(lab, points)
    swing, there = swings(kernel, MICE, CAPACITY), swings(packet, MICE, CAPACITY)
    with style():
        figure, axes = new(2, 2, width=10.5, height=5.6, sharey=True, sharex=True)
        for row, (runs, view) in enumerate(((kernel, "kernel"), (packet, "simulated"))):
            for i, (r, name) in enumerate(zip(runs, ("RCP", "PIQI-RCP"), strict=True)):
                ax = axes[2 * row + i]
                t, y = fair_rate(r, metric="arrival_rate_bps")
                ax.plot(t, y / MBPS, color=PALETTE[i], linewidth=0.8)
                ax.set_title(f"{name}, {view}")
            axes[2 * row].set_ylabel("arrival rate (Mb/s)")
        for ax in axes[2:]:
            ax.set_xlabel("time (s)")
    use = [r.mean("utilisation") for r in kernel]
    peak = [r.mean("queue_max_packets") for r in kernel]
    measured = (
        f"{HOW}; 100 Mb/s and mice of 10 packets for {4 * MICE:g} s: RCP {swing[0][0]:+.0%} / "
        f"{swing[0][1]:+.0%}, PIQI {swing[1][0]:+.0%} / {swing[1][1]:+.0%} of the rate aimed at (simulated "
        f"{there[0][0]:+.0%} / {there[0][1]:+.0%}, {there[1][0]:+.0%} / {there[1][1]:+.0%}); utilisation "
        f"{use[0]:.1%}, {use[1]:.1%}; peak queue {peak[0]:,.0f}, {peak[1]:,.0f} packets; "
        f"{_quality(*kernel)}"
    )
    good = like_figure_19(swing)
    reason = ""
    if not good:
        # More mice than the wall clock has room for: several draws of the paper's two minutes.
        longer = {"from": "15s", "warmup": "15s", "duration": "120s"}
        runs = [
            lab.beside([(name, {**chosen, **longer})], runs=LONGER_RUNS, keep=["series"])[0]
            for name, chosen in points
        ]
        each = [swings([one, two], 15, CAPACITY) for one, two in zip(*map(_single, runs), strict=True)]
        up, down = ([s[0][k] for s in each] for k in (0, 1))
        reason = (
            "how far the rate swings follows from the largest mouse drawn: in the simulation of the same "
            f"link for 105 s RCP's swings are, in {LONGER_RUNS} draws, {min(up):+.0%} to {max(up):+.0%} "
            f"and {max(down):+.0%} to {min(down):+.0%}, {sum(map(like_figure_19, each))} of them as "
            "stated; in 20 s few large mice come. Samples of 10 ms hold 125 packets here, so the kernel's "
            "pacing and the machine's stalls show in them"
        )
    return Finding(good, measured, reason, (lab.save(figure, "P-19-live"),))


_PAPER, _VIEW = "piqi-rcp", "live, scaled"
LIVE_ROWS = [
    Row(
        "P-16-live",
        _PAPER,
        "Three flows at 100 Mb/s, kernel sockets (Fig 16)",
        "both maintain high throughput and equal shares",
        three_flows,
        _VIEW,
    ),
    Row(
        "P-17-live",
        _PAPER,
        "Queues at the router, kernel sockets (Fig 17)",
        "RCP up to 9,415 packets (a), about 11,000 (b); PIQI about 1",
        queues,
        _VIEW,
    ),
    Row(
        "P-18-live",
        _PAPER,
        "Abrupt join, kernel sockets (Fig 18)",
        "RCP collapses to 10 Mb/s for about 7 s, PIQI does not",
        abrupt_join,
        _VIEW,
    ),
    Row(
        "P-19-live",
        _PAPER,
        "Mice beside a long flow, kernel sockets (Fig 19)",
        "RCP +40 % / -25 % swings; PIQI much less, same utilisation",
        mice,
        _VIEW,
    ),
]
