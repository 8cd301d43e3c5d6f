"""Claims: criteria that flip, undecided ones measured on, causes that must hold, the search, pinned ones."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import SHORT, inline

from penstock.runs import Run, RunSet
from penstock_papers import ledger
from penstock_papers.ledger import (
    CONFIRMED,
    DIFFERS,
    IN_PART,
    UNDECIDED,
    Cause,
    Claim,
    Estimate,
    Lab,
    Row,
    claims,
    criteria,
    holding,
    judging,
    outcomes,
    page,
    pinned,
    search,
    selection,
)
from penstock_papers.ledger.effects import effect
from penstock_papers.ledger.space import Space, describe

ROWS = ledger.rows()
CLAIMS = [(row, claim) for row in ROWS for claim in row.claims]


def row(*claims: Claim, **more) -> Row:
    more.setdefault("measure", lambda lab: {"x": 1.0})
    return Row("X-1", "title", "incast", claims=claims, **more)


def claim(criterion: ledger.Criterion, of="x", name="c", **more) -> Claim:
    return Claim(name, f"text of {name}", "number", "stated", of, criterion, **more)


# ---- criteria ---------------------------------------------------------------------------------------------


TABLE = {
    criteria.at_least(10): [
        (10, "c"),
        (11, "c"),
        (1e9, "c"),
        (math.inf, "c"),
        (None, "c"),
        (9.999, "d"),
        (0, "d"),
        (-10, "d"),
        (Estimate(12, 10, 14), "c"),
        (Estimate(12, 9, 15), "u"),
        (Estimate(9, 7, 11), "u"),
        (Estimate(8, 7, 9), "d"),
    ],
    criteria.at_most(-3): [
        (-3, "c"),
        (-4, "c"),
        (-1e9, "c"),
        (-2.999, "d"),
        (0, "d"),
        (3, "d"),
        (math.inf, "d"),
        (None, "d"),
        (Estimate(-4, -5, -3), "c"),
        (Estimate(-4, -6, -2), "u"),
        (Estimate(-2, -4, 0), "u"),
        (Estimate(-1, -2, 0), "d"),
    ],
    criteria.within(32, 0.1): [
        (32, "c"),
        (28.8, "c"),
        (35.2, "c"),
        (28.7, "d"),
        (35.3, "d"),
        (0, "d"),
        (-32, "d"),
        (None, "d"),
        (Estimate(32, 29, 35), "c"),
        (Estimate(32, 28, 36), "u"),
        (Estimate(60, 20, 100), "u"),
        (Estimate(40, 36, 44), "d"),
    ],
    criteria.more_than(0): [
        (1e-300, "c"),
        (5, "c"),
        (True, "c"),
        (math.inf, "c"),
        (0, "d"),
        (False, "d"),
        (-1e-300, "d"),
        (-5, "d"),
        (Estimate(1, 0.5, 1.5), "c"),
        (Estimate(1, 0, 2), "u"),
        (Estimate(-1, -3, 1), "u"),
        (Estimate(-1, -2, 0), "d"),
    ],
    criteria.none: [
        (0, "c"),
        (0.0, "c"),
        (-0.0, "c"),
        (False, "c"),
        (np.int64(0), "c"),
        (Estimate.exact(0), "c"),
        (1, "d"),
        (0.125, "d"),
        (1e-12, "d"),
        (True, "d"),
        (None, "d"),
        (Estimate(0.125, -0.2, 0.4), "d"),
    ],
    criteria.is_so: [
        (True, "c"),
        (np.True_, "c"),
        (1 == 1, "c"),
        (bool([0]), "c"),
        (not False, "c"),
        (np.all([True, True]), "c"),
        (False, "d"),
        (np.False_, "d"),
        (1 == 2, "d"),
        (bool([]), "d"),
        (not True, "d"),
        (np.all([True, False]), "d"),
    ],
    criteria.ordered("a", "b", "c", gap=2): [
        ([0, 2, 4], "c"),
        ([0, 5, 50], "c"),
        ({"a": 0, "b": 2, "c": 4}, "c"),
        ({"c": 4, "b": 2, "a": 0}, "c"),
        ([-9, -7, -5], "c"),
        ([0, 1, 4], "d"),
        ([0, 2, 3], "d"),
        ([4, 2, 0], "d"),
        ([0, 0, 0], "d"),
        ({"a": 4, "b": 2, "c": 0}, "d"),
        ([0, Estimate(3, 2.5, 3.5), 9], "c"),
        ([0, Estimate(3, 1.5, 4.5), 9], "u"),
    ],
    criteria.monotone(): [
        ([1, 2, 3], "c"),
        ([1, 2, 2, 3], "c"),
        ([1, 3, 2.99, 4], "c"),
        ([-3, -2, -1], "c"),
        (np.array([1.0, 9.0]), "c"),
        ([1, 1, 1], "d"),
        ([3, 2, 1], "d"),
        ([1, 5, 2], "d"),
        ([1, 3, 1], "d"),
        ([2, 1, 2], "d"),
        ([Estimate(1, 0.9, 1.1), Estimate(2, 1.9, 2.1)], "c"),
        ([Estimate(1, 0, 2), Estimate(2, 1, 3)], "u"),
    ],
    criteria.monotone(rising=False, slack=0.1): [
        ([3, 2, 1], "c"),
        ([3, 2, 2, 1], "c"),
        ([4, 2, 2.2, 1], "c"),
        ([-1, -2, -3], "c"),
        (np.array([9.0, 1.0]), "c"),
        ([1, 1, 1], "d"),
        ([1, 2, 3], "d"),
        ([4, 1, 2, 0], "d"),
        ([1, 3, 1], "d"),
        ([2, 1, 2], "d"),
        ([Estimate(2, 1.9, 2.1), Estimate(1, 0.9, 1.1)], "c"),
        ([Estimate(2, 1, 3), Estimate(1, 0, 2)], "u"),
    ],
    criteria.ratio_at_least(10): [
        ((10, 1), "c"),
        ((50, 2), "c"),
        ((1, 0.1), "c"),
        ((1e6, 1), "c"),
        ((9.9, 1), "d"),
        ((1, 1), "d"),
        ((1, 10), "d"),
        ((0, 1), "d"),
        ((-10, 1), "d"),
        ((Estimate(12, 11, 13), 1), "c"),
        ((Estimate(12, 9, 15), 1), "u"),
        ((Estimate(5, 4, 6), 1), "d"),
    ],
    criteria.every(criteria.at_most(1)): [
        ([1, 0, -1], "c"),
        ([1], "c"),
        ({"x": 1, "y": 0}, "c"),
        (np.array([0.5, 0.9]), "c"),
        ([Estimate(0.5, 0, 1), 1], "c"),
        ([1, 2, 1], "d"),
        ([2], "d"),
        ({"x": 1, "y": 2}, "d"),
        ([2, Estimate(0.9, 0.5, 1.5)], "d"),
        ([None], "d"),
        ([1, Estimate(0.9, 0.5, 1.5)], "u"),
        ([Estimate(1.1, 0.5, 1.5)], "u"),
    ],
    criteria.together(criteria.within(32, by=1), criteria.none): [
        ([32, 0], "c"),
        ([33, 0], "c"),
        ([31, 0], "c"),
        ([31.5, False], "c"),
        ([Estimate(32, 31, 33), 0], "c"),
        ([32, 1], "d"),
        ([34, 0], "d"),
        ([34, 1], "d"),
        ([30, 0], "d"),
        ([None, 0], "d"),
        ([Estimate(32, 30, 34), 0], "u"),
        ([Estimate(32, 30, 34), 1], "d"),
    ],
}
CASES = [(criterion, value, said) for criterion, cases in TABLE.items() for value, said in cases]


@pytest.mark.parametrize(("criterion", "value", "said"), CASES, ids=[f"{c.text}: {v}" for c, v, _ in CASES])
def test_criteria_judge(criterion, value, said):
    assert criterion.judge(value) == {"c": CONFIRMED, "d": DIFFERS, "u": UNDECIDED}[said]
    assert criterion.text


def test_every_kind_of_criterion_has_a_dozen_cases():
    kinds = {type(criterion) for criterion in TABLE}
    assert kinds == set(subclasses(criteria.Criterion))
    assert all(len(cases) == 12 for cases in TABLE.values())


def subclasses(cls: type) -> list[type]:
    return [sub for own in cls.__subclasses__() for sub in (own, *subclasses(own))]


def test_every_claim_says_what_is_stated_and_where():
    for _, one in CLAIMS:
        assert one.text.strip() and one.stated.strip() and one.where.strip() and one.quantity.strip()
        assert len(one.quote) < 250


def test_an_interval_across_the_criterion_is_undecided():
    bound = criteria.at_least(10)
    assert bound.judge(Estimate(11, 10.5, 11.5)) == CONFIRMED
    assert bound.judge(Estimate(11, 9, 13)) == UNDECIDED
    assert bound.judge(Estimate(9, 7, 11)) == UNDECIDED
    assert bound.judge(Estimate(9, 8, 9.9)) == DIFFERS
    near = criteria.within(12, 0.2)
    assert near.judge(Estimate(33.8, -81, 149)) == UNDECIDED, (
        "a wide interval confirms nothing and denies nothing"
    )
    assert near.judge(Estimate(12, 11, 13)) == CONFIRMED
    assert near.judge(Estimate(20, 15, 25)) == DIFFERS


def test_a_single_loss_in_eight_runs_is_a_loss():
    lost = Estimate.of([0, 0, 0, 0, 0, 0, 0, 1])
    assert lost.low < 0
    assert criteria.none.judge(lost) == DIFFERS


def test_a_curve_with_noise_below_the_line_width_still_rises():
    curve = [1.0, 2.0, 3.0, 2.97, 4.0]
    assert criteria.monotone().judge(curve) == CONFIRMED
    assert criteria.monotone(slack=0).judge(curve) == DIFFERS
    assert criteria.monotone().judge([1.0, 1.0, 1.0]) == DIFFERS, "a flat curve does not rise"
    noisy = [Estimate(1, 0.9, 1.1), Estimate(1.5, 1.4, 1.6), Estimate(1.45, 1.2, 1.7), Estimate(2, 1.9, 2.1)]
    assert criteria.monotone().judge(noisy) == UNDECIDED


def test_what_never_came_is_no_number_of_flows():
    assert criteria.within(60, by=5).judge(None) == DIFFERS
    assert criteria.at_least(60).judge(None) == CONFIRMED
    with pytest.raises(ValueError, match=r"claim c: .*nan"):
        claim(criteria.at_least(0)).judge({"x": math.nan})


def test_estimates():
    e = Estimate.of([1, 2, 3])
    assert (e.mean, round(e.high - e.mean, 3)) == (2, 2.484)
    assert Estimate.of([4]) == Estimate(4, 3.6, 4.4), "one run is never certain"
    assert Estimate.of([4, 4]) == Estimate.exact(4)
    assert Estimate.median([32, 31, 33, 32, math.inf]) == Estimate(32, 31, math.inf)
    eight = Estimate.median([1, 2, 3, 4, 5, 6, 7, 8])
    assert (eight.mean, eight.low, eight.high) == (4, 1, 8)
    twenty = Estimate.median(range(1, 21))
    assert (twenty.low, twenty.high) == (6, 15), "order statistics 6 and 15 of 20 hold 95 %"
    assert str(Estimate(4.5678, 4, 5)) == "4.57 (4.00 to 5.00)"


def test_intervals_widen_for_a_stricter_level():
    three = Estimate.of([1, 2, 3])
    assert three.at_level(0.05) == three
    assert round(three.at_level(0.01).high - 2, 2) == 5.73, "Student's t of two degrees of freedom"
    assert round(Estimate(0, -1.96, 1.96).at_level(0.01).high, 2) == 2.58, "the normal law without a number"
    assert Estimate.exact(3).at_level(0.01) == Estimate.exact(3)
    assert Estimate(math.inf, 30, math.inf).at_level(0.01) == Estimate(math.inf, 30, math.inf)


def test_no_interval_leaves_the_range_of_what_is_measured():
    """On the log scale for ratios, cut for counts and shares; what may be negative and ranks stay."""
    wide = Estimate(0.25, -0.73, 1.23, 2)
    ratio = effect("much").criterion("lower").fit(wide)
    assert (round(ratio.low, 4), round(ratio.high, 1)) == (0.005, 12.6)
    assert effect("much").criterion("lower").judge(wide) == UNDECIDED
    clear = Estimate(2.8, 0.43, 5.2, 4)
    assert effect("different").criterion("higher").judge(clear) == CONFIRMED, "e^-0.85 of 2.8 is above 1.05"
    share = effect("all").criterion().fit(Estimate(0.99, 0.97, 1.01, 4))
    assert (share.low, share.high) == (0.97, 1.0)
    assert criteria.at_least(95).on("percent").fit(Estimate(99, 97, 101)).high == 100
    assert (
        criteria.none.fit(Estimate(20, -4, 44)).low == 0 == criteria.at_most(60).fit(Estimate(20, -4, 44)).low
    )
    assert criteria.at_least(0).fit(Estimate(1, -1, 3)).low == -1, "a difference"
    assert criteria.at_least(2).on("linear").fit(Estimate(1, -1, 3)).low == -1
    onset = Estimate.median([3, 4, 4, 5])
    assert effect("stated").criterion(to=4).fit(onset) == onset
    assert effect("much").criterion("lower").fit(Estimate(-1, -2, 0)) == Estimate(-1, -2, 0)
    many = criteria.every(effect("much").criterion("lower")).fit({"a": wide})
    assert many["a"].low == ratio.low
    with pytest.raises(ValueError, match="scale = 'octaves': must be one of linear, log"):
        criteria.at_least(1).on("octaves")
    with pytest.raises(ValueError, match="is on a scale of its own"):
        criteria.none.on("log")


def test_intervals_widen_on_their_own_scale():
    ratio = Estimate(0.25, 0.2, 0.3, 3).on("log")
    wider = ratio.at_level(0.01)
    assert 0 < wider.low < ratio.low < ratio.high < wider.high
    assert math.log(wider.high / 0.25) == pytest.approx(-math.log(wider.low / 0.25))
    assert ratio.on("log") == ratio


def test_what_was_pinned_of_other_numbers_is_not_read(paper, tmp_path, monkeypatch):
    """Pins and searches say what judged them, and of which numbers; those that do not are stale."""
    one = row(claim(criteria.at_least(2)), measure=lambda lab: {"x": 3.0, "y": 1.0})
    monkeypatch.setattr(selection, "rows", lambda live=False: [one])
    monkeypatch.setattr(pinned, "rows", lambda live=False: [one])
    pinned._claims.cache_clear()
    assert inline("reproduce", "X-1", "--out", str(tmp_path), "--pin").returncode == 0
    path = selection.folder("incast") / pinned.FILE
    entry = json.loads(path.read_text())["quick"]["X-1/c"]
    assert (entry["judged_by"], entry["of"]) == ("at least 2", "x")
    assert "X-1/c" in pinned.load("incast")["quick"]
    for change in ({"of": "y"}, {"judged_by": "at least 1"}, {"of": None}):
        document = json.loads(path.read_text())
        document["quick"]["X-1/c"] |= change
        assert pinned.stale("incast", document) == {("quick", "X-1/c")}
    pinned._claims.cache_clear()


def test_many_claims_of_a_row_are_corrected_by_benjamini_and_hochberg():
    """One of twenty intervals that is above zero by a hair is no finding; twenty of them are."""
    hair = Estimate(1.05, 0.05, 2.05)
    bound = criteria.at_least(0)
    names = [f"x{i}" for i in range(20)]
    one = row(*(claim(bound, of=name, name=name) for name in names))
    alone = one.judge({name: hair if name == "x0" else Estimate(0.5, -0.5, 1.5) for name in names})
    assert {j.verdict for j in alone} == {UNDECIDED}
    assert alone[0].reason.startswith(claims.CORRECTED) and "1.05 (-" in alone[0].reason
    assert {j.verdict for j in one.judge(dict.fromkeys(names, hair))} == {CONFIRMED}
    mixed = one.judge({name: hair if name == "x0" else 1.0 for name in names})
    assert {j.verdict for j in mixed} == {CONFIRMED}, "exact numbers are no tests"


# ---- rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("cc", CONFIRMED),
        ("cd", IN_PART),
        ("dd", DIFFERS),
        ("cu", UNDECIDED),
        ("cdu", IN_PART),
        ("du", DIFFERS),
    ],
)
def test_a_rows_verdict_follows_from_its_claims(verdicts, expected):
    value = {"c": 1.0, "d": -1.0, "u": Estimate(0.5, -1, 2)}
    names = [f"{letter}{i}" for i, letter in enumerate(verdicts)]
    one = row(*(claim(criteria.at_least(0), of=name, name=name) for name in names))
    judged = one.judge({name: value[name[0]] for name in names})
    assert ledger.verdict_of(judged) == expected


def test_an_undecided_claim_is_measured_with_more_runs_up_to_its_budget(tmp_path):
    asked = []

    def measure(lab):
        runs = lab.replications(4, 2)
        asked.append(runs)
        return {"x": Estimate(0.5, 0.5 - 4 / runs, 0.5 + 4 / runs)}

    one = row(claim(criteria.at_least(0)), measure=measure, budget=8)
    verdict = ledger.judge(one, Lab(tmp_path, quick=False))
    assert (verdict.verdict, asked) == (CONFIRMED, [4, 8])
    asked.clear()
    hopeless = row(claim(criteria.at_least(0.5)), measure=lambda lab: measure(lab), budget=8)
    verdict = ledger.judge(hopeless, Lab(tmp_path, quick=False))
    assert (verdict.verdict, asked) == (UNDECIDED, [4, 8, 16, 32])
    asked.clear()
    ledger.judge(row(claim(criteria.at_least(0.5)), measure=lambda lab: measure(lab)), Lab(tmp_path))
    assert asked == [2], "a quick reproduction looks once"
    asked.clear()
    ledger.judge(hopeless, Lab(tmp_path, smallest=True))
    assert asked == [1]


def test_a_row_without_replications_is_measured_once(tmp_path):
    calls = []
    one = row(claim(criteria.at_least(0)), measure=lambda lab: calls.append(1) or {"x": Estimate(0, -1, 1)})
    assert ledger.judge(one, Lab(tmp_path, quick=False)).verdict == UNDECIDED
    assert len(calls) == 1


def test_a_cause_is_printed_only_where_its_experiment_supports_it():
    cause = Cause(
        "the buffer is too small",
        holds=lambda m: m["with twice the buffer"] > m["x"],
        evidence=lambda m: f"{m['with twice the buffer']:.0f} with twice as much",
        of=("c",),
    )
    one = row(claim(criteria.at_least(10)), claim(criteria.at_least(10), name="d"), causes=(cause,))
    first, second = one.judge({"x": 5.0, "with twice the buffer": 11.0})
    assert first.reason == "the buffer is too small (11 with twice as much)"
    assert first.excluded == ()
    assert second.reason == "unexplained", "the cause is said to explain the other claim"
    assert second.excluded == (), "nor was it tried for it"
    first, _ = one.judge({"x": 5.0, "with twice the buffer": 4.0})
    assert first.reason == "unexplained"
    assert first.excluded == (("the buffer is too small", "4 with twice as much"),)
    assert first.document()["excluded"] == [
        {"text": "the buffer is too small", "evidence": "4 with twice as much"}
    ]
    none = replace(cause, holds=lambda m: False)
    first, _ = replace(one, causes=(none,)).judge({"x": 5.0})
    assert (first.reason, first.excluded) == ("unexplained", ()), "what was not measured is not excluded"
    first, _ = one.judge({"x": 12.0, "with twice the buffer": 13.0})
    assert (first.verdict, first.reason) == (CONFIRMED, "")


def test_a_claim_shown_twice_counts_once(tmp_path):
    first = row(claim(criteria.at_least(0)))
    again = replace(
        row(ledger.repeated(first.claims[0], "X-1", "Fig 2"), claim(criteria.at_least(5), name="own")),
        id="X-2",
    )
    found, _ = ledger.reproduce([first, again], Lab(tmp_path))
    counted = outcomes.of_statements(judging.judged_in(found))
    assert counted == {("incast", "X-1/c"): outcomes.CHOSEN, ("incast", "X-2/own"): outcomes.FAILS}
    document = found[1].document()["claims"][0]
    assert document["same_as"] == "X-1/c" and document["where"] == "Fig 2"


@pytest.mark.parametrize(
    ("verdict", "basis", "share", "expected"),
    [
        (CONFIRMED, "simulation", 0.5, outcomes.ROBUST),
        (CONFIRMED, "simulation", 0.49, outcomes.CHOSEN),
        (CONFIRMED, "simulation", None, outcomes.CHOSEN),
        (CONFIRMED, "model", None, outcomes.ROBUST),
        (DIFFERS, "simulation", 0.9, outcomes.FAILS),
        (UNDECIDED, "simulation", 0.9, outcomes.UNDECIDED),
        (CONFIRMED, "identity", 1.0, outcomes.IDENTICAL),
        (CONFIRMED, "definition", None, outcomes.IDENTICAL),
        (DIFFERS, "definition", None, outcomes.FAILS),
        (ledger.NOT_RUN, "simulation", 1.0, ledger.NOT_RUN),
    ],
)
def test_an_outcome_says_how_far_a_claim_holds(monkeypatch, verdict, basis, share, expected):
    one = row(claim(criteria.at_least(0), basis=basis))
    monkeypatch.setattr(holding, "share", lambda row, claim: share)
    assert outcomes.outcome(one, one.claims[0], verdict) == expected


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (["robust", "robust"], "robust"),
        (["robust", "chosen"], "chosen"),
        (["robust", "undecided", "chosen"], "undecided"),
        (["undecided", "fails"], "fails"),
        (["identity", "robust"], "robust"),
        (["identity", "identity"], "identity"),
        (["robust", "not run"], "not run"),
    ],
)
def test_a_statement_holds_where_all_its_checks_do(checks, expected):
    assert outcomes.together(checks) == expected


def test_the_outcome_is_a_sentence_a_reader_understands():
    one = claim(criteria.at_most(5), quantity="the queue")
    assert outcomes.sentence(one, outcomes.FAILS, "7 packets", "Buffers are deep.") == (
        "The paper says: text of c. We find 7 packets, so it does not hold: the queue has to be at most 5, "
        "and buffers are deep."
    )


def test_a_repeated_claim_names_one_that_exists():
    known = {f"{r.id}/{c.id}": c for r, c in CLAIMS}
    for r, c in CLAIMS:
        if c.same_as:
            assert c.same_as in known, f"{r.id}/{c.id}"
            assert not known[c.same_as].same_as


def test_the_json_contract(tmp_path):
    found, _ = ledger.reproduce([row(claim(criteria.at_least(2), quote="at least two"))], Lab(tmp_path))
    (document,) = json.loads((tmp_path / "verdicts.json").read_text())
    assert {"id", "verdict", "stated", "measured", "reason", "seconds", "claims"} <= set(document)
    (one,) = document["claims"]
    assert {"text", "kind", "verdict", "stated", "measured", "holds_when"} <= set(one)
    assert (document["verdict"], one["verdict"], one["reason"]) == ("differs", "differs", "unexplained")
    assert json.loads((tmp_path / "measurements" / "X-1.json").read_text()) == {"x": 1.0}
    text = page.write(found, tmp_path / "r.html", quick=True, provenance={}).read_text()
    assert "at least two" in text and "Unexplained" in text


def test_a_measurement_survives_json():
    m = {
        "a": Estimate(1, 0, 2),
        "b": np.array([1.0, math.inf]),
        "c": [None, "x", True],
        "d": {"e": np.int64(3)},
    }
    assert ledger.from_plain(json.loads(json.dumps(ledger.plain(m)))) == {
        "a": Estimate(1, 0, 2),
        "b": [1.0, math.inf],
        "c": [None, "x", True],
        "d": {"e": 3},
    }
    with pytest.raises(TypeError, match="numbers and texts, not object"):
        ledger.plain({"x": object()})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: row(), "no claims"),
        (lambda: row(claim(criteria.none), claim(criteria.none)), "same id"),
        (lambda: row(claim(criteria.none), causes=(Cause("", bool, str, of=("other",)),)), "other"),
        (lambda: Claim("c", "t", "guess", "s", "x", criteria.none), "guess"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


# ---- the lab ----------------------------------------------------------------------------------------------


def blocks(run):
    return {"closed": run.tables["flows"].height}


def test_an_interrupted_reproduction_takes_its_runs_from_the_store(tmp_path):
    from penstock.store import Store

    def lab():
        return Lab(tmp_path, jobs=2, store=Store(tmp_path / "store"))

    first = lab()
    ran = first.runs("incast", SHORT, runs=2)
    with_tables = first.sweep([("incast", SHORT)], runs=2, keep=["flows"], derive=blocks)[0]
    assert (first.ran, first.from_store) == (4, 0)
    again = lab()
    assert again.runs("incast", SHORT, runs=2).summaries == ran.summaries
    found = again.sweep([("incast", SHORT)], runs=2, keep=["flows"], derive=blocks)[0]
    assert found.summaries == with_tables.summaries
    assert found.mean("closed") == 4
    assert (again.ran, again.from_store) == (0, 4)
    again.runs("incast", SHORT, runs=3)
    assert again.ran == 1, "of an extended reproduction only what is new runs"


def test_the_seed_of_the_lab_is_that_of_its_runs(tmp_path):
    one, two = (Lab(tmp_path, seed=seed).runs("incast", SHORT) for seed in (1, 2))
    assert (one.seed, two.seed) == (1, 2)
    assert one.summaries != two.summaries


def test_an_executor_does_the_runs(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        lab = Lab(tmp_path, executor=pool)
        assert lab.sweep([("incast", SHORT)], runs=2, keep=["flows"], derive=blocks)[0].mean("closed") == 4


# ---- the search -------------------------------------------------------------------------------------------

CHOICES = """
[a]
gain = { value = 0.5, origin = "open", range = "0..1", range_origin = "all of it" }
rule = { value = "x", origin = "open", range = ["x", "y"], range_origin = "both readings" }
time = { value = "1ms", origin = "open", range = "100us..10ms:log", range_origin = "a decade either way" }
flows = { value = 3, origin = "open", range = "2..10", range_origin = "few" }
link = { value = "1Gbps", origin = "stated" }
"""


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """A paper of its own, in a folder of its own."""
    folder = tmp_path / "paper"
    folder.mkdir()
    (folder / "choices.toml").write_text(CHOICES)
    monkeypatch.setattr(holding, "folder", lambda key: folder)
    monkeypatch.setattr(pinned, "folder", lambda key: folder)
    monkeypatch.setattr(selection, "folder", lambda key: folder)
    holding.space.cache_clear()
    yield folder
    holding.space.cache_clear()


CALLS = []


def probe(lab, settings):
    CALLS.append(settings)
    if settings["a.flows"] == 10:
        raise ValueError("too many")
    return {"gain": settings["a.gain"], "sure": 1.0}


def searched(**more) -> Row:
    return row(
        claim(criteria.at_least(0.7), of="gain", name="high"),
        claim(criteria.at_least(0), of="sure", name="sure"),
        claim(criteria.at_least(7), of="gain", name="never"),
        claim(criteria.at_least(7), of="not probed", name="other"),
        measure=lambda lab: {"gain": 0.5, "sure": 1.0, "not probed": 1.0},
        matters=("a.gain", "a.rule", "a.flows"),
        probe=probe,
        **more,
    )


def test_a_space_is_read_and_sampled(paper):
    space = Space.load(paper / "choices.toml")
    assert list(space.parameters) == ["a.gain", "a.rule", "a.time", "a.flows"]
    shares = space.sample(["a.gain", "a.time"], 64, 1)
    assert sorted((shares * 64).astype(int)[:, 1]) == list(range(64)), "one point in each of 64 slices"
    assert (space.sample(["a.time"], 64, 1)[:, 0] == shares[:, 1]).all(), "point i is the same for every row"
    settings = space.settings(["a.time", "a.flows", "a.rule"], np.array([[0.5, 1.0, 0.9]]))
    more = space.sample(["a.gain", "a.time"], 128, 1)
    assert (more[:64] == shares).all() and not (more[64:] == shares).any(), "a larger sample goes on"
    assert sorted((more[64:] * 64).astype(int)[:, 0]) == list(range(64))
    assert settings == [{"a.time": "1000us", "a.flows": 10, "a.rule": "y"}]
    with pytest.raises(ValueError, match=r"a\.link has no range"):
        space.sample(["a.link"], 4, 1), space.settings(["a.link"], np.zeros((1, 1)))
    (paper / "choices.toml").write_text('[a]\nx = { value = 1, range = "0..1" }')
    with pytest.raises(ValueError, match=r"a\.x has a range without its range_origin"):
        Space.load(paper / "choices.toml")
    (paper / "choices.toml").write_text('[a]\nx = { value = 1, origin = "open: 1 or 2" }')
    with pytest.raises(ValueError, match=r"a\.x is open and has neither a range nor no_range"):
        Space.load(paper / "choices.toml")
    (paper / "choices.toml").write_text('[a]\nx = { value = 1, origin = "open", no_range = "a unit" }')
    assert not Space.load(paper / "choices.toml").parameters


def test_a_search_finds_where_claims_hold_and_is_not_made_twice(paper, tmp_path):
    CALLS.clear()
    one, lab = searched(), Lab(tmp_path, jobs=2)
    entry = search.search(one, lab, points=64)
    # The points are the chosen one, 64 and, because some have no result, 64 more. 16 are near the best for
    # the claim that holds nowhere, 16 between points that disagree on the first, and 6 have one parameter
    # changed.
    assert len(CALLS) == 167 and entry["points"] == 128
    assert set(entry["claims"]) == {"high", "sure", "never"}
    assert entry["unprobed"] == ["other"], "the probe has no number for it"
    high = entry["claims"]["high"]
    lost = high["at"].count("x")
    told = 128 - lost
    assert 0.2 < high["at"].count("c") / told < 0.4 and 0 < lost < 64
    assert high["rule"].startswith("a.gain >= 0.7") and high["precision"] > 0.8
    words = [
        holding.words(one, name, {"rows": {"X-1": entry}}) for name in ("high", "sure", "never", "other")
    ]
    assert words[0].startswith("holds when a.gain >= 0.7") and f"{told} points of a.gain" in words[0]
    near = high["near"].replace("x", "")
    assert f"it holds at {near.count('c')} of {len(near)} more between points that disagree" in words[0]
    gains = [point[0] for point in entry["near"]]
    assert len(gains) == 16 and np.mean(np.abs(np.array(gains) - 0.7)) < 0.1, "at the boundary"
    assert "between points" not in words[1] + words[2], "they have none"
    assert words[1].startswith(f"robust: stays confirmed in 100% of {told} points of")
    nowhere = f"nowhere in {told} points of a.gain, a.rule, a.flows ({lost} more have no result)"
    alone = "none of 6 changes of one parameter alone makes it hold"
    assert words[2] == f"{nowhere} and 16 more where it is nearest; {alone}"
    assert words[3] == ""
    assert high["singly"] == ["a.gain: 1 instead of 0.5"] and "singly" not in entry["claims"]["sure"]
    assert search.search(one, lab, points=64) == entry
    assert len(CALLS) == 167, "every probe was kept"


def test_points_are_placed_between_neighbours_that_disagree():
    shares = np.array([[0.1, 0.2], [0.3, 0.8], [0.5, 0.8], [0.8, 0.2]])
    lists = np.array([False, True])
    one = search.between(shares, shares, lists, ["cddd"], 16)
    assert one.tolist() == [[0.2, 0.2]], (
        "halfway in the range to the nearest; of the list the entry of either"
    )
    both = search.between(shares, shares, lists, ["cudc", "ddcc"], 16)
    assert both.tolist() == [[0.65, 0.8], [0.4, 0.8], [0.3, 0.2], [0.45, 0.2]], "claims in turn"
    reversed_ = search.between(shares, shares, lists, ["cudc", "ducd"], 16)
    assert len(reversed_) == 2, "each pair once, whichever of both confirms"
    assert len(search.between(shares, shares, lists, ["cudc", "ddcc"], 2)) == 2
    assert search.between(shares, shares, lists, ["cccc", "uxdd"], 16).size == 0


def test_what_the_search_does_not_bear_out_is_said(paper, tmp_path):
    one = searched()
    found = {"rows": {"X-1": search.search(one, Lab(tmp_path, jobs=2), points=64)}}
    said = holding.words(one, "sure", found, verdict="differs")
    assert said.startswith(
        "the search's shorter runs do not bear this out: at the chosen values it holds there"
    )
    assert holding.words(one, "high", found, verdict="differs").startswith("holds when a.gain >= 0.7")
    said = holding.words(one, "sure", found, verdict="undecided")
    assert said.startswith("in the search it holds at the chosen values, and it holds in 100% of ")
    plain = json.loads(json.dumps(found))
    plain["rows"]["X-1"]["claims"]["high"]["rule"] = ""
    assert holding.words(one, "high", plain).startswith("holds by no simple rule: ")
    # What the search left undecided speaks neither for robust nor for selected.
    entry = found["rows"]["X-1"]
    entry["claims"]["sure"]["at"] = "c" * 10 + "u" * 54
    assert holding.words(one, "sure", found).startswith("open: stays confirmed in 16% of 64 points")
    assert "undecided in 84%" in holding.words(one, "sure", found)
    entry["claims"]["never"] |= {"chosen": "differs", "at": "d" * 10 + "u" * 54, "rule": ""}
    assert holding.words(one, "never", found).startswith("open: confirmed at none of 64 points")
    entry["claims"]["sure"]["at"] = "x" * 64
    assert holding.words(one, "sure", found) == "no result at any of 64 points of a.gain, a.rule, a.flows"


def test_a_claim_that_repeats_another_has_its_search(paper, tmp_path):
    one = searched()
    found = {"rows": {"X-1": search.search(one, Lab(tmp_path, jobs=2), points=64)}}
    again = replace(one, id="X-2", claims=(ledger.repeated(one.claims[0], "X-1", "Fig 2"),))
    assert holding.words(again, "high", found) == holding.words(one, "high", found) != ""
    assert search.searchable([one, again]) == [one]


def test_what_another_criterion_judged_in_a_search_is_not_read(paper, tmp_path, monkeypatch):
    one = searched()
    entry = search.search(one, Lab(tmp_path, jobs=2), points=64)
    search.write(search.merged({}, {"X-1": entry}), paper / "holds.json")
    high, *others = one.claims
    now = replace(one, claims=(replace(high, criterion=criteria.at_least(0.9)), *others))
    again = replace(now, id="X-2", claims=(ledger.repeated(now.claims[0], "X-1", "Fig 2"),))
    gone = replace(one, claims=tuple(others))
    assert holding.share(one, "high") and holding.map_of(one, "high") and holding.one_choice(one, "high")
    for row in (now, again, gone):
        assert (holding.words(row, "high"), holding.share(row, "high")) == ("", None)
        assert holding.map_of(row, "high") is None and holding.one_choice(row, "high") == ""
    assert holding.words(now, "sure") == holding.words(one, "sure") != ""
    for row, many in ((one, 2), (now, 1), (gone, 1)):
        monkeypatch.setattr(selection, "rows", lambda live=False, row=row: [row])
        assert f"all {many} claims that hold" in holding.joint(one.paper), "nor counted"


def test_a_killed_search_goes_on_where_it_was(paper, tmp_path, monkeypatch):
    CALLS.clear()

    def stop(done):
        if done > 0.3:
            raise KeyboardInterrupt

    one, lab = searched(), Lab(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        search.search(one, lab, points=64, on_progress=stop)
    assert 15 < len(CALLS) < 64, "it stopped on the way, however fast the threads are"
    search.search(one, lab, points=64)
    keys = [json.dumps(settings, sort_keys=True) for settings in CALLS]
    assert len(set(keys)) == len(keys) == 167


def test_committed_searches_are_shown_and_stale_ones_named(paper, tmp_path, monkeypatch):
    one, lab = searched(), Lab(tmp_path)
    monkeypatch.setattr(selection, "rows", lambda live=False: [one])
    done = inline("reproduce", "X-1", "--search", "--pin", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "holds when a.gain >= 0.7" in done.stdout
    kept = json.loads((paper / "holds.json").read_text())
    assert kept["rows"]["X-1"]["claims"]["high"]["judged_by"] == one.claims[0].criterion.text
    said = holding.joint(one.paper)
    assert said.startswith("all 2 claims that hold somewhere hold together at ")
    assert float(re.search(r"a\.gain = ([\d.]+)", said)[1]) >= 0.7
    verdict = ledger.judge(one, lab)
    assert verdict.claims[0].holds_when.startswith("holds when a.gain >= 0.7")
    assert verdict.claims[0].because == ((holding.ONE_CHOICE, "a.gain: 1 instead of 0.5"),)
    assert [one.reason for one in verdict.claims[2:3]] == [ledger.UNEXPLAINED]
    drawn = {claim.id: holding.map_of(one, claim.id) for claim in one.claims}
    assert [name for name, found in drawn.items() if found] == ["high"], (
        "points without a result are no place where it fails"
    )
    assert drawn["high"].first == "a.gain" and drawn["high"].letters.count("c") > 0
    assert drawn["high"].x_ticks == ("0", "0.25", "0.5", "0.75", "1")
    assert [
        holding._short(text) for text in ("0.0316228", "1.54319us", "4161.79us", "1/0.5/0.25", "bytes")
    ] == [
        "0.0316",
        "1.54us",
        "4162us",
        "1/0.5/0.25",
        "bytes",
    ]
    (paper / "choices.toml").write_text(CHOICES.replace('"0..1"', '"0..2"'))
    holding.space.cache_clear()
    verdict = ledger.judge(one, lab)
    assert verdict.claims[0].holds_when.startswith("stale, the ranges have changed since: holds when")
    assert verdict.claims[0].reason == ledger.UNEXPLAINED, "a stale search is the reason of nothing"
    assert verdict.figures == ()


def test_a_box_describes_what_two_bounds_cut_out():
    x = np.random.default_rng(1).random((256, 4))
    box = describe(x, (x[:, 1] > 0.6) & (x[:, 3] < 0.5))
    assert box.precision > 0.85 and box.coverage > 0.85
    assert (box.low[[0, 2, 3]] == 0).all() and (box.high[:3] == 1).all()
    assert box.low[1] == pytest.approx(0.6, abs=0.1) and box.high[3] == pytest.approx(0.5, abs=0.1)


def test_ends_of_a_rule_are_written_as_one_reads_them(tmp_path):
    (tmp_path / "choices.toml").write_text(
        '[a]\nlate = { value = "5s", origin = "open", range = "1000ms..9000ms", range_origin = "a guess" }\n'
        'wide = { value = 2e7, origin = "open", range = "1e7..4e9:log", range_origin = "a guess" }\n'
    )
    space = Space.load(tmp_path / "choices.toml")
    assert space["a.late"].words(0, 0.5) == "a.late <= 5000ms"
    assert space["a.wide"].words(0.5, 1) == "a.wide >= 2e+08"


def test_every_range_of_the_ledger_can_be_read():
    for paper in ledger.PAPERS:
        space = Space.load(ledger.folder(paper) / "choices.toml")
        for r in ROWS:
            if r.paper == paper and r.matters:
                assert r.probe is not None, r.id
                space.settings(list(r.matters), space.sample(list(r.matters), 4, 1))


# ---- pinned -----------------------------------------------------------------------------------------------


def test_pinned_verdicts_are_compared(paper, tmp_path, monkeypatch):
    values = {"x": Estimate(3, 2.5, 3.5), "y": 4.0}
    one = row(
        claim(criteria.at_least(2)),
        claim(criteria.at_least(2), of="y", name="d"),
        measure=lambda lab: dict(values),
    )
    monkeypatch.setattr(selection, "rows", lambda live=False: [one])
    call = ["reproduce", "X-1", "--out", str(tmp_path)]
    assert "0 moved, 2 claims are not pinned" in inline(*call, "--check").stderr
    assert inline(*call, "--pin").returncode == 0
    assert "0 moved, 0 claims are not pinned" in inline(*call, "--check").stderr
    values["x"] = Estimate(3.4, 3, 3.8)
    assert inline(*call, "--check").returncode == 0, "still within the pinned interval"
    values["x"], values["y"] = Estimate(3.6, 3, 4.2), 4.1
    done = inline(*call, "--check")
    assert done.returncode == 3
    assert "X-1/c: was 3 (2.5 to 3.5), is 3.6" in done.stderr and "X-1/d: was 4.0, is 4.1" in done.stderr
    values["y"] = 1.0
    assert "X-1/d: was confirmed, is differs" in inline(*call, "--check").stderr


def test_a_quick_verdict_that_full_length_contradicts_is_none(paper, tmp_path):
    one = row(
        claim(criteria.at_least(2)),
        claim(criteria.at_least(2), of="y", name="d"),
        measure=lambda lab: {"x": 1.0 if lab.quick else 3.0, "y": 1.0},
    )
    assert ledger.judge(one, Lab(tmp_path)).verdict == DIFFERS, "nothing is pinned at full length yet"
    pinned.write([ledger.judge(one, Lab(tmp_path, quick=False))], "full")
    quick = ledger.judge(one, Lab(tmp_path)).claims
    assert [found.verdict for found in quick] == [UNDECIDED, DIFFERS]
    assert quick[0].reason == "at full length it is confirmed: the quick length cannot tell"


def test_the_page_has_the_verdicts_of_the_full_length(paper, tmp_path):
    """Where they are pinned, with their reasons; what the quick runs said stays beside them."""
    quick, full = (
        {"x": Estimate(2, 1, 3), "y": 3.0, "z": 3.0},
        {"x": Estimate(1, 0.8, 1.2), "y": 1.0, "z": 3.0},
    )
    one = row(
        *(claim(criteria.at_least(2), of=key, name=key, unit="ms") for key in "xyz"),
        measure=lambda lab: dict(quick if lab.quick else full),
        causes=(Cause("it is slow", lambda m: m["x"].mean < 3, lambda m: f"{m['x'].mean:g} ms"),),
    )
    ran = ledger.judge(one, Lab(tmp_path))
    assert pinned.settled(ran) == ran, "nothing is pinned yet"
    pinned.write([ledger.judge(one, Lab(tmp_path, quick=False))], "full")
    x, y, z = pinned.settled(ran).claims
    assert [judged.verdict for judged in (x, y, z)] == [DIFFERS, DIFFERS, CONFIRMED]
    assert (x.measured, x.because) == ("1.00 (0.800 to 1.20) ms", (("it is slow", "1 ms"),))
    assert x.quick is ran.claims[0] and x.quick.verdict == UNDECIDED
    assert z.because == z.excluded == () and pinned.settled(ran).verdict == IN_PART
    # Older pins have no words: then the causes are asked that these runs support, and say whose numbers.
    file = paper / pinned.FILE
    document = json.loads(file.read_text())
    for name in "xy":
        assert document["full"][f"X-1/{name}"].pop("reasons") == [["it is slow", "1 ms"]]
        del document["full"][f"X-1/{name}"]["measured"]
    file.write_text(json.dumps(document))
    x, y, _ = pinned.settled(ran).claims
    assert x.because == y.because == (("it is slow", f"2 ms; {pinned.OF_QUICK}"),)
    assert x.measured == "1.00 (0.800 to 1.20) ms"
    fast = dict(quick, x=Estimate(3.5, 1, 6))
    moved = ledger.judge(replace(one, measure=lambda lab: fast), Lab(tmp_path))
    assert pinned.settled(moved).claims[0].because == ((pinned.SHOWN_THEN, ""),)
    document["full"]["X-1/x"]["because"] = "unexplained"
    file.write_text(json.dumps(document))
    assert pinned.settled(ran).claims[0].reason == "unexplained", "whatever a quick run bears out"
    document["seeds"]["full"]["X-1/z"] = {"1": CONFIRMED, "2": DIFFERS, "3": CONFIRMED}
    file.write_text(json.dumps(document))
    z = pinned.settled(ran).claims[2]
    assert (z.verdict, z.quick.verdict) == (UNDECIDED, CONFIRMED)
    assert z.reason == "it depends on the seed: confirmed with 1 and 3, differs with 2"
    document["full"]["X-1/y"] |= {"verdict": UNDECIDED}
    file.write_text(json.dumps(document))
    assert (
        pinned.settled(ran).claims[1].reason.endswith("with up to 8 times the first number of replications")
    )


def test_a_claim_on_which_seeds_do_not_agree_is_undecided(paper, tmp_path, monkeypatch):
    # With seed 2 the first claim fails; the second always does.
    one = row(
        claim(criteria.at_least(2)),
        claim(criteria.at_least(2), of="y", name="d"),
        measure=lambda lab: {"x": 1.0 if lab.seed == 2 else 3.0, "y": float(lab.seed) / 10},
    )
    monkeypatch.setattr(selection, "rows", lambda live=False: [one])
    call = ["reproduce", "X-1", "--out", str(tmp_path)]
    for seed in "321":
        assert inline(*call, "--pin", "--seed", seed).returncode == 0
    assert pinned.by_seed("incast", "quick") == {
        "X-1/c": {"1": CONFIRMED, "2": DIFFERS, "3": CONFIRMED},
        "X-1/d": dict.fromkeys("123", DIFFERS),
    }
    found = ledger.judge(one, Lab(tmp_path)).claims
    assert [judged.verdict for judged in found] == [UNDECIDED, DIFFERS]
    assert found[0].reason == "it depends on the seed: confirmed with 1 and 3, differs with 2"
    known = pinned.load("incast")["quick"]
    assert [known[name]["verdict"] for name in ("X-1/c", "X-1/d")] == [UNDECIDED, DIFFERS]
    assert known["X-1/d"]["value"] == 0.1, "the numbers are those of seed 1"
    # Those of another seed are others and not compared; its verdicts are.
    assert inline(*call, "--check").returncode == inline(*call, "--check", "--seed", "2").returncode == 0
    done = inline(*call, "--check", "--seed", "20")
    assert done.returncode == 3 and "X-1/d: was differs, is confirmed" in done.stderr
    assert not pinned.dissent("incast", "full", "X-1/c"), "another length has seeds of its own"


CHEAP = [r for r in ROWS if r.cheap]


@pytest.fixture(scope="module")
def quick_lab(tmp_path_factory):
    """One lab for all cheap rows: what figures have in common is run once."""
    return Lab(tmp_path_factory.mktemp("cheap"), jobs=2)


def test_one_loss_with_any_seed_is_a_loss(paper, tmp_path, monkeypatch):
    one = row(claim(criteria.none), measure=lambda lab: {"x": Estimate.of([0, 0, 3.0 * (lab.seed == 3)])})
    monkeypatch.setattr(selection, "rows", lambda live=False: [one])
    monkeypatch.setattr(pinned, "rows", lambda live=False: [one])
    pinned._claims.cache_clear()
    call = ["reproduce", "X-1", "--out", str(tmp_path)]
    for seed in "321":
        assert inline(*call, "--pin", "--seed", seed).returncode == 0
    found = ledger.judge(one, Lab(tmp_path)).claims[0]
    assert found.verdict == DIFFERS and "confirmed with 1 and 2, differs with 3" in found.reason
    entry = pinned.load("incast")["quick"]["X-1/c"]
    assert (entry["verdict"], entry["seeds"]) == (DIFFERS, "confirmed with 1 and 2, differs with 3")
    pinned._claims.cache_clear()


def test_there_are_some_twenty_cheap_rows_of_every_paper():
    assert 18 <= len(CHEAP) <= 34
    assert {r.paper for r in CHEAP} == set(ledger.PAPERS)


@pytest.mark.parametrize("cheap", CHEAP, ids=[r.id for r in CHEAP])
def test_cheap_rows_have_the_pinned_verdicts(cheap, quick_lab):
    verdict = ledger.judge(cheap, quick_lab)
    assert verdict.verdict != ledger.NOT_RUN, verdict.reason
    vacuous = [one.claim.id for one in verdict.claims if one.verdict == one.opposed == CONFIRMED]
    assert not vacuous, "they hold whatever is measured"
    moved, missing = pinned.compare([verdict], "quick")
    assert not moved
    assert not missing, "pin them: penstock reproduce ID --quick --pin"


def test_warnings_that_differ_in_numbers_are_told_once():
    def point(*per_run):
        runs = [Run(i, {}, {}, {}, {}, warnings=tuple(texts)) for i, texts in enumerate(per_run)]
        return RunSet("incast", 1, tuple(runs))

    told, _ = judging._told(
        [
            point(["a queue at s0 (3 packets)", "all"], ["all"]),
            point(["all"], ["a queue at s1 (1 packet)", "all"]),
            point(["all", "2 of 9 left, 3.5 ms"], ["all", "4 of 9 left, 7 us"]),
        ]
    )
    assert told == (
        "2 of 3 points, for example: run 0: a queue at s0 (3 packets)",
        "all",
        "1 of 3 points: 2 of 9 left, 3.5 ms",
    )
    assert judging._told([point(["b"]), point([])])[0] == ("1 of 2 points: b",)
