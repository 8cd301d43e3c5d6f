"""The tables of docs/papers/verdicts.md: made from what is pinned, and never by hand."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from penstock_papers import ledger
from penstock_papers.ledger import judging, outcomes, page, pinned, search

TOOL = Path(__file__).resolve().parents[2] / "tools" / "verdicts.py"
spec = importlib.util.spec_from_file_location("verdicts", TOOL)
verdicts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verdicts)

# What may be said of a claim that differs: where it holds, that it does nowhere, or that the search's shorter
# runs judge otherwise, with the share of the space where it holds. Neither "open" nor nothing at all.
SAID = ("holds when", "holds by no", "holds in none", "nowhere", "the search's shorter runs")


def test_the_tables_say_what_is_pinned():
    text = verdicts.VERDICTS.read_text(encoding="utf-8")
    assert text == verdicts.renewed(text, verdicts.table()), "renew it: tools/verdicts.py write"


def test_the_page_is_compared_with_what_is_pinned(tmp_path):
    """By the counts of its first screen: those of a page that was just made are the pinned ones."""
    rows = [row for row in ledger.rows() if row.paper == "reps"]
    known = pinned.load("reps")["quick"]
    found = []
    for row in rows:
        judged = []
        for claim in row.claims:
            said = known[f"{row.id}/{claim.id}"]["verdict"]
            outcome = outcomes.outcome(row, claim, said)
            judged.append(ledger.claims.Judged(claim, said, "", outcome=outcome))
        found.append(
            judging.Verdict(row, ledger.claims.verdict_of(judged), "", "", 0.0, claims=tuple(judged))
        )
    text = page.write(found, tmp_path / "r.html", quick=True, provenance={}).read_text()
    assert verdicts.counted_on(text) == {"reps": dict(verdicts.count("reps")[1])}
    assert "reps" not in verdicts.behind(text)
    number = re.search(r"</svg> (\d+)", text)
    other = text[: number.start(1)] + str(int(number[1]) + 1) + text[number.end(1) :]
    assert "reps" in verdicts.behind(other)


def test_a_claim_counts_once_and_at_its_full_length(monkeypatch):
    row = next(row for row in ledger.rows() if row.id == "D-7")
    once = ledger.repeated(row.claims[2], "D-7", "again")
    one, two = (f"D-7/{claim.id}" for claim in row.claims[2:4])
    known = {
        "quick": {one: {"verdict": "differs"}, two: {"verdict": "undecided"}},
        "full": {one: {"verdict": "confirmed"}},
    }
    shown = ledger.Row("D-8", "again", row.paper, claims=(once,), measure=row.measure)
    monkeypatch.setattr(ledger, "rows", lambda: [row, shown])
    monkeypatch.setattr(pinned, "load", lambda paper: known)
    rows, counted, lengths = verdicts.count("dt-dctcp")
    assert rows == 2
    assert counted == {"robust": 1, "undecided": 1, "not pinned": len(row.claims) - 2}
    assert (lengths["full"], lengths["quick"]) == (1, 1)


def test_claims_that_differ_count_by_what_was_found_elsewhere(monkeypatch):
    one = next(row for row in ledger.rows() if row.id == "D-9")
    names = [f"D-9/{claim.id}" for claim in one.claims]
    known = {"quick": {name: {"verdict": "differs"} for name in names}}
    said = ["holds when a >= 1", "nowhere in 64 points of a", ""]
    monkeypatch.setattr(ledger, "rows", lambda: [one])
    monkeypatch.setattr(
        pinned, "load", lambda paper: {**known, "full": {names[-1]: {"verdict": "confirmed"}}}
    )
    texts = dict(zip([claim.id for claim in one.claims], said, strict=False))
    monkeypatch.setattr(verdicts.holding, "words", lambda row, claim, verdict: texts[claim])
    kinds = list(verdicts.ELSEWHERE)
    assert verdicts.elsewhere(("dt-dctcp",)) == {kinds[0]: 1, kinds[1]: 1, verdicts.UNSEARCHED: 1}


def test_claims_that_fail_at_full_length_were_searched_and_every_search_is_a_whole_one():
    """With the parameters that were searched and at least 64 points that have a result; never of ranges that
    are not the present ones. A claim that was judged in quick runs alone need not have been searched, nor one
    that repeats another: it is told by that one. Rows without a probe cannot be searched.
    """
    number = re.compile(r"(\d+) points of ([\w.]+)")
    lacking, searched = [], 0
    for paper in ledger.PAPERS:
        known = pinned.load(paper)
        for row in (row for row in ledger.rows() if row.paper == paper):
            for claim in (claim for claim in row.claims if not claim.same_as):
                name = f"{row.id}/{claim.id}"
                said = {
                    length: known.get(length, {}).get(name, {}).get("verdict") for length in pinned.LENGTHS
                }
                if ledger.DIFFERS not in said.values():
                    continue
                words = verdicts.holding.words(row, claim.id, verdict=ledger.DIFFERS)
                if not words and (said["full"] != ledger.DIFFERS or row.probe is None):
                    continue
                searched += 1
                points = number.search(words)
                whole = points is not None and int(points[1]) >= search.LEAST_POINTS
                if not whole or not any(words.startswith(begins) for begins in SAID):
                    lacking.append(f"{name}: {words[:80]}")
    assert not lacking, f"penstock reproduce ROW --search --pin: {lacking}"
    assert searched


def test_claims_that_differ_count_by_their_reason(monkeypatch):
    one = next(row for row in ledger.rows() if row.id == "D-9")
    a, b, c, *_ = (f"D-9/{claim.id}" for claim in one.claims)
    known = {
        "quick": {
            a: {"verdict": "differs", "because": "a cause"},
            b: {"verdict": "differs", "because": "one choice"},
            c: {"verdict": "confirmed"},
        },
        "full": {b: {"verdict": "differs", "because": "unexplained"}, c: {"verdict": "differs"}},
    }
    monkeypatch.setattr(ledger, "rows", lambda: [one])
    monkeypatch.setattr(pinned, "load", lambda paper: known)
    found = verdicts.explained("dt-dctcp")
    assert found == {"a cause": 1, "unexplained": 1, verdicts.UNPINNED: 1}, "the full length counts"


def test_the_page_on_the_ledger_says_what_is_known_of_claims_that_differ():
    text = verdicts.VERDICTS.read_text(encoding="utf-8")
    new = verdicts.renewed(text, verdicts.differences(), verdicts.DIFFERING)
    assert text == new, "renew it: tools/verdicts.py write"


def test_a_page_without_a_place_for_them_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no place"):
        verdicts.renewed("# penstock\n", "table")
    assert verdicts.renewed(f"a\n{verdicts.BEGIN}old\n{verdicts.END}b\n", "new\n") == "a\nnew\nb\n"


def test_every_pinned_claim_exists():
    names = {f"{row.id}/{claim.id}" for row in ledger.rows() for claim in row.claims}
    for paper in ledger.PAPERS:
        known = json.loads(json.dumps(pinned.load(paper)))
        assert {name for length in known.values() for name in length} <= names
        assert all(pinned.by_seed(paper, length).keys() <= names for length in pinned.LENGTHS)


def test_the_share_of_claims_on_which_seeds_agree(monkeypatch):
    row = next(row for row in ledger.rows() if row.id == "D-7")
    once = ledger.repeated(row.claims[0], "D-7", "again")
    shown = ledger.Row("D-8", "again", row.paper, claims=(once,), measure=row.measure)
    a, b, c, *_ = (f"D-7/{claim.id}" for claim in row.claims)
    said = {
        a: dict.fromkeys("123", "differs"),
        b: {"1": "confirmed", "2": "confirmed", "3": "undecided"},
        c: dict.fromkeys("12", "confirmed"),
        "D-8/" + once.id: dict.fromkeys("123", "differs"),
    }
    monkeypatch.setattr(ledger, "rows", lambda: [row, shown])
    monkeypatch.setattr(pinned, "by_seed", lambda paper, length: said if length == "full" else {})
    assert verdicts.agreement("dt-dctcp", "full") == (0, 2, 1), "no row whole; two claims, one the same"
    assert verdicts.agreement("dt-dctcp", "quick") == (0, 0, 0)


def test_the_page_on_the_ledger_says_how_seeds_agree():
    text = verdicts.VERDICTS.read_text(encoding="utf-8")
    assert text == verdicts.renewed(text, verdicts.seeded(), verdicts.SEEDS_AGREE), (
        "renew it: tools/verdicts.py write"
    )
