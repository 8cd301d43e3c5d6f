"""Incasts of DCQCN: throughput of K to 1 (section 6.1) and the queue of 20 to 1 beside DCTCP's (Fig 19)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock import figures
from penstock_papers.experiments.dcqcn.setup import CHOSEN, fluid, protocol
from penstock_papers.experiments.lossless import queue_tails, samples, star
from penstock_papers.ledger import Cause, Estimate, Lab, Measurement, Row

SENDERS = (2, 5, 10, 15, 20)
# Section 6.1.
LEAST_BPS = 39e9


def _incast(k: int, at: Mapping[str, Any], law: str, **more: Any) -> Any:
    return star(
        k,
        at["network.rate"],
        at["network.delay"],
        protocol=law,
        buffer=f"shared:alpha=1,size={at['network.buffer']}",
        **{"warmup": at["runs.warmup"], **more},
    )


def _throughput(
    lab: Lab, at: Mapping[str, Any], senders: tuple[int, ...], runs: int, length: str
) -> dict[str, Any]:
    sets = lab.sweep([_incast(k, at, protocol("deployed", at), duration=length) for k in senders], runs=runs)
    return {
        "K": list(senders),
        "link": [Estimate.of(s.values("utilisation") * 40) for s in sets],
        "pauses": [Estimate.of(s.values("pauses")) for s in sets],
        "queue": [Estimate.of(s.values("queue_mean_bytes") / 1e3) for s in sets],
    }


def _measure_throughput(lab: Lab) -> Measurement:
    length, late = lab.pick(("220ms", "420ms"), ("60ms", "120ms"), ("22ms", "24ms"))
    found = _throughput(lab, CHOSEN, SENDERS, lab.replications(4, 1), length)
    # Is it still on its way? The same from later on.
    later = _throughput(lab, {**CHOSEN, "runs.warmup": length}, SENDERS, lab.replications(4, 1), late)
    steep = {**CHOSEN, "dcqcn.pmax": 10 * CHOSEN["dcqcn.pmax"]}
    return {
        **found,
        "later": later["link"],
        "steep": _throughput(lab, steep, (20,), lab.replications(4, 1), length)["link"][0],
        "p": [fluid("deployed", flows=k).fixed_point()[0] for k in SENDERS],
    }


def _short(m: Measurement) -> list[int]:
    """Which numbers of senders stay below what is stated."""
    return [i for i, e in enumerate(m["link"]) if e.mean < LEAST_BPS / 1e9]


def _draw_throughput(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        for i, (key, text) in enumerate((("link", "from 20 ms on"), ("later", "later"))):
            ax.plot(m["K"], [e.mean for e in m[key]], label=text, **figures.look(i))
        ax.axhline(LEAST_BPS / 1e9, color=figures.INK, linewidth=0.8, linestyle=":")
        ax.set(
            xlabel="senders K",
            ylabel="link (Gb/s)",
            title="Section 6.1: K to 1, stated above 39 Gb/s",
            ylim=(0, 41),
        )
        ax.legend()
    return [lab.save(figure, "dcqcn-incast")]


DCQCN_61 = Row(
    "DCQCN-6.1",
    "K senders to one receiver (section 6.1)",
    measure=_measure_throughput,
    draw=_draw_throughput,
    causes=(
        Cause(
            "the 20 ms after the start are not the end of convergence: later the link is fuller",
            holds=lambda m: all(
                b.mean > a.mean + 0.3 for a, b in zip(m["link"], m["later"], strict=True) if a.mean < 39
            ),
            evidence=lambda m: ", ".join(
                f"K = {k}: {a.mean:.1f}, later {b.mean:.1f} Gb/s"
                for k, a, b in zip(m["K"], m["link"], m["later"], strict=True)
            ),
            of=("throughput",),
        ),
        Cause(
            "of so many flows the fixed point of the fluid model lies near pmax or beyond, where the line "
            "jumps to 1; on a steeper line the link of the most flows is full",
            holds=lambda m: (
                all(m["p"][i] > 0.5 * CHOSEN["dcqcn.pmax"] for i in _short(m))
                and m["steep"].mean >= LEAST_BPS / 1e9
            ),
            evidence=lambda m: (
                f"p* of K = {m['K']} is {', '.join(f'{p:.4f}' for p in m['p'])}, pmax "
                f"{CHOSEN['dcqcn.pmax']}; 20 to 1 on the steep line: {m['steep'].mean:.1f} Gb/s"
            ),
            of=("throughput",),
        ),
    ),
    matters=("network.delay",),
    probe=lambda lab, settings: _throughput(lab, {**CHOSEN, **settings}, (2, 20), 1, "60ms"),
)


def _tails(lab: Lab, at: Mapping[str, Any], runs: int, length: str) -> dict[str, Any]:
    sampled = {"sample": "10us", "series": True, "series_flows": 0, "duration": length}
    dctcp = {
        **sampled,
        "queue": f"threshold:k={at['dctcp.k']}",
        "processing_delay": "0s",
        "receive_delay": f"{float(str(at['dctcp.rtt']).removesuffix('us')) / 2}us",
        "segment": "1460B",
        "rto_min": "10ms",
    }
    points = [_incast(20, at, protocol("deployed", at), **sampled), _incast(20, at, "dctcp", **dctcp)]
    sets = lab.sweep(points, runs=runs, keep=("series",), derive=queue_tails)
    p90 = [s.values("queue_p90_bytes") / 1e3 for s in sets]
    return {
        "p90": {name: Estimate.of(v) for name, v in zip(("DCQCN", "DCTCP"), p90, strict=True)},
        "p50": {
            n: Estimate.of(s.values("queue_p50_bytes") / 1e3)
            for n, s in zip(("DCQCN", "DCTCP"), sets, strict=True)
        },
        "DCTCP over DCQCN": Estimate.of(p90[1] / np.maximum(p90[0], 1.0)),
    }


def _measure_tails(lab: Lab) -> Measurement:
    found = _tails(lab, CHOSEN, lab.replications(4, 1), lab.pick("120ms", "60ms"))
    sampled = {"sample": "20us", "series": True, "series_flows": 0, "duration": "40ms"}
    run = lab.sweep([_incast(20, CHOSEN, protocol("deployed"), **sampled)], keep=("series",))[0].runs[0]
    curve = samples(run, "queue_bytes")
    steep = {**CHOSEN, "dcqcn.pmax": 10 * CHOSEN["dcqcn.pmax"]}
    found["steep"] = _tails(lab, steep, lab.replications(4, 1), lab.pick("120ms", "60ms"))["p90"]["DCQCN"]
    found["p"] = fluid("deployed", flows=20).fixed_point()[0]
    return {**found, "curve": {"ms": curve["time_s"].to_numpy() * 1e3, "KB": curve["value"].to_numpy() / 1e3}}


def _draw_tails(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new()
        ax.plot(
            m["curve"]["ms"],
            m["curve"]["KB"],
            label="DCQCN, 20 to 1",
            linewidth=0.8,
            color=figures.PALETTE[0],
        )
        for i, (name, value, stated) in enumerate(
            (("DCQCN", m["p90"]["DCQCN"].mean, 76.6), ("DCTCP", m["p90"]["DCTCP"].mean, 162.9))
        ):
            ax.axhline(value, color=figures.PALETTE[i], linewidth=1.2, label=f"{name}: 90 % of samples below")
            ax.axhline(
                stated, color=figures.PALETTE[i], linewidth=1.2, linestyle=":", label=f"{name}: stated"
            )
        ax.set(xlabel="time (ms)", ylabel="queue (KB)", title="Fig 19: queue of 20 to 1", ylim=(0, 400))
        ax.legend(fontsize=8)
    return [lab.save(figure, "dcqcn-fig19")]


DCQCN_19 = Row(
    "DCQCN-19",
    "Queue of 20 senders to one, DCQCN and DCTCP (Fig 19)",
    measure=_measure_tails,
    draw=_draw_tails,
    matters=("network.delay", "dctcp.rtt"),
    probe=lambda lab, settings: _tails(lab, {**CHOSEN, **settings}, 1, "50ms"),
    cheap=True,
)
