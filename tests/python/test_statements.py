"""Claims as data: claims.toml is read, wrong entries are named in a line, templates and effect sizes."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from penstock_papers import ledger
from penstock_papers.ledger import (
    CONFIRMED,
    DIFFERS,
    Estimate,
    criteria,
    effects,
    opposing,
    selection,
    statements,
    words,
)

ROOT = Path(__file__).parents[2]
PACKAGE = "penstock_papers.experiments.cbc"
GOOD = """
[[statement]]
id = "equalises"
quote = "TCP pretty much equalizes the bandwidth"
where = "section 4.2"
[[statement.check]]
id = "X-1/equal"
says = "plain TCP equalises"
stated = "equal"
kind = "ratio"
quantity = "DB1 over DB2"
value = ["plain", "ratio"]
criterion = { effect = "nearly-equal" }
basis = "simulation"
reading = "nearly"
shown = "{plain/ratio:.2f} with TCP"
shown_in = [{ row = "X-2", where = "Fig 8" }]
opposing = { swap = ["plain", "cbc"] }
"""


def parsed(text: str) -> statements.Document:
    return statements.parse(tomllib.loads(text), PACKAGE)


def test_a_check_is_read_judged_and_told():
    document = parsed(GOOD)
    assert [one.id for one in document.statements] == ["equalises"]
    [claim] = document.rows["X-1"]
    judged = claim.judge({"plain": {"ratio": 1.05}})
    assert (judged.verdict, judged.measured) == (CONFIRMED, "1.05 with TCP")
    assert (claim.statement, claim.quote) == ("equalises", "TCP pretty much equalizes the bandwidth")
    [again] = document.rows["X-2"]
    assert (again.same_as, again.where) == ("X-1/equal", "Fig 8")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "ratio"', 'kind = "rate"', "check 'X-1/equal': kind = 'rate': must be one of number,"),
        ('basis = "simulation"', 'basis = "luck"', "basis = 'luck': must be one of simulation, model,"),
        ('"nearly-equal"', '"nearly"', "effect = 'nearly': must be one of different,"),
        ('{ effect = "nearly-equal" }', "{ atleast = 1 }", "criterion = .*needs one of at_least,"),
        ('{ effect = "nearly-equal" }', "{ at_least = 1, by = 2 }", "at_least takes other keys"),
        ('{ effect = "nearly-equal" }', '{ effect = "much" }', "must be lower or higher"),
        ('value = ["plain", "ratio"]', "", "value, measure: give one of the two"),
        ('says = "plain TCP equalises"', "", "says: is missing"),
        ('id = "X-1/equal"', 'id = "equal"', "must be ROW/CLAIM"),
        ('reading = "nearly"', 'why = "nearly"', "why: is no key of it; there are basis,"),
        ('swap = ["plain", "cbc"]', "other = 1", "opposing: give one of swap,"),
        ('basis = "simulation"', 'basis = "simulation"\nunopposed = "x"', "opposing, unopposed: give one"),
        ("{plain/ratio:.2f}", "{plain/ratio", "check 'X-1/equal': expected '}'"),
        ('where = "section 4.2"', "", "statement 'equalises': where: is missing"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(old, new, said):
    assert old in GOOD
    with pytest.raises(ValueError, match=said) as problem:
        parsed(GOOD.replace(old, new))
    assert "\n" not in str(problem.value)


def test_two_checks_of_one_name_are_named():
    with pytest.raises(ValueError, match="check 'X-1/equal': id: there are two of it"):
        parsed(GOOD + GOOD.replace('"equalises"', '"again"'))


def test_a_function_that_does_not_exist_is_named():
    named = statements.Named(PACKAGE, "eta_rows.nothing")
    with pytest.raises(ValueError, match=r"penstock_papers.experiments.cbc has no such function"):
        named({})


def test_every_function_that_claims_name_exists():
    named = [
        what
        for row in ledger.rows()
        for claim in row.claims
        for what in (claim.of, claim.say)
        if isinstance(what, statements.Named)
    ]
    assert len(named) > 50
    assert all(callable(what.function()) for what in named)


def test_every_check_belongs_to_a_row_that_exists_and_counts_once():
    rows = {row.id for row in ledger.rows()}
    for paper in selection.PAPERS:
        document = selection.statements_of(paper)
        assert set(document.rows) <= rows, paper
        checks = [check for one in document.statements for check in one.checks]
        own = [f"{r}/{c.id}" for r, claims in document.rows.items() for c in claims if not c.same_as]
        assert sorted(checks) == sorted(own)


MEASURED = {
    "at N=10": [Estimate(2.0, 1.0, 3.0), 4],
    "RED/ECN": {"a": 1.0, "b": 3.0},
    "senders": [2, 4],
    "bps": 2e6,
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{at N=10/0}", "2.00 (1.00 to 3.00)"),
        ("{at N=10/0/high:.1f}", "3.0"),
        ("{bps*1e-6:.1f} Mb/s", "2.0 Mb/s"),
        ("{RED/ECN/b:.0f}", "3"),
        ("{RED/ECN|named:.0f}", "a 1, b 3"),
        ("{RED/ECN|at:.0%}", "100% at a, 300% at b"),
        ("{RED/ECN|range:.0f}", "1 to 3"),
        ("{RED/ECN|each:.0f}", "1, 3"),
        ("{senders|count}", "2"),
        ("{at N=10|over senders}", "2 at 2, 4 at 4"),
    ],
)
def test_templates_put_numbers_into_words(template, expected):
    assert words.told(template, MEASURED) == expected


def test_a_template_names_a_path_that_is_not_there():
    with pytest.raises(KeyError, match="the measurement has nothing at bps/x"):
        words.told("{bps/x}", MEASURED)


# ---- effect sizes -----------------------------------------------------------------------------------------


def test_every_word_has_a_reason_and_no_two_words_are_the_same():
    found = effects.effects()
    said = [word for one in found.values() for word in (one.word, *one.also)]
    assert len(said) == len(set(said))
    assert all(one.because.endswith(".") for one in found.values())


@pytest.mark.parametrize(
    ("what", "good", "bad"),
    [
        ({"effect": "much", "way": "lower"}, 0.6, 0.7),
        ({"effect": "much", "way": "higher"}, 1.6, 1.4),
        ({"effect": "slightly", "way": "lower"}, 0.9, 0.7),
        ({"effect": "slightly", "way": "lower"}, 0.9, 1.0),
        ({"effect": "nearly-equal"}, 1.08, 1.2),
        ({"effect": "similar", "to": 2}, 2.2, 2.4),
        ({"effect": "few"}, 0.05, 0.2),
        ({"effect": "almost-all"}, 0.95, 0.8),
        ({"effect": "none"}, 0, 1),
    ],
)
def test_words_of_size_flip_where_the_table_says(what, good, bad):
    criterion = statements.criterion_of(what)
    assert criterion.judge(good) == CONFIRMED
    assert criterion.judge(bad) == DIFFERS
    assert what["effect"] in criterion.text


def test_stronger_words_ask_for_more():
    factors = [
        effects.effect(word).factor
        for word in ("different", "smoother", "significantly", "much", "drastically", "several-times")
    ]
    assert factors == sorted(factors)
    likeness = [effects.effect(w).within for w in ("equal", "unaffected", "nearly-equal", "similar")]
    assert likeness == sorted(likeness)
    assert effects.effect("comparable").within <= effects.effect("significantly").factor
    assert math.isnan(effects.effect("much").within)


def test_a_criterion_of_data_is_the_one_of_the_functions():
    assert statements.criterion_of({"within": 32, "rel": 0.1}) == criteria.within(32, 0.1)
    assert statements.criterion_of({"ordered": ["a", "b"], "gap": 2}) == criteria.ordered("a", "b", gap=2)
    assert statements.criterion_of({"falls": 0.1}) == criteria.monotone(rising=False, slack=0.1)
    each = statements.criterion_of({"every": {"between": [1, 2]}})
    assert each == criteria.every(criteria.between(1, 2))
    assert statements.criterion_of({"together": [{"is_so": True}, {"none": "drops"}]}).text == (
        "is so; drops in any run"
    )


# ---- could it have failed ---------------------------------------------------------------------------------


def test_every_claim_that_can_have_one_names_a_measurement_under_which_it_must_not_hold():
    claims = [(row, one) for row in ledger.rows() for one in row.claims if not one.same_as]
    bare = [
        f"{row.id}/{one.id}"
        for row, one in claims
        if one.basis in ("simulation", "model")
        and one.opposing is None
        and not one.unopposed
        and not opposing.needless(one.criterion)
    ]
    assert not bare, "name an opposing measurement, or say in `unopposed` why there is none"
    assert sum(bool(one.unopposed) for _, one in claims) <= 0.06 * len(claims)


def test_the_page_on_claims_says_how_many_are_opposed():
    claims = [one for row in ledger.rows() for one in row.claims if not one.same_as]
    opposed = sum(one.opposing is not None for one in claims)
    unopposed = sum(bool(one.unopposed) for one in claims)
    stated = sum(
        one.opposing is None and not one.unopposed and one.basis in ("simulation", "model") for one in claims
    )
    rest = len(claims) - opposed - unopposed - stated
    page = " ".join((ROOT / "docs/papers/index.md").read_text(encoding="utf-8").split())
    assert f"{opposed} of {len(claims)} claims name an opposing measurement" in page
    assert f"{stated} claims ask for a stated number or range" in page
    assert f"{unopposed} say why no run can oppose them, and {rest} are identities" in page


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        (criteria.within(32, 0.1), True),
        (criteria.between(2, 3), True),
        (criteria.at_most(1e-9), True),
        (criteria.every(criteria.within(1, 0.1)), True),
        (criteria.together(criteria.within(1, 0.1), criteria.at_least(2)), False),
        (criteria.at_most(0.5), False),
        (criteria.at_least(0.5), False),
        (criteria.none, False),
        (criteria.monotone(), False),
        (criteria.is_so, False),
    ],
)
def test_a_stated_number_or_range_is_opposed_by_every_other_number(criterion, expected):
    assert opposing.needless(criterion) is expected


@pytest.mark.parametrize("paper", selection.PAPERS)
def test_every_claim_is_a_sentence_that_stands_alone(paper):
    begins = re.compile(r"(and|so|but|it|its|they|which|these|her|by|that of)\b")
    found = {check["id"]: check["says"] for check, _ in entries(paper) if begins.match(check["says"])}
    assert not found


@pytest.mark.parametrize("paper", selection.PAPERS)
def test_no_quantity_is_named_after_where_it_lies_in_the_measurement(paper):
    def letters(text: str) -> str:
        return " ".join(re.findall(r"[a-z0-9.]+", text.lower()))

    for check, _ in entries(paper):
        path = [check["value"]] if isinstance(check.get("value"), str) else check.get("value", ["", ""])
        if len(letters(check["quantity"])) < 25:
            assert letters(check["quantity"]) != letters(" ".join(map(str, path))), check["id"]


@pytest.mark.parametrize("paper", selection.PAPERS)
def test_a_check_is_of_the_section_of_its_statement(paper):
    section = re.compile(r"section [\w.-]+")
    for check, one in entries(paper):
        own, whole = (section.match(text) for text in (check.get("where", one["where"]), one["where"]))
        assert (own and own[0]) == (whole and whole[0]), check["id"]


@pytest.mark.parametrize("paper", selection.PAPERS)
def test_no_quote_hides_what_it_leaves_out(paper):
    begins = re.compile(r"(which|and|or|so|than|but also|otherwise|followed by)\b")
    for _, one in entries(paper):
        quote = one.get("quote", "")
        assert "..." not in quote.replace("[...]", ""), f"{one['id']}: mark what is left out by [...]"
        assert not begins.match(quote), f"{one['id']}: the sentence begins before the quote does"


def entries(paper: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every check of a paper's claims.toml with its statement, as data."""
    read = tomllib.loads((selection.folder(paper) / statements.FILE).read_text(encoding="utf-8"))
    return [(check, one) for one in read["statement"] for check in one.get("check", ())]


