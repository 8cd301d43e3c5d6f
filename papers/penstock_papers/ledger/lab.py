"""What a row measures with: runs found again by content, replications, a place for figures."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import _engine, results, sweeps
from penstock import scenario as scenarios
from penstock.errors import NotRunError
from penstock.runs import Run, RunSet
from penstock.store import Store, identity
from penstock.sweeps import (
    Derive,
    Interrupted,
    Point,
    RunFailed,
    Task,
    Workers,
    count_of_runs,
    run_tasks,
    tables,
)
from penstock_papers.ledger.claims import Measurement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Any_ = TypeVar("Any_")

# What identifies a point, and its runs.
_Used = tuple[str, RunSet]

# A live run that is beyond the gate is run again until there were so many.
LIVE_TRIES = 3


# Its former name.
NotRun = NotRunError


class Lab:
    """What a row works with.

    `quick` means fewer points and replications, `smallest` the fewest that run at all (for tests). `out` is
    the output directory. `jobs` is the number of parallel runs, or `executor` any
    `concurrent.futures.Executor` or a Dask client. `seed` is that of every run. With a `store`, finished runs
    of the same engine are not repeated.
    """

    def __init__(
        self,
        out: Path,
        *,
        quick: bool = True,
        smallest: bool = False,
        jobs: int = 1,
        seed: int = 1,
        executor: Workers | None = None,
        store: Store | None = None,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        self.out = Path(out)
        self.quick = quick or smallest
        self.smallest = smallest
        self.jobs = jobs
        self.seed = seed
        self.effort = 1
        """By what the replications are multiplied: claims that are undecided are measured with more."""
        self.replicates = False
        """Whether a row has asked for replications since this was last set to False."""
        self.ran = self.from_store = 0
        self._executor = executor
        self._store = store
        self._on_progress = on_progress
        self._memory: dict[tuple[str, int, Derive | None], Run] = {}
        self._measured: dict[tuple[Callable[..., Any], int], tuple[Measurement, bool, list[_Used]]] = {}
        self._live: dict[str, RunSet] = {}
        self._used: list[_Used] = []

    @property
    def here(self) -> bool:
        """Whether its runs are made by this process."""
        return self._executor is None

    def fork(self) -> Lab:
        """A lab for another thread: one run at a time, the same store."""
        return Lab(
            self.out,
            quick=self.quick,
            smallest=self.smallest,
            jobs=1,
            seed=self.seed,
            executor=self._executor,
            store=self._store,
        )

    def pick(self, full: Any_, quick: Any_, smallest: Any_ | None = None) -> Any_:
        """The value for the length of this reproduction; quick also for smallest where that is not given."""
        if self.smallest and smallest is not None:
            return smallest
        return quick if self.quick else full

    def replications(self, full: int, quick: int) -> int:
        """Runs per point: the row's number for this length, times the effort for undecided claims."""
        self.replicates = True
        return self.pick(full, quick, 1) * self.effort

    def measured(self, measure: Callable[[Lab], Measurement]) -> Measurement:
        """What `measure` finds at the present effort; two rows with the same function share it."""
        key = (measure, self.effort)
        if key not in self._measured:
            self.replicates = False
            before, self._used = self._used, []
            try:
                self._measured[key] = (measure(self), self.replicates, self._used)
            finally:
                self._used = before
        found, self.replicates, used = self._measured[key]
        self._used = [*self._used, *used]
        return found

    def used(self) -> list[RunSet]:
        """The run sets handed out since this was last asked, one per point: that with the most runs."""
        found, self._used = self._used, []
        points: dict[str, RunSet] = {}
        for point, runs in found:
            if point not in points or len(runs.runs) > len(points[point].runs):
                points[point] = runs
        return list(points.values())

    def runs(
        self,
        scenario: str | Path,
        settings: dict[str, Any] | None = None,
        *,
        runs: int = 1,
        seed: int | None = None,
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
        seed: int | None = None,
        keep: Iterable[str] = (),
        derive: Derive | None = None,
    ) -> list[RunSet]:
        """The replications of every point, all in parallel, in the order given.

        With `derive` its numbers join each run's summary, and the tables in `keep` are let go again where the
        run was made: a whole figure's would not fit the memory. All points share seed and run numbers. `seed`
        other than the lab's is for rows that compare seeds. Raises as `runs`.
        """
        number = self.seed if seed is None else seed
        kept = tables(keep)
        tasks: list[Task] = []
        for name, settings in points:
            spec = scenarios.spec(name, dict(sorted(settings.items())), number)
            tasks += [
                Task(str(name), spec, run, kept, derive=derive) for run in range(count_of_runs("runs", runs))
            ]
        missing = list({(task.spec, task.run): task for task in tasks if not self._remembers(task)}.values())
        self._make(missing, number)
        found = [self._memory[task.spec, task.run, task.derive] for task in tasks]
        sets = [
            RunSet(str(name), number, tuple(found[i * runs : (i + 1) * runs]))
            for i, (name, _) in enumerate(points)
        ]
        # Without the tables, which would not all fit the memory.
        self._used += [
            (tasks[i * runs].spec, RunSet(s.name, s.seed, tuple(replace(r, tables={}) for r in s.runs)))
            for i, s in enumerate(sets)
        ]
        return sets

    def _make(self, tasks: list[Task], seed: int) -> None:
        """Put the run of every task into the memory: from the store, or by running it."""
        names = [self._name(task) for task in tasks] if self._store is not None else [("", {})] * len(tasks)
        missing: list[int] = []
        for i, task in enumerate(tasks):
            found = None
            if self._store is not None:
                found = self._store.get(names[i][0], task.run, self._tables(task), names[i][1])
            if found is None:
                missing.append(i)
            else:
                self.from_store += 1
                self._memory[task.spec, task.run, task.derive] = found

        def finished(index: int, run: Run) -> None:
            task, (name, _) = tasks[missing[index]], names[missing[index]]
            if run.completed:
                # As it would come out of the store: a reproduction that was resumed has the same bytes.
                run = replace(run, summary=results.whole_again(results.plain(run.summary)))
                self.ran += 1
                self._memory[task.spec, task.run, task.derive] = run
                if self._store is not None:
                    self._store.put(name, run, seed)

        _, stop = run_tasks(
            [tasks[i] for i in missing],
            jobs=self.jobs,
            executor=self._executor,
            on_progress=self._on_progress,
            on_run=finished,
        )
        if isinstance(stop, KeyboardInterrupt):
            raise Interrupted([])
        if stop is not None:
            if isinstance(stop.__cause__, scenarios.ScenarioError):
                raise stop.__cause__
            raise RunFailed(str(stop), []) from stop.__cause__

    def _name(self, task: Task) -> tuple[str, dict[str, Any]]:
        """What identifies a run in the store (with the code of `derive`), and its resolved scenario."""
        found = sweeps.resolved(_engine.resolve(task.spec))
        name = identity(task.spec, found)
        if task.derive is not None:
            source = source_hash(task.derive)
            name = hashlib.sha256(f"{name} {task.derive.__qualname__} {source}".encode()).hexdigest()
        return name, found

    @staticmethod
    def _tables(task: Task) -> tuple[str, ...]:
        return () if task.derive is not None else task.keep

    def _remembers(self, task: Task) -> bool:
        run = self._memory.get((task.spec, task.run, task.derive))
        return run is not None and set(self._tables(task)) <= set(run.tables)

    def live(self, point: Point, *, scale: str | float = "none", seed: int | None = None) -> RunSet:
        """One run of a point with kernel sockets, with its series; nothing else runs meanwhile.

        A run beyond the lag gate is run again up to twice. Raises NotRun with the lag when none is valid,
        ScenarioError and RunFailed as `runs`.
        """
        from penstock import live

        name, settings = point
        # The simulation beside a row is the papers' sender.
        chosen = dict(sorted({"tcp": "rfc", **settings}.items()))
        number = self.seed if seed is None else seed
        key = json.dumps([str(name), chosen, str(scale), number], default=str)
        if key not in self._live:
            for _ in range(LIVE_TRIES):
                found = live.run(
                    name, seed=number, scale=scale, keep=["series"], on_progress=self._on_progress, **chosen
                )
                if found.runs[0].summary.get("valid") == 1:
                    break
            else:
                why = "; ".join(found.runs[0].notes)
                raise NotRun(f"{name}: {LIVE_TRIES} runs did not pass the gate, the last one because {why}")
            self._live[key] = found
        self._used.append((key, self._live[key]))
        return self._live[key]

    def beside(
        self, points: Sequence[Point], *, scale: str | float = "none", runs: int = 1, keep: Iterable[str] = ()
    ) -> list[RunSet]:
        """The very scenarios that `live` runs for these points, simulated."""
        from penstock import live

        same: list[Point] = []
        for name, settings in points:
            resolved = live.resolve(name, {"tcp": "rfc", **settings}, scale=scale)
            same.append((name, {key: resolved["set"][key] for key in resolved["given"]}))
        return self.sweep(same, runs=runs, keep=keep)

    def save(self, figure: Figure, name: str) -> Path:
        """Write a matplotlib figure as PNG and SVG under `out`/figures and return the path of the PNG."""
        from penstock import figures

        figures.plain_logs(figure)
        return figures.write(figure, self.out / "figures", name)


def source_hash(function: Callable[..., Any]) -> str:
    """Hash of the file that a function is written in: results of other code are other results."""
    file = inspect.getsourcefile(function)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


__all__ = ["Derive", "Lab", "NotRun", "source_hash"]
