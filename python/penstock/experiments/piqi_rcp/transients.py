"""Transients: Fig 3, 11 to 13 (joins, queues, completion times), Fig 15 (parking lot) and the "
"router's "
"work."""

from __future__ import annotations

import numpy as np
import polars as pl

from penstock.experiments.piqi_rcp.common import (
    MBPS,
    PIQI_V,
    Array,
    draw_flows,
    fair_rate,
    flow_rates,
    piqi,
    ports,
    qi,
    series,
    tail,
)
from penstock.figures import line, look, new, style
from penstock.ledger import Finding, Lab, Row
from penstock.models import schedulers
from penstock.models.maxmin import max_min
from penstock.runs import RunSet

# Payload over wire length of a full packet: rates on the wire from what was acknowledged.
WIRE = 1000 / 944


def flash_crowd(lab: Lab) -> Finding:
    """P-3: fifty flows join one; offered load, peak queue, time to drain; and the same with a "
    "buffer of one "
    "BDP."""
    base = {"duration": "40s", "sample": "10ms", "series_flows": 3, "protocol": "rcp"}
    free, finite = lab.sweep([("join", base), ("join", base | {"buffer": "1500pkt"})], keep=["series"])
    _, y = fair_rate(free, metric="arrival_rate_bps")
    tq, queue = fair_rate(free, metric="queue_packets")
    peak = free.mean("queue_max_packets")
    drained = float(tq[(tq > 16) & (queue < 100)].min()) - 15
    with style():
        figure, axes = new(1, 2, width=10.5, height=3.8)
        draw_flows(axes[0], free, [0, 1], ["x1", "x2"], "RCP: 50 flows join at t = 15 s")
        axes[1].plot(tq, queue, label="RCP, unlimited buffer", **line(0))
        axes[1].set(xlabel="time (s)", ylabel="queue (packets)", title="Queue of the bottleneck")
    offered = y.max() / 1e9
    good = 4.6 < offered < 5.6 and abs(peak / 80_868 - 1) < 0.1 and 6.4 < drained < 8.5
    measured = (
        f"{offered:.2f} Gb/s offered, peak queue {peak:,.0f} packets, drained {drained:.1f} s "
        f"after the "
        f"join; with a "
        f"buffer of one BDP (1,500 packets): {finite.mean('drops'):,.0f} drops, "
        f"{finite.mean('timeouts'):,.0f} "
        f"timeouts, goodput {finite.mean('goodput_bps') / MBPS:.1f} instead of "
        f"{free.mean('goodput_bps') / MBPS:.1f} Mb/s"
    )
    reason = "" if good else "a figure is outside 10 % of the stated one"
    return Finding(good, measured, reason, (lab.save(figure, "P-3"),))


def _staggered(lab: Lab) -> list[RunSet]:
    base = {"flows": 10, "every": "10s", "rtt": "120ms,300ms", "duration": "120s", "sample": "20ms"}
    return lab.sweep([("staggered", base | {"protocol": p}) for p in ("rcp", PIQI_V)], keep=["series"])


def _overshoots(runs: RunSet, capacity: float) -> Array:
    """Largest arrival rate over the capacity in the 2 s after each join."""
    t, y = fair_rate(runs, metric="arrival_rate_bps")
    return np.array([y[(t >= 10 * k) & (t < 10 * k + 2)].max() / capacity for k in range(1, 10)])


