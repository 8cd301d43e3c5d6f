"""Section 4.2: probabilistic retransmission by a thread at the senders (Fig 4.4 to 4.6).

Setting: Table 3.1, a thread every 20 us. How the two open points of algorithms 1 and 3 are read stands in
choices.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock import figures
from penstock.experiments.common import Floats, centre, half, measured
from penstock.experiments.incast.setup import (
    BASE,
    CHOSEN,
    LINK_BPS,
    MATTERS,
    ORDER,
    PAPER,
    PROBED,
    WIRE,
    Curve,
    beside_plot,
    buffer,
    chosen,
    curves,
    draw,
    listed,
    told,
)
from penstock.ledger import (
    CONFIRMED,
    Cause,
    Claim,
    Criterion,
    Estimate,
    Measurement,
    Row,
    at_least,
    at_most,
    between,
    every,
    ordered,
    within,
)

if TYPE_CHECKING:
    from penstock.ledger import Lab

# "when the number of senders is greater than eight" (section 4.2.2).
ABOVE = 9
SERVERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48)
QUICK = (1, 2, 4, 5, 6, 8, 10, 16, 20, 32, 48)
LEAST = (2, 6, 12)
SETTING = BASE | {"rto_initial": "200ms"}

# Quick: more short runs have a narrower interval than fewer long ones.
BRIEF: dict[str, Any] = {"duration": "1s"}
BRIEF_RUNS = 4
# At a point of the search.
SHORT = {"duration": "700ms", "warmup": "200ms"}

PROBABILITIES = (1e-4, 1e-3, 1e-2, 1e-1)
BEST = 1e-3
THREAD: dict[str, Any] = {
    key: CHOSEN[key] for key in ("retransmit_segment", "retransmit_rests", "retransmit_every")
}
PLAIN, FAST_TIMER = "RTOmin 200 ms", "RTOmin 200 us"


def label(p: float) -> str:
    """The label of a curve with retransmission probability `p`."""
    return f"p = {p:g}"


LABELS = [label(p) for p in PROBABILITIES]


def compare(
    lab: Lab, variants: Mapping[str, Mapping[str, Any]], servers: Sequence[int] = ()
) -> dict[str, Curve]:
    """One curve per variant: 20 s and three runs, when quick `BRIEF` at fewer numbers of servers."""
    servers = servers or lab.pick(SERVERS, QUICK, LEAST)
    given = {name: SETTING | dict(settings) for name, settings in variants.items()}
    length = lab.pick({"duration": "20s"}, BRIEF, {"duration": "500ms"})
    return curves(lab, given, servers, length=length, runs=lab.replications(3, BRIEF_RUNS))


def _variants() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {PLAIN: {}, FAST_TIMER: {"rto_min": "200us"}}
    return found | {label(p): THREAD | {"retransmit_probability": p} for p in PROBABILITIES}


def above_eight(curve: Curve, key: str = "goodput_bps") -> Floats:
    """The mean above eight servers, of each run."""
    return curve.per_run(key)[np.array(curve.servers) >= ABOVE].mean(axis=0)


def goodput_numbers(found: Mapping[str, Curve]) -> dict[str, Any]:
    """What Fig 4.4's statements are judged by."""
    names = [PLAIN, *LABELS]
    means = {name: above_eight(found[name]) for name in names}
    return {
        "means": {name: Estimate.of(mean / 1e6) for name, mean in means.items()},
        "gain": Estimate.of(np.max([means[name] for name in LABELS], axis=0) / means[PLAIN]),
        "gain of the least p": Estimate.of(means[LABELS[0]] / means[PLAIN]),
    }


def drop_numbers(found: Mapping[str, Curve]) -> dict[str, Any]:
    """What Fig 4.5's statements are judged by."""
    drops = {name: above_eight(found[name], "drop_rate") for name in (PLAIN, FAST_TIMER, *LABELS)}
    worth = np.array([above_eight(found[name]) / drops[name] for name in LABELS])
    return {
        "drops": {name: Estimate.of(drop) for name, drop in drops.items()},
        "more than plain": Estimate.of(drops[LABELS[-1]] - drops[PLAIN]),
        "best p": Estimate.median(np.log10(PROBABILITIES)[np.argmax(worth, axis=0)]),
        "worth": {name: Estimate.of(row / 1e6) for name, row in zip(LABELS, worth, strict=True)},
    }