@pytest.mark.parametrize("paper", selection.PAPERS)
def test_no_claim_is_opposed_by_what_its_paper_states_as_well(paper):
    stated = [
        (check["id"], check["id"].split("/")[0], check["value"], check["criterion"])
        for check, _ in entries(paper)
        if "value" in check
    ]
    for check, _ in entries(paper):
        other = check.get("opposing", {}).get("value")
        row = check["id"].split("/")[0]
        same = [
            name
            for name, of, value, asked in stated
            if (of, value, asked) == (row, other, check["criterion"])
        ]
        assert not same, f"{check['id']} is opposed by the numbers of {same}, which must hold too"


@pytest.mark.parametrize("paper", selection.PAPERS)
def test_no_sentence_counts_as_two_statements(paper):
    read = tomllib.loads((selection.folder(paper) / statements.FILE).read_text(encoding="utf-8"))
    # Formulas and rows of tables are alike without being the same.
    quoted = [(words_of(one["quote"]), one) for one in read["statement"] if "=" not in one.get("quote", "=")]
    for i, (text, one) in enumerate(quoted):
        for again, other in quoted[i + 1 :]:
            if (
                one["where"].split(",")[0] == other["where"].split(",")[0]
                and min(text.count(" "), again.count(" ")) > 3
            ):
                assert f" {text} " not in f" {again} " and f" {again} " not in f" {text} ", (
                    one["id"],
                    other["id"],
                )


