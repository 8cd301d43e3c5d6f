"""Tables as CSV or Arrow files, beside the Parquet files of a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from penstock import scenario

if TYPE_CHECKING:
    from penstock.runs import RunSet

#: Names of the forms, and the ends of their files.
FORMS = {"csv": ".csv", "arrow": ".arrow"}


def tables(runs: RunSet, folder: str | Path, form: str) -> list[Path]:
    """Write every table of the runs to `folder`, one file each, and return their paths. The form "csv" has
    one head line, UTF-8 and all digits of numbers. The form "arrow" is Arrow's IPC file format, which pandas,
    R, DuckDB and Julia read without copying.

    Raises ScenarioError for a form that is none; OSError.
    """
    from penstock.runs import TABLES

    if form not in FORMS:
        raise scenario.error("export", form, f"must be one of {', '.join(FORMS)}")
    made = []
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        if not any(name in run.tables for run in runs.runs):
            continue
        path = place / f"{name}{FORMS[form]}"
        # Arrow without Polars' own text layout, which not every reader has.
        level = pl.CompatLevel.oldest()
        if runs.on_disk(name):
            lazy = runs.scan(name)
            if form == "csv":
                lazy.sink_csv(path)
            else:
                lazy.sink_ipc(path, compat_level=level)
        elif form == "csv":
            runs.table(name).write_csv(path)
        else:
            runs.table(name).write_ipc(path, compat_level=level)
        made.append(path)
    return made
