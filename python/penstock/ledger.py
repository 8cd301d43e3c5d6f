"""The ledger: every published result as an executable check with a verdict.

Each paper's package under `penstock.experiments` has a module `rows` with a list `ROWS`. A row's check runs
what it needs on a `Lab` and returns a `Finding`; the finding is the verdict, `confirmed` or `differs`. A row
whose check does not end (it raised, or was interrupted) is `not run`.

Rows in a module's `LIVE_ROWS` judge the same statements with kernel sockets (`penstock.live`). They take part
only when asked for, and are `not run` where live runs are impossible or none passed the gate.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import scenario as scenarios
from penstock.runs import Run, RunSet
from penstock.sweeps import Interrupted, Point, RunFailed, Task, count_of_runs, run_tasks, tables

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

# Ending of a live row's id: that of the row it is the live variant of, and this.
LIVE = "-live"
# A live run that is beyond the gate is run again until there were so many.
LIVE_TRIES = 3


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
    view: str = ""
    """Another view than the simulation's, shown with the verdict: "live, scaled"."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of one row; `seconds` is wall time, runs shared with an earlier row not counted again."""

    row: Row
    verdict: str
    measured: str
    reason: str
    seconds: float
    figures: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the runs of the row warned of, for the report."""
    bottlenecks: tuple[str, ...] = ()
    """The ports that its runs measured queue and utilisation at."""

    @property
    def shown(self) -> str:
        """The verdict for readers: with its view, where something was judged in another than the
        simulation's.
        """
        return (
            f"{self.verdict} ({self.row.view})" if self.row.view and self.verdict != NOT_RUN else self.verdict
        )

    def document(self) -> dict[str, Any]:
        """The verdict as `reproduce --json` prints it; rows of another view than the simulation's name it."""
        return {
            "id": self.row.id,
            "verdict": self.verdict,
            "stated": self.row.stated,
            "measured": self.measured,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            **({"view": self.row.view} if self.row.view else {}),
        }


class NotRun(Exception):
    """Raised by a check that cannot judge; the message is the verdict's reason."""


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
        self._live: dict[str, RunSet] = {}
        self._used: list[RunSet] = []

    def used(self) -> list[RunSet]:
        """The run sets handed out since this was last asked."""
        found, self._used = self._used, []
        return found

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
            tasks += [Task(str(name), spec, run, kept) for run in range(count_of_runs("runs", runs))]
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
        sets = [
            RunSet(str(name), seed, tuple(found[i * runs : (i + 1) * runs]))
            for i, (name, _) in enumerate(points)
        ]
        # Without the tables, which would not all fit the memory.
        self._used += [RunSet(s.name, s.seed, tuple(replace(r, tables={}) for r in s.runs)) for s in sets]
        return sets

    def live(self, point: Point, *, scale: str | float = "none", seed: int = 1) -> RunSet:
        """One run of a point with kernel sockets, with its series; nothing else runs meanwhile.

        A run beyond the lag gate is run again up to twice. Raises NotRun with the lag when none is valid,
        ScenarioError and RunFailed as `runs`.
        """
        from penstock import live

        name, settings = point
        chosen = dict(sorted(settings.items()))
        key = json.dumps([str(name), chosen, str(scale), seed], default=str)
        if key not in self._live:
            for _ in range(LIVE_TRIES):
                found = live.run(
                    name, seed=seed, scale=scale, keep=["series"], on_progress=self._on_progress, **chosen
                )
                if found.runs[0].summary.get("valid") == 1:
                    break
            else:
                why = "; ".join(found.runs[0].notes)
                raise NotRun(f"{name}: {LIVE_TRIES} runs did not pass the gate, the last one because {why}")
            self._live[key] = found
        self._used.append(self._live[key])
        return self._live[key]

    def beside(
        self, points: Sequence[Point], *, scale: str | float = "none", runs: int = 1, keep: Iterable[str] = ()
    ) -> list[RunSet]:
        """The very scenarios that `live` runs for these points, simulated."""
        from penstock import live

        same: list[Point] = []
        for name, settings in points:
            resolved = live.resolve(name, dict(settings), scale=scale)
            same.append((name, {key: resolved["set"][key] for key in resolved["given"]}))
        return self.sweep(same, runs=runs, keep=keep)

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


def rows(*, live: bool = False) -> list[Row]:
    """Every row of every paper, papers in the order of `PAPERS`, rows in the order of their list; with `live`
    each paper's live rows after its others.
    """
    found: list[Row] = []
    for paper, package in PAPERS.items():
        name = f"penstock.experiments.{package}"
        if importlib.util.find_spec(name) is None or importlib.util.find_spec(f"{name}.rows") is None:
            continue
        module = importlib.import_module(f"{name}.rows")
        for row in [*module.ROWS, *(getattr(module, "LIVE_ROWS", ()) if live else ())]:
            if row.paper != paper:
                raise ValueError(f"row {row.id} says paper {row.paper!r} but lives with {paper!r}")
            found.append(row)
    repeated = {row.id for row in found if sum(other.id == row.id for other in found) > 1}
    if repeated:
        raise ValueError(f"rows with the same id: {', '.join(sorted(repeated))}")
    return found


