"""The rows of CBC judged on made-up numbers: verdicts follow them, causes their experiment."""

from typing import Any

import pytest

from penstock_papers.experiments.cbc import (
    equal_rows,
    eta_rows,
    full_rows,
    half_rows,
    open_rows,
    set_rows,
    setup,
)
from penstock_papers.experiments.cbc.rows import ROWS
from penstock_papers.experiments.cbc.setup import CARRY, E8, LOUD, ONE, at, cbc, point
from penstock_papers.ledger import Estimate, Judged, Row

BY_ID = {row.id: row for row in ROWS}


def near(value: float, half: float = 0.0) -> Estimate:
    return Estimate(value, value - half, value + half)


def judged(row: Row, measurement: dict[str, Any]) -> dict[str, Judged]:
    return {one.claim.id: one for one in row.judge(measurement)}


MORE = ("drops", "retransmits", "cv1", "cv2", "rtt_std")


def made(
    plain: dict[str, float] | None = None, control: dict[str, float] | None = None, **more: Any
) -> dict[str, Any]:
    """A measurement as the paper would have it, with other numbers for either controller."""
    tcp = {
        "db1": 2e6,
        "db2": 2e6,
        "ftp": 5e6,
        "ratio": 1.0,
        "cv1": 0.3,
        "cv2": 0.3,
        "cvf": 0.2,
        "before1": 5e6,
        "before2": 2.4e6,
        "cv1_before": 0.1,
        "cv2_before": 0.1,
        "drops": 100.0,
        "drops_onset": 10.0,
        "drops_later": 90.0,
        "retransmits": 80.0,
        "retransmits_std": 3.0,
        "rtt_mean": 0.06,
        "rtt_std": 0.02,
        "rtt_std_late": 0.02,
        "rtt_before": 0.02,
        "below": 0.3,
        "after1": 5e6,
        "after2": 3e6,
        "ratio_after": 1.7,
        "dip1": 0.3,
        "hump1": 1.4,
        "busiest": 1.0,
        "backlog_kept": 1.0,
        "before_kept": 0.1,
        "other_drops": 0.0,
        "excursions": 8.0,
        "excursion_s": 16.0,
        "lost_share": 0.03,
        "repeated_share": 0.03,
    } | (plain or {})
    v4 = (
        tcp
        | {
            "db1": 3e6,
            "db2": 1.6e6,
            "ratio": 1.9,
            "cv1": 0.1,
            "cv2": 0.1,
            "cvf": 0.1,
            "drops": 10.0,
            "drops_onset": 10.0,
            "drops_later": 0.0,
            "retransmits": 8.0,
            "retransmits_std": 0.5,
            "rtt_std": 0.01,
            "below": 0.1,
            "after1": 4.5e6,
            "after2": 2.6e6,
            "ratio_after": 2.0,
            "excursions": 2.0,
            "excursion_s": 2.0,
            "lost_share": 0.001,
            "repeated_share": 0.001,
            "latched": 1.9,
            "controlled": 1.0,
            "early": 0.0,
            "by_timeout": 0.0,
        }
        | (control or {})
    )
    lost = v4["drops_onset"] + v4["drops_later"]
    variant = v4 | {"relapses": 0.0}
    return {
        "plain": {key: near(x) for key, x in tcp.items()},
        "cbc": {key: near(x) for key, x in v4.items()},
        "less": {key: near(tcp[key] - v4[key]) for key in tcp},
        "below half": {
            key: near(0.5 * tcp[key] - v4[key]) for key in ("drops", "drops_later", "retransmits")
        },
        "over": {key: near(v4[key] / tcp[key]) for key in tcp if tcp[key] > 0},
        "distance from two": near(abs(v4["ratio"] - 2) / abs(tcp["ratio"] - 2)),
        "distance from two, after": near(abs(v4["ratio_after"] - 2) / abs(tcp["ratio_after"] - 2)),
        "onset over later": near(v4["drops_onset"] / 2 / max(v4["drops_later"] / 58, 1e-3)),
        "excursion": {"plain": near(2.0), "cbc": near(1.0)},
        "excursions over": near(v4["excursions"] / tcp["excursions"]),
        "DB1 over DB2": {"retransmits": near(1.1), "rtt": {"plain": near(1.0), "cbc": near(1.0)}},
        "cut, DB1's part": near(0.75),
        "prevented by the delay trigger": near(0.8),
        "nearer two": near(abs(tcp["ratio"] - 2) - abs(v4["ratio"] - 2)),
        "at first": near(v4["drops_onset"] / lost if lost else 1.0),
        "concentrated": near(v4["drops_onset"] / 2 - 2 * v4["drops_later"] / 58),
        "kept": {"plain1": near(0.4), "plain2": near(0.95), "cbc1": near(0.99), "cbc2": near(0.7)},
        "files alike": near(1.0),
        "control, files over before": near(3.0),
        "rtt raised": near(tcp["rtt_mean"] / tcp["rtt_before"]),
        "release": near(2.0),
        "relapses": near(0.0),
        "cut": near(0.1),
        "offered": {"share": [near(0.7), near(0.7)], "bps": 8.32e6},
        "variants": {CARRY: variant, LOUD: {**variant, "drops": 50.0}, ONE: {**variant, "drops": 1.0}},
        "kept and frozen": 0.9,
        "trap": {"second": 92.0, "lowest": 1.0, "climbs": 2.0, "normal": 10.0},
        "beside": {
            "plain": {"drops": near(50), "retransmits": near(50), "cv1": near(0.1), "cv2": near(0.1)},
            "cbc": {"drops": near(5), "retransmits": near(5), "cv1": near(0.01), "cv2": near(0.01)},
            "plain over": {key: near(2.0) for key in MORE} | {"ratio": near(1.0)},
            "cbc over": {key: near(1.7) for key in MORE} | {"ratio": near(1.0)},
            "plain's growth over CBC's": {"cv1": near(1.2), "cv2": near(1.2)},
            "plain, half more": near(10),
            "plain there": {"drops": near(50), "retransmits": near(30), "cv1": near(0.2), "cv2": near(0.2)},
            "cbc there": {
                "drops": near(5),
                "retransmits": near(3),
                "cv1": near(0.09),
                "cv2": near(0.09),
                "rtt_mean": near(0.1),
                "ratio": near(1.9),
            },
        },
    } | more


