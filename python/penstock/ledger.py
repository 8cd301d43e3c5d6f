"""The ledger: every published result as an executable check with a verdict.

Each paper's package under `penstock.experiments` has a module `rows` with a list `ROWS`. A row's check runs
what it needs on a `Lab` and returns a `Finding`; the finding is the verdict, `confirmed` or `differs`. A row
whose check does not end (it raised, or was interrupted) is `not run`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import scenario as scenarios
from penstock.runs import Run, RunSet
from penstock.sweeps import Interrupted, Point, RunFailed, Task, run_tasks, tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Paper key -> package under penstock.experiments, in the order of the report.
PAPERS = {
    "incast": "incast",
    "dt-dctcp": "dt_dctcp",
    "sdc-racs": "sdc_racs",
    "piqi-rcp": "piqi_rcp",
    "cbc": "cbc",
}

CONFIRMED, DIFFERS, NOT_RUN = "confirmed", "differs", "not run"


@dataclass(frozen=True)
class Finding:
    """What a check found.

    `measured` puts our numbers beside the stated ones. `reason` is mandatory when the statement is not
    confirmed: why, found by an experiment that the row runs or names. `figures` are paths returned by
    `Lab.save`.
    """

    confirmed: bool
    measured: str
    reason: str = ""
    figures: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not self.confirmed and not self.reason.strip():
            raise ValueError("a finding that differs needs its reason")


@dataclass(frozen=True)
class Row:
    """One published statement: `stated` in the paper's terms, `check` to judge it."""

    id: str
    paper: str
    title: str
    stated: str
    check: Callable[[Lab], Finding] = field(repr=False)


@dataclass(frozen=True)
class Verdict:
    """The outcome of one row; `seconds` is wall time, runs shared with an earlier row not counted again."""

    row: Row
    verdict: str
    measured: str
    reason: str
    seconds: float
    figures: tuple[Path, ...] = ()

    def document(self) -> dict[str, Any]:
        """The verdict as `reproduce --json` prints it."""
        return {
            "id": self.row.id,
            "verdict": self.verdict,
            "stated": self.row.stated,
            "measured": self.measured,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
        }


#: Numbers computed from the tables of a run, to be added to its summary.
Derive = Callable[[Run], Mapping[str, float]]


