"""The ledger: verdicts, what happens when a check fails, what is remembered."""

import json

import pytest
from conftest import SHORT, inline, measuring, row

from penstock import ScenarioError
from penstock_papers import ledger
from penstock_papers.ledger import Cause, Lab, Row


def test_a_row_needs_claims():
    with pytest.raises(ValueError, match="row A: has no claims"):
        Row("A", "t", "incast", claims=(), measure=measuring(1))


def test_verdicts_follow_the_measurements(tmp_path):
    rows = [
        row("A", measuring(1)),
        row("B", measuring(2), causes=(Cause("because of x", lambda m: m["x"] == 2, lambda m: "2"),)),
    ]
    found, interrupted = ledger.reproduce(rows, Lab(tmp_path))
    assert not interrupted
    assert [v.verdict for v in found] == ["confirmed", "differs"]
    document = json.loads((tmp_path / "verdicts.json").read_text())
    assert [sorted(entry) for entry in document] == [
        ["claims", "id", "measured", "points", "reason", "runs", "seconds", "stated", "verdict"]
    ] * 2
    assert document[1]["reason"] == "x: because of x (2)"


def test_a_measurement_that_raises_is_not_run_and_the_others_are_kept(tmp_path):
    def broken(lab):
        raise ZeroDivisionError("no packets\nat all")

    rows = [
        row("A", measuring(1)),
        row("B", broken),
        row("C", measuring(1)),
    ]
    found, _ = ledger.reproduce(rows, Lab(tmp_path))
    assert [v.verdict for v in found] == ["confirmed", "not run", "confirmed"]
    assert found[1].reason.startswith("the check failed: ZeroDivisionError: no packets at all")
    assert "ZeroDivisionError" in (tmp_path / "failed-B.txt").read_text()


def test_an_interrupt_keeps_the_verdicts_before_it(tmp_path):
    def interrupted(lab):
        raise KeyboardInterrupt

    rows = [
        row("A", measuring(1)),
        row("B", interrupted),
        row("C", measuring(1)),
    ]
    found, stopped = ledger.reproduce(rows, Lab(tmp_path))
    assert stopped
    assert [v.verdict for v in found] == ["confirmed", "not run", "not run"]
    assert len(json.loads((tmp_path / "verdicts.json").read_text())) == 3


def test_the_lab_remembers_runs_by_content(tmp_path):
    heard = []
    lab = Lab(tmp_path, jobs=2, on_progress=heard.append)
    first = lab.runs("incast", SHORT, runs=2)
    assert heard
    heard.clear()
    again = lab.runs("incast", dict(reversed(SHORT.items())), runs=2)
    assert not heard, "the same settings in another order must not run again"
    assert again.summaries == first.summaries
    other = lab.runs("incast", SHORT, runs=2, seed=2)
    assert heard
    assert other.summaries != first.summaries


def test_the_lab_runs_again_when_a_table_is_wanted_that_was_not_kept(tmp_path):
    lab = Lab(tmp_path)
    assert lab.runs("incast", SHORT).tables(0) == {}
    assert lab.runs("incast", SHORT, keep=["flows"]).tables(0)["flows"].height == 4


def test_a_wrong_setting_in_a_row_is_named(tmp_path):
    with pytest.raises(ScenarioError, match="servers"):
        Lab(tmp_path).runs("incast", {"servers": "many"})


def test_a_figure_is_written_as_png_and_svg(tmp_path):
    from penstock import figures

    with figures.style():
        figure, (ax,) = figures.new()
        figures.band(ax, [1, 2], [3, 4], [0.5, float("nan")], "x", 0)
    path = Lab(tmp_path).save(figure, "f")
    assert path == tmp_path / "figures" / "f.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.with_suffix(".svg").read_text().lstrip().startswith("<?xml")


def test_every_row_has_an_id_of_its_own_and_says_what_is_stated():
    rows = ledger.rows()
    assert rows, "no paper has rows"
    assert len({r.id for r in rows}) == len(rows)
    for r in rows:
        assert r.paper in ledger.PAPERS
        assert r.stated.strip(), r.id
        assert r.title.strip(), r.id


def test_unknown_rows_and_papers_are_named():
    done = inline("reproduce", "I-9.9")
    assert done.returncode == 2
    assert done.stdout == ""
    assert 'ID = "I-9.9": no such row' in done.stderr
    done = inline("reproduce", "--paper", "tolstoy")
    assert done.returncode == 2
    assert '--paper = "tolstoy": must be one of incast' in done.stderr


def test_reproduce_prints_one_json_document_and_writes_a_report(tmp_path):
    done = inline("reproduce", "I-2.5", "--quick", "--out", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (verdict,) = json.loads(done.stdout)
    assert verdict["id"] == "I-2.5"
    assert verdict["verdict"] in ("confirmed", "differs")
    assert verdict["measured"]
    assert (tmp_path / "report.html").stat().st_size > 10_000
