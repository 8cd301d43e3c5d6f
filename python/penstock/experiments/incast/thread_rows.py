"""Section 4.2: probabilistic retransmission by a thread at the senders (Fig 4.4 to 4.6).

Setting: Table 3.1, a thread every 20 us. How the two open points of algorithms 1 and 3 are read stands in
choices.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock import figures
from penstock.experiments.common import centre, half
from penstock.experiments.incast.setup import (
    LINK_BPS,
    MATTERS,
    ORDER,
    PAPER,
    WIRE,
    beside_plot,
    draw,
    listed,
    told,
)
from penstock.experiments.incast.thread import (
    BEST,
    FAST_TIMER,
    LABELS,
    PLAIN,
    PROBABILITIES,
    THREAD,
    label,
    measure,
    probe,
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

# ---- rows -------------------------------------------------------------------------------------------------

_FIG_4_4, _FIG_4_5, _FIG_4_6 = (f"section 4.2.2, Fig 4.{k}" for k in (4, 5, 6))
RISES = ordered(PLAIN, *LABELS)
BY_ORDERS, INSIGNIFICANT = at_least(ORDER), at_most(1.25)
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
            BY_ORDERS,
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
            INSIGNIFICANT,
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
        Cause(
            "here a sender that waited for a timeout begins its next block with the initial window; where "
            "windows are carried from block to block, as section 3.2 has them, plain TCP collapses deeper "
            "and the statement holds",
            holds=lambda m: BY_ORDERS.judge(m["windows carried"]["gain"]) == CONFIRMED,
            evidence=lambda m: (
                f"{m['windows carried']['gain']} times plain TCP, which then has "
                f"{m['windows carried'][PLAIN]} Mb/s instead of {m['means'][PLAIN]}"
            ),
            of=("orders",),
        ),
        Cause(
            "the least p of the figure is not too low: the thread comes to a sender as soon, on average, as "
            "its timer; with a tenth of it, the thread run ten times as rarely, there is no significant "
            "benefit",
            holds=lambda m: INSIGNIFICANT.judge(m["gain of a tenth of the least p"]) == CONFIRMED,
            evidence=lambda m: (
                f"20 us / p = {20e-3 / PROBABILITIES[0]:.0f} ms; with a tenth of p "
                f"{m['gain of a tenth of the least p']} times plain TCP"
            ),
            of=("too-low",),
        ),
    ),
    matters=WHERE,
    probe=probe,
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
    probe=probe,
)


def _span(ratios: Mapping[str, Estimate]) -> str:
    return f"{min(e.mean for e in ratios.values()):.2f} to {max(e.mean for e in ratios.values()):.2f}"


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


# Twice the stated number of senders.
TWICE = 20


def _crosses(m: Measurement) -> bool:
    """Whether the thread run ten times as often is slightly below a fast timer from five to ten senders, and
    above it at every number from twice ten on.
    """
    often = m["every 2 us"]
    many = {n: e for n, e in often["over fast above ten"].items() if int(n.split()[0]) >= TWICE}
    few = often["over fast from five to ten"]
    return bool(many) and SLIGHTLY_LESS.judge(few) == MORE.judge(many) == CONFIRMED


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
        Cause(
            "a sender that lost its window waits for the thread, longer than for a fast timer: with the "
            "thread run ten times as often as the book says, the two cross as in the figure, if at up to "
            "twice as many senders",
            holds=_crosses,
            evidence=lambda m: (
                f"as stated: {_span(m['over fast above ten'])}; every 2 us, from five to ten senders: "
                f"{_span(m['every 2 us']['over fast from five to ten'])}; every 2 us, above ten: "
                + ", ".join(f"{name} {e}" for name, e in m["every 2 us"]["over fast above ten"].items())
            ),
            of=("above-ten",),
        ),
        _oftener("five-to-ten", "over fast from five to ten", SLIGHTLY_LESS),
        _oftener("beats-plain", "over plain", NO_LESS),
    ),
    matters=WHERE,
    probe=probe,
)

THREAD_ROWS = [I_4_4, I_4_5, I_4_6]
