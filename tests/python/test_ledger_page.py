"""The ledger's page: every claim on the first screen, everything readable without scripts, one file."""

import re
from itertools import pairwise

import numpy as np
import pytest
from markup import Markup

from penstock import figures, svg
from penstock_papers import ledger
from penstock_papers.ledger import (
    Cause,
    Claim,
    Estimate,
    Lab,
    Row,
    criteria,
    holding,
    marks,
    outcomes,
    page,
    pinned,
)


def claim(name, criterion, of="x", **more):
    return Claim(
        name, f"text of {name}", "number", "stated", of, criterion, where="Fig 1", quantity=of, **more
    )


def draw(_, lab):
    with figures.style():
        figure, (ax,) = figures.new()
        ax.plot([1, 2], [3, 4])
        ax.set(xlabel="time (s)")
    return [lab.save(figure, "same")]


def rows():
    numbers = {"x": Estimate(3, 2, 4), "y": 7.0}
    first = Row(
        "X-1",
        "Squares (Fig 1)",
        "incast",
        claims=(
            claim("holds", criteria.within(3, by=2), quote='it "is" 3 & <more>'),
            claim("not", criteria.at_least(5)),
            claim("open", criteria.at_least(2.5)),
        ),
        measure=lambda lab: numbers,
        draw=draw,
        causes=(Cause("it is so because", lambda m: True, lambda m: "one: 1; two: 2", of=("not",)),),
    )
    second = Row(
        "X-2",
        "Same figure",
        "cbc",
        claims=(
            claim("whole", criteria.within(7), of="y"),
            ledger.repeated(first.claims[0], "X-1", "Fig 2"),
        ),
        measure=lambda lab: numbers,
        draw=draw,
    )

    def broken(lab):
        raise ZeroDivisionError("no packets")

    third = Row("X-3", "Broken", "cbc", claims=(claim("never", criteria.at_least(1)),), measure=broken)
    return [first, second, third]


@pytest.fixture
def text(tmp_path):
    found, _ = ledger.reproduce(rows(), Lab(tmp_path))
    return page.write(found, tmp_path / "r.html", quick=True, provenance={"seed": 1}).read_text()


def test_it_is_one_file_whose_links_all_lead_somewhere(text):
    parsed = Markup(text)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert parsed.fetched == []
    assert parsed.links <= {f"#{name}" for name in parsed.ids}
    assert {"x-1", "x-1-not", "x-2", "x-3-never", "paper-incast"} <= set(parsed.ids), "deep links"
    assert not re.search(r"@import|url\((?!#)|https?://", text)


def test_papers_have_pages_of_their_own_whose_links_all_lead_somewhere(tmp_path):
    found, _ = ledger.reproduce(rows(), Lab(tmp_path))
    path = page.write_all(found, tmp_path / "report.html", quick=True, provenance={"seed": 1})
    files = {
        name: Markup((tmp_path / name).read_text()) for name in ("report-incast.html", "report-cbc.html")
    }
    files[path.name] = Markup(path.read_text())
    for name, parsed in files.items():
        assert parsed.open == []
        led = [link.removeprefix("a href=") for link in parsed.fetched] + sorted(parsed.links)
        for link in led:
            file, _, anchor = link.partition("#")
            assert anchor in {*files[file or name].ids, ""}, (name, link)
        # The list leads to every paper, and every paper back to the list.
        assert {link.partition("#")[0] for link in led} - {""} == (
            set(files) - {name} if name == path.name else {path.name}
        )
    assert {"x-1", "x-1-not"} <= set(files["report-incast.html"].ids)
    assert {"x-2", "x-3-never"} <= set(files["report-cbc.html"].ids)
    assert not {"x-1", "x-2"} & set(files["report.html"].ids)
    # The list has no figures, and each paper's page has its own.
    pictures = {name: (tmp_path / name).read_text().count("data-figure=") for name in files}
    assert pictures == {"report.html": 0, "report-incast.html": 1, "report-cbc.html": 1}
    one = page.write_all(found[:1], tmp_path / "one.html", quick=True, provenance={})
    assert one.read_text().count('<article class="row') == 1
    assert not (tmp_path / "one-incast.html").exists()


