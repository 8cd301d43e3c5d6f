"""The rows of part II (dcqcn, timely, hpcc, swift) judged on made-up numbers; their set-ups, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from penstock.runs import Run
from penstock_papers import ledger
from penstock_papers.experiments import lossless
from penstock_papers.experiments.dcqcn import setup
from penstock_papers.experiments.dcqcn.model_rows import DCQCN_11, DCQCN_C4
from penstock_papers.experiments.dcqcn.pause_rows import DCQCN_9
from penstock_papers.experiments.dcqcn.queue_rows import DCQCN_19, DCQCN_61
from penstock_papers.experiments.hpcc.rows import HPCC_10, HPCC_11, HPCC_13
from penstock_papers.experiments.hpcc.testbed_rows import stage_shares
from penstock_papers.experiments.swift.incast_rows import SWIFT_2
from penstock_papers.experiments.swift.rows import SWIFT_E
from penstock_papers.experiments.swift.setup import law
from penstock_papers.experiments.timely.rows import TIMELY_3, TIMELY_C9
from penstock_papers.ledger import Estimate, Judged, Row

ROWS = [row for row in ledger.rows() if row.paper in ledger.PART_TWO]


def judged(row: Row, measurement: dict[str, Any]) -> dict[str, Judged]:
    return {one.claim.id: one for one in row.judge(measurement)}


def differing(row: Row, measurement: dict[str, Any]) -> dict[str, str]:
    """Claims that are not confirmed, and why."""
    return {name: one.reason for name, one in judged(row, measurement).items() if one.verdict != "confirmed"}


def some(*values: float) -> list[Estimate]:
    return [Estimate.exact(value) for value in values]


# ---- what all have in common ----------------------------------------------------------------------------


def test_every_statement_says_that_it_is_remembered():
    assert {row.paper for row in ROWS} == set(ledger.PART_TWO)
    for row in ROWS:
        assert 2 <= len(row.claims) <= 8, row.id
        for claim in row.claims:
            assert "from memory" in claim.where, f"{row.id}/{claim.id}"
            assert not claim.quote, f"{row.id}/{claim.id}: nothing can be quoted without the text"


def test_the_numbers_of_timelys_table_have_a_cause_each_where_a_weaker_decrease_meets_it():
    one = Estimate.exact
    third = {"throughput": one(1.0), "mean": one(70.0), "p99": one(54.0)}
    fourth = {"throughput": one(1.0), "mean": one(95.0), "p99": one(117.0)}
    found = {"throughput": one(0.96), "mean": one(25.0), "p99": one(54.0), "tail": one(50.0)}
    reasons = differing(TIMELY_3, {**found, "weaker": {"mean": third, "p99": fourth}})
    assert set(reasons) == {"throughput", "mean", "p99"}
    assert "with a third of it" in reasons["mean"] and "with a fourth of it" in reasons["p99"]
    assert all("70.0 us" in reason and "95.0 us" in reason for reason in reasons.values())
    # The other number is no reason: each cause reads its own.
    missed = differing(TIMELY_3, {**found, "weaker": {"mean": fourth, "p99": third}})
    assert set(missed.values()) == {"unexplained"}


def test_a_victim_that_gains_has_its_reason_only_where_added_senders_elsewhere_change_nothing():
    one = Estimate.exact
    found = {"victim falls": one(0.4), "gain": one(4.0), "four kept": one(0.66), "four, elsewhere": one(0.98)}
    found |= {"victim kept": [one(1.05), one(1.3)], "victim, elsewhere": one(1.02)}
    reasons = differing(DCQCN_9, found)
    assert set(reasons) == {"kept"} and "take from the four" in reasons["kept"]
    assert differing(DCQCN_9, {**found, "victim, elsewhere": one(1.25)})["kept"] == "unexplained"
    assert differing(DCQCN_9, {**found, "four kept": one(1.0)})["kept"] == "unexplained"
    assert differing(DCQCN_9, {**found, "victim kept": [one(1.0), one(0.8)]})["kept"] == "unexplained"


def test_times_with_units():
    assert [lossless.seconds(t) for t in ("55us", "2ms", "30ns", "1s")] == pytest.approx(
        [55e-6, 2e-3, 3e-8, 1]
    )
    with pytest.raises(ValueError, match="no time"):
        lossless.seconds("4KB")


def test_what_is_measured_begins_after_the_warm_up():
    series = pl.DataFrame(
        {
            "time_s": [0.0, 0.001, 0.002, 0.003],
            "number": [0, 0, 0, 0],
            "metric": ["queue_bytes"] * 4,
            "value": [1e6, 1e6, 10.0, 20.0],
        }
    )
    run = Run(0, {"set": {"warmup": "2ms"}}, {}, {"series": series}, {})
    assert lossless.queue_tails(run)["queue_p50_bytes"] == 15


def test_shares_of_a_stage_are_those_of_the_flows_that_have_begun():
    times = np.repeat(np.arange(0, 20e-3, 1e-3), 4)
    number = np.tile(np.arange(4), 20)
    # Two flows are equal, the third gets nothing, the fourth as much as the first two.
    value = np.tile([10.0, 10.0, 0.0, 10.0], 20)
    series = pl.DataFrame({"time_s": times, "number": number, "metric": "rate_bps", "value": value})
    found = stage_shares(Run(0, {"set": {}}, {}, {"series": series}, {}))
    assert found == pytest.approx({"jain_2": 1.0, "jain_3": 2 / 3, "jain_4": 3 / 4})


# ---- DCQCN ----------------------------------------------------------------------------------------------


def test_the_parameters_of_the_paper_reach_model_and_packets_alike():
    text = setup.protocol("deployed")
    assert text == "dcqcn:kmin=5KB,timer=55us,byte_counter=10MB,g=0.00390625,kmax=200KB,pmax=0.01"
    model = setup.fluid("deployed", flows=2)
    assert (model.capacity, model.kmin, model.kmax, model.byte_counter) == (5e6, 5, 200, 1e4)
    straw, slow, fast = (setup.variant(name) for name in ("strawman", "slow counter", "fast timer"))
    assert (straw["kmin"], straw["kmax"], straw["pmax"]) == ("40KB", "40KB", 1.0)
    assert (straw["byte_counter"], slow["byte_counter"]) == ("150KB", "10MB")
    assert (slow["timer"], fast["timer"]) == ("1500us", "55us")


def incast(link: list[float], later: list[float], steep: float, p: list[float]) -> dict[str, Any]:
    k = [2, 5, 10, 15, 20]
    zero = some(*[0.0] * 5)
    return {
        "K": k,
        "link": some(*link),
        "later": some(*later),
        "pauses": zero,
        "queue": zero,
        "steep": Estimate.exact(steep),
        "p": p,
    }


def test_an_incast_below_39_says_why_only_where_the_steeper_line_helps():
    full, short = [39.8] * 5, [39.8, 39.7, 38.0, 37.0, 36.0]
    small, large = [0.001] * 5, [0.0008, 0.0025, 0.006, 0.010, 0.014]
    assert differing(DCQCN_61, incast(full, full, 39.7, small)) == {}
    assert "line jumps" in differing(DCQCN_61, incast(short, short, 39.7, large))["throughput"]
    assert differing(DCQCN_61, incast(short, short, 37.0, large)) == {"throughput": "unexplained"}
    assert differing(DCQCN_61, incast(short, short, 39.7, small)) == {"throughput": "unexplained"}
    assert "later the link is fuller" in differing(DCQCN_61, incast(short, full, 36.0, small))["throughput"]
    paused = {**incast(full, full, 39.7, small), "pauses": some(0, 0, 0, 0, 1)}
    assert list(differing(DCQCN_61, paused)) == ["no-pause"]


def test_the_queue_of_20_to_1():
    def tails(dcqcn: float, dctcp: float, steep: float, p: float) -> dict[str, Any]:
        return {
            "p90": {"DCQCN": Estimate.exact(dcqcn), "DCTCP": Estimate.exact(dctcp)},
            "p50": {"DCQCN": Estimate.exact(4.0), "DCTCP": Estimate.exact(dctcp)},
            "DCTCP over DCQCN": Estimate.exact(dctcp / dcqcn),
            "steep": Estimate.exact(steep),
            "p": p,
        }

    assert differing(DCQCN_19, tails(76.6, 162.9, 40, 0.014)) == {}
    found = differing(DCQCN_19, tails(200, 180, 40, 0.014))
    assert set(found) == {"dcqcn-p90", "lower"} and all("pmax" in why for why in found.values())
    assert differing(DCQCN_19, tails(200, 180, 180, 0.014))["lower"] == "unexplained"


def test_parameters_that_converge():
    good = {
        "gap": {"strawman": 0.9, "fast timer": 0.02, "deployed": 0.0},
        "packets": {"strawman": 0.5, "deployed": 0.05},
    }
    assert differing(DCQCN_11, good) == {}
    alike = {**good, "packets": {"strawman": 0.0, "deployed": 0.05}}
    assert "begin at the link's rate" in differing(DCQCN_11, alike)["packets-strawman"]
    none = {**alike, "gap": {**good["gap"], "strawman": 0.0}}
    assert differing(DCQCN_11, none)["packets-strawman"] == "unexplained"


def test_stability_of_the_fluid_model():
    good = {
        "roots": [1, 1],
        "4 us": {"2": 0.0, "10": 0.0, "64": 0.0},
        "85 us": {"2": 0.0, "10": 0.1, "64": 0.0},
        "p of 64": 0.06,
        "line": {"4 us": 0.0, "85 us": 0.0},
    }
    assert differing(DCQCN_C4, good) == {}
    far = {"2": 0.0, "10": 0.1, "64": 0.34}
    jumps = {**good, "4 us": {"2": 0.0, "10": 0.0, "64": 0.14}, "85 us": far}
    assert all("marks more than pmax" in differing(DCQCN_C4, jumps)[name] for name in ("near", "many"))
    swings = {**jumps, "line": {"4 us": 0.0, "85 us": 0.1}}
    assert differing(DCQCN_C4, swings) == {"near": "unexplained", "many": "unexplained"}
    assert list(differing(DCQCN_C4, {**good, "roots": [1, 2]})) == ["one-fixed-point"]


def test_the_balance_of_the_fluid_model_is_that_of_its_fixed_point():
    model = setup.fluid("deployed", flows=4)
    p, _ = model.fixed_point()
    assert model.imbalance(p) == pytest.approx(0, abs=1e-9)
    assert model.imbalance(p / 2) < 0 < model.imbalance(2 * p)


# ---- TIMELY, HPCC, Swift ----------------------------------------------------------------------------------


def test_a_fixed_point_forgets_where_flows_began():
    good = {"remembered": 0.2, "forgotten": 0.0, "packets": {"patched": 0.5}}
    assert differing(TIMELY_C9, good) == {}
    assert list(differing(TIMELY_C9, {**good, "forgotten": 0.1})) == ["forgets"]
    assert list(differing(TIMELY_C9, {**good, "remembered": 0.0})) == ["remembers"]


def test_tails_that_straddle_are_undecided():
    good = {
        "cut": {"30 %": Estimate(0.85, 0.8, 0.9), "50 %": Estimate(0.95, 0.93, 0.97)},
        "long": Estimate(1.1, 1.05, 1.15),
        "median queue": Estimate.exact(2.0),
        "pauses": {"HPCC": Estimate.exact(0), "DCQCN": Estimate.exact(27)},
        "p99": {"30 %": some(1.7, 11.2), "50 %": some(2.7, 54)},
        "cut, own timers": Estimate(0.93, 0.91, 0.95),
        "p99, own timers": Estimate.exact(40.0),
    }
    assert differing(HPCC_10, good) == {}
    wide = {**good, "cut": {"30 %": Estimate(0.34, -0.5, 1.2), "50 %": Estimate(0.5, 0.4, 0.6)}}
    found = judged(HPCC_10, wide)
    assert (found["tail-30"].verdict, found["tail-50"].verdict) == ("undecided", "differs")
    assert "which timers DCQCN has" in differing(HPCC_10, wide)["tail-50"]
    slower = {**wide, "cut, own timers": Estimate(0.8, 0.7, 0.89)}
    assert differing(HPCC_10, slower)["tail-50"] == "unexplained"


def test_queues_are_asked_for_only_where_the_model_leaves_room():
    good = {
        "both over per-ACK": Estimate.exact(1.4),
        "per-RTT over both": Estimate.exact(3.0),
        "load": {"both": Estimate.exact(0.96)},
        "U over model": some(1, 1, 1, 1),
        "model U": [0.95, 0.97, 0.99, 1.0],
        "queues": some(1, 1, 1, 400),
    }
    assert differing(HPCC_13, good) == {}
    assert list(differing(HPCC_13, {**good, "queues": some(1, 1, 6, 400)})) == ["no-queue"]
    # Less than two packets fit into a window of 32 flows, and smaller ones meet the formula.
    tight = {
        **good,
        "U over model": some(1, 1, 0.87, 0.99),
        "small packets": Estimate.exact(0.98),
        "window": 1698,
    }
    assert "whole packets" in differing(HPCC_13, tight)["standing"]
    still = {**tight, "small packets": Estimate.exact(0.9)}
    assert differing(HPCC_13, still)["standing"] == "unexplained"


def test_pause_frames_under_incasts_with_more_memory():
    none, some_ = Estimate.exact(0), Estimate.exact(10)
    m = {
        "ratio": {"30 %, incast": Estimate.exact(0.1), "50 %": Estimate.exact(0.2)},
        "pauses": {"30 %, incast": [some_, some_], "50 %": [none, none]},
        "pauses, more memory": none,
        "drops, more memory": none,
    }
    assert list(differing(HPCC_11, m)) == ["no-pauses"]
    assert "memory of a switch" in differing(HPCC_11, m)["no-pauses"]
    assert differing(HPCC_11, {**m, "pauses, more memory": some_})["no-pauses"] == "unexplained"


def test_the_large_incast():
    good = {
        "throughput": 49.5,
        "loss": 3e-6,
        "rtt": 110.0,
        "without": {"loss": 0.287, "rtt": 2027.0, "goodput": 8.7, "use": 0.18},
        "loss, later timeouts": {"5ms": 0.42, "20ms": 0.2},
        "use, later timeouts": {"5ms": 1.0, "20ms": 1.0},
        "goodput ratio": 5.7,
    }
    assert differing(SWIFT_2, good) == {}
    assert list(differing(SWIFT_2, {**good, "loss": 0.01})) == ["loss"]
    more = {**good, "without": {**good["without"], "loss": 0.84}}
    assert "later timeout" in differing(SWIFT_2, more)["without-loss"]
    same = {**more, "loss, later timeouts": {"5ms": 0.8, "20ms": 0.7}}
    assert differing(SWIFT_2, same)["without-loss"] == "unexplained"
    alike = {**good, "goodput ratio": 1.1}
    assert differing(SWIFT_2, alike)["without-throughput"] == "unexplained"
    alike["without"] = {**good["without"], "use": 1.0}
    assert "never idle" in differing(SWIFT_2, alike)["without-throughput"]
    alike["use, later timeouts"] = {"5ms": 0.9, "20ms": 0.4}
    assert differing(SWIFT_2, alike)["without-throughput"] == "unexplained"
    assert "recovery=irn" in law(
        {**{f"swift.{k}": 1 for k in ("base_target", "beta", "max_mdf", "fs_range")}}
    )


def test_a_delay_above_its_target_is_laid_on_smoothing_only_where_smoothing_made_it():
    good = {"over target": 1.1, "not smoothed": 1.0, "shorter": 10.0, "kept": 1.0}
    assert differing(SWIFT_E, good) == {}
    slow = {**good, "over target": 2.3}
    assert "without smoothing" in differing(SWIFT_E, slow)["target"]
    assert differing(SWIFT_E, {**slow, "not smoothed": 2.0}) == {"target": "unexplained"}
