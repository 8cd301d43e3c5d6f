"""Many runs at once: points x replications over any `concurrent.futures.Executor` or Dask client.

The default is threads: the engine releases the interpreter lock while it runs. Results come back in declared
order and are the same for any number of workers, because a run depends on nothing but its scenario, its seed
and its run number.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock import _engine, cluster, scenario, spill, store
from penstock.console import Bar
from penstock.errors import RunError, RunInterruptedError
from penstock.interrupts import GRACE_S, POLL_S, Deferred, look
from penstock.runs import TABLES, Run, RunSet, frames

if TYPE_CHECKING:
    import polars as pl


Point = tuple["scenario.Scenario", Mapping[str, Any]]
# A concurrent.futures.Executor or a Dask client, whose package need not be there.
Workers = Executor | Any

#: Numbers computed from the tables of a run, to be added to its summary.
Derive = Callable[[Run], Mapping[str, float]]

# Tasks handed to a foreign executor ahead of time, whose number of workers is unknown.
_AHEAD = 10_000


# Their former names.
Interrupted, RunFailed = RunInterruptedError, RunError


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
    derive: Derive | None = None
    """Computed where the run is made; the tables it needs, `keep`, go no further."""
    threads: int = 1
    """The most that this run is made on; its results do not depend on it."""
    memory: tuple[int, str] | None = None
    """Bytes that its tables may take in memory, and the folder that what is more goes to."""


def execute(task: Task, progress: _engine.Progress | None = None) -> Run:
    """Run one task to its end in this thread; the function an executor's worker calls.

    In a worker process Ctrl-C reaches the main thread, which the engine would hold until its end: there the
    run gets a thread of its own and is cancelled from here.
    """
    progress = progress or _engine.Progress()
    if threading.current_thread() is not threading.main_thread():
        return _call(task, progress)
    with Deferred(progress.cancel), ThreadPoolExecutor(1) as pool:
        future = pool.submit(_call, task, progress)
        while True:
            try:
                wait([future])
                return future.result()
            except KeyboardInterrupt:
                progress.cancel()


def execute_there(task: Task, engine: str) -> Run:
    """As `execute`, in a worker of a foreign executor, which may be another machine. Raises RuntimeError when
    its engine is not `engine`: its numbers would go under a name that is not theirs.
    """
    if store.engine() != engine:
        mine, here = (
            f"{name} ({digest[:8]})"
            for name, _, digest in (text.rpartition("-") for text in (store.engine(), engine))
        )
        raise RuntimeError(f"a worker has another engine: {mine}, here it is {here}")
    return execute(task)


def _call(task: Task, progress: _engine.Progress) -> Run:
    found: Mapping[str, pl.DataFrame]
    if task.memory is not None:
        keeper = spill.Keeper(task.keep, task.memory[1])
        result = _engine.run(
            task.spec, task.run, progress, threads=task.threads, memory=(*task.memory, keeper.take)
        )
        found = keeper.tables(frames(result.tables, task.keep))
    else:
        if task.live:
            result = _engine.live(task.spec, task.run, progress)
        else:
            result = _engine.run(task.spec, task.run, progress, threads=task.threads)
        found = frames(result.tables, task.keep)
    run = Run(
        run=task.run,
        scenario=resolved(result.scenario),
        # A hundred thousand runs share one copy of the keys, and of the scenario.
        summary={sys.intern(key): value for key, value in result.summary.items()},
        tables=found,
        timings=dict(result.timings),
        completed=result.completed,
        notes=tuple(result.notes),
        warnings=tuple(result.warnings),
        bottleneck=sys.intern(result.bottleneck),
        threads_note=sys.intern(result.threads_note),
    )
    if task.derive is None or not run.completed:
        return run
    return replace(run, summary={**run.summary, **task.derive(run)}, tables={})


@lru_cache(maxsize=64)
def resolved(text: str) -> dict[str, Any]:
    """The engine's resolved scenario as a mapping; the same one for the same text."""
    found: dict[str, Any] = json.loads(text)
    return found


