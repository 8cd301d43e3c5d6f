"""Incast beside pause frames (table 3); no fixed point, the patched form's and its limit (CoNEXT 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock.models.rdma import Timely
from penstock.network import Network
from penstock.runs import Run
from penstock.workloads import Flows
from penstock_papers.experiments.lossless import (
    after_warmup,
    chosen,
    delivered,
    point,
    samples,
    seconds,
    star,
)
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

PAPER = "timely"
CHOSEN = chosen(__file__)
CAPACITY = 1.25e6
"""Packets of 1 KB per second at 10 Gb/s."""
FULL_PACKET = 1044.0


def law(at: Mapping[str, Any], patched: bool = False) -> str:
    """TIMELY as `protocol`."""
    keys = {"t_low": "t_low", "t_high": "t_high", "rate_ai": "increase", "segment": "segment"}
    text = ",".join(f"{key}={at[f'timely.{name}']}" for key, name in keys.items())
    return f"timely:{text}" + (f",patched=true,beta={at['fluid.beta_patched']}" if patched else "")


# ---- table 3 ----------------------------------------------------------------------------------------------


def round_trips(run: Run) -> dict[str, float]:
    """Mean and 99th percentile of the RTT that the bottleneck's queue makes, us: idle path and waiting."""
    link = 1e9 * float(str(CHOSEN["network.bond"]).removesuffix("Gbps"))
    queue = samples(run, "queue_bytes", after=after_warmup(run))["value"].to_numpy()
    idle = 4e6 * seconds(str(CHOSEN["network.delay"])) + 1e6 * 8 * FULL_PACKET * (1 / 10e9 + 1 / link)
    rtt = idle + 1e6 * 8 * queue / link
    return {"rtt_mean_us": float(rtt.mean()), "rtt_p99_us": float(np.percentile(rtt, 99))}


def _bond(at: Mapping[str, Any], protocol: str, duration: str) -> Any:
    hosts = [f"h{i}" for i in range(int(at["network.clients"]))]
    network = Network(hosts=[*hosts, "sink"], switches="s", name="bond")
    network.link(hosts, "s", at["network.rate"], at["network.delay"])
    network.link("sink", "s", at["network.bond"], at["network.delay"])
    return point(
        network,
        [Flows(hosts, "sink", spread="1ms")],
        protocol=protocol,
        buffer=f"shared:alpha=1,size={at['network.buffer']}",
        warmup="50ms",
        duration=duration,
        sample="20us",
        series=True,
        series_flows=0,
        bottleneck="s->sink",
    )


MEAN_US, P99_US = 61.5, 116.9
"""Round trips of table 3 with TIMELY, us."""

WEAKER = {"mean": 3, "p99": 4}
"""What the decrease by the gradient is divided by where a cause of either number is looked for."""


def _table(lab: Lab, at: Mapping[str, Any], runs: int, duration: str) -> dict[str, Any]:
    weak = [f"{law(at)},beta={float(at['timely.beta']) / by:g}" for by in WEAKER.values()]
    points = [_bond(at, protocol, duration) for protocol in ("roce", law(at), *weak)]
    pfc, timely, *weaker = lab.sweep(points, runs=runs, keep=("series",), derive=round_trips)
    return {
        "weaker": {
            key: {
                "throughput": Estimate.of(found.values("utilisation") / pfc.values("utilisation")),
                "mean": Estimate.of(found.values("rtt_mean_us")),
                "p99": Estimate.of(found.values("rtt_p99_us")),
            }
            for key, found in zip(WEAKER, weaker, strict=True)
        },
        "throughput": Estimate.of(timely.values("utilisation") / pfc.values("utilisation")),
        "mean": Estimate.of(timely.values("rtt_mean_us")),
        "p99": Estimate.of(timely.values("rtt_p99_us")),
        "PFC p99": Estimate.of(pfc.values("rtt_p99_us")),
        "tail": Estimate.of(pfc.values("rtt_p99_us") / timely.values("rtt_p99_us")),
    }


def _measure_table(lab: Lab) -> Measurement:
    found = _table(lab, CHOSEN, lab.replications(4, 1), lab.pick("250ms", "100ms"))
    run = lab.sweep([_bond(CHOSEN, law(CHOSEN), "60ms")], keep=("series",))[0].runs[0]
    curve = samples(run, "queue_bytes")
    return {**found, "curve": {"ms": curve["time_s"].to_numpy() * 1e3, "KB": curve["value"].to_numpy() / 1e3}}


