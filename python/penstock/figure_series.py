"""The series of a figure as plain data, for the plots of a page.

A figure is declared once, to matplotlib. What it was given is read back from its axes here, so that the
static picture and the plot that a script puts in its place have the same numbers. A figure with anything that
such a plot has no form for (a picture, contours) has none, and stays static.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Literal

import matplotlib as mpl
import matplotlib.category
import matplotlib.collections
import matplotlib.colors
import matplotlib.lines
import matplotlib.patches
import matplotlib.ticker
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from numpy.typing import NDArray

#: Series with more points are thinned to the ends, the lowest and the highest of each of `_BINS` parts: no
#: picture shows more.
MOST_POINTS = 1200
_BINS = 300
# Places along an axis that are told apart in a curve that is no function, and points that are too few to ask.
_CELLS = 600
_FEW = 400
_DIGITS = 6
# What matplotlib calls things that were given no label.
_UNNAMED = re.compile(r"_(child|line|collection|container|nolegend)\w*$")
# How far a text's middle is above its anchor, in heights of a letter.
_BELOW = {"top": -0.5, "bottom": 0.5, "baseline": 0.4, "center": 0.0, "center_baseline": 0.0}
_BELOW_LINE = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_ABOVE_LINE = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MARKERS = frozenset("os^Dv<>PX*+x.|_")

_SIDES: tuple[Literal["left", "center", "right"], ...] = ("left", "center", "right")

Data = dict[str, Any]


class _NoForm(Exception):
    """Something in the axes has no form in a page's plot."""


def of(figure: Figure) -> Data | None:
    """Panels with their axes, series, levels, areas and texts; None where a panel has something else.

    The figure has been drawn: places of texts and panels are read from its layout.
    """
    axes = [ax for ax in figure.axes if ax.get_visible() and ax.get_label() != "<colorbar>"]
    if not axes or any(ax.name != "rectilinear" for ax in axes):
        return None
    if len({tuple(np.round(ax.get_position().bounds, 4)) for ax in axes}) < len(axes):
        return None  # two scales in one panel
    try:
        panels = [_panel(ax) for ax in axes]
    except _NoForm:
        return None
    if not any(panel["series"] for panel in panels):
        return None
    _name(panels, figure)
    width, height = (round(float(inches) * 96) for inches in figure.get_size_inches())
    return {
        "width": width,
        "height": height,
        "title": _plain(figure.get_suptitle()),
        "x": _plain(figure.get_supxlabel()),
        "y": _plain(figure.get_supylabel()),
        "panels": panels,
    }


def _panel(ax: Axes) -> Data:
    if ax.images or ax.tables or ax.child_axes:
        raise _NoForm
    panel: Data = {
        "box": [round(float(v), 4) for v in ax.get_position().bounds],
        "title": _plain(" ".join(filter(None, (ax.get_title(loc=loc) for loc in _SIDES)))),
        "x": _axis(ax.xaxis, ax.get_xlim()),
        "y": _axis(ax.yaxis, ax.get_ylim()),
        "series": [],
        "levels": [],
        "areas": [],
        "texts": _texts(ax),
    }
    done: set[int] = set()
    for container in ax.containers:
        if isinstance(container, ErrorbarContainer):
            done |= _errorbar(ax, container, panel)
        elif isinstance(container, BarContainer):
            panel["series"].append(_bars(container))
            done |= {id(patch) for patch in container.patches}
    for line in ax.lines:
        if id(line) not in done:
            _line(ax, line, panel)
    for patch in ax.patches:
        if id(patch) not in done:
            panel["areas"].append(_patch(ax, patch))
    for collection in ax.collections:
        if id(collection) not in done:
            _collection(ax, collection, panel)
    return panel


