"""Every row of the paper, in its order."""

from __future__ import annotations

from penstock_papers.experiments.piqi_rcp.abrupt_rows import ABRUPT_ROWS
from penstock_papers.experiments.piqi_rcp.completion_rows import COMPLETION_ROWS
from penstock_papers.experiments.piqi_rcp.crowd_rows import CROWD_ROWS
from penstock_papers.experiments.piqi_rcp.join_rows import JOIN_ROWS
from penstock_papers.experiments.piqi_rcp.live_rows import LIVE_ROWS
from penstock_papers.experiments.piqi_rcp.piqi_rows import PIQI_ROWS
from penstock_papers.experiments.piqi_rcp.qi_rows import QI_ROWS
from penstock_papers.experiments.piqi_rcp.share_rows import SHARE_ROWS
from penstock_papers.experiments.piqi_rcp.t1_rcp_rows import T1_RCP_ROWS
from penstock_papers.experiments.piqi_rcp.t1_rows import T1_ROWS
from penstock_papers.experiments.piqi_rcp.text_rows import TEXT_ROWS
from penstock_papers.experiments.piqi_rcp.three_rows import THREE_ROWS
from penstock_papers.ledger import Row

_ORDER = "2 3 4 5 6 8 9 10 11 12 13a 13b 15 16 17 18 19 hdr"
_BY_ID = {
    row.id: row
    for rows in (T1_RCP_ROWS, T1_ROWS, QI_ROWS, PIQI_ROWS, CROWD_ROWS, JOIN_ROWS, COMPLETION_ROWS, SHARE_ROWS)
    for row in rows
}
_BY_ID |= {row.id: row for row in (*THREE_ROWS, *ABRUPT_ROWS)}

__all__ = ["LIVE_ROWS", "ROWS"]

ROWS: list[Row] = [_BY_ID[f"P-{name}"] for name in _ORDER.split()] + TEXT_ROWS
