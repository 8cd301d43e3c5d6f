"""The rows of DT-DCTCP judged on made-up numbers: verdicts follow them, causes their experiment."""

import math
from typing import Any

import numpy as np
import pytest

from penstock.runs import Run, RunSet
from penstock_papers.experiments.common import onset
from penstock_papers.experiments.dt_dctcp.alpha_rows import D_12
from penstock_papers.experiments.dt_dctcp.analysis_rows import CYCLES, D_7, D_9
from penstock_papers.experiments.dt_dctcp.live_rows import D_14_LIVE, D_15_LIVE
from penstock_papers.experiments.dt_dctcp.mean_queue_rows import D_10, local_maximum
from penstock_papers.experiments.dt_dctcp.queue_rows import COUNTS, D_1, D_11
from penstock_papers.experiments.dt_dctcp.setup import FLOWS, RULES
from penstock_papers.experiments.dt_dctcp.testbed_rows import D_14, D_15, SERVERS, swings
from penstock_papers.ledger import Estimate, Judged, Row

ONE, TWO, THREE = RULES


def judged(row: Row, measurement: dict[str, Any]) -> dict[str, Judged]:
    return {one.claim.id: one for one in row.judge(measurement)}


def tight(*values: float) -> list[Estimate]:
    return [Estimate(v, v - 0.001, v + 0.001) for v in values]


@pytest.mark.parametrize(("ratio", "verdict"), [(3.9, "confirmed"), (6.0, "differs"), (1.2, "differs")])
def test_fig_1(ratio, verdict):
    m = {"ratio": ratio, "N=10": 14.0, "N=100": 14.0 * ratio, "fluid": 3.0, "without a floor": 3.5}
    found = judged(D_1, m)["amplitude"]
    assert found.verdict == verdict
    assert ("without that floor" in found.reason) == (verdict == "differs")
    assert judged(D_1, {**m, "ratio": 6.0, "without a floor": 6.0})["amplitude"].reason == "unexplained"


def test_fig_7():
    m = {"fourier": 1e-16, "off the axis": 0.0, "above the axis": 0.3, "turns": [1, 1], "peak at": 1.414}
    m["peaks"] = [-math.pi, -math.pi * 0.8]
    found = judged(D_7, m)
    assert [one.verdict for one in found.values()] == ["confirmed"] * 5 + ["differs"]
    assert "over K and over K2" in found["same-maximum"].reason
    assert judged(D_7, {**m, "peaks": [-3.0, -1.0]})["same-maximum"].reason == "unexplained"
    assert judged(D_7, {**m, "above the axis": 0.0})["upper"].verdict == "differs"


def deviation(lower_at_every_n: bool, longer: bool, gain: float) -> dict[str, Any]:
    n = len(FLOWS)
    gaps = [1.0] * n if lower_at_every_n else [*[1.0] * (n - 2), -1.0, -1.0]
    rising = np.linspace(5, 20, n)
    two = 60.0 if longer else 30.0
    return {
        "N": list(FLOWS),
        "std": {"DCTCP": tight(*rising), "DT-DCTCP": tight(*(rising - np.array(gaps)))},
        "DCTCP less DT-DCTCP": tight(*gaps),
        "mean": {"DCTCP": tight(*[40.0] * n), "DT-DCTCP": tight(*[two] * n)},
        "direction lower": tight(*gaps),
        "mean ratio": Estimate.exact(0.8),
        "at equal mean": [[10.0, 10.0 + gain, 0, 0, 0] for _ in COUNTS],
    }


def test_fig_11():
    assert judged(D_11, deviation(True, False, -1.0))["lower"].verdict == "confirmed"
    found = judged(D_11, deviation(False, True, 0.5))["lower"]
    assert found.verdict == "differs"
    assert "the deviation follows the mean queue" in found.reason
    assert "N = 95: mean queue 60 against 40 packets" in found.reason
    for unsupported in (deviation(False, False, 0.5), deviation(False, True, -0.5)):
        assert judged(D_11, unsupported)["lower"].reason == "unexplained"


