"""Statements that the thesis makes of several figures, as claims."""

from __future__ import annotations

from collections.abc import Callable

from penstock.experiments.sdc_racs.setup import LARGE, SMALL
from penstock.ledger import Claim, Measurement, at_least, at_most, between, every, monotone

Say = Callable[[Measurement], str]


def small_queue(
    id: str, text: str, label: str, say: Say, *, quote: str, where: str, key: str = "queue"
) -> Claim:
    """A protocol's mean queue is small at every point."""
    return Claim(
        id,
        text,
        "bound",
        "small",
        lambda m: m[key][label],
        every(at_most(SMALL)),
        quote=quote,
        where=where,
        why="small: below a quarter of the buffer",
        say=say,
    )


def large_queue(id: str, text: str, label: str, say: Say, *, quote: str, where: str) -> Claim:
    """A protocol's mean queue is large at every point."""
    return Claim(
        id,
        text,
        "bound",
        "large",
        lambda m: m["queue"][label],
        every(at_least(LARGE)),
        quote=quote,
        where=where,
        why="large: above half of the buffer",
        say=say,
    )


def loses_more(
    id: str, text: str, stated: str, label: str, say: Say, *, quote: str, where: str, key: str = "loss"
) -> Claim:
    """A protocol's loss rate rises all along."""
    return Claim(
        id,
        text,
        "shape",
        stated,
        lambda m: m[key][label],
        monotone(),
        quote=quote,
        where=where,
        say=say,
    )


def alike_at_first(text: str, other: str, of: str, *, where: str) -> Claim:
    """At the lowest rate completion times are comparable to another protocol's."""
    return Claim(
        "alike",
        text,
        "equal",
        "comparable at low loads",
        of,
        every(between(0.5, 2)),
        quote="three protocols show comparable behavior at low loads",
        where=where,
        why=f"comparable: within a factor of two of {other}'s",
        unit=f"times {other}'s",
    )


def stays_flat(label: str, say: Say, *, where: str) -> Claim:
    """A protocol's completion time stays nearly the same up to the highest rate."""
    return Claim(
        f"{label.lower()}-flat",
        f"{label}'s AFCT stays nearly the same up to 2000 flows/s",
        "ratio",
        "remains same",
        lambda m: m["rise"][label],
        at_most(1.5),
        quote=f"performance of {label} largely remains same even at arrival rate of 2000 flows/sec",
        where=where,
        why="largely the same: at most 1.5 times from the lowest rate to the highest",
        say=say,
    )


def rises_significantly(id: str, label: str, say: Say, *, where: str) -> Claim:
    """A protocol's completion time at least doubles from the lowest rate to the highest."""
    return Claim(
        id,
        f"the AFCT of {label.removesuffix(' DropTail')} rises significantly with the arrival rate",
        "ratio",
        "increases significantly",
        lambda m: m["rise"][label],
        at_least(2),
        quote="as the arrival rate of flow increases, AFCT of TCP flows increases significantly",
        where=where,
        why="significantly: at least twice from the lowest rate to the highest",
        say=say,
    )