def _axis(axis: Axis, limits: tuple[float, float]) -> Data:
    scale = axis.get_scale()
    if scale not in ("linear", "log", "symlog"):
        raise _NoForm
    found: Data = {"label": _plain(axis.get_label_text()), "scale": scale, "limits": _numbers(limits)}
    if scale == "symlog":
        found["linear_to"] = float(axis.get_transform().linthresh)  # type: ignore[attr-defined]
    # Words at places: `set_ticks` with labels, or an axis of texts. Other axes get ticks from their page.
    fixed = isinstance(axis.get_major_locator(), mpl.ticker.FixedLocator)
    words = isinstance(axis.get_major_formatter(), mpl.ticker.FixedFormatter | mpl.ticker.FuncFormatter)
    if (fixed and words) or isinstance(axis.get_major_locator(), matplotlib.category.StrCategoryLocator):
        labels = [text.get_text() for text in axis.get_majorticklabels()]
        found["ticks"] = [
            [_number(at), _plain(label)]
            for at, label in zip(axis.get_majorticklocs(), labels, strict=False)
            if label
        ]
    return found


def _errorbar(ax: Axes, container: ErrorbarContainer, panel: Data) -> set[int]:
    """A series with the ends of its intervals; the ids of its parts."""
    line, caps, bars = container.lines
    if line is None:
        raise _NoForm
    series = _series(ax, line, container.get_label())
    kinds = [k for k, has in (("x", container.has_xerr), ("y", container.has_yerr)) if has]
    for kind, lines in zip(kinds, bars, strict=True):
        i = "xy".index(kind)
        segments = lines.get_segments()
        series[f"{kind}_low"] = _numbers(min(part[:, i]) for part in segments)
        series[f"{kind}_high"] = _numbers(max(part[:, i]) for part in segments)
        series["bars"] = True
    panel["series"].append(series)
    return {id(line), *map(id, caps), *map(id, bars)}


def _bars(container: BarContainer) -> Data:
    parts = [p for p in container.patches if isinstance(p, mpl.patches.Rectangle)]
    if not parts or container.orientation == "horizontal":
        raise _NoForm
    return {
        "label": _label(container.get_label()),
        "colour": _colour(parts[0].get_facecolor()),
        "hatch": parts[0].get_hatch() or "",
        "x": _numbers(p.get_x() + p.get_width() / 2 for p in parts),
        "y": _numbers(p.get_y() + p.get_height() for p in parts),
        "base": _numbers(p.get_y() for p in parts),
        "column": _number(parts[0].get_width()),
    }


def _line(ax: Axes, line: mpl.lines.Line2D, panel: Data) -> None:
    along_x, along_y = line.get_transform().contains_branch_seperately(ax.transData)
    if along_x and along_y:
        series = _series(ax, line, str(line.get_label()))
        if series["x"]:
            panel["series"].append(series)
        return
    if not (along_x or along_y):
        raise _NoForm
    axis, values = ("x", line.get_xdata()) if along_x else ("y", line.get_ydata())
    look = _look(line)
    if at := _numbers(np.atleast_1d(np.asarray(values, dtype=float))):
        panel["levels"].append({"axis": axis, "at": at[0], "label": _label(str(line.get_label())), **look})


def _series(ax: Axes, line: mpl.lines.Line2D, label: object) -> Data:
    x = np.asarray(line.get_xdata(orig=False), dtype=float)
    y = np.asarray(line.get_ydata(orig=False), dtype=float)
    found: Data = {"label": _label(str(label)), **_look(line)}
    kept = _thinned(ax, x, y)
    if len(kept) < len(x):
        found["of"] = len(x)
    found |= {"x": _numbers(x[kept]), "y": _numbers(y[kept])}
    if (steps := line.get_drawstyle()) != "default":
        found["steps"] = "pre" if steps == "steps" else steps.removeprefix("steps-")
    return found


def _look(line: mpl.lines.Line2D) -> Data:
    found: Data = {
        "colour": _colour(line.get_color(), line.get_alpha()),
        "width": float(line.get_linewidth()),
    }
    if line.get_linestyle() in ("None", "none", " ", ""):
        found["width"] = 0
    elif (dashes := getattr(line, "_dash_pattern", (0, None))[1]) is not None:
        found["dash"] = [round(float(d), 2) for d in dashes]
    marker = line.get_marker()
    if isinstance(marker, str) and marker in _MARKERS:
        found["marker"] = marker
        found["size"] = float(line.get_markersize())
        if mpl.colors.to_hex(line.get_markerfacecolor()) in ("#ffffff",):
            found["hollow"] = True
    return found


