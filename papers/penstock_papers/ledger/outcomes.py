"""Outcomes: what a reader is told of a claim and of a statement, in five words.

A claim's verdict says whether its number meets the criterion with the values that we chose for what the paper
leaves open. Its outcome says, too, whether it does so with other values: *robust* in half of the searched
space or more, *chosen* otherwise. Identities and definitions are not counted, unless one does not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from penstock_papers.ledger import holding
from penstock_papers.ledger.claims import DEFINITION, IDENTITY, MODEL, NOT_RUN, Claim, Row
from penstock_papers.ledger.criteria import CONFIRMED, DIFFERS

ROBUST, CHOSEN, FAILS, UNDECIDED, IDENTICAL = "robust", "chosen", "fails", "undecided", "identity"
WORDS = {
    ROBUST: "holds robustly",
    CHOSEN: "holds for our choices",
    FAILS: "does not hold",
    UNDECIDED: "undecided",
    IDENTICAL: "identity or definition",
    NOT_RUN: "not run",
}
OUTCOMES = tuple(WORDS)
# Those that count: what cannot fail says nothing about a paper.
COUNTED = (ROBUST, CHOSEN, FAILS, UNDECIDED)
# What decides a statement of several checks, the first that one of them has.
_WORST = (NOT_RUN, FAILS, UNDECIDED, CHOSEN, ROBUST)


def outcome(row: Row, claim: Claim, verdict: str) -> str:
    """The outcome of a claim whose verdict at the chosen values is `verdict`."""
    if verdict == NOT_RUN:
        return NOT_RUN
    if claim.basis in (IDENTITY, DEFINITION) and verdict == CONFIRMED:
        return IDENTICAL
    if verdict == DIFFERS:
        return FAILS
    if verdict != CONFIRMED:
        return UNDECIDED
    share = holding.share(row, claim.id)
    if share is None:
        # A model of what the paper states alone has nothing to choose.
        return ROBUST if claim.basis == MODEL and not row.matters else CHOSEN
    return ROBUST if share >= holding.ROBUST else CHOSEN


def together(outcomes: Iterable[str]) -> str:
    """The outcome of a statement from those of its checks: it holds where all of them do."""
    counted = [one for one in outcomes if one != IDENTICAL]
    return next((worst for worst in _WORST if worst in counted), IDENTICAL)


def of_statements(found: Iterable[tuple[Row, Claim, str]]) -> dict[tuple[str, str], str]:
    """The outcomes of statements, by paper and statement, from those of their checks. A check that another
    row shows again counts once; one without a statement is one of its own.
    """
    checks: dict[tuple[str, str], list[str]] = {}
    for row, claim, one in found:
        if not claim.same_as:
            name = claim.statement or f"{row.id}/{claim.id}"
            checks.setdefault((row.paper, name), []).append(one)
    return {name: together(own) for name, own in checks.items()}


def tally(statements: Mapping[tuple[str, str], str], papers: Iterable[str]) -> Counter[str]:
    """How many statements of these papers have each outcome."""
    wanted = set(papers)
    return Counter(one for (paper, _), one in statements.items() if paper in wanted)


def sentence(claim: Claim, one: str, measured: str, because: str = "") -> str:
    """The outcome of a claim in a sentence: what the paper says, what we find, and why."""
    says = f"The paper says: {claim.text}."
    if one == NOT_RUN:
        return f"{says} We have not run it."
    if one == IDENTICAL:
        return f"{says} That follows from its definitions ({measured}), so it is not counted."
    asked = f"{claim.quantity or 'it'} has to be {claim.criterion.text}"
    ends = {
        ROBUST: f"so it holds, also for most other values of what the paper leaves open: {asked}",
        CHOSEN: f"so it holds for the values that we chose for what the paper leaves open: {asked}",
        FAILS: f"so it does not hold: {asked}",
        UNDECIDED: f"so it is undecided: {asked}",
    }
    part = f" Of this we judge a part: {claim.part}." if claim.part else ""
    end = f"{ends[one]}{untested(claim, one)}"
    why = f", and {because[:1].lower()}{because[1:].rstrip('.')}" if because else ""
    return f"{says}{part} We find {measured}, {end}{why}."


def untested(claim: Claim, one: str) -> str:
    """What is added to an outcome that no run could have made another; "" for all others."""
    held = one in (ROBUST, CHOSEN) and claim.unopposed
    return f"; it could not fail here: {claim.unopposed}" if held else ""