def words_of(quote: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", quote.lower()))


@pytest.mark.parametrize(
    ("criterion", "value", "expected"),
    [
        (criteria.at_least(0), Estimate(1, 0.5, 2), Estimate(-1, -2, -0.5)),
        (criteria.at_least(2), 4.0, Estimate.exact(0.25)),
        (criteria.at_most(0.5), 0.0, Estimate.exact(math.inf)),
        (criteria.between(0.4, 0.6), 0.5, Estimate.exact(2)),
        (criteria.at_least(1), 1.0, Estimate.exact(-1)),
        (criteria.at_most(0.8), Estimate(0.5, -0.1, 0.7), Estimate(2, 1 / 0.7, math.inf)),
        (criteria.monotone(), [1, 2, 3], [3, 2, 1]),
        (criteria.ordered("a", "b"), {"a": 1, "b": 2}, [2, 1]),
        (criteria.ratio_at_least(3), (6, 1), [1, 6]),
        (criteria.every(criteria.at_most(0.5)), {"x": 0.25}, [Estimate.exact(4)]),
    ],
)
def test_what_is_compared_changes_places(criterion, value, expected):
    assert criterion.judge(value) == CONFIRMED
    found = opposing.turned(value, criterion)
    assert found == expected
    assert criterion.judge(found) == DIFFERS


def test_the_rest_of_a_whole_opposes_a_share():
    share = criteria.every(criteria.at_least(0.9))
    found = opposing.rest({"a": Estimate(0.95, 0.92, 1.0), "b": 1.0})
    assert found == {"a": Estimate(1 - 0.95, 0.0, 1 - 0.92), "b": Estimate.exact(0)}
    assert share.judge(found) == DIFFERS


def test_two_controllers_change_places_all_over_a_measurement():
    measured = {"plain": {"drops": 5}, "cbc": {"drops": 0}, "deep": {"plain": 1, "cbc": 2}, "x": 3}
    assert opposing.swapped(measured, "plain", "cbc") == {
        "plain": {"drops": 0},
        "cbc": {"drops": 5},
        "deep": {"plain": 2, "cbc": 1},
        "x": 3,
    }


def test_the_verdict_on_the_opposing_measurement_stands_beside_the_claims():
    [claim] = parsed(GOOD).rows["X-1"]
    judged = claim.judge({"plain": {"ratio": 1.05}, "cbc": {"ratio": 2.0}})
    assert (judged.verdict, judged.opposed) == (CONFIRMED, DIFFERS)


# ---- causes -----------------------------------------------------------------------------------------------

CAUSE = """
[[cause]]
of = ["X-1/equal"]
text = "the buffer is deep"
holds = "{cbc/drops} < 0.5 * {plain/drops} and abs({plain/ratio/low} - 1) < 0.2"
evidence = "{cbc/drops:.0f} drops"
"""


def test_a_cause_of_data_holds_by_its_condition_and_tells_its_evidence():
    [cause] = parsed(GOOD + CAUSE).causes["X-1"]
    measured = {"plain": {"drops": 10, "ratio": Estimate(1.3, 1.1, 1.5)}, "cbc": {"drops": 4}}
    assert cause.holds(measured) and cause.of == ("equal",)
    assert cause.evidence(measured) == "4 drops"
    assert not cause.holds({**measured, "cbc": {"drops": 6}})
    assert not cause.holds({**measured, "plain": {"drops": 10, "ratio": Estimate.exact(1.3)}})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("X-1/equal", "X-1/other", "of: 'X-1/other' is no claim of this paper"),
        ("{cbc/drops} <", "print({cbc/drops}) <", "may have comparisons,"),
        ("{cbc/drops} <", "{cbc/drops}.mean <", "may have comparisons,"),
        ("{cbc/drops} <", "{cbc/drops} < <", "is no comparison of numbers"),
        ('evidence = "{cbc/drops:.0f} drops"', "", "evidence: is missing"),
    ],
)
def test_a_wrong_cause_is_named_in_one_line(old, new, said):
    assert old in CAUSE
    with pytest.raises(ValueError, match=said) as problem:
        parsed(GOOD + CAUSE.replace(old, new))
    assert "\n" not in str(problem.value)