def _patch(ax: Axes, patch: mpl.patches.Patch) -> Data:
    """A span of the axes (one range) or a polygon."""
    along = patch.get_transform().contains_branch_seperately(ax.transData)
    colour = _colour(patch.get_facecolor(), patch.get_alpha())
    if isinstance(patch, mpl.patches.Rectangle) and any(along) and not all(along):
        axis = "x" if along[0] else "y"
        start, size = (patch.get_x(), patch.get_width()) if along[0] else (patch.get_y(), patch.get_height())
        return {"axis": axis, "from": _number(start), "to": _number(start + size), "colour": colour}
    if isinstance(patch, mpl.patches.Polygon) and all(along):
        points = np.asarray(patch.get_xy(), dtype=float)
        return {"x": _numbers(points[:, 0]), "y": _numbers(points[:, 1]), "colour": colour}
    raise _NoForm


def _collection(ax: Axes, collection: mpl.collections.Collection, panel: Data) -> None:
    if isinstance(collection, mpl.collections.PathCollection):
        points = np.asarray(collection.get_offsets(), dtype=float)
        colours = collection.get_facecolor()
        if len(colours) != 1:
            raise _NoForm
        size = math.sqrt(float(collection.get_sizes()[0]))
        look = {"colour": _colour(colours[0]), "width": 0, "marker": "o", "size": size}
        kept = _thinned(ax, points[:, 0], points[:, 1])
        found: Data = {"label": _label(str(collection.get_label())), **look}
        found |= {"x": _numbers(points[kept, 0]), "y": _numbers(points[kept, 1])}
        panel["series"].append(found | ({"of": len(points)} if len(kept) < len(points) else {}))
    elif isinstance(collection, mpl.collections.PolyCollection):
        colour = _colour(collection.get_facecolor()[0])
        for path in collection.get_paths():
            points = np.asarray(path.vertices, dtype=float)
            if not _band(panel["series"], points, colour):
                x, y = _numbers(points[:, 0]), _numbers(points[:, 1])
                panel["areas"].append({"x": x, "y": y, "colour": colour})
    else:
        raise _NoForm


def _band(series: list[Data], points: NDArray[np.float64], colour: str) -> bool:
    """Give the line of this colour through the same places the ends of its band; whether there is one."""
    for one in series:
        if one["colour"][:7] != colour[:7] or "y_low" in one or "of" in one:
            continue
        x = np.array([math.nan if v is None else v for v in one["x"]])
        near = [points[np.isclose(points[:, 0], at, rtol=1e-5, atol=0), 1] for at in x]
        if len(x) and all(len(found) for found in near):
            one["y_low"] = _numbers(min(found) for found in near)
            one["y_high"] = _numbers(max(found) for found in near)
            return True
    return False


def _texts(ax: Axes) -> list[Data]:
    found = []
    to_data, to_axes = ax.transData.inverted(), ax.transAxes.inverted()
    for text in ax.texts:
        if not text.get_text().strip():
            continue
        fixed = bool(text.get_transform() == ax.transAxes)
        right, up = 0.0, 0.0
        if isinstance(text, Annotation) and text.xycoords == "data" and text.anncoords == "offset points":
            # Beside its point by so much, whatever the scale.
            (x, y), (right, up) = text.xy, (float(text.xyann[0]), float(text.xyann[1]))
            up += float(text.get_fontsize()) * _BELOW[text.get_verticalalignment()]
        else:
            box = text.get_window_extent()
            across = {"left": box.x0, "center": (box.x0 + box.x1) / 2, "right": box.x1}[
                text.get_horizontalalignment()
            ]
            x, y = (to_axes if fixed else to_data).transform((across, (box.y0 + box.y1) / 2))
        found.append(
            {
                "text": _plain(text.get_text()),
                "x": _number(x),
                "y": _number(y),
                "by": [round(float(right), 2), round(float(up), 2)],
                "fixed": fixed,
                "align": text.get_horizontalalignment(),
                "colour": _colour(text.get_color()),
                "size": float(text.get_fontsize()),
                "turned": bool(text.get_rotation() == 90),
            }
        )
    return found


