"""Section 3.2: timeouts at the start of a block, the split model, n single flows (Fig 3.11, 3.12, 3.21)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.models import incast
from penstock_papers.experiments.common import Floats
from penstock_papers.experiments.incast import model_rows
from penstock_papers.experiments.incast.beside import (
    ABTT_ONLY,
    FULL,
    MODELS,
    PADHYE,
    SLOWEST,
    SPLIT,
    TD_ONLY,
    Beside,
    Point,
)
from penstock_papers.experiments.incast.setup import CHOSEN, Curve, table_3_1
from penstock_papers.ledger import CONFIRMED, Cause, Criterion, Lab, claim_criterion

# ---- I-3.11: start of a block only ------------------------------------------------------------------------


def _abtt(beside: Beside) -> dict[str, float]:
    many = model_rows.many_servers(beside)
    few = ~many & beside.lossy
    left = beside.model(ABTT_ONLY)[few] / beside.model(TD_ONLY)[few]
    return {
        "start share": model_rows.share_of(beside, "start_count", model_rows.ALL_TIMEOUTS, many),
        "left": float(np.exp(np.log(left).mean())),
    }


DOMINATE, LITTLE = claim_criterion("I-3.11/dominate-for-many"), claim_criterion("I-3.11/little-for-few")


def _carried(lab: Lab, _: Curve) -> dict[str, Any]:
    both = {"restart_after_idle": False, "delayed_ack": 2}
    return {
        "carried over": model_rows.numbers(table_3_1(lab, {"restart_after_idle": False}), _abtt),
        "and two segments per ACK": model_rows.numbers(table_3_1(lab, both), _abtt)["start share"],
        "independent": model_rows.numbers(table_3_1(lab, {"jitter_mode": "independent"}), _abtt),
    }


def _if_carried(claim: str, key: str, criterion: Criterion) -> Cause:
    """Windows that are carried over from block to block make a claim of I-3.11 hold."""
    return Cause(
        "what a sender does with its window after an idle timeout decides the share at the start: carried "
        "over from block to block ('all senders begin by injecting their entire congestion windows'), the "
        "statement holds",
        holds=lambda m: criterion.judge(m["carried over"][key]) == CONFIRMED,
        evidence=lambda m: f"{m['carried over'][key]} with restart_after_idle=false",
        of=(claim,),
    )


I_3_11 = model_rows.model_row(
    "I-3.11",
    "Timeouts at the start of a block only (Fig 3.11)",
    _abtt,
    (FULL, ABTT_ONLY, TD_ONLY),
    more=_carried,
    causes=(
        _if_carried("dominate-for-many", "start share", DOMINATE),
        Cause(
            "two choices together decide it: where windows are carried over from block to block and only "
            "every second segment is acknowledged, the statement holds",
            holds=lambda m: DOMINATE.judge(m["and two segments per ACK"]) == CONFIRMED,
            evidence=lambda m: (
                f"{m['and two segments per ACK']} with both, {m['carried over']['start share']} with "
                "windows carried over alone"
            ),
            of=("dominate-for-many",),
        ),
        _if_carried("little-for-few", "left", LITTLE),
        Cause(
            "that requests follow one another decides it: the last servers asked meet a buffer that the "
            "first have filled; with delays that are independent of one another, the statement holds",
            holds=lambda m: LITTLE.judge(m["independent"]["left"]) == CONFIRMED,
            evidence=lambda m: f"{m['independent']['left']} with jitter_mode=independent",
            of=("little-for-few",),
        ),
    ),
)

# ---- I-3.12: the split model ------------------------------------------------------------------------------


def _split_at(beside: Beside, n_star: int) -> float:
    """The split model's factor with another n*."""
    rates = zip(beside.points, beside.throughput, strict=True)
    found = [
        p.book(lambda *a: incast.split(*a, n_star=n_star)) / rate for p, rate in rates if p.measured.p_c > 0
    ]
    return float(np.exp(np.abs(np.log(found)).mean()))


