"""One plotting style: data in, figure out. Nothing here simulates.

Series are told apart three times over, by colour (safe for colour-blind readers), line style and marker, so
that a figure survives a greyscale printer. Uncertainty is a band.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

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

# Text and axes. The HTML report replaces it by the reader's own text colour (light or dark page).
INK = "#1c1f24"

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


def new(
    rows: int = 1, columns: int = 1, *, width: float = 6.6, height: float = 4.1, **kwargs: Any
) -> tuple[Figure, list[Axes]]:
    """A styled figure and its axes as a flat list; `width`, `height` in inches. Call inside `style()`."""
    figure = Figure(figsize=(width, height))
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
    low = m - h
    if ax.get_yscale() == "log":
        # A band that reaches zero would vanish from a log axis altogether: it ends a decade below the mean.
        low = np.maximum(low, m / 10)
    ax.fill_between(
        np.asarray(x, dtype=float), low, m + h, color=PALETTE[i % len(PALETTE)], alpha=0.18, linewidth=0
    )


def write(figure: Figure, folder: Path, name: str) -> Path:
    """Write `figure` as `name`.png and `name`.svg under `folder`, and return the path of the PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    with style():
        path = folder / f"{name}.png"
        figure.savefig(path, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None}, transparent=True)
    return path