def joins(lab: Lab) -> Finding:
    """P-11: ten flows join one by one; shares at the end and overshoot at every join."""
    runs = _staggered(lab)
    spread, over = [], []
    for r in runs:
        rates = np.array([np.mean(tail(*flow_rates(r, f), 110)) for f in range(10)])
        spread.append(float(np.ptp(rates) / rates.mean()))
        over.append(_overshoots(r, 100e6))
    with style():
        figure, axes = new(1, 2, width=10.5, height=3.8, sharey=True)
        for ax, r, name in zip(axes, runs, ("RCP", "PIQI-RCP, 0.95 of bound (35)"), strict=True):
            draw_flows(ax, r, [0, 1, 2, 5, 9], [f"x{f + 1}" for f in (0, 1, 2, 5, 9)], name)
    good = max(spread) < 0.02 and over[0].min() > 1.05 and over[1].max() < over[0].max()
    measured = (
        f"spread of the ten rates {spread[0]:.2%} (RCP), {spread[1]:.2%} (PIQI); arrival rate "
        f"after a join "
        f"{over[0].min():.2f} to {over[0].max():.2f} of the capacity (RCP), {over[1].min():.2f} "
        f"to "
        f"{over[1].max():.2f} (PIQI)"
    )
    reason = "" if good else "shares differ, or RCP does not overshoot at every join"
    return Finding(good, measured, reason, (lab.save(figure, "P-11"),))


def join_queues(lab: Lab) -> Finding:
    """P-12: the queues of the same runs; and PIQI-RCP with slower senders."""
    rcp, ours = _staggered(lab)
    slow = (0.002, 0.97)
    base = {"flows": 10, "every": "10s", "rtt": "120ms,300ms", "duration": "120s", "sample": "20ms"}
    slower = lab.runs("staggered", base | {"protocol": piqi(0.95, ",bound=simple", slow)}, keep=["series"])
    with style():
        figure, (ax,) = new(1, 1)
        for i, (r, name) in enumerate([(rcp, "RCP"), (ours, "PIQI-RCP"), (slower, "PIQI-RCP, tau1 = 0.002")]):
            t, q = fair_rate(r, metric="queue_packets")
            ax.plot(t, q, label=name, **line(i))
        ax.set(xlabel="time (s)", ylabel="queue (packets)", title="A flow joins every 10 s")
        ax.legend()
    peaks = [r.mean("queue_max_packets") for r in (rcp, ours, slower)]
    good = abs(peaks[0] / 3500 - 1) < 0.25 and abs(peaks[1] / 550 - 1) < 0.25
    measured = (
        f"peak queue {peaks[0]:,.0f} packets (RCP), {peaks[1]:,.0f} (PIQI), {peaks[2]:,.0f} "
        f"(PIQI with tau1 "
        f"= "
        f"{slow[0]}, tau2 = {slow[1]})"
    )
    reason = (
        ""
        if good
        else "PIQI's peak is set by how fast a new sender climbs, and the paper leaves tau1, "
        "tau2 open: with "
        "the pair "
        "for which bound (20) is exact it is above the stated one, with slower senders (third "
        "figure) near "
        "or below it"
    )
    return Finding(good, measured, reason, (lab.save(figure, "P-12"),))


def crowd_sizes(lab: Lab) -> Finding:
    """P-13a: N flows join at once, N up to 250."""
    counts = [1, 5, 25, 50, 100, 250] if lab.quick else [1, 5, 10, 25, 50, 75, 100, 150, 200, 250]
    protocols = ["rcp", PIQI_V, piqi(0.95, ",bound=simple", (0.01, 0.1))]
    base = {"duration": "45s", "series": "false", "sample": "1s"}
    points = [("join", base | {"protocol": p, "flows": n}) for p in protocols for n in counts]
    runs = lab.sweep(points)
    peaks = np.array([r.mean("queue_max_packets") for r in runs]).reshape(3, -1)
    with style():
        figure, (ax,) = new(1, 1)
        for i, name in enumerate(["RCP", "PIQI-RCP", "PIQI-RCP, section VI's senders"]):
            ax.plot(counts, peaks[i], label=name, **look(i))
        ax.set(
            yscale="log",
            xlabel="flows joining at t = 15 s",
            ylabel="peak queue (packets)",
            title="Peak queue",
        )
        ax.legend()
    many = np.array(counts) >= 25
    slope = float(np.polyfit(np.log(np.array(counts)[many]), np.log(peaks[0][many]), 1)[0])
    late = peaks[1][many]
    good = peaks[0][-1] > 501_000 and slope > 1 and late.min() > 5_000 and late.max() < 20_000
    measured = (
        f"N = 250: RCP {peaks[0][-1]:,.0f} packets, growing as N^{slope:.2f}; PIQI from N = 25: "
        + ", ".join(f"{v:,.0f}" for v in late)
        + f"; with section VI's senders {peaks[2][-1]:,.0f} at N = 250"
    )
    reason = (
        ""
        if good
        else "RCP holds; PIQI does not level off: in the first round trip, before the router's "
        "answer "
        "arrives, each new "
        "sender has tau1 times the announced capacity, N tau1 C D in all, which grows with N for "
        "any tau1; "
        "up to N = 50 "
        "the peak is set by the rate at which announcements recover and is flat"
    )
    return Finding(good, measured, reason, (lab.save(figure, "P-13a"),))