def select(ids: Sequence[str] = (), papers: Sequence[str] = (), *, live: bool = False) -> list[Row]:
    """The rows with these ids and of these papers; all rows when both are empty.

    Live rows are among them when `live` is set (of an id D-14, its live variant D-14-live) or when their own
    id is given. Raises ScenarioError naming an id or paper that does not exist.
    """
    everything = rows(live=True)
    known = {row.id: row for row in everything}
    for name in ids:
        if name not in known:
            near = get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise scenarios.error("ID", name, f"no such row{hint} (`penstock reproduce --list` names all)")
    for paper in papers:
        if paper not in PAPERS:
            raise scenarios.error("--paper", paper, f"must be one of {', '.join(PAPERS)}")

    def wanted(row: Row) -> bool:
        if row.id in ids:
            return True
        if row.view and not live:
            return False
        everywhere = not ids and not papers
        return everywhere or row.paper in papers or (bool(row.view) and row.id.removesuffix(LIVE) in ids)

    return [row for row in everything if wanted(row)]


def lacks() -> str:
    """What this machine lacks for the ledger's live rows, in one line; "" = nothing."""
    from penstock import live

    # Their protocols are congestion controls of our own, which are loaded into the kernel.
    needed = [item for item in live.doctor() if item["required"] or item["what"].startswith("own congestion")]
    lines = [f"{i['what']}: {i['detail']} ({i['remedy']})" for i in needed if not i["found"]]
    return "; ".join(lines)


def judge(row: Row, lab: Lab) -> Verdict:
    """Run one row's check and turn its finding into a verdict.

    A check that raises gives `not run` with the exception in one line as reason, and its traceback in
    `out`/failed-<id>.txt. KeyboardInterrupt passes through.
    """
    started = time.perf_counter()
    lab.used()
    try:
        lacking = lacks() if row.view else ""
        if lacking:
            raise NotRun(f"live runs are not possible here: {lacking}")
        finding = row.check(lab)
    except KeyboardInterrupt:
        raise
    except NotRun as problem:
        return Verdict(row, NOT_RUN, "", str(problem), time.perf_counter() - started)
    except BaseException as problem:  # the engine's panics do not derive from Exception
        if isinstance(problem, SystemExit | GeneratorExit):
            raise
        line = " ".join(str(problem).split()) or "no message"
        log = _logged(lab.out / f"failed-{row.id.replace('/', '-')}.txt", traceback.format_exc())
        reason = f"the check failed: {type(problem).__name__}: {line} ({log})"
        return Verdict(row, NOT_RUN, "", reason, time.perf_counter() - started)
    return Verdict(
        row,
        CONFIRMED if finding.confirmed else DIFFERS,
        finding.measured,
        finding.reason,
        time.perf_counter() - started,
        finding.figures,
        *_told(lab.used()),
    )


def _told(used: Sequence[RunSet]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a row's runs warned of, with how many of its points did, and the ports they measured."""
    counts = Counter(text for runs in used for text in runs.warnings)
    points = len(used)
    warnings = [text if n == points else f"{n} of {points} points: {text}" for text, n in counts.items()]
    return tuple(warnings), tuple(dict.fromkeys(runs.bottleneck for runs in used if runs.bottleneck))


def _logged(path: Path, text: str) -> str:
    """Write a traceback where it can be written; where it is, or why it is not."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        return f"its traceback cannot be written: {problem.strerror}"
    return f"traceback: {path}"


def reproduce(
    chosen: Sequence[Row], lab: Lab, on_verdict: Callable[[Verdict], None] | None = None
) -> tuple[list[Verdict], bool]:
    """Judge the rows in order; return their verdicts and whether Ctrl-C cut the list short.

    After every row `out`/verdicts.json is written, so that what was finished outlives whatever happens next;
    a disk that does not take it stops nothing, because the caller has the verdicts. Rows that were not
    reached are `not run`.
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
        with suppress(OSError):
            write(verdicts, lab.out)
        if on_verdict:
            on_verdict(verdict)
    return verdicts, interrupted


def write(verdicts: Sequence[Verdict], out: Path) -> Path:
    """Write `out`/verdicts.json, the document of `reproduce --json`, and return its path. Raises OSError."""
    from penstock import results

    out.mkdir(parents=True, exist_ok=True)
    path = out / "verdicts.json"
    results.put(path, json.dumps([v.document() for v in verdicts], indent=2) + "\n")
    return path
