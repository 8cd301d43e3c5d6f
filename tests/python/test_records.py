"""The tool that fills the ledger's records: what lacks, in what order, and what is stopped goes on later."""

import contextlib
import importlib.util
import json
import sys
import time
from pathlib import Path

import pytest
from conftest import measuring, row

from penstock.sweeps import Interrupted
from penstock_papers import ledger
from penstock_papers.ledger import pinned

TOOL = Path(__file__).resolve().parents[2] / "tools" / "records.py"
spec = importlib.util.spec_from_file_location("records", TOOL)
records = importlib.util.module_from_spec(spec)
sys.modules["records"] = records  # dataclasses look it up
spec.loader.exec_module(records)


@pytest.fixture
def pins(monkeypatch):
    """What is pinned, made up: seconds by length and row, and verdicts by length, claim and seed."""
    known = {"seconds": {"quick": {}, "full": {}}, "seeds": {"quick": {}, "full": {}}}

    def of(what):
        return lambda paper, length: known[what][length] if paper == "incast" else {}

    monkeypatch.setattr(pinned, "seconds", of("seconds"))
    monkeypatch.setattr(pinned, "by_seed", of("seeds"))
    return known


def test_nothing_but_all_is_a_hundred_per_cent():
    told = [ledger.percent(share) for share in (0, 1 / 300, 0.496, 226 / 227, 1)]
    assert told == ["0%", "<1%", "50%", ">99%", "100%"]


def test_rows_go_together_where_they_share_runs(pins):
    shared = measuring(1)
    rows = [row("A", shared), row("B", shared), row("C", measuring(1)), row("D", measuring(1))]
    pins["seconds"]["quick"] = {"A": 2.0, "B": 0.0, "C": 0.0, "D": 0.2}
    assert [[r.id for r in group] for group in records.groups(rows)] == [["A", "B", "C"], ["D"]]
    pins["seconds"]["quick"] = {"A": 0.0, "B": 0.0, "C": 0.0, "D": 0.0}
    assert [[r.id for r in group] for group in records.groups(rows)] == [["A", "B"], ["C"], ["D"]]


def test_what_lacks_comes_cheapest_claim_first(pins):
    rows = [row(name, measuring(1)) for name in "ABCD"]
    # Full length is 30 / 3 = 10 times as long as quick. D has its three seeds.
    pins["seconds"] = {"quick": {"A": 3.0, "B": 2.0, "C": 1.0, "D": 3.0}, "full": {"D": 30.0}}
    pins["seeds"]["full"] = {"A/x": {"1": "differs"}, "D/x": dict.fromkeys("123", "confirmed")}
    pins["seeds"]["quick"] = {"C/x": {"1": "undecided"}}
    found = records.lacking_seeds(rows, {})
    # C is undecided, and its budget of 8 times the replications is expected to be spent.
    told = [(work.name, work.seeds, work.claims, work.seconds) for work in found]
    assert told == [
        ("A", (2, 3), 1, pytest.approx(2 * 30)),
        ("B", (1, 2, 3), 1, pytest.approx(3 * 20)),
        ("C", (1, 2, 3), 1, pytest.approx(3 * 80)),
    ]
    # A's second seed was stopped after 200 s; one seed of C took 5 s.
    spent = {"A seed 2": {"seconds": 200.0, "whole": 0.0}, "C seed 1": {"seconds": 5.0, "whole": 1.0}}
    told = [(work.name, work.seconds) for work in records.lacking_seeds(rows, spent)]
    assert told == [
        ("C", pytest.approx(15)),
        ("B", pytest.approx(60)),
        ("A", pytest.approx(400 + 30)),
    ]


def test_processor_time_and_time_stop_what_runs():
    for row_s, until, word in ((0.05, 60.0, "processor time"), (60.0, 0.05, "time")):
        with (
            pytest.raises(records.Stopped, match=f"^{word}$"),
            records.limited(row_s, time.monotonic() + until),
        ):
            end = time.monotonic() + 20
            while time.monotonic() < end:
                pass
    # Neither alarm outlives its block.
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass


def test_a_stop_that_was_lost_is_said_again(monkeypatch):
    monkeypatch.setattr(records, "REPEAT_S", 0.05)
    end = time.monotonic() + 20
    for row_s, in_s in ((0.05, 60.0), (60.0, 0.05)):
        with pytest.raises(records.Stopped), records.limited(row_s, time.monotonic() + in_s):
            with contextlib.suppress(records.Stopped):  # as a callback whose exceptions are dropped
                while time.monotonic() < end:
                    pass
            while time.monotonic() < end:
                pass


