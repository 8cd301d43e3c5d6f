"""The page of a study's directory: a table of its points and figures over what was varied, from
`summary.parquet` alone. Nothing in the directory is executed, and no run is made.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from penstock import figures, report, results, scenario, stats
from penstock.runs import show
from penstock.studies import HEADLINE

#: What `penstock sweep --out DIR` and `Study.save` write.
TABLE = "summary.parquet"
_MOST_FIGURES = 3
_MOST_CURVES = 8


def is_study(folder: Path) -> bool:
    """Whether a directory is a study's: it has the table of its points, and is no run's."""
    return (folder / TABLE).is_file() and not (folder / "run.json").exists()


def write(folder: Path, path: Path) -> Path:
    """Write the page of the study in `folder` to `path`; the path. Raises ScenarioError for a table that is
    no study's, OSError.
    """
    try:
        frame = pl.read_parquet(folder / TABLE)
    except (OSError, pl.exceptions.PolarsError) as problem:
        raise scenario.error(
            "study", folder / TABLE, f"must be a readable Parquet file ({problem})"
        ) from problem
    if "run" not in frame.columns:
        raise scenario.error("study", folder / TABLE, "must have a column run: this is no study's table")
    varied = frame.columns[: frame.columns.index("run")]
    shown = [key for key in HEADLINE if key in frame.columns and frame[key].is_not_null().any()]
    points = frame.partition_by(varied, maintain_order=True) if varied else [frame]
    with tempfile.TemporaryDirectory(prefix="penstock-") as drawn:
        page = report.Page(
            folder.resolve().name,
            f"{len(points)} points, {len(frame)} runs. Varied: {', '.join(varied) or 'nothing'}. "
            "Intervals are 95 % Student-t intervals over the runs of a point.",
            [
                report.Section("Figures", figures=_figures(points, varied, shown, Path(drawn))),
                report.Section("Points", tables=[_table(points, varied, shown)]),
            ],
            {"study": str(folder.resolve())},
        )
        made = report.write(page, Path(drawn) / "page.html").read_text("utf-8")
    results.put(path, made)
    return path


def _table(points: list[pl.DataFrame], varied: list[str], shown: list[str]) -> report.Table:
    rows = []
    for point in points:
        row = [str(point[key][0]) for key in varied] + [str(len(point))]
        for key in shown:
            half = stats.ci95(_numbers(point, key))
            ends = f" ± {show(key, half)}" if np.isfinite(half) else ""
            row.append(f"{show(key, stats.mean(_numbers(point, key)))}{ends}")
        rows.append(row)
    return report.Table([*varied, "runs", *shown], rows)


def _numbers(frame: pl.DataFrame, key: str) -> np.ndarray:
    return frame[key].cast(pl.Float64, strict=False).to_numpy()


def _figures(
    points: list[pl.DataFrame], varied: list[str], shown: list[str], folder: Path
) -> list[tuple[Path, str]]:
    """Curves over the first key with numbers, one for each combination of the others."""
    along = next((key for key in varied if points[0][key].dtype.is_numeric()), None)
    if along is None or len({point[along][0] for point in points}) < 2:
        return []
    others = [key for key in varied if key != along]
    curves: dict[str, list[pl.DataFrame]] = {}
    for point in points:
        label = ", ".join(f"{key} = {point[key][0]}" for key in others)
        curves.setdefault(label, []).append(point)
    left_out = f" The first {_MOST_CURVES} of {len(curves)} curves." if len(curves) > _MOST_CURVES else ""
    made = []
    for key in shown[:_MOST_FIGURES]:
        with figures.style():
            figure, (ax,) = figures.new()
            for i, (label, own) in enumerate(list(curves.items())[:_MOST_CURVES]):
                own = sorted(own, key=lambda point: point[along][0])
                mean = [stats.mean(_numbers(point, key)) for point in own]
                half = [stats.ci95(_numbers(point, key)) for point in own]
                figures.band(ax, [float(point[along][0]) for point in own], mean, half, label or key, i)
            ax.set_xlabel(along)
            ax.set_ylabel(key)
            figures.units(ax.yaxis, key)
            ax.set_ylim(bottom=0)
            if len(curves) > 1:
                figures.legend(ax, min(len(curves), _MOST_CURVES))
            made.append((figures.write(figure, folder, key), f"{key} over {along}.{left_out}"))
    return made
