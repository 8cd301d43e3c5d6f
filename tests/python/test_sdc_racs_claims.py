"""The rows of SDC and RACS judged on made-up numbers: verdicts follow them, causes their experiment."""

from typing import Any

import pytest

from penstock_papers.experiments.sdc_racs.benchmark import BINS
from penstock_papers.experiments.sdc_racs.benchmark_rows import M_313, M_410, M_411, M_412
from penstock_papers.experiments.sdc_racs.gain_rows import M_32
from penstock_papers.experiments.sdc_racs.hop_rows import M_HOP, M_HOP2
from penstock_papers.experiments.sdc_racs.incast_rows import M_39, M_46, M_47, M_310, SERVERS
from penstock_papers.experiments.sdc_racs.long_rows import M_37, M_38, M_44
from penstock_papers.experiments.sdc_racs.mix import STATED_MS, STATED_USE
from penstock_papers.experiments.sdc_racs.mix_rows import M_48, M_49, M_311, M_T34, M_T42
from penstock_papers.experiments.sdc_racs.model import shares
from penstock_papers.experiments.sdc_racs.rows import ROWS
from penstock_papers.experiments.sdc_racs.setup import ECN, RACS, RCP, SACK, SDC, at, contenders, sdc
from penstock_papers.experiments.sdc_racs.threshold_rows import M_34
from penstock_papers.ledger import Estimate, Judged, Row

N = [2, 5, 10, 20, 35, 50]


def judged(row: Row, measurement: dict[str, Any]) -> dict[str, Judged]:
    return {one.claim.id: one for one in row.judge(measurement)}


def tight(*values: float) -> list[Estimate]:
    return [Estimate(v, v - 0.001, v + 0.001) for v in values]


def test_gains_of_the_model():
    m = {
        "spread at gain 1": 0.0,
        "B at gain 100": 5.0,
        "C at gain 100": 1.0,
        "AFCT of A at gain 1, 2, 10, 100": [50.0, 40.0, 15.0, 10.0],
        "gained": 30.0,
        "second decade over first": 0.15,
        "kept from gain 10 to 100": [0.2, 0.3],
        "gained without a pipe": 90.0,
        "RTT that gains it": 0.3,
        "B by alpha": {"0.5": 5.0},
    }
    assert {one.verdict for one in M_32.judge(m)} == {"confirmed"}
    short = judged(M_32, {**m, "gained": 4.0, "gained without a pipe": 12.0, "RTT that gains it": 2.0})[
        "thirty"
    ]
    assert short.verdict == "differs" and "no capacity" in short.reason
    assert judged(M_32, {**m, "gained": 4.0})["thirty"].reason == "unexplained"
    low = {**m, "B at gain 100": 3.9, "kept from gain 10 to 100": [0.2, 0.9]}
    found = judged(M_32, low)
    assert (found["b-pays"].verdict, found["cost"].verdict) == ("differs", "differs")
    assert "which is open" in found["b-pays"].reason
    assert judged(M_32, {**low, "B by alpha": {"0.5": 3.0}})["b-pays"].reason == "unexplained"


def test_a_wider_class_a_costs_class_c():
    m = {
        "A": [80.0, 70.0],
        "B": [20.0, 60.0],
        "B at the ends": [60.0, 20.0],
        "change of C": -0.16,
        "claim of C": 0.0,
        "claim of B": 2.6,
    }
    found = judged(M_34, m)
    assert "class C pays" in found["c-improves"].reason
    assert judged(M_34, {**m, "claim of C": 0.5})["c-improves"].reason == "unexplained"
    assert judged(M_34, {**m, "change of C": 0.01})["c-improves"].verdict == "confirmed"


def test_gains_may_be_read_on_class_averages():
    own, averaged = (shares(50.0, 2.0, at({"model.gain_applies_to": what})) for what in ("own", "average"))
    assert averaged.gain[1] == pytest.approx(2.0)
    assert own.gain[1] > 3


