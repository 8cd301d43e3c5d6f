"""One plotting style: data in, figure out. Nothing here simulates.

Series are told apart three times over, by colour (safe for colour-blind readers), line style and marker, so
that a figure survives a greyscale printer. Uncertainty is a band.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.cm
import matplotlib.colors
import matplotlib.font_manager
import matplotlib.ticker
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from penstock import _engine, figure_series

# Okabe and Ito's palette, ordered so that neighbours also differ in lightness.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#7A5195", "#E69F00", "#56B4E9", "#5A5A5A")
DASHES: tuple[object, ...] = (
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
    (0, (3, 1)),
    (0, (1, 1)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

# Swept values that still have room for their texts below the axis.
_MOST_TICKS = 10

# Text and axes. The HTML report replaces it by the reader's own text colour (light or dark page).
INK = "#1c1f24"

# More lines than this cannot be told apart in one panel: `lines` colours them by number, and `panels` gives
# each its own.
MOST_TOLD_APART = len(PALETTE)
# So many panels still have room on one page.
MOST_PANELS = 24
# Dark to light throughout, so that the order survives a greyscale printer. Lines leave its palest part out.
MAP = "viridis"
_MAP_END = 0.88
# Relative luminance above which black is the better ink.
_BRIGHT = 0.45
# What is only there for comparison.
PALE = "#b9bfc7"

_STYLE: dict[Any, Any] = {
    "figure.figsize": (6.6, 4.1),
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",  # shipped with matplotlib: the same glyphs everywhere
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": "#8a93a0",
    "grid.alpha": 0.28,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "svg.fonttype": "path",  # opens the same without the font installed
    "svg.hashsalt": "penstock",  # the same figure gives the same bytes
}


@contextmanager
def style() -> Iterator[None]:
    """Context in which every new figure has penstock's look."""
    with mpl.rc_context(_STYLE):
        yield


class Picture(Figure):
    """A matplotlib figure that a notebook shows as a picture without pyplot."""

    def _repr_png_(self) -> bytes:
        image = io.BytesIO()
        with style():
            self.savefig(image, format="png", metadata={"Software": None})
        return image.getvalue()


def new(
    rows: int = 1, columns: int = 1, *, width: float = 6.6, height: float = 4.1, **kwargs: Any
) -> tuple[Figure, list[Axes]]:
    """A styled figure and its axes as a flat list; `width`, `height` in inches. Call inside `style()`."""
    figure = Picture(figsize=(width, height))
    axes = figure.subplots(rows, columns, squeeze=False, **kwargs)
    return figure, list(axes.ravel())


def look(i: int) -> dict[str, Any]:
    """Colour, line style and marker of series `i`, for `ax.plot(..., **look(i))`."""
    return {
        "color": PALETTE[i % len(PALETTE)],
        "linestyle": DASHES[i % len(DASHES)],
        "marker": MARKERS[i % len(MARKERS)],
    }


def line(i: int) -> dict[str, Any]:
    """As `look`, without markers: for dense series."""
    return {key: value for key, value in look(i).items() if key != "marker"}


def band(ax: Axes, x: ArrayLike, mean: ArrayLike, half: ArrayLike, label: str, i: int) -> None:
    """Draw series `i`: the mean over `x`, and mean ± `half` (95 % half-width, NaN if unknown) as a band."""
    m, h = np.asarray(mean, dtype=float), np.nan_to_num(np.asarray(half, dtype=float))
    ax.plot(x, m, label=label, **look(i))
    # Student's t knows nothing of zero: the mean of what is never negative is not below it.
    low = np.maximum(m - h, 0.0) if np.nanmin(m, initial=0.0) >= 0 else m - h
    if ax.get_yscale() == "log":
        # A band that reaches zero would vanish from a log axis altogether: it ends a decade below the mean.
        low = np.maximum(low, m / 10)
    ax.fill_between(
        np.asarray(x, dtype=float), low, m + h, color=PALETTE[i % len(PALETTE)], alpha=0.18, linewidth=0
    )


def by_size(ax: Axes, classes: pl.DataFrame, key: str, label: str, i: int, runs: int) -> None:
    """Draw series `i`: the quantile `key` of `sizes.quantiles` over size with its 95 % band. Marks are hollow
    where a run has fewer flows than make such a quantile more than about the largest value.
    """
    x, y = classes["size_bytes"].to_numpy(), classes[key].to_numpy()
    band(ax, x, y, classes[f"{key}_ci95"].to_numpy(), label, i)
    share = float(key.rpartition("_p")[2]) / 100
    few = classes["flows"].to_numpy() * (1 - share) < runs * (1 - 1e-9)
    colour, mark = PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]
    if few.any():
        how: dict[str, Any] = {"markeredgecolor": colour, "markerfacecolor": "white", "zorder": 3}
        ax.plot(x[few], y[few], marker=mark, linestyle="none", **how)
    if len(x) == 1:
        # A band of one point would not be seen.
        half = np.nan_to_num(classes[f"{key}_ci95"].to_numpy())
        ax.errorbar(x, y, yerr=half, color=colour, capsize=4, linestyle="none", zorder=1)


