"""The rows of part III (ndp, reps, homa) judged on made-up numbers; their set-ups, by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from penstock.runs import Run
from penstock_papers import ledger
from penstock_papers.experiments import ndp, reps
from penstock_papers.experiments.homa import longer, own, sizes
from penstock_papers.experiments.homa import rows as homa_rows
from penstock_papers.experiments.homa import setup as homa_setup
from penstock_papers.experiments.lossless import seconds
from penstock_papers.experiments.ndp import rows as ndp_rows
from penstock_papers.experiments.reps import rows as reps_rows
from penstock_papers.ledger import Estimate, Row

ROWS = [row for row in ledger.rows() if row.paper in ledger.PART_THREE]


def differing(row: Row, measurement: dict[str, Any]) -> dict[str, str]:
    """Claims that are not confirmed, and why."""
    return {one.claim.id: one.reason for one in row.judge(measurement) if one.verdict != "confirmed"}


def exact(*values: float) -> list[Estimate]:
    return [Estimate.exact(value) for value in values]


def test_every_statement_says_that_it_is_remembered():
    assert {row.paper for row in ROWS} == set(ledger.PART_THREE)
    assert not set(ledger.PART_THREE) & set(ledger.PART_TWO)
    for row in ROWS:
        assert 2 <= len(row.claims) <= 8, row.id
        for claim in row.claims if row.paper in ledger.REMEMBERED else ():
            assert "from memory" in claim.where, f"{row.id}/{claim.id}"
            assert not claim.quote, f"{row.id}/{claim.id}: nothing can be quoted without the text"
    assert "from memory" in (ndp.__doc__ or "") and "from memory" in (reps.__doc__ or "")


def test_the_set_up_is_that_of_the_choices():
    at = ndp_rows.CHOSEN
    assert ndp_rows.law(at, weight=3) == "ndp:queue=8,window=30,paths=64,weight=3"
    network, chosen = ndp_rows._incast(at, "ndp", 8, 10)
    assert network.settings["topology"] == "fat-tree:8"
    # Whole packets: a PULL is paced for one.
    assert chosen["workloads"][0].values["response"] == "89360B"
    assert ndp_rows.hosts({"network.k": 12}) == 432


def permutation(used: float, in_turn: float, roomy: float, dctcp: float) -> dict[str, Any]:
    names = ("NDP", "in turn", "roomy", "DCTCP")
    shares = dict(zip(names, exact(used, in_turn, roomy, dctcp), strict=True))
    return {"used": shares, "NDP": shares["NDP"]}


def test_a_permutation_below_90_says_why_only_where_an_experiment_fills_the_links():
    assert differing(ndp_rows.NDP_P, permutation(0.93, 0.95, 0.96, 0.4)) == {}
    hashed = differing(ndp_rows.NDP_P, permutation(0.88, 0.93, 0.89, 0.4))
    assert "hashed to paths" in hashed["full"] and "eight packets trim" not in hashed["full"]
    assert "trim too much" in differing(ndp_rows.NDP_P, permutation(0.88, 0.89, 0.95, 0.4))["full"]
    assert differing(ndp_rows.NDP_P, permutation(0.88, 0.89, 0.89, 0.4)) == {"full": "unexplained"}
    assert set(differing(ndp_rows.NDP_P, permutation(0.93, 0.95, 0.96, 0.8))) == {"single-path", "order"}


def incast(timeouts: float, lost: float, headers_first: float) -> dict[str, Any]:
    return {
        "over ideal": exact(1.0, 1.01, 1.02),
        "timeouts": exact(0, 0, timeouts),
        "lost": lost,
        "headers first": headers_first,
    }


def test_timeouts_of_an_incast_are_laid_on_the_order_of_service_only_where_it_made_them():
    assert differing(ndp_rows.NDP_I, incast(0, 0, 0)) == {}
    assert "for longer than the timeout" in differing(ndp_rows.NDP_I, incast(300, 0, 0))["no-timeouts"]
    for lost, others in ((5, 0), (0, 200)):
        assert differing(ndp_rows.NDP_I, incast(300, lost, others)) == {"no-timeouts": "unexplained"}


def test_what_returns_spares_timeouts():
    good = {
        "with": Estimate.exact(1.01),
        "without": Estimate.exact(1.3),
        "timeouts": Estimate.exact(0),
        "timeouts without": Estimate.exact(800),
    }
    assert differing(ndp_rows.NDP_R, good) == {}
    # Without a loss there is nothing to be spared.
    idle = {**good, "timeouts": Estimate.exact(1), "timeouts without": Estimate.exact(0)}
    assert list(differing(ndp_rows.NDP_R, idle)) == ["no-timeouts"]
    assert list(differing(ndp_rows.NDP_R, {**good, "with": Estimate.exact(1.4)})) == ["near-ideal", "faster"]


def test_a_failure_that_is_left():
    failures = pl.DataFrame({"lost_data_packets": [3, 0], "last_loss_s": [80e-6, None]})
    flows = pl.DataFrame({"fct_s": [1e-3, float("nan")], "complete": [True, False]})
    run = Run(0, {"set": {}}, {}, {"failures": failures, "flows": flows}, {})
    # A flow that is not done is not the fastest.
    assert reps_rows.felt(run) == pytest.approx({"taken": 3, "left_us": 80, "slowest_us": float("inf")})
    done = Run(0, {"set": {}}, {}, {"failures": failures, "flows": flows.head(1)}, {})
    assert reps_rows.slowest(done) == pytest.approx({"slowest_us": 1000})
    good = {
        "left": Estimate.exact(80),
        "taken": {"REPS": Estimate.exact(10), "oblivious": Estimate.exact(90)},
        "slowest": {"REPS": Estimate.exact(300), "oblivious": Estimate.exact(500)},
    }
    assert differing(reps_rows.REPS_F, good) == {}
    assert list(differing(reps_rows.REPS_F, {**good, "left": Estimate.exact(120)})) == ["fast"]


def test_a_slow_link_is_passed_over():
    good = {
        "alike": Estimate.exact(1.0),
        "slow": {"REPS": Estimate.exact(300), "oblivious": Estimate.exact(400)},
    }
    assert differing(reps_rows.REPS_A, good) == {}
    worse = {**good, "alike": Estimate.exact(1.1), "slow": dict(reversed(good["slow"].items()))}
    assert list(differing(reps_rows.REPS_A, worse)) == ["alike"]


# ---- Homa's tables ----------------------------------------------------------------------------------------


def tables(off: dict[str, float], small: dict[str, float]) -> dict[str, Any]:
    """What the row measures where all of a transport's numbers differ by a share from the published ones."""

    def of(shares: dict[str, float]) -> dict[str, Any]:
        return {
            name: {
                key: [one[at] * (1 + share) for one in homa_rows.BINS[name]]
                for key, at in (("p50", 2), ("p99", 3))
            }
            for name, share in shares.items()
        }

    return {"at": of(off), "small": of({name: small[name] for name in homa_rows.OTHERS})}


