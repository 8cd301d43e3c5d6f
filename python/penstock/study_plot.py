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
import matplotlib.cm
import matplotlib.colors
import matplotlib.ticker
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock import _engine, figures, scenario, sizes

if TYPE_CHECKING:
    from penstock.studies import Study

By = str | Sequence[str] | None

# Figures by name on the command line: how their keys are written, how many there may be, which must be swept.
FIGURES = {
    "curve": ("XKEY:YKEY[:BY]", 2, 3, (0, 2)),
    "heatmap": ("XKEY:YKEY:ZKEY", 3, 3, (0, 1)),
    "compare": ("YKEY:BY", 2, 2, (1,)),
    "slowdown": ("[:BY]", 0, 1, (0,)),
}

# Cells of a heat map that still have room for their numbers.
_MOST_WRITTEN = 120


def chosen(text: str, swept: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The figures of `sweep --plot` with their keys, in the order given. Raises ScenarioError for an unknown
    one, for a wrong number of keys, and for an axis that is not swept.
    """
    found = []
    for part in dict.fromkeys(part.strip() for part in text.split(",") if part.strip()):
        name, *given = (word.strip() for word in part.split(":"))
        if name not in FIGURES:
            raise scenario.error("--plot", name, f"must be one of {', '.join(FIGURES)}")
        form, least, most, axes = FIGURES[name]
        if not least <= len(given) <= most or not all(given):
            shape = f"{name}{form}" if form.startswith("[") else f"{name}:{form}"
            raise scenario.error("--plot", part, f"must be {shape}")
        for i in axes:
            if i < len(given) and given[i] not in swept:
                rule = f"{given[i]} is not swept; --over has {', '.join(swept)}"
                raise scenario.error("--plot", part, rule)
        found.append((name, given))
    if not found:
        raise scenario.error("--plot", text, f"must be one of {', '.join(FIGURES)}")
    return found


class StudyPlot:
    """The figures of a study; reached as `study.plot`."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def curve(self, x: str, y: str, by: By = None) -> Figure:
        """The summary key `y` over the swept key `x`, a line with its 95 % band per value of `by` (all other
        swept keys when None). More than eight lines get a panel each, with the others in pale behind; more
        than 24 are coloured by their order, without bands.

        Raises ScenarioError for a key that was not varied or measured, or when `by` leaves out one that
        varies.
        """
        study, key = self._study, self._study.swept_key(x, "x")
        study.known(y, "y")
        groups, words = self._groups([key], by), self._words(by, [key])
        order = self._ordered(key)
        title = f"{study.name}: {y}"
        with figures.style():
            if figures.MOST_TOLD_APART < len(groups) <= figures.MOST_PANELS:
                figure, axes = figures.panels(list(groups), f"{title}, by {words}", key, y)
            else:
                figure, axes = figures.new()
            for ax in axes:
                places = figures.places(ax, order, key)
            at = dict(zip(order, places, strict=True))
            series = []
            for number, (label, index) in enumerate(groups.items()):
                index = sorted(index, key=lambda i: order.index(study.texts(key)[i]))
                place = [at[study.texts(key)[i]] for i in index]
                mean = [study.sets[i].mean(y) for i in index]
                half = [study.sets[i].ci95(y) for i in index]
                series.append((number, label, place, mean, half))
            if len(axes) > 1:
                _apart(axes, series)
                for ax in axes:
                    ax.set_xlabel("")
            elif len(groups) > figures.MOST_TOLD_APART:
                figures.lines(axes[0], [found[:4] for found in series], words)
                _name(figure.axes[-1], list(groups))
            else:
                for number, label, place, mean, half in series:
                    figures.band(axes[0], place, mean, half, label, number)
                if len(groups) > 1:
                    figures.legend(axes[0], len(groups), words)
            means = [value for _, _, _, mean, _ in series for value in mean if math.isfinite(value)]
            for ax in axes:
                figures.units(ax.yaxis, y)
                if means and min(means) >= 0:
                    ax.set_ylim(bottom=0)
            if len(axes) == 1:
                axes[0].set_ylabel(y)
                axes[0].set_title(title)
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
            image = ax.imshow(cells, origin="lower", aspect="auto", cmap=figures.MAP, interpolation="nearest")
            ax.grid(False)
            for values, axis, label in ((columns, ax.xaxis, across), (rows, ax.yaxis, up)):
                step = max(1, math.ceil(len(values) / 16))
                axis.set_ticks(range(0, len(values), step), values[::step])
                axis.set_label_text(label)
            figures.units(figure.colorbar(image, ax=ax, label=z, pad=0.02).ax.yaxis, z)
            if cells.size <= _MOST_WRITTEN:
                for (row, column), value in np.ndenumerate(cells):
                    if np.isfinite(value):
                        ink = figures.ink_on(image.cmap(image.norm(value)))
                        ax.text(
                            column, row, figures.short(value), ha="center", va="center", color=ink, fontsize=8
                        )
            ax.set_title(f"{study.name}: {z}")
        return figure

    def compare(self, key: str, by: str) -> Figure:
        """Mean and 95 % interval of the summary key `key` for each value of the swept key `by`, a row each; a
        mark per combination of the other swept keys. More than eight combinations are coloured by their
        order, dark to light; more than 24 have a colour bar in place of a legend.

        Raises ScenarioError for a key that was not varied or measured.
        """
        study, swept = self._study, self._study.swept_key(by, "by")
        study.known(key)
        order, groups = self._ordered(swept), self._groups([swept], None)
        many = len(groups) > figures.MOST_TOLD_APART
        with figures.style():
            rows = len(order) * (1 if len(groups) == 1 else min(4.0, 0.5 + 0.25 * len(groups)))
            figure, (ax,) = figures.new(height=max(2.6, min(9.0, 1.4 + 0.42 * rows)))
            for number, (label, index) in enumerate(groups.items()):
                shift = 0.0 if len(groups) == 1 else 0.7 * (number / (len(groups) - 1) - 0.5)
                place = [order.index(study.texts(swept)[i]) + shift for i in index]
                look = figures.look(number) | {"linestyle": "none"}
                if many:
                    look["color"] = figures.shade(number / (len(groups) - 1))
                half = np.nan_to_num([study.sets[i].ci95(key) for i in index])
                mean = [study.sets[i].mean(key) for i in index]
                # Student's t knows nothing of zero; nothing that is measured here is below it.
                low = np.minimum(half, mean) if min(mean) >= 0 else half
                ax.errorbar(mean, place, xerr=[low, half], capsize=3, label=label, **look)
            ax.set_yticks(range(len(order)), order)
            ax.set_ylim(len(order) - 0.45, -0.55)
            ax.set(xlabel=key, ylabel=swept)
            figures.units(ax.xaxis, key)
            ax.xaxis.set_major_locator(mpl.ticker.MaxNLocator(6))
            others = self._words(None, [swept])
            if len(groups) > figures.MOST_PANELS:
                colours = [figures.shade(i / (len(groups) - 1)) for i in range(len(groups))]
                shades = mpl.cm.ScalarMappable(
                    mpl.colors.Normalize(-0.5, len(groups) - 0.5), mpl.colors.ListedColormap(colours)
                )
                figure.colorbar(shades, ax=ax, label=others, pad=0.02)
                _name(figure.axes[-1], list(groups))
            elif len(groups) > 1:
                figures.legend(ax, len(groups), others)
            ax.set_title(f"{study.name}: {key}, 95 % intervals")
        return figure

    def slowdown(self, by: By = None, *, bins: int = 10, table: str | None = None) -> Figure:
        """Draw slowdown by size: completion time over that of the same transfer in the idle network. There
        are median and 99th percentile in `bins` classes of about equally many flows, with 95 % bands over the
        runs, and a line per value of `by` (all swept keys when None). Hollow marks have fewer flows per run
        than the percentile needs (100 for the 99th), so that it is about the largest value. More than eight
        lines get a panel each, with both.

        `table` is "flows" or "transfers", None whichever holds something completed; the study must have kept
        it. Raises NotRecorded when it was not kept or nothing of it was completed; ScenarioError as `curve`.
        """
        study, groups, words = self._study, self._groups([], by), self._words(by, [])
        per_point = study.completed(table)
        borders = sizes.edges(np.concatenate([part["size_bytes"].to_numpy() for part in per_point]), bins)
        found = []
        for label, index in groups.items():
            # Runs of different points are different runs.
            rows = pl.concat(
                [per_point[i].with_columns(pl.format(f"{i} {{}}", pl.col("run")).alias("run")) for i in index]
            )
            runs = sum(len(study.sets[i].runs) for i in index)
            found.append((label, sizes.quantiles(rows, borders), runs))
        with figures.style():
            if figures.MOST_TOLD_APART < len(groups) <= figures.MOST_PANELS:
                title = f"{study.name}: slowdown by size, by {words}"
                figure, axes = figures.panels(list(groups), title, "size (bytes)", "slowdown")
                for ax, (_, by_class, runs) in zip(axes, found, strict=True):
                    for i, name in enumerate(("p50", "p99")):
                        figures.by_size(ax, by_class, f"slowdown_{name}", name, i, runs)
                axes[0].legend(fontsize=8.0)
                figures.log_x(axes[0], bytes_=True)
                return figure
            figure, axes = figures.new(1, 2, width=9.4, sharex=True)
            for ax, name, title in zip(axes, ("p50", "p99"), ("median", "99th percentile"), strict=True):
                if len(groups) > figures.MOST_TOLD_APART:
                    series = [
                        (i, label, by_class["size_bytes"], by_class[f"slowdown_{name}"])
                        for i, (label, by_class, _) in enumerate(found)
                    ]
                    figures.lines(ax, series, words)
                    _name(figure.axes[-1], list(groups))
                else:
                    for i, (label, by_class, runs) in enumerate(found):
                        figures.by_size(ax, by_class, f"slowdown_{name}", label, i, runs)
                figures.log_x(ax, bytes_=True)
                ax.set(xlabel="size (bytes)", ylabel="slowdown", title=f"{study.name}: {title}")
            if 1 < len(groups) <= figures.MOST_TOLD_APART:
                figures.legend(axes[0], len(groups), words)
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


def _apart(axes: Sequence[Axes], series: Sequence[tuple[int, str, Any, Any, Any]]) -> None:
    """Every line with its band in a panel of its own, the others in pale behind it."""
    for ax, (number, label, place, mean, half) in zip(axes, series, strict=True):
        for other in series:
            if other[0] != number:
                ax.plot(other[2], other[3], color=figures.PALE, linewidth=0.7, zorder=1)
        figures.band(ax, place, mean, half, label, 0)


def _name(bar: Axes, labels: Sequence[str]) -> None:
    """Name the colours of a bar over 0, 1, 2, ..., as far as there is room."""
    step = math.ceil(len(labels) / 12)
    bar.set_yticks(range(0, len(labels), step), labels[::step])