def test_fig_12():
    n = len(FLOWS)

    def m(gap: float, rest: float) -> dict[str, Any]:
        one = np.linspace(0.3, 0.9, n)
        rules = {"alpha": [0.3, 0.5], "beyond the window": [0.0, rest]}
        return {
            "N": list(FLOWS),
            "alpha": {"DCTCP": tight(*one), "DT-DCTCP": tight(*(one - gap))},
            "DCTCP less DT-DCTCP": tight(*[gap] * n),
            "mean gap": Estimate(gap, gap - 0.001, gap + 0.001),
            "five rules": [rules, rules],
            # Half of what is stated comes with the queues: DT-DCTCP's is the longer one.
            "queue": {"DCTCP": tight(*[10.0] * n), "DT-DCTCP": tight(*[200.0] * n)},
        }

    assert {one.verdict for one in D_12.judge(m(0.1, 0.0))} == {"confirmed"}
    found = judged(D_12, m(0.01, 0.02))
    assert (found["lower"].verdict, found["by-a-tenth"].verdict) == ("confirmed", "differs")
    assert "at a share that the window" in found["by-a-tenth"].reason
    assert judged(D_12, m(0.01, 0.2))["by-a-tenth"].reason == "unexplained"
    shorter = {"queue": {"DCTCP": tight(*[40.0] * n), "DT-DCTCP": tight(*[35.0] * n)}}
    assert "not the longer one" in judged(D_12, m(0.01, 0.2) | shorter)["by-a-tenth"].reason


def test_fig_14():
    def m(one: float, two: float, four_segments: float) -> dict[str, Any]:
        e = Estimate.exact
        windows = {"2": [e(45), e(46)], "4": [e(four_segments), e(four_segments)], "10": [e(9), e(9)]}
        onsets = {ONE: e(one), TWO: e(two), THREE: e(two)}
        readings = {"persistent connections": [e(40), e(40 + two - one), e(40)]}
        return {"onset": onsets, "windows": windows, "readings": readings, "room": 92.0}

    assert {one.verdict for one in D_14.judge(m(32, 37, 23))} == {"confirmed"}
    found = judged(D_14, m(31, 31, 23))
    assert [one.verdict for one in found.values()] == ["confirmed", "differs", "differs"]
    assert "whatever the rule" in found["dt-dctcp"].reason
    assert judged(D_14, m(31, 31, 50))["dt-dctcp"].reason == "unexplained"
    assert "collapse together" in judged(D_14, m(31, 31, 50))["postponed"].reason
    assert judged(D_14, m(31, 33, 50))["postponed"].reason == "unexplained"
    assert "with another one" in judged(D_14, m(31, 31, 37))["dt-dctcp"].reason
    assert judged(D_14, m(math.inf, 37, 23))["postponed"].verdict == "differs"


def test_a_collapse_is_half_of_the_best_past_it():
    goodput = [100.0] * len(SERVERS)
    assert onset(SERVERS, goodput) is None
    goodput[0] = 10
    assert onset(SERVERS, goodput) is None, "before the best one there is no collapse"
    goodput[SERVERS.index(37) :] = [40.0] * (len(SERVERS) - SERVERS.index(37))
    assert onset(SERVERS, goodput) == 37


def swung(curve: list[float]) -> list[Estimate]:
    """The swings of queries whose times these are, in two runs that are alike."""
    runs = [Run(1, {}, {"measured_s": time, "blocks": 1}, {}, {}) for time in curve]
    return swings([RunSet("x", 1, (run, run)) for run in runs])