def test_the_first_screen_has_every_claim_in_shape_and_colour(text):
    first = text[text.index('<nav class="matrix"') : text.index("</nav>")]
    marks_of = re.findall(r'aria-label="([a-z ]+)"><use href="#v-([a-z-]+)"', first)
    chips = [(said, shape) for said, shape in marks_of]
    assert all(outcomes.WORDS[shape.replace("-", " ")] == said for said, shape in chips)
    assert first.count('href="#x-1"') == first.count('href="#x-3"') == 1
    one = first[first.index('href="#x-1"') : first.index('href="#x-2"')]
    assert re.findall(r"#v-([a-z-]+)", one)[:3] == ["chosen", "fails", "undecided"]
    for name in outcomes.OUTCOMES:
        assert f'<symbol id="v-{name.replace(" ", "-")}"' in text
    assert "<b>2</b> holds for our choices" in text, "the repeated claim is not counted"
    assert 'class="g again"' in first


def test_a_page_of_quick_runs_has_the_verdicts_of_the_full_length(tmp_path, monkeypatch):
    pins = {
        "X-1/open": {"verdict": "confirmed", "value": {"mean": 2.75, "low": 2.6, "high": 2.9}},
        "X-1/not": {
            "verdict": "differs",
            "value": 3.5,
            "because": "a cause",
            "reasons": [["it was", "long: 9"]],
        },
    }
    seeds = {"X-1/open": dict.fromkeys("123", "confirmed")}
    monkeypatch.setattr(pinned, "load", lambda paper: {"full": pins})
    monkeypatch.setattr(pinned, "by_seed", lambda paper, length: seeds)
    monkeypatch.setattr(pinned, "seconds", lambda paper, length: {"X-1": 80.4})
    found, _ = ledger.reproduce(rows(), Lab(tmp_path))
    text = page.write(found, tmp_path / "r.html", quick=True, provenance={}).read_text()
    first = text[text.index('<nav class="matrix"') : text.index("</nav>")]
    one = first[first.index('href="#x-1"') : first.index('href="#x-2"')]
    assert re.findall(r"#v-([a-z-]+)", one)[:3] == ["chosen", "fails", "chosen"]
    words = " ".join(" ".join(Markup(text).text).split())
    assert "Outcomes are those pinned at full length (of 2 checks; 3 have none); figures" in words
    assert "by which alone 2 holds for our choices, 1 does not hold, 1 undecided, 1 not run" in words
    claims = {name: text[text.index(f'id="x-1-{name}"') :] for name in ("holds", "not", "open")}
    claims = {name: part[: part.index("</dl>")] for name, part in claims.items()}
    assert "<dt>quick</dt>" not in claims["holds"], "not pinned: the numbers are those of the run"
    assert "<dd>3.00 (2.00 to 4.00) <b>undecided</b></dd>" in claims["open"]
    assert "2.75 (2.60 to 2.90)" in claims["open"] and "straddles" not in claims["open"]
    assert "<dd>confirmed with 1, 2 and 3</dd>" in claims["open"]
    assert "It was." in claims["not"] and "<td>long</td><td>9</td>" in claims["not"]
    assert "It is so because" not in claims["not"], "the reason is that of the full length"
    assert words.count("at full length with --full, some 80 s of one core for a seed") == 1
    full = page.write(found, tmp_path / "f.html", quick=False, provenance={}).read_text()
    assert "<dt>quick</dt>" not in full and "Length of the runs: full" in full


def test_everything_is_there_without_scripts(text):
    before = text[: text.index("<script")]
    words = " ".join(Markup(before + "</body></html>").text)
    for expected in (
        "text of holds",
        'it "is" 3 & <more>',
        "3.00 (2.00 to 4.00)",
        "at least 5",
        "It is so because.",
        "penstock reproduce X-1",
        "ZeroDivisionError: no packets",
        "text of never",
        "Of 3 statements that count: 1 holds for our choices, 1 does not hold, 1 undecided.",
        "The paper says: text of not. We find 3.00 (2.00 to 4.00), so it does not hold: x has to be at least "
        "5, and it is so because.",
    ):
        assert expected in words, expected
    assert "<td>one</td><td>1</td>" in before, "the numbers of a reason are a table"
    assert '<div id="tools" hidden>' in before, "the search shows where it works"
    assert "data-off" not in before[before.index("<body>") :]