def completion_times(lab: Lab) -> Finding:
    """P-13b: AFCT at 90 % load; RCP, PIQI-RCP, XCP, TCP, and PS, SRPT, LAS on the same flows as "
    "bounds."""
    seconds = 10 if lab.quick else 40
    capacity, rtt = 2.4e9, 0.1
    base = {"capacity": "2.4Gbps", "access_rate": "24Gbps", "duration": f"{seconds}s"}
    names = ["RCP", "PIQI-RCP", "XCP", "TCP (NewReno)", "RCP, buffer 3,000 packets"]
    protocols = ["rcp", PIQI_V, "xcp", "newreno", "rcp"]
    points = [("poisson", base | {"protocol": p}) for p in protocols]
    points[4] = ("poisson", points[4][1] | {"buffer": "3000pkt"})
    runs = lab.sweep(points, keep=["transfers", "flows"])
    done = [r.tables(0)["transfers"].select("flow", "start_s", "bytes", "fct_s") for r in runs]
    # The same flows for all: those that began in the middle of the run and were complete under each protocol.
    common = done[0].filter((pl.col("start_s") > 2) & (pl.col("start_s") < seconds - 4)).select("flow")
    for table in done[1:]:
        common = common.join(table.select("flow"), on="flow")
    fct = {}
    for name, table in zip(names, done, strict=True):
        fct[name] = common.join(table, on="flow").sort("flow")
    flows = runs[0].tables(0)["flows"].sort("flow")
    start, size = flows["opened_s"].to_numpy(), flows["size_bytes"].to_numpy() * WIRE * 8
    # An ideal scheduler still needs the handshake and the way there and back: two round trips.
    position = np.searchsorted(flows["flow"].to_numpy(), common.sort("flow")["flow"].to_numpy())
    ideal = {
        name: (trace(start, size, capacity) - start)[position] + 2 * rtt
        for name, trace in (
            ("PS", schedulers.ps_trace),
            ("LAS", schedulers.las_trace),
            ("SRPT", schedulers.srpt_trace),
        )
    }
    packets = fct["RCP"]["bytes"].to_numpy() / 944
    edges = np.geomspace(8, 3000, 13)
    which = np.digitize(packets, edges)
    middle = np.sqrt(edges[:-1] * edges[1:])
    with style():
        figure, (ax,) = new(1, 1, width=7.2, height=4.6)
        values = [(n, fct[n]["fct_s"].to_numpy()) for n in names] + list(ideal.items())
        for i, (name, times) in enumerate(values):
            mean = [times[which == b].mean() if (which == b).any() else np.nan for b in range(1, len(edges))]
            ax.plot(middle, np.array(mean) * 1e3, label=name, **look(i))
        ax.set(xscale="log", yscale="log", xlabel="flow size (packets)", ylabel="AFCT (ms)")
        ax.set(title="Load 90 % of 2.4 Gb/s, RTT 100 ms")
        ax.legend(fontsize=8)
    afct = {n: float(np.mean(fct[n]["fct_s"].to_numpy())) * 1e3 for n in names}
    bound = {n: float(v.mean()) * 1e3 for n, v in ideal.items()}
    sizes = schedulers.pareto(30 * 8000, 1.4)  # bits on the wire; the load counts payload
    formula = schedulers.ps_mean(sizes, arrivals=0.9 * capacity / (30 * 944 * 8), capacity=capacity) + 2 * rtt
    good = bound["PS"] <= afct["RCP"] * 1.001 and afct["RCP"] < afct["PIQI-RCP"] < min(
        afct["XCP"], afct[names[3]]
    )
    measured = (
        "AFCT in ms: "
        + ", ".join(f"{n} {v:.0f}" for n, v in afct.items())
        + "; bounds "
        + ", ".join(f"{n} {v:.1f}" for n, v in bound.items())
        + f" ({common.height:,} flows; M/G/1-PS formula "
        f"{formula * 1e3:.1f})"
    )
    reason = "" if good else "the order of the protocols is another one, see the means"
    return Finding(good, measured, reason, (lab.save(figure, "P-13b"),))