def test_the_tables_of_homa_say_why_only_where_smaller_control_packets_halve_the_difference():
    good = {"Homa": 0.05, "pFabric": -0.09, "pHost": 0.0, "PIAS": 0.1 - 1e-9}
    assert differing(homa_rows.HOMA_W1, tables(good, good)) == {}
    off = {**good, "pFabric": 0.5, "pHost": 1.5, "PIAS": 0.3}
    found = differing(homa_rows.HOMA_W1, tables(off, {"pHost": 0.7, "PIAS": 0.2}))
    assert sorted(found) == sorted(
        f"{n}-{key}" for n in ("pfabric", "phost", "pias") for key in ("median", "tail")
    )
    assert "hardly any bytes" in found["phost-tail"] and "hardly any bytes" not in found["pias-tail"]
    assert "96 bytes +150 to +150 %" in found["phost-median"]
    # The size of pFabric's acknowledgements is known, so they are no cause.
    assert "hardly any bytes" not in found["pfabric-tail"]


def test_homa_is_compared_with_the_better_of_two():
    same = dict.fromkeys(homa_rows.BINS, 0.0)
    assert differing(homa_rows.HOMA_ORDER, tables(same, same)) == {}
    # 2.30 against 3.28 of pHost and 3.47 of PIAS; 2.35 of pFabric.
    slow = differing(homa_rows.HOMA_ORDER, tables({**same, "Homa": 0.5}, same))
    assert sorted(slow) == ["better", "equal"]


