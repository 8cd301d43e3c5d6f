"""Runs and what they measured.

`penstock.run("incast", servers=32, protocol="dctcp")` returns a `RunSet`: one or more replications of one
scenario.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock import stats
from penstock.errors import NotRecordedError
from penstock.spill import Tables

if TYPE_CHECKING:
    from penstock.plot import Plot
    from penstock.scenario import Scenario
    from penstock.sweeps import Workers
    from penstock.views import Page

# Tables of a run that looks at every packet: key `deliveries`.
DELIVERIES = ("deliveries", "distances", "paths", "receivers", "failures")
TABLES = ("flows", "transfers", "ports", "series", "events", *DELIVERIES)


class Drawn(NamedTuple):
    """What a figure shows, and whether it needs samples or a look at every packet."""

    text: str
    sampled: bool = False
    deliveries: bool = False


# Figures of a run set by their names on the command line: methods of `penstock.plot.Plot`.
FIGURES = {
    "fct": Drawn("distribution of completion times"),
    "slowdown": Drawn("slowdown by size: median and 99th percentile"),
    "utilisation": Drawn("the network with the utilisation of every link"),
    "timeouts": Drawn("timeouts by flow and kind"),
    "reordering": Drawn("how far behind later ones packets arrive", deliveries=True),
    "queue": Drawn("queue over time", sampled=True),
    "queue-cdf": Drawn("distribution of the queue length", sampled=True),
    "cwnd": Drawn("congestion windows over time", sampled=True),
    "story": Drawn("queue, windows, drops and timeouts on one time axis", sampled=True),
}


# Its former name.
NotRecorded = NotRecordedError


@dataclass(frozen=True)
class Run:
    """One simulation.

    `summary` holds one number per key, the unit in the key's name; the same seed gives the same bytes. What
    depends on the machine (`cpu_s`) is in `timings`. `completed` is False when the run was stopped before its
    end. `notes` say why a live run is not to be trusted, and what else to know of it; `warnings` what to know
    before trusting any run's numbers. `bottleneck` names the port that queue and utilisation are of.
    `threads_note` says why the run was made on fewer threads than were asked for; it is not kept in files.
    Of a run with bounded memory `tables` reads those on disk when they are asked for, each time anew.
    """

    run: int
    scenario: dict[str, Any]
    summary: dict[str, Any]
    tables: Mapping[str, pl.DataFrame]
    timings: dict[str, float]
    completed: bool = True
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    bottleneck: str = ""
    threads_note: str = ""


@dataclass(frozen=True, repr=False)
class RunSet:
    """The replications of one scenario: same settings and seed, run numbers 0, 1, 2, ..."""

    name: str
    seed: int
    runs: tuple[Run, ...] = field(repr=False)
    resolved: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What `scenario` is where no run has ended."""

    @property
    def scenario(self) -> dict[str, Any]:
        """The resolved scenario: every key with the value that was used."""
        return self.runs[0].scenario if self.runs else dict(self.resolved)

    @property
    def settings(self) -> dict[str, Any]:
        """What was given for this scenario, by its file or the caller: the keys that are not left at their
        defaults, with the values that were used.
        """
        return dict(headline(self.scenario))

    def __repr__(self) -> str:
        given = "".join(f", {key}={value!r}" for key, value in self.settings.items())
        count = f"{len(self.runs)} run{'s' if len(self.runs) != 1 else ''}"
        return f"RunSet({self.name!r}{given}, seed={self.seed}, {count})"

    @property
    def warnings(self) -> list[str]:
        """What to know before trusting the numbers, a line each. Lines that differ only in figures stand
        once, with the figures of their first run; a line that not all runs share names its runs.
        """
        found = []
        unused = self.scenario.get("without_effect", [])
        if unused:
            found.append(f"without effect in this run: {', '.join(unused)}")
        uncounted = self.scenario.get("without_counterpart", [])
        if uncounted:
            found.append(f"the kernel has no counterpart of: {', '.join(uncounted)}")
        alike: dict[str, tuple[str, list[int]]] = {}
        for run in self.runs:
            for text in [*run.warnings, *run.notes]:
                _, runs = alike.setdefault(cause(text), (text, []))
                if not runs or runs[-1] != run.run:
                    runs.append(run.run)
        found += [_of_runs(runs, len(self.runs), text) for text, runs in alike.values()]
        return list(dict.fromkeys(found))

    @property
    def bottleneck(self) -> str:
        """Name of the port that the summary's queue and utilisation are of; several where the runs differ."""
        return ", ".join(dict.fromkeys(run.bottleneck for run in self.runs if run.bottleneck))

    @property
    def completed(self) -> bool:
        """Whether every run reached its end."""
        return all(run.completed for run in self.runs)

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """The summary of each run, by run number."""
        return [run.summary for run in self.runs]

    @cached_property
    def summary(self) -> dict[str, float]:
        """Mean over the runs of every numeric summary key."""
        return self._statistics[0]

    def values(self, key: str) -> NDArray[np.float64]:
        """The values of a summary key, one per run; NaN where a run has none. Raises KeyError for an unknown
        key.
        """
        self._known(key)
        return np.array([stats.number(run.summary.get(key)) for run in self.runs])

    def mean(self, key: str) -> float:
        """Mean of a summary key over the runs. Raises KeyError for an unknown key."""
        return stats.mean(self.values(key))

    def ci95(self, key: str) -> float:
        """Half-width of the 95 % Student-t interval of that mean; NaN with a single run."""
        return stats.ci95(self.values(key))

    def view(self) -> Page:
        """The page of this run: every packet of replication 0 on one clock, and controls to run it again.
        Raises `views.NotBuiltError` where the page's parts are missing.
        """
        from penstock.views import view

        return view(self)

    def tables(self, i: int = 0) -> Mapping[str, pl.DataFrame]:
        """The tables of run `i` by name (flows, transfers, ports, series, events, and with `deliveries` those
        of docs/reference/results.md), as far as kept.
        """
        return self.runs[i].tables

    @property
    def flows(self) -> pl.DataFrame:
        """One row per flow; column `run` tells the runs apart."""
        return self.table("flows")

    @property
    def transfers(self) -> pl.DataFrame:
        """One row per application write that was acknowledged; column `run` tells the runs apart."""
        return self.table("transfers")

    @property
    def ports(self) -> pl.DataFrame:
        """One row per switch port and host port; column `run` tells the runs apart."""
        return self.table("ports")

    @property
    def series(self) -> pl.DataFrame:
        """Samples over time, when the scenario asked for them; column `run` tells the runs apart."""
        return self.table("series")

    @property
    def events(self) -> pl.DataFrame:
        """Timeouts, drops and the like, when asked for; column `run` tells the runs apart."""
        return self.table("events")

    def table(self, name: str) -> pl.DataFrame:
        """The named table of all runs, with the run number in front. Raises NotRecorded (a KeyError), saying
        what to add, when no run kept it.
        """
        parts = [
            run.tables[name].select(pl.lit(run.run, dtype=pl.UInt32).alias("run"), pl.all())
            for run in self.runs
            if name in run.tables
        ]
        if not parts:
            raise NotRecordedError(self._lacking(name))
        return pl.concat(parts, how="vertical")

    def scan(self, name: str) -> pl.LazyFrame:
        """A table of all runs as a lazy frame: rows on disk (`memory`) are read when they are needed, so the
        whole table need not be in memory. Raises NotRecorded.
        """
        parts = [
            _lazy(run.tables, name).select(pl.lit(run.run, dtype=pl.UInt32).alias("run"), pl.all())
            for run in self.runs
            if name in run.tables
        ]
        if not parts:
            raise NotRecordedError(self._lacking(name))
        return pl.concat(parts, how="vertical")

    def on_disk(self, name: str) -> bool:
        """Whether a table is in files (`memory`), and perhaps larger than memory."""
        return any(isinstance(run.tables, Tables) and run.tables.on_disk(name) for run in self.runs)

    def samples(self, run: int = 0) -> pl.DataFrame:
        """The series of run `run`. Raises NotRecorded, saying what to add, when nothing was sampled."""
        found = self.tables(run).get("series")
        if found is None or found.height == 0:
            raise NotRecordedError(self._lacking("series"))
        return found

    def _lacking(self, name: str) -> str:
        """Why there is no table of this name, and what to add to have it."""
        if name not in TABLES:
            return f'no table "{name}"; there are: {", ".join(TABLES)}'
        if not self.runs:
            return f'no table "{name}": no run came to anything'
        chosen = self.scenario.get("set", {})
        lacks = [] if chosen.get("sample") else ['sample="100us" (or another interval)']
        lacks += [] if chosen.get("series") == "true" else ["series=True"]
        if name == "series" and lacks:
            return f"nothing was sampled in these runs: add {' and '.join(lacks)}"
        if name in DELIVERIES and chosen.get("deliveries") != "true":
            return f'table "{name}" is of runs that look at every packet: add deliveries=True'
        if not any(name in run.tables for run in self.runs):
            return f'table "{name}" was not kept: add keep=["{name}"]'
        return f'table "{name}" is empty: the run ended before its first sample'

    def to_pandas(self, table: str) -> Any:
        """A table of all runs as a pandas DataFrame. Raises NotRecorded, and ImportError, naming the extra,
        where pandas is missing.
        """
        return in_pandas(self.table(table))

    def by_size(
        self,
        value: str = "slowdown",
        *,
        table: str | None = None,
        bins: int = 10,
        shares: Sequence[float] = (0.5, 0.99),
    ) -> pl.DataFrame:
        """Return quantiles of `value` ("slowdown" or "fct_s") by size, a row per class of sizes with about
        equally many flows. Columns are `size_low_bytes`, `size_high_bytes` (both in the class), `size_bytes`
        (its median) and `flows` (in all runs). Each share has `value_p50` and `value_p50_ci95`, the
        half-width of the 95 % Student-t interval over the runs (NaN with one run).

        `table` is "flows" or "transfers"; None is whichever holds something that was completed, flows first.
        A quantile of fewer flows than 1 / (1 - share) is about the largest value. Raises NotRecorded.
        """
        from penstock import sizes

        rows, _ = sizes.completed(self, table, value)
        return sizes.quantiles(rows, sizes.edges(rows["size_bytes"], bins), shares, value)

    def statistics(self) -> pl.DataFrame:
        """One row per summary key: mean and 95 % half-width over the runs, in the unit the key names."""
        means, halves = self._statistics
        return pl.DataFrame(
            {"key": list(means), "mean": list(means.values()), "ci95": [halves[key] for key in means]},
            schema={"key": pl.String, "mean": pl.Float64, "ci95": pl.Float64},
        )

    @property
    def plot(self) -> Plot:
        """Figures of this result: `.plot.queue()`, `.plot.cwnd()`, `.plot.fct()`; each returns a matplotlib
        Figure.
        """
        from penstock.plot import Plot

        return Plot(self)

    def interval(self, key: str) -> str:
        """The 95 % interval of a summary key's mean for people: `± half-width`, or its two ends where the
        half-width exceeds the mean of something that is never negative; "" with a single run.

        Student's t knows nothing of a bound, so there the lower end is the bound, not what the formula gives.
        """
        mean, half = self._statistics[0].get(key, np.nan), self._statistics[1].get(key, np.nan)
        if not np.isfinite(half):
            return ""
        # No key of the engine can be negative; one that was derived from tables may be.
        if half <= mean or np.nanmin(self.values(key)) < 0:
            return f"± {show(key, half)}"
        return f"0 to {show(key, mean + half)}"

    def export(self, folder: str | Path, form: str) -> list[Path]:
        """Write every table to `folder` as "csv" or "arrow" files; return their paths. Raises ScenarioError
        for another form; OSError.
        """
        from penstock.export.tables import tables

        return tables(self, folder, form)

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write the run directory (run.json, summary.json, Parquet tables) and return its path.

        Raises ScenarioError when it holds another run, which `force` replaces; OSError when the disk does not
        take it.
        """
        from penstock import results

        return results.write(self, Path(folder), force=force)

    @cached_property
    def _statistics(self) -> tuple[dict[str, float], dict[str, float]]:
        return stats.over_runs(self.summaries)

    def _known(self, key: str) -> None:
        if not any(key in run.summary for run in self.runs):
            known = sorted({name for run in self.runs for name in run.summary})
            raise NotRecordedError(f"no summary key {key!r}; there are: {', '.join(known)}")

    def _repr_html_(self) -> str:
        given = ", ".join(f"{key} = {value}" for key, value in headline(self.scenario)) or "all defaults"
        count = f"{len(self.runs)} run{'s' if len(self.runs) != 1 else ''}"
        note = "" if self.completed else " <b>(stopped early: partial results)</b>"
        port = f"bottleneck: {html.escape(self.bottleneck)}<br>" if self.bottleneck else ""
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(key)}</td><td>{show(key, value)}</td>"
            f"<td>{self.interval(key)}</td></tr>"
            for key, value in self.summary.items()
        )
        warned = "".join(f"<div>&#9888; {html.escape(text)}</div>" for text in self.warnings)
        return (
            f"<div><b>{html.escape(self.name)}</b>, seed {self.seed}, {count}{note}<br>"
            f"<small>{html.escape(given)}<br>{port}</small>{warned}"
            "<table><thead><tr><th style='text-align:left'>key</th><th>mean</th><th>95 %</th></tr></thead>"
            f"<tbody>{rows}</tbody></table></div>"
        )


def _lazy(tables: Mapping[str, pl.DataFrame], name: str) -> pl.LazyFrame:
    return tables.scan(name) if isinstance(tables, Tables) else tables[name].lazy()


_FIGURE = re.compile(
    r"\d[\d.,]*(?:e[-+]?\d+)?(?: (?:[num]?s|[KMGT]?B|[kMGT]?b/s)\b)?(?P<counted> [a-z-]+?s?\b)?"
)


def cause(text: str) -> str:
    """A warning without its figures, their units and the plurals that follow them: the same for lines that
    have one cause.
    """
    return _FIGURE.sub(lambda found: "#" + (found["counted"] or "").removesuffix("s"), text)


def _of_runs(numbers: Sequence[int], total: int, text: str) -> str:
    """`text` for the runs with these numbers: as it is when it is true of all, otherwise naming them."""
    if len(numbers) == total:
        return text
    if len(numbers) == 1:
        return f"run {numbers[0]}: {text}"
    if len(numbers) <= 5:
        return f"runs {', '.join(map(str, numbers))}: {text}"
    return f"{len(numbers)} of {total} runs ({', '.join(map(str, numbers[:3]))}, ...): {text}"


def headline(scenario: dict[str, Any]) -> list[tuple[str, Any]]:
    """The settings of a resolved scenario that are not its defaults, as (key, value) pairs."""
    return [(key, scenario["set"][key]) for key in scenario.get("given", [])]


def in_pandas(frame: pl.DataFrame) -> Any:
    """A frame as a pandas DataFrame. Raises ImportError, naming the extra, where pandas is missing."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("pandas is not installed: pip install pandas") from None
    # Column by column: polars' own way needs pyarrow.
    return pd.DataFrame({column.name: column.to_numpy() for column in frame})


