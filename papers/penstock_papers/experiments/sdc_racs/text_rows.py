"""What the text states beside its figures: scheduling, the AIMD model, timeouts, long and short flows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from penstock.models import aimd, schedulers
from penstock.runs import RunSet
from penstock_papers.experiments.sdc_racs.model import shares
from penstock_papers.experiments.sdc_racs.setup import (
    CHOSEN,
    LINK_BPS,
    RACS,
    RCP,
    REQUESTS,
    SACK,
    SDC,
    Contender,
    contenders,
    sdc,
)
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

RTT = float(CHOSEN["simulation.rtt_s"])

# ---- scheduling (section 1.3) -----------------------------------------------------------------------------

LOADS = (0.5, 0.9, 0.99, 0.999)
# Loads from here on are heavy.
HEAVY = 0.9


def measure_scheduling(lab: Lab) -> Measurement:
    """Mean completion times of flows as in the benchmark, Pareto of shape 1.2, in one server, by load."""
    sizes = schedulers.pareto(25e3, 1.2)

    def mean(rule: Any, load: float) -> float:
        return float(rule(sizes, arrivals=load * LINK_BPS / 8 / 25e3, capacity=LINK_BPS / 8))

    ps, las, srpt = (
        [mean(rule, load) for load in LOADS]
        for rule in (schedulers.ps_mean, schedulers.las_mean, schedulers.srpt_mean)
    )
    return {
        "loads": list(LOADS),
        "SRPT over PS": [s / p for s, p in zip(srpt, ps, strict=True)],
        "SRPT over LAS": [s / f for s, f in zip(srpt, las, strict=True)],
        # Where LAS comes closest.
        "SRPT over LAS, nearest": max(s / f for s, f in zip(srpt, las, strict=True)),
        "LAS over PS": [f / p for f, p in zip(las, ps, strict=True)],
        # How the gain of SRPT over PS grows from one heavy load to the next.
        "gain grows by": [
            (ps[i + 1] / srpt[i + 1]) / (ps[i] / srpt[i])
            for i, load in enumerate(LOADS[:-1])
            if load >= HEAVY
        ],
    }


# ---- the AIMD model (section 3.4) -------------------------------------------------------------------------


def measure_model(lab: Lab) -> Measurement:
    """Where (3.7) ends from unlike starts, and how many flows three classes complete for each of one."""
    out = shares(float(CHOSEN["model.gain_ac"]), float(CHOSEN["model.gain_bc"]))
    alpha, beta = out.alpha, out.beta
    pipe = LINK_BPS * RTT / (8 * 1500)
    total = pipe + alpha.sum()
    starts = ([1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.1, 3.0])
    ends = np.array([aimd.iterate(alpha, beta, np.array(s) / sum(s) * total, 500)[-1] for s in starts], float)
    flows = np.array(CHOSEN["model.flows"], float)
    equal = shares(1.0, 1.0)
    completed = [float(aimd.flows_completed(1.0, flows, x.fct).sum()) for x in (out, equal)]
    return {
        "spread of the ends": float(np.max(np.ptp(ends, axis=0) / ends.mean(axis=0))),
        "flows completed, three classes over one": completed[0] / completed[1],
        # Of the mean over all flows, as shares are equal under TCP; and of each class.
        "AFCT, three classes over one": float((flows @ out.fct) / (flows @ equal.fct)),
        "AFCT by class, three classes over one": [float(x) for x in out.fct / equal.fct],
        "share of class C in the mean": float(flows[-1] * out.fct[-1] / (flows @ out.fct)),
    }


# ---- packets ----------------------------------------------------------------------------------------------


# Numbers of servers of a query, over which the losses of the alphas of SDC are compared.
MANY_SERVERS = (10, 20, 30, 40, 60)


def _queries(lab: Lab, who: Contender, servers: int, runs: int, **more: Any) -> RunSet:
    given = {"repetitions": lab.pick(300, 60, 2), "response": "25KB", **REQUESTS, **more}
    return lab.runs("query", who.settings(servers=servers, **given), runs=runs)


def measure_incast(lab: Lab) -> Measurement:
    """Incast with other floors of the timeout, other alphas of SDC, and a dozen first windows."""
    runs, known = lab.replications(3, 2), contenders()
    sack = known[SACK]
    floors = {f: _queries(lab, sack, 30, runs, rto_min=f) for f in ("1ms", "10ms", "200ms")}
    bold = Contender("bold", sdc(alpha="2/2/0.5", beta=_betas()))
    numbers = lab.pick(MANY_SERVERS, MANY_SERVERS, MANY_SERVERS[-1:])
    alphas = {
        name: [_queries(lab, who, n, runs) for n in numbers]
        for name, who in (("below one", known[SDC]), ("two", bold))
    }
    drops = {name: np.array([100 * r.values("drop_rate") for r in sets]) for name, sets in alphas.items()}
    # A first window of two packets of 1500 B from each of 13 flows at once.
    first: dict[str, Any] = {"jitter": "0us", "initial_window": 2}
    dozen, alone = (_queries(lab, sack, n, runs, **first) for n in (13, 1))
    windows, window = (_queries(lab, sack, n, runs, **first, response="2920B") for n in (13, 1))

    def over(a: RunSet, b: RunSet, key: str) -> Estimate:
        return Estimate.of(a.values(key) / b.values(key))

    return {
        "AFCT, 10 over 200 ms": over(floors["10ms"], floors["200ms"], "fct_mean_s"),
        "AFCT, 1 over 200 ms": over(floors["1ms"], floors["200ms"], "fct_mean_s"),
        "longest queue, 1 over 200 ms": over(floors["1ms"], floors["200ms"], "queue_max_packets"),
        "loss": {name: [Estimate.of(row) for row in rates] for name, rates in drops.items()},
        "servers": list(numbers),
        "loss, alpha of two less below one": Estimate.of((drops["two"] - drops["below one"]).mean(axis=0)),
        "queue of 13 first windows": Estimate.of(windows.values("queue_max_packets")),
        "queue of one first window": Estimate.of(window.values("queue_max_packets")),
        "drops of 13 flows": Estimate.of(dozen.values("drops")),
        "drops of one flow": Estimate.of(alone.values("drops")),
        # Mb/s of a packet of 1500 B per round trip.
        "a packet per round trip": 8 * 1500 / RTT / 1e6,
    }


def _betas() -> str:
    reference = (CHOSEN["model.alpha_c"], CHOSEN["model.beta_c"])
    gains = (CHOSEN["sdc.gain_ac"], CHOSEN["sdc.gain_bc"])
    betas = [float(aimd.beta_for_gain(g, CHOSEN["model.alpha_ab"], *reference)) for g in gains]
    return "/".join(f"{b:.6f}" for b in (*betas, reference[1]))


def measure_long(lab: Lab) -> Measurement:
    """Long flows alone: SDC with class C's parameters, RACS beside TCP, and a second flow that joins."""
    runs = lab.replications(3, 2)
    length: dict[str, Any] = lab.pick(
        {"warmup": "2s", "duration": "6s"}, {"warmup": "500ms", "duration": "1500ms"}
    )
    known = contenders()
    c = (CHOSEN["model.alpha_c"], CHOSEN["model.beta_c"])
    fixed = Contender("fixed", sdc(alpha="/".join([f"{c[0]:g}"] * 3), beta="/".join([f"{c[1]:g}"] * 3)))
    who = {"remapped": known[SDC], "as class C": fixed}
    found = {
        name: lab.runs("long-flows", x.settings(flows=2, **length), runs=runs) for name, x in who.items()
    }

    def over(a: str, b: str) -> Estimate:
        return Estimate.of(found[a].values("utilisation") / found[b].values("utilisation"))

    return {
        "use, class C's over remapped": over("as class C", "remapped"),
        "use": {name: Estimate.of(100 * r.values("utilisation")) for name, r in found.items()},
        "converged": {name: _converges(lab, known[name]) for name in (RACS, SDC, "DCTCP", SACK)},
        "RACS over": {
            name: Estimate.of([_converges(lab, known[RACS]) / _converges(lab, known[name])])
            for name in (SDC, "DCTCP", SACK)
        },
    }


