"""Every row of the paper, in its order, and then what the text states beside its figures."""

from __future__ import annotations

from penstock_papers.experiments.cbc.equal_rows import EQUAL_ROWS, K_AF31
from penstock_papers.experiments.cbc.eta_rows import K_ETA
from penstock_papers.experiments.cbc.full_rows import FULL_ROWS, K_2M
from penstock_papers.experiments.cbc.half_rows import HALF_ROWS, K_DBL
from penstock_papers.experiments.cbc.open_rows import K_OPEN
from penstock_papers.experiments.cbc.set_rows import K_SETS
from penstock_papers.experiments.cbc.text_rows import TEXT_ROWS
from penstock_papers.ledger import Row

ROWS: list[Row] = [
    *FULL_ROWS,
    *HALF_ROWS,
    *EQUAL_ROWS,
    K_2M,
    K_DBL,
    K_AF31,
    K_ETA,
    K_SETS,
    K_OPEN,
    *TEXT_ROWS,
]