def completion(one: list[float], two: list[float], first: tuple[int, int], more: float) -> dict[str, Any]:
    servers = list(range(34, 44))
    times = {ONE: tight(*one), TWO: tight(*two), THREE: tight(*two)}
    e = Estimate.exact
    return {
        "servers": servers,
        "times": times,
        "least": Estimate.exact(10),
        "burst": dict.fromkeys(times, Estimate.exact(21)),
        "sudden": dict.fromkeys(times, 0.6),
        "least over the link's time": Estimate.exact(1.05),
        "before the timeouts": {
            name: {
                "climb": curve[-1] / curve[0],
                "largest step": float(
                    np.abs(np.diff(np.log(curve))).max() / abs(np.log(curve[-1] / curve[0]))
                ),
                "swings": swung(curve[1:]),
            }
            for name, curve in zip(times, (one, two, two), strict=True)
        },
        "first timeout": {ONE: e(first[0]), TWO: e(first[1]), THREE: e(first[1])},
        "with buffer": {"160KB": [e(more), e(more)]},
    }


def test_fig_15():
    swinging, climbing = [10, 16, 10, 17, 11, 15, 14, 20, 20, 20], list(range(10, 20))
    as_stated = completion(swinging, climbing, (40, 42), 50)
    assert {one.verdict for one in D_15.judge(as_stated)} == {"confirmed"}
    found = judged(D_15, completion(climbing, swinging, (28, 28), 50))
    for name in ("timeouts-dctcp", "timeouts-dt-dctcp"):
        assert found[name].verdict == "differs"
        assert "more buffer postpones" in found[name].reason
    one = found["oscillates-before"]
    assert (one.verdict, "only climbs" in one.reason) == ("differs", True)
    assert (found["least"].verdict, found["burst"].verdict) == ("confirmed", "confirmed")
    # Where timeouts begin is a claim of its own, and a curve that falls does not climb.
    early = judged(D_15, completion(swinging, climbing, (40, 28), 50))
    assert early["timeouts-dt-dctcp"].verdict == "differs"
    falling = judged(D_15, completion(swinging, climbing[::-1], (40, 42), 50))
    assert falling["climbs-before"].verdict == "differs"
    # Level up to a timeout that is the whole climb is no smooth climb.
    level = judged(D_15, completion(swinging, [10] * 7 + [20] * 3, (40, 42), 50))
    assert level["climbs-before"].verdict == "confirmed" and level["smooth-before"].verdict == "differs"
    assert "the link's" in level["smooth-before"].reason


def test_an_oscillation_is_judged_without_its_timeouts_and_by_its_size():
    level = [10, 10.1] * 5
    # Ends that are alike make any noise many times the way from end to end.
    assert judged(D_15, completion(level, level, (40, 42), 50))["oscillates-before"].verdict == "differs"


def mean_queue(direction: float, rising: bool) -> dict[str, Any]:
    e = Estimate.exact
    top = math.inf if rising else 60.0
    packets = [40.0, 50.0, 66.0] if rising else [40.0, 66.0, 50.0]
    found = {
        "at N=10": [e(32), e(25)],
        "early": {"N=20": e(1.02)},
        "late": {"N=40": e(1.2), "N=60": e(1.8)},
        "largest": e(1.8),
        "DT over DCTCP": {"N=10": e(0.8), "N=60": e(0.9)},
        "span, DT over DCTCP": e(0.5),
        "maximum at": top,
        "flat": {"N=40": e(1.4)},
        "strays": 0.5,
        "strays before": 0.04,
        "K2 alone": e(60),
        "reaches": 20.0,
    }
    other = {**found, "at N=10": [e(32), e(direction)], "flat": {"N=40": e(direction / 42)}}
    floor = {"flows": [10, 100], "mean": [e(30), e(117)], "ratio": [e(1), e(3.9)]}
    fluid = {"and conserved packets": packets}
    return {
        **found,
        "direction": other,
        "floor": floor,
        "packets": packets,
        "window": [9.0, 3.0, 1.5],
        "fluid": fluid,
    }


