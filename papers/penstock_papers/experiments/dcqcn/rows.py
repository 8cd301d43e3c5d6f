"""Every row of the paper, in its order, then those of "ECN or Delay" (Zhu et al., CoNEXT 2016)."""

from __future__ import annotations

from penstock_papers.experiments.dcqcn.model_rows import DCQCN_11, DCQCN_C4
from penstock_papers.experiments.dcqcn.pause_rows import DCQCN_8, DCQCN_9
from penstock_papers.experiments.dcqcn.queue_rows import DCQCN_19, DCQCN_61
from penstock_papers.ledger import Row

__all__ = ["ROWS"]

ROWS: list[Row] = [DCQCN_8, DCQCN_9, DCQCN_11, DCQCN_61, DCQCN_19, DCQCN_C4]
