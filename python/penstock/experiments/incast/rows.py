"""Every row of the incast book, in the order of its figures."""

from penstock.experiments.incast import remedies, rows_basic, rows_mechanism, validation
from penstock.ledger import Row

ROWS: list[Row] = [*rows_mechanism.ROWS, *validation.ROWS, *rows_basic.ROWS, *remedies.ROWS]