def sweep(
    points: Sequence[Point],
    *,
    runs: int = 1,
    seed: int = 1,
    keep: Iterable[str] = (),
    executor: Workers | None = None,
    jobs: int | None = None,
    threads: int = 1,
    on_progress: Callable[[float], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    settings: Mapping[str, Any] | None = None,
    approximate: str | None = None,
    memory: str | int | None = None,
    spill_to: str | None = None,
    key: str = "memory",
) -> list[RunSet]:
    """Run every point `runs` times and return one RunSet per point, in the order given.

    `points` are (scenario, settings) pairs, the scenario as in `penstock.run`; `settings` are common to all
    of them. All points share seed and run numbers, so schemes are compared under the same random arrivals and
    jitter. `executor` may be any concurrent.futures.Executor or a Dask client; without one, `jobs` threads
    are used (default: all cores). Cores go to different runs first: if some are free, a run uses up to
    `threads` threads. `approximate` asks for an approximation of each run ("links",
    docs/background/approximate.md), which says so in name, scenario and warnings. `memory` limits the memory
    of the tables of one run, and `spill_to` is the folder that takes the rest (None: the folder of temporary
    files); `key` is its name in messages. A progress bar appears on a terminal and in a notebook unless
    `on_progress` takes the finished fraction, 0 to 1. `on_note` takes the reason why a run is made on fewer
    threads than asked for, mostly before it begins. Raises ScenarioError before anything runs when a point is
    wrong; RunError and RunInterruptedError keep what was finished.
    """
    given = [scenario.taken(name, scenario.merged(settings, own)) for name, own in points]
    workers = worker_count(jobs)
    kept = tables(keep)
    count_of_runs("runs", runs, len(given))
    each = threads_of_each(threads, len(given) * runs, workers if executor is None else None)
    bound = None
    if memory is not None:
        bound = (spill.memory(key, memory), spill_to or tempfile.gettempdir())
        if executor is not None:
            raise scenario.error(key, memory, "is for runs in this process: leave out the executor")
        if approximate is not None:
            raise scenario.error(key, memory, "is for runs: an approximation has no large tables")
    tasks: list[Task] = []
    checked: list[dict[str, Any]] = []
    try:
        for name, own in given:
            look()
            spec = scenario.spec(name, own, seed, approximate)
            checked.append(resolved(scenario.check(spec)))
            # Runs share the cores first; the parts of one approximation use them where there is one alone.
            alone = approximate is not None and executor is None and runs * len(given) == 1
            most = workers if alone else each
            tasks += [Task(str(name), spec, run, kept, threads=most, memory=bound) for run in range(runs)]
    except KeyboardInterrupt:
        # A caller that claimed a folder for these runs writes there what they came to.
        raise RunInterruptedError([RunSet(str(name), seed, ()) for name, _ in given]) from None
    names = list(dict.fromkeys(str(name) for name, _ in given))
    with Bar(", ".join(names[:3])) as bar:
        done, stop = run_tasks(
            tasks, executor=executor, jobs=workers, on_progress=on_progress or bar, on_note=on_note
        )
    mark = "" if approximate is None else f" (approximate: {approximate})"
    sets = [
        RunSet(
            f"{name}{mark}",
            seed,
            tuple(r for r in done[i * runs : (i + 1) * runs] if r is not None),
            checked[i],
        )
        for i, (name, _) in enumerate(given)
    ]
    if isinstance(stop, KeyboardInterrupt):
        raise RunInterruptedError(sets)
    if stop is not None:
        raise RunError(str(stop), sets) from stop.__cause__
    return sets


def count_of_runs(key: str, runs: object, points: int = 1) -> int:
    """`runs` per point as an int. Raises ScenarioError when it is none, or more than memory is made for."""
    count = scenario.whole(key, runs, least=1, most=scenario.MOST_RUNS)
    if count * points > scenario.MOST_RUNS:
        rule = (
            f"makes {count * points} runs of {points} points; at most {scenario.MOST_RUNS} are kept at once"
        )
        raise scenario.error(key, count, rule)
    return count


def worker_count(jobs: object, key: str = "jobs") -> int:
    """`jobs` as an int, the number of cores when None. Raises ScenarioError when it is no such number."""
    if jobs is None:
        return os.cpu_count() or 1
    return scenario.whole(key, jobs, least=1, most=scenario.MOST_JOBS)


def threads_of_each(threads: object, runs: int, workers: int | None) -> int:
    """On how many threads each of `runs` runs is made when `threads` are allowed.

    The only one has them all; of several, `workers` at a time, each has no more than the cores have room for.
    `workers` None: those of an executor, whose cores are not known: one thread each. Raises ScenarioError.
    """
    most = scenario.whole("threads", threads, least=1, most=scenario.MOST_JOBS)
    if runs == 1:
        return most
    if workers is None:
        return 1
    return max(1, min(most, (os.cpu_count() or 1) // min(workers, max(1, runs))))


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
    executor: Workers | None = None,
    on_progress: Callable[[float], None] | None = None,
    on_run: Callable[[int, Run], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> tuple[list[Run | None], BaseException | None]:
    """Execute tasks in parallel; return their runs in the same order and what stopped them early, if
    anything.

    A run that was not started is None; one that Ctrl-C cut short is there with `completed` False. `on_run`
    takes each run as it comes in, with the number of its task. `on_note` takes each reason why runs of this
    process use fewer threads than they may, once and as soon as it is known. Raises ScenarioError
    when `executor` is none.
    """
    own = executor is None
    pool = ThreadPoolExecutor(min(jobs, max(1, len(tasks)))) if own else cluster.as_executor(executor)
    engine = "" if own else store.engine()
    # So many are handed over at a time: an executor's queue is never empty, and a long list of tasks costs no
    # futures before its turn.
    ahead = 2 * jobs if own else _AHEAD
    done: list[Run | None] = [None] * len(tasks)
    pending: dict[Future[Run], tuple[int, _engine.Progress | None]] = {}
    ended = 0
    stop: BaseException | None = None
    told: set[str] = set()

    def tell() -> None:
        """Pass on what the runs under way have noted."""
        for watch in [watch for _, watch in pending.values() if watch and on_note]:
            if watch.note and watch.note not in told and on_note:
                told.add(watch.note)
                on_note(watch.note)

    def take(future: Future[Run]) -> BaseException | None:
        """Put a future's run into its place; what it raised instead, in one line that names it."""
        nonlocal ended
        index, _ = pending[future]
        problem: BaseException | None
        try:
            problem = future.exception()
        except CancelledError as withdrawn:
            problem = withdrawn
        if problem is None:
            done[index] = future.result()
            ended += 1
            if on_run:
                on_run(index, future.result())
        # Last, so that a Ctrl-C in between takes it once more.
        del pending[future]
        return None if problem is None else _died(tasks[index], problem)

    waiting = iter(enumerate(tasks))
    with Deferred() as stops:
        try:
            while stop is None:
                stops.look()
                for index, task in islice(waiting, ahead - len(pending)):
                    # A foreign executor may live in another process: its runs cannot be watched, only awaited
                    # or withdrawn.
                    watch = _engine.Progress() if own else None
                    try:
                        future = (
                            pool.submit(execute, task, watch)
                            if own
                            else pool.submit(execute_there, task, engine)
                        )
                    except Exception as problem:  # an executor whose workers died takes no more
                        stop = _died(task, problem)
                        break
                    pending[future] = (index, watch)
                if not pending or stop is not None:
                    break
                ready = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED).done
                tell()
                for future in ready:
                    died = take(future)
                    stop = stop or died
                if on_progress:
                    under_way = sum(watch.fraction for _, watch in pending.values() if watch)
                    on_progress((ended + under_way) / len(tasks))
        # Of a callback, or of a handler that is not Python's own.
        except KeyboardInterrupt as interrupt:
            stop = interrupt
        if stop is not None:
            _end(pending, stops)
            for future in [future for future in pending if future.done()]:
                take(future)
        if own:
            pool.shutdown(wait=stop is None)
    if stops.count and stop is None:
        stop = KeyboardInterrupt()
    return done, stop


def _end(pending: Mapping[Future[Run], tuple[int, _engine.Progress | None]], stops: Deferred) -> None:
    """Withdraw what has not begun, stop what has, and give it a moment to hand back what it has so far.

    A run in a foreign executor that nothing stops is not waited for: what is finished would wait with it.
    """
    for future in pending:
        future.cancel()
    for _, watch in pending.values():
        if watch is not None:
            watch.cancel()
    # A second interruption ends the waiting, not the keeping.
    before, until = stops.count, time.monotonic() + GRACE_S
    open_ = [future for future in pending if not future.cancelled()]
    with suppress(KeyboardInterrupt):
        while open_ and stops.count == before and time.monotonic() < until:
            open_ = list(wait(open_, timeout=POLL_S).not_done)


def _died(task: Task, problem: BaseException) -> RuntimeError:
    stop = RuntimeError(f"{task.name}, run {task.run}: {_one_line(problem)}")
    stop.__cause__ = problem
    return stop


def _one_line(problem: BaseException) -> str:
    text = " ".join(str(problem).split())
    return text or type(problem).__name__
