"""Section VI with kernel sockets: live variants of P-16 to P-19.

The senders are sockets of the kernel whose pacing the simulator's own controllers set; the routers are the
simulator's own too. Congestion headers travel beside the kernel's packets inside the emulated network, where
they pay their bytes; the packets themselves carry none. Rates are a tenth of the paper's 1 Gb/s (100 Mb/s
where the paper has that already), the round trip of 50 ms is the paper's, the times of joining and leaving
are shortened. Queues at a tenth of the rate count ten times where they follow from the rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from penstock.figures import INK, PALETTE, new, style
from penstock.runs import RunSet
from penstock.sweeps import Point
from penstock_papers.experiments import common
from penstock_papers.experiments.piqi_rcp import linux, setup
from penstock_papers.experiments.piqi_rcp.abrupt_rows import P_18, P_19
from penstock_papers.experiments.piqi_rcp.three_rows import P_16, P_17
from penstock_papers.ledger import CONFIRMED, DIFFERS, Cause, Claim, Estimate, Lab, Measurement, Row

CAPACITY, SCALE = 100e6, 10.0
# Flows come every 5 s and stay 15 s (the paper's 30 s and 90 s); ten flows join after 5 s and leave
# after 18.8 s (30 s and 113 s).
SHORTER = 6
EVERY = 30 / SHORTER
JOIN, LEAVE = 30 / SHORTER, 113 / SHORTER
# Mice from 5 s to 25 s (30 s to the end), and how often the simulation draws the paper's 90 s of them.
MICE = 5.0
LONGER_RUNS = 5
SERIES = {"warmup": "0s", "series": "true"}

Runs = list["RunSet"]


def _three(every: float = EVERY) -> list[Point]:
    settings = {**linux.path(), **SERIES, "capacity": "100Mbps", "flows": 3, "every": f"{every}s"}
    settings |= {"lasting": f"{3 * every}s", "duration": f"{5 * every}s", "sample": "100ms"}
    return [("staggered", {**settings, "protocol": p}) for p in linux.pair()]


def _crowd(*protocols: str, **more: Any) -> list[Point]:
    settings = {
        **linux.path(),
        **SERIES,
        "capacity": "100Mbps",
        "flows": 10,
        "duration": "20s",
        "sample": "10ms",
    }
    settings |= {"join_at": f"{JOIN}s", "leave_at": f"{LEAVE}s", "series_flows": 1, **more}
    return [("join", {**settings, "protocol": p}) for p in protocols or linux.pair()]


def _mice() -> list[Point]:
    settings = linux.mice_settings("100Mbps", MICE, 5 * MICE, 10)
    return [("poisson", {**settings, "protocol": p}) for p in linux.pair()]


def _both(lab: Lab, points: list[Point]) -> tuple[Runs, Runs]:
    """With kernel sockets, and simulated."""
    packet = lab.beside(points, keep=["series"])
    return [lab.live(point) for point in points], packet


def _quality(*sets: RunSet) -> str:
    worst = max(float(s.mean("lag_p99_s")) for s in sets)
    return f"99 % of packets late by at most {worst * 1e6:.0f} us"


def _scaled(found: dict[str, Any]) -> dict[str, Any]:
    """RCP's queues as at the paper's rate: what flows send too much in a round trip follows from the rate."""
    rcp = linux.NAMES[0]
    return {
        **found,
        "peak": {**found["peak"], rcp: SCALE * found["peak"][rcp]},
        "after joins": {**found["after joins"], rcp: [SCALE * q for q in found["after joins"][rcp]]},
    }


# ---- causes: what the simulation of the same link says of each claim --------------------------------------


def _verdict(claim: Claim, numbers: Mapping[str, Any]) -> str:
    return claim.judge(numbers).verdict


def _beside(claim: Claim, longer: bool) -> tuple[Cause, ...]:
    """The kernel's doing, the shortening's, or neither's: by the simulation of the very same scenario, and of
    the same link over the paper's times.
    """

    def shown(m: Measurement) -> str:
        return f"simulated: {claim.judge(m['simulated']).measured}"

    def longer_says(m: Measurement) -> str:
        return claim.judge(m["paper's times"]).measured

    def over_time(m: Measurement) -> bool:
        return (
            longer
            and _verdict(claim, m["simulated"]) == DIFFERS
            and _verdict(claim, m["paper's times"]) == CONFIRMED
        )

    return (
        Cause(
            "it is the kernel: the simulation of the very same scenario has what is stated",
            holds=lambda m: _verdict(claim, m["simulated"]) == CONFIRMED,
            evidence=shown,
            of=(claim.id,),
        ),
        Cause(
            "it is the shortening, not the kernel: the simulation of the same link over the paper's times "
            "has what is stated",
            holds=over_time,
            evidence=lambda m: f"{shown(m)}; there: {longer_says(m)}",
            of=(claim.id,),
        ),
        Cause(
            "it is not the kernel: the simulation of the very same scenario differs too",
            holds=lambda m: _verdict(claim, m["simulated"]) == DIFFERS and not over_time(m),
            evidence=shown,
            of=(claim.id,),
        ),
    )


def _causes(row: Row, longer: bool = False) -> tuple[Cause, ...]:
    return tuple(cause for claim in row.claims for cause in _beside(claim, longer))


# ---- figures ----------------------------------------------------------------------------------------------


def _curve(t: setup.Array, y: setup.Array) -> dict[str, list[float]]:
    return {"t": t.tolist(), "y": y.tolist()}


def _plot(ax: Axes, curve: Mapping[str, Sequence[float]], i: int, simulated: bool) -> None:
    """The kernel's curve in full colour, the simulation's beneath it, wide and pale."""
    look: dict[str, Any] = (
        {"linewidth": 4.0, "alpha": 0.3, "zorder": 1} if simulated else {"linewidth": 1.1, "zorder": 2}
    )
    ax.plot(curve["t"], curve["y"], color=PALETTE[i], **look)


def _figure(
    lab: Lab, name: str, curves: Mapping[str, Mapping[str, Mapping[str, Any]]], title: str, **axes: Any
) -> Path:
    """Curves by label, the kernel's and the simulation's of each."""
    with style():
        figure, (ax,) = new()
        for view, simulated in (("simulated", True), ("kernel", False)):
            for i, curve in enumerate(curves[view].values()):
                _plot(ax, curve, i, simulated)
        lines = [Line2D([], [], color=PALETTE[i], label=label) for i, label in enumerate(curves["kernel"])]
        lines += [Line2D([], [], color=INK, linewidth=1.1, label="kernel")]
        lines += [Line2D([], [], color=INK, linewidth=4.0, alpha=0.3, label="simulated")]
        ax.legend(handles=lines)
        ax.set(xlabel="time (s)", title=title, **axes)
        return lab.save(figure, name)


def _sampled(kernel: Runs, packet: Runs, metric: str, scale: float = 1.0) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for view, runs in (("kernel", kernel), ("simulated", packet)):
        curves = {}
        for name, r in zip(linux.NAMES, runs, strict=True):
            t, y = setup.sampled(r, metric)
            curves[name] = _curve(t, y / scale)
        found[view] = curves
    return found


# ---- P-16-live --------------------------------------------------------------------------------------------


def _measure_three(lab: Lab) -> Measurement:
    kernel, packet = _both(lab, _three())
    longer = lab.beside(_three(30), keep=["series"])
    rates: dict[str, Any] = {}
    for i, name in enumerate(linux.NAMES):
        rates[name] = {}
        for view, runs in (("kernel", kernel), ("simulated", packet)):
            rates[name][view] = {
                f"x{f + 1}": _curve(t, y / setup.MBPS)
                for f, (t, y) in enumerate(setup.flow_rates(runs[i], f) for f in range(3))
            }
    return {
        **linux.three_numbers(kernel, EVERY, CAPACITY),
        "simulated": linux.three_numbers(packet, EVERY, CAPACITY),
        "paper's times": linux.three_numbers(longer, 30, CAPACITY),
        "rates": rates,
        "quality": _quality(*kernel),
    }


def _draw_three(m: Measurement, lab: Lab) -> list[Path]:
    return [
        _figure(lab, f"P-16-live-{name.lower()}", curves, name, ylabel="rate (Mb/s)", ylim=(-5, 130))
        for name, curves in m["rates"].items()
    ]


P_16_LIVE = common.with_sockets(
    P_16,
    "Three flows at 100 Mb/s, kernel sockets (Fig 16)",
    measure=_measure_three,
    draw=_draw_three,
    causes=_causes(P_16, longer=True),
)

# ---- P-17-live --------------------------------------------------------------------------------------------


def _first_round(runs: RunSet) -> float:
    """KB per joining flow that arrive between the handshake and the first acknowledgements."""
    t, y = setup.sampled(runs, "arrival_rate_bps")
    before = y[(t > JOIN - 0.1) & (t < JOIN)].mean()
    # The data leave a round trip after the SYN, and for another one nothing comes back.
    during = (t > JOIN + 0.045) & (t < JOIN + 0.105)
    return float((y[during] - before).sum() * 0.01 / 8 / 10) / 1e3


def _queue_numbers(three: Runs, crowd: Runs) -> dict[str, Any]:
    return {
        "a": _scaled(linux.three_numbers(three, EVERY, CAPACITY)),
        "b": linux.crowd_numbers(crowd, JOIN, LEAVE, linux.SAMPLE),
    }


def _measure_queues(lab: Lab) -> Measurement:
    three, simulated_three = _both(lab, _three())
    crowd, simulated_crowd = _both(lab, _crowd())
    quick = setup.piqi_linux(**linux.NIMBLE)
    (nimble_b,) = lab.beside(_crowd(quick), keep=["series"])
    (longer,) = lab.beside(_crowd(setup.rcp_linux(), **linux.LONGER), keep=["series"])
    (name, settings) = _three()[1]
    (nimble_a,) = lab.beside([(name, {**settings, "protocol": quick})], keep=["series"])
    return {
        **_queue_numbers(three, crowd),
        "simulated": _queue_numbers(simulated_three, simulated_crowd),
        "nimble": {
            part: float(r.mean("queue_max_packets")) for part, r in (("a", nimble_a), ("b", nimble_b))
        },
        "longer": float(longer.mean("queue_max_packets")),
        "first round": [_first_round(crowd[0]), _first_round(simulated_crowd[0])],
        "queue": {
            "a": _sampled(three, simulated_three, "queue_packets"),
            "b": _sampled(crowd, simulated_crowd, "queue_packets"),
        },
        "quality": _quality(*three, *crowd),
    }


def _draw_queues(m: Measurement, lab: Lab) -> list[Path]:
    titles = {"a": "Three flows at 100 Mb/s", "b": "Ten flows join one"}
    return [
        _figure(lab, f"P-17{part}-live", m["queue"][part], title, ylabel="queue (packets)")
        for part, title in titles.items()
    ]


P_17_LIVE = common.with_sockets(
    P_17,
    "Queues at the router, kernel sockets (Fig 17)",
    measure=_measure_queues,
    draw=_draw_queues,
    causes=(
        *_causes(P_17),
        *P_17.causes,
        Cause(
            "a SYN cannot offer a window above 64 KB (RFC 7323), so that the kernel's new flows send less "
            "than the simulation's in the round trip after the join",
            holds=lambda m: m["first round"][0] < 0.9 * m["first round"][1],
            evidence=lambda m: "{:,.0f} KB each, simulated {:,.0f} KB".format(*m["first round"]),
            of=("b-rcp",),
        ),
    ),
)

# ---- P-18-live --------------------------------------------------------------------------------------------


def _mean_rtt(runs: RunSet, time: float) -> float:
    t, y = setup.sampled(runs, "mean_rtt_s")
    return 1e3 * float(y[np.searchsorted(t, time)])


def _span(one: float, two: float) -> Estimate:
    """Two runs: their mean, and both as the ends."""
    return Estimate((one + two) / 2, min(one, two), max(one, two))


def _measure_abrupt(lab: Lab) -> Measurement:
    kernel, packet = _both(lab, _crowd())
    # How long RCP stays silent differs from run to run: twice.
    again = lab.live(_crowd(setup.rcp_linux())[0], seed=2)
    first, second = (
        linux.crowd_numbers((rcp, kernel[1]), JOIN, LEAVE, linux.SAMPLE) for rcp in (kernel[0], again)
    )
    numbers = {
        key: {**first[key], linux.NAMES[0]: _span(first[key][linux.NAMES[0]], second[key][linux.NAMES[0]])}
        for key in first
    }
    return {
        **numbers,
        "simulated": linux.crowd_numbers(packet, JOIN, LEAVE, linux.SAMPLE),
        # RCP's rate grows the faster the smaller the mean RTT that the router knows.
        "mean RTT": [_mean_rtt(r, JOIN + 2) for r in (kernel[0], packet[0])],
        "arrivals": _sampled(kernel, packet, "arrival_rate_bps", setup.MBPS),
        "quality": _quality(*kernel, again),
    }


def _draw_abrupt(m: Measurement, lab: Lab) -> list[Path]:
    title = f"Ten flows join at {JOIN:g} s, leave at {LEAVE:.1f} s"
    return [_figure(lab, "P-18-live", m["arrivals"], title, ylabel="arrival rate (Mb/s)", ylim=(0, 400))]


P_18_LIVE = common.with_sockets(
    P_18,
    "Abrupt join, kernel sockets (Fig 18)",
    measure=_measure_abrupt,
    draw=_draw_abrupt,
    causes=(
        *_causes(P_18),
        Cause(
            "the kernel's pacing does not shorten a wait between two packets that it has begun, so fewer "
            "packets tell the router that the queue is gone: its mean round trip stays long, and RCP's "
            "rate recovers in inverse proportion to it",
            holds=lambda m: m["mean RTT"][0] > 1.2 * m["mean RTT"][1],
            evidence=lambda m: "two seconds after the join {:.0f} ms, simulated {:.0f} ms".format(
                *m["mean RTT"]
            ),
            of=("falls", "seconds"),
        ),
    ),
)

# ---- P-19-live --------------------------------------------------------------------------------------------


def _mice_numbers(runs: Runs, since: float) -> dict[str, Any]:
    found = linux.mice_numbers(runs, since, CAPACITY)
    return {**found, "queue": {name: q * SCALE for name, q in found["queue"].items()}}


def _measure_mice(lab: Lab) -> Measurement:
    kernel, packet = _both(lab, _mice())
    # More mice than the wall clock has room for: several draws of the paper's times.
    times = {"from": "30s", "warmup": "30s", "duration": "120s"}
    runs = lab.pick(LONGER_RUNS, LONGER_RUNS, 1)
    longer = lab.beside([(name, {**chosen, **times}) for name, chosen in _mice()], runs=runs, keep=["series"])
    return {
        **_mice_numbers(kernel, MICE),
        "simulated": _mice_numbers(packet, MICE),
        "paper's times": _mice_numbers(longer, 30.0),
        "arrivals": _sampled(kernel, packet, "arrival_rate_bps", setup.MBPS),
        "quality": _quality(*kernel),
    }


def _draw_mice(m: Measurement, lab: Lab) -> list[Path]:
    return [
        _figure(
            lab,
            f"P-19-live-{name.lower()}",
            {view: {name: curves[name]} for view, curves in m["arrivals"].items()},
            f"{name}: mice beside a long flow",
            ylabel="arrival rate (Mb/s)",
        )
        for name in linux.NAMES
    ]


P_19_LIVE = common.with_sockets(
    P_19,
    "Mice beside a long flow, kernel sockets (Fig 19)",
    measure=_measure_mice,
    draw=_draw_mice,
    causes=_causes(P_19, longer=True),
)

LIVE_ROWS = [P_16_LIVE, P_17_LIVE, P_18_LIVE, P_19_LIVE]