def lines(ax: Axes, series: Sequence[tuple[int, str, ArrayLike, ArrayLike]], what: str, **how: Any) -> None:
    """Draw (number, label, x, y) series, however many. Up to eight differ in colour and dash, with a legend;
    more take a colour by their number on a scale from dark to light, with a colour bar named `what`.

    `how` goes to `ax.plot`.
    """
    if len(series) <= MOST_TOLD_APART:
        for i, (_, label, x, y) in enumerate(series):
            ax.plot(x, y, label=label, **(line(i) | how))
        if len(series) > 1:
            legend(ax, len(series))
        return
    shades = shaded(ax, series, **how)
    figure = ax.get_figure()
    assert figure is not None
    bar = figure.colorbar(shades, ax=ax, label=f"{what} ({len(series)} lines)", pad=0.02)
    bar.ax.yaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))


def shaded(
    ax: Axes, series: Sequence[tuple[int, str, ArrayLike, ArrayLike]], **how: Any
) -> mpl.cm.ScalarMappable:
    """Draw (number, label, x, y) series in colours by their number, dark to light; the colours' scale."""
    numbers = [number for number, *_ in series]
    scale = mpl.colors.Normalize(min(numbers), max(numbers))
    palette = mpl.colors.ListedColormap(mpl.colormaps[MAP].resampled(256)(np.linspace(0, _MAP_END, 256)))
    for number, label, x, y in series:
        # Matplotlib keeps labels with a _ out of legends; the series has its name all the same.
        ax.plot(x, y, color=palette(float(scale(number))), linewidth=0.9, label=f"_{label}", **how)
    return mpl.cm.ScalarMappable(scale, palette)


def legend(ax: Axes, count: int, title: str | None = None, **how: Any) -> None:
    """A legend of `count` lines: inside the axes while there is room, otherwise beside them."""
    if count <= 4:
        ax.legend(title=title, **how)
        return
    figure = ax.get_figure()
    assert figure is not None
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, title=title, loc="outside right upper", ncols=1 + count // 18, **how)


def panels(names: Sequence[str], title: str, x: str, y: str) -> tuple[Figure, list[Axes]]:
    """Small multiples with common axes, one per name, which stands in it: for more lines than one panel can
    tell apart. Call inside `style()`.
    """
    columns = min(4, math.ceil(math.sqrt(len(names))))
    rows = math.ceil(len(names) / columns)
    figure, axes = new(
        rows, columns, width=max(6.6, 2.4 * columns), height=1.1 + 1.5 * rows, sharex=True, sharey=True
    )
    for ax, name in zip(axes, names, strict=False):
        ax.set_title(name, fontsize=9.0, fontweight="normal")
    for ax in axes[len(names) :]:
        ax.set_visible(False)
        # The panel above the gap gets the axis that this one does not show.
        axes[axes.index(ax) - columns].xaxis.set_tick_params(labelbottom=True)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11.0, fontweight="bold", color=INK)
    figure.supxlabel(x, fontsize=10.0)
    figure.supylabel(y, fontsize=10.0)
    return figure, axes[: len(names)]


def shade(value: float) -> Any:
    """The colour of a share, 0 to 1, on the scale from dark to light."""
    return mpl.colormaps[MAP](_MAP_END * value)


def ink_on(colour: Any) -> str:
    """Black or white, whichever can be read on `colour`."""
    red, green, blue, _ = mpl.colors.to_rgba(colour)
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > _BRIGHT else "white"


def units(axis: Axis, key: str) -> None:
    """Write rates and times on an axis as people do: 800 Mb/s, 5 ms."""
    from penstock.runs import show

    if key.endswith(("_bps", "_s")):
        axis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: show(key, value)))


def short(value: float) -> str:
    """A number in few letters: 1.2G, 34k, 0.05."""
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"


def log_x(ax: Axes, bytes_: bool = False) -> None:
    """A log x axis with plain numbers, also at 2 and 5 times the powers of ten where it spans few of them;
    `bytes_` writes 10k for 10000.
    """
    ax.set_xscale("log")
    _plain_log(ax.xaxis, ax.get_xlim(), short if bytes_ else "{:g}".format)


