"""Stability: Fig 2 (RCP in T1), Fig 4 to 6 (QI-RCP), Fig 8 to 10 (PIQI-RCP)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from penstock.experiments.piqi_rcp.common import (
    INTERVAL,
    TAU,
    TAU_LINUX,
    Array,
    draw_flows,
    fair_rate,
    flow_rates,
    oscillation,
    piqi,
    ports,
    qi,
    tail,
)
from penstock.figures import line, look, new, style
from penstock.ledger import Finding, Lab, Row
from penstock.models import rcp_stability as rs
from penstock.runs import RunSet

# "Converges": oscillation of the announced rate below 1 % over the last tenth of the run.
STEADY = 0.01
L3 = [20, 45, 70, 100, 130, 150]


def _settled(runs: RunSet, port: int | None = None) -> float:
    t, rate = fair_rate(runs, port)
    return oscillation(tail(t, rate, 0.9 * t[-1]))


# --- P-2 ------------------------------------------------------------------------------------------


def _pinned(share: float, mean_rtt: float) -> float:
    """RCP's recursion at l1 with x1 pinned to it and the rest of the link taken by constant traffic."""
    run = rs.simulate_rcp(
        rtts_s=[0.71],
        capacity=1.0,
        interval_s=INTERVAL,
        steps=20_000,
        mean_rtt_s=mean_rtt,
        unresponsive=1 - share,
    )
    return float(run.oscillation(5_000)[0])


