"""Homa and others against the slowdowns that Homa's paper publishes for 144 hosts (`homa_paper`). Median and
99th percentile by message size are within 10 % in 85 % of the bins that hold 0.5 % of the messages or more.
Cases that miss this are named and must continue to miss it. docs/validation/homa.md has figures and known
differences.
"""

from __future__ import annotations

from pathlib import Path

import homa_paper as paper
import ns2_messages
import numpy as np
import polars as pl
import pytest

GOAL = 0.85

# Homa with W1 at 80 %: edges of a bin, share of the messages in percent, median, 99th percentile (Montazeri
# et al., SIGCOMM 2018, data of the figures with slowdowns by message size).
QUICK = [
    (1, 2, 17.82, 1.198, 1.838),
    (4, 5, 2.74, 1.209, 1.876),
    (10, 11, 8.99, 1.218, 1.894),
    (14, 15, 2.97, 1.266, 2.003),
    (39, 44, 1.05, 1.270, 2.008),
    (68, 76, 1.40, 1.268, 2.005),
    (95, 107, 1.78, 1.268, 2.003),
    (133, 149, 1.92, 1.319, 2.128),
    (167, 186, 1.90, 1.320, 2.133),
    (208, 233, 2.02, 1.320, 2.149),
    (260, 291, 1.95, 1.357, 2.312),
    (325, 364, 1.83, 1.392, 2.419),
    (406, 454, 1.61, 1.394, 2.487),
    (508, 568, 1.37, 1.484, 2.962),
    (635, 710, 1.11, 1.482, 3.084),
    (794, 887, 0.86, 1.608, 4.056),
    (992, 1109, 0.64, 1.598, 4.174),
]

# Milliseconds of the long runs, and what misses the goal: the median, the tail.
CASES = {
    ("W1", 0.8, "Homa"): (2.0, ""),
    ("W3", 0.5, "Homa"): (20.0, ""),
    ("W3", 0.8, "Homa"): (20.0, ""),
    ("W1", 0.8, "pFabric"): (2.0, "median tail"),
    ("W3", 0.5, "pFabric"): (20.0, ""),
    ("W3", 0.8, "pFabric"): (20.0, ""),
    ("W3", 0.8, "pHost"): (10.0, "median tail"),
    ("W3", 0.8, "PIAS"): (10.0, "median tail"),
}

# By the rules of a transport's own simulator (`homa_paper.OWN`): those of PIAS are stated, not chosen.
OWN = {
    ("W3", 0.8, "pHost"): (10.0, "tail"),
    ("W3", 0.5, "pHost"): (10.0, ""),
    ("W3", 0.8, "PIAS"): (10.0, "median"),
    ("W3", 0.5, "PIAS"): (10.0, "tail"),
}


def test_homa_with_the_shortest_messages(tmp_path: Path) -> None:
    """W1 in short: 17 of its bins, of which 15 must be within 10 % (88 %)."""
    rows: list[tuple[float, float, float | None, float | None]] = []
    for lower, upper, share, p50, p99 in QUICK:
        # What lies between two of the bins is not compared.
        rows += [(lower, 0.0, None, None), (upper, share, p50, p99)]
    table = pl.DataFrame(rows, ["size_upper", "pct_of_messages_in_bin", "p50", "p99"], orient="row")
    found = paper.run(tmp_path, "W1", 0.8, paper.protocol("Homa", "W1"), ms=1.0)
    bins = paper.compare(found, table)
    assert len(bins) == len(QUICK)
    medians, tails = paper.within(bins)
    assert medians >= GOAL and tails >= GOAL, [b for b in bins if abs(b.p99 / b.stated_p99 - 1) > 0.1]


@pytest.mark.full
@pytest.mark.skipif(not paper.FOLDER.is_dir(), reason="PENSTOCK_HOMA_REFERENCE names no directory")
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_published_slowdowns(case: tuple[str, float, str]) -> None:
    """The goal, or its miss, of every size bin that counts."""
    ms, misses = CASES[case]
    medians, tails = paper.within(paper.case(*case, ms))
    assert (medians < GOAL, tails < GOAL) == ("median" in misses, "tail" in misses), f"{medians}, {tails}"


@pytest.mark.full
@pytest.mark.skipif(not paper.FOLDER.is_dir(), reason="PENSTOCK_HOMA_REFERENCE names no directory")
@pytest.mark.parametrize("case", OWN, ids=lambda case: "-".join(map(str, case)))
def test_published_slowdowns_by_the_rules_of_their_own_simulators(case: tuple[str, float, str]) -> None:
    """With what the simulators of pHost and PIAS do otherwise at most one of the two is missed."""
    ms, misses = OWN[case]
    medians, tails = paper.within(paper.case(*case, ms, own_rules=True))
    assert (medians < GOAL, tails < GOAL) == ("median" in misses, "tail" in misses), f"{medians}, {tails}"


@pytest.mark.full
@pytest.mark.skipif(not paper.FOLDER.is_dir(), reason="PENSTOCK_HOMA_REFERENCE names no directory")
def test_phost_with_the_load_that_its_longer_messages_tell() -> None:
    """W3: with 60 % of the links both goals are met by the numbers that are published for 80."""
    found = paper.messages("W3", 0.6, "pHost", 20.0, own_rules=True)
    medians, tails = paper.within(paper.compare(found, paper.published("W3", 0.8, "pHost")))
    assert medians >= GOAL and tails >= GOAL, (medians, tails)


