"""Every row of the incast book, in the order of its figures."""

from penstock.experiments.incast import rows_basic, rows_mechanism
from penstock.ledger import Row

ROWS: list[Row] = [*rows_mechanism.ROWS, *rows_basic.ROWS]
