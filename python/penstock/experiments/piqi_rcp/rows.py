"""Every row of the paper, in its order."""

from __future__ import annotations

from penstock.experiments.piqi_rcp.linux import LINUX_ROWS
from penstock.experiments.piqi_rcp.live_rows import LIVE_ROWS
from penstock.experiments.piqi_rcp.stability import STABILITY_ROWS
from penstock.experiments.piqi_rcp.transients import TRANSIENT_ROWS
from penstock.ledger import Row

_ORDER = ["P-2", "P-3", "P-4", "P-5", "P-6", "P-8", "P-9", "P-10", "P-11", "P-12", "P-13a", "P-13b", "P-15"]
_ORDER += ["P-16", "P-17", "P-18", "P-19", "P-hdr"]
_ALL = {row.id: row for row in [*STABILITY_ROWS, *TRANSIENT_ROWS, *LINUX_ROWS]}

__all__ = ["LIVE_ROWS", "ROWS"]

ROWS: list[Row] = [_ALL[name] for name in _ORDER]
