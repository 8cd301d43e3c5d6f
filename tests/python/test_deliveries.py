"""Tables of a run that looks at every packet: there when asked for, on disk and in figures."""

import numpy as np
import polars as pl
import pytest

import penstock as lab
from penstock.runs import DELIVERIES, NotRecorded

SPRAYED = {
    "topology": "leaf-spine:4x4x4",
    "protocol": "ndp",
    "link_rate": "10Gbps",
    "segment": "4096B",
    "flow_size": "200KB",
    "duration": "1ms",
}


@pytest.fixture(scope="module")
def sprayed() -> lab.RunSet:
    return lab.run("permutation", **SPRAYED, deliveries=True, runs=2)


def test_tables_are_there_when_asked_for(sprayed, tmp_path):
    kept = lab.load(sprayed.save(tmp_path / "it"))
    for name in DELIVERIES:
        assert sprayed.table(name).equals(kept.table(name), null_equal=True), name
    plain = lab.run("permutation", **SPRAYED)
    with pytest.raises(NotRecorded, match="look at every packet: add deliveries=True"):
        plain.table("paths")
    assert plain.summary == {key: plain.summary[key] for key in plain.summary if key in sprayed.summary}


def test_shares_of_paths_and_distances_sum_to_one(sprayed):
    paths = sprayed.table("paths")
    assert paths.height > 2 * 16
    for name, by in (("paths", ("run", "src", "dst")), ("distances", ("run", "protocol"))):
        shares = sprayed.table(name).group_by(by).agg(pl.col("share").sum())["share"]
        assert shares.to_numpy() == pytest.approx(1.0)
    # Between leaves every packet crosses one spine, and the permutations of paths use all four alike: some
    # 1,500 packets, of which 0.25 is known within 0.012 by chance.
    far = paths.filter(pl.col("path").str.contains("spine"))
    assert far["path"].str.count_matches("spine").unique().to_list() == [1]
    spines = far.group_by(pl.col("path").str.extract(r"(spine\d+)")).agg(pl.col("packets").sum())
    assert spines.height == 4
    assert spines["packets"].to_numpy() / far["packets"].sum() == pytest.approx(0.25, abs=0.05)


def test_the_figure_is_the_table_from_the_far_end(sprayed):
    (ax,) = sprayed.plot.reordering().axes
    table = sprayed.table("distances").filter(pl.col("run") == 1)
    x, y = ax.lines[1].get_data()
    assert list(x) == table["distance_packets"].to_list()
    assert y == pytest.approx(np.cumsum(table["share"].to_numpy()[::-1])[::-1])
    assert y[0] == pytest.approx(1.0)
    assert sprayed.runs[1].summary["out_of_order"] == pytest.approx(1.0 - table["share"][0])