# Units with their sizes by the ending of a key, the largest first. Lengths of packets are in bytes.
_SCALES = {
    "_bps": ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")),
    "_bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")),
    "_s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
}
_PACKETS = 1e4


def _figures(x: float) -> str:
    """Four significant figures, without an exponent for what a person can read."""
    return f"{x:,.0f}" if abs(x) >= 1e4 else f"{x:.4g}"


def show(key: str, value: float) -> str:
    """A summary value for people: scaled by the unit its key names."""
    if not np.isfinite(value):
        return "-"
    for ending, scales in _SCALES.items():
        if key.endswith(ending) and not key.endswith("_per_s"):
            if value == 0:
                return f"0 {next(unit for size, unit in scales if size == 1.0)}"
            if ending == "_bytes" and abs(value) < _PACKETS:
                return f"{_figures(value)} B"
            size, unit = next((s for s in scales if abs(value) >= s[0]), scales[-1])
            return f"{_figures(value / size)} {unit}"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:.5g}"


def run(
    scenario: Scenario,
    /,
    *,
    seed: int = 1,
    runs: int = 1,
    keep: Iterable[str] = TABLES,
    jobs: int | None = None,
    threads: int = 1,
    executor: Workers | None = None,
    settings: Mapping[str, Any] | None = None,
    approximate: str | None = None,
    memory: str | int | None = None,
    **more: Any,
) -> RunSet:
    """Run a scenario by name, TOML file, `penstock.Network` or dict and return what it measured.

    Settings are keyword arguments: numbers, or strings with units ("10Gbps", "300us", "32KB", "100pkt"). A
    key that is no Python name goes into the mapping `settings`: `settings={"from": "a0"}`. `workloads` of a
    network are a list of objects of `penstock.workloads` or of dicts. `runs` is the number of replications,
    spread over `jobs` threads (default: all cores) or the workers of `executor`, any
    concurrent.futures.Executor or a Dask client; `keep` names the tables to hold on to. `threads` is the most
    threads of one run, if it can be partitioned and cores are free: the results are the same for any number
    (docs/performance.md, "One run on several cores"). `approximate="links"` estimates the times of flows from
    links that are simulated one by one, instead of simulating the network (docs/background/approximate.md).
    `memory` ("1GB") limits the memory of one run's tables during the run. The rest goes to disk, into the
    folder of temporary files (TMPDIR), and no table leaves rows out. Such tables are read on access;
    `.scan(name)` and `.save` do not need them in memory. Raises ScenarioError (a ValueError) naming the
    argument, its value and the rule it breaks. Raises RunFailed when a run dies, and Interrupted (a
    KeyboardInterrupt) on Ctrl-C; both have the finished runs in `.results`.
    """
    from penstock import scenario as scenarios
    from penstock.sweeps import sweep

    chosen = scenarios.merged(settings, more)
    how: dict[str, Any] = {"runs": runs, "seed": seed, "keep": keep, "jobs": jobs, "executor": executor}
    return sweep([(scenario, chosen)], threads=threads, approximate=approximate, memory=memory, **how)[0]


def frames(
    tables: dict[str, dict[str, NDArray[Any] | tuple[NDArray[Any], list[str]] | list[str]]],
    keep: Sequence[str],
) -> dict[str, pl.DataFrame]:
    """Return the engine's columns as DataFrames, only those of requested tables. Empties `tables` step by
    step, so that no table is in memory twice.

    A column is an array, a list of texts, or texts as (codes, names): names[code] in each row.
    """
    found = {}
    for name in list(tables):
        columns = tables.pop(name)
        if name in keep:
            found[name] = pl.DataFrame([_series(column, columns.pop(column)) for column in list(columns)])
    return found


def _series(name: str, values: NDArray[Any] | tuple[NDArray[Any], list[str]] | list[str]) -> pl.Series:
    if isinstance(values, tuple):
        codes, names = values
        return pl.Series(name, names, dtype=pl.String).gather(pl.Series(codes))
    # An empty list would have no type.
    return pl.Series(name, values, dtype=pl.String if isinstance(values, list) else None)
