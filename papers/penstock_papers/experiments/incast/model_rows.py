"""Section 3.2: the models fed with what the simulation shows, beside the simulation (Fig 3.8 to 3.10).

Throughput is packets per second sent by all servers, as in the book's figures. How far off a model is, is
said as a factor: exp of the mean |ln(model / simulation)| over the numbers of servers with loss (without loss
the book's models have no limit). Inputs are means over the runs; intervals come from leaving out one run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from penstock import figures
from penstock_papers.experiments.common import Floats, centre, half, jackknife, some
from penstock_papers.experiments.incast import setup
from penstock_papers.experiments.incast.beside import FULL, FULL_PER_SERVER, IBTT_ONLY, TD_ONLY, Beside
from penstock_papers.ledger import CONFIRMED, Cause, Estimate, Lab, Measurement, Row, claim_criterion

SRU, WINDOW = 256, 1000  # segments, Table 3.1

# How a model is given what a simulation counts.
READINGS = ("loss_events", "length_of_a_block")

# The paper reads n* = 3 from its traces: up to so many senders a timeout is a whole window lost.
N_STAR = 3

Numbers = Callable[[Beside], Mapping[str, float]]


def numbers(
    curve: setup.Curve, of: Numbers, per_run: Numbers | None = None, chosen: Mapping[str, Any] = setup.CHOSEN
) -> dict[str, Estimate]:
    """Numbers that models and simulation give together: those of `of` with the intervals of leaving out one
    run, those of `per_run` (numbers of servers, which have no mean) as medians over the runs.
    """

    def at(runs: Sequence[int]) -> Beside:
        return Beside.of(curve.servers, some(curve.sets, runs), sru=SRU, window=WINDOW, chosen=chosen)

    count = len(curve.sets[0].runs)
    found = jackknife(lambda runs: of(at(runs)), count)
    if per_run is not None:
        each = [per_run(at([run])) for run in range(count)]
        found |= {key: Estimate.median([one[key] for one in each]) for key in each[0]}
    return found


def lines(curve: setup.Curve, models: Sequence[str]) -> dict[str, Any]:
    """What is drawn: the simulated throughput with its interval, and the models' (packets/s)."""
    beside = Beside.of(curve.servers, curve.sets, sru=SRU, window=WINDOW, chosen=setup.CHOSEN)
    return {
        "servers": list(curve.servers),
        "simulated": beside.simulated,
        "models": {model: beside.model(model) for model in models},
    }


def draw(title: str, shown: Mapping[str, Any]) -> figures.Figure:
    """Throughput over the number of servers: the simulation with its 95 % band, the models over it."""
    crowded = len(shown["models"]) > 2
    with figures.style():
        figure, (ax,) = figures.new(width=8.2 if crowded else 6.6)
        ax.set_yscale("log")
        simulated = shown["simulated"]
        figures.band(ax, shown["servers"], centre(simulated), half(simulated), "simulation", 0)
        for i, (model, rate) in enumerate(shown["models"].items(), start=1):
            ax.plot(shown["servers"], rate, label=model, **figures.look(i))
        ax.set(xlabel="number of servers", ylabel="throughput (packets/s)")
        ax.set_title(title)
        setup.beside_plot(ax) if crowded else ax.legend()
    return figure


def model_row(
    name: str,
    title: str,
    of: Numbers,
    models: Sequence[str],
    *,
    per_run: Numbers | None = None,
    more: Callable[[Lab, setup.Curve], Mapping[str, Any]] = lambda lab, curve: {},
    causes: tuple[Cause, ...] = (),
) -> Row:
    """A row that holds models beside the simulation with Table 3.1; `more` measures what its causes need."""

    def measure(lab: Lab) -> Measurement:
        curve = setup.table_3_1(lab)
        return {**numbers(curve, of, per_run), "lines": lines(curve, models), **more(lab, curve)}

    def probe(lab: Lab, point: Mapping[str, Any]) -> Measurement:
        return numbers(setup.probed(lab, point), of, per_run, chosen=point)

    return Row(
        name,
        title,
        measure=measure,
        draw=lambda m, lab: [lab.save(draw(title, m["lines"]), name)],
        causes=causes,
        matters=(*setup.MATTERS, *READINGS),
        probe=probe,
    )


# ---- what the rows count ----------------------------------------------------------------------------------


def many_servers(beside: Beside) -> NDArray[np.bool_]:
    """Where the senders are many."""
    return beside.servers >= setup.MANY


def _rank(beside: Beside, model: str) -> float:
    """Rank correlation of a model and the simulation over the numbers of servers with loss."""
    return float(spearmanr(beside.model(model)[beside.lossy], beside.throughput[beside.lossy]).statistic)


def share_of(beside: Beside, part: str, whole: Sequence[str], where: NDArray[np.bool_]) -> float:
    """One count of timeouts over others; 0 where there are none."""
    total = sum(beside.count(key, where) for key in whole)
    return beside.count(part, where) / total if total else 0.0


def _largest_fall(servers: Sequence[int], rates: Floats) -> tuple[float, float]:
    """The number of servers to which a curve falls by the largest factor from the one before; the factor."""
    rates = np.where(np.isfinite(rates), rates, np.nan)
    steps = rates[:-1] / rates[1:]
    if not np.isfinite(steps).any():
        return math.inf, 1.0
    largest = int(np.nanargmax(steps))
    return float(servers[largest + 1]), float(steps[largest])


