"""Every row of the paper, in its order."""

from __future__ import annotations

from penstock.experiments.dt_dctcp.analysis_rows import ANALYSIS_ROWS
from penstock.experiments.dt_dctcp.live_rows import LIVE_ROWS
from penstock.experiments.dt_dctcp.simulation_rows import SIMULATION_ROWS
from penstock.experiments.dt_dctcp.testbed_rows import TESTBED_ROWS
from penstock.ledger import Row

__all__ = ["LIVE_ROWS", "ROWS"]

ROWS: list[Row] = [SIMULATION_ROWS[0], *ANALYSIS_ROWS, *SIMULATION_ROWS[1:], *TESTBED_ROWS]
