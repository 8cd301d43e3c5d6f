"""How a study comes by its runs: its points checked, its store read, the rest made by workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock import grid, results, scenario, stats, sweeps
from penstock.interrupts import look
from penstock.runs import Run, RunSet
from penstock.store import Store, identity

Until = tuple[str, float, int]

# Replications of each point before adaptive replication judges an interval for the first time: a variance
# of fewer says little.
_FIRST_RUNS = 5


@dataclass(frozen=True)
class Plan:
    """A study whose every point has been resolved."""

    name: str
    seed: int
    keys: tuple[str, ...]
    points: tuple[dict[str, Any], ...]
    specs: tuple[str, ...]
    resolved: tuple[dict[str, Any], ...]
    runs: int
    until: Until | None


def plan(
    name: scenario.Scenario,
    over: Mapping[str, grid.Values] | None,
    points: Iterable[Mapping[str, Any]] | None,
    sample: tuple[str, int] | None,
    runs: int | None,
    seed: int,
    settings: Mapping[str, Any] | None,
    until: Until | None,
) -> Plan:
    """The arguments of `penstock.study` checked. Raises ScenarioError."""
    if (over is None or not len(over)) == (points is None):
        raise scenario.error("over", over or "nothing", "give either `over` or a list of `points`")
    least = scenario.whole("seed", seed, least=0)
    name, common = scenario.taken(name, settings or {})
    if over is not None and points is None:
        for key in over:
            if key in common:
                raise scenario.error(
                    str(key), common[key], "is given twice, as a setting and as a key to sweep"
                )
        # Checks the common settings too, before the points that stand on them.
        kinds = grid.kinds(scenario.resolve(name, common, seed=least)) if _resolves(name, common) else {}
        chosen = _combined(over, sample, least, kinds)
    else:
        if sample is not None:
            raise scenario.error("sample", sample, "needs ranges in `over`, not a list of points")
        chosen = [{str(key): _plain(value) for key, value in point.items()} for point in points or ()]
    if not chosen:
        raise scenario.error("points", "[]", "a study needs at least one point")
    keys = tuple(dict.fromkeys(str(key) for point in chosen for key in point))
    if "workloads" in keys:
        rule = 'cannot be swept; sweep a value of one of them, as in "workload[1].load"'
        raise scenario.error("over", "workloads", rule)
    checked = _until(until, len(chosen))
    first = min(_FIRST_RUNS, checked[2]) if checked else 1
    count = sweeps.count_of_runs("runs", first if runs is None else runs, len(chosen))
    if checked and not 2 <= count <= checked[2]:
        raise scenario.error("runs", count, f"must be from 2 to {checked[2]} with `until`")
    specs, resolved = [], []
    for point in chosen:
        look()
        specs.append(scenario.spec(name, scenario.merged(common, point), least))
        resolved.append(sweeps.resolved(scenario.check(specs[-1])))
    return Plan(str(name), least, keys, tuple(chosen), tuple(specs), tuple(resolved), count, checked)


def _resolves(name: scenario.Scenario, common: Mapping[str, Any]) -> bool:
    """Whether the scenario stands without the swept keys; a file may leave them out."""
    try:
        scenario.resolve(name, common)
    except scenario.ScenarioError:
        return False
    return True


def _combined(
    over: Mapping[str, grid.Values], sample: tuple[str, int] | None, seed: int, kinds: Mapping[str, str]
) -> list[dict[str, Any]]:
    if sample is None:
        return grid.grid(over, kinds)
    if not isinstance(sample, tuple | list) or len(sample) != 2 or sample[0] != "latin":
        raise scenario.error("sample", sample, 'must be ("latin", number of points)')
    return grid.latin(over, sample[1], seed, kinds)


def _until(until: Until | None, points: int) -> Until | None:
    """`until` checked. Raises ScenarioError."""
    if until is None:
        return None
    if not isinstance(until, tuple | list) or len(until) != 3:
        raise scenario.error("until", until, "must be (summary key, share of the mean, most runs)")
    key, share, most = until
    known = [entry["name"] for entry in scenario.describe()["summary_keys"]]
    if key not in known:
        raise scenario.error("until", key, f"is no summary key; there are: {', '.join(known)}")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < math.inf:
        raise scenario.error("until", share, "the share of the mean must be a number above 0, as in 0.05")
    if scenario.whole("until", most, least=2) * points > scenario.MOST_RUNS:
        rule = f"most runs: makes {most * points} runs of {points} points; at most {scenario.MOST_RUNS}"
        raise scenario.error("until", most, rule)
    return (str(key), float(share), int(most))


class Work:
    """The runs of a study as they come in, from its store or from workers."""

    def __init__(self, plan: Plan, kept_in: Store | None, keep: tuple[str, ...]) -> None:
        self.plan, self.store, self.keep = plan, kept_in, keep
        self.runs: list[dict[int, Run]] = [{} for _ in plan.points]
        self.identities = [
            identity(text, found) for text, found in zip(plan.specs, plan.resolved, strict=True)
        ]
        self.ran = self.from_store = self.unstored = 0
        self.problem = ""

    def fill(
        self,
        executor: sweeps.Workers | None,
        jobs: int,
        on_progress: Callable[[float], None],
        on_note: Callable[[str], None] = lambda text: None,
    ) -> BaseException | None:
        """Make every run that is wanted; what stopped it early, if anything. `on_note` is told why runs that
        are there are made again.
        """
        told = False
        wanted = [self.plan.runs] * len(self.plan.points)
        while True:
            stop = self._round(wanted, executor, jobs, on_progress, None if told else on_note)
            told = told or bool(self.store is not None and self.store.lacking)
            if stop is not None or self.plan.until is None:
                return stop
            # From the numbers alone: the same for any number of workers, resumed or not.
            more = [missing(self.found(i), self.plan.until) for i in range(len(wanted))]
            if not any(more):
                return None
            before, most = wanted, self.plan.until[2]
            wanted = [min(most, n + extra) for n, extra in zip(wanted, more, strict=True)]
            if wanted == before:
                return None

    def _round(
        self,
        wanted: Sequence[int],
        executor: sweeps.Workers | None,
        jobs: int,
        on_progress: Callable[[float], None],
        on_note: Callable[[str], None] | None,
    ) -> BaseException | None:
        # Points that come to the same scenario share their runs.
        todo: dict[tuple[str, int], list[int]] = {}
        try:
            for i, count in enumerate(wanted):
                look()
                for number in (n for n in range(count) if n not in self.runs[i]):
                    what = (self.identities[i], number)
                    found = None
                    if self.store is not None and what not in todo:
                        found = self.store.get(*what, self.keep, self.plan.resolved[i])
                    if found is None:
                        todo.setdefault(what, []).append(i)
                    else:
                        self.from_store += 1
                        self.runs[i][number] = found
        except KeyboardInterrupt as interrupt:
            return interrupt
        if self.store is not None and self.store.lacking and on_note is not None:
            count, names = max(self.store.lacking.values()), " and ".join(self.store.lacking)
            on_note(f"{count} runs are there without their tables {names}, which are asked for: made again")
        places = list(todo.items())
        tasks = [
            sweeps.Task(self.plan.name, self.plan.specs[at[0]], number, self.keep)
            for (_, number), at in places
        ]

        def finished(index: int, run: Run) -> None:
            if run.completed:
                (what, number), at = places[index]
                self._take(what, number, at, run)

        if not tasks:
            return None
        ready, total = sum(map(len, self.runs)), sum(wanted)
        _, stop = sweeps.run_tasks(
            tasks,
            jobs=jobs,
            executor=executor,
            on_progress=lambda done: on_progress((ready + done * (total - ready)) / total),
            on_run=finished,
        )
        return stop

    def _take(self, what: str, number: int, at: Sequence[int], run: Run) -> None:
        # As it would come out of the store, so that a study that was resumed has the same bytes.
        numbers = results.whole_again(results.plain(run.summary))
        if self.store is not None:
            try:
                self.store.put(what, run, self.plan.seed)
            except OSError as problem:
                self.unstored += 1
                self.problem = self.problem or problem.strerror or str(problem)
        self.ran += 1
        for i in at:
            self.runs[i][number] = replace(run, summary=numbers, scenario=self.plan.resolved[i])

    def found(self, i: int) -> RunSet:
        """The runs of point `i` so far."""
        runs = self.runs[i]
        return RunSet(self.plan.name, self.plan.seed, tuple(runs[number] for number in sorted(runs)))


def missing(runs: RunSet, until: Until) -> int:
    """How many more runs the interval of the named key needs: 0 when it is narrow enough.

    The half-width falls with the square root of the number; at most twice as many at a time, because the
    variance of a few runs is itself a guess.
    """
    key, share, _ = until
    values = [stats.number(run.summary.get(key)) for run in runs.runs]
    mean, half, n = stats.mean(values), stats.ci95(values), len(values)
    if math.isfinite(half) and half <= share * abs(mean):
        return 0
    if not math.isfinite(half) or mean == 0:
        return max(1, n)
    return max(1, min(n, math.ceil(n * ((half / (share * abs(mean))) ** 2 - 1))))


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value it is."""
    return value.item() if isinstance(value, np.generic) else value
