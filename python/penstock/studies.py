"""Studies: one scenario at many points, with a store, so that what is finished is never run again.

>>> study = penstock.study("incast", over={"servers": "4..32:8", "protocol": "newreno,dctcp"}, runs=5,
...                        store="out/incast")
>>> study.mean()                                        # a polars DataFrame, one row per point
>>> study.plot.curve("servers", "goodput_bps", by="protocol")

All points share seed and run numbers (common random numbers), so `Study.paired` compares them run by run.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock import grid, results, scenario, sizes, stats, sweeps
from penstock.console import Bar, note
from penstock.runs import NotRecorded, RunSet, cause, in_pandas, show
from penstock.store import Store
from penstock.study_work import Until, Work, missing, plan

if TYPE_CHECKING:
    from penstock.study_plot import StudyPlot

# What a table for people shows of the summary, as far as it is there.
HEADLINE = (
    "goodput_bps",
    "fct_p99_s",
    "queue_mean_packets",
    "timeouts",
    "drops",
    "utilisation",
    "fct_mean_s",
    "queue_max_packets",
)
_MOST_ROWS_SHOWN = 60


@dataclass(frozen=True)
class Study:
    """What the points of a study measured. `points` are the swept values as given, `sets` the runs of each.

    `ran` counts its new runs, of which `unstored` did not fit on the disk, and `stored` those from its store.
    `problems` lists errors other than those of runs: damaged entries, a full disk.
    """

    name: str
    seed: int
    keys: tuple[str, ...]
    points: tuple[dict[str, Any], ...]
    sets: tuple[RunSet, ...] = field(repr=False)
    until: Until | None = None
    ran: int = 0
    stored: int = 0
    unstored: int = 0
    problems: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> dict[str, str]:
        """The column of each swept key: its name, with the unit where its values are numbers of one."""
        return {key: column.name for key, column in zip(self.keys, self._swept, strict=True)}

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per point and run: the swept keys, `run`, every summary key, `bottleneck`; `reached` under
        adaptive replication.

        A swept key is a number if all its values are numbers of one unit, with which its column's name then
        ends (`rto_min_s`); otherwise it is text. The prefix `set_` avoids a clash with a summary key.
        """
        rows = [(i, run) for i, found in enumerate(self.sets) for run in found.runs]
        index = pl.Series([i for i, _ in rows], dtype=pl.UInt32)
        columns = [column.gather(index) for column in self._swept]
        columns.append(pl.Series("run", [run.run for _, run in rows], dtype=pl.Int64))
        if self.until is not None:
            columns.append(pl.Series("reached", [self._reached[i] for i, _ in rows], dtype=pl.Boolean))
        columns += [_measured(key, [run.summary.get(key) for _, run in rows]) for key in self._measured_keys]
        columns.append(pl.Series("bottleneck", [run.bottleneck for _, run in rows], dtype=pl.String))
        return pl.DataFrame(columns)

    def mean(self) -> pl.DataFrame:
        """One row per point: the swept keys, `runs`, and of every numeric summary key its mean and the
        half-width of its 95 % Student-t interval (`KEY_ci95`); NaN where there is none.
        """
        columns = list(self._swept)
        columns.append(pl.Series("runs", [len(found.runs) for found in self.sets], dtype=pl.Int64))
        if self.until is not None:
            columns.append(pl.Series("reached", self._reached, dtype=pl.Boolean))
        both = [stats.over_runs(found.summaries) for found in self.sets]
        for key in self._measured_keys:
            if any(key in means for means, _ in both):
                nan = math.nan
                columns.append(pl.Series(key, [m.get(key, nan) for m, _ in both], dtype=pl.Float64))
                columns.append(pl.Series(f"{key}_ci95", [h.get(key, nan) for _, h in both], dtype=pl.Float64))
        return pl.DataFrame(columns)

    def to_pandas(self) -> Any:
        """`frame` as a pandas DataFrame. Raises ImportError, naming the extra, where pandas is missing."""
        return in_pandas(self.frame)

    def where(self, **chosen: Any) -> Study:
        """The points at which the swept keys have these values. Raises ScenarioError where there are none."""
        index = range(len(self.points))
        for key, value in chosen.items():
            texts = self.texts(key)
            index = [i for i in index if texts[i] == _word(value)]  # type: ignore[assignment]
            if not index:
                known = ", ".join(dict.fromkeys(texts))
                raise scenario.error(key, value, f"is at none of these points; there are: {known}")
        points = tuple(self.points[i] for i in index)
        return replace(self, points=points, sets=tuple(self.sets[i] for i in index))

    def paired(self, key: str, by: str | Sequence[str], baseline: Any) -> pl.DataFrame:
        """Differences of the summary key `key` to the points where the swept key `by` is `baseline`.

        Common random numbers: run i of a point is compared with run i of the baseline point that has the same
        values of all other swept keys. `by` may list several keys that change together, such as
        `["protocol", "queue"]`; `baseline` is then a value of the first. One row per point that is no
        baseline: swept keys, mean `difference`, half-width `ci95` of its 95 % Student-t interval, its ends
        `low` and `high`, and `n` pairs. Raises ScenarioError for an unknown key or value, for a baseline
        that is several points, and where a point has no baseline with the same other keys.
        """
        self.known(key)
        together = [by] if isinstance(by, str) else list(by)
        if not together:
            raise scenario.error("by", "", "must name a swept key, or several that change together")
        chosen = [self.swept_key(name, "by") for name in together]
        texts = self.texts(chosen[0])
        if _word(baseline) not in texts:
            known = ", ".join(dict.fromkeys(texts))
            rule = f"is no value of {together[0]} here; there are: {known}"
            raise scenario.error("baseline", baseline, rule)
        others, bases = self._baselines(chosen, _word(baseline))
        index, rows = [], []
        for i, found in enumerate(self.sets):
            if texts[i] == _word(baseline):
                continue
            base = {run.run: stats.number(run.summary.get(key)) for run in bases[others[i]].runs}
            pairs = [
                stats.number(run.summary.get(key)) - base[run.run] for run in found.runs if run.run in base
            ]
            pairs = [difference for difference in pairs if math.isfinite(difference)]
            mean, half = stats.mean(pairs), stats.ci95(pairs)
            index.append(i)
            rows.append((mean, half, mean - half, mean + half, len(pairs)))
        names = ("difference", "ci95", "low", "high")
        columns = [column.gather(pl.Series(index, dtype=pl.UInt32)) for column in self._swept]
        columns += [
            pl.Series(name, [row[j] for row in rows], dtype=pl.Float64) for j, name in enumerate(names)
        ]
        return pl.DataFrame([*columns, pl.Series("n", [row[4] for row in rows], dtype=pl.Int64)])

    def _baselines(
        self, chosen: Sequence[str], baseline: str
    ) -> tuple[list[tuple[str, ...]], dict[tuple[str, ...], RunSet]]:
        """By point the values of the keys that are not `chosen`, and the baseline's runs by these values.
        Raises ScenarioError where a point has no baseline, or two.
        """
        texts, rest = self.texts(chosen[0]), [k for k in self.keys if k not in chosen]
        others = list(zip(*(self.texts(k) for k in rest), strict=True)) or [()] * len(self.points)
        bases: dict[tuple[str, ...], RunSet] = {}
        for found, text, values in zip(self.sets, texts, others, strict=True):
            if text == baseline and values in bases:
                rule = f"is several points that differ in {', '.join(chosen[1:])}; choose one with where()"
                raise scenario.error("baseline", baseline, rule)
            if text == baseline:
                bases[values] = found
        alone = [i for i, text in enumerate(texts) if text != baseline and others[i] not in bases]
        if not alone:
            return others, bases
        first = alone[0]
        differ = [
            (key, there, here)
            for key, there, here in zip(rest, next(iter(bases)), others[first], strict=True)
            if there != here
        ]
        keys, verb = [key for key, _, _ in differ], "differs" if len(differ) == 1 else "differ"
        listed = ", ".join(f'"{key}"' for key in [*chosen, *keys])
        here = ", ".join(f"{key}={value}" for key, _, value in differ)
        there = ", ".join(f"{key}={value}" for key, value, _ in differ)
        rule = (
            f"leaves {len(alone)} of {len(self.points)} points without a baseline, as {', '.join(keys)} "
            f"{verb} too ({here} at {chosen[0]}={texts[first]}, {there} at the baseline): "
            f"by=[{listed}] compares what changes together, and where() leaves points out"
        )
        raise scenario.error("by", ", ".join(chosen), rule)

    def completed(self, table: str | None = None, value: str = "slowdown") -> list[pl.DataFrame]:
        """Per point `run`, `size_bytes` and `value` of what was completed: of `table`, or of flows where any
        was completed at any point and otherwise of transfers. Raises as `RunSet.by_size`.
        """
        problem: NotRecorded | None = None
        for name in sizes.SIZE if table is None else [table]:
            found = []
            for runs in self.sets:
                try:
                    found.append(sizes.completed(runs, name, value)[0])
                except NotRecorded as missing:
                    problem = problem or missing
                    found.append(
                        pl.DataFrame(schema={"run": pl.UInt32, "size_bytes": pl.UInt64, value: pl.Float64})
                    )
            if any(part.height for part in found):
                return found
        raise problem or NotRecorded("this study has no runs")

    def by_size(
        self,
        value: str = "slowdown",
        *,
        table: str | None = None,
        bins: int = 10,
        shares: Sequence[float] = (0.5, 0.99),
    ) -> pl.DataFrame:
        """As `RunSet.by_size`, a row per point and class; all points have the same classes. The study must
        have kept the table (`keep=["flows"]`).
        """
        parts = self.completed(table, value)
        borders = sizes.edges(np.concatenate([part["size_bytes"].to_numpy() for part in parts]), bins)
        found = []
        for i, part in enumerate(parts):
            classes = sizes.quantiles(part, borders, shares, value)
            index = pl.Series([i] * classes.height, dtype=pl.UInt32)
            found.append(pl.DataFrame([column.gather(index) for column in self._swept]).hstack(classes))
        return pl.concat(found)

    @property
    def warnings(self) -> list[str]:
        """What to know before trusting the numbers, a line each; a line that not all points share names its
        points, one that differs in its figures alone stands once. First the points that adaptive replication
        gave up on.
        """
        found: list[str] = list(self.problems)
        if self.until is not None:
            key, share, most = self.until
            late = [i for i, reached in enumerate(self._reached) if not reached]
            if late:
                rule = f"the 95 % interval of {key} is wider than {share:g} of the mean after {most} runs"
                found.append(self._of_points(late, rule))
        # Lines that differ in their figures alone are one warning, told as its first point has it.
        alike: dict[str, tuple[str, list[int]]] = {}
        for i, runs in enumerate(self.sets):
            for run in runs.runs:
                for text in replace(runs, runs=(run,)).warnings:
                    _, index = alike.setdefault(cause(text), (text, []))
                    if not index or index[-1] != i:
                        index.append(i)
        return found + [self._of_points(index, text) for text, index in alike.values()]

    @property
    def plot(self) -> StudyPlot:
        """Figures: `.plot.curve(x, y, by)`, `.plot.heatmap(x, y, z)`, `.plot.compare(key, by)`,
        `.plot.slowdown(by)`.
        """
        from penstock.study_plot import StudyPlot

        return StudyPlot(self)

    def document(self) -> list[dict[str, Any]]:
        """The study for JSON: per point `point`, `mean`, `ci95`, `runs` (of `run`, `summary`), the CPU
        seconds of each run (`cpu_s`, measured when it was made) among its summary keys.
        """
        found: list[dict[str, Any]] = []
        for point, runs in zip(self.points, self.sets, strict=True):
            whole = results.document(results.timed(runs))
            kept = {key: whole[key] for key in ("mean", "ci95", "runs")}
            reached = {"reached": self._reached[len(found)]} if self.until is not None else {}
            found.append({"point": point, **kept, **reached})
        return found

    def save(self, folder: str | Path) -> Path:
        """Write `frame` as summary.parquet and summary.csv into `folder`, and return its path. Raises
        OSError.
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        try:
            with results.new(path / "summary.parquet") as beside:
                self.frame.write_parquet(beside)
        except (OSError, pl.exceptions.PolarsError) as problem:
            raise results.NotWritten(f"{path / 'summary.parquet'} cannot be written ({problem})") from problem
        results.put(path / "summary.csv", self.frame.write_csv())
        return path

    def label(self, i: int, keys: Sequence[str] | None = None) -> str:
        """The values of point `i` in words, of all swept keys or of `keys`."""
        return ", ".join(f"{key} = {self.texts(key)[i]}" for key in (self.keys if keys is None else keys))

    def known(self, key: str, role: str = "key") -> None:
        """Raise ScenarioError when no run has the summary key `key`."""
        if key not in self._measured_keys:
            rule = f"is no summary key here; there are: {', '.join(self._measured_keys)}"
            raise scenario.error(role, key, rule)

    def texts(self, key: str) -> list[str]:
        """The values of a swept key in words, by point."""
        return self._words[self.swept_key(key, "key")]

    def swept_key(self, name: str, role: str) -> str:
        """The swept key of this name or of this column. Raises ScenarioError naming `role` without one."""
        for key, column in self.columns.items():
            if name in (key, column):
                return key
        raise scenario.error(role, name, f"was not varied; varied are: {', '.join(self.keys)}")

    @cached_property
    def _values(self) -> dict[str, list[Any]]:
        # A list of points need not name every key everywhere: there the scenario's own value holds.
        return {
            key: [
                point[key] if key in point else runs.scenario.get("set", {}).get(key, "")
                for point, runs in zip(self.points, self.sets, strict=True)
            ]
            for key in self.keys
        }

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        return {key: [_word(value) for value in values] for key, values in self._values.items()}

    @cached_property
    def _swept(self) -> list[pl.Series]:
        kinds = grid.kinds(next((found.scenario for found in self.sets if found.runs), {}))
        taken = {"run", "runs", "reached", "bottleneck", *self._measured_keys}
        found = [grid.column(key, self._words[key], kinds.get(key, "")) for key in self.keys]
        return [c.alias(f"set_{c.name}") if c.name in taken else c for c in found]

    @cached_property
    def _measured_keys(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for found in self.sets for run in found.runs for key in run.summary))

    @cached_property
    def _reached(self) -> list[bool]:
        return [self.until is not None and missing(runs, self.until) == 0 for runs in self.sets]

    def _of_points(self, index: Sequence[int], text: str) -> str:
        if len(index) == len(self.points):
            return text
        varied = [key for key in self.keys if len(set(self._words[key])) > 1]
        for key in varied:
            values = {self._words[key][i] for i in index}
            if len(values) == 1 and self._words[key].count(value := values.pop()) == len(index):
                return f"{key} = {value}: {text}"
        if len(index) <= 3:
            return f"{'; '.join(self.label(i, varied) for i in index)}: {text}"
        return f"{len(index)} of {len(self.points)} points ({self.label(index[0], varied)}; ...): {text}"

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """The means for people: headings and one row of texts per point."""
        shown = [key for key in HEADLINE if key in self._measured_keys]
        if self.until is not None and self.until[0] not in shown:
            shown.insert(0, self.until[0])
        rows = []
        for i, found in enumerate(self.sets):
            row = [self._words[key][i] for key in self.keys] + [str(len(found.runs))]
            for key in shown:
                interval = found.interval(key) if found.runs else ""
                ends = f"({interval})" if interval and not interval.startswith("±") else interval
                row.append(f"{show(key, found.summary.get(key, math.nan))} {ends}".strip())
            rows.append(row)
        return [*self.keys, "runs", *shown], rows

    def _repr_html_(self) -> str:
        headings, rows = self.rows()
        head = "".join(f"<th>{html.escape(text)}</th>" for text in headings)
        cell = "<td style='white-space:nowrap;padding-right:1em'>"
        body = "".join(
            f"<tr>{''.join(f'{cell}{html.escape(text)}</td>' for text in row)}</tr>"
            for row in rows[:_MOST_ROWS_SHOWN]
        )
        more = len(rows) - _MOST_ROWS_SHOWN
        left = f"<div>{more} more points: see <code>.mean()</code></div>" if more > 0 else ""
        warned = "".join(f"<div>&#9888; {html.escape(text)}</div>" for text in self.warnings)
        return (
            f"<div><b>{html.escape(self.name)}</b>, {len(self.points)} points, seed {self.seed}{warned}"
            "<div style='overflow-x:auto'>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{left}</div>"
        )


def study(
    name: scenario.Scenario,
    over: Mapping[str, grid.Values] | None = None,
    *,
    points: Iterable[Mapping[str, Any]] | None = None,
    sample: tuple[str, int] | None = None,
    runs: int | None = None,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    store: str | Path | None = None,
    executor: sweeps.Workers | None = None,
    jobs: int | None = None,
    until: Until | None = None,
    keep: Iterable[str] = (),
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] = note,
) -> Study:
    """Run a scenario (name, TOML file or `penstock.Network`) at many points and return what all of them
    measured.

    `over` gives each key its values: a list, "V1,V2", or a range "A..B:N" ("100us..10ms:5:log") of N values
    in A's unit; the points are all combinations, the last key fastest. `sample=("latin", n)` draws n points
    of a Latin hypercube over ranges "A..B" instead. `points` is a list of settings in place of `over`.
    `settings` hold at every point. Each point runs `runs` times (1), or, with `until=(key, share, most)`, at
    least five and at most `most` times until the 95 % interval's half-width of the summary key is at most
    `share` of its mean.

    `store` is a directory that keeps every finished run: a study that was interrupted, killed or extended
    runs only what is not there. `executor` as in `penstock.sweep`; `keep` names tables to hold on to. A
    progress bar appears on a terminal unless `on_progress` hears the finished fraction; `on_note` is told, in
    a line, why runs of the store are made again (their tables were not kept). Raises ScenarioError before
    anything runs when a point is wrong; RunFailed and Interrupted have the finished runs in `.study`.
    """
    chosen = plan(name, over, points, sample, runs, seed, settings, until)
    kept, workers = sweeps.tables(keep), sweeps.worker_count(jobs)
    work = Work(chosen, Store(store) if store is not None else None, kept)
    with Bar(str(name)) as bar:
        stop = work.fill(executor, workers, on_progress or bar, on_note)
    found = _measured_by(work)
    if isinstance(stop, KeyboardInterrupt):
        raise sweeps.RunInterruptedError(list(found.sets), found)
    if stop is not None:
        raise sweeps.RunError(str(stop), list(found.sets), found) from stop.__cause__
    return found


def _measured_by(work: Work) -> Study:
    """What there is so far."""
    problems = []
    if work.store is not None and work.store.damaged:
        problems.append(f"{work.store.damaged} entries of the store were damaged and were run again")
    if work.unstored:
        problems.append(f"{work.unstored} runs could not be stored ({work.problem})")
    what = work.plan
    sets = tuple(work.found(i) for i in range(len(what.points)))
    return Study(
        what.name,
        what.seed,
        what.keys,
        what.points,
        sets,
        what.until,
        work.ran,
        work.from_store,
        work.unstored,
        tuple(problems),
    )


def _measured(key: str, values: Sequence[Any]) -> pl.Series:
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return pl.Series(key, values, dtype=pl.Int64)
    if all(value is None or isinstance(value, bool | int | float) for value in values):
        return pl.Series(key, [stats.number(value) for value in values], dtype=pl.Float64)
    return pl.Series(key, [None if value is None else str(value) for value in values], dtype=pl.String)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
