"""Every row of the incast book, in the order of its figures."""

from penstock_papers.experiments.incast.block_start_rows import BLOCK_START_ROWS
from penstock_papers.experiments.incast.collapse_rows import COLLAPSE_ROWS
from penstock_papers.experiments.incast.dctcp_rows import DCTCP_ROWS
from penstock_papers.experiments.incast.model_rows import MODEL_ROWS
from penstock_papers.experiments.incast.remedy_rows import REMEDY_ROWS
from penstock_papers.experiments.incast.segment_rows import SEGMENT_ROWS
from penstock_papers.experiments.incast.size_rows import SIZE_ROWS
from penstock_papers.experiments.incast.split_rows import SINGLE_FLOW_ROWS, SPLIT_ROWS
from penstock_papers.experiments.incast.text_rows import TEXT_ROWS
from penstock_papers.experiments.incast.thread_rows import THREAD_ROWS
from penstock_papers.experiments.incast.timeout_rows import TIMEOUT_ROWS
from penstock_papers.ledger import Row

ROWS: list[Row] = [
    *COLLAPSE_ROWS,
    *TIMEOUT_ROWS,
    *BLOCK_START_ROWS,
    *MODEL_ROWS,
    *SPLIT_ROWS,
    *SIZE_ROWS,
    *SINGLE_FLOW_ROWS,
    *REMEDY_ROWS,
    *THREAD_ROWS,
    *SEGMENT_ROWS,
    *DCTCP_ROWS,
    *TEXT_ROWS,
]