AS_STATED = [
    "K-4",
    "K-5",
    "K-6",
    "K-7",
    "K-8",
    "K-9",
    "K-10",
    "K-13",
    "K-15",
    "K-16",
    "K-17",
    "K-18",
    "K-19",
    "K-20",
    "K-21",
    "K-22",
    "K-23",
    "K-24",
    "K-25",
    "K-26",
    "K-27",
    "K-28",
    "K-29",
    "K-30",
    "K-31",
    "K-32",
    "K-33",
    "K-dbl",
]


@pytest.mark.parametrize("name", AS_STATED)
def test_numbers_as_stated_are_confirmed_and_the_opposite_is_not(name):
    # Fig 16 and 17 state 2:1 where Fig 7 says that it is not quite reached: 1.9 is both.
    found = BY_ID[name].judge(made())
    assert {one.verdict for one in found} == {"confirmed"}, [one.claim.id for one in found if one.reason]
    worse = {
        "cv1": 0.5,
        "cv2": 0.5,
        "cvf": 0.5,
        "drops": 95.0,
        "drops_later": 85.0,
        "retransmits": 79.0,
        "retransmits_std": 2.9,
        "ratio": 1.0,
    }
    opposite = made(
        control={**worse, "rtt_std": 0.03, "below": 0.5, "after1": 6e6, "after2": 6e6, "ratio_after": 1.0}
    )
    less = {key: near(0.5) for key in (*MORE, "ratio")}
    opposite |= {
        "offered": {"share": [near(1.0), near(1.0)], "bps": 8.32e6},
        "files alike": near(1.2),
        "beside": {**opposite["beside"], **{f"{who} over": less for who in ("plain", "cbc")}},
        "trap": {"second": 92.0, "lowest": 2.0, "climbs": 0.9, "normal": 10.0},
        "cut, DB1's part": near(0.5),
    }
    assert any(one.verdict == "differs" for one in BY_ID[name].judge(opposite))


