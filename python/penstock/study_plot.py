"""Figures of a study: `study.plot.curve(x, y, by)`, `.heatmap(x, y, z)`, `.compare(key, by)`,
`.slowdown(by)`.

Each returns a matplotlib Figure, which a notebook shows by itself. Lines and bands are means and 95 %
Student-t intervals over the replications.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import matplotlib.ticker
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from numpy.typing import NDArray

from penstock import _engine, figures, scenario, stats
from penstock.runs import show

if TYPE_CHECKING:
    from penstock.studies import Study

By = str | Sequence[str] | None

# Cells of a heat map that still have room for their numbers.
_MOST_WRITTEN = 120
# Relative luminance above which black is the better ink.
_BRIGHT = 0.45
# Dark to light throughout: the order survives a greyscale printer.
_MAP = "viridis"


class StudyPlot:
    """The figures of a study; reached as `study.plot`."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def curve(self, x: str, y: str, by: By = None) -> Figure:
        """The summary key `y` over the swept key `x`, a line with its 95 % band per value of `by` (all other
        swept keys when None). More than eight lines are coloured by their order, without bands.

        Raises ScenarioError for a key that was not varied or measured, or when `by` leaves out one that
        varies.
        """
        study, key = self._study, self._study.swept_key(x, "x")
        study.known(y, "y")
        groups = self._groups([key], by)
        order = self._ordered(key)
        with figures.style():
            figure, (ax,) = figures.new()
            at = dict(zip(order, figures.places(ax, order, key), strict=True))
            series = []
            for number, (label, index) in enumerate(groups.items()):
                index = sorted(index, key=lambda i: order.index(study.texts(key)[i]))
                place = [at[study.texts(key)[i]] for i in index]
                mean = [study.sets[i].mean(y) for i in index]
                series.append((number, label, place, mean))
                if len(groups) <= figures.MOST_TOLD_APART:
                    half = [study.sets[i].ci95(y) for i in index]
                    figures.band(ax, place, mean, half, label, number)
            if len(groups) > figures.MOST_TOLD_APART:
                figures.lines(ax, series, self._words(by, [key]))
                _name(figure.axes[-1], list(groups))
            elif len(groups) > 1:
                ax.legend(title=self._words(by, [key]), ncols=1 + len(groups) // 5)
            ax.set_ylabel(y)
            _with_units(ax.yaxis, y)
            means = [value for *_, values in series for value in values if math.isfinite(value)]
            if means and min(means) >= 0:
                ax.set_ylim(bottom=0)
            ax.set_title(f"{study.name}: {y}")
        return figure

    def heatmap(self, x: str, y: str, z: str) -> Figure:
        """The mean of the summary key `z` over the swept keys `x` and `y`, dark for little and light for
        much; the numbers in the cells where there is room. Points that were not run stay blank.

        Raises ScenarioError for a key that was not varied or measured, or when a third key varies.
        """
        study = self._study
        across, up = study.swept_key(x, "x"), study.swept_key(y, "y")
        study.known(z, "z")
        self._groups([across, up], [])
        columns, rows = self._ordered(across), self._ordered(up)
        cells = np.full((len(rows), len(columns)), np.nan)
        for i, found in enumerate(study.sets):
            cells[rows.index(study.texts(up)[i]), columns.index(study.texts(across)[i])] = found.mean(z)
        with figures.style():
            figure, (ax,) = figures.new(height=max(3.2, min(7.0, 1.8 + 0.38 * len(rows))))
            image = ax.imshow(cells, origin="lower", aspect="auto", cmap=_MAP, interpolation="nearest")
            ax.grid(False)
            for values, axis, label in ((columns, ax.xaxis, across), (rows, ax.yaxis, up)):
                step = max(1, math.ceil(len(values) / 16))
                axis.set_ticks(range(0, len(values), step), values[::step])
                axis.set_label_text(label)
            _with_units(figure.colorbar(image, ax=ax, label=z, pad=0.02).ax.yaxis, z)
            if cells.size <= _MOST_WRITTEN:
                for (row, column), value in np.ndenumerate(cells):
                    if np.isfinite(value):
                        red, green, blue, _ = image.cmap(image.norm(value))
                        bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue > _BRIGHT
                        ink = "black" if bright else "white"
                        ax.text(column, row, _short(value), ha="center", va="center", color=ink, fontsize=8)
            ax.set_title(f"{study.name}: {z}")
        return figure

    def compare(self, key: str, by: str) -> Figure:
        """Mean and 95 % interval of the summary key `key` for each value of the swept key `by`, a row each; a
        mark per combination of the other swept keys. More than eight are coloured by their order.

        Raises ScenarioError for a key that was not varied or measured.
        """
        study, swept = self._study, self._study.swept_key(by, "by")
        study.known(key)
        order, groups = self._ordered(swept), self._groups([swept], None)
        many = len(groups) > figures.MOST_TOLD_APART
        colours = mpl.colormaps[_MAP](np.linspace(0, 0.88, len(groups)))
        with figures.style():
            rows = len(order) * (1 if len(groups) == 1 else min(4.0, 0.5 + 0.25 * len(groups)))
            figure, (ax,) = figures.new(height=max(2.6, min(9.0, 1.4 + 0.42 * rows)))
            for number, (label, index) in enumerate(groups.items()):
                shift = 0.0 if len(groups) == 1 else 0.7 * (number / (len(groups) - 1) - 0.5)
                place = [order.index(study.texts(swept)[i]) + shift for i in index]
                look: dict[str, Any] = (
                    {"color": colours[number], "marker": "o"} if many else figures.look(number)
                )
                look["linestyle"] = "none"
                half = np.nan_to_num([study.sets[i].ci95(key) for i in index])
                mean = [study.sets[i].mean(key) for i in index]
                ax.errorbar(mean, place, xerr=half, capsize=3, label=label, **look)
            ax.set_yticks(range(len(order)), order)
            ax.set_ylim(len(order) - 0.45, -0.55)
            ax.set(xlabel=key, ylabel=swept)
            _with_units(ax.xaxis, key)
            ax.xaxis.set_major_locator(mpl.ticker.MaxNLocator(6))
            others = self._words(None, [swept])
            if many:
                shades = mpl.cm.ScalarMappable(
                    mpl.colors.Normalize(-0.5, len(groups) - 0.5), mpl.colors.ListedColormap(colours)
                )
                figure.colorbar(shades, ax=ax, label=others, pad=0.02)
                _name(figure.axes[-1], list(groups))
            elif len(groups) > 1:
                ax.legend(title=others, ncols=1 + len(groups) // 5)
            ax.set_title(f"{study.name}: {key}, 95 % intervals")
        return figure

    def slowdown(self, by: By = None, *, bins: int = 10, table: str = "flows") -> Figure:
        """Slowdown (completion time over that of the same transfer alone) by size: median and 99th percentile
        in `bins` classes of equally many flows, with 95 % bands over the runs, a line per value of `by` (all
        swept keys when None). `table` is "flows" or "transfers"; the study must have kept it.

        Raises KeyError when it was not kept or nothing of it was completed; ScenarioError as `curve` does.
        """
        study, groups = self._study, self._groups([], by)
        found = {
            i: runs.table(table)
            .filter(pl.col("slowdown").is_finite())
            .select("run", "size_bytes", "slowdown")
            for i, runs in enumerate(study.sets)
        }
        sizes = np.concatenate([part["size_bytes"].to_numpy() for part in found.values()])
        if not sizes.size:
            raise KeyError(f"no completed {table} of known size in these runs")
        # Most workloads repeat a few sizes: an edge that comes twice is one.
        edges = np.unique(np.quantile(sizes, np.linspace(0, 1, bins + 1)[1:-1], method="nearest"))
        with figures.style():
            figure, axes = figures.new(1, 2, width=9.4, sharex=True)
            for ax, share, title in zip(axes, (0.5, 0.99), ("median", "99th percentile"), strict=True):
                series = []
                for number, (label, index) in enumerate(groups.items()):
                    rows = pl.concat(
                        [found[i].with_columns(pl.lit(i, dtype=pl.Int64).alias("point")) for i in index]
                    )
                    place, mean, half = _by_size(rows, edges, share)
                    series.append((number, label, place, mean))
                    if len(groups) <= figures.MOST_TOLD_APART:
                        figures.band(ax, place, mean, half, label, number)
                if len(groups) > figures.MOST_TOLD_APART:
                    figures.lines(ax, series, self._words(by, []))
                    _name(figure.axes[-1], list(groups))
                elif len(groups) > 1 and ax is axes[0]:
                    ax.legend(title=self._words(by, []), ncols=1 + len(groups) // 5)
                figures.log_x(ax)
                ax.set(xlabel="size (bytes)", ylabel="slowdown", title=f"{study.name}: {title}")
        return figure

    def _groups(self, axes: Sequence[str], by: By) -> dict[str, list[int]]:
        """Numbers of the points by the values of `by` (all keys but `axes` when None), in the order given.

        Raises ScenarioError when a key that varies is neither an axis nor in `by`.
        """
        study = self._study
        varied = [key for key in study.keys if key not in axes and len(set(study.texts(key))) > 1]
        wanted = [by] if isinstance(by, str) else by
        keys = varied if wanted is None else [study.swept_key(name, "by") for name in wanted]
        for key in varied:
            if key not in keys:
                rule = "varies too: name it in `by`, or choose points with study.where(...)"
                raise scenario.error(key, f"{len(set(study.texts(key)))} values", rule)
        groups: dict[str, list[int]] = {}
        for i in range(len(study.points)):
            groups.setdefault(", ".join(study.texts(key)[i] for key in keys), []).append(i)
        return groups

    def _words(self, by: By, axes: Sequence[str]) -> str:
        """What tells the lines apart."""
        study = self._study
        if by is not None:
            return by if isinstance(by, str) else ", ".join(by)
        return ", ".join(k for k in study.keys if k not in axes and len(set(study.texts(k))) > 1)

    def _ordered(self, key: str) -> list[str]:
        """The values of a swept key: numbers by size, anything else in the order given."""
        texts = list(dict.fromkeys(self._study.texts(key)))
        found = {text: _engine.quantity(text) for text in texts}
        if any(quantity is None for quantity in found.values()):
            return texts
        return sorted(texts, key=lambda text: found[text][0])  # type: ignore[index]


def _by_size(
    rows: pl.DataFrame, edges: NDArray[Any], share: float
) -> tuple[list[float], list[float], list[float]]:
    """Per class of sizes: its median, and mean and 95 % half-width over runs of a quantile of slowdown."""
    classes = np.searchsorted(edges, rows["size_bytes"].to_numpy(), side="left")
    rows = rows.with_columns(pl.Series("class", classes))
    place, mean, half = [], [], []
    for (_,), part in rows.group_by("class", maintain_order=True):
        quantiles = part.group_by("point", "run", maintain_order=True).agg(
            pl.col("slowdown").quantile(share, interpolation="linear")
        )["slowdown"]
        place.append(float(np.median(part["size_bytes"].to_numpy())))
        mean.append(stats.mean(quantiles))
        half.append(stats.ci95(quantiles))
    order = np.argsort(place)
    return ([place[i] for i in order], [mean[i] for i in order], [half[i] for i in order])


def _with_units(axis: Axis, key: str) -> None:
    """Write rates and times on an axis as people do: 800 Mb/s, 5 ms."""
    if key.endswith(("_bps", "_s")):
        axis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: show(key, value)))


def _name(bar: Axes, labels: Sequence[str]) -> None:
    """Name the colours of a bar over 0, 1, 2, ..., as far as there is room."""
    step = math.ceil(len(labels) / 12)
    bar.set_yticks(range(0, len(labels), step), labels[::step])


def _short(value: float) -> str:
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"