def long_flows(**more: Any) -> dict[str, Any]:
    return {
        "senders": N,
        "utilisation": {
            SDC: tight(*[97.0] * 6), SACK: tight(*[100.0] * 6), ECN: tight(100, 99, 98, 97, 96, 94),
            RACS: tight(*[100.0] * 6), RCP: tight(90, 95, 97, 98, 99, 99),
        },
        "queue": {SDC: tight(*[5.0] * 6), SACK: tight(*[80.0] * 6), ECN: tight(*[30.0] * 6)},
        "SACK above SDC": 3.0,
        "ECN falls by": 5.0,
        "SACK's queue less ECN's": tight(*[50.0] * 6),
        "ECN's queue over SACK's": tight(*[0.4] * 6),
        "RACS above RCP": 10.0,
        "SDC, gain 100": Estimate.exact(98),
        "other marking": {"RED 5/15": tight(97, 91)},
        "RCP early and late": tight(80, 99),
    } | more  # fmt: skip


def test_long_flows():
    assert all(one.verdict == "confirmed" for row in (M_37, M_38, M_44) for one in row.judge(long_flows()))
    use = long_flows()["utilisation"]
    level = {"utilisation": {**use, ECN: tight(*[100.0] * 6)}, "SACK above SDC": 1.0}
    found = judged(M_37, long_flows(**level))
    assert found["sack-above"].verdict == "differs"
    assert "marks earlier" in found["ecn-falls"].reason
    flat = {**level, "other marking": {"RED 5/15": tight(97, 97)}}
    assert judged(M_37, long_flows(**flat))["ecn-falls"].reason == "unexplained"
    near = {"utilisation": {**use, RCP: tight(97, 98, 98, 98, 99, 99)}}
    low = judged(M_44, long_flows(**near))["rcp-low"]
    assert "while its flows start" in low.reason
    never = long_flows(**near, **{"RCP early and late": tight(99, 99)})
    assert judged(M_44, never)["rcp-low"].reason == "unexplained"


def test_hops_are_judged_where_the_first_three_flows_share_a_switch():
    def hops(*shared: float) -> dict[str, Any]:
        return {
            "shares": {
                "links of Fig 3.6": tight(950, 490, 490, 490),
                "switch as one channel": tight(*shared),
                "one channel, equal RTT": tight(300, 300, 300, 600),
            }
        }

    found = judged(M_HOP2, hops(310, 300, 280, 490))
    assert [one.verdict for one in found.values()] == ["confirmed", "differs"]
    assert "goes to none" in found["last"].reason
    # Links that are not shared by the first three are no reading of the section.
    assert {one.opposed for one in found.values()} == {"differs"}
    assert judged(M_HOP2, hops(310, 300, 480, 490))["last"].reason == "unexplained"
    assert "round trips are equal" in judged(M_HOP, hops(300, 300, 90, 720))["first-three"].reason
    right = {"shares": {label: tight(298, 298, 298, 604) for label in hops(1, 1, 1, 1)["shares"]}}
    assert {one.verdict for one in M_HOP.judge(right)} == {"confirmed"}


def incast(**more: Any) -> dict[str, Any]:
    k = len(SERVERS)
    return {
        "servers": list(SERVERS),
        "afct": {SDC: tight(*range(1, k + 1)), SACK: tight(*range(2, k + 2)), ECN: tight(*range(2, k + 2))},
        "loss": {
            SDC: tight(*[0.0] * k), RACS: tight(*[0.0] * k),
            SACK: tight(*(0.1 * i for i in range(k))), RCP: tight(*[0.0] * k),
        },
        "queue": {SDC: tight(*[5.0] * k)},
        "others less SDC": tight(1.0, 1.0),
        "SDC over others": tight(0.8, 0.9),
        "RACS's loss over": {SDC: Estimate.exact(0.7), RCP: Estimate.exact(0.5)},
        "over SDC at the fewest": tight(1.0, 1.1),
        "RACS over SDC": tight(*[1.1] * k),
        "SDC's drops": [0.0] * k, "SACK's drops": tight(*range(k)),
        "SACK's loss where windows fit": tight(*[0.0] * k), "SACK's loss, RTOmin 200 ms": Estimate.exact(15),
        "queue in KB, by bytes": {RACS: tight(*[30.0] * k)},
        "loss, by bytes": {name: tight(*range(k)) for name in (SDC, RACS, RCP)},
        "queue, by bytes": {RACS: tight(*[5.0] * k)},
        "RACS's loss less half of SDC's": 0.5,
        "RACS's drops, by bytes": [0.0] * k,
        "first window of one": {"loss": Estimate.exact(0), "afct": Estimate.exact(1)},
    } | more  # fmt: skip


