"""The rows of collective bandwidth control: what a run of db-ftp is read for."""

import numpy as np
import polars as pl
import pytest

import penstock
from penstock_papers.experiments.cbc import rows, trace


@pytest.fixture(scope="module")
def controlled():
    """One run of the paper's network with control."""
    return penstock.run("db-ftp", control="cbc", keep=("series", "events", "flows")).runs[0]


def test_every_figure_of_the_paper_has_its_row():
    ids = [row.id for row in rows.ROWS]
    assert ids[:30] == [f"K-{number}" for number in range(4, 34)]
    assert set(ids[30:]) >= {"K-2M", "K-dbl", "K-AF31"}


def test_curves_add_up_to_what_the_flow_table_counts(controlled):
    found = trace.derive(controlled)
    seconds = range(10, 129)
    db1 = sum(found[f"db1_bps@{s}"] for s in seconds) / 8
    flow = controlled.tables["flows"].filter(pl.col("dst") == "client1")
    # The flow table counts from the end of warm-up (10 s) to 130 s; the curves' last second is left out.
    assert db1 == pytest.approx(flow["delivered_bytes"].sum() - found["db1_bps@129"] / 8, rel=1e-9)


def test_states_follow_the_papers_diagram(controlled):
    allowed = {
        ("uncongested", "controlling"),
        ("controlling", "ready"),
        ("ready", "controlling"),
        ("ready", "uncongested"),
    }
    at: dict[int, str] = {}
    seen = set()
    for flow, what in controlled.tables["events"].select("flow", "what").iter_rows():
        state = what.split(": ")[0]
        if state in ("uncongested", "controlling", "ready"):
            seen.add((at.get(flow, "uncongested"), state))
            at[flow] = state
    assert seen and seen <= allowed


def test_requirement_is_frozen_while_controlling(controlled):
    series = controlled.tables["series"].filter((pl.col("entity") == "flow") & (pl.col("number") == 0))
    state = series.filter(pl.col("metric") == "state")["value"].to_numpy()
    required = series.filter(pl.col("metric") == "required_bps")["value"].to_numpy()
    both = (state[1:] > 0) & (state[:-1] > 0)
    moved = np.abs(np.diff(required))[both] > 0
    # Control may end and set in again between two samples (0.1 s); nothing else moves a frozen estimate.
    times = np.arange(1, state.size) * 0.1
    released = controlled.tables["events"].filter(pl.col("what").str.starts_with("uncongested"))["time_s"]
    near = [np.any(np.abs(released.to_numpy() - t) < 0.21) for t in times[both][moved] + 0.1]
    assert both.sum() > 500 and all(near)


def test_bad_values_are_named():
    for key, value, rule in (
        ("control", "cbc:eta=0", "must be at least"),
        ("control", "abc", "unknown host controller"),
        ("limits", "af31=0,af21=60", "must be a whole number of packets"),
        ("db_class", "gold", "must be one of"),
        ("ftp_stop", "20s", "must be after ftp_start"),
        ("db_max", "1KB", "must not be below db_min"),
    ):
        with pytest.raises(ValueError, match=rule) as caught:
            penstock.run("db-ftp", **{key: value})
        assert key in str(caught.value)