def test_the_published_set_up_of_homa():
    bytes_of, cdf = sizes.w1()
    # Mean of the authors' generator: 185.0 bytes.
    mean = sum(size * (b - a) for size, a, b in zip(bytes_of, [0.0, *cdf], cdf, strict=False))
    assert mean == pytest.approx(185.0, rel=0.01)
    # 144 x 10 Gb/s x 0.8 over 8 x 281 bytes, and with 20 bytes more beside each.
    at = homa_rows.CHOSEN
    rate = homa_setup.messages(at).values["rate"]
    assert rate == pytest.approx(0.8 * 144 * 10e9 / 8 / (mean + 96), rel=0.01)
    fewer = rate * (mean + 96) / (mean + 116)
    assert homa_setup.messages(at, 20).values["rate"] == pytest.approx(fewer, rel=0.002)
    # A byte within a rack: 97 bytes twice at 10 Gb/s, a switch, a host. Across: twice more at 40 Gb/s, and
    # two switches more.
    alone = homa_setup.ideal(at, np.array([1, 1]), np.array([True, False]))
    near = 2 * 97 * 8e-10 + 250e-9 + 1500e-9
    assert alone == pytest.approx([near, near + 2 * 97 * 2e-10 + 500e-9])
    # Slowdowns of 1 to 200 in one bin: the median 100.5; a bin with too few says nothing that could hold.
    found = pl.DataFrame({"bytes": [5] * 200, "slowdown": [float(i) for i in range(1, 201)]})
    numbers = homa_setup.percentiles(found, [(4, 5, 1.0, 1.0), (5, 6, 1.0, 1.0)])
    assert numbers["p50.0"] == 100.5 and numbers["p99.1"] == float("inf")


def test_the_sizes_of_messages_of_w3_and_w5():
    # The means that the authors' files state: 2,927.354 bytes and 1,744.7 packets.
    for (found, cdf), count, mean in ((sizes.w3(), 842, 2927.354), (sizes.w5(), 400, 1744.7 * 1442)):
        assert len(found) == len(cdf) == count and cdf[-1] == 1.0
        assert found == sorted(set(found)) and cdf == sorted(cdf)
        assert float(np.sum(found * np.diff(cdf, prepend=0.0))) == pytest.approx(mean, rel=1e-5)
    # Between 512 and 1,024 bytes in 14 steps: 1 / (1/512 - 1/14 (1/512 - 1/1024)) = 530.96.
    assert {512.0, 531.0, 1024.0} <= set(sizes.w3()[0])
    # Half of 133 to 667 packets has half of their tenth of the messages; 20 40ths are 400.
    packets, cdf = sizes.w5()
    assert cdf[packets.index(400 * 1442.0)] == pytest.approx(0.65)


