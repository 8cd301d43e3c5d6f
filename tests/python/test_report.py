"""The HTML report: complete in one file, readable markup, nothing fetched."""

import re
from html.parser import HTMLParser

from penstock import figures, report
from penstock.ledger import Finding, Lab, Row, Verdict, judge

VOID = {"meta", "img", "br", "link", "hr", "input"}


class Page(HTMLParser):
    """Collects ids, links and text, and checks that tags close in order."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.fetched, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.note(tag, attrs)

    def handle_startendtag(self, tag, attrs):
        self.note(tag, attrs)

    def note(self, tag, attrs):
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            if key in ("src", "href", "xlink:href", "action", "data") and not value.startswith(
                ("#", "data:")
            ):
                self.fetched.append(f"{tag} {key}={value}")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def page(tmp_path, verdicts=None):
    lab = Lab(tmp_path)

    def check(lab):
        paths = []
        for name in ("one", "two"):
            with figures.style():
                figure, (ax,) = figures.new()
                figures.band(ax, [1, 2, 3], [1, 4, 9], [0.1, 0.2, 0.3], "squares", 0)
                ax.set(xlabel="x (s)", ylabel="y (packets)")
                ax.legend()
            paths.append(lab.save(figure, name))
        return Finding(False, "4 < 5 & 6", 'the "paper" <says> otherwise', tuple(paths))

    row = Row("X-1", "incast", "Squares", "1 < 2", check)
    path = report.verdicts([judge(row, lab)], tmp_path / "report.html", quick=True, provenance={"seed": 1})
    text = path.read_text()
    parsed = Page()
    parsed.feed(text)
    parsed.close()
    return text, parsed


def test_the_report_is_well_formed_and_its_ids_are_unique(tmp_path):
    _, parsed = page(tmp_path)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))


def test_the_report_fetches_nothing(tmp_path):
    text, parsed = page(tmp_path)
    assert parsed.fetched == []
    assert "<script" not in text
    assert "<link" not in text
    assert not re.search(r"@import|url\((?!#)", text)


def test_the_report_shows_statement_finding_reason_and_figures(tmp_path):
    text, parsed = page(tmp_path)
    words = " ".join(parsed.text)
    for expected in ("X-1", "differs", "1 < 2", "4 < 5 & 6", 'the "paper" <says> otherwise'):
        assert expected in words
    assert text.count("<svg") == 2


def test_figures_take_the_ink_of_the_page(tmp_path):
    text, _ = page(tmp_path)
    figure = text[text.index("<svg") : text.index("</svg>")]
    assert figures.INK not in figure
    assert "currentColor" in figure


def test_a_huge_figure_is_embedded_as_png(tmp_path):
    import numpy as np

    with figures.style():
        figure, (ax,) = figures.new()
        ax.scatter(np.arange(6000), np.arange(6000) % 77)
    path = Lab(tmp_path).save(figure, "huge")
    assert path.with_suffix(".svg").stat().st_size > 400_000
    assert report.embed(path, 1).startswith('<img alt="" src="data:image/png;base64,')


def test_a_row_that_failed_is_in_the_report(tmp_path):
    row = Row("X-2", "incast", "Broken", "something", lambda lab: 1 / 0)
    verdict = judge(row, Lab(tmp_path))
    assert isinstance(verdict, Verdict)
    path = report.verdicts([verdict], tmp_path / "report.html", quick=False, provenance={})
    assert "not run" in path.read_text()
    assert "ZeroDivisionError" in path.read_text()


def test_a_row_shows_what_its_runs_warned_of_and_which_port_they_measured(tmp_path):
    def check(lab):
        common = {"servers": 2, "duration": "10ms"}
        unused = {**common, "delayed_ack_timeout": "10ms"}
        lab.sweep([("incast", common), ("incast", unused)])
        return Finding(True, "1")

    def silent(lab):
        return Finding(True, "2")

    lab = Lab(tmp_path)
    first, second = (judge(Row(i, "incast", i, "1", f), lab) for i, f in (("X-1", check), ("X-2", silent)))
    assert "1 of 2 points: without effect in this run: delayed_ack_timeout" in first.warnings
    assert first.bottlenecks == ("switch->client",)
    assert second.warnings == second.bottlenecks == ()
    text = report.verdicts([first, second], tmp_path / "r.html", quick=True, provenance={}).read_text()
    parsed = Page()
    parsed.feed(text)
    assert parsed.open == []
    words = " ".join(parsed.text)
    assert "delayed_ack_timeout" in words and "switch->client" in words
