"""The ledger's live rows: when they take part, how they show, and what happens where they cannot run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import inline, measuring
from conftest import row as simple

from penstock import live
from penstock.runs import Run, RunSet
from penstock_papers import ledger
from penstock_papers.ledger import (
    Claim,
    Lab,
    Measurement,
    NotRun,
    Row,
    Verdict,
    at_least,
    outcomes,
    page,
    within,
)

MISSING = ledger.lacks()
IDS = ["D-14-live", "D-15-live", "P-16-live", "P-17-live", "P-18-live", "P-19-live"]


def row(measure: Any) -> Row:
    return simple("X-1-live", measure, view="live, scaled")


def impossible() -> list[dict[str, Any]]:
    return [
        {
            "what": "TUN devices",
            "required": True,
            "found": False,
            "detail": "No such file",
            "remedy": "modprobe tun",
        }
    ]


def possible() -> list[dict[str, Any]]:
    return [{"what": "TUN devices", "required": True, "found": True, "detail": "", "remedy": ""}]


# ---- selection --------------------------------------------------------------------------------------------


def test_without_live_the_ledger_is_what_it_was():
    assert not any(r.view for r in ledger.rows())
    assert [r.id for r in ledger.select()] == [r.id for r in ledger.rows()]
    assert not any(r.view for r in ledger.select(papers=["dt-dctcp", "piqi-rcp"]))
    assert [r.id for r in ledger.select(["D-14"])] == ["D-14"]


def test_live_rows_are_chosen_by_live_or_by_their_own_id():
    assert [r.id for r in ledger.select(live=True) if r.view] == IDS
    assert [r.id for r in ledger.select(papers=["dt-dctcp"], live=True) if r.view] == IDS[:2]
    assert [r.id for r in ledger.select(["P-18"], live=True)] == ["P-18", "P-18-live"]
    assert [r.id for r in ledger.select(["P-18-live"])] == ["P-18-live"]
    everything = ledger.select(live=True)
    assert len(everything) == len(ledger.rows()) + len(IDS)
    assert len({r.id for r in everything}) == len(everything)


def test_a_live_row_judges_the_statement_of_the_row_it_belongs_to():
    rows = {r.id: r for r in ledger.rows(live=True)}
    for name in IDS:
        simulated = rows[name.removesuffix(ledger.LIVE)]
        assert (rows[name].stated, rows[name].paper) == (simulated.stated, simulated.paper)


def test_the_list_names_live_rows_when_asked():
    assert "-live" not in inline("reproduce", "--list").stdout
    of_one = inline("reproduce", "--list", "--paper", "hpcc").stdout
    assert "HPCC-9" in of_one and "I-1.5" not in of_one
    assert all(name in inline("reproduce", "--list", "--live").stdout for name in IDS)


# ---- display ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("confirmed", "word", "outcome"),
    [(True, "confirmed", outcomes.CHOSEN), (False, "differs", outcomes.FAILS)],
)
def test_the_view_shows_with_the_verdict(tmp_path, monkeypatch, confirmed, word, outcome):
    monkeypatch.setattr(live, "doctor", possible)
    verdict = ledger.judge(row(measuring(1 if confirmed else 2)), Lab(tmp_path))
    assert verdict.shown == f"{word} (live, scaled)"
    document = verdict.document()
    assert (document["verdict"], document["view"]) == (word, "live, scaled")
    text = page.write([verdict], tmp_path / "report.html", quick=True, provenance={}).read_text()
    held = int(confirmed)
    assert f'<span class="badge {outcome}">{held} of 1 hold (live, scaled)</span>' in text
    assert f"<b>1</b> {outcomes.WORDS[outcome]}</span>" in text, "the counts at the top are those of the rows"


def test_a_row_of_the_simulation_has_no_view():
    verdict = Verdict(simple("X", measuring(1)), "confirmed", "1", "", 0.0)
    assert verdict.shown == "confirmed"
    assert sorted(verdict.document()) == [
        "claims",
        "id",
        "measured",
        "points",
        "reason",
        "runs",
        "seconds",
        "stated",
        "verdict",
    ]


# ---- where it is impossible -------------------------------------------------------------------------------


def test_where_live_runs_are_impossible_a_row_is_not_run_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "doctor", impossible)
    done = inline("reproduce", "P-18-live", "--out", str(tmp_path), "--json")
    assert done.returncode == 3
    (document,) = json.loads(done.stdout)
    assert (document["verdict"], document["view"]) == ("not run", "live, scaled")
    reason = "live runs are not possible here: TUN devices: No such file (modprobe tun)"
    assert document["reason"] == reason
    assert f"error: P-18-live: {reason}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("failed-*"))
    assert "not run</span>" in (tmp_path / "report.html").read_text()


def test_rows_of_the_simulation_do_not_ask_for_a_live_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "doctor", impossible)
    assert ledger.judge(simple("X-1", measuring(1)), Lab(tmp_path)).verdict == "confirmed"


# ---- the gate ---------------------------------------------------------------------------------------------


def runs(valid: int) -> RunSet:
    notes = () if valid else ("99 % of packets were up to 900 us late",)
    return RunSet("join", 1, (Run(0, {}, {"valid": valid}, {}, {}, notes=notes),))


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_late_run_is_made_again(tmp_path, monkeypatch, late):
    answers = [runs(0)] * late + [runs(1)]
    monkeypatch.setattr(live, "run", lambda *args, **kwargs: answers.pop(0))
    lab = Lab(tmp_path)
    assert lab.live(("join", {"flows": 2})).mean("valid") == 1
    assert not answers
    # What was run once is remembered: there is no answer left for another run.
    assert lab.live(("join", {"flows": 2})).mean("valid") == 1


def test_a_row_whose_runs_stay_late_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "doctor", possible)
    made = []
    monkeypatch.setattr(live, "run", lambda *args, **kwargs: made.append(1) or runs(0))

    def check(lab: Lab) -> Measurement:
        lab.live(("join", {"flows": 2}))
        raise AssertionError("a late run was taken for a result")

    verdict = ledger.judge(row(check), Lab(tmp_path))
    assert (verdict.verdict, verdict.shown, len(made)) == ("not run", "not run", 3)
    assert "join: 3 runs did not pass the gate" in verdict.reason
    assert "99 % of packets were up to 900 us late" in verdict.reason
    with pytest.raises(NotRun):
        Lab(tmp_path).live(("join", {"flows": 2}))


# ---- a real one -------------------------------------------------------------------------------------------


@pytest.mark.skipif(bool(MISSING), reason=f"skipped: {MISSING}")
def test_a_short_live_row_with_router_headers(tmp_path: Path) -> None:
    """RCP's routers and senders on kernel sockets: one flow reaches the link's rate as in the simulation."""
    point = ("staggered", {"flows": 1, "capacity": "50Mbps", "rtt": "20ms", "delay": "5ms"})
    point[1].update({"duration": "3s", "warmup": "2s", "sample": "100ms", "series": "true"})
    point[1].update({"protocol": "rcp:alpha=0.4", "access_rate": "1Gbps"})

    def measure(lab: Lab) -> Measurement:
        kernel, (packet,) = lab.live(point), lab.beside([point])
        return {
            "ratio": kernel.mean("goodput_bps") / packet.mean("goodput_bps"),
            "used": kernel.mean("utilisation"),
        }

    claims = (
        Claim(
            "same", "the goodput is the simulation's", "equal", "same", "ratio", within(1, 0.05), where="-"
        ),
        Claim("used", "the link is used", "bound", "used", "used", at_least(0.8), where="-"),
    )
    short = Row("X-1-live", "Something", "incast", claims=claims, measure=measure, view="live, scaled")
    verdict = ledger.judge(short, Lab(tmp_path))
    if verdict.verdict == "not run" and "gate" in verdict.reason:
        pytest.skip(f"skipped: the machine is too busy: {verdict.reason}")
    assert verdict.shown == "confirmed (live, scaled)", (verdict.measured, verdict.reason)