def parking_lot(lab: Lab) -> Finding:
    """P-15: shares of three flows on two links against the exact max-min solution."""
    scale = 0.1 if lab.quick else 1.0
    hops = [970 * scale, 800 * scale]
    base = {"hops": ",".join(f"{h:g}Mbps" for h in hops), "sample": "50ms"}
    protocols = ["rcp", PIQI_V, qi(0.5)]
    runs = lab.sweep([("parking-lot", base | {"protocol": p}) for p in protocols], keep=["series"])
    names = ["RCP", "PIQI-RCP", "QI-RCP"]
    worst, shares, over = [], [], []
    for r, gamma in zip(runs, (1.0, 0.95, 0.95), strict=True):
        errors = []
        for window, present in (((25, 30), [0, 1]), ((50, 60), [0, 1, 2])):
            paths = [[[0, 1], [0], [1]][f] for f in present]
            exact = max_min([h * gamma for h in hops], paths).rates
            for f, want in zip(present, exact, strict=True):
                t, rate = flow_rates(r, f)
                got = rate[(t > window[0]) & (t <= window[1])].mean() * WIRE / MBPS
                errors.append(abs(got / want - 1))
                if len(present) == 3:
                    shares.append(got / gamma / scale)
        worst.append(max(errors))
        peak = []
        for p, h in zip(ports(r), hops, strict=True):
            t, y = series(r, "port", p, "arrival_rate_bps")
            peak.append(tail(t, y, 14).max() / (h * MBPS))
        over.append(max(peak))
    with style():
        figure, axes = new(1, 2, width=10.5, height=3.8, sharey=True)
        for ax, r, name in zip(axes, runs[:2], names[:2], strict=True):
            draw_flows(ax, r, [0, 1, 2], ["x1", "x2", "x3"], f"{name}, {hops[0]:g} and {hops[1]:g} Mb/s")
    good = max(worst) < 0.01 and over[1] < over[0]
    measured = (
        "largest distance from max-min "
        + ", ".join(f"{w:.2%} ({n})" for w, n in zip(worst, names, strict=True))
        + "; final shares x1, x2, x3 in Mb/s of 970/800 "
        + ", ".join(f"{s:.0f}" for s in shares[:3])
        + " (RCP), "
        + ", ".join(f"{s:.0f}" for s in shares[3:6])
        + f" (PIQI, over gamma); largest arrival rate after a join {over[0]:.2f} (RCP), "
        f"{over[1]:.2f} (PIQI) "
        f"of capacity"
    )
    reason = "" if good else "a share is more than 1 % from max-min, or PIQI overshoots more than RCP"
    return Finding(good, measured, reason, (lab.save(figure, "P-15"),))