def test_incast():
    assert all(one.verdict == "confirmed" for row in (M_39, M_310, M_46) for one in row.judge(incast()))
    lossy = incast(
        **{"SDC's drops": [0, 0, 0, 0, 1, 2], "loss": {**incast()["loss"], SDC: tight(0, 0, 0, 0, 2, 4)}}
    )
    found = judged(M_310, lossy)
    assert found["sdc-none"].verdict == "differs" and "first rounds" in found["sdc-none"].reason
    same = {**lossy, "first window of one": {"loss": Estimate.exact(4), "afct": Estimate.exact(9)}}
    assert judged(M_310, same)["sdc-none"].reason == "unexplained"
    none_lost = judged(M_46, incast(**{"RACS over SDC": tight(*[1.5] * len(SERVERS))}))["alike"]
    assert (none_lost.verdict, none_lost.reason) == ("differs", "unexplained")
    assert judged(M_47, incast())["rcp-grows"].verdict == "confirmed"
    quiet = incast(
        **{"loss, by bytes": {name: [Estimate.exact(0)] * len(SERVERS) for name in (SDC, RACS, RCP)}}
    )
    assert "paced" in judged(M_47, quiet)["rcp-grows"].reason


def test_what_tcp_loses_and_how_long_the_queue_of_racs_is():
    k = len(SERVERS)
    falls = incast(loss={**incast()["loss"], SACK: tight(0, 0, 9, 17, 16, 15)})
    found = judged(M_310, falls)
    assert "share of the packets sent" in found["tcp-grows"].reason
    assert "RTOmin" in found["tcp-few"].reason
    fewer = {**falls, "SACK's drops": tight(0, 0, 9, 17, 16, 15)}
    assert judged(M_310, fewer)["tcp-grows"].reason == "unexplained"
    for other in ({"SACK's loss where windows fit": tight(*[3.0] * k)}, {"SACK's loss, RTOmin 200 ms": 1.0}):
        unhelped = {**falls, **{key: Estimate.exact(v) if v == 1.0 else v for key, v in other.items()}}
        one = judged(M_310, unhelped)["tcp-few"]
        assert one.reason == "unexplained" and "RTOmin" in one.excluded[0][0]
    long_ = incast(**{"queue, by bytes": {RACS: tight(*[57.0] * k)}})
    assert "count of packets" in judged(M_47, long_)["racs-queue"].reason
    longer = {**long_, "queue in KB, by bytes": {RACS: tight(*[50.0] * k)}}
    assert judged(M_47, longer)["racs-queue"].reason == "unexplained"


