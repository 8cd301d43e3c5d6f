"""Figures inside a page: matplotlib's SVG made small, with letters, words and styles once per page, or PNG if
SVG would be large. A script replaces each by an interactive plot of the same series, if the page's parts are
built.

Coordinates are rounded to a hundredth of a point (a tenth in long paths), below what a screen shows. Ink
takes the page's text colour, so that a figure follows a light or dark page.
"""

from __future__ import annotations

import base64
import gzip
import html
import io
import re
from pathlib import Path

from markupsafe import Markup

from penstock.figures import INK

# Beyond this, made small, a browser is slow to draw a figure and a page of a hundred is heavy.
LIMIT_BYTES = 90_000
# Paths longer than this are drawn curves, in which a tenth of a point is invisible.
_LONG = 1500
_PNG_COLOURS = 64
_PX_PER_PT = 96 / 72
# A space has no shape.
_GLYPH = re.compile(r'<path id="([\w-]+)"(?: d="([^"]*)")? transform="scale\(0\.015625\)"/>')
# A field's dots or strokes: its attributes, name and shapes.
_HATCH = re.compile(r'<pattern([^>]*?) id="([^"]+)"([^>]*)>(.*?)</pattern>')
# A text as matplotlib draws it: its look, its place and its letters.
_TEXT = re.compile(
    r'<g( class="[^"]+")?( transform="[^"]+")>((?:<use href="#g\d+"(?: x="[^"]+")?/>){2,})</g>'
)
# Words of a figure; tick labels are none.
_WORD = re.compile(r"(?!.*mathdefault).*[A-Za-z]")


#: Built by `make setup` where Node is (page/build.mjs); without it figures stay as printed.
SCRIPT = Path(__file__).parent / "page" / "figures.js"


