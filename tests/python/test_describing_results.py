"""Every key of a summary and every column of a table that a run gives is described in the catalogue."""

from __future__ import annotations

import penstock
from penstock import scenario

PAUSES = {"ports": ("pauses_", "paused_"), "events": ("port", "priority")}


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


def test_every_metric_of_the_series_is_described_with_its_unit() -> None:
    described = {m["name"]: m for m in scenario.describe()["metrics"]}
    found = penstock.run(
        "long-flows", flows=2, protocol="dctcp", duration="50ms", warmup="0s", sample="5ms", series="true"
    )
    sampled = set(found.series["metric"].unique())
    assert {"queue_packets", "cwnd_bytes", "srtt_s", "ssthresh_bytes", "alpha"} <= sampled <= set(described)
    units = {name: described[name]["unit"] for name in ("srtt_s", "queue_packets", "cwnd_bytes", "alpha")}
    assert units == {"srtt_s": "s", "queue_packets": "packets", "cwnd_bytes": "bytes", "alpha": ""}
    assert "sampled: ssthresh_bytes, alpha" in str(penstock.describe("dctcp"))
    shown = str(penstock.describe("queue_packets"))
    assert "metric of the series, in packets" in shown and "sampled of ports" in shown


def test_the_type_of_a_column_is_that_of_the_frame() -> None:
    types = {"bool": "Boolean", "u32": "UInt32", "u64": "UInt64", "i64": "Int64", "f64": "Float64"}
    given = {"sample": "5ms", "series": "true", "deliveries": "true"}
    found = penstock.run("incast", settings=given, servers=4, duration="50ms")
    for table in scenario.describe()["tables"]:
        frame = found.table(table["name"])
        declared = {c["name"]: types.get(c["type"], "String") for c in table["columns"]}
        # Columns about pause frames are in runs that have some.
        declared = {
            name: dtype
            for name, dtype in declared.items()
            if name in frame.columns or not name.startswith(PAUSES.get(table["name"], ()))
        }
        assert {name: str(dtype) for name, dtype in frame.schema.items()} == declared


def test_columns_about_pauses_are_in_runs_that_have_some() -> None:
    found = penstock.run("rdma", topology="star:4", protocol="roce", duration="200us", pause_events=True)
    assert {"pauses_sent_3", "pauses_received_3", "paused_3_s"} <= set(found.ports.columns)
    assert {"port", "priority"} <= set(found.events.columns)
    assert not any(name.startswith("pauses_sent_0") for name in found.ports.columns)