def header_and_work(lab: Lab) -> Finding:
    """P-hdr: bytes on the wire and arithmetic per packet, counted in a run."""
    names = {"RCP": "rcp:work=true", "QI-RCP": "qi-rcp:work=true", "PIQI-RCP": "piqi-rcp:work=true"}
    names["XCP"] = "xcp:work=true"
    # One steady flow: every packet measured is a full one.
    base = {"flows": 1, "warmup": "5s", "duration": "10s"}
    runs = lab.sweep(
        [("staggered", base | {"protocol": p}) for p in names.values()], keep=["series", "ports"]
    )
    plain = lab.runs("staggered", base | {"protocol": "newreno"}, keep=["series", "ports"])
    rows = {}
    for name, r in zip(names, runs, strict=True):
        rows[name] = [_per_packet(r) - _per_packet(plain)] + [
            series(r, "port", ports(r)[0], f"{what}_per_packet")[1][-1]
            for what in ("additions", "multiplications", "comparisons")
        ]
    measured = "header bytes, additions, multiplications, comparisons per packet: " + "; ".join(
        f"{n} {v[0]:.0f}, {v[1]:.2f}, {v[2]:.2f}, {v[3]:.2f}" for n, v in rows.items()
    )
    rcp, xcp = rows["RCP"], rows["XCP"]
    sizes = round(rcp[0]) == 16 and round(xcp[0]) == 20
    good = sizes and round(rcp[1]) == 2 and round(rcp[2]) == 2 and round(xcp[1]) == 6 and round(xcp[2]) == 3
    reason = (
        ""
        if good
        else "sizes and additions agree; of XCP's 8 multiplications four form rtt s / cwnd (at "
        "arrival and"
        " departure) and one weighs the mean RTT, the other three are the stated ones; RCP's "
        "mean RTT needs one per"
        " packet when it is divided once per interval. That RCP does less than XCP holds"
    )
    return Finding(good, measured, reason)


def _per_packet(runs: RunSet) -> float:
    """Mean wire length of a full data packet at the bottleneck, in bytes."""
    port = runs.tables(0)["ports"].row(0, named=True)
    carried = port["utilisation"] * port["rate_bps"] * runs.mean("measured_s") / 8
    return float(carried / port["packets_departed"])


_PAPER = "piqi-rcp"
TRANSIENT_ROWS = [
    Row(
        "P-3",
        _PAPER,
        "RCP: 50 flows join one (Fig 3)",
        "5.1 Gb/s offered for one RTT, peak queue 80,868 packets, about 7.5 s to drain",
        flash_crowd,
    ),
    Row(
        "P-11",
        _PAPER,
        "RCP and PIQI-RCP, unlike RTTs (Fig 11)",
        "fair for both; RCP overshoots at every join",
        joins,
    ),
    Row(
        "P-12",
        _PAPER,
        "Queue of the same (Fig 12)",
        "peak queue near 3,500 packets (RCP), 550 (PIQI)",
        join_queues,
    ),
    Row(
        "P-13a",
        _PAPER,
        "Peak queue over joining flows (Fig 13a)",
        "RCP over 501,000 packets at N = 250, super-linear; PIQI levels off near 10,000 after N = 25",
        crowd_sizes,
    ),
    Row(
        "P-13b",
        _PAPER,
        "Completion times (Fig 13b)",
        "RCP best, PIQI next, better than XCP and TCP; PS as the bound",
        completion_times,
    ),
    Row(
        "P-15",
        _PAPER,
        "Parking lot (Fig 15)",
        "x1 = x2 = 485, then x1 = x3 = 400, x2 the rest; smaller transients with PIQI",
        parking_lot,
    ),
    Row(
        "P-hdr",
        _PAPER,
        "Headers and router work (section III)",
        "RCP 16 B, XCP 20 B; 2 additions and 2 multiplications against 6 and 3",
        header_and_work,
    ),
]