def _smooth(runs: RunSet, flow: int, since: float, window: float) -> Array:
    """Throughput in windows of one round trip: bursts of a window protocol are no oscillation."""
    t, rate = flow_rates(runs, flow)
    step = max(1, round(window / (t[1] - t[0])))
    late = rate[t >= since]
    return late[: len(late) // step * step].reshape(-1, step).mean(axis=1)


def rcp_in_t1(lab: Lab) -> Finding:
    """P-2: T1 for every capacity of l3, mean RTT over flows and over bytes, and XCP; pinned by recursion."""
    protocols = ["rcp:mean=flows", "rcp:mean=bytes", "xcp"]
    duration = 90 if lab.quick else 200
    points = [
        ("t1", {"protocol": p, "l3": f"{c}Mbps", "duration": f"{duration}s"}) for p in protocols for c in L3
    ]
    runs = lab.sweep(points, keep=["series"])
    swing = np.array(
        [
            [oscillation(_smooth(runs[i * len(L3) + j], 0, 0.75 * duration, 0.71)) for j in range(len(L3))]
            for i in range(3)
        ]
    )
    pinned = [_pinned(1 - c / 155, 0.089) for c in L3]
    gains = rs.rcp_loop_gain(
        alpha=0.4,
        responsive_share=1 - np.array(L3) / 155,
        responsive_rtt_s=0.71,
        mean_rtt_s=0.089,
    )
    shown = runs[L3.index(70)]
    with style():
        figure, axes = new(1, 2, width=11, height=4)
        draw_flows(axes[0], shown, [0, 1], ["x1 (710 ms)", "x2 (20 ms)"], "RCP in T1, mean RTT over flows")
        for i, (name, values) in enumerate(
            [*zip(["RCP, mean over flows", "RCP, mean over bytes", "XCP"], swing, strict=True)]
        ):
            axes[1].plot(L3, values, label=name, **look(i))
        axes[1].plot(L3, pinned, label="recursion, bottlenecks pinned", **look(3))
        axes[1].set(xlabel="capacity of l3 (Mb/s)", ylabel="oscillation of x1 (half range / mean)")
        axes[1].set(title="Where T1 is unstable")
        axes[1].legend()
    flows, bytes_, xcp = swing
    unstable = [c for c, s in zip(L3, flows, strict=True) if s > 0.1]
    held = [c for c, s in zip(L3, pinned, strict=True) if s > 0.1]
    measured = (
        f"mean RTT over flows: x1 swings by {flows.max():.0%} of its rate, unstable for l3 = "
        f"{', '.join(map(str, unstable)) or 'none'} of {', '.join(map(str, L3))} Mb/s; pinned recursion: "
        f"{', '.join(map(str, held)) or 'none'}; linear gain x delay {gains.max():.2f} at l3 = 20 Mb/s "
        f"(limit {np.pi / 2:.2f}); mean over bytes: at most {bytes_.max():.1%}; "
        f"XCP: {xcp.min():.0%} to {xcp.max():.0%} in windows of one RTT"
    )
    confirmed = flows.max() > 0.1 and max(pinned) > 0.1
    return Finding(
        confirmed,
        measured,
        "" if confirmed else "no capacity of l3 from 20 to 150 Mb/s makes RCP oscillate by more than 10 %",
        (lab.save(figure, "P-2"),),
    )


# --- P-4, P-5, P-6: QI-RCP ------------------------------------------------------------------------


def _draw_pair(lab: Lab, name: str, runs: list[RunSet], titles: list[str], flows: list[int]) -> tuple:
    with style():
        figure, axes = new(1, len(runs), width=5.2 * len(runs), height=3.8, sharey=True)
        for ax, run, title in zip(axes, runs, titles, strict=True):
            draw_flows(ax, run, flows, [f"x{f + 1}" for f in flows], title)
    return (lab.save(figure, name),)


def _literal(rtt: float) -> float:
    """Where the loop of this round trip becomes unstable, relative to the bound for D/T without the lag."""
    return rs.critical_kappa(*_taps([rtt])) / float(rs.qi_bound(rtt / INTERVAL))


def _taps(rtts: list[float]) -> tuple[Array]:
    # Round trips of whole intervals only: one tap per flow.
    return (rs.loop_delay(np.array(rtts), INTERVAL),)


def qi_homogeneous(lab: Lab) -> Finding:
    """P-4: two flows of 120 ms at 0.99 and 1.01 of the bound, in packets and in the recursion."""
    base = {"flows": 2, "every": "10s", "rtt": "120ms", "duration": "300s" if lab.quick else "600s"}
    etas = [0.99, 1.01]
    runs = lab.sweep([("staggered", base | {"protocol": qi(e)}) for e in etas], keep=["series"])
    packets = [_settled(r) for r in runs]
    bound = float(rs.qi_bound(13))
    recursion = rs.simulate_qi([e * bound for e in etas], [13, 13], steps=30_000).oscillation(3_000)
    figures = _draw_pair(lab, "P-4", runs, [f"QI-RCP, {e} of the bound" for e in etas], [0, 1])
    good = packets[0] < STEADY < packets[1] and recursion[0] < STEADY < recursion[1]
    measured = (
        f"oscillation at the end: {packets[0]:.2%} at 0.99 and {packets[1]:.1%} at 1.01 in packets, "
        f"{recursion[0]:.2%} and {recursion[1]:.1%} in the recursion; D counts the interval over which y is "
        f"averaged (for D = 120 ms alone the limit would be {_literal(0.12):.3f} of the bound)"
    )
    reason = "" if good else "the announced rate does not change from steady to oscillating between the two"
    return Finding(good, measured, reason, figures)


def qi_heterogeneous(lab: Lab) -> Finding:
    """P-5: RTTs of 120 and 300 ms; the exact limit of the set and where packets become unstable."""
    limit = rs.critical_kappa(*_taps([0.12, 0.3])) / float(rs.qi_bound(31))
    etas = [0.99, 1.4, 1.7, 1.9]
    base = {"flows": 2, "every": "10s", "rtt": "120ms,300ms", "duration": "200s" if lab.quick else "400s"}
    runs = lab.sweep([("staggered", base | {"protocol": qi(e)}) for e in etas], keep=["series"])
    packets = [_settled(r) for r in runs]
    figures = _draw_pair(lab, "P-5", [runs[0], runs[3]], ["0.99 of the bound", "1.9 of the bound"], [0, 1])
    stable = [e for e, s in zip(etas, packets, strict=True) if s < STEADY]
    good = stable == etas[:3] and 1.7 < limit < 1.9
    measured = f"exact limit {limit:.2f} times the bound; oscillation at the end " + ", ".join(
        f"{s:.2%} at {e}" for e, s in zip(etas, packets, strict=True)
    )
    reason = "" if good else "the limit of this set of RTTs lies elsewhere, see the exact limit"
    return Finding(good, measured, reason, figures)


def _t1(lab: Lab, protocols: list[str], duration: int) -> list[RunSet]:
    base = {"duration": f"{duration}s"}
    return lab.sweep([("t1", base | {"protocol": p}) for p in protocols], keep=["series"])


def _grain(eta: float) -> float:
    """What one packet per flow and interval, more or less, does to the rate of l3 in one step of (4).

    Nine flows that started together count together: 9 packets of 1000 B in the 10 ms share of 0.95 x 70 Mb/s.
    (18) has two terms of half the gain each.
    """
    packets = 0.95 * 70e6 * INTERVAL / 8000
    return eta * float(rs.qi_bound(rs.loop_delay(0.02, INTERVAL))) * 9 / packets


def qi_in_t1(lab: Lab) -> Finding:
    """P-6: T1 at half and at 0.99 of the bound."""
    duration = 120 if lab.quick else 300
    runs = _t1(lab, [qi(0.5), qi(0.99)], duration)
    ends = [[_settled(r, p) for p in ports(r)] for r in runs]
    dips = []
    for r in runs:
        t, rate = flow_rates(r, 0)
        dips.append(float(rate[(t > 31) & (t < 60)].min()) / float(tail(t, rate, 0.9 * duration).mean()))
    figures = _draw_pair(lab, "P-6", runs, ["QI-RCP in T1, eta = 0.5", "eta = 0.99"], [0, 1])
    good = all(a < STEADY and b < _grain(e) for (a, b), e in zip(ends, (0.5, 0.99), strict=True))
    measured = (
        f"announced rates of (l1, l3) at the end: ({ends[0][0]:.2%}, {ends[0][1]:.2%}) at eta = 0.5, "
        f"({ends[1][0]:.2%}, {ends[1][1]:.2%}) at 0.99; after the join x1 falls to {dips[0]:.0%} and "
        f"{dips[1]:.0%} of where it ends (one packet per flow and interval moves l3 by {_grain(0.99):.1%})"
    )
    reason = "" if good else "an announced rate still moves by more than packet grain at the end"
    return Finding(good, measured, reason, figures)


# --- P-8, P-9, P-10: PIQI-RCP ---------------------------------------------------------------------


def _exact(rtts: list[float], tau: tuple[float, float] = TAU) -> float:
    """Exact limit of PIQI-RCP's loop relative to bound (20) for the largest round trip."""
    d = rs.loop_delay(np.array(rtts), INTERVAL)
    return rs.critical_kappa(d, tau1=tau[0], tau2=tau[1]) / float(rs.piqi_bound(d.max()))


def _limit_map() -> Figure:
    tau1 = np.geomspace(0.002, 0.9, 34)
    tau2 = np.linspace(0.005, 0.99, 34)
    ratio = np.full((tau2.size, tau1.size), np.nan)
    for i, b in enumerate(tau2):
        for j, a in enumerate(tau1):
            if a + 2 * b < 2:
                ratio[i, j] = _exact([0.12], (float(a), float(b)))
    with style():
        figure, (ax,) = new(1, 1, width=6.6, height=4.4)
        levels = [0.7, 0.8, 0.9, 0.99, 1.01, 1.25, 1.6, 2.5, 5.0]
        lines = ax.contour(tau1, tau2, ratio, levels=levels, cmap="viridis")
        ax.clabel(lines, fmt="%g", fontsize=8)
        ax.plot(*TAU, "o", color="#D55E00", label="sections IV and V (chosen)")
        ax.plot(*TAU_LINUX, "s", color="#0072B2", label="section VI (stated)")
        ax.set(
            xscale="log", xlabel="tau1", ylabel="tau2", title="Exact limit of kappa over bound (20), 120 ms"
        )
        ax.legend(loc="upper right")
    return figure


def piqi_homogeneous(lab: Lab) -> Finding:
    """P-8: a flow of 120 ms every 10 s at 0.99 and 1.01; the exact limit over both constants."""
    base = {"flows": 10 if not lab.quick else 5, "every": "10s", "rtt": "120ms"}
    base["duration"] = "300s" if lab.quick else "600s"
    etas = [0.99, 1.01]
    points = [piqi(e) for e in etas] + [piqi(1.01, tau=TAU_LINUX)]
    runs = lab.sweep([("staggered", base | {"protocol": p}) for p in points], keep=["series"])
    packets = [_settled(r) for r in runs]
    bound = float(rs.piqi_bound(13))
    recursion = rs.simulate_piqi(
        [e * bound for e in etas], [13, 13], tau1=TAU[0], tau2=TAU[1], steps=40_000
    ).oscillation(3_000)
    figures = _draw_pair(lab, "P-8", runs[:2], [f"PIQI-RCP, {e} of the bound" for e in etas], [0, 1, 2])
    figures += (lab.save(_limit_map(), "P-8-limit"),)
    good = packets[0] < STEADY < packets[1] and recursion[0] < STEADY < recursion[1]
    measured = (
        f"oscillation at the end: {packets[0]:.2%} at 0.99 and {packets[1]:.1%} at 1.01 in packets, "
        f"{recursion[0]:.2%} and {recursion[1]:.1%} in the recursion (exact limit {_exact([0.12]):.3f} of "
        f"the "
        f"bound); with section VI's tau1 = 0.01, tau2 = 0.1 the exact limit is "
        f"{_exact([0.12], TAU_LINUX):.2f} and "
        f"1.01 is stable ({packets[2]:.2%}); as tau2 goes to 0 it is {_exact([0.12], (0.01, 1e-4)):.2f}: "
        f"Theorem 2 "
        "needs w T much smaller than tau1"
    )
    reason = "" if good else "the announced rate does not change from steady to oscillating between the two"
    return Finding(good, measured, reason, figures)


def piqi_heterogeneous(lab: Lab) -> Finding:
    """P-9: one flow of 120 ms, nine of 300 ms, at 0.99 and 1.01, and on both sides of the exact limit."""
    limit = _exact([0.12, *[0.3] * 9])
    etas = [0.99, 1.01, round(limit * 1.04, 3)]
    base = {"flows": 10, "every": "10s" if not lab.quick else "5s", "rtt": "120ms,300ms"}
    base["duration"] = "400s" if lab.quick else "700s"
    runs = lab.sweep([("staggered", base | {"protocol": piqi(e)}) for e in etas], keep=["series"])
    packets = [_settled(r) for r in runs]
    figures = _draw_pair(lab, "P-9", runs, [f"PIQI-RCP, {e} of the bound" for e in etas], [0, 1, 9])
    good = packets[0] < STEADY < packets[1]
    measured = (
        f"oscillation at the end {packets[0]:.2%} at 0.99, {packets[1]:.2%} at 1.01, {packets[2]:.1%} at "
        f"{etas[2]}; exact limit of this set {limit:.3f} times the bound"
    )
    reason = (
        ""
        if good
        else "stable at 1.01: the one flow of 120 ms leads by phase, and the exact linear limit of this very "
        "set "
        f"of RTTs is {limit:.3f} times the bound "
        f"({rs.critical_kappa(*_taps([0.12, *[0.3] * 9])) / float(rs.qi_bound(31)):.3f} "
        "for QI-RCP, so it is not the senders' filter); packets become unstable just above it"
    )
    return Finding(good, measured, reason, figures)


def piqi_in_t1(lab: Lab) -> Finding:
    """P-10: T1 at half and at 0.99 of the bound, and once more with T = 1 ms."""
    duration = 120 if lab.quick else 300
    fine = piqi(0.99, ",interval=1ms", (0.01, 0.97))
    runs = _t1(lab, [piqi(0.5), piqi(0.99), fine], duration)
    ends = [[_settled(r, p) for p in ports(r)] for r in runs]
    figures = _draw_pair(
        lab, "P-10", runs, ["PIQI-RCP in T1, eta = 0.5", "eta = 0.99", "eta = 0.99, T = 1 ms"], [0, 1]
    )
    good = all(a < STEADY and b < _grain(e) for (a, b), e in zip(ends[:2], (0.5, 0.99), strict=True))
    measured = "announced rates of (l1, l3) at the end: " + ", ".join(
        f"({a:.2%}, {b:.2%}) at {name}"
        for (a, b), name in zip(ends, ["eta = 0.5", "0.99", "0.99 with T = 1 ms"], strict=True)
    )
    reason = (
        ""
        if good
        else "at 0.99 l3 oscillates: its flows have D = 20 ms, two intervals, where T is not small and the "
        "exact "
        f"limit is {_exact([0.02]):.3f} of bound (20); with T = 1 ms (third run) the bound holds there too"
    )
    return Finding(good, measured, reason, figures)


def nyquist(lab: Lab) -> Figure:
    """The Nyquist loci of Theorem 1 for equal and unlike delays at 0.99 of the bound (drawn with P-4)."""
    w = np.geomspace(0.02, np.pi, 4000)
    with style():
        figure, (ax,) = new(1, 1, width=5.6, height=4.4)
        kappa = 0.99 * float(rs.qi_bound(31))
        for i, (delays, name) in enumerate([([31], "all 300 ms"), ([13, 31], "120 and 300 ms")]):
            g = rs.qi_locus(w, delays, kappa)
            ax.plot(g.real, g.imag, label=name, **line(i))
        ax.plot([-1], [0], "k+", markersize=10)
        ax.set(xlim=(-1.6, 0.6), ylim=(-1.6, 0.6), xlabel="Re G", ylabel="Im G", title="Loci at 0.99 of (6)")
        ax.legend()
    return figure


def _with_nyquist(lab: Lab) -> Finding:
    found = qi_homogeneous(lab)
    extra = lab.save(nyquist(lab), "P-4-nyquist")
    return Finding(found.confirmed, found.measured, found.reason, (*found.figures, extra))


_PAPER = "piqi-rcp"
STABILITY_ROWS = [
    Row(
        "P-2",
        _PAPER,
        "RCP in topology T1 (Fig 2)",
        "unstable after nine flows join; still unstable with bottlenecks pinned",
        rcp_in_t1,
    ),
    Row(
        "P-4",
        _PAPER,
        "QI-RCP, equal RTTs (Fig 4)",
        "two flows, 120 ms: stable at 0.99 kappa*, unstable at 1.01",
        _with_nyquist,
    ),
    Row(
        "P-5",
        _PAPER,
        "QI-RCP, unlike RTTs (Fig 5)",
        "stable at 0.99; unstable only from about 1.8",
        qi_heterogeneous,
    ),
    Row(
        "P-6",
        _PAPER,
        "QI-RCP in T1 (Fig 6)",
        "eta 0.5 and 0.99: small oscillation at the join, then stable",
        qi_in_t1,
    ),
    Row("P-8", _PAPER, "PIQI-RCP, equal RTTs (Fig 8)", "stable at 0.99, unstable at 1.01", piqi_homogeneous),
    Row(
        "P-9",
        _PAPER,
        "PIQI-RCP, unlike RTTs (Fig 9)",
        "120 ms and nine of 300 ms: stable at 0.99, unstable at 1.01",
        piqi_heterogeneous,
    ),
    Row(
        "P-10",
        _PAPER,
        "PIQI-RCP in T1 (Fig 10)",
        "stable for eta 0.5 (slower, smoother) and 0.99",
        piqi_in_t1,
    ),
]
