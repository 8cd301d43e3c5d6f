"""Completion times and slowdown by size: classes of about equally many flows, quantiles with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from penstock import scenario, stats

if TYPE_CHECKING:
    from penstock.runs import RunSet

VALUES = ("slowdown", "fct_s")
# The tables that have both, with the column of the size.
SIZE = {"flows": "size_bytes", "transfers": "bytes"}


def completed(runs: RunSet, table: str | None = None, value: str = "slowdown") -> tuple[pl.DataFrame, str]:
    """`run`, `size_bytes` and `value` of what was completed and has a size, and the table it is from: the one
    named, or flows where any was completed and otherwise transfers.

    Raises NotRecorded when no run kept the table or nothing of it was completed; ScenarioError for another
    table or value.
    """
    from penstock.runs import NotRecorded

    if value not in VALUES:
        raise scenario.error("value", value, f"must be one of {', '.join(VALUES)}")
    if table is not None and table not in SIZE:
        raise scenario.error("table", table, f"must be one of {', '.join(SIZE)}")
    wanted = [table] if table is not None else list(SIZE)
    problem: NotRecorded | None = None
    for name in wanted:
        try:
            found = runs.table(name)
        except NotRecorded as missing:
            problem = problem or missing
            continue
        size = pl.col(SIZE[name]).alias("size_bytes")
        rows = found.select("run", size, value).filter(pl.col(value).is_finite(), pl.col("size_bytes") > 0)
        if rows.height:
            return rows, name
    if problem is not None:
        raise problem
    raise NotRecorded(
        f"none of the {' and '.join(wanted)} was completed in these runs: a longer duration may help"
    )


def edges(sizes: ArrayLike, bins: int) -> NDArray[Any]:
    """The largest sizes of all classes but the last, for `bins` classes of about equally many. Fewer where
    sizes repeat: a class has whole sizes. Raises ScenarioError when `bins` is no positive whole number.
    """
    count = scenario.whole("bins", bins, least=1)
    inner = np.linspace(0, 1, count + 1)[1:-1]
    x = np.asarray(sizes)
    found = np.unique(np.quantile(x, inner, method="nearest"))
    return found[found < x.max()]


def quantiles(
    rows: pl.DataFrame, borders: NDArray[Any], shares: Sequence[float] = (0.5, 0.99), value: str = "slowdown"
) -> pl.DataFrame:
    """What `RunSet.by_size` says, of `rows` (`run`, `size_bytes`, `value`) between these borders.

    The quantiles are taken in each run (linear between order statistics); mean and interval are over runs.
    """
    for share in shares:
        if not 0 < share < 1:
            raise scenario.error("shares", share, "must be above 0 and below 1")
    names = {share: f"{value}_p{100 * share:g}" for share in shares}
    size = pl.col("size_bytes")
    classes = pl.Series("class", np.searchsorted(borders, rows["size_bytes"].to_numpy(), side="left"))
    sized = rows.with_columns(classes)
    found = (
        sized.group_by("class")
        .agg(
            size.min().alias("size_low_bytes"),
            size.max().alias("size_high_bytes"),
            size.median().alias("size_bytes"),
            pl.len().alias("flows"),
        )
        .sort("class")
    )
    each = sized.group_by("class", "run", maintain_order=True).agg(
        pl.col(value).quantile(share, interpolation="linear").alias(name) for share, name in names.items()
    )
    by_class = each.partition_by("class", as_dict=True)
    columns = []
    for name in names.values():
        parts = [by_class[(number,)][name] for number in found["class"]]
        columns.append(pl.Series(name, [stats.mean(part) for part in parts], dtype=pl.Float64))
        columns.append(pl.Series(f"{name}_ci95", [stats.ci95(part) for part in parts], dtype=pl.Float64))
    return found.drop("class").with_columns(columns)
