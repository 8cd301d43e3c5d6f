"""Section VI: the experiments with Linux routers at 1 Gb/s, as simulations (Fig 16 to 19)."""

from __future__ import annotations

import numpy as np

from penstock.experiments.piqi_rcp.common import (
    MBPS,
    PIQI_VI,
    RCP_VI,
    draw_flows,
    fair_rate,
    flow_rates,
)
from penstock.figures import line, new, style
from penstock.ledger import Finding, Lab, Row
from penstock.runs import RunSet

PATH = {"rtt": "50ms", "delay": "25ms", "access_rate": "1Gbps"}
# The same senders with the constants of sections IV and V, to see what the stated ones do.
NIMBLE = "piqi-rcp:eta=1,bound=simple,tau1=0.05,tau2=0.88"


def _three(lab: Lab) -> list[RunSet]:
    every, lasting, end = (10, 30, 50) if lab.quick else (30, 90, 150)
    settings = PATH | {"capacity": "1Gbps", "flows": 3, "every": f"{every}s", "lasting": f"{lasting}s"}
    settings |= {"duration": f"{end}s", "sample": "100ms"}
    points = [("staggered", settings | {"protocol": p}) for p in (RCP_VI, PIQI_VI)]
    return lab.sweep(points, keep=["series"])


def shares(runs: list[RunSet], every: float, capacity: float) -> tuple[list[float], list[float]]:
    """Use of the link over the flows' stay and spread of the three rates, one of each per run; flows come
    `every` seconds, `capacity` in bit/s.
    """
    use, spread = [], []
    for r in runs:
        sent = [flow_rates(r, f) for f in range(3)]
        t, y = fair_rate(r, metric="arrival_rate_bps")
        use.append(y[(t > every / 2) & (t < 5 * every)].mean() / capacity)
        both = (2.5 * every, 3 * every)
        rates = [v[(tf > both[0]) & (tf < both[1])].mean() for tf, v in sent]
        spread.append(float(np.ptp(rates) / np.mean(rates)))
    return use, spread


def kept(use: list[float], spread: list[float]) -> bool:
    """Fig 16 holds: high throughput and equal shares."""
    return min(use) > 0.85 and max(spread) < 0.05


def like_figure_17(a: list[float], b: list[float], scale: float = 1.0) -> bool:
    """Fig 17 holds: largest queues in packets, (RCP, PIQI), of (a) at 1 Gb/s / `scale` and of (b)."""
    return abs(a[0] * scale / 9415 - 1) < 0.25 and a[1] <= 10 and abs(b[0] / 11_000 - 1) < 0.25 and b[1] <= 10


def collapse(r: RunSet, since: float, until: float) -> tuple[float, float]:
    """Least arrival rate in Mb/s and seconds below half the capacity of 100 Mb/s, between two times."""
    t, y = fair_rate(r, metric="arrival_rate_bps")
    after = (t > since) & (t < until)
    return y[after].min() / MBPS, float((y[after] < 50e6).sum() * (t[1] - t[0]))


def like_figure_18(low: list[float], time_low: list[float]) -> bool:
    """Fig 18 holds: of (RCP, PIQI), only the first collapses."""
    return low[0] < 15 and 4 < time_low[0] < 10 and time_low[1] < 0.5


def swings(runs: list[RunSet], since: float, capacity: float) -> list[tuple[float, float]]:
    """Largest excess and shortfall of the arrival rate from what (RCP, PIQI) aim at, as shares of it."""
    found = []
    for r, steady in zip(runs, (1.0, 0.95), strict=True):
        t, y = fair_rate(r, metric="arrival_rate_bps")
        late = y[t > since] / capacity / steady - 1
        found.append((float(late.max()), float(late.min())))
    return found


