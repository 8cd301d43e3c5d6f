"""Every key of a summary and every column of a table that a run gives is described in the catalogue."""

from __future__ import annotations

import penstock
from penstock import scenario


def test_every_column_of_every_table_is_described() -> None:
    described = {t["name"]: {c["name"] for c in t["columns"]} for t in scenario.describe()["tables"]}
    found = penstock.run(
        "incast", servers=4, duration="50ms", sample="5ms", series="true", loss_events="true"
    )
    for name in ("flows", "transfers", "ports", "events", "series"):
        missing = set(getattr(found, name).columns) - described[name]
        assert not missing, f"table {name} has columns that describe does not know: {sorted(missing)}"


def test_every_key_of_a_summary_is_described() -> None:
    described = {key["name"] for key in scenario.describe()["summary_keys"]}
    found = penstock.run("incast", servers=4, duration="50ms", sample="5ms")
    assert set(found.runs[0].summary) <= described