def test_an_interval_across_zero_is_undecided():
    m = made()
    m["over"] = {**m["over"], "cv1": near(0.66, 0.02)}
    assert judged(full_rows.K_7, m)["db1-smoother"].verdict == "undecided"


def test_drops_have_their_causes_only_where_measured():
    files = made(plain={"drops": 1500.0}, control={"drops": 1400.0})
    found = judged(full_rows.K_5, files)["drops-cut"]
    assert found.verdict == "differs" and "the files' own" in found.reason and "eta = 1" in found.reason
    own = made(plain={"retransmits": 95.0}, control={"drops": 90.0})
    own["variants"] = {**own["variants"], ONE: {**own["variants"][ONE], "drops": 80.0}}
    assert judged(full_rows.K_5, own)["drops-cut"].reason == "unexplained"
    late = made(control={"drops_onset": 0.0, "drops_later": 10.0, "early": 0.8})
    assert "before the files come" in judged(full_rows.K_5, late)["initially"].reason
    assert judged(full_rows.K_5, made(control={"drops_later": 90.0}))["initially"].reason == "unexplained"


def test_the_ratio_follows_what_was_frozen_only_where_it_does():
    low = made(control={"ratio": 1.5, "latched": 1.55})
    assert "froze" in judged(half_rows.K_16, low)["two-to-one"].reason
    assert judged(half_rows.K_16, {**low, "kept and frozen": 0.2})["two-to-one"].reason == "unexplained"
    carried = low | {"kept and frozen": 0.2}
    for numbers, reason in (({"db1": 4e6}, "unexplained"), ({"ratio": 1.9}, "half as far from 2:1")):
        carried["variants"] = {**low["variants"], CARRY: {**low["variants"][CARRY], **numbers}}
        assert reason in judged(half_rows.K_16, carried)["two-to-one"].reason


def test_the_delay_trigger_explains_a_ratio_only_where_it_is_restored_without_it():
    low = made(control={"ratio": 1.5, "latched": 1.9, "early": 0.8})
    for without, reason in (
        ({"ratio": 1.8, "early": 0.2}, "the delay trigger sets control"),
        ({"ratio": 1.8, "early": 0.5}, "unexplained"),
        ({"ratio": 1.65, "early": 0.2}, "unexplained"),
    ):
        low["variants"] = {**low["variants"], LOUD: {**low["variants"][LOUD], **without}}
        assert reason in judged(half_rows.K_16, low)["two-to-one"].reason


def test_no_losses_means_none_in_any_run():
    clean = made(control={"drops": 0.0, "retransmits": 0.0})
    assert {one.verdict for one in full_rows.K_12.judge(clean)} == {"confirmed"}
    assert {one.verdict for one in full_rows.K_11.judge(clean)} == {"confirmed"}
    spare = made(plain={"lost_share": 0.003, "repeated_share": 0.005}, control={"drops": 0.0})
    assert judged(full_rows.K_11, spare)["tcp-loses"].verdict == "differs", "can be neglected"
    assert judged(full_rows.K_12, spare)["tcp-repeats"].verdict == "differs"
    clean["cbc"]["drops"] = Estimate.of([0, 0, 0, 1])
    assert judged(full_rows.K_11, clean)["drops-none"].verdict == "differs"
    fewer = {**clean, "plain": {**clean["plain"], "drops": near(30), "lost_share": near(0.001)}}
    assert judged(equal_rows.K_AF31, fewer)["tcp-few"].verdict == "confirmed"
    more = {**clean, "drops in the room of both": near(60)}
    assert "the room of both" in judged(equal_rows.K_AF31, more)["tcp-few"].reason
    crowded = {**more, "drops in the room of both": near(90)}
    assert judged(equal_rows.K_AF31, crowded)["tcp-few"].reason == "unexplained"


