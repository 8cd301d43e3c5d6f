"""Outcomes: what a reader is told of a claim and of a statement, in five words.

A claim's verdict says whether its number meets the criterion with the values that we chose for what the paper
leaves open. Its outcome says, too, whether it does so with other values: *robust* in half of the searched
space or more, *chosen* otherwise. Identities and definitions cannot fail and are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from penstock.ledger import holding
from penstock.ledger.claims import DEFINITION, IDENTITY, MODEL, NOT_RUN, Claim, Row
from penstock.ledger.criteria import CONFIRMED, DIFFERS
from penstock.ledger.selection import statements_of
from penstock.ledger.statements import Statement

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
# From this share of the searched space on a claim holds robustly.
HALF = 0.5
# What decides a statement of several checks, the first that one of them has.
_WORST = (NOT_RUN, FAILS, UNDECIDED, CHOSEN, ROBUST)


def outcome(row: Row, claim: Claim, verdict: str) -> str:
    """The outcome of a claim whose verdict at the chosen values is `verdict`."""
    if verdict == NOT_RUN:
        return NOT_RUN
    if claim.basis in (IDENTITY, DEFINITION):
        return IDENTICAL
    if verdict == DIFFERS:
        return FAILS
    if verdict != CONFIRMED:
        return UNDECIDED
    share = holding.share(row, claim.id)
    if share is None:
        # A model of what the paper states alone has nothing to choose.
        return ROBUST if claim.basis == MODEL and not row.matters else CHOSEN
    return ROBUST if share >= HALF else CHOSEN


def together(outcomes: Iterable[str]) -> str:
    """The outcome of a statement from those of its checks: it holds where all of them do."""
    counted = [one for one in outcomes if one != IDENTICAL]
    return next((worst for worst in _WORST if worst in counted), IDENTICAL)


def of_statements(paper: str, outcomes: Mapping[str, str]) -> list[tuple[Statement, str]]:
    """The statements of a paper that have a check among `outcomes` (by "D-10/rise"), each with its outcome. A
    check that is missing there is left out.
    """
    found = []
    for statement in statements_of(paper).statements:
        known = [outcomes[check] for check in statement.checks if check in outcomes]
        if known:
            found.append((statement, together(known)))
    return found


def tally(found: Sequence[tuple[Statement, str]]) -> Counter[str]:
    """How many statements have each outcome."""
    return Counter(one for _, one in found)