def test_a_figure_that_two_rows_have_is_printed_once(text):
    assert text.count("<figure>") == 1
    assert 'Its figure is that of <a href="#x-1">X-1</a>' in text


def test_a_large_page_goes_without_the_series_of_its_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(svg, "SCRIPT", tmp_path / "figures.js")
    (tmp_path / "figures.js").write_text("")
    found, _ = ledger.reproduce(rows(), Lab(tmp_path))
    assert list((tmp_path / "figures").glob("*.json")), "the figure has a series"
    whole = page.write(found, tmp_path / "r.html", quick=True, provenance={}).read_text()
    monkeypatch.setattr(page, "LIMIT_BYTES", 1)
    small = page.write(found, tmp_path / "s.html", quick=True, provenance={}).read_text()
    assert "penstock-figures" in whole and "penstock-figures" not in small
    assert whole.count("<figure>") == small.count("<figure>") == 1


def test_a_number_stands_against_its_criterion(tmp_path):
    first, *_ = rows()
    good, bad, open_ = (marks.gauge(one) for one in first.judge({"x": Estimate(3, 2, 4), "y": 7.0}))

    def places(drawing):
        band = re.search(r'class="ok" x="([\d.]+)" y="3" width="([\d.]+)"', drawing)
        at = float(re.search(r'cx="([\d.]+)"', drawing)[1])
        return float(band[1]), float(band[1]) + float(band[2]), at

    low, high, at = places(good)
    assert low < at < high
    low, high, at = places(bad)
    assert at < low and high == 250
    assert "whisker" in open_ and "undecided" in open_
    assert 'class="stated"' in good and 'class="stated"' not in bad
    mere = Claim("c", "t", "number", "s", "x", criteria.between(2, 4))
    assert 'class="stated"' not in marks.gauge(mere.judge({"x": 3.0})), (
        "the middle of a range is no statement"
    )
    onset = ledger.claims.Judged(claim("c", criteria.within(60, by=5)), "differs", "never", None)
    assert marks.gauge(onset) == "", "what never came has no place on an axis"


def test_a_search_is_drawn_as_a_map(tmp_path, monkeypatch):
    row = rows()[0]
    found = holding.Map(
        "a.gain", "a.time", [0.1, 0.9], [0.2, 0.8], "cd", ("0", "1", "2", "3", "4"), ("v", "v", "w", "w", "w")
    )
    monkeypatch.setattr(holding, "map_of", lambda row, claim: found if claim == "not" else None)
    monkeypatch.setattr(
        holding, "words", lambda row, claim, **_: "holds when a.gain >= 1" if claim == "not" else ""
    )
    text = page.write(
        [ledger.judge(row, Lab(tmp_path))], tmp_path / "r.html", quick=False, provenance={}
    ).read_text()
    drawing = text[text.index('<svg class="map"') :]
    drawing = drawing[: drawing.index("</svg>")]
    assert re.findall(r"<path class=(\w) d=\"M(\d+ \d+)\"/>", drawing) == [("d", "267 38"), ("c", "97 128")]
    assert "a.gain" in drawing and "a.time" in drawing
    assert drawing.count(">v<") == drawing.count(">w<") == 1, "an entry of a list has one text"
    assert all(f'<marker id="m-{letter}"' in text and f"url(#m-{letter})" in text for letter in "cdux")
    assert "penstock reproduce X-1 --full" in text


def test_long_texts_of_an_axis_do_not_run_into_each_other():
    def lines(*ticks: str) -> list[tuple[float, float, str]]:
        found = marks.map_svg(holding.Map("a", "", np.array([0.1]), np.array([0.5]), "c", ticks, ()))
        places = re.findall(r'<text x="(\d+)" y="(\d+)" text-anchor="middle">([^<]+)<', str(found))
        return [(float(x), float(y), text) for x, y, text in places if text in ticks]

    assert len({y for _, y, _ in lines("0", "1", "2", "3", "4")}) == 1
    told = lines("closed", "poisson:20", "poisson:50", "poisson:99", "poisson:10")
    assert len(told) == 5 and all(x + 6 * len(text) / 2 <= 300 for x, _, text in told)
    for (x, y, text), (after, lower, other) in pairwise(told):
        assert y != lower or x + 3 * len(text) < after - 3 * len(other)
