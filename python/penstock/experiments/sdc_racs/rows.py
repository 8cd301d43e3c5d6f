"""Every row of the thesis, in its order."""

from __future__ import annotations

from penstock.experiments.sdc_racs.model_rows import MODEL_ROWS
from penstock.experiments.sdc_racs.packet_rows import PACKET_ROWS
from penstock.ledger import Row

ROWS: list[Row] = [*MODEL_ROWS, *PACKET_ROWS]