def mix(**more: Any) -> dict[str, Any]:
    sharp = {label: Estimate.exact(x) for label, x in STATED_MS.items()}
    small = {label: Estimate.exact(5) for label in STATED_MS}
    return {
        "afct": sharp,
        "utilisation": {label: Estimate.exact(x) for label, x in STATED_USE.items()},
        "loss": {SDC: Estimate.exact(0), SACK: Estimate.exact(0.134), ECN: Estimate.exact(0.132)},
        "queue": small,
        "drops": {label: Estimate.exact(0) for label in STATED_MS},
        "SACKs less SDC": tight(9.4, 40),
        "others less RACS": tight(0.6, 0.67),
        "SDC over SACKs": tight(0.22, 0.06),
        "RACS over SACK": Estimate.exact(0.2),
        "RACS over others": tight(0.77, 0.75),
        "gained by weight": Estimate.exact(0.1),
        "more weight over chosen": Estimate.exact(0.9),
        "first timeout 10 ms": {SACK: 3.0, ECN: 3.0},
        "elsewhere": {
            "a closed loop": {
                "afct": {RACS: Estimate.exact(1.2), RCP: Estimate.exact(1.2)},
                "utilisation": {RACS: Estimate.exact(50), RCP: Estimate.exact(50)},
            }
        },
        "two SDC flows alone": 94.0,
    } | more


def test_a_mean_with_an_interval_of_a_hundred_milliseconds_decides_nothing():
    assert all(
        one.verdict == "confirmed" for row in (M_T34, M_T42, M_311, M_48, M_49) for one in row.judge(mix())
    )
    wide = mix(afct={**mix()["afct"], SACK: Estimate(33.8, -81, 149)})
    assert judged(M_T34, wide)["afct-sack"].verdict == "undecided"
    slow = mix(afct={**mix()["afct"], SACK: Estimate(33.8, 30, 37)})
    found = judged(M_T34, slow)["afct-sack"]
    assert found.verdict == "differs" and "first timeout" in found.reason
    waits = mix(afct=slow["afct"], **{"first timeout 10 ms": {SACK: 33.0}})
    assert judged(M_T34, waits)["afct-sack"].reason == "unexplained"
    fast = mix(afct={**mix()["afct"], RACS: Estimate.exact(1.2)})
    assert "admission" in judged(M_T42, fast)["afct-racs"].reason
    fast = mix(afct={**mix()["afct"], RCP: Estimate.exact(1.2)})
    assert "at the router's rate" in judged(M_T42, fast)["afct-rcp"].reason
    slow = mix(afct={**mix()["afct"], RCP: Estimate.exact(9)})
    assert judged(M_T42, slow)["afct-rcp"].reason == "unexplained"


def test_table_and_figure_are_counted_once():
    assert all(claim.same_as for row in (M_311, M_48) for claim in row.claims)
    assert {claim.same_as.split("/")[0] for claim in M_T42.claims if claim.same_as} == {"M-T3.4"}
    by_id = {f"{row.id}/{claim.id}" for row in ROWS for claim in row.claims if not claim.same_as}
    repeats = [claim.same_as for row in ROWS for claim in row.claims if claim.same_as]
    assert repeats and set(repeats) <= by_id


def traffic(**more: Any) -> dict[str, Any]:
    k = 5
    return {
        "rates": [100, 500, 1000, 1500, 2000],
        "afct": {
            SDC: tight(*[2.5] * k), SACK: tight(3, 4, 6, 9, 15), ECN: tight(3, 4, 6, 9, 15),
            RACS: tight(*[2.2] * k), RCP: tight(2.4, 4, 8, 15, 29),
        },
        "loss": {SACK: tight(*range(k)), RCP: tight(*range(k))},
        "queue": {
            who: tight(*[x] * k) for who, x in ((SACK, 80.0), (RACS, 1.0), (RCP, 60.0), (SDC, 1.0))
        },
        "queue's rise": {SACK: Estimate.exact(1.6), RCP: Estimate.exact(2.0)},
        "flows that RACS serves faster": Estimate.exact(0.9),
        "rise": {SDC: 1.0, SACK: 5.0, ECN: 5.0, RACS: 1.0, RCP: 12.0},
        "over SDC at the lowest": tight(1.2, 1.2),
        "over RACS at the lowest": tight(1.2, 1.2),
        "RACS over RCP by size": [*tight(*[0.8] * (len(BINS) - 1)), Estimate.exact(1.5)],
        "bins": {RACS: [1.0] * len(BINS), RCP: [1.2] * len(BINS)},
        "shifted": [0.8] * (len(BINS) - 1) + [1.5],
        "within 10 ms": {RACS: 98.0, RCP: Estimate.exact(84)},
        "more within 10 ms": 17.0,
        "theory": {"PS with both long flows + 2 RTT": [1.0] * k},
        "slower decay": tight(*[1.5] * k),
        "longer links": {RACS: tight(*[3.5] * k), "slower": tight(*[3.0] * k)},
    } | more  # fmt: skip


