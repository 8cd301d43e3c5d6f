"""Pages: complete in one file, readable markup, nothing fetched, figures in the ink of the page."""

import re

import numpy as np
import pytest
from markup import Markup

from penstock import figures, report, svg


@pytest.fixture
def drawn(tmp_path):
    paths = []
    for name in ("one", "two"):
        with figures.style():
            figure, (ax,) = figures.new()
            figures.band(ax, [1, 2, 3], [1, 4, 9], [0.1, 0.2, 0.3], "squares", 0)
            ax.set(xlabel="x (s)", ylabel="y (packets)")
            ax.legend()
        paths.append(figures.write(figure, tmp_path, name))
    return paths


def page(tmp_path, drawn):
    section = report.Section(
        "Squares", ['the "paper" <says> 4 < 5'], [(path, "a caption") for path in drawn], warnings=["careful"]
    )
    path = report.write(report.Page("Title", "lead", [section], {"seed": 1}), tmp_path / "report.html")
    return path.read_text()


def test_a_page_is_well_formed_and_fetches_nothing(tmp_path, drawn):
    text = page(tmp_path, drawn)
    parsed = Markup(text)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert parsed.fetched == []
    assert parsed.links <= {f"#{name}" for name in parsed.ids}, "what a figure refers to is in the page"
    assert "<link" not in text
    # The only scripts are the series of the figures and what plots them, where that is built, at the end.
    scripts = re.findall(r"<script[^>]*>", text)
    plots = ['<script type="application/gzip" id="penstock-figures">', "<script>"]
    assert scripts == (plots if svg.SCRIPT.exists() else [])
    assert not scripts or text.index("How this page was made") < text.index("<script")
    assert not re.search(r"@import|url\((?!#)", text)
    words = " ".join(parsed.text)
    for expected in ("Squares", 'the "paper" <says> 4 < 5', "a caption", "careful"):
        assert expected in words


def test_figures_take_the_ink_of_the_page_and_share_their_letters(tmp_path, drawn):
    text = page(tmp_path, drawn)
    assert text.count('role="img"') == 2
    figure = text[text.index("<svg") : text.index("</svg>")]
    (looks,) = re.findall(r"<style>(\.k0\{.*?)</style>", text)
    assert figures.INK not in figure + looks
    assert "currentColor" in looks
    used = set(re.findall(r'class="(k\d+)"', text))
    assert used and used == set(re.findall(r"\.(k\d+)\{", looks))
    shapes = re.findall(r' d="([^"]*)" transform="scale\(\.015625\)"', text)
    assert shapes and len(shapes) == len(set(shapes)), "each letter's shape is in the page once"
    assert 'aria-label="x (s); y (packets); squares"' in text


def test_a_figure_gets_smaller_and_stays_the_same(drawn):
    sprite = svg.Sprite()
    small = str(sprite.embed(drawn[0]))
    before = drawn[0].with_suffix(".svg").read_text()
    assert len(small) < len(before) / 2
    # The curve's points, to a hundredth of a point.
    curve = next(d for d in re.findall(r'<path d="([^"]*)"[^>]*stroke: #0072b2', before))
    here = [float(x) for x in re.findall(r"-?[\d.]+", curve)]
    # Its look is a class of the page.
    (look,) = re.findall(r"\.(k\d+)\{fill:none;[^}]*stroke:#0072b2", sprite.defs())
    assert " style=" not in small.partition(">")[2]
    # The curve comes before its line in the legend.
    short = re.findall(rf'<path d="([^"]*)"[^>]* class="{look}"', small)[0]
    assert np.allclose([float(x) for x in re.findall(r"-?\d*\.?\d+", short)], here, atol=0.006)


def test_figures_share_their_hatches(tmp_path):
    paths = []
    for i, hatch in enumerate(("..", "..", "//")):
        with figures.style():
            figure, (ax,) = figures.new()
            ax.bar([0, 1], [1, 2 + i], hatch=hatch, edgecolor="white")
        paths.append(figures.write(figure, tmp_path, f"bars{i}"))
    sprite = svg.Sprite()
    pages = [str(sprite.embed(path)) for path in paths]
    shared = str(sprite.defs())
    names = re.findall(r'<pattern[^>]* id="([^"]+)"', shared)
    assert len(names) == 2 and not any("<pattern" in page for page in pages)
    # Each figure's bars have the class that says which.
    looks = {name: look for look, name in re.findall(r"\.(k\d+)\{[^}]*url\(#([^)]+)\)", shared)}
    assert [[n for n in names if f'class="{looks[n]}"' in page] for page in pages] == [
        names[:1],
        names[:1],
        names[1:],
    ]


def test_a_huge_figure_is_embedded_as_png(tmp_path):
    with figures.style():
        figure, (ax,) = figures.new()
        ax.scatter(np.arange(6000), np.arange(6000) % 77)
    path = figures.write(figure, tmp_path, "huge")
    found = svg.Sprite().embed(path, "many points")
    assert found.startswith('<img data-figure="1" alt="many points" style="--w:634px" src="data:image/png;')
    assert len(found) < 1.4 * path.stat().st_size
