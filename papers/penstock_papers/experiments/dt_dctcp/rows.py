"""Every row of the paper, in its order."""

from __future__ import annotations

from penstock_papers.experiments.dt_dctcp.alpha_rows import D_12
from penstock_papers.experiments.dt_dctcp.analysis_rows import ANALYSIS_ROWS
from penstock_papers.experiments.dt_dctcp.live_rows import LIVE_ROWS
from penstock_papers.experiments.dt_dctcp.mean_queue_rows import D_10
from penstock_papers.experiments.dt_dctcp.queue_rows import D_1, D_11
from penstock_papers.experiments.dt_dctcp.testbed_rows import TESTBED_ROWS
from penstock_papers.experiments.dt_dctcp.text_rows import TEXT_ROWS
from penstock_papers.ledger import Row

__all__ = ["LIVE_ROWS", "ROWS"]

ROWS: list[Row] = [D_1, *ANALYSIS_ROWS, D_10, D_11, D_12, *TESTBED_ROWS, *TEXT_ROWS]