def _draw_table(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, axes = figures.new(1, 2, width=9.0, height=3.6)
        axes[0].plot(m["curve"]["ms"], m["curve"]["KB"], linewidth=0.7, color=figures.PALETTE[0])
        axes[0].set(xlabel="time (ms)", ylabel="queue (KB)", title="TIMELY, ten to one", ylim=(0, None))
        names, values = ("mean", "99 %"), (m["mean"].mean, m["p99"].mean)
        axes[1].bar((0, 1), values, 0.35, color=figures.PALETTE[0], label="TIMELY")
        axes[1].bar((0.38, 1.38), (MEAN_US, P99_US), 0.35, color=figures.PALETTE[2], label="stated")
        axes[1].set(xticks=(0.19, 1.19), ylabel="RTT (us)", title="Table 3")
        axes[1].set_xticklabels(names)
        axes[1].legend()
    return [lab.save(figure, "timely-table3")]


TIMELY_3 = Row(
    "TIMELY-T3",
    "Ten clients, one server: pause frames and TIMELY (section 6.1, table 3)",
    measure=_measure_table,
    draw=_draw_table,
    matters=("network.delay", "network.buffer", "timely.segment"),
    probe=lambda lab, settings: _table(lab, {**CHOSEN, **settings}, 1, "80ms"),
    cheap=True,
)

# ---- no fixed point ---------------------------------------------------------------------------------------

STARTS = (0.5, 0.7)
LENGTH, SMALLEST = 0.2, 0.01


def _fluid(patched: bool, start: float, beta: float, length: float = LENGTH) -> tuple[float, Any]:
    """Share of the first flow over the last quarter, and the curve of its share of the link."""
    model = Timely(patched=patched, beta=beta if patched else None)
    path = model.solve(length, rates=[start * CAPACITY, (1 - start) * CAPACITY], step=4e-6)
    rates = path.rates[path.t > 0.75 * length].mean(axis=0)
    return float(rates[0] / rates.sum()), path.rates[::100, 0] / CAPACITY


def _packets(at: Mapping[str, Any], patched: bool, duration: str) -> Any:
    flows = [Flows("h0", "sink"), Flows("h1", "sink", start=at["fluid.late"])]
    return star(
        2,
        at["network.rate"],
        at["network.delay"],
        flows,
        protocol=law(at, patched),
        warmup=f"{0.6 * seconds(duration) * 1e3:g}ms",
        duration=duration,
        sample="100us",
        series=True,
    )


def first_share(run: Run) -> dict[str, float]:
    """Share of the first flow in what was delivered."""
    first, second = delivered(run)
    return {"first_share": float(first / (first + second))}


def _shares(lab: Lab, at: Mapping[str, Any], duration: str, solved: float = LENGTH) -> dict[str, Any]:
    beta = float(at["fluid.beta_patched"])
    fluid = {
        name: [_fluid(p, s, beta, solved) for s in STARTS]
        for name, p in (("published", False), ("patched", True))
    }
    points = [_packets(at, patched, duration) for patched in (False, True)]
    runs = lab.sweep(points, keep=("flows", "series"), derive=first_share)
    apart = {name: [share for share, _ in found] for name, found in fluid.items()}
    return {
        "fluid": apart,
        "remembered": abs(apart["published"][1] - apart["published"][0]),
        "forgotten": abs(apart["patched"][1] - apart["patched"][0]),
        "curves": {name: [curve for _, curve in found] for name, found in fluid.items()},
        "packets": {n: float(r.mean("first_share")) for n, r in zip(fluid, runs, strict=True)},
    }


def _measure_shares(lab: Lab) -> Measurement:
    length, solved = lab.pick(("400ms", LENGTH), ("200ms", LENGTH), ("30ms", SMALLEST))
    found = {**_shares(lab, CHOSEN, length, solved), "solved": solved}
    run = lab.sweep([_packets(CHOSEN, True, length)], keep=("series",))[0].runs[0]
    found["rates"] = {
        str(i): samples(run, "rate_bps", i)["value"].to_numpy()[:: lab.pick(4, 2)] / 1e9 for i in (0, 1)
    }
    return found


def _draw_shares(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, axes = figures.new(1, 3, width=11.0, height=3.4)
        for ax, name in zip(axes, ("published", "patched"), strict=False):
            for i, (start, curve) in enumerate(zip(STARTS, m["curves"][name], strict=True)):
                curve = np.asarray(curve, float)
                when = np.linspace(0, m["solved"] * 1e3, len(curve))
                ax.plot(when, curve, label=f"begins at {start:.0%}", **figures.line(i))
            ax.set(title=f"fluid, {name}", xlabel="time (ms)", ylim=(0, 1))
            ax.legend(fontsize=8)
        axes[0].set_ylabel("first flow's share of the link")
        for i in (0, 1):
            curve = np.asarray(m["rates"][str(i)], float)
            axes[2].plot(curve, linewidth=0.6, color=figures.PALETTE[i], label=f"flow {i + 1}")
        axes[2].set(title="packets, patched", xlabel="sample", ylabel="rate (Gb/s)", ylim=(0, 10.5))
        axes[2].legend(fontsize=8)
    return [lab.save(figure, "timely-fixed-point")]


TIMELY_C9 = Row(
    "TIMELY-C9",
    "TIMELY has no unique fixed point, patched TIMELY has (CoNEXT 2016, theorems 3 to 5, Fig 9)",
    measure=_measure_shares,
    draw=_draw_shares,
    matters=("timely.segment", "network.delay"),
    probe=lambda lab, settings: _shares(lab, {**CHOSEN, **settings}, "100ms"),
)

# ---- patched: the fixed point and its limit ---------------------------------------------------------------

FLOWS = (2, 4, 8, 16)
FEW = 10
# Seconds of a solution, and from when on it is looked at.
STEADY = (0.3, 0.2)


def _patched(at: Mapping[str, Any], flows: int) -> Timely:
    return Timely(flows=flows, patched=True, beta=float(at["fluid.beta_patched"]))


def _swing(at: Mapping[str, Any], flows: int, length: float, after: float) -> float:
    model = _patched(at, flows)
    rates = np.full(flows, CAPACITY / flows) * np.linspace(0.99, 1.01, flows)
    path = model.solve(length, rates=rates, step=4e-6)
    queue = path.queue[path.t > after]
    return float(queue.std() / max(queue.mean(), 1.0))


def _crowd(
    lab: Lab, at: Mapping[str, Any], runs: int, duration: str, solved: tuple[float, float] = STEADY
) -> dict[str, Any]:
    rate, delay = at["network.rate"], at["network.delay"]
    warmup = f"{0.6 * seconds(duration) * 1e3:g}ms"
    more = {"protocol": law(at, True), "warmup": warmup, "duration": duration}
    sets = lab.sweep([star(n, rate, delay, **more) for n in FLOWS], runs=runs)
    idle = 4e6 * seconds(str(delay)) + 1e6 * 8 * FULL_PACKET / 10e9
    low = 1e6 * seconds(str(at["timely.t_low"]))
    model = [low * _patched(at, n).fixed_point() / (CAPACITY * low * 1e-6) for n in FLOWS]
    found = [s.values("queue_mean_bytes") * 8 / 10e9 * 1e6 + idle for s in sets]
    return {
        "rtt": [Estimate.of(v) for v in found],
        "model": model,
        "over model": [Estimate.of(v / x) for v, x in zip(found, model, strict=True)],
        "few": _swing(at, FEW, *solved),
        "many": _swing(at, int(at["fluid.many"]), *solved),
    }


def _measure_crowd(lab: Lab) -> Measurement:
    runs = lab.replications(4, 1)
    return _crowd(lab, CHOSEN, runs, *lab.pick(("600ms", STEADY), ("250ms", STEADY), ("20ms", (0.01, 0.005))))


def _draw_crowd(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        ax.plot(FLOWS, m["model"], label="fixed point, equation 31", **figures.line(1))
        half = [(e.high - e.low) / 2 for e in m["rtt"]]
        figures.band(ax, FLOWS, [e.mean for e in m["rtt"]], half, "packets", 0)
        ax.set(xlabel="flows N", ylabel="mean RTT (us)", title="Patched TIMELY", ylim=(0, None))
        ax.legend()
    return [lab.save(figure, "timely-patched")]


TIMELY_C11 = Row(
    "TIMELY-C11",
    "Patched TIMELY: the queue grows with the flows, many are not stable (CoNEXT 2016, theorem 5, Fig 11)",
    measure=_measure_crowd,
    draw=_draw_crowd,
    matters=("timely.segment", "network.delay", "fluid.many"),
    probe=lambda lab, settings: _crowd(lab, {**CHOSEN, **settings}, 1, "150ms"),
)

ROWS: list[Row] = [TIMELY_3, TIMELY_C9, TIMELY_C11]
