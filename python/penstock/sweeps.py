"""Many runs at once: points x replications over any `concurrent.futures.Executor`.

The default is threads: the engine releases the interpreter lock while it runs. Results come back in declared
order and are the same for any number of workers, because a run depends on nothing but its scenario, its seed
and its run number.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _engine, scenario
from penstock.runs import TABLES, Run, RunSet, frames

Point = tuple[str | Path, Mapping[str, Any]]

# How long a stopped run may take to hand back what it has; the engine looks at the flag every few
# milliseconds.
_GRACE_S = 0.7
_POLL_S = 0.05


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during runs. `.results` has one RunSet per point with the runs that ended and, cut short, those
    under way.
    """

    def __init__(self, results: list[RunSet]) -> None:
        super().__init__("interrupted")
        self.results = results


class RunFailed(RuntimeError):
    """A run died; the message names it. `.results` has one RunSet per point with the runs that ended."""

    def __init__(self, message: str, results: list[RunSet]) -> None:
        super().__init__(message)
        self.results = results


@dataclass(frozen=True)
class Task:
    """One run: the engine's JSON document, the run number and the tables to keep. Plain data, so it can be
    pickled.
    """

    name: str
    spec: str
    run: int
    keep: tuple[str, ...]
    live: bool = False
    """With sockets of the kernel instead of simulated ones (`penstock.live`)."""


def execute(task: Task, progress: _engine.Progress | None = None) -> Run:
    """Run one task to its end in this thread; the function an executor's worker calls.

    In a worker process Ctrl-C reaches the main thread, which the engine would hold until its end: there the
    run gets a thread of its own and is cancelled from here.
    """
    progress = progress or _engine.Progress()
    if threading.current_thread() is not threading.main_thread():
        return _call(task, progress)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(_call, task, progress)
        while True:
            try:
                wait([future])
                return future.result()
            except KeyboardInterrupt:
                progress.cancel()


def _call(task: Task, progress: _engine.Progress) -> Run:
    import json

    result = (_engine.live if task.live else _engine.run)(task.spec, task.run, progress)
    return Run(
        run=task.run,
        scenario=json.loads(result.scenario),
        summary=dict(result.summary),
        tables=frames(result.tables, task.keep),
        timings=dict(result.timings),
        completed=result.completed,
        notes=tuple(result.notes),
    )


def sweep(
    points: Sequence[Point],
    *,
    runs: int = 1,
    seed: int = 1,
    keep: Iterable[str] = (),
    executor: Executor | None = None,
    jobs: int | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> list[RunSet]:
    """Run every point `runs` times and return one RunSet per point, in the order given.

    `points` are (scenario, settings) pairs. All points share seed and run numbers, so schemes are compared
    under the same random arrivals and jitter. `executor` may be any concurrent.futures.Executor (a process
    pool, a Dask client's); without one, `jobs` threads are used (default: all cores). `on_progress` hears the
    finished fraction, 0 to 1. Raises ScenarioError before anything runs when a point is wrong; RunFailed and
    Interrupted keep what was finished.
    """
    scenario.whole("runs", runs, least=1)
    workers = scenario.whole("jobs", jobs, least=1) if jobs is not None else (os.cpu_count() or 1)
    kept = tables(keep)
    tasks: list[Task] = []
    for name, settings in points:
        spec = scenario.spec(name, settings, seed)
        _engine.resolve(spec)
        tasks += [Task(str(name), spec, run, kept) for run in range(runs)]
    done, stop = run_tasks(tasks, executor=executor, jobs=workers, on_progress=on_progress)
    sets = [
        RunSet(str(name), seed, tuple(r for r in done[i * runs : (i + 1) * runs] if r is not None))
        for i, (name, _) in enumerate(points)
    ]
    if isinstance(stop, KeyboardInterrupt):
        raise Interrupted(sets)
    if stop is not None:
        raise RunFailed(str(stop), sets) from stop.__cause__
    return sets


def tables(keep: Iterable[str]) -> tuple[str, ...]:
    """`keep` as a tuple in fixed order. Raises ScenarioError for a name that is no table."""
    names = {keep} if isinstance(keep, str) else set(keep)
    for name in sorted(names - set(TABLES)):
        raise scenario.error("keep", name, f"must be one of {', '.join(TABLES)}")
    return tuple(table for table in TABLES if table in names)


def run_tasks(
    tasks: Sequence[Task],
    *,
    jobs: int,
    executor: Executor | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> tuple[list[Run | None], BaseException | None]:
    """Execute tasks in parallel; return their runs in the same order and what stopped them early, if
    anything.

    A run that was not started is None; one that Ctrl-C cut short is there with `completed` False.
    """
    own = executor is None
    pool = executor or ThreadPoolExecutor(min(jobs, max(1, len(tasks))))
    # A foreign executor may live in another process: its runs cannot be watched, only awaited or withdrawn.
    watches = [_engine.Progress() if own else None for _ in tasks]
    futures: list[Future[Run]] = []
    stop: BaseException | None = None
    try:
        for task, watch in zip(tasks, watches, strict=True):
            futures.append(pool.submit(execute, task, watch) if own else pool.submit(execute, task))
        pending = set(futures)
        while pending and stop is None:
            done, pending = wait(pending, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                problem = future.exception()
                if problem is not None and stop is None:
                    task = tasks[futures.index(future)]
                    stop = RuntimeError(f"{task.name}, run {task.run}: {_one_line(problem)}")
                    stop.__cause__ = problem
            if on_progress:
                on_progress(_fraction(futures, watches))
    except KeyboardInterrupt as interrupt:
        stop = interrupt
    if stop is not None:
        for future in futures:
            future.cancel()
        for watch in watches:
            if watch is not None:
                watch.cancel()
        wait([f for f in futures if not f.cancelled()], timeout=_GRACE_S if own else None)
    if own:
        pool.shutdown(wait=stop is None)
    finished = [
        f.result() if f.done() and not f.cancelled() and f.exception() is None else None for f in futures
    ]
    return finished + [None] * (len(tasks) - len(finished)), stop


def _fraction(futures: Sequence[Future[Run]], watches: Sequence[_engine.Progress | None]) -> float:
    parts = (
        1.0 if future.done() else (watch.fraction if watch else 0.0)
        for future, watch in zip(futures, watches, strict=True)
    )
    return sum(parts) / max(1, len(futures))


def _one_line(problem: BaseException) -> str:
    text = " ".join(str(problem).split())
    return text or type(problem).__name__