def order_numbers(thread: Curve, fast: Curve, plain: Curve) -> dict[str, Any]:
    """What Fig 4.6's statements are judged by: ratios of goodput, run by run."""
    n = np.array(thread.servers)
    over_fast, over_plain = thread.per_run() / fast.per_run(), thread.per_run() / plain.per_run()

    def at(ratio: Floats, where: Any) -> dict[str, Estimate]:
        both = zip(n, ratio, where, strict=True)
        return {f"{int(m)} servers": Estimate.of(row) for m, row, use in both if use}

    return {
        "over plain": at(over_plain, n >= 1),
        "over fast above ten": at(over_fast, n > 10),
        "over fast from five to ten": at(over_fast, (n >= 5) & (n <= 10)),
    }


def _span(ratios: Mapping[str, Estimate]) -> str:
    return f"{min(e.mean for e in ratios.values()):.2f} to {max(e.mean for e in ratios.values()):.2f}"


# ---- measuring --------------------------------------------------------------------------------------------


def measure(lab: Lab) -> Measurement:
    """The curves of figures 4.4 to 4.6 and what explains them."""
    found = compare(lab, _variants())
    many = [n for n in lab.pick(SERVERS, QUICK, LEAST) if n >= ABOVE]
    newest = compare(
        lab,
        {
            f"{label(p)}, newest": {"retransmit_probability": p, "retransmit_rests": True}
            | {"retransmit_segment": "newest"}
            for p in PROBABILITIES[1:]
        },
        lab.pick((4, 8, 12, 16, 24, 32, 48), (4, 10, 20, 48), (12,)),
    )
    # The thread ten times as rarely, and ten times as often.
    rarely = compare(
        lab,
        {
            label(p): THREAD | {"retransmit_probability": p, "retransmit_every": "200us"}
            for p in PROBABILITIES
        },
        many,
    )
    often = compare(lab, {"": THREAD | {"retransmit_probability": BEST, "retransmit_every": "2us"}})[""]
    alone = lab.runs(
        "incast",
        SETTING
        | THREAD
        | {"servers": 1, "duration": "3s", "retransmit_probability": PROBABILITIES[-1], "loss_events": True},
        keep=("events",),
    )
    plain = np.mean(above_eight(found[PLAIN]))
    slow = {PLAIN: found[PLAIN], **rarely}
    return {
        **goodput_numbers(found),
        **drop_numbers(found),
        **order_numbers(found[label(BEST)], found[FAST_TIMER], found[PLAIN]),
        "every 200 us": {name: Estimate.of(above_eight(curve) / 1e6) for name, curve in slow.items()},
        "newest": {name: Estimate.of(above_eight(curve) / 1e6) for name, curve in newest.items()},
        "every 2 us": order_numbers(often, found[FAST_TIMER], found[PLAIN]),
        "room": LINK_BPS / plain,
        "alone": {
            "drops": alone.mean("drops"),
            "fast retransmits": alone.events.filter(pl.col("what") == "fast retransmit").height,
            "goodput": alone.mean("goodput_bps") / 1e6,
        },
        "curves": {name: curve.numbers() for name, curve in found.items()},
        "curves, newest": {name: curve.numbers() for name, curve in newest.items()},
        "curve, every 2 us": often.numbers(),
        "drop ratios": {name: measured(curve.sets, "drop_rate") for name, curve in found.items()},
    }


def _probe(lab: Lab, point: Mapping[str, Any]) -> Measurement:
    base = chosen(point) | buffer(32, point) | {"rto_initial": "200ms"}
    thread = {key: point[key] for key in THREAD}
    given: dict[str, dict[str, Any]] = {PLAIN: base, FAST_TIMER: base | {"rto_min": "200us"}}
    given |= {label(p): base | thread | {"retransmit_probability": p} for p in PROBABILITIES}
    found = curves(lab, given, (5, 10, 16, 32), length=SHORT, runs=PROBED)
    return {
        **goodput_numbers(found),
        **drop_numbers(found),
        **order_numbers(found[label(BEST)], found[FAST_TIMER], found[PLAIN]),
    }


# ---- rows -------------------------------------------------------------------------------------------------

_FIG_4_4, _FIG_4_5, _FIG_4_6 = (f"section 4.2.2, Fig 4.{k}" for k in (4, 5, 6))
RISES = ordered(PLAIN, *LABELS)
WHERE = (*MATTERS, *THREAD)


def _draw_goodput(m: Measurement, lab: Lab) -> list[Path]:
    shown = {name: m["curves"][name] for name in (PLAIN, *LABELS)}
    newest = {PLAIN: m["curves"][PLAIN], **m["curves, newest"]}
    return [
        lab.save(draw("Effect of the retransmission probability", shown), "I-4.4"),
        lab.save(draw("The same, read to the letter", newest), "I-4.4-newest"),
    ]


