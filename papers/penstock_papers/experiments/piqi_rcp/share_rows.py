"""Max-min shares (Fig 15), headers and router work (section III)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.models.maxmin import max_min
from penstock.runs import RunSet
from penstock_papers.experiments.piqi_rcp import setup
from penstock_papers.experiments.piqi_rcp.operations import counted
from penstock_papers.ledger import Cause, Lab, Measurement, Row

# ---- P-15 -------------------------------------------------------------------------------------------------

HOPS = (970.0, 800.0)
PATHS = ([0, 1], [0], [1])
# After every join but the last, and at the end: seconds, and the flows that are there.
WINDOWS = {"one": ((10, 15), [0]), "two": ((25, 30), [0, 1]), "three": ((50, 60), [0, 1, 2])}
LAST_JOIN = 30.0


def _lot(lab: Lab, scale: float, protocols: Sequence[str], links: Sequence[float] = HOPS) -> list[RunSet]:
    hops = ",".join(f"{h * scale:g}Mbps" for h in links)
    points = [("parking-lot", {"hops": hops, "sample": "50ms", "protocol": p}) for p in protocols]
    return lab.sweep(points, keep=["series"])


def _settling(runs: RunSet) -> float:
    """Seconds from the last join until x1 and x3 stay within 5 % of their final rates."""
    last = 0.0
    for flow in (0, 2):
        t, rate = setup.flow_rates(runs, flow)
        final = float(setup.tail(t, rate, WINDOWS["three"][0][0]).mean())
        away = t[(t > LAST_JOIN) & (np.abs(rate / final - 1) > 0.05)]
        last = max(last, float(away[-1]) - LAST_JOIN if away.size else 0.0)
    return last


def _lot_numbers(runs: RunSet, aim: float, scale: float) -> dict[str, Any]:
    """Rates in Mb/s of the paper's links over the share aimed at, their distance from max-min, transients."""
    rates, off = {}, 0.0
    for name, ((begin, end), present) in WINDOWS.items():
        exact = max_min([h * aim for h in HOPS], [PATHS[f] for f in present]).rates
        got = []
        for f, want in zip(present, exact, strict=True):
            t, rate = setup.flow_rates(runs, f)
            mbps = float(rate[(t > begin) & (t <= end)].mean()) * setup.WIRE / setup.MBPS / scale
            off = max(off, abs(mbps / want - 1))
            got.append(mbps / aim)
        rates[name] = got
    peaks = []
    for p, h in zip(setup.ports(runs), HOPS, strict=True):
        t, y = setup.sampled(runs, "arrival_rate_bps", p)
        peaks.append(float(setup.tail(t, y, 14).max()) / (h * scale * setup.MBPS))
    return {"rates": rates, "off": off, "overshoot": max(peaks) - 1, "settling": _settling(runs)}


def _lot_pair(runs: Sequence[RunSet], gamma: float, scale: float) -> dict[str, Any]:
    return {"RCP": _lot_numbers(runs[0], 1.0, scale), "PIQI-RCP": _lot_numbers(runs[1], gamma, scale)}


# Senders that close more of their gap per interval than those of the paper.
NIMBLE: dict[str, Any] = {"tau1": 0.05, "tau2": 0.88}


def _measure_lot(lab: Lab) -> Measurement:
    small = float(setup.CHOSEN["parking_lot.quick_scale"])
    scale = lab.pick(1.0, small, 0.3 * small)
    runs = _lot(lab, scale, (setup.rcp(), setup.simple(), setup.simple(**NIMBLE)))
    return {
        **_lot_pair(runs, float(setup.CHOSEN["routers.gamma"]), scale),
        "settling of nimbler senders": _settling(runs[2]),
        "traces": {
            name: setup.traces(r, (0, 1, 2)) for name, r in zip(("RCP", "PIQI-RCP"), runs, strict=False)
        },
    }


