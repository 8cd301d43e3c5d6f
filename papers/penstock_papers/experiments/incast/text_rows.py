"""What the text states beside its figures: who waits, how models lie, other remedies, DCTCP without marks."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from penstock.models import incast
from penstock.runs import Run, RunSet
from penstock_papers.experiments.common import Floats, jackknife, later, onset, ratio_of_means, some
from penstock_papers.experiments.incast import setup, thread
from penstock_papers.experiments.incast.beside import FULL, SPLIT, Beside
from penstock_papers.experiments.incast.dctcp_rows import past, remedies
from penstock_papers.experiments.incast.model_rows import SRU, WINDOW
from penstock_papers.ledger import Estimate, Lab, Measurement, Row

# A small deviation of a measured probability.
DEVIATION = 0.1


# ---- sections 1.3.1 and 3.2: Table 3.1 --------------------------------------------------------------------


def _waiting(runs: RunSet, servers: int) -> Estimate:
    """The share of the servers that wait for a timeout in a block, over all blocks."""
    return Estimate.of(runs.values("waiting") / (servers * (runs.values("blocks") + 1)))


def _fluctuates(beside: Beside) -> float:
    """The largest factor between two throughputs of the model without timeouts at the start of a block, where
    p_c and p_r are a tenth higher or lower, over the numbers of servers.
    """
    most = 1.0
    for point in beside.points:
        m = point.measured
        if not m.p_c > 0:
            continue
        near = [
            float(incast.ibtt_only(m.n, min(1.0, m.p_c * a), min(1.0, m.p_r * b), m.rtt, m.t0))
            for a, b in product((1 - DEVIATION, 1.0, 1 + DEVIATION), repeat=2)
        ]
        most = max(most, max(near) / min(near))
    return most


def _conservative(beside: Beside) -> dict[str, float]:
    """The models over the simulation, and the timeouts at the start of a block that they count one by one
    over the blocks that begin with any.
    """
    many = beside.servers >= 10
    starts = beside.count("start_count", many)
    alone = starts - beside.count("start_together", many)
    # Simultaneous ones are at least two a block: as many blocks as they can fill.
    blocks = alone + beside.count("start_together", many) / 2
    return {
        "full": beside.level(FULL),
        "split": beside.level(SPLIT),
        "counted over waited": starts / blocks if blocks else math.inf,
        "fluctuates": _fluctuates(beside),
    }


def measure_table(lab: Lab) -> Measurement:
    """Table 3.1: which servers wait, how low the goodput falls, how the models lie."""
    curve = setup.table_3_1(lab)
    goodput = curve.per_run()
    best = int(np.argmax(goodput.mean(axis=1)))
    lowest = best + int(np.argmin(goodput[best:].mean(axis=1)))

    last = curve.servers[lowest]
    # Where nothing collapses what there is to ask is the lowest goodput.
    first = onset(curve.servers, goodput.mean(axis=1)) or last
    waiting = {n: _waiting(r, n) for n, r in zip(curve.servers, curve.sets, strict=True)}

    def models(runs: Any) -> dict[str, float]:
        sets = some(curve.sets, runs)
        return _conservative(Beside.of(curve.servers, sets, sru=SRU, window=WINDOW, chosen=setup.CHOSEN))

    return {
        "servers": list(curve.servers),
        "waiting": {f"{n} servers": share for n, share in waiting.items() if first <= n <= last},
        "waiting beyond": {f"{n} servers": share for n, share in waiting.items() if n > last},
        "lowest share of the link": Estimate.of(goodput[lowest] / setup.LINK_BPS),
        "models": jackknife(models, len(curve.sets[0].runs)),
        "curve": curve.numbers(),
    }


def waiting_in_words(m: Measurement) -> str:
    """The shares of servers that wait while the goodput degrades, and with more servers than that."""

    def told(shares: Measurement) -> str:
        return ", ".join(f"{share} with {name}" for name, share in shares.items())

    beyond = f"; beyond the lowest goodput {told(m['waiting beyond'])}" if m["waiting beyond"] else ""
    return told(m["waiting"]) + beyond


# ---- chapter 4 --------------------------------------------------------------------------------------------

MASKED = ("buffer 128 KB", "SRU 1 MB", "RTOmin 200 us, tick 100 us", "DCTCP")
UP_TO = (2, 4, 6, 8, 10, 16, 24, 32, 48, 64, 96, 128)


def measure_remedies(lab: Lab) -> Measurement:
    """The four existing remedies of section 4.1 beside none."""
    servers = lab.pick(UP_TO, UP_TO[1::2], (2, 8, 48))
    given: dict[str, dict[str, Any]] = {
        name: setup.BASE | settings for name, settings in remedies().items() if name in ("none", *MASKED)
    }
    length = lab.pick({"duration": "20s"}, {"duration": "2s"}, {"duration": "1s"})
    found = setup.curves(lab, given, servers, length=length)

    def kept(curve: setup.Curve) -> Estimate:
        """The lowest goodput over the best."""
        rates = curve.per_run()
        return Estimate.of(rates.min(axis=0) / rates.max(axis=0))

    return {
        "over none": {name: past(found[name], found["none"]) for name in MASKED},
        "lowest over best": {name: kept(found[name]) for name in MASKED},
        "curves": {name: curve.numbers() for name, curve in found.items()},
    }


def _shortest(run: Run) -> dict[str, float]:
    """The shortest timeout of a run that was not backed off, in seconds."""
    events = run.tables["events"]
    first = events.filter(events["what"].str.starts_with("timeout") & (events["in_a_row"] <= 1))
    return {"shortest_s": float(first["rto_s"].to_numpy().min()) if first.height else float("nan")}


def measure_timers(lab: Lab) -> Measurement:
    """Floors of the timeout: what they retransmit needlessly, and the shortest by clock; endless requests."""
    servers = lab.pick((8, 16, 32, 48), (8, 24, 48), (8,))
    fast = setup.BASE | {"rto_min": "200us", "rto_initial": "200ms"}
    given = {
        "200 ms": setup.BASE | {"rto_initial": "200ms"},
        "200 us, clock of 100 us": fast | {"rto_granularity": "100us"},
    }
    ticks = {"100 us": 1e-4, "200 us": 2e-4, "1 ms": 1e-3}
    clocks = [fast | {"rto_granularity": f"{1e6 * tick:.0f}us"} for tick in (*ticks.values(), 0)]
    few = {"servers": 16, "duration": lab.pick("4s", "1s", "400ms")}
    *by_clock, smooth = (
        found.values("shortest_s")
        for found in lab.sweep(
            [("incast", one | few) for one in clocks],
            runs=lab.replications(5, 2),
            keep=("events",),
            derive=_shortest,
        )
    )
    plain = setup.curves(lab, {"": given["200 ms"]}, servers, length=setup.trial(lab))[""]
    endless = setup.curves(
        lab,
        {"": setup.BASE | {"sru": "100GB", "rto_initial": "200ms"}},
        servers,
        length={"duration": lab.pick("10s", "3s", "1s"), "warmup": lab.pick("2s", "1s", "200ms")},
    )[""]

    # Every timeout is premature where nothing is lost.
    lossless = {name: one | {"buffer": "20000pkt"} for name, one in given.items()}
    premature = {
        name: curve.per_run("timeouts").sum(axis=0)
        for name, curve in setup.curves(lab, lossless, servers, length=setup.trial(lab)).items()
    }

    def shares(curve: setup.Curve, most: float) -> dict[str, Estimate]:
        rows = zip(curve.servers, curve.per_run(), strict=True)
        return {f"{n} servers": Estimate.of(row / most) for n, row in rows}

    return {
        "shortest timeout in ticks": {
            name: Estimate.of(shortest / tick)
            for (name, tick), shortest in zip(ticks.items(), by_clock, strict=True)
        },
        "of a clock without ticks": {name: Estimate.of(smooth / tick) for name, tick in ticks.items()},
        "premature": {name: Estimate.of(count) for name, count in premature.items()},
        # Where neither has any, these round trips say nothing of it.
        "premature, 200 us over 200 ms": ratio_of_means(premature[list(given)[1]], premature["200 ms"])
        if sum(count.sum() for count in premature.values())
        else Estimate.unknown(),
        # The wire carries 1040 B for 1000.
        "endless": shares(endless, setup.LINK_BPS / 1.04),
        "of 256 KB": shares(plain, setup.LINK_BPS / 1.04),
    }


SATURATED = 0.9
# Higher values of p than the one of Fig 4.6, and the numbers of senders that are few.
HIGHER = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
FEW = (5, 6, 8, 10)


def _saturates(curve: setup.Curve) -> Floats:
    """The fewest senders, past the lowest goodput, with which it is within a tenth of its best there, of each
    run.
    """
    n, found = np.array(curve.servers), []
    for rates in curve.per_run().T:
        low = int(np.argmin(rates))
        fine = rates[low:] >= SATURATED * rates[low:].max()
        found.append(n[low + int(np.argmax(fine))])
    return np.asarray(found, float)


def measure_thread(lab: Lab) -> Measurement:
    """Probabilistic retransmission: from how many senders on it saturates, and the best p for few senders."""
    variants = {thread.label(p): thread.THREAD | {"retransmit_probability": p} for p in thread.PROBABILITIES}
    fixed: dict[str, dict[str, Any]] = {thread.PLAIN: {}, thread.FAST_TIMER: {"rto_min": "200us"}}
    found = thread.compare(lab, fixed | variants, lab.pick(thread.SERVERS, thread.QUICK, thread.LEAST))
    higher = {
        thread.label(p): thread.THREAD | {"retransmit_probability": p}
        for p in lab.pick(HIGHER, HIGHER, HIGHER[-1:])
    }
    few = thread.compare(lab, {thread.FAST_TIMER: fixed[thread.FAST_TIMER], **higher}, FEW)
    fast = few.pop(thread.FAST_TIMER).per_run()
    rates = np.array([curve.per_run() for curve in few.values()])
    # The best p at each number of senders.
    best = rates.mean(axis=2).argmax(axis=0)
    over = rates[best, np.arange(len(FEW))] / fast
    most = _saturates(found[thread.LABELS[1]]), _saturates(found[thread.LABELS[-1]])
    return {
        "saturates at": {name: Estimate.median(_saturates(found[name])) for name in thread.LABELS},
        "saturates later at p = 0.001 than at 0.1": later(most[1], most[0]),
        "best p over RTOmin 200 us": {
            f"{n} senders": Estimate.of(row) for n, row in zip(FEW, over, strict=True)
        },
        "best p": {f"{n} senders": list(few)[i] for n, i in zip(FEW, best, strict=True)},
        # The wire carries 1040 B for 1000.
        "ceiling": {
            f"{n} senders": Estimate.of(setup.LINK_BPS / 1.04 / row) for n, row in zip(FEW, fast, strict=True)
        },
        # A segment of 36 B under a compressed header of 4 B.
        "line efficiency": 36 / (36 + 4),
    }


def best_in_words(m: Measurement) -> str:
    """The best p at each number of senders, what it is worth, and what a full link would be worth."""
    each = (
        f"{name}: {over} with {m['best p'][name]} (a full link {m['ceiling'][name].mean:.3f})"
        for name, over in m["best p over RTOmin 200 us"].items()
    )
    return "; ".join(each)


# ---- section 3.1: the algebra -----------------------------------------------------------------------------


def measure_algebra(lab: Lab) -> Measurement:
    """What is left of (3.18) at (3.19), and of (3.14) against (3.13) with (3.12), relative, over a grid."""
    n, p, share = (x.ravel() for x in np.meshgrid([2.0, 8, 32], [1e-4, 1e-3, 1e-2], [0.25, 0.5, 1.0]))
    j = np.maximum(1.0, share * n)
    p_r = j * p
    x = np.asarray(incast.mean_rounds(n, p, p_r))
    left = 1.5 * n**2 * x**2 / j + n * x / 2 - j * x
    whole = np.isclose(n / j, np.round(n / j))
    w_f = 2 * n * x / j
    total = [
        jj * w + sum(jj * (w / 2 + k * xx) for k in range(1, round(nn / jj)))
        for nn, jj, w, xx in zip(n[whole], j[whole], w_f[whole], x[whole], strict=True)
    ]
    closed = np.asarray(incast.mean_window(n, p, p_r))[whole]
    return {
        "left of (3.18)": float(np.max(np.abs(left * p - 1))),
        "left of (3.14)": float(np.max(np.abs(np.array(total) / closed - 1))),
    }


TEXT_ROWS = [
    Row("I-table", "Sections 1.3 and 3.2: Table 3.1", measure=measure_table),
    Row("I-remedies", "Section 4.1: the four existing remedies", measure=measure_remedies),
    Row("I-timers", "Section 4.1.3: clocks and needless retransmissions", measure=measure_timers),
    Row("I-thread", "Section 4.2.2: more and less probable retransmissions", measure=measure_thread),
    Row("I-algebra", "Section 3.1: the algebra of the model", measure=measure_algebra),
]
