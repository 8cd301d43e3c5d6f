"""Quantiles by size, what a run set says of itself, and tables in pandas."""

import numpy as np
import polars as pl
import pytest

import penstock as lab
from penstock import sizes, stats
from penstock.runs import Run, RunSet


def made_up(rows: dict[int, list[tuple[int, float]]], table: str = "flows") -> RunSet:
    """Runs with these sizes and slowdowns."""
    size = sizes.SIZE[table]
    tables = {
        run: pl.DataFrame(
            {size: [s for s, _ in found], "slowdown": [v for _, v in found]},
            schema={size: pl.UInt64, "slowdown": pl.Float64},
        )
        for run, found in rows.items()
    }
    return RunSet("x", 1, tuple(Run(run, {}, {}, {table: frame}, {}) for run, frame in tables.items()))


def test_quantiles_are_of_each_run_and_intervals_over_them():
    found = made_up(
        {
            0: [(10, 1.0), (10, 3.0), (20, 2.0), (1000, 5.0), (0, 99.0)],
            1: [(10, 2.0), (20, 4.0), (1000, 9.0), (2000, float("nan"))],
        }
    ).by_size(bins=2)
    # Seven sizes 10 10 10 20 20 1000 1000: the middle one is 20. Size 0 is no size, NaN was not completed.
    assert found["size_low_bytes"].to_list() == [10, 1000]
    assert found["size_high_bytes"].to_list() == [20, 1000]
    assert found["size_bytes"].to_list() == [10.0, 1000.0]
    assert found["flows"].to_list() == [5, 2]
    # Medians 2 and 3; 5 and 9: half-widths t(1, 0.975) = 12.7062 times half their distance.
    assert found["slowdown_p50"].to_list() == [2.5, 7.0]
    assert found["slowdown_p50_ci95"].to_list() == pytest.approx([12.7062 * 0.5, 12.7062 * 2], rel=1e-5)
    assert found["slowdown_p99"][0] == pytest.approx(
        np.mean([np.quantile([1, 2, 3], 0.99), np.quantile([2, 4], 0.99)])
    )


def test_one_run_has_no_interval_and_one_size_one_class():
    found = made_up({0: [(10, 1.0), (10, 3.0)]}).by_size(bins=10, shares=(0.25,))
    assert found.columns[-2:] == ["slowdown_p25", "slowdown_p25_ci95"]
    assert found.row(0)[:5] == (10, 10, 10.0, 2, 1.5)
    assert np.isnan(found["slowdown_p25_ci95"][0])


def test_classes_hold_about_equally_many():
    found = lab.run("poisson", duration="3s", runs=2).by_size("fct_s", bins=5)
    assert found.height == 5
    assert found["flows"].max() < 1.1 * found["flows"].min()
    assert found["size_low_bytes"].to_list()[1:] > found["size_high_bytes"].to_list()[:-1]


def test_transfers_stand_in_for_flows_that_never_end():
    runs = lab.run("incast", servers=4, blocks=3, runs=2)
    assert runs.flows["fct_s"].is_finite().sum() == 0
    found = runs.by_size()
    assert found["flows"][0] == runs.transfers["slowdown"].is_finite().sum()
    worst = [run.tables["transfers"]["slowdown"].quantile(0.99, interpolation="linear") for run in runs.runs]
    assert found["slowdown_p99"][0] == pytest.approx(stats.mean(worst))
    with pytest.raises(KeyError, match="none of the flows was completed"):
        runs.by_size(table="flows")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"value": "rtt"}, 'value = "rtt": must be one of slowdown, fct_s'),
        ({"table": "ports"}, 'table = "ports": must be one of flows, transfers'),
        ({"bins": 0}, "bins = 0: must be a whole number, at least 1"),
        ({"shares": (99,)}, "shares = 99: must be above 0 and below 1"),
    ],
)
def test_what_makes_no_sense_is_refused(more, said):
    with pytest.raises(lab.ScenarioError, match=said):
        made_up({0: [(10, 1.0)]}).by_size(**more)


def test_a_study_by_size_has_the_same_classes_at_all_points():
    study = lab.study("poisson", {"load": [0.3, 0.8]}, settings={"duration": "2s"}, runs=2, keep=["flows"])
    found = study.by_size(bins=4)
    assert found.columns[:3] == ["load", "size_low_bytes", "size_high_bytes"]
    assert found["load"].to_list() == [0.3] * 4 + [0.8] * 4
    alone = sizes.quantiles(
        sizes.completed(study.sets[1])[0],
        sizes.edges(
            np.concatenate(
                [runs.flows.filter(pl.col("slowdown").is_finite())["size_bytes"] for runs in study.sets]
            ),
            4,
        ),
    )
    assert found[4:].drop("load").equals(alone)
    bare = lab.study("incast", {"servers": [2]}, settings={"duration": "10ms"})
    with pytest.raises(KeyError, match="add keep="):
        bare.by_size()


def test_a_study_of_transfers_has_their_slowdown():
    study = lab.study("incast", {"servers": [2, 4]}, settings={"blocks": 3}, runs=2, keep=["transfers"])
    lines = study.plot.slowdown(table="transfers").axes[0].lines
    assert len([line for line in lines if line.get_label() in ("2", "4")]) == 2


def test_a_run_set_says_what_it_was_given(tmp_path):
    points = [("incast", {"servers": n, "protocol": "cubic", "duration": "10ms"}) for n in (2, 3)]
    first, second = lab.sweep(points, seed=5)
    assert repr(first) == "RunSet('incast', duration='10ms', protocol='cubic', servers='2', seed=5, 1 run)"
    assert second.settings == {"duration": "10ms", "protocol": "cubic", "servers": "3"}
    assert lab.load(first.save(tmp_path / "it")).settings == first.settings
    study = lab.study("incast", {"servers": [2]}, settings={"duration": "10ms"}, store=tmp_path / "store")
    again = lab.study("incast", {"servers": [2]}, settings={"duration": "10ms"}, store=tmp_path / "store")
    assert again.stored == 1
    assert study.sets[0].settings == again.sets[0].settings == {"duration": "10ms", "servers": "2"}


def test_tables_in_pandas_are_those_of_polars():
    pandas = pytest.importorskip("pandas")
    runs = lab.run("poisson", duration="500ms", runs=2)
    frame = runs.to_pandas("flows")
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == runs.flows.columns
    assert frame["fct_s"].dropna().tolist() == runs.flows["fct_s"].drop_nans().drop_nulls().to_list()
    assert frame["src"].tolist() == runs.flows["src"].to_list()
    study = lab.study("incast", {"protocol": ["cubic", "newreno"]}, settings={"duration": "10ms"})
    there = study.to_pandas()
    assert there["protocol"].tolist() == ["cubic", "newreno"]
    assert there["drops"].tolist() == study.frame["drops"].to_list()
