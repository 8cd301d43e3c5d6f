"""Statements that the thesis makes of several figures, as claims."""

from __future__ import annotations

from collections.abc import Callable

from penstock_papers.ledger import Measurement

Say = Callable[[Measurement], str]