def test_percentiles_of_each_receiver_and_their_mean():
    found = pl.DataFrame(
        {
            "bytes": [5] * 6 + [50],
            "slowdown": [1.0, 2.0, 3.0, 4.0, 6.0, 9.0, 99.0],
            "dst": [0, 0, 0, 0, 1, 1, 0],
        }
    )
    bins = [(4, 5, 1.0, 1.0), (5, 6, 1.0, 1.0)]
    numbers = homa_setup.by_receiver(found, bins)
    # Host 0: median 2, largest 4, four messages; host 1: 6 and 9, two.
    assert numbers["p50.0"] == pytest.approx((4 * 2 + 2 * 6) / 6)
    assert numbers["p99.0"] == pytest.approx((4 * 4 + 2 * 9) / 6)
    assert numbers["p50.1"] == np.inf
    # Both as one: the third and the last of six.
    together = homa_setup.by_receiver(found, bins, hosts=2)
    assert (together["p50.0"], together["p99.0"]) == (3.0, 9.0)


def test_the_rows_of_longer_messages_hold_what_is_near_the_published_numbers():
    def numbers(names: list[str], share: float) -> dict[str, Any]:
        return {
            name: {
                key: [one[at] * (1 + share) for one in longer.BINS[name]]
                for key, at in (("p50", 2), ("p99", 3))
            }
            for name in names
        }

    near = numbers(longer.W3, 0.09)
    assert differing(longer.HOMA_W3, near) == {}
    near["W3 Homa 50"]["p99"] = [value * 1.1 for value in near["W3 Homa 50"]["p99"]]
    assert list(differing(longer.HOMA_W3, near)) == ["homa-50-tail"]
    assert differing(longer.HOMA_W5, numbers([longer.W5], -0.09)) == {}
    assert len(differing(longer.HOMA_W5, numbers([longer.W5], -0.11))) == 2


def test_a_probe_of_the_simulators_own_rules_takes_what_it_is_given():
    changed = {"pias_own.k": 66, "phost_own.tokens": 12, "phost_own.apart": True, "ndp_own.fifo": False}
    at = {**homa_rows.CHOSEN, **changed}
    assert "k=99000B" in own.rules("W3 PIAS 50", at).protocol
    assert "token_window=12,token_life=1.5,apart=true" in own.rules("W3 pHost 80", at).protocol
    assert "free=7,token_window=7," in own.rules("W5 pHost 80").protocol
    assert "fifo=false" in own.rules("W5 NDP 80", at).protocol
    # Every parameter of a row changes one of its simulators, or how its messages are judged.
    for row, names in ((own.HOMA_W3_OWN, own.W3), (own.HOMA_W5_OWN, own.W5)):
        for key in row.matters:
            value = homa_rows.CHOSEN[key]
            other = {**homa_rows.CHOSEN, key: not value if isinstance(value, bool) else value + 1}
            same = [own.rules(name, other) == own.rules(name) for name in names]
            assert not all(same) or key == "ndp_own.load", key


def test_w3_by_the_simulators_own_rules_says_why_only_where_its_experiment_bears_it_out():
    def found(share: float, less: float) -> dict[str, dict[str, list[float]]]:
        off = {name: share if name == "W3 pHost 80" else 0.0 for name in own.W3} | {own.LESS_W3: less}
        return {
            name: {
                key: [one[at] * (1 + by) for one in own._bins_of(name)]
                for key, at in (("p50", 2), ("p99", 3))
            }
            for name, by in off.items()
        }

    assert differing(own.HOMA_W3_OWN, found(0.0, 0.0)) == {}
    why = differing(own.HOMA_W3_OWN, found(0.2, 0.0))
    assert list(why) == ["phost-80-median", "phost-80-tail"]
    assert all("less load" in reason for reason in why.values())
    assert set(differing(own.HOMA_W3_OWN, found(0.2, 0.15)).values()) == {"unexplained"}


