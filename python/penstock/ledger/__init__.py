"""The ledger: every statement of the papers as a claim with its own criterion and verdict.

A row is a figure or table: it measures, judges its claims and draws, in separate functions (docs/ledger.md).
"""

from penstock.ledger.claims import (
    IN_PART,
    KINDS,
    NOT_RUN,
    UNEXPLAINED,
    Cause,
    Claim,
    Judged,
    Measurement,
    Row,
    from_plain,
    plain,
    repeated,
    show,
    verdict_of,
)
from penstock.ledger.criteria import (
    CONFIRMED,
    DIFFERS,
    UNDECIDED,
    Criterion,
    Estimate,
    at_least,
    at_most,
    between,
    every,
    is_so,
    monotone,
    none,
    ordered,
    ratio_at_least,
    together,
    within,
)
from penstock.ledger.judging import Verdict, counts, judge, reproduce, write
from penstock.ledger.lab import Derive, Lab, NotRun
from penstock.ledger.selection import LIVE, PAPERS, PART_THREE, PART_TWO, folder, lacks, rows, select
from penstock.ledger.space import Space

# In the order of the table: what a row or claim may come to.
VERDICTS = (CONFIRMED, IN_PART, DIFFERS, UNDECIDED, NOT_RUN)

__all__ = [
    "CONFIRMED",
    "DIFFERS",
    "IN_PART",
    "KINDS",
    "LIVE",
    "NOT_RUN",
    "PAPERS",
    "PART_THREE",
    "PART_TWO",
    "UNDECIDED",
    "UNEXPLAINED",
    "VERDICTS",
    "Cause",
    "Claim",
    "Criterion",
    "Derive",
    "Estimate",
    "Judged",
    "Lab",
    "Measurement",
    "NotRun",
    "Row",
    "Space",
    "Verdict",
    "at_least",
    "at_most",
    "between",
    "counts",
    "every",
    "folder",
    "from_plain",
    "is_so",
    "judge",
    "lacks",
    "monotone",
    "none",
    "ordered",
    "plain",
    "ratio_at_least",
    "repeated",
    "reproduce",
    "rows",
    "select",
    "show",
    "together",
    "verdict_of",
    "within",
    "write",
]