def _name(panels: list[Data], figure: Figure) -> None:
    """Give series without a label the text of the legend's entry of the same look, else a number."""
    legends = [*figure.legends, *(legend for ax in figure.axes if (legend := ax.get_legend()))]
    shown: dict[tuple[str, str], str] = {}
    for legend in legends:
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False):
            if isinstance(handle, mpl.lines.Line2D):
                look = _look(handle)
                shown[look["colour"], look.get("marker", "")] = _plain(text.get_text())
    for panel in panels:
        for i, series in enumerate(panel["series"]):
            if not series["label"]:
                series["label"] = shown.get((series["colour"], series.get("marker", "")), "")
                series["unnamed"] = not series["label"]
                series["label"] = series["label"] or f"series {i + 1}"


def _label(text: object) -> str:
    """A label; one that begins with _ is kept out of matplotlib's legend and has its name here."""
    words = str(text)
    return "" if _UNNAMED.match(words) else _plain(words.removeprefix("_"))


def _plain(text: str) -> str:
    """A text of a figure without mathematical markup: $K_0G$ as K₀G, $\\alpha$ as α."""
    text = re.sub(r"\\mathdefault\{([^}]*)\}", r"\1", text)
    return re.sub(r"(?<!\\)\$([^$]*)\$", lambda found: _formula(found[1]), text).replace("\\$", "$")


def _formula(text: str) -> str:
    text = re.sub(r"\\([A-Za-z]+) ?", lambda found: _letter(found[1]), text)
    text = re.sub(r"_\{?(\d+)\}?", lambda found: found[1].translate(_BELOW_LINE), text)
    text = re.sub(r"\^\{?([-\d]+)\}?", lambda found: found[1].translate(_ABOVE_LINE), text)
    return text.replace("{", "").replace("}", "")


def _letter(name: str) -> str:
    case = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {name.upper()}")
    except KeyError:
        return {"cdot": "·", "times": "×", "leq": "≤", "geq": "≥", "infty": "∞"}.get(name, "")


def _colour(colour: Any, alpha: float | None = None) -> str:
    if isinstance(colour, str) and colour.lower() in ("none", ""):
        return "#00000000"
    return mpl.colors.to_hex(mpl.colors.to_rgba(colour, alpha), keep_alpha=True)


def _thinned(ax: Axes, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the points to keep: all if they are few. A function keeps first, lowest, highest and last of
    each part. Another curve keeps points that differ in the printed figure at four times its size.
    """
    if len(x) <= _FEW:
        return np.arange(len(x))
    ascending = bool(np.all(np.diff(x) >= 0)) and bool(np.isfinite(y).all())
    if not ascending:
        with np.errstate(invalid="ignore"):
            places = np.nan_to_num(ax.transAxes.inverted().transform(ax.transData.transform(np.c_[x, y])))
        # What lies far outside is where it is, in any place outside.
        cells = np.round(np.clip(places, -1, 2) * _CELLS).astype(np.int64)
        apart = np.r_[True, np.any(np.diff(cells, axis=0) != 0, axis=1)]
        apart[-1] = True
        kept = np.flatnonzero(apart)
        return np.unique(np.r_[kept[:: 1 + len(kept) // (MOST_POINTS - 1)], kept[-1]])
    if len(x) <= MOST_POINTS:
        return np.arange(len(x))
    found: set[int] = set()
    for part in np.array_split(np.arange(len(x)), _BINS):
        found |= {int(part[0]), int(part[-1]), int(part[y[part].argmin()]), int(part[y[part].argmax()])}
    return np.array(sorted(found), dtype=np.intp)


def _number(value: float) -> float | None:
    number = float(f"{float(value):.{_DIGITS}g}")
    return number if math.isfinite(number) else None


def _numbers(values: Iterable[float]) -> list[float | None]:
    return [_number(v) for v in values]