def like_figure_19(swing: list[tuple[float, float]]) -> bool:
    """Fig 19 holds: RCP swings as stated, PIQI much less."""
    return (
        0.2 < swing[0][0] < 0.6
        and -0.4 < swing[0][1] < -0.12
        and swing[1][0] - swing[1][1] < 0.6 * (swing[0][0] - swing[0][1])
    )


def three_flows(lab: Lab) -> Finding:
    """P-16: three flows come 30 s apart and stay 90 s; throughput and shares."""
    runs = _three(lab)
    use, spread = shares(runs, 10 if lab.quick else 30, 1e9)
    with style():
        figure, axes = new(1, 2, width=10.5, height=3.8, sharey=True)
        for ax, r, name in zip(axes, runs, ("RCP, alpha = 0.1", "PIQI-RCP"), strict=True):
            draw_flows(ax, r, [0, 1, 2], ["x1", "x2", "x3"], name)
    good = kept(use, spread)
    measured = (
        f"arrival rate over the run {use[0]:.1%} (RCP), {use[1]:.1%} (PIQI, gamma = 0.95) of 1 "
        f"Gb/s; spread "
        f"of the three "
        f"rates {spread[0]:.1%}, {spread[1]:.1%}"
    )
    reason = "" if good else "throughput or shares are not kept"
    return Finding(good, measured, reason, (lab.save(figure, "P-16"),))


def _crowd(lab: Lab) -> list[RunSet]:
    settings = PATH | {"capacity": "100Mbps", "flows": 10, "join_at": "30s", "leave_at": "113s"}
    settings |= {"duration": "120s", "sample": "100ms"}
    points = [("join", settings | {"protocol": p}) for p in (RCP_VI, PIQI_VI, NIMBLE)]
    return lab.sweep(points, keep=["series"])


def queues(lab: Lab) -> Finding:
    """P-17: queues of the staggered flows (a) and of the abrupt join (b)."""
    three, crowd = _three(lab), _crowd(lab)
    with style():
        figure, axes = new(1, 2, width=10.5, height=3.8)
        for ax, pair, title in (
            (axes[0], three, "(a) three flows"),
            (axes[1], crowd, "(b) ten flows join one"),
        ):
            for i, (r, name) in enumerate(zip(pair[:2], ("RCP", "PIQI-RCP"), strict=True)):
                t, q = fair_rate(r, metric="queue_packets")
                ax.plot(t, q, label=name, **line(i))
            ax.set(xlabel="time (s)", ylabel="queue (packets)", title=title)
            ax.legend()
    a = [r.mean("queue_max_packets") for r in three]
    b = [r.mean("queue_max_packets") for r in crowd]
    good = like_figure_17(a, b)
    measured = (
        f"(a) RCP {a[0]:,.0f} packets, PIQI {a[1]:,.0f}; (b) RCP {b[0]:,.0f}, PIQI {b[1]:,.0f}; "
        f"(b) with "
        f"PIQI's senders of "
        f"section V {b[2]:,.0f}"
    )
    reason = (
        ""
        if good
        else f"RCP's queues are {a[0] / 9415 - 1:+.0%} (a), {b[0] / 11_000 - 1:+.0%} (b) off the "
        f"stated. PIQI's"
        " are not empty: with the stated tau1 = 0.01 senders need 1 s to follow a falling rate, "
        "and until then new"
        " and old ones together exceed the link (with nimbler senders the queue of (b) changes "
        "as given); the paper"
        " counts the IP queue only and says that the excess stayed in device queues"
    )
    return Finding(good, measured, reason, (lab.save(figure, "P-17"),))