def log_y(ax: Axes) -> None:
    """A log y axis of the same kind, of the limits that it has."""
    ax.set_yscale("log")
    _plain_log(ax.yaxis, ax.get_ylim(), "{:g}".format)


def plain_logs(figure: Figure) -> None:
    """Plain numbers in place of powers of ten (20, 60 for 2 x 10^1, 6 x 10^1) on all log axes that have them
    and reach no further than 100,000.
    """
    for ax in figure.axes:
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            powers = isinstance(axis.get_major_formatter(), mpl.ticker.LogFormatterSciNotation)
            if axis.get_scale() == "log" and powers and max(limits) <= 1e5:
                _plain_log(axis, limits, "{:g}".format, most=500)


def _plain_log(
    axis: Axis, limits: tuple[float, float], say: Callable[[float], str], most: float = 30
) -> None:
    low, high = limits
    few = low > 0 and high < most * low
    axis.set_major_formatter(mpl.ticker.FuncFormatter(lambda x, _: say(x)))
    axis.set_minor_locator(mpl.ticker.LogLocator(subs=(2.0, 5.0) if few else "auto"))
    axis.set_minor_formatter(
        mpl.ticker.FuncFormatter(lambda x, _: say(x)) if few else mpl.ticker.NullFormatter()
    )


def places(ax: Axes, values: Sequence[Any], label: str) -> NDArray[np.float64]:
    """Where swept values stand on the x axis of `ax`, which gets its scale, ticks and `label`.

    Numbers and texts of one kind with units ("200us", "10ms") stand at their value, on a log axis when they
    span more than a factor of 30; anything else stands in the order given.
    """
    ax.set_xlabel(label)
    texts = [str(value) for value in values]
    found = [_engine.quantity(text) for text in texts]
    quantities = [quantity for quantity in found if quantity is not None]
    kinds = {unit for _, unit in quantities}
    # A bare number beside sizes is a number of bytes; beside anything else it is no such thing.
    if len(quantities) < len(texts) or len(kinds - {""} if kinds <= {"", "bytes"} else kinds) > 1:
        places = np.arange(len(texts), dtype=float)
        ax.set_xticks(places, texts)
        if _crowded(ax, places, texts):
            # Slanted, each ends at its tick.
            ax.tick_params(axis="x", labelrotation=30)
            for label_ in ax.get_xticklabels():
                label_.set(horizontalalignment="right", rotation_mode="anchor")
        return places
    x = np.array([number for number, _ in quantities])
    if x.min() > 0 and x.max() > 30 * x.min():
        ax.set_xscale("log")
    if len(texts) <= _MOST_TICKS:
        at = np.log(x) if ax.get_xscale() == "log" else x
        shown = list(texts)
        for i in _crowded(ax, at, texts):
            shown[i] = ""
        ax.set_xticks(x, shown, minor=False)
        ax.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    elif unit := (kinds - {""} or {""}).pop():
        ax.set_xlabel(f"{label} ({unit})")
    return x


def _crowded(ax: Axes, at: NDArray[np.float64], texts: Sequence[str]) -> list[int]:
    """Return the labels on the x axis of `ax` that overlap those to their left, if all of them are at `at` on
    an axis that is as long as their span.
    """
    figure = ax.get_figure(root=True)
    assert figure is not None
    # Letters of the house's font are 0.6 of their height wide; a letter's width stays free between labels.
    letter = 0.6 * float(
        matplotlib.font_manager.FontProperties(size=mpl.rcParams["xtick.labelsize"]).get_size()
    )
    points = 72 * figure.get_size_inches()[0] * ax.get_position().width
    span = float(np.ptp(at)) or 1.0
    found, end = [], -math.inf
    for i in np.argsort(at, kind="stable"):
        middle, half = points * float(at[i] - at.min()) / span, letter * (len(texts[i]) + 1) / 2
        if middle - half < end:
            found.append(int(i))
        else:
            end = middle + half
    return found


def write(figure: Figure, folder: Path, name: str) -> Path:
    """Write `figure` as `name`.png and `name`.svg under `folder`, its series as `name`.json where a page can
    plot them, and return the path of the PNG.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with style():
        path = folder / f"{name}.png"
        figure.savefig(path, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None}, transparent=True)
        series = figure_series.of(figure)
    beside = path.with_suffix(".json")
    if series is None:
        beside.unlink(missing_ok=True)
    else:
        beside.write_text(json.dumps({"name": name, **series}, separators=(",", ":")), encoding="utf-8")
    return path