def _probe_lot(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    chosen = setup.at(settings)
    runs = _lot(lab, float(chosen["parking_lot.quick_scale"]), (setup.rcp(chosen), setup.simple(chosen)))
    return _lot_pair(runs, float(chosen["routers.gamma"]), float(chosen["parking_lot.quick_scale"]))


def _draw_lot(m: Measurement, lab: Lab) -> list[Path]:
    return [
        setup.over_time(lab, f"P-15-{name.lower()}", found, f"{name} on two links")
        for name, found in m["traces"].items()
    ]


P_15 = Row(
    "P-15",
    "Parking lot (Fig 15)",
    measure=_measure_lot,
    draw=_draw_lot,
    matters=(*setup.SENDERS, "routers.gamma", "routers.mean_rtt", "routers.rtt_average", *setup.START),
    probe=_probe_lot,
)

# ---- P-hdr ------------------------------------------------------------------------------------------------

WORK = ("additions", "multiplications", "comparisons")
STATED = {"RCP": {"additions": 2, "multiplications": 2}, "XCP": {"additions": 6, "multiplications": 3}}


def _per_packet(runs: RunSet) -> float:
    """Mean wire length of a full data packet at the bottleneck, in bytes."""
    port = runs.tables(0)["ports"].row(0, named=True)
    carried = port["utilisation"] * port["rate_bps"] * runs.mean("measured_s") / 8
    return float(carried / port["packets_departed"])


def _work(runs: RunSet) -> dict[str, float]:
    """Operations per packet at the bottleneck's router."""
    return {
        what: float(setup.series(runs, "port", setup.ports(runs)[0], f"{what}_per_packet")[1][-1])
        for what in WORK
    }


def _measure_work(lab: Lab) -> Measurement:
    protocols = {
        "RCP": setup.rcp(work="true"),
        "RCP, over bytes": setup.rcp(work="true", mean="bytes"),
        "PIQI-RCP": setup.simple(work="true"),
        "XCP": "xcp:work=true",
    }
    # One steady flow: every packet measured is a full one.
    base = {"flows": 1, "warmup": "5s", "duration": "10s"}
    points = [("staggered", {**base, "protocol": p}) for p in (*protocols.values(), "newreno")]
    *runs, plain = lab.sweep(points, keep=["series", "ports"])
    named = dict(zip(protocols, runs, strict=True))
    return {
        "header": {name: _per_packet(r) - _per_packet(plain) for name, r in named.items()},
        "work": {name: _work(r) for name, r in named.items()},
        "counted": counted(),
    }


def _probe_work(lab: Lab, settings: Mapping[str, Any]) -> Measurement:
    protocols = {"RCP": setup.rcp(setup.at(settings), work="true"), "XCP": "xcp:work=true"}
    base = {"flows": 1, "warmup": "2s", "duration": "3s"}
    points = [("staggered", {**base, "protocol": p}) for p in (*protocols.values(), "newreno")]
    *runs, plain = lab.sweep(points, keep=["series", "ports"])
    named = dict(zip(protocols, runs, strict=True))
    return {
        "header": {name: _per_packet(r) - _per_packet(plain) for name, r in named.items()},
        "work": {name: _work(r) for name, r in named.items()},
    }


def _read_so(name: str, reading: str, check: str, text: str, of: Sequence[str]) -> Cause:
    """Another form of a router's formulas takes what is stated, counted as the engine's own are."""

    def holds(m: Measurement) -> bool:
        whats = ("additions", "multiplications")
        as_run = all(abs(m["counted"][check][what] - m["work"][check][what]) <= 0.5 for what in whats)
        return as_run and all(m["counted"][reading][what] == STATED[name][what] for what in whats)

    def told(done: Mapping[str, float]) -> str:
        return f"{done['additions']:.0f} additions, {done['multiplications']:.0f} multiplications"

    return Cause(
        text,
        holds=holds,
        evidence=lambda m: (
            f"{reading}: {told(m['counted'][reading])}; {check}, on formulas: {told(m['counted'][check])}; "
            f"{check}, in the simulated router: {told(m['work'][check])}"
        ),
        of=tuple(of),
    )


def less_work(m: Measurement) -> float:
    """Operations per packet that RCP has less than XCP."""
    return float(sum(m["work"]["XCP"].values()) - sum(m["work"]["RCP"].values()))


def work_in_words(m: Measurement) -> str:
    """Operations per packet of each controller."""
    each = "; ".join(
        f"{name} " + ", ".join(f"{x:.2f}" for x in done.values()) for name, done in m["work"].items()
    )
    return f"additions, multiplications, comparisons: {each}"


P_HDR = Row(
    "P-hdr",
    "Headers and router work (section III)",
    measure=_measure_work,
    causes=(
        _read_so(
            "RCP",
            "RCP, running average",
            "RCP, over bytes",
            "the stated counts are those of a running average of the round trip, formed packet by packet",
            ("additions-rcp", "multiplications-rcp"),
        ),
        _read_so(
            "XCP",
            "XCP, time per packet",
            "XCP",
            "the stated counts are those of the form of XCP whose header has the time per packet ready and "
            "whose feedback is a rate; with window and round trip in the header a router forms both itself",
            ("additions-xcp", "multiplications-xcp"),
        ),
    ),
    matters=("routers.mean_rtt",),
    probe=_probe_work,
    cheap=True,
)

SHARE_ROWS = [P_15, P_HDR]
