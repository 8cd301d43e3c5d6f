"""Small drawings of the ledger's page, as SVG: a number against its criterion, a map of where a claim holds.

They take their colours from the page (classes, not values), so that they follow a light or dark one.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from penstock_papers.ledger.claims import Judged
from penstock_papers.ledger.criteria import Criterion, Estimate, Every, Range, estimate
from penstock_papers.ledger.holding import TICKS, Map

# Letters of a search and what they are called.
# Verdicts at the points of a map, and the shapes of these in the page.
LETTERS = {"c": "robust", "d": "fails", "u": "undecided", "x": "not-run"}
# More numbers than this are drawn without their intervals.
_MOST_WHISKERS = 4
# Numbers that span more than this stand on a log axis.
_LOG_SPAN = 40.0


def gauge(judged: Judged) -> Markup:
    """The measured numbers over the range that the criterion accepts; "" where the criterion is no range of
    one number.
    """
    accepted, numbers = _range(judged.claim.criterion), _numbers(judged.value)
    if accepted is None or not numbers:
        return Markup("")
    bounds = accepted.low, accepted.high
    # What would be drawn beyond any axis says nothing as a drawing.
    ends = [x for x in bounds if math.isfinite(x)]
    seen = [
        x for n in numbers for x in ((n.mean, n.low, n.high) if len(numbers) <= _MOST_WHISKERS else (n.mean,))
    ]
    finite = [x for x in (*seen, *ends) if math.isfinite(x)]
    if not any(math.isfinite(n.mean) for n in numbers) or max(finite) == min(finite):
        return Markup("")
    log = min(finite) > 0 and max(finite) > _LOG_SPAN * min(finite)
    scale = _Scale(min(finite), max(finite), log)
    low, high = (scale(x, clip=True) for x in bounds)
    parts = [f'<rect class="ok" x="{low:.1f}" y="3" width="{max(high - low, 1.5):.1f}" height="14" rx="2"/>']
    parts.append(f'<path class="axis" d="M{_LEFT} 17H{_RIGHT}"/>')
    if accepted.stated is not None:
        parts.append(f'<path class="stated" d="M{scale(accepted.stated):.1f} 1V19"/>')
    for n in numbers:
        if not math.isfinite(n.mean):
            continue
        if len(numbers) <= _MOST_WHISKERS and n.low < n.high:
            ends_at = scale(n.low, clip=True), scale(n.high, clip=True)
            parts.append(f'<path class="whisker" d="M{ends_at[0]:.1f} 10H{ends_at[1]:.1f}"/>')
        parts.append(f'<circle cx="{scale(n.mean):.1f}" cy="10" r="3.4"/>')
    texts: list[tuple[float, str]] = [(scale(x), f"{x:.3g}") for x in ends]
    if len(texts) == 2 and texts[1][0] - texts[0][0] < 44:
        texts = [((texts[0][0] + texts[1][0]) / 2, f"{sum(ends) / 2:.3g}")]
    parts += [_text(x, 30, text) for x, text in texts]
    said = f"measured numbers against the accepted range: {judged.claim.criterion.text}"
    return _svg(260, 34, said, parts, f"gauge {judged.verdict.replace(' ', '-')}")


# What a letter of an axis takes, at most.
_LETTER = 6.0


def map_svg(found: Map) -> Markup:
    """The points of a search over two parameters, colour and shape by verdict."""
    x0, y0, width, height = 76.0, 8.0, 212.0, 150.0
    parts = [f'<rect class="frame" x="{x0}" y="{y0}" width="{width}" height="{height}"/>']
    places = [(share, _short(text)) for share, text in _places(found.x_ticks)]
    # Texts that would run into each other stand in two lines; the last one ends where the drawing does.
    lower = 11.0 if sum(len(text) + 1 for _, text in places) * _LETTER > width else 0.0
    for i, (share, text) in enumerate(places):
        x = min(x0 + share * width, 297 - len(text) * _LETTER / 2)
        parts.append(_text(x, y0 + height + 14 + lower * (i % 2), text))
    for share, text in _places(found.y_ticks):
        parts.append(_text(x0 - 5, y0 + (1 - share) * height + 4, _short(text), "end"))
    parts.append(_text(x0 + width / 2, y0 + height + 29 + lower, found.first))
    if found.second:
        middle = y0 + height / 2
        turned = f'transform="rotate(-90 11 {middle:.0f})"'
        parts.append(_text(11, middle, found.second, "middle", turned))
    # What holds is drawn last: it must not be hidden. A line per verdict, whose corners are the points.
    for letter in sorted(set(found.letters), key=lambda letter: (letter == "c", letter)):
        at = [
            f"{x0 + float(x) * width:.0f} {y0 + (1 - float(y)) * height:.0f}"
            for x, y, own in zip(found.x, found.y, found.letters, strict=True)
            if own == letter
        ]
        # Without quotes, as HTML allows, and without an L, which follows an M by itself.
        parts.append(f'<path class={letter} d="M{" ".join(at)}"/>')
    held = found.letters.count("c")
    over = " and ".join(name for name in (found.first, found.second) if name)
    said = f"holds at {held} of {len(found.letters)} points over {over}"
    return _svg(300, 194 + round(lower), said, parts, "map")


def _places(texts: Sequence[str]) -> list[tuple[float, str]]:
    """Where the texts of an axis stand; an entry of a list, which has several places, in their middle."""
    found: dict[str, list[float]] = {}
    for share, text in zip(TICKS, texts, strict=False):
        found.setdefault(text, []).append(share)
    return [(sum(shares) / len(shares), text) for text, shares in found.items()]


_LEFT, _RIGHT = 10.0, 250.0


class _Scale:
    """From numbers to places between the ends of a drawing, which have room at both sides."""

    def __init__(self, low: float, high: float, log: bool) -> None:
        self._turn = np.log10 if log else float
        a, b = float(self._turn(low)), float(self._turn(high))
        room = 0.12 * (b - a)
        self._low, self._span = a - room, b - a + 2 * room
        self._log = log

    def __call__(self, x: float, *, clip: bool = False) -> float:
        if math.isinf(x) or (self._log and x <= 0):
            return _LEFT if x <= 0 else _RIGHT
        place = _LEFT + (float(self._turn(x)) - self._low) / self._span * (_RIGHT - _LEFT)
        return min(max(place, _LEFT), _RIGHT) if clip else place


def _range(criterion: Criterion) -> Range | None:
    inner = criterion.each if isinstance(criterion, Every) else criterion
    return inner if isinstance(inner, Range) else None


def _numbers(value: Any) -> list[Estimate]:
    """The numbers of a judged value; none where there are others among them."""
    if isinstance(value, Mapping):
        value = list(value.values())
    items = (
        list(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else [value]
    )
    try:
        return [estimate(item) for item in items if not isinstance(item, bool)]
    except ValueError:
        return []


def _short(text: str) -> str:
    return text if len(text) <= 10 else f"{text[:9]}…"


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    more = more and f" {more}"
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{more}>{html.escape(text)}</text>'


def _svg(width: int, height: int, said: str, parts: Sequence[str], look: str) -> Markup:
    words = html.escape(said)
    box = f'viewBox="0 0 {width} {height}"'
    return Markup(f'<svg class="{look}" {box} role="img" aria-label="{words}">{"".join(parts)}</svg>')
