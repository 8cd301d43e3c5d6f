"""Every row of the ledger at its smallest length measures, judges each of its claims, and draws. Each claim
comes out both ways if other numbers replace the measured ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from mutation import outcomes, targets

from penstock_papers import ledger
from penstock_papers.experiments.homa import longer, own, rows
from penstock_papers.ledger import CONFIRMED, DIFFERS, Claim, Lab, Measurement, Row

ROWS = ledger.rows()
BOTH = {CONFIRMED, DIFFERS}
# The lab of the paper whose rows are run, which share simulations; the next paper needs no memory of them.
LABS: dict[str, Lab] = {}


def published(bins: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, list[float]]]:
    """The published percentiles of size bins, as if they had been measured."""
    return {
        name: {"p50": [p50 for _, _, p50, _ in found], "p99": [p99 for *_, p99 in found]}
        for name, found in bins.items()
    }


# What is compared with tables of numbers comes near them by no chance: the tables themselves.
AS_PUBLISHED: dict[str, Any] = {
    "HOMA-W1": {"at": published(rows.BINS), "small": published(rows.BINS)},
    "HOMA-W3": published(longer.BINS),
    "HOMA-W5": published(longer.BINS),
    "HOMA-W3-OWN": published(own.BINS),
}


@pytest.fixture
def lab(row: Row, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    if row.paper not in LABS:
        LABS.clear()
        LABS[row.paper] = Lab(tmp_path_factory.mktemp(row.paper), smallest=True)
    return LABS[row.paper]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_runs_at_its_smallest_length(row: Row, lab: Lab):
    verdict = ledger.judge(row, lab)
    assert verdict.verdict != ledger.NOT_RUN, verdict.reason
    assert [one.claim for one in verdict.claims] == list(row.claims)
    assert all(path.stat().st_size for path in verdict.figures)
    vacuous = [one.claim.id for one in verdict.claims if one.verdict == one.opposed == CONFIRMED]
    assert not vacuous, "they hold under the opposing measurement, too"
    measured = [verdict.measurement, *([AS_PUBLISHED[row.id]] if row.id in AS_PUBLISHED else [])]
    for claim in row.claims:
        seen = set().union(*(verdicts(claim, numbers) for numbers in measured))
        assert seen >= BOTH, f"{claim.id}: whatever is measured it is {seen}"


def verdicts(claim: Claim, measured: Measurement) -> set[str]:
    """Those of a claim on what was measured and on other numbers in its place."""

    def judge(numbers: Measurement) -> str:
        return claim.criterion.judge(claim.value(numbers))

    return outcomes(judge, measured, BOTH, list(targets(claim.criterion)))