# ---- I-3.8: the full model --------------------------------------------------------------------------------


def _full(beside: Beside) -> dict[str, float]:
    many = many_servers(beside)
    delta, iota = beside.measured("delta"), beside.measured("iota")
    events = beside.measured("p_c") * beside.measured("packets") / beside.measured("blocks")
    small = ~many & beside.lossy
    return {
        "rank": _rank(beside, FULL),
        "level": beside.level(FULL, many),
        "factor": beside.factor(FULL),
        "factor for few": beside.factor(FULL, ~many),
        "factor, L of one server": beside.factor(FULL_PER_SERVER),
        "together": share_of(beside, "start_together", ["start_count"], many),
        "start timeouts a block": float(delta[many].mean()),
        "mid timeouts a block": float(iota[many].mean()),
        "timeouts per loss event": float(iota[small].sum() / events[small].sum()),
        "q_ibtt": float(beside.q_ibtt()[small].mean()),
    }


def steps(servers: Sequence[int], rates: Floats) -> tuple[float, float]:
    """Where a falling curve has a step, and where its largest fall is: numbers of servers, inf for none.

    A step is a visible fall (a twentieth) from one number to the next that the curve does not continue at the
    one after. It lies before the largest fall, which is significant: at least a quarter.
    """
    falls = rates[:-1] / rates[1:]
    largest = int(np.argmax(falls))
    steps = [i for i in range(largest) if falls[i] >= 1.05 and falls[i + 1] < 1.05]
    step = float(servers[steps[-1] + 1]) if steps else math.inf
    return step, float(servers[largest + 1]) if falls[largest] >= 1.25 else math.inf


def _falls(beside: Beside) -> dict[str, float]:
    """Where the model falls by the largest factor, up to six servers, and by how much; where the simulation
    has a step, and where it falls by the largest factor, up to ten.
    """
    few, ten = beside.servers <= 2 * N_STAR, beside.servers <= setup.MANY
    step, fall = steps(beside.servers[ten].tolist(), beside.throughput[ten])
    model, factor = _largest_fall(beside.servers[few].tolist(), beside.model(FULL)[few])
    return {
        "model falls at": model,
        "model falls by": factor,
        "simulation steps at": step,
        "simulation falls at": fall,
    }


FALLS = claim_criterion("I-3.8/simulation-falls")
# A packet takes 8.3 us.
_LATER = {"limited_transmit": False, "send_jitter": "8us"}


def _without(lab: Lab, _: setup.Curve) -> dict[str, Any]:
    return {"two choices": numbers(setup.table_3_1(lab, _LATER), _full, _falls)["simulation falls at"]}


I_3_8 = model_row(
    "I-3.8",
    "Full model beside the simulation (Fig 3.8)",
    _full,
    (FULL, FULL_PER_SERVER),
    per_run=_falls,
    more=_without,
    causes=(
        Cause(
            "two choices together decide it: without limited transmit (RFC 3042) and where hosts send with "
            "a noise of a packet's time the simulation drops later, as stated",
            holds=lambda m: FALLS.judge(m["two choices"]) == CONFIRMED,
            evidence=lambda m: f"{m['two choices']} servers with both",
            of=("simulation-falls",),
        ),
    ),
)

# ---- I-3.9: without timeouts ------------------------------------------------------------------------------


def _td(beside: Beside) -> dict[str, float]:
    many, model = many_servers(beside), beside.model(TD_ONLY)
    return {
        "kept": float(model[many].min() / model[~many & beside.lossy].min()),
        "fell": float(beside.throughput[many].max() / beside.throughput.max()),
        # Of what the model without timeouts has, what the simulation has not.
        "lost": 1 - 1 / beside.level(TD_ONLY, many),
    }


I_3_9 = model_row("I-3.9", "TD-only model beside the simulation (Fig 3.9)", _td, (TD_ONLY,))

# ---- I-3.10: mid block only -------------------------------------------------------------------------------

ALL_TIMEOUTS = ("start_count", "mid_count")


def _ibtt(beside: Beside) -> dict[str, float]:
    n = beside.servers
    many = many_servers(beside)
    with np.errstate(invalid="ignore"):  # without loss no model has a limit
        cost = beside.model(TD_ONLY) / beside.model(IBTT_ONLY)
        # Of the factor that all timeouts cost, the part that those in mid block alone do, on a log scale.
        part = np.log(cost) / np.log(beside.model(TD_ONLY) / beside.model(FULL))
    few, some_ = ~many & beside.lossy, (n >= 3) & (n <= 8)
    return {
        "greater": float(cost[few].mean() / cost[many & beside.lossy].mean()),
        "part for few": float(part[few].mean()),
        "part for many": float(part[many & beside.lossy].mean()),
        "mid share": share_of(beside, "mid_count", ALL_TIMEOUTS, ~many),
        "level": beside.level(IBTT_ONLY, some_),
        "beyond": beside.factor(IBTT_ONLY, n > 8),
    }


I_3_10 = model_row("I-3.10", "Timeouts in mid block only (Fig 3.10)", _ibtt, (FULL, IBTT_ONLY))

MODEL_ROWS = [I_3_8, I_3_9, I_3_10]