def _split(beside: Beside) -> dict[str, float]:
    few = beside.servers <= model_rows.N_STAR
    return {
        # Of logarithms: a model that fits has no error, however far the other one is off.
        "split over full": float(np.log(beside.factor(SPLIT)) / np.log(beside.factor(FULL))),
        "split": beside.factor(SPLIT),
        "full": beside.factor(FULL),
        "whole windows": model_rows.share_of(beside, "mid_whole", ["mid_count"], few),
        "few duplicates": model_rows.share_of(beside, "mid_few", ["mid_count"], ~few),
        "lost again": model_rows.share_of(beside, "mid_repair", ["mid_count"], few),
        "lost again, more": model_rows.share_of(beside, "mid_repair", ["mid_count"], ~few),
    }


def _best_split(_: Lab, curve: Curve) -> dict[str, Any]:
    beside = Beside.of(curve.servers, curve.sets, sru=model_rows.SRU, window=model_rows.WINDOW, chosen=CHOSEN)
    factors = {n: _split_at(beside, n) for n in range(1, 50)}
    best = min(factors, key=factors.__getitem__)
    return {
        "best n*": best,
        "with it": factors[best],
        "factors": {model: beside.factor(model) for model in MODELS},
    }


I_3_12 = model_rows.model_row(
    "I-3.12",
    "Split model beside the simulation (Fig 3.12)",
    _split,
    (SPLIT, FULL, SLOWEST),
    more=_best_split,
    causes=(
        Cause(
            "n* is another here than in the book's traces: with it the split model is the better one",
            holds=lambda m: m["best n*"] != model_rows.N_STAR and m["with it"] < m["full"].low,
            evidence=lambda m: f"best n* {m['best n*']}, off by a factor of {m['with it']:.2f} then",
            of=("better",),
        ),
    ),
)

# ---- I-3.21: n single flows -------------------------------------------------------------------------------

FEW_FLOWS = 5
NEAR, FAR = claim_criterion("I-3.21/good-for-few"), claim_criterion("I-3.21/far-for-many")


def _padhye_at(point: Point, p: float) -> float:
    m = point.measured
    return float(incast.padhye_times_n(m.n, p, m.rtt, m.t0, window_max=point.window))


def _with_p_c(beside: Beside) -> Floats:
    """n times Padhye's equation with p_c for p_r over the simulation; nan without loss."""
    both = zip(beside.points, beside.throughput, strict=True)
    return np.array([_padhye_at(p, p.measured.p_c) / r if p.measured.p_c > 0 else np.nan for p, r in both])


def _single(beside: Beside) -> dict[str, float]:
    few = (beside.servers < FEW_FLOWS) & beside.lossy
    other = _with_p_c(beside)
    return {
        "few": beside.factor(PADHYE, few),
        "last": float(beside.ratio(PADHYE)[-1]),
        "few, p_c": float(np.exp(np.abs(np.log(other[few])).mean())),
        "last, p_c": float(other[-1]),
    }


I_3_21 = model_rows.model_row(
    "I-3.21",
    "n times the single-flow equation (Fig 3.21)",
    _single,
    (PADHYE, FULL),
    causes=(
        Cause(
            "the loss rate of one flow, p_r, makes the equation's own timeouts cost most of the rate; with "
            "the rate of loss events of all flows, p_c, in its place the statement appears",
            holds=lambda m: FAR.judge(m["last, p_c"]) == CONFIRMED,
            evidence=lambda m: (
                f"{m['last, p_c']} times the simulation at the largest number of servers, off by "
                f"{m['few, p_c']} times below {FEW_FLOWS}"
            ),
            of=("far-for-many",),
        ),
        Cause(
            "the loss rate of one flow, p_r, is what it is off by: with the rate of loss events of all "
            "flows, p_c, in its place the statement holds",
            holds=lambda m: NEAR.judge(m["few, p_c"]) == CONFIRMED,
            evidence=lambda m: (
                f"off by {m['few, p_c']} times below {FEW_FLOWS} servers, with p_r by {m['few']}"
            ),
            of=("good-for-few",),
        ),
    ),
)

SPLIT_ROWS = [I_3_11, I_3_12]
SINGLE_FLOW_ROWS = [I_3_21]