def test_rows_are_pinned_one_by_one_and_a_stopped_one_costs_no_other(monkeypatch, tmp_path, capsys):
    def endless(lab):
        try:
            while True:
                pass
        except KeyboardInterrupt:
            raise Interrupted([]) from None  # as a lab does that was making runs

    def broken(lab):
        raise ZeroDivisionError("no packets")

    rows = [row("A", measuring(1)), row("B", endless), row("C", measuring(2)), row("D", broken)]
    monkeypatch.setattr(pinned, "folder", lambda paper: tmp_path / paper)
    assert records.fill("seeds", rows, tmp_path / "out", minutes=10, row_minutes=0.1 / 60) == 1
    document = json.loads((tmp_path / "incast" / "pinned.json").read_text())
    assert document["seeds"]["full"] == {
        "A/x": dict.fromkeys("123", "confirmed"),
        "C/x": dict.fromkeys("123", "differs"),
    }
    assert document["full"]["A/x"] == {
        "verdict": "confirmed",
        "value": 1,
        "judged_by": "1 give or take 0.5",
        "of": "x",
        "measured": "1.00",
    }
    spent = records.Spent(tmp_path / "out").read()
    assert {name: entry["whole"] for name, entry in spent.items() if name[0] in "AB"} == {
        **{f"A seed {seed}": 1.0 for seed in (1, 2, 3)},
        **{f"B seed {seed}": 0.0 for seed in (1, 2, 3)},
    }
    said = capsys.readouterr()
    assert said.out.count("stopped, its processor time is over") == 3
    assert said.err.count("no packets") == 3
    assert [work.name for work in records.lacking_seeds(rows, spent)] == ["D", "B"]


def test_two_at_one_place_do_not_do_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(pinned, "folder", lambda paper: tmp_path / paper)
    with records.locked(tmp_path / "out" / "A-seed-1.lock") as mine:
        assert mine
        assert records.fill("seeds", [row("A", measuring(1))], tmp_path / "out", 1, 1) == 0
    document = json.loads((tmp_path / "incast" / "pinned.json").read_text())
    assert document["seeds"]["full"] == {"A/x": dict.fromkeys("23", "confirmed")}


def test_a_search_is_expected_to_take_what_the_row_takes_whose_runs_it_has(monkeypatch, pins):
    shared = measuring(1)
    more = {"probe": lambda lab, settings: {}, "matters": ("a.b",)}
    rows = [row("A", shared), row("B", shared, **more), row("C", measuring(1), **more)]
    pins["seconds"]["quick"] = {"A": 4.0, "B": 0.0, "C": 2.0}
    known = {"quick": {f"{name}/x": {"verdict": "confirmed"} for name in "ABC"}}
    monkeypatch.setattr(pinned, "load", lambda paper: known)
    monkeypatch.setattr(records.holding, "document", lambda paper: {"rows": {}})
    found = records.lacking_searches(rows, {})
    assert [(work.name, work.seconds) for work in found] == [
        ("C", pytest.approx(110)),
        ("B", pytest.approx(220)),
    ]


def test_searches_lack_where_a_decided_claim_has_none(monkeypatch, pins):
    def searched(name, **more):
        return row(name, measuring(1), probe=lambda lab, settings: {}, matters=("a.b",), **more)

    rows = [searched(name) for name in "ABCD"] + [row("E", measuring(1))]
    pins["seconds"]["quick"] = {"A": 4.0, "B": 2.0, "C": 1.0, "D": 1.0}
    said = {"A": "confirmed", "B": "differs", "C": "undecided", "D": "confirmed", "E": "confirmed"}
    known = {"quick": {f"{name}/x": {"verdict": verdict} for name, verdict in said.items()}}
    monkeypatch.setattr(pinned, "load", lambda paper: known)
    stale, entry = {"D": False}, {"claims": {"x": records.holding.judged_by(rows[3].claims[0])}}
    monkeypatch.setattr(records.holding, "document", lambda paper: {"rows": {"D": entry}})
    monkeypatch.setattr(records.holding, "stale", lambda row, entry: stale[row.id])
    # 110 points of half a quick row; C is undecided, D is searched, E cannot be.
    told = [(work.name, work.seeds, work.claims, work.seconds) for work in records.lacking_searches(rows, {})]
    assert told == [("B", (), 1, pytest.approx(110)), ("A", (), 1, pytest.approx(220))]
    del entry["claims"]["x"]
    assert [work.name for work in records.lacking_searches(rows, {})] == ["D", "B", "A"]
    entry["unprobed"] = ["x"]
    assert [work.name for work in records.lacking_searches(rows, {})] == ["B", "A"]
    assert [work.name for work in records.lacking_searches(rows, {}, named=True)] == ["D", "B", "A"]
    stale["D"] = True
    assert [work.name for work in records.lacking_searches(rows, {})] == ["D", "B", "A"]
    known["full"] = {"B/x": {"verdict": "undecided"}}
    assert [work.name for work in records.lacking_searches(rows, {})] == ["D", "A"], "full length counts"


def test_what_a_search_finds_is_written_beside_the_rows(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(records.selection, "folder", lambda paper: tmp_path / paper)
    entry = {"claims": {}, "seed": 1, "points": 64, "names": [], "ranges": "", "engine": "0"}
    monkeypatch.setattr(records.search, "search", lambda row, lab: entry)
    work = records.Work((row("A", measuring(1)),), (), 1, 1.0)
    records.fill_search(work, tmp_path / "out")
    assert json.loads((tmp_path / "incast" / "holds.json").read_text())["rows"] == {"A": entry}


def test_the_plan_names_rows_and_what_lacks(pins):
    work = records.Work(tuple(row(name, measuring(1)) for name in ("A", "B")), (2, 3), 5, 61.4)
    assert work.words == "A to B             seeds 2, 3       5 claims, some 61 s"
    assert (
        records.Work(work.rows[:1], (), 1, 9.0).words
        == "A                  search           1 claims, some 9 s"
    )