def test_there_is_no_room_for_databases_unaffected_by_files_that_fill_the_link():
    m = made() | {"kept": {**made()["kept"], "cbc1": near(0.6), "cbc2": near(0.6)}}
    assert "leave of the link" in judged(full_rows.K_14, m)["db2-unaffected"].reason
    m["plain"]["ftp"] = near(1e6)
    assert judged(full_rows.K_14, m)["db2-unaffected"].reason == "unexplained"


def test_light_load():
    m = made(control={"drops": 0.0})
    assert {one.verdict for one in full_rows.K_2M.judge(m)} == {"confirmed"}
    back = m | {"relapses": near(3.0)}
    assert judged(full_rows.K_2M, back)["permanently"].reason == "unexplained"
    back["cbc"]["early"] = near(0.8)
    assert "bursts" in judged(full_rows.K_2M, back)["permanently"].reason


def test_eta():
    m = {
        "back": {"0.8": 0.0, "1.0": 0.0, "1.05": 1.0, "1.15": 1.0, "2.0": 1.0},
        "DB1, slightly above one over chosen": near(0.5),
        "time back, slightly above one over chosen": near(1.5),
        "variation, high over calm": near(1.3),
        "slower": near(1.0),
        "more variable": near(0.1),
        "lag": {"1.0": 1.3},
    }
    assert {one.verdict for one in eta_rows.K_ETA.judge(m)} == {"confirmed"}
    back = {**m, "back": {**m["back"], "1.0": 1.0}}
    assert "loop gain" in judged(eta_rows.K_ETA, back)["cannot-recover"].reason
    assert judged(eta_rows.K_ETA, {**back, "lag": {"1.0": 1.0}})["cannot-recover"].reason == "unexplained"


def test_control_sets():
    names = list(set_rows.RULES)
    found = dict(zip(names, map(near, (0.9, 0.2, 0.5, 1.0, 1.0)), strict=True))
    false = dict(zip(names, map(near, (3.0, 0.0, 2.0, 0.0, 0.0)), strict=True))
    m = {"found:A and B": found, "false:A and B": false, "false:A": false, "false:none": false}
    m |= {"router over destination": near(2.5)}
    assert {one.verdict for one in set_rows.K_SETS.judge(m)} == {"confirmed"}
    wrong = {**m, "false:A and B": {**false, set_rows.PAIRS: near(0.5), set_rows.DESTINATION: near(0.1)}}
    assert judged(set_rows.K_SETS, wrong)["ecn-clean"].verdict == "differs"
    assert judged(set_rows.K_SETS, wrong)["destination-clean"].verdict == "differs"


def test_connections_that_come_and_go():
    m = {
        "variation over TCP's, long": {open_rows.INHERITING: near(0.7), open_rows.ANEW: near(1.0)},
        "cv1": {"plain TCP": [near(0.1)] * 3},
        "ratio": {"plain TCP": [near(1.9), near(1.5), near(1.0)]},
    }
    found = judged(open_rows.K_OPEN, m)
    assert [one.verdict for one in found.values()] == ["confirmed", "differs"]
    assert "divides by need" in found["long-anew"].reason


def test_offered_files_are_all_in_the_direction_of_the_bottleneck():
    """Section 4.2: 16.7 Mb/s are driven through the link at 8 Mb/s of files, slightly above 10 at 2 Mb/s."""
    share = float(point(E8, "none")["ftp_gets"])
    assert 1.1 * (7.2 + 8 * share) == pytest.approx(16.7, abs=0.1)
    assert 1.1 * (7.2 + 2 * share) == pytest.approx(10.1, abs=0.1)


def test_parameters_follow_the_choices():
    assert "fraction=carry" in cbc(at({"control.fraction": "carry"}))
    assert cbc(eta=1).endswith("eta=1")
    assert point(setup.A4, "none", at({"scenario.all_af31_ftp": "8Mbps"}))["ftp"] == "8Mbps"