def _draw_drops(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new(width=7.8)
        for i, (name, ratios) in enumerate(m["drop ratios"].items()):
            figures.band(ax, m["curves"][name]["servers"], centre(ratios), half(ratios), name, i)
        ax.set(xlabel="number of servers", ylabel="drop ratio (dropped / arrived packets)")
        ax.set_title("Effect of the retransmission probability on drops")
        beside_plot(ax)
    return [lab.save(figure, "I-4.5")]


def _draw_order(m: Measurement, lab: Lab) -> list[Path]:
    three = {name: m["curves"][name] for name in (PLAIN, FAST_TIMER, label(BEST))}
    often = {
        PLAIN: three[PLAIN],
        FAST_TIMER: three[FAST_TIMER],
        "p = 0.001 every 2 us": m["curve, every 2 us"],
    }
    return [
        lab.save(draw("Probabilistic retransmission and a fast timer", three), "I-4.6"),
        lab.save(draw("The same with the thread run every 2 us", often), "I-4.6-every-2us"),
    ]


I_4_4 = Row(
    "I-4.4",
    PAPER,
    "Effect of the retransmission probability (Fig 4.4)",
    claims=(
        Claim(
            "rises",
            "above eight senders a higher p means more throughput",
            "order",
            "improves",
            "means",
            RISES,
            quote="increasing the value of p (probability of retransmission), improves the throughput at the "
            "client",
            where=_FIG_4_4,
            why="the mean above eight senders, from plain TCP to p = 0.1",
            say=lambda m: (
                f"{told(list(m['means'].values()))} Mb/s for p = 0, {listed(PROBABILITIES)}; read to the "
                f"letter {told(list(m['newest'].values()))} from p = {PROBABILITIES[1]:g} on"
            ),
        ),
        Claim(
            "orders",
            "by orders of magnitude",
            "ratio",
            "orders of magnitude",
            "gain",
            at_least(ORDER),
            quote="by orders of magnitude, when the number of senders is greater than eight",
            where=_FIG_4_4,
            why="the best p over plain TCP; an order of magnitude is ten, the plural read leniently",
            unit="times plain TCP",
        ),
        Claim(
            "too-low",
            "with too low a p there is no significant benefit",
            "bound",
            "no significant benefit",
            "gain of the least p",
            at_most(1.25),
            quote="If p is set too low, the proposed technique provides no significant benefits over default "
            "TCP.",
            where="section 4.2.2",
            why="significant: a quarter; the least p of the figure, 0.0001",
            unit="times plain TCP",
        ),
    ),
    measure=measure,
    draw=_draw_goodput,
    causes=(
        Cause(
            "the highest p repeats a segment per sender so often, needed or not, that the ACKs of needless "
            "repetitions count as duplicate ACKs and the link carries repetitions; with the thread run ten "
            "times as rarely throughput rises with every p",
            holds=lambda m: (
                RISES.judge(m["every 200 us"]) == CONFIRMED and m["alone"]["fast retransmits"] > 0
            ),
            evidence=lambda m: (
                f"every 200 us {told(list(m['every 200 us'].values()))} Mb/s; one server alone with "
                f"p = {PROBABILITIES[-1]:g} and {m['alone']['drops']:.0f} drops has "
                f"{m['alone']['fast retransmits']} "
                f"fast retransmits and {m['alone']['goodput']:.0f} Mb/s"
            ),
            of=("rises",),
        ),
        Cause(
            "the link has no room for it: plain TCP gets more than a tenth of its rate",
            holds=lambda m: m["room"] < ORDER,
            evidence=lambda m: f"room for {m['room']:.1f} times",
            of=("orders",),
        ),
    ),
    matters=WHERE,
    probe=_probe,
)

I_4_5 = Row(
    "I-4.5",
    PAPER,
    "Drop ratio over the retransmission probability (Fig 4.5)",
    claims=(
        Claim(
            "grows",
            "the drop ratio grows with p",
            "order",
            "grows",
            lambda m: {name: m["drops"][name] for name in LABELS},
            ordered(*LABELS),
            quote="if p is set too high, it causes unnecessary retransmissions, contributing further to the "
            "congestion",
            where=_FIG_4_5,
            why="dropped over arrived packets, the mean above eight senders",
            say=lambda m: (
                told([m["drops"][name] for name in LABELS], ".3f")
                + f" for p = {listed(PROBABILITIES)} (plain TCP {m['drops'][PLAIN]})"
            ),
        ),
        Claim(
            "too-high",
            "with too high a p more is dropped than with plain TCP",
            "order",
            "contributing further to the congestion",
            "more than plain",
            at_least(0),
            quote="if p is set too high, it causes unnecessary retransmissions, contributing further to the "
            "congestion",
            where=_FIG_4_5,
            why="the highest p of the figure, 0.1",
            unit="more of the packets dropped",
        ),
        Claim(
            "best",
            "p = 0.001 is the best compromise of throughput and drops",
            "number",
            "0.001",
            "best p",
            within(np.log10(BEST).item(), by=0.5),
            quote="for our simulation environment, the best value of p is 0.001",
            where="section 4.2.2",
            why="the most goodput per drop ratio among the four; log10, to the nearest of the four",
            say=lambda m: (
                f"p = {10 ** m['best p'].mean:g}; goodput over drop ratio "
                f"{told(list(m['worth'].values()))} Mb/s"
            ),
        ),
    ),
    measure=measure,
    draw=_draw_drops,
    causes=(
        Cause(
            "at this p a sender that lost its window still waits long for the thread, and the next larger "
            "p gains more goodput than drops",
            holds=lambda m: m["worth"][LABELS[2]].low > m["worth"][LABELS[1]].high,
            evidence=lambda m: f"mean waits of {listed([f'{20e-3 / p:.2g}' for p in PROBABILITIES])} ms",
            of=("best",),
        ),
    ),
    matters=WHERE,
    probe=_probe,
)

NO_LESS, MORE, SLIGHTLY_LESS = every(at_least(0.98)), every(at_least(1)), every(between(0.8, 1))


def _oftener(claim: str, key: str, criterion: Criterion) -> Cause:
    """With the thread run ten times as often a claim of I-4.6 holds."""
    return Cause(
        "the block waits for the last of the senders that lost their window, and each waits for the "
        "thread: with the thread run ten times as often as the book says, which is p = 0.01, the statement "
        "holds",
        holds=lambda m: criterion.judge(m["every 2 us"][key]) == CONFIRMED,
        evidence=lambda m: (
            f"ratios {_span(m['every 2 us'][key])} with the thread every 2 us; twenty servers' blocks "
            f"take {20 * 256 * WIRE * 8 / LINK_BPS * 1e3:.0f} ms, a sender waits 20 us / p = "
            f"{20e-6 / BEST * 1e3:.0f} ms "
            "on average"
        ),
        of=(claim,),
    )


def _no_worse(m: Measurement) -> bool:
    """Whether the thread run ten times as often is at no number of senders below a fast timer, and at some
    above it, where as often as stated it is below at some.
    """
    stated, often = (list(found["over fast above ten"].values()) for found in (m, m["every 2 us"]))
    return (
        any(e.high < 1 for e in stated) and all(e.high >= 1 for e in often) and any(e.low > 1 for e in often)
    )


I_4_6 = Row(
    "I-4.6",
    PAPER,
    "Probabilistic retransmission beside a fast timer (Fig 4.6)",
    claims=(
        Claim(
            "beats-plain",
            "p = 0.001 is no worse than plain TCP at any number of senders",
            "order",
            "outperforms under all conditions",
            "over plain",
            NO_LESS,
            quote="the probabilistic retransmission outperforms default TCP under all experimental "
            "conditions",
            where=_FIG_4_6,
            why="where nothing is lost there is nothing to gain: 2 % less would not show in the figure",
            say=lambda m: f"{_span(m['over plain'])} times plain TCP",
        ),
        Claim(
            "above-ten",
            "above ten senders it is better than RTOmin 200 us",
            "order",
            "better",
            "over fast above ten",
            MORE,
            quote="The technique also performs better than the modified TCP, when the number of senders in "
            "the experiment is greater than ten.",
            where=_FIG_4_6,
            why="at every number of senders, run by run",
            say=lambda m: f"{_span(m['over fast above ten'])} times RTOmin 200 us",
        ),
        Claim(
            "five-to-ten",
            "from five to ten senders it is slightly worse",
            "ratio",
            "slightly worse",
            "over fast from five to ten",
            SLIGHTLY_LESS,
            quote="modified TCP yields slightly better throughput than our proposed solution",
            where=_FIG_4_6,
            why="slightly: a fifth at most",
            say=lambda m: f"{_span(m['over fast from five to ten'])} times RTOmin 200 us",
        ),
    ),
    measure=measure,
    draw=_draw_order,
    causes=(
        _oftener("above-ten", "over fast above ten", MORE),
        Cause(
            "a sender that lost its window waits for the thread, longer than for a fast timer: with the "
            "thread run ten times as often as the book says, it is worse at no number of senders and better "
            "at some",
            holds=_no_worse,
            evidence=lambda m: (
                f"as stated: {_span(m['over fast above ten'])}; every 2 us: "
                + ", ".join(f"{name} {e}" for name, e in m["every 2 us"]["over fast above ten"].items())
            ),
            of=("above-ten",),
        ),
        _oftener("five-to-ten", "over fast from five to ten", SLIGHTLY_LESS),
        _oftener("beats-plain", "over plain", NO_LESS),
    ),
    matters=WHERE,
    probe=_probe,
)

THREAD_ROWS = [I_4_4, I_4_5, I_4_6]