class Lab:
    """What a check works with: runs, remembered by content across rows, and a place for figures.

    `quick` asks for fewer points and replications; `out` is the output directory; `jobs` the number of
    parallel runs.
    """

    def __init__(
        self,
        out: Path,
        *,
        quick: bool = True,
        jobs: int = 1,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        self.out = Path(out)
        self.quick = quick
        self.jobs = jobs
        self._on_progress = on_progress
        self._memory: dict[tuple[str, int], Run] = {}
        self._derived: dict[tuple[str, int, Derive], Mapping[str, float]] = {}

    def runs(
        self,
        scenario: str | Path,
        settings: dict[str, Any] | None = None,
        *,
        runs: int = 1,
        seed: int = 1,
        keep: Iterable[str] = (),
    ) -> RunSet:
        """The replications of one point, in parallel; what an earlier row ran is not run again.

        Raises ScenarioError for a wrong setting, RunFailed when a run dies.
        """
        return self.sweep([(scenario, settings or {})], runs=runs, seed=seed, keep=keep)[0]

    def sweep(
        self,
        points: Sequence[Point],
        *,
        runs: int = 1,
        seed: int = 1,
        keep: Iterable[str] = (),
        derive: Derive | None = None,
    ) -> list[RunSet]:
        """The replications of every point, all in parallel, in the order given.

        With `derive` its numbers join each run's summary, and the tables in `keep` are let go again: they are
        there for it, and a whole figure's would not fit the memory. Raises as `runs`.
        """
        if derive is not None and len(points) > 1:
            return [
                self.sweep([point], runs=runs, seed=seed, keep=keep, derive=derive)[0] for point in points
            ]
        kept = tables(keep)
        tasks: list[Task] = []
        for name, settings in points:
            spec = scenarios.spec(name, dict(sorted(settings.items())), seed)
            tasks += [
                Task(str(name), spec, run, kept) for run in range(scenarios.whole("runs", runs, least=1))
            ]
        missing = list(
            {(task.spec, task.run): task for task in tasks if not self._remembers(task, derive)}.values()
        )
        fresh, stop = run_tasks(missing, jobs=self.jobs, on_progress=self._on_progress)
        for task, run in zip(missing, fresh, strict=True):
            if run is not None and run.completed:
                if derive is not None:
                    self._derived[task.spec, task.run, derive] = derive(run)
                    run = replace(run, tables={})
                self._memory[task.spec, task.run] = run
        if isinstance(stop, KeyboardInterrupt):
            raise Interrupted([])
        if stop is not None:
            if isinstance(stop.__cause__, scenarios.ScenarioError):
                raise stop.__cause__
            raise RunFailed(str(stop), []) from stop.__cause__
        found = [self._recall(task, derive) for task in tasks]
        return [
            RunSet(str(name), seed, tuple(found[i * runs : (i + 1) * runs]))
            for i, (name, _) in enumerate(points)
        ]

    def save(self, figure: Figure, name: str) -> Path:
        """Write a matplotlib figure as PNG and SVG under `out`/figures and return the path of the PNG."""
        from penstock import figures

        return figures.write(figure, self.out / "figures", name)

    def _recall(self, task: Task, derive: Derive | None) -> Run:
        run = self._memory[task.spec, task.run]
        if derive is None:
            return run
        return replace(run, summary={**run.summary, **self._derived[task.spec, task.run, derive]})

    def _remembers(self, task: Task, derive: Derive | None) -> bool:
        run = self._memory.get((task.spec, task.run))
        if derive is not None:
            return (task.spec, task.run, derive) in self._derived
        return run is not None and set(task.keep) <= set(run.tables)


def rows() -> list[Row]:
    """Every row of every paper, papers in the order of `PAPERS`, rows in the order of their list."""
    found: list[Row] = []
    for paper, package in PAPERS.items():
        name = f"penstock.experiments.{package}"
        if importlib.util.find_spec(name) is None or importlib.util.find_spec(f"{name}.rows") is None:
            continue
        for row in importlib.import_module(f"{name}.rows").ROWS:
            if row.paper != paper:
                raise ValueError(f"row {row.id} says paper {row.paper!r} but lives with {paper!r}")
            found.append(row)
    repeated = {row.id for row in found if sum(other.id == row.id for other in found) > 1}
    if repeated:
        raise ValueError(f"rows with the same id: {', '.join(sorted(repeated))}")
    return found


def select(ids: Sequence[str] = (), papers: Sequence[str] = ()) -> list[Row]:
    """The rows with these ids and of these papers; all rows when both are empty.

    Raises ScenarioError naming an id or paper that does not exist.
    """
    everything = rows()
    known = {row.id: row for row in everything}
    for name in ids:
        if name not in known:
            near = get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise scenarios.error("ID", name, f"no such row{hint} (`penstock reproduce --list` names all)")
    for paper in papers:
        if paper not in PAPERS:
            raise scenarios.error("--paper", paper, f"must be one of {', '.join(PAPERS)}")
    if not ids and not papers:
        return everything
    return [row for row in everything if row.id in ids or row.paper in papers]


def judge(row: Row, lab: Lab) -> Verdict:
    """Run one row's check and turn its finding into a verdict.

    A check that raises gives `not run` with the exception in one line as reason, and its traceback in
    `out`/failed-<id>.txt. KeyboardInterrupt passes through.
    """
    started = time.perf_counter()
    try:
        finding = row.check(lab)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # the engine's panics do not derive from Exception
        if isinstance(problem, SystemExit | GeneratorExit):
            raise
        lab.out.mkdir(parents=True, exist_ok=True)
        log = lab.out / f"failed-{row.id.replace('/', '-')}.txt"
        log.write_text(traceback.format_exc(), encoding="utf-8")
        line = " ".join(str(problem).split()) or "no message"
        reason = f"the check failed: {type(problem).__name__}: {line} (traceback: {log})"
        return Verdict(row, NOT_RUN, "", reason, time.perf_counter() - started)
    return Verdict(
        row,
        CONFIRMED if finding.confirmed else DIFFERS,
        finding.measured,
        finding.reason,
        time.perf_counter() - started,
        finding.figures,
    )


def reproduce(
    chosen: Sequence[Row], lab: Lab, on_verdict: Callable[[Verdict], None] | None = None
) -> tuple[list[Verdict], bool]:
    """Judge the rows in order; return their verdicts and whether Ctrl-C cut the list short.

    After every row `out`/verdicts.json is written, so that what was finished outlives whatever happens next.
    Rows that were not reached are `not run`.
    """
    verdicts: list[Verdict] = []
    interrupted = False
    for row in chosen:
        if interrupted:
            verdict = Verdict(row, NOT_RUN, "", "interrupted before this row", 0.0)
        else:
            started = time.perf_counter()
            try:
                verdict = judge(row, lab)
            except KeyboardInterrupt:
                interrupted = True
                verdict = Verdict(
                    row, NOT_RUN, "", "interrupted during this row", time.perf_counter() - started
                )
        verdicts.append(verdict)
        write(verdicts, lab.out)
        if on_verdict:
            on_verdict(verdict)
    return verdicts, interrupted


def write(verdicts: Sequence[Verdict], out: Path) -> Path:
    """Write `out`/verdicts.json, the document of `reproduce --json`, and return its path."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "verdicts.json"
    path.write_text(json.dumps([v.document() for v in verdicts], indent=2) + "\n", encoding="utf-8")
    return path