def test_fig_10():
    found = judged(D_10, mean_queue(42, rising=True))
    differs = {name for name, one in found.items() if one.verdict == "differs"}
    assert differs == {"baseline-dt-dctcp", "maximum", "flat"}
    assert "towards a segment" in found["maximum"].reason
    for name in ("baseline-dt-dctcp", "flat"):
        assert "follows the queue's direction" in found[name].reason
    found = judged(D_10, mean_queue(20, rising=False))
    assert found["maximum"].verdict == "confirmed"
    assert found["flat"].reason == "unexplained"
    far = {**mean_queue(42, rising=True), "largest": Estimate.exact(3.9)}
    assert "2N less the path's" in judged(D_10, far)["largest"].reason
    alone = {**mean_queue(20, rising=True), "K2 alone": Estimate.exact(43)}
    assert "about K2 alone" in judged(D_10, alone)["baseline-dt-dctcp"].reason
    assert judged(D_10, {**alone, "reaches": 35.0})["baseline-dt-dctcp"].reason == "unexplained"


def test_a_local_maximum_stands_out_of_the_curve():
    n = [10, 35, 40, 45, 50]
    assert local_maximum(n, [1, 1.2, 1.8, 1.5, 1.4]) == 40
    assert local_maximum(n, [1, 1.2, 1.4, 1.5, 1.8]) == math.inf
    assert local_maximum(n, [1, 1.2, 1.5, 1.499, 1.8]) == math.inf


def test_fig_9():
    def m(onsets: list[float], factors: list[float]) -> dict[str, Any]:
        steps = np.zeros((len(CYCLES), 3)) + 10.0
        return {
            "onsets": onsets,
            "margins": [np.full(10, 5.0), np.full(10, 6.0)],
            "crossing": [-0.4, -0.5, -0.6],
            "crossing, twice the pipe": [-0.4, -0.5, -0.6],
            "factors": [],
            "factors, same K0": factors,
            "single oscillates": [True, False],
            "band from": 25.0,
            "packets": steps,
            "predicted": steps,
        }

    assert {one.verdict for one in D_9.judge(m([60, 70], [8.6]))} == {"confirmed"}
    found = judged(D_9, m([math.inf, math.inf], [8.6]))
    assert (found["dctcp"].verdict, found["later"].verdict) == ("differs", "confirmed")
    assert (
        "8.6 times the stated one" in found["dctcp"].reason
        and "swings about zero" not in found["dctcp"].reason
    )
    assert judged(D_9, m([math.inf, 70], []))["dctcp"].reason == "unexplained"
    turned = {
        **m([60, 70], []),
        "crossing": [-0.4, -0.6, -0.5],
        "margins": [np.full(10, 5.0), np.full(10, 4.0)],
    }
    assert [judged(D_9, turned)[name].verdict for name in ("later", "left")] == ["differs", "differs"]
    # Farthest to the left at the second N of the figure, where windows are four segments: no reason yet.
    assert judged(D_9, turned)["left"].reason == "unexplained"
    late = {**turned, "crossing": [-0.4] * 5 + [-0.6] + [-0.5] * 4}
    assert "less than two segments" in judged(D_9, late)["left"].reason
    assert judged(D_9, {**late, "crossing, twice the pipe": late["crossing"]})["left"].reason == "unexplained"


def test_live_rows():
    e = Estimate.exact
    onsets = {ONE: e(30), TWO: e(31), THREE: e(31)}
    m = {
        "onset": onsets,
        "apart": onsets,
        "few": {name: e(37) for name in RULES},
        "goodput": {ONE: [90.0, 40.0]},
        "smaller window": [80.0, 30.0, 20.0],
        "quality": "fine",
    }
    found = judged(D_14_LIVE, m)["dctcp"]
    assert found.verdict == "differs"
    assert "a smaller first window" in found.reason and "one thread answers" in found.reason
    assert "so few queries" not in found.reason
    other = {**m, "smaller window": [20.0] * 3, "apart": {name: e(37) for name in RULES}}
    assert judged(D_14_LIVE, other)["dctcp"].reason == "unexplained"
    few = {name: Estimate(38, 29, 42) for name in RULES}
    m = {"least": 10.4, "first timeout": onsets, "apart": {name: e(40) for name in RULES}, "few": few}
    found = judged(D_15_LIVE, m)
    assert found["least"].verdict == "confirmed"
    assert found["timeouts-dctcp"].verdict == "differs" and "so few queries" in found["timeouts-dctcp"].reason