def abrupt_join(lab: Lab) -> Finding:
    """P-18: arrival rate through the abrupt join and leave."""
    rcp, ours, _ = _crowd(lab)
    low, time_low = [], []
    with style():
        figure, (ax,) = new(1, 1)
        for i, (r, name) in enumerate([(rcp, "RCP"), (ours, "PIQI-RCP")]):
            t, y = fair_rate(r, metric="arrival_rate_bps")
            ax.plot(t, y / MBPS, label=name, **line(i))
            least, seconds = collapse(r, 30.3, 60)
            low.append(least)
            time_low.append(seconds)
        ax.set(
            xlabel="time (s)", ylabel="arrival rate (Mb/s)", title="Ten flows join at 30 s, leave at 113 s"
        )
        ax.set(ylim=(0, 400))
        ax.legend()
    good = like_figure_18(low, time_low)
    measured = (
        f"RCP falls to {low[0]:.1f} Mb/s and stays below half the capacity for {time_low[0]:.1f} "
        f"s; PIQI "
        f"falls to "
        f"{low[1]:.1f} Mb/s, {time_low[1]:.1f} s below half"
    )
    reason = (
        ""
        if good
        else "the collapse is there, its length and depth depend on the smallest rate of the "
        "router and on "
        "the smoothing "
        "of the RTT, which the paper does not give; PIQI with the stated senders overshoots too "
        "(P-17) and "
        "pays for it"
    )
    return Finding(good, measured, reason, (lab.save(figure, "P-18"),))


def mice(lab: Lab) -> Finding:
    """P-19: one long flow and Pareto mice, five per second."""
    end = 45 if lab.quick else 120
    settings = PATH | {
        "capacity": "1Gbps",
        "long_flows": 1,
        "arrivals": 5,
        "mean_packets": 100,
        "from": "15s",
    }
    settings |= {
        "duration": f"{end}s",
        "sample": "10ms",
        "series": "true",
        "series_flows": 1,
        "warmup": "15s",
    }
    points = [("poisson", settings | {"protocol": p}) for p in (RCP_VI, PIQI_VI)]
    runs = lab.sweep(points, keep=["series"])
    swing = swings(runs, 15, 1e9)
    with style():
        figure, axes = new(1, 2, width=10.5, height=3.8, sharey=True)
        for ax, r, name in zip(axes, runs, ("RCP", "PIQI-RCP"), strict=True):
            t, y = fair_rate(r, metric="arrival_rate_bps")
            ax.plot(t, y / MBPS, **line(0))
            ax.set(xlabel="time (s)", ylabel="arrival rate (Mb/s)", title=name)
    use = [r.mean("utilisation") for r in runs]
    peak = [r.mean("queue_max_packets") for r in runs]
    good = like_figure_19(swing)
    measured = (
        f"RCP {swing[0][0]:+.0%} / {swing[0][1]:+.0%}, PIQI {swing[1][0]:+.0%} / "
        f"{swing[1][1]:+.0%} of the "
        f"rate aimed at; "
        f"utilisation {use[0]:.1%}, {use[1]:.1%}; peak queue {peak[0]:,.0f}, {peak[1]:,.0f} "
        f"packets"
    )
    reason = (
        ""
        if good
        else "how far the rate swings follows from the largest mice drawn and from the announced "
        "rate they "
        "start with; "
        "see the figure for both protocols under the same arrivals"
    )
    return Finding(good, measured, reason, (lab.save(figure, "P-19"),))


_PAPER = "piqi-rcp"
LINUX_ROWS = [
    Row(
        "P-16",
        _PAPER,
        "Three flows at 1 Gb/s (Fig 16)",
        "both maintain high throughput and equal shares",
        three_flows,
    ),
    Row(
        "P-17",
        _PAPER,
        "Queues at the router (Fig 17)",
        "RCP up to 9,415 packets (a), about 11,000 (b); PIQI about 1",
        queues,
    ),
    Row(
        "P-18",
        _PAPER,
        "Abrupt join (Fig 18)",
        "RCP collapses to 10 Mb/s for about 7 s, PIQI does not",
        abrupt_join,
    ),
    Row(
        "P-19",
        _PAPER,
        "Mice beside a long flow (Fig 19)",
        "RCP +40 % / -25 % swings; PIQI much less, same utilisation",
        mice,
    ),
]