@pytest.mark.full
@pytest.mark.skipif(not paper.FOLDER.is_dir(), reason="PENSTOCK_HOMA_REFERENCE names no directory")
def test_long_messages_of_pfabric_beyond_the_published_percentiles() -> None:
    """W5: with 100 messages in a bin equal distributions would miss the goal, so all are counted together, on
    three racks.
    """
    found = paper.messages("W5", 0.8, "pFabric", 400.0, racks=3)
    share, error = paper.beyond(found, paper.published("W5", 0.8, "pFabric"))
    assert error < 0.005 and share < 0.015, (share, error)


@pytest.mark.full
@pytest.mark.skipif(not paper.FOLDER.is_dir(), reason="PENSTOCK_HOMA_REFERENCE names no directory")
def test_long_messages_of_phost_by_the_rules_of_its_simulator() -> None:
    """W5: medians are the published ones; twice as many are beyond the published 99th percentiles."""
    found = paper.messages("W5", 0.8, "pHost", 450.0, own_rules=True, racks=3)
    table = paper.published("W5", 0.8, "pHost")
    medians, _ = paper.within(paper.compare(found, table))
    share, error = paper.beyond(found, table)
    assert medians >= GOAL and error < 0.005 and 0.015 < share < 0.03, (medians, share, error)


@pytest.mark.full
@pytest.mark.skipif(not paper.FOLDER.is_dir(), reason="PENSTOCK_HOMA_REFERENCE names no directory")
def test_long_messages_of_homa_as_its_authors_evaluate_them() -> None:
    """W5: a run as long as theirs, whose percentiles are means of those of each receiver. Those of all
    messages together have the published medians, and their tails are higher.
    """
    found = paper.messages("W5", 0.8, "Homa", 1900.0, racks=3, after=600.0)
    table = paper.published("W5", 0.8, "Homa")
    medians, tails = paper.within(paper.compare(found, table, by_receiver=True))
    assert medians >= GOAL and tails >= GOAL, (medians, tails)
    medians, tails = paper.within(paper.compare(found, table))
    assert medians >= GOAL and tails < 0.5, (medians, tails)


@pytest.mark.skipif(not paper.FOLDER.is_dir(), reason="PENSTOCK_HOMA_REFERENCE names no directory")
def test_the_messages_of_pias_are_those_of_the_published_run() -> None:
    """W5: as many in every size bin, of 500,000, as the published shares say; the last has no edge."""
    table = paper.published("W5", 0.8, "PIAS")
    packets = ns2_messages.published()["packets"].to_numpy()
    # A message of n packets, two and more, is in the bin that has n 1,460 bytes.
    length = np.where(packets == 1, paper.PAYLOAD, 1460 * packets)
    upper = table["size_upper"].cast(pl.Float64).to_numpy()
    found = np.bincount(np.searchsorted(upper, length), minlength=len(upper))
    wanted = np.rint(table["pct_of_messages_in_bin"].to_numpy() / 100 * ns2_messages.COUNT)
    assert found[:-1].tolist() == wanted.tolist()


def test_ns2_draws_what_it_says_it_draws() -> None:
    """The first number after a small seed s is computed by hand. It is x = 592852 s, y = m2 - 842977 s, so
    that x - y + m1 is 1435829 s + 22644. ns-2's own check is the 10,000th with seed 1.
    """
    seeds = np.array([1, 17, 1244])
    first = ns2_messages.mrg32k3a(seeds, 1)[0]
    assert first.tolist() == ((1435829 * seeds + 22644) / 4294967088).tolist()
    last = ns2_messages.mrg32k3a(seeds[:1], 10_000)[-1, 0]
    assert int(last * 0x80000000) == 1179983147


def test_what_is_beyond_a_percentile_is_counted_by_size() -> None:
    """Of two bins, with limits 2 and 3, by hand."""
    table = pl.DataFrame({"size_upper": ["10", "20", "30"], "p99": ["2", "3", None]})
    found = pl.DataFrame(
        {
            "bytes": [5, 10, 11, 20] * 8,
            "slowdown": [2.5, 1.5, 2.5, 3.5] * 8,
            "start_s": [0.1 * i for i in range(32)],
        }
    )
    assert paper.beyond(found, table, blocks=4) == (0.5, 0.0)
    assert paper.beyond(found, table, above=10, blocks=4)[0] == 0.5
    assert paper.beyond(found, table, below=5, blocks=4)[0] == 1.0


def test_a_message_alone_takes_the_time_it_is_compared_with(tmp_path: Path) -> None:
    """At a load at which messages hardly meet the median is 1, with cards as queues and bare packets too."""
    for rules in (paper.HOMAS, paper.Rules(cards=True), paper.Rules(bare=(1460, 40))):
        header = rules.bare[1] if rules.bare else 58
        found = paper.run(tmp_path, "W1", 0.001, f"pias:header={header}", ms=40.0, rules=rules)
        assert len(found) > 500
        assert abs(float(np.median(found["slowdown"].to_numpy())) - 1.0) < 1e-3, rules
