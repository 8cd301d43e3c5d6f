"""Every row of the thesis, in its order."""

from __future__ import annotations

from penstock_papers.experiments.sdc_racs.benchmark_rows import BENCHMARK_ROWS
from penstock_papers.experiments.sdc_racs.gain_rows import GAIN_ROWS
from penstock_papers.experiments.sdc_racs.hop_rows import HOP_ROWS
from penstock_papers.experiments.sdc_racs.incast_rows import INCAST_ROWS
from penstock_papers.experiments.sdc_racs.long_rows import LONG_ROWS
from penstock_papers.experiments.sdc_racs.mix_rows import MIX_ROWS
from penstock_papers.experiments.sdc_racs.text_rows import TEXT_ROWS
from penstock_papers.experiments.sdc_racs.threshold_rows import THRESHOLD_ROWS
from penstock_papers.ledger import Row

_ORDER = (
    "3.2 3.3 3.4 3.5 ex 3.7 3.8 hop 3.9 3.10 3.11 T3.4 3.12 3.13 "
    "4.4 4.5 hop2 4.6 4.7 4.8 T4.2 4.9 4.10 4.11 4.12 4.13"
)
_BY_ID = {
    row.id: row
    for row in (*GAIN_ROWS, *THRESHOLD_ROWS, *LONG_ROWS, *HOP_ROWS, *INCAST_ROWS, *MIX_ROWS, *BENCHMARK_ROWS)
}

ROWS: list[Row] = [_BY_ID[f"M-{name}"] for name in _ORDER.split()] + TEXT_ROWS