def _converges(lab: Lab, who: Contender) -> float:
    """Seconds from a second flow's join until both stay within a quarter of half the link, over 10 ms."""
    given = who.settings(flows=2, every="1s", rtt="300us", delay="50us", capacity="1Gbps", duration="3s")
    runs = lab.runs("staggered", given | {"sample": "1ms", "buffer": "100pkt"}, keep=("series",))
    series = runs.tables(0)["series"]
    acked = [
        series.filter(
            (pl.col("entity") == "flow") & (pl.col("number") == i) & (pl.col("metric") == "acked_bytes")
        )
        for i in (0, 1)
    ]
    t = acked[1]["time_s"].to_numpy()
    both = [np.interp(t, a["time_s"].to_numpy(), a["value"].to_numpy()) for a in acked]
    rates = np.array([(b[10:] - b[:-10]) for b in both])
    share = rates[1] / np.maximum(rates.sum(axis=0), 1)
    away = t[10:][np.abs(share - 0.5) > 0.125]
    return max(float(away[-1]) - 1.0, 1e-3) if away.size else 1e-3


def measure_short(lab: Lab) -> Measurement:
    """One short flow on an idle path."""
    known = contenders()

    def alone(name: str) -> float:
        given = known[name].settings(servers=1, repetitions=20, response="1000B", **REQUESTS)
        return lab.runs("query", given).mean("fct_mean_s")

    rcp_alone, racs_alone = alone(RCP), alone(RACS)
    return {
        "RACS later than RCP, round trips": Estimate.of([(racs_alone - rcp_alone) / RTT]),
        "alone": {RACS: 1e3 * racs_alone, RCP: 1e3 * rcp_alone},
    }


def srpt_over(m: Measurement) -> list[float]:
    """SRPT's mean completion time over those of PS and LAS, by load."""
    return [*m["SRPT over PS"], *m["SRPT over LAS"]]


TEXT_ROWS = [
    Row("M-srpt", "Section 1.3: scheduling", measure=measure_scheduling),
    Row("M-model", "Section 3.4: the AIMD model", measure=measure_model),
    Row("M-query", "Sections 2.2 and 3.5.2: timeouts and first windows", measure=measure_incast),
    Row("M-long", "Sections 3.2 and 4.3.1: long flows and convergence", measure=measure_long),
    Row("M-short", "Section 4.2: a short flow alone", measure=measure_short),
]