class Sprite:
    """The figures of one page: each gets ids of its own, all share the shapes of letters, hatches and the
    looks of lines.
    """

    def __init__(self) -> None:
        self._shapes: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._looks: dict[str, str] = {}
        self._hatches: dict[str, str] = {}
        self._figures = 0
        self._series: dict[str, str] = {}
        self.plots = True
        """Whether the series of the figures go into the page, for plots that a script draws."""

    def embed(self, figure: Path, label: str = "") -> Markup:
        """The figure saved at `figure` (PNG, with an SVG beside it) as markup. `label` is read out in its
        place; without one the figure's own words are. Raises OSError.
        """
        self._figures += 1
        path, series = figure.with_suffix(".svg"), figure.with_suffix(".json")
        if series.exists():
            self._series[str(self._figures)] = series.read_text(encoding="utf-8")
        text = ""
        if path.exists():
            text = self._small(path.read_text(encoding="utf-8"), f"f{self._figures}-", label)
        if not text or len(text) > LIMIT_BYTES:
            text = _png(figure, label)
        if series.exists():
            text = re.sub(r"^<(svg|img) ", rf'<\1 data-figure="{self._figures}" ', text)
        return Markup(text)

    def defs(self) -> Markup:
        """For the end of a page: the shapes of the letters and the looks of all figures embedded so far,
        once, in an element without size; then their series and the script that plots them.
        """
        shapes = "".join(
            f'<path id="{name}" d="{shape}" transform="scale(.015625)"/>'
            for shape, name in self._shapes.items()
        )
        shapes += "".join(f'<g id="{name}">{letters}</g>' for letters, name in self._texts.items())
        hidden = 'width="0" height="0" style="position:absolute" aria-hidden="true"'
        shapes += "".join(drawn.replace("@", f' id="{name}"', 1) for drawn, name in self._hatches.items())
        looks = "".join(f".{name}{{{look}}}" for look, name in self._looks.items())
        looks = f"<style>{looks}</style>" if looks else ""
        found = f"<svg {hidden}>{looks}<defs>{shapes}</defs></svg>" if shapes else ""
        return Markup(found + self._plots())

    def _plots(self) -> str:
        """Series and script; a script element ends at the first "</": nothing in it may look like one."""
        if not self.plots or not self._series or not SCRIPT.exists():
            return ""
        series = ",".join(f'"{key}":{text}' for key, text in self._series.items())
        # A third of the bytes, and nothing in it ends an element. Without a time they are the same again.
        packed = base64.b64encode(gzip.compress(f"{{{series}}}".encode(), 9, mtime=0)).decode()
        script = SCRIPT.read_text(encoding="utf-8").replace("</script", "<\\/script")
        data = f'<script type="application/gzip" id="penstock-figures">{packed}</script>'
        return f"{data}\n<script>{script}</script>\n"

    def _look(self, style: re.Match[str]) -> str:
        """A style as a class of the page."""
        return f' class="{self._looks.setdefault(style[1], f"k{len(self._looks)}")}"'

    def _text(self, found: re.Match[str]) -> str:
        """A text of more than one letter as one of the page's: most labels are in many figures."""
        name = self._texts.setdefault(found[3], f"t{len(self._texts)}")
        return f'<use href="#{name}"{found[1] or ""}{found[2]}/>'

    def _taken(self, text: str) -> list[tuple[str, str]]:
        """Hatches of a figure, which others may have as well: their names there and on the page."""
        found = []
        for before, name, after, inside in _HATCH.findall(text):
            inside = re.sub(re.escape(INK), "currentColor", inside, flags=re.IGNORECASE)
            inside = re.sub(r' style="([^"]+)"', self._look, inside)
            drawn = f"<pattern{before}@{after}>{inside}</pattern>"
            found.append((name, self._hatches.setdefault(drawn, f"h{len(self._hatches)}")))
        return found

    def _small(self, text: str, prefix: str, label: str) -> str:
        text = text[text.index("<svg") :]
        said = dict.fromkeys(html.unescape(s.strip()) for s in re.findall(r"<!--(.*?)-->", text, re.DOTALL))
        words = label or "; ".join(s for s in said if _WORD.match(s))
        text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
        text = text.replace("xlink:href", "href")
        glyphs: dict[str, str] = {}

        def glyph(found: re.Match[str]) -> str:
            shape = _path(found[2] or "")
            glyphs[found[1]] = self._shapes.setdefault(shape, f"g{len(self._shapes)}") if shape else ""
            return ""

        text = _GLYPH.sub(glyph, text)
        for name in [name for name, shape in glyphs.items() if not shape]:
            text = re.sub(f'<use href="#{name}"[^>]*/>', "", text)
        text = re.sub(r"\s*\n\s*(?=<)|(?<=>)\s*\n\s*", "", text).replace("<defs></defs>", "")
        text = re.sub(r'(?<= d=")[^"]*', lambda m: _path(m[0]), text)
        text = re.sub(r'(?<= [xy]=")[^"]*', lambda m: _short(m[0], 2), text)
        text = re.sub(r"(?<=translate\()[^)]*", lambda m: _numbers(m[0]), text)
        text = re.sub(r'(?<= style=")[^"]*', lambda m: re.sub(r"([:;])\s+", r"\1", m[0]), text)
        # Invisible frames and backgrounds.
        text = re.sub(r'<path d="[^"]*"(?: clip-path="[^"]*")? style="fill:none"/>', "", text)
        text = re.sub(r"<g>((?:<use [^>]*/>)+)</g>", _hoisted, text)
        # A letter's place in its line, in hundredths of the letters' height.
        text = re.sub(r' transform="translate\(([\d.]+) 0\)"/>', lambda m: f' x="{_short(m[1], 0)}"/>', text)
        for name, shared in self._taken(text):
            text = text.replace(f"url(#{name})", f"url(={shared})")
        text = _HATCH.sub("", text).replace("<defs></defs>", "")
        used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
        kept = {a or b for a, b in used}
        names: dict[str, str] = {}

        def own(name: str) -> str:
            """A name of the page for a part of the figure: matplotlib's are long, and there are thousands."""
            return names.setdefault(name, f"{prefix}{len(names)}")

        text = re.sub(
            r' id="([^"]+)"',
            lambda m: f' id="{own(m[1])}"' if m[1] in kept and m[1] not in glyphs else "",
            text,
        )
        text = re.sub(r'href="#([^"]+)"', lambda m: f'href="#{glyphs.get(m[1]) or own(m[1])}"', text)
        text = re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{own(m[1])})", text).replace("url(=", "url(#")
        for _ in range(3):  # groups within groups
            text = re.sub(r"<g(?: id=\"[^\"]*\")?></g>", "", text)
        text = re.sub(re.escape(INK), "currentColor", text, flags=re.IGNORECASE)
        text = re.sub(r' style="([^"]+)"', self._look, text)
        text = _unwrapped(_TEXT.sub(self._text, text))
        return re.sub(r"^<svg[^>]*>", lambda m: _opened(m[0], words), text).rstrip()


def _opened(tag: str, label: str) -> str:
    """The opening tag for a page: as wide as printed where there is room, told to who cannot see it."""
    box = re.search(r'viewBox="([^"]*)"', tag)
    assert box is not None
    width = float(box[1].split()[2]) * _PX_PER_PT
    look = f"--w:{width:.0f}px;stroke-linejoin:round;stroke-linecap:butt"
    return f'<svg viewBox="{box[1]}" style="{look}" role="img" aria-label="{html.escape(label[:400])}">'


def _unwrapped(text: str) -> str:
    """Without the groups that have no attributes: they mean nothing, and every part of a figure has one."""
    found: list[str] = []
    kept: list[bool] = []
    for part in re.split(r"(<g(?: [^>]*)?>|</g>)", text):
        if part.startswith("<g"):
            kept.append(part != "<g>")
        if (part == "</g>" and not kept.pop()) or part == "<g>":
            continue
        found.append(part)
    return "".join(found)


def _hoisted(found: re.Match[str]) -> str:
    """Markers of one look: their style once, on the group."""
    styles = set(re.findall(r' style="([^"]*)"', found[1]))
    uses = found[1].count("<use ")
    if len(styles) != 1 or found[1].count(" style=") < uses or uses == 1:
        return found[0]
    (style,) = styles
    return f'<g style="{style}">' + found[1].replace(f' style="{style}"', "") + "</g>"


def _path(d: str) -> str:
    """Path data without what can be left out: spaces, repeated letters, decimals."""
    digits = 1 if len(d) > _LONG else 2
    found: list[str] = []
    last = ""
    for token in d.split():
        if token.isalpha():
            # After a move, and after a line, further points are lines.
            if (token == last and token in "LQC") or (token == "L" and last == "M"):
                last = token
                continue
            found.append(token)
            last = token
        else:
            short = _short(token, digits)
            found.append(short if (found and found[-1].isalpha()) or short.startswith("-") else f" {short}")
    return "".join(found).strip()


def _numbers(text: str) -> str:
    return " ".join(_short(token, 2) for token in re.split(r"[\s,]+", text.strip()))


def _short(token: str, digits: int) -> str:
    """A number in few letters: 39.903365 as 39.9, 0.50 as .5."""
    try:
        text = f"{float(token):.{digits}f}"
    except ValueError:
        return token
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    if text in ("-0", ""):
        return "0"
    return re.sub(r"^(-?)0\.", r"\1.", text)


def _png(figure: Path, label: str) -> str:
    """A picture with few colours, which is a third of the bytes and looks the same."""
    from PIL import Image

    with Image.open(figure) as image:
        small = io.BytesIO()
        image.convert("RGB").quantize(_PNG_COLOURS).save(small, "PNG", optimize=True)
        dpi = image.info.get("dpi", (160, 160))[0] or 160
        width = image.width / dpi * 96
    data = base64.b64encode(small.getvalue()).decode("ascii")
    words = html.escape(label)
    return f'<img alt="{words}" style="--w:{width:.0f}px" src="data:image/png;base64,{data}">'