def test_benchmark_traffic():
    assert all(
        one.verdict == "confirmed" for row in (M_313, M_410, M_411, M_412) for one in row.judge(traffic())
    )
    paced = traffic(
        rise={**traffic()["rise"], RCP: 1.2},
        afct={**traffic()["afct"], RCP: tight(*[1.2] * 5)},
        loss={SACK: tight(*range(5)), RCP: tight(*[0.0] * 5)},
    )
    assert "processor sharing" in judged(M_410, paced)["rcp-rises"].reason
    assert judged(M_410, {**paced, "loss": traffic()["loss"]})["rcp-rises"].reason == "unexplained"
    ideal = {"theory": {"PS with both long flows + 2 RTT": [1.25] * 5}}
    shared = traffic(afct={**traffic()["afct"], RACS: tight(*[1.2] * 5)}, **ideal)
    assert "ideal processor sharing" in judged(M_410, shared)["racs-value"].reason
    slower = traffic(afct={**traffic()["afct"], RACS: tight(*[1.5] * 5)}, **ideal)
    slower["slower decay"] = tight(1.1, 1.2, 1.3, 1.4, 2.4)
    assert judged(M_410, slower)["racs-value"].reason == "unexplained"
    longer = {
        "longer links": {RACS: tight(2.0, 2.1, 2.2, 2.3, 2.9), "slower": tight(2.0, 2.1, 2.2, 2.3, 2.4)}
    }
    assert "there and back" in judged(M_410, {**slower, **longer})["racs-value"].reason
    for decay, missing in (
        ([1.15, 1.25, 1.35, 1.5, 1.7], "missing: 3 round trips"),
        ([1.15, 1.25, 1.35, 1.5, 2.3], ""),
        ([1.9, 2.0, 2.1, 2.2, 2.3], ""),
    ):
        reason = judged(M_410, {**slower, "slower decay": tight(*decay)})["racs-value"].reason
        assert missing in reason if missing else reason == "unexplained"
    kept = {"loss": {**traffic()["loss"], ECN: tight(*[0.0] * 5)}, "rise": {**traffic()["rise"], ECN: 1.1}}
    same = traffic(queue={**traffic()["queue"], ECN: tight(*[20.0] * 5)}, **kept)
    assert "next to nothing" in judged(M_313, same)["ecn-rises"].reason
    longer = traffic(queue={**traffic()["queue"], ECN: tight(20, 20, 20, 20, 30)}, **kept)
    assert judged(M_313, longer)["ecn-rises"].reason == "unexplained"
    rare = traffic(
        **{"RACS over RCP by size": [*tight(*[0.8] * (len(BINS) - 1)), Estimate(1.0, 0.0, float("inf"))]}
    )
    assert judged(M_411, rare)["above"].verdict == "undecided", "no flow above 1 MB, no statement"
    late = traffic(
        **{"RACS over RCP by size": [Estimate.exact(1.3), *traffic()["RACS over RCP by size"][1:]]},
        **{"flows that RACS serves faster": Estimate.exact(0.2)},
        bins={RACS: [1.3] * len(BINS), RCP: [1.0] * len(BINS)},
    )
    assert "round trip" in judged(M_411, late)["below"].reason


def test_parameters_follow_the_choices():
    assert contenders()[SDC].protocol == sdc() and "beta=0.935484/" in sdc()
    assert "alpha=0.9/0.9/0.5" in sdc(at({"model.alpha_ab": 0.9}))
    assert "max=30pkt" in contenders(at({"simulation.red_min": 10}))[ECN].queue
