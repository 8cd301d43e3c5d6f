"""The rows of the incast book judged on made-up numbers: verdicts follow them, causes their experiment."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import penstock
from penstock.models import incast as models
from penstock.runs import Run, RunSet
from penstock_papers.experiments.common import jackknife, later, onset
from penstock_papers.experiments.incast import beside, rows, segment_rows, split_rows
from penstock_papers.experiments.incast.beside import FULL, FULL_PER_SERVER, Beside
from penstock_papers.experiments.incast.block_start_rows import CARRIED, I_3_4, MORE, TIES
from penstock_papers.experiments.incast.collapse_rows import I_1_5, I_2_5, window_numbers
from penstock_papers.experiments.incast.model_rows import I_3_8, I_3_10
from penstock_papers.experiments.incast.remedy_rows import I_4_1, I_4_2, I_4_3, per_doubling
from penstock_papers.experiments.incast.segment_rows import (
    FILLED,
    I_4_11,
    RIGHT,
    SEGMENT_ROWS,
    Timeouts,
    numbers,
)
from penstock_papers.experiments.incast.size_rows import SIZE_ROWS
from penstock_papers.experiments.incast.split_rows import I_3_11, I_3_12, I_3_21
from penstock_papers.experiments.incast.thread import LABELS, PLAIN, SETTING
from penstock_papers.experiments.incast.thread_rows import I_4_4, I_4_6
from penstock_papers.experiments.incast.timeout_rows import longest_idle
from penstock_papers.ledger import Estimate, Judged, Row

exact = Estimate.exact


def judged(row: Row, measurement: dict[str, Any]) -> dict[str, Judged]:
    return {one.claim.id: one for one in row.judge(measurement)}


def tight(*values: float) -> list[Estimate]:
    return [Estimate(v, v - 0.001, v + 0.001) for v in values]


def test_every_row_of_the_ledger_is_there_once():
    names = [row.id for row in rows.ROWS]
    assert len(names) == len(set(names))
    stated = ["I-1.5", "I-2.5", "I-3.3", "I-3.4", "I-dctcp"]
    stated += ["I-table", "I-remedies", "I-timers", "I-thread", "I-algebra"]
    stated += [f"I-3.{k}" for k in range(8, 22)] + [f"I-4.{k}" for k in range(1, 12)]
    assert sorted(names) == sorted(stated)


# ---- numbers ----------------------------------------------------------------------------------------------


def test_onsets_are_compared_run_by_run():
    assert onset([1, 2, 4, 8], [5, 9, 4, 4]) == 4
    assert onset([1, 2, 4, 8], [1, 9, 5, 5]) is None, "before the best one there is no collapse"
    assert later(np.array([5, 5, 6.0]), np.array([7, 8, math.inf])) == Estimate(3, 2, math.inf)
    assert later(np.array([math.inf] * 3), np.array([math.inf] * 3)) == Estimate(0, 0, 0)
    assert per_doubling([8, 16, 32], [32, 64, 128]) == pytest.approx(2)
    assert per_doubling([8, math.inf], [32, 64]) == math.inf


def test_a_jackknife_of_a_mean_is_its_interval():
    values = np.array([1.0, 2.0, 4.0, 7.0])
    found = jackknife(lambda runs: {"x": float(values[list(runs)].mean())}, 4)["x"]
    assert (found.mean, found.low, found.high) == pytest.approx(
        (lambda e: (e.mean, e.low, e.high))(Estimate.of(values))
    )
    assert jackknife(lambda runs: {"x": 3.0}, 1)["x"] == exact(3)


def test_time_covered_by_timeouts_counts_once():
    since, to = np.array([0.0, 0.5, 3.0]), np.array([1.0, 2.0, 9.0])
    assert beside.covered(since, to, 0.25, 4.0) == pytest.approx(1.75 + 1.0)
    assert beside.covered(since, to, 10, 11) == 0


def test_timeouts_are_counted_by_kind_and_place():
    columns = ["time_s", "what", "block_start", "rto_s", "in_a_row", "flow"]
    events = pl.DataFrame(
        [
            (0.21, "timeout: window lost", True, 0.2, 1, 0),
            (0.22, "timeout: window lost", True, 0.2, 1, 1),
            (0.30, "block", False, 0.30, 0, 0),
            (0.55, "timeout: few dup acks", False, 0.2, 1, 1),
            (0.75, "timeout: repeated", False, 0.4, 2, 1),
            (0.80, "block", False, 0.50, 0, 0),
        ],
        schema=columns,
        orient="row",
    )
    # A block that the link needs 0.1 s for.
    found = beside.timeouts(events, 0.1 * 1e9 / 8 / 1.04)
    assert (found["start_count"], found["start_whole"], found["start_together"]) == (2, 2, 2)
    assert (found["mid_count"], found["mid_few"], found["mid_whole"]) == (1, 1, 0)
    # Both senders wait in the first block, one of them again in the second.
    assert found["waiting"] == 3
    assert found["late_s"] == pytest.approx(0.2 + 0.4)
    assert found["waited_s"] == pytest.approx(0.2 + 0.4)


def test_the_longest_idle_stretch_of_a_port():
    time = np.arange(0, 1, 0.1)
    queue = np.array([1, 0, 0, 1, 0, 0, 0, 0, 1, 1])
    assert longest_idle(time, queue, 0, 1) == pytest.approx((0.4, 0.4))


# ---- chapters 1 and 2 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "verdict"), [(12.0, "confirmed"), (4.0, "differs"), (800.0, "differs")])
def test_fig_1_5(depth, verdict):
    m = {"onset": exact(5), "depth": exact(depth), "waited": exact(0.9), "depth carried over": exact(12)}
    found = judged(I_1_5, m)
    assert found["depth"].verdict == verdict
    assert ("carried over" in found["depth"].reason) == (verdict == "differs")
    assert (
        judged(I_1_5, {**m, "depth": exact(4), "depth carried over": exact(4)})["depth"].reason
        == "unexplained"
    )
    assert judged(I_1_5, {**m, "onset": exact(math.inf)})["collapse"].verdict == "differs"
    assert judged(I_1_5, {**m, "waited": exact(0.4)})["timeouts"].verdict == "differs"


def sawtooth(left: float) -> dict[str, Any]:
    """A window that doubles, times out, doubles up to 16 segments, then climbs and is cut to `left`."""
    time = np.arange(0, 20, 0.002)
    cwnd = np.full(time.size, 1.0)
    rising = np.minimum(2 ** (time / 0.05), 32)
    again = np.minimum(2 ** ((time - 1) / 0.05), 16)
    cwnd[time < 1], cwnd[time >= 1] = rising[time < 1], again[time >= 1]
    linear = time >= 1.2
    tooth = (time[linear] - 1.2) % 4
    cwnd[linear] = 16 + tooth / 0.05 * 0.2
    top = cwnd[linear].max()
    cwnd[linear] = np.where(
        time[linear] > 5.2, top * left + tooth / 0.05 * (1 - left) * top / 80, cwnd[linear]
    )
    found = window_numbers(time, 1000 * cwnd, np.full(time.size, 16_000.0), np.array([1.0]), [32_000.0])
    return {"time": time, "window": cwnd, "timeouts": [1.0], **found}


def test_fig_2_5():
    found = judged(I_2_5, sawtooth(0.5))
    assert [found[name].verdict for name in ("slow-start", "timeout", "threshold", "again")] == [
        "confirmed"
    ] * 4
    assert found["halves"].verdict == "confirmed"
    assert judged(I_2_5, sawtooth(0.7))["halves"].verdict == "differs"
    flat = window_numbers(np.arange(9.0), np.full(9, 5000.0), np.full(9, 9e9), np.array([]), [])
    assert judged(I_2_5, flat)["timeout"].verdict == "differs"
    assert judged(I_2_5, flat)["sawtooth"].verdict == "differs"


# ---- chapter 3 --------------------------------------------------------------------------------------------


def test_fig_3_4_chance_confirms_nothing():
    numbers_ = {"start share": exact(0.6), "idle": exact(180.0), "window": exact(3.0), "another": exact(0.95)}
    fine = {**numbers_, "whole windows": exact(0.9), CARRIED: numbers_, TIES: numbers_}
    fine |= {"another by frequency": exact(0.8), "last three": exact(1.0)}
    fine |= {"window of its share": exact(1.5), "others of their share": exact(1.2)}
    fine[MORE] = {"as chosen": exact(0.4), CARRIED: exact(0.45)}
    assert {one.verdict for one in I_3_4.judge(fine)} == {"confirmed"}
    found = judged(I_3_4, {**fine, "another": exact(0.51)})["another"]
    assert found.verdict == "differs" and "carried over" in found.reason and "packets tie" in found.reason
    no = {**numbers_, "another": exact(0.4)}
    found = judged(I_3_4, {**fine, "another": exact(0.51), CARRIED: no, TIES: no})["another"]
    assert found.reason == "unexplained"
    assert judged(I_3_4, {**fine, "another": Estimate(0.6, 0.5, 0.7)})["another"].verdict == "undecided"


def test_fig_3_4_each_mechanism_follows_its_experiment():
    below = {"start share": exact(0.3), "idle": exact(180.0), "window": exact(1.4), "another": exact(0.45)}
    m: dict[str, Any] = {**below, "whole windows": exact(0.9), CARRIED: below, TIES: below}
    m |= {"another by frequency": exact(0.4), "last three": exact(1.0)}
    m |= {"window of its share": exact(4.0), "others of their share": exact(2.3)}
    m[MORE] = {"as chosen": exact(0.4), CARRIED: exact(0.6)}
    found = judged(I_3_4, m)
    said = {"dominates": "how many senders are many", "window": "beyond their share", "another": "asked last"}
    assert all(found[name].verdict == "differs" and text in found[name].reason for name, text in said.items())
    m |= {"another by frequency": exact(0.7), "window of its share": exact(1.4)}
    m[MORE] = {"as chosen": exact(0.4), CARRIED: exact(0.45)}
    assert {judged(I_3_4, m)[name].reason for name in said} == {"unexplained"}


def test_the_models_are_read_as_chosen():
    """Loss events merged or counted singly, L of all servers or of one."""
    summary = {"n": 4, "p_c": 1e-3, "p_r": 2e-3, "j": 2.0, "p_c_singly": 2e-3, "j_singly": 1.0}
    summary |= {"delta": 0.5, "iota": 0.1, "rtt": 1e-3, "t0": 0.2, "blocks": 9, "packets": 9000}
    made = {f"model_{key}": value for key, value in summary.items()}
    sets = [RunSet("incast", 1, (Run(0, {}, {**made, "packets_sent": 1, "measured_s": 1}, {}, {}),))]

    def at(events: str, length: str) -> Beside:
        chosen = {"loss_events": events, "length_of_a_block": length}
        return Beside.of([4], sets, sru=256, window=1000, chosen=chosen)

    merged, singly, one = at("merged", "block"), at("singly", "block"), at("merged", "server")
    assert (merged.measured("p_c")[0], merged.measured("j")[0]) == (1e-3, 2.0)
    assert (singly.measured("p_c")[0], singly.measured("j")[0]) == (2e-3, 1.0)
    assert merged.model(FULL)[0] == models.full(4, 1e-3, 2e-3, 0.5, 1e-3, 0.2, 1024)
    assert one.model(FULL)[0] == merged.model(FULL_PER_SERVER)[0] != merged.model(FULL)[0]


def test_fig_3_8():
    keys = ("rank", "level", "factor", "together", "q_ibtt", "timeouts per loss event")
    m: dict[str, Any] = dict(zip(keys, tight(0.9, 0.5, 2.0, 0.8, 0.5, 0.1), strict=True))
    m |= {"model falls by": exact(3)}
    m |= {"model falls at": exact(3), "simulation falls at": exact(7), "simulation steps at": exact(4)}
    m["factor for few"] = exact(1.3)
    assert {one.verdict for one in I_3_8.judge(m)} == {"confirmed"}
    found = judged(I_3_8, {**m, "rank": exact(0.3)})["tendency"]
    assert found.verdict == "differs" and "Q_ibtt" in found.reason
    assert judged(I_3_8, {**m, "rank": exact(0.3), "q_ibtt": exact(0.1)})["tendency"].reason == "unexplained"
    early = {**m, "simulation falls at": exact(5), "two choices": exact(6)}
    found = judged(I_3_8, early)["simulation-falls"]
    assert found.verdict == "differs" and "limited transmit" in found.reason
    still = judged(I_3_8, {**early, "two choices": exact(5)})["simulation-falls"]
    assert (still.reason, len(still.excluded)) == ("unexplained", 1)
    assert judged(I_3_8, {**m, "level": exact(1.2)})["underestimates"].verdict == "differs"


def test_fig_3_10_to_3_12_and_3_21():
    m: dict[str, Any] = {
        "greater": exact(0.5),
        "mid share": exact(0.8),
        "level": exact(0.5),
        "beyond": exact(3),
        "part for few": exact(1),
        "part for many": exact(0.9),
    }
    assert [v.verdict for v in I_3_10.judge(m)] == ["differs", "confirmed", "confirmed", "confirmed"]
    assert "their part" in judged(I_3_10, m)["greater-for-few"].reason
    same = {**m, "part for few": exact(0.9)}
    assert judged(I_3_10, same)["greater-for-few"].reason == "unexplained"
    over = {"start share": exact(0.6), "left": exact(0.5)}
    m = {"start share": exact(0.4), "left": exact(0.8), "carried over": over}
    m |= {"and two segments per ACK": exact(0.45), "independent": over}
    found = judged(I_3_11, m)
    assert "decides the share" in found["dominate-for-many"].reason
    fewer = m | {"carried over": {**over, "start share": exact(0.45)}}
    alone = judged(I_3_11, fewer)["dominate-for-many"]
    assert (alone.reason, len(alone.excluded)) == ("unexplained", 2)
    both = judged(I_3_11, {**fewer, "and two segments per ACK": exact(0.6)})["dominate-for-many"]
    assert "two choices together" in both.reason
    assert found["little-for-few"].reason == "unexplained"
    apart = judged(I_3_11, m | {"independent": {**over, "left": exact(1.0)}})["little-for-few"]
    assert "independent of one another" in apart.reason
    m = {"split over full": exact(1.1), "split": exact(2.2), "full": exact(2.0)}
    m |= {"whole windows": exact(1), "few duplicates": exact(1), "best n*": 9, "with it": 1.5}
    assert "n* is another" in judged(I_3_12, m)["better"].reason
    assert judged(I_3_12, {**m, "best n*": 3})["better"].reason == "unexplained"
    third = {**m, "few duplicates": exact(0.4), "lost again, more": exact(0.5)}
    assert "a third kind" in judged(I_3_12, third)["few-duplicates"].reason
    assert judged(I_3_12, {**third, "lost again, more": exact(0.1)})["few-duplicates"].reason == "unexplained"
    m = {"few": exact(1.5), "last": exact(4), "last, p_c": exact(60), "few, p_c": exact(1.2)}
    assert [v.verdict for v in I_3_21.judge(m)] == ["confirmed", "differs"]
    assert "p_c, in its place" in judged(I_3_21, m)["far-for-many"].reason
    assert judged(I_3_21, {**m, "last, p_c": exact(5)})["far-for-many"].reason == "unexplained"
    off = {**m, "few": exact(2.5)}
    assert "what it is off by" in judged(I_3_21, off)["good-for-few"].reason
    assert judged(I_3_21, {**off, "few, p_c": exact(2.5)})["good-for-few"].reason == "unexplained"


def test_a_model_that_fits_is_much_better_however_little_the_other_one_is_off(monkeypatch):
    monkeypatch.setattr(split_rows.model_rows, "share_of", lambda *_: 1.0)
    factors = {split_rows.SPLIT: 1.05, split_rows.FULL: 1.3}
    beside: Any = SimpleNamespace(servers=np.array([2, 8]), factor=factors.__getitem__)
    assert judged(I_3_12, split_rows._split(beside))["better"].verdict == "confirmed"


def pair(gain: float, steps: float) -> dict[str, Any]:
    fewer = {f"fewer {key}": exact(0.1) for key in ("p_c", "p_r", "at the start")}
    both = {"means": tight(300, 300 + gain), "onsets": tight(5, 5 + steps)}
    over = {"goodput": 1 + gain / 100, "after": 1 + gain / 100, "p_c": 0.5, "p_r": 0.5, "at start": 0.5}
    return {
        "over": {key: exact(x) for key, x in over.items()},
        "gain": exact(gain),
        "gain after": exact(gain),
        "later": exact(steps),
        **fewer,
        **both,
        "worse at": [4],
        "visibly worse": 0 if gain > 0 else 7,
        "visibly better": 7 if gain > 0 else 0,
    }


def test_fig_3_13_to_3_20():
    by_id = {row.id: row for row in SIZE_ROWS}
    for first, second in (("I-3.13", "I-3.14"), ("I-3.17", "I-3.18")):
        assert [c.same_as for c in by_id[first].claims] == [f"{second}/{c.id}" for c in by_id[second].claims]
        assert by_id[first].measure is by_id[second].measure
    m = {"pairs": {"64": pair(10, 3)}}
    assert {v.verdict for v in by_id["I-3.15"].judge(m)} == {"confirmed"}
    worse = judged(by_id["I-3.15"], {"pairs": {"64": pair(-10, 0)}})
    assert worse["later"].verdict == worse["nowhere-worse"].verdict == "differs"
    between = {"servers": 5, "sizes": [128, 256], "losses": [1.0, 1.8], "goodput": [900.0, 400.0]}
    in_step = {**pair(-10, 3), "between": between | {"timeouts per loss": [0.0, 0.02]}}
    found = judged(by_id["I-3.19"], {"pairs": {"256": in_step}})
    assert "a second loss fits" in found["higher"].reason and found["same-onset"].verdict == "differs"
    other = {**in_step, "between": between | {"timeouts per loss": [0.02, 0.02]}}
    assert judged(by_id["I-3.19"], {"pairs": {"256": other}})["higher"].reason == "unexplained"


# ---- chapter 4 --------------------------------------------------------------------------------------------


def test_fig_4_1():
    m: dict[str, Any] = {
        "onsets": {
            f"{size} KB": exact(n) for size, n in zip((32, 64, 128, 256), (6, 9, 14, 24), strict=True)
        },
        "per doubling": exact(1.6),
        "kept": {"ample": tight(1, 0.99), "smallest": tight(0.4, 0.1)},
        "collapsed from": 6,
        "short path": exact(1.9),
        "path": [50.0, 4.0],
        "room": [1.5, 1.9],
        "first falls": {"at": tight(6, 8, 10, 12), "per doubling": exact(1.26)},
    }
    found = judged(I_4_1, m)
    assert [v.verdict for v in found.values()] == ["differs", "confirmed", "confirmed"]
    assert "what the path holds" in found["doubles"].reason
    excluded = judged(I_4_1, {**m, "short path": exact(1.5)})["doubles"]
    assert excluded.reason == "unexplained" and len(excluded.excluded) == 2
    falling = {"at": tight(4, 8, 16, 32), "per doubling": exact(2)}
    first = judged(I_4_1, {**m, "short path": exact(1.5), "first falls": falling})["doubles"]
    assert "first falls" in first.reason and first.excluded == ()
    assert judged(I_4_1, {**m, "per doubling": exact(2.1)})["doubles"].verdict == "confirmed"


def test_fig_4_2_orders_of_magnitude_are_fifty_at_least():
    sizes = zip((64, 128, 256, 512, 1000), (1, 2, 3, 4, 5), strict=True)
    m = {"means": {f"{size} KB": exact(rate) for size, rate in sizes}, "ratio": exact(2), "room": 6.0}
    m["steps"] = tight(2, 1.5, 1.3, 1.2)
    m["at seven"] = tight(300, 150)
    m |= {"means after": m["means"], "onset": tight(8, 5, 4, 4, 4)}
    found = judged(I_4_2, m)
    assert (found["improves"].verdict, found["seven"].verdict) == ("confirmed", "differs")
    assert "no room" in found["seven"].reason
    assert judged(I_4_2, {**m, "room": 60.0})["seven"].reason == "unexplained"
    assert judged(I_4_2, {**m, "ratio": exact(60)})["seven"].verdict == "confirmed"
    few = {**m, "means": {**m["means"], "64 KB": exact(9)}, "steps": tight(0.5, 1.5, 1.3, 1.2)}
    assert "collapse later" in judged(I_4_2, few)["improves"].reason
    assert judged(I_4_2, {**few, "means after": few["means"]})["improves"].reason == "unexplained"
    assert judged(I_4_2, {**few, "onset": tight(4, 4, 4, 4, 4)})["improves"].reason == "unexplained"


def test_fig_4_3():
    means = dict(zip(("200ms", "20ms", "2ms", "200us"), map(exact, (100, 400, 800, 900)), strict=True))
    m: dict[str, Any] = {"start": 5, "improves": tight(3, 8), "drop": exact(44)}
    m["steps"] = tight(4, 2, 1.1)
    m |= {"means": means, "any size": {"64 KB": exact(4)}, "trials": {"40 servers": 900.0}}
    m["drop without back-off"] = exact(math.inf)
    assert {v.verdict for v in I_4_3.judge(m)} == {"confirmed"}
    found = judged(I_4_3, {**m, "drop": exact(24)})["drop"]
    assert found.verdict == "differs" and "back-off" in found.reason
    again = judged(I_4_3, {**m, "drop": exact(24), "drop without back-off": exact(24)})["drop"]
    assert again.reason == "unexplained"


def test_fig_4_4_and_4_6():
    means = dict(zip((PLAIN, *LABELS), map(exact, (100, 110, 400, 900, 700)), strict=True))
    m: dict[str, Any] = {"means": means, "gain": exact(9), "gain of the least p": exact(1.1), "room": 9.5}
    m["steps"] = tight(1.1, 3.6, 2.2, 0.8)
    m |= {"every 200 us": {**means, LABELS[-1]: exact(950)}, "newest": {}}
    m["alone"] = {"drops": 0.0, "fast retransmits": 12, "goodput": 700.0}
    m |= {
        "gain of a tenth of the least p": exact(1.4),
        "windows carried": {"gain": exact(9), PLAIN: exact(99)},
    }
    found = judged(I_4_4, m)
    assert [v.verdict for v in found.values()] == ["differs", "differs", "confirmed"]
    assert "duplicate ACKs" in found["rises"].reason and "no room" in found["orders"].reason
    again = judged(I_4_4, {**m, "every 200 us": means, "room": 40.0})
    assert [again[name].reason for name in ("rises", "orders")] == ["unexplained"] * 2
    deeper = judged(I_4_4, {**m, "room": 40.0, "windows carried": {"gain": exact(60), PLAIN: exact(8)}})
    assert "carried from block to block" in deeper["orders"].reason
    low = {**m, "gain of the least p": exact(1.7)}
    assert judged(I_4_4, low)["too-low"].verdict == "differs"
    lower = judged(I_4_4, {**low, "gain of a tenth of the least p": exact(1.1)})["too-low"]
    assert lower.verdict == "confirmed", "any p that is low enough"
    ratios = {"over plain": {"5 servers": exact(2)}, "over fast above ten": {"12 servers": exact(0.5)}}
    ratios["over fast from five to ten"] = {"5 servers": exact(0.9)}
    better = {**ratios, "over fast above ten": {"12 servers": exact(1.1)}}
    found = judged(I_4_6, {**ratios, "every 2 us": better})
    assert [v.verdict for v in found.values()] == ["confirmed", "differs", "confirmed"]
    assert "ten times as often" in found["above-ten"].reason
    assert judged(I_4_6, {**ratios, "every 2 us": ratios})["above-ten"].reason == "unexplained"
    some = {"12 servers": Estimate(1.1, 1.05, 1.15), "16 servers": Estimate(1.0, 0.95, 1.05)}
    found = judged(I_4_6, {**ratios, "every 2 us": {**ratios, "over fast above ten": some}})
    assert "worse at no number of senders" in found["above-ten"].reason
    late = {"12 servers": exact(0.97), "20 servers": exact(1.05), "48 servers": exact(1.2)}
    crossing = {**ratios, "over fast above ten": late}
    assert "the two cross" in judged(I_4_6, {**ratios, "every 2 us": crossing})["above-ten"].reason
    for few, at in (
        (1.05, late),
        (0.97, late | {"20 servers": exact(0.99)}),
        (0.97, {"12 servers": exact(0.9)}),
    ):
        often = {
            **crossing,
            "over fast above ten": at,
            "over fast from five to ten": {"5 servers": exact(few)},
        }
        assert judged(I_4_6, {**ratios, "every 2 us": often})["above-ten"].reason == "unexplained"


def counted(*sizes: tuple[int, list[float]]) -> dict[str, Any]:
    """Timeouts of ten blocks: each segment size with what was lost in each timeout."""
    return numbers([Timeouts(s, np.array(lost), np.array([len(lost) / 10]), 0, 0) for s, lost in sizes])


def test_fig_4_7_to_4_10():
    row = SEGMENT_ROWS[0]
    fine = counted((1000, [1, 2, 3] * 20), (500, [40, 41] * 20), (50, []))
    more: dict[str, Any] = {"in packets": fine, "buffer only": exact(0.1)}
    assert {v.verdict for v in row.judge(fine | more)} == {"confirmed"}
    found = judged(row, counted((1000, [1]), (500, [2, 3]), (50, [])) | more)
    assert found["fewer"].verdict == "differs" and "as ns-2 counts" in found["fewer"].reason
    found = judged(row, counted((1000, [40, 41] * 20), (500, [2] * 30), (50, [])) | more)
    assert (found["fewer"].verdict, found["right"].verdict) == ("confirmed", "differs")
    bad = counted((1000, [1, 1]), (50, [9]))
    found = judged(row, bad | {"in packets": bad, "buffer only": exact(0.1)})
    assert (found["none"].verdict, found["none"].reason) == ("differs", "unexplained")
    assert "0.10 per block with 50 B" in found["none"].measured
    last, back = SEGMENT_ROWS[3], counted((1000, [1] * 30), (500, [40] * 30), (50, [3] * 30))
    coarse = {"in packets": back, "buffer only": exact(0.1), "no limited transmit": back}
    assert judged(last, back | coarse)["right"].reason == "unexplained"
    rising = coarse | {"no limited transmit": counted((1000, [1] * 30), (500, [40] * 30), (50, [80] * 30))}
    found = judged(last, back | rising)["right"]
    assert found.verdict == "differs" and "limited transmit" in found.reason


def test_too_few_timeouts_have_no_peak():
    row = SEGMENT_ROWS[0]
    one = counted((1000, [1, 2]), (500, [40]), (50, [100]))
    assert judged(row, one | {"in packets": one, "buffer only": exact(0.1)})["right"].verdict == "undecided"


def test_bins_that_disagree_leave_the_way_of_a_peak_undecided():
    # Many timeouts lose widely spread numbers of packets: bins that widen to the right gather these, bins of
    # equal width do not.
    spread: list[float] = [*[10.0] * 40, *np.arange(40.0, 340.0)]
    moved = counted((1000, [10] * 60), (500, spread))
    ways = moved["peaks by bins"]
    assert (RIGHT.judge(ways["ratio"]), RIGHT.judge(ways["width"])) == ("confirmed", "differs")
    assert RIGHT.judge(moved["peaks"]) == "undecided"
    # Where both kinds of bins say so the peak has moved.
    assert RIGHT.judge(counted((1000, [10] * 60), (500, [120] * 60))["peaks"]) == "confirmed"


def test_fig_4_11():
    def m(few: float, many: float, filled: float, two: float = 0.9) -> dict[str, Any]:
        names = ("segment resizing, full headers", "resizing once per connection", FILLED)
        others = {name: {"few": {"1 servers": exact(filled)}, "many": {"4": exact(2)}} for name in names}
        own = {"few": {"1 servers": exact(few), "2 servers": exact(two)}, "many": {"4 servers": exact(many)}}
        return own | {
            "others": others,
            "block of one server": [2.1, 3.0],
            "curves": {"plain TCP": {"onset": exact(2)}},
            "RTOmin 200 us": {"1 servers": exact(few), "2 servers": exact(0.5)},
            "timeouts of plain TCP": {"1 servers": 0.0, "2 servers": 20.0},
        }

    assert {v.verdict for v in I_4_11.judge(m(0.9, 2, 0.9))} == {"confirmed"}
    found = judged(I_4_11, m(0.6, 0.9, 0.95))
    assert [v.verdict for v in found.values()] == ["differs", "differs"]
    assert "begun with as many bytes" in found["penalty"].reason
    assert judged(I_4_11, m(0.6, 2, 0.6))["penalty"].reason == "unexplained"
    gains = m(0.6, 2, 0.9, two=1.9)
    gains["others"][FILLED]["few"]["2 servers"] = exact(2.0)
    assert "collapses already" in judged(I_4_11, gains)["penalty"].reason
    later = gains | {"curves": {"plain TCP": {"onset": exact(4)}}}
    assert judged(I_4_11, later)["penalty"].reason == "unexplained"
    later["RTOmin 200 us"] = {"1 servers": exact(0.6), "2 servers": exact(0.9)}
    assert "waits for timeouts" in judged(I_4_11, later)["penalty"].reason
    never = later | {"timeouts of plain TCP": {"1 servers": 0.0, "2 servers": 0.0}}
    assert judged(I_4_11, never)["penalty"].reason == "unexplained"


@pytest.mark.parametrize(("segment", "fits"), [(100, True), (250, False)])
def test_windows_of_32_packets_that_fit_the_buffer_never_time_out(segment, fits):
    # Figure 4.8: ten windows of 32 packets are 320 packets; 32 KB are 320 packets of 100 B but 128 of 250 B.
    found = penstock.run(
        "incast", **(SETTING | segment_rows.in_packets(segment) | {"duration": "2s", "servers": 10})
    )
    assert (found.mean("timeouts") == 0) == fits


def test_a_window_of_32_kb_times_out_whatever_the_segment():
    given = SETTING | segment_rows.settings(50) | {"duration": "2s", "servers": 10}
    assert penstock.run("incast", **given).mean("timeouts") > 0
