"""Section 4.2: probabilistic retransmission by a thread at the senders (Fig 4.4 to 4.6).

Setting: Table 3.1, a thread every 20 us. How the two open points of algorithms 1 and 3 are read stands in
choices.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from penstock import figures
from penstock_papers.experiments.common import centre, half
from penstock_papers.experiments.incast import setup, thread
from penstock_papers.ledger import (
    CONFIRMED,
    Cause,
    Criterion,
    Estimate,
    Lab,
    Measurement,
    Row,
    claim_criterion,
    ordered,
)

# ---- rows -------------------------------------------------------------------------------------------------

RISES = ordered(thread.PLAIN, *thread.LABELS)
BY_ORDERS = claim_criterion("I-4.4/orders")
WHERE = (*setup.MATTERS, *thread.THREAD)


def _draw_goodput(m: Measurement, lab: Lab) -> list[Path]:
    shown = {name: m["curves"][name] for name in (thread.PLAIN, *thread.LABELS)}
    newest = {thread.PLAIN: m["curves"][thread.PLAIN], **m["curves, newest"]}
    return [
        lab.save(setup.draw("Effect of the retransmission probability", shown), "I-4.4"),
        lab.save(setup.draw("The same, read to the letter", newest), "I-4.4-newest"),
    ]


def _draw_drops(m: Measurement, lab: Lab) -> list[Path]:
    with figures.style():
        figure, (ax,) = figures.new(width=7.8)
        for i, (name, ratios) in enumerate(m["drop ratios"].items()):
            figures.band(ax, m["curves"][name]["servers"], centre(ratios), half(ratios), name, i)
        ax.set(xlabel="number of servers", ylabel="drop ratio (dropped / arrived packets)")
        ax.set_title("Effect of the retransmission probability on drops")
        setup.beside_plot(ax)
    return [lab.save(figure, "I-4.5")]


def _draw_order(m: Measurement, lab: Lab) -> list[Path]:
    three = {name: m["curves"][name] for name in (thread.PLAIN, thread.FAST_TIMER, thread.label(thread.BEST))}
    often = {
        thread.PLAIN: three[thread.PLAIN],
        thread.FAST_TIMER: three[thread.FAST_TIMER],
        "p = 0.001 every 2 us": m["curve, every 2 us"],
    }
    return [
        lab.save(setup.draw("Probabilistic retransmission and a fast timer", three), "I-4.6"),
        lab.save(setup.draw("The same with the thread run every 2 us", often), "I-4.6-every-2us"),
    ]


_row = partial(Row, measure=thread.measure, probe=thread.probe)

I_4_4 = _row(
    "I-4.4",
    "Effect of the retransmission probability (Fig 4.4)",
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
                f"every 200 us {setup.told(list(m['every 200 us'].values()))} Mb/s; one server alone with p "
                f"= {thread.PROBABILITIES[-1]:g} and {m['alone']['drops']:.0f} drops has "
                f"{m['alone']['fast retransmits']} fast retransmits and {m['alone']['goodput']:.0f} Mb/s"
            ),
            of=("rises",),
        ),
        Cause(
            "here a sender that waited for a timeout begins its next block with the initial window; where "
            "windows are carried from block to block, as section 3.2 has them, plain TCP collapses deeper "
            "and the statement holds",
            holds=lambda m: BY_ORDERS.judge(m["windows carried"]["gain"]) == CONFIRMED,
            evidence=lambda m: (
                f"{m['windows carried']['gain']} times plain TCP, which then has "
                f"{m['windows carried'][thread.PLAIN]} Mb/s instead of {m['means'][thread.PLAIN]}"
            ),
            of=("orders",),
        ),
    ),
    matters=WHERE,
)


def drops_in_words(m: Measurement) -> str:
    """The drop ratio at each probability and without the thread."""
    ratios = setup.told([m["drops"][name] for name in thread.LABELS], ".3f")
    return f"{ratios} for p = {setup.listed(thread.PROBABILITIES)} (plain TCP {m['drops'][thread.PLAIN]})"


def best_in_words(m: Measurement) -> str:
    """The best probability, and what each is worth."""
    worth = setup.told(list(m["worth"].values()))
    return f"p = {10 ** m['best p'].mean:g}; goodput over drop ratio {worth} Mb/s"


I_4_5 = _row(
    "I-4.5", "Drop ratio over the retransmission probability (Fig 4.5)", draw=_draw_drops, matters=WHERE
)


def _span(ratios: Mapping[str, Estimate]) -> str:
    return f"{min(e.mean for e in ratios.values()):.2f} to {max(e.mean for e in ratios.values()):.2f}"


NO_LESS, MORE = claim_criterion("I-4.6/beats-plain"), claim_criterion("I-4.6/above-ten")
SLIGHTLY_LESS = claim_criterion("I-4.6/five-to-ten")


def _oftener(claim: str, key: str, criterion: Criterion) -> Cause:
    """With the thread run ten times as often a claim of I-4.6 holds."""
    return Cause(
        "the block waits for the last of the senders that lost their window, and each waits for the thread: "
        "with the thread run ten times as often as the book says, which is p = 0.01, the statement holds",
        holds=lambda m: criterion.judge(m["every 2 us"][key]) == CONFIRMED,
        evidence=lambda m: (
            f"ratios {_span(m['every 2 us'][key])} with the thread every 2 us; twenty servers' blocks take "
            f"{20 * 256 * setup.WIRE * 8 / setup.LINK_BPS * 1e3:.0f} ms, a sender waits 20 us / p = "
            f"{20e-6 / thread.BEST * 1e3:.0f} ms on average"
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


I_4_6 = _row(
    "I-4.6",
    "Probabilistic retransmission beside a fast timer (Fig 4.6)",
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
)

THREAD_ROWS = [I_4_4, I_4_5, I_4_6]