def test_w5_by_the_simulators_own_rules_says_why_only_where_its_experiments_bear_it_out():
    good = {"medians": [1.0] * 5, "begun": [1.0] * 5, "beyond": 0.01}
    m = dict.fromkeys([*own.W5, own.LESS, own.SHORTER, own.SHORTER_PHOST], good)
    assert differing(own.HOMA_W5_OWN, m) == {}
    cut = {**good, "medians": [1.04, 1.0, 1.0, 0.95, 0.7]}
    assert "had not ended" in differing(own.HOMA_W5_OWN, {**m, "W5 pHost 80": cut})["phost-median"]
    still = {"W5 pHost 80": {**cut, "begun": [1.0, 1.0, 1.0, 1.0, 0.89]}}
    assert differing(own.HOMA_W5_OWN, {**m, **still})["phost-median"] == "unexplained"
    low, lower = [0.98, 0.92, 0.85, 0.8, 0.7], [0.96, 0.9, 0.8, 0.7, 0.4]
    short = {"W5 PIAS 80": {**good, "medians": low}, own.SHORTER: {**good, "medians": lower}}
    assert "run is short" in differing(own.HOMA_W5_OWN, {**m, **short})["pias-median"]
    of_phost = {"W5 pHost 80": {**good, "medians": low, "begun": low}}
    assert differing(own.HOMA_W5_OWN, {**m, **of_phost})["phost-median"] == "unexplained"
    of_phost[own.SHORTER_PHOST] = {**good, "medians": lower}
    assert "3.5 s" in differing(own.HOMA_W5_OWN, {**m, **of_phost})["phost-median"]
    # What is within a tenth may move; what is outside and was nearer before is not a matter of length.
    short[own.SHORTER] = {**good, "medians": [0.99, *lower[1:]]}
    assert "run is short" in differing(own.HOMA_W5_OWN, {**m, **short})["pias-median"]
    short[own.SHORTER] = {**good, "medians": [0.96, 0.9, 0.86, 0.7, 0.4]}
    assert differing(own.HOMA_W5_OWN, {**m, **short})["pias-median"] == "unexplained"


def test_messages_that_had_not_ended_are_slower_than_any():
    # A run of 1 s: two of its middle, one without an end, one of its second half, one of its first tenth.
    tables = {
        "flows": pl.DataFrame({"flow": range(5), "src": ["h0"] * 5, "dst": ["h1"] * 5}),
        "transfers": pl.DataFrame(
            {
                "flow": range(5),
                "bytes": [1000] * 5,
                "start_s": [0.2, 0.4, 0.3, 0.7, 0.05],
                "delivered_s": [0.21, 0.41, math.nan, 0.71, 0.06],
            }
        ),
    }
    ended = homa_setup.slowdowns(homa_rows.CHOSEN, tables, "1s")["slowdown"].to_list()
    begun = homa_setup.slowdowns(homa_rows.CHOSEN, tables, "1s", begun=True)["slowdown"].to_list()
    alone = float(homa_setup.ideal(homa_rows.CHOSEN, np.array([1000]), np.array([True]))[0])
    assert ended == pytest.approx([0.01 / alone] * 3)
    assert begun == pytest.approx([0.01 / alone] * 2 + [math.inf])


def test_a_connection_of_pias_has_as_many_messages_with_w3_as_a_published_one():
    # Twenty million messages among 144 hosts, ten connections of a pair.
    published = 20e6 / (144 * 143) / 10
    per_pair = own.rules("W3 PIAS 80").rate * 0.8 / 47
    for (racks, duration), kept in ((own.LONG_PIAS, own.KEPT_LONG), (own.SHORT, 1)):
        assert racks == 3
        messages = per_pair * seconds(duration) / kept
        assert messages == pytest.approx(published, rel=0.06)


def test_messages_by_the_count_of_the_authors_end_with_the_arrivals():
    at = homa_rows.CHOSEN
    traffic = homa_setup.drained(at, "W5", 9, 1.9).values
    # 144 x 10 Gb/s x 0.8 x 0.898 over 8 x 1,744.7 packets of 1,442 bytes, for 1.9 s: published are 97,570.
    assert traffic["rate"] == pytest.approx(144 * 10e9 * 0.8 * 0.898 / 8 / (1744.7 * 1442), rel=1e-4)
    assert traffic["count"] == pytest.approx(97_657, rel=1e-3)
