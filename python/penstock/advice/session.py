"""A session of advice: baseline, every lever alone, the best together, fresh seeds; each stage a study with
one store.

    models propose values -> runs measure them -> paired intervals decide -> other seeds confirm

Which runs are made follows from the numbers of the runs before and from nothing else, so that an advice
which was interrupted goes on, and gives the same answer, from its store.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from penstock import _engine, scenario, stats, studies, sweeps
from penstock.advice import goals as goal
from penstock.advice import levers
from penstock.advice.judge import UNDECIDED, Difference, compare, eligible, keeps, pick
from penstock.errors import ScenarioError
from penstock.runs import RunSet

# Packet-hops a run should take, as the baseline lets expect: some hundred runs fit into three minutes of
# two cores.
_HOPS = 4e6
# Blocks, queries: with fewer a mean says little.
_LEAST_REPEATS = 100
# A timeout has to be possible several times over in a run that is shortened.
_LEAST_TIMEOUTS = 10
_STEPS = 4
# Added to the seed for the runs that confirm: any other seed would do.
FRESH = 1000


@dataclass(frozen=True)
class Options:
    """How much is run: first and most replications of a setting, replications with fresh seeds, the ratio
    below which a difference is none, and keys that may not be changed.
    """

    runs: int = 5
    most: int = 20
    fresh: int = 10
    margin: float = 0.02
    fix: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trial:
    """One setting that was run. `change` is relative to the baseline (None: the baseline itself), and
    `settings` are those of its runs. `difference` is the paired difference of the score from `against` (the
    baseline, or the step before); each goal has its own.
    """

    change: levers.Candidate | None
    settings: dict[str, str]
    sets: RunSet
    difference: Difference | None = None
    effects: dict[str, Difference] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean log ratio of the score; NaN without one."""
        return self.difference.mean if self.difference else math.nan

    @property
    def verdict(self) -> str:
        """better, worse, no difference or undecided."""
        return self.difference.word if self.difference else ""


@dataclass
class Step:
    """One change of the recommendation, with what it brings beside those before it."""

    change: levers.Candidate
    gain: Difference
    effects: dict[str, Difference]


class Session:
    """The work and what it has found so far. Raises as `penstock.advise` does."""

    def __init__(
        self,
        name: scenario.Scenario,
        settings: Mapping[str, Any],
        wanted: str | Sequence[str] | None,
        seed: int,
        options: Options,
    ) -> None:
        self.seed, self.options = scenario.whole("seed", seed, least=0), options
        self.scenario, given = scenario.taken(name, settings)
        self.name = scenario.file_name(self.scenario)
        self.given = {str(key): value for key, value in given.items()}
        self.resolved = scenario.resolve(self.scenario, self.given, self.seed)
        self._check()
        if wanted is not None:
            goal.parse(wanted, self.resolved["scenario"], {})
        self.wanted = wanted
        self.goals: goal.Goals | None = None
        self.length: dict[str, str] = {}
        self.baseline: Trial | None = None
        self.alone: list[Trial] = []
        self.steps: list[Step] = []
        self.together: list[Trial] = []
        self.best: Trial | None = None
        self.fresh: tuple[Trial, Trial] | None = None
        self.impossible: list[str] = []
        self.finished = False
        self.made = self.stored = 0
        self._runs: dict[int, dict[str, RunSet]] = {}
        self.model = ""

    def _check(self) -> None:
        keys = self.resolved["set"]
        for key in self.options.fix:
            if key not in keys:
                raise scenario.error("fix", key, "is no key of this scenario")
        for key, value, least in (("runs", self.options.runs, 2), ("most", self.options.most, 2)):
            scenario.whole(key, value, least=least, most=scenario.MOST_RUNS)
        scenario.whole("fresh", self.options.fresh, least=2, most=scenario.MOST_RUNS)
        if self.options.most < self.options.runs:
            raise scenario.error("most", self.options.most, f"must be at least runs ({self.options.runs})")
        if not 0 < self.options.margin < 1:
            raise scenario.error("margin", self.options.margin, "must be a share between 0 and 1, as in 0.02")

    # --- The stages -------------------------------------------------------------------------------------

    def work(
        self,
        store: str | Path | None,
        executor: Executor | None,
        jobs: int | None,
        hear: Callable[[str, float], None] | None,
    ) -> None:
        """Do all stages. `hear` is told the stage and its finished fraction. Raises Interrupted,
        RunFailed.
        """
        with ExitStack() as stack:
            folder = store or stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-advise-"))
            self._how: dict[str, Any] = {"store": folder, "executor": executor, "jobs": jobs}
            self._hear = hear or (lambda stage, done: None)
            self._plan()
            self._alone()
            self._together()
            self._confirm()
            self.finished = True

    def _plan(self) -> None:
        """How long the runs are, from one run of the baseline; and the goals."""
        (pilot,) = self._measure("baseline", [self.given], 1)
        summary = pilot.runs[0].summary
        self.goals = goal.parse(self.wanted, self.resolved["scenario"], summary)
        self.goals.check(summary)
        self.length = run_length(self.resolved, summary)
        self.base = {**self.given, **self.length}
        (sets,) = self._measure("baseline", [self.base], self.options.runs)
        self.baseline = self._trial(None, self.base, sets, None)

    def _alone(self) -> None:
        assert self.baseline is not None
        at = levers.facts(scenario.resolve(self.scenario, self.base, self.seed))
        self.model = levers.threshold(at)[1]
        proposed = self._possible(levers.candidates(at, self.baseline.sets.summary), self.base)
        self.alone = self._settle("each lever alone", proposed, self.base, self.options.most)
        # More runs of the baseline came with those of the undecided.
        self.baseline = self._trial(None, self.base, self._sets(self.seed, self.base), None)

    def _together(self) -> None:
        """Add the change that brings most, then, beside it, the next, as long as one brings something."""
        here, trials, best_alone = (
            self.base,
            self.alone,
            _best_of_each(self.alone, self._scores, self.options.margin),
        )
        while len(self.steps) < _STEPS:
            chosen = self._best(trials)
            if chosen is None:
                break
            found = trials[chosen]
            assert found.change is not None and found.difference is not None
            self.steps.append(Step(found.change, found.difference, found.effects))
            here = found.settings
            at = levers.facts(scenario.resolve(self.scenario, here, self.seed))
            taken = {step.change.lever for step in self.steps}
            tried = {trial.change.lever for trial in self.alone if trial.change}
            beside = [
                c
                for c in levers.candidates(at, found.sets.summary)
                if c.lever not in taken
                and (c.lever not in tried or c.text in best_alone)
                and not any(key in step.change.settings for step in self.steps for key in c.settings)
            ]
            # A threshold is set anew where the protocol brought one with it.
            if "marking threshold" not in taken:
                beside += [
                    c for c in levers.candidates(at, found.sets.summary) if c.lever == "marking threshold"
                ]
            beside = list({c.text: c for c in beside}.values())
            if len(self.steps) == _STEPS or not beside:
                break
            label = f"beside {', '.join(step.change.lever for step in self.steps)}"
            trials = self._settle(
                label,
                self._possible(beside, here, say=False),
                here,
                max(self.options.runs, self.options.most // 2),
            )
            self.together += trials
        if self.steps:
            self.best = self._trial(None, here, self._sets(self.seed, here), self.base)

    def _confirm(self) -> None:
        """The recommendation against the baseline with another seed."""
        if self.best is None:
            return
        seed = self.seed + FRESH
        base, best = self._measure("fresh seeds", [self.base, self.best.settings], self.options.fresh, seed)
        self.fresh = (
            self._trial(None, self.base, base, None),
            self._trial(None, self.best.settings, best, self.base, seed),
        )

    # --- Runs -------------------------------------------------------------------------------------------

    def _measure(
        self, stage: str, points: Sequence[Mapping[str, Any]], runs: int, seed: int | None = None
    ) -> list[RunSet]:
        number = self.seed if seed is None else seed
        kept = self._runs.setdefault(number, {})
        self._hear(stage, 0.0)
        try:
            found = studies.study(
                self.scenario,
                points=points,
                runs=runs,
                seed=number,
                on_progress=lambda done: self._hear(stage, done),
                **self._how,
            )
        except (sweeps.Interrupted, sweeps.RunFailed) as stop:
            if stop.study is not None:
                self.made += stop.study.ran
                self.stored += stop.study.stored
            raise
        self.made, self.stored = self.made + found.ran, self.stored + found.stored
        for point, sets in zip(points, found.sets, strict=True):
            kept[_name(point)] = sets
        return list(found.sets)

    def _sets(self, seed: int, settings: Mapping[str, Any]) -> RunSet:
        return self._runs[seed][_name(settings)]

    def _settle(
        self, stage: str, tried: Sequence[levers.Candidate], base: dict[str, Any], most: int
    ) -> list[Trial]:
        """Run every change on top of `base`, and again as often while its difference is undecided."""
        points = [{**base, **c.settings} for c in tried]
        count = self.options.runs
        open_ones = list(range(len(points)))
        trials: dict[int, Trial] = {}
        while open_ones:
            have = len(self._sets(self.seed, base).runs)
            wanted = [points[i] for i in open_ones]
            self._measure(stage, wanted, count)
            if have < count:
                self._measure(stage, [base], count)
            for i in open_ones:
                sets = self._sets(self.seed, points[i])
                trials[i] = self._trial(tried[i], points[i], sets, base)
            open_ones = [i for i in open_ones if trials[i].verdict == UNDECIDED]
            if count >= most:
                break
            count = min(most, 2 * count)
        return [trials[i] for i in range(len(points))]

    def _trial(
        self,
        change: levers.Candidate | None,
        settings: dict[str, Any],
        sets: RunSet,
        against: Mapping[str, Any] | None,
        seed: int | None = None,
    ) -> Trial:
        assert self.goals is not None
        mine = {run.run: run.summary for run in sets.runs}
        limits = {limit.text: keeps(limit, sets.values(limit.key).tolist()) for limit in self.goals.limits}
        if against is None:
            return Trial(change, settings, sets, limits=limits)
        other = self._sets(self.seed if seed is None else seed, against)
        base = {run.run: run.summary for run in other.runs}
        margin = self.options.margin
        effects = {key: compare(partial(goal.log, key), base, mine, margin) for key in self.goals.keys}
        difference = compare(self.goals.score, base, mine, margin)
        return Trial(change, settings, sets, difference, effects, limits)

    def _scores(self, trial: Trial) -> dict[int, float]:
        assert self.goals is not None
        return {run.run: self.goals.score(run.summary) for run in trial.sets.runs}

    def _best(self, trials: Sequence[Trial]) -> int | None:
        assert self.baseline is not None
        words = [trial.verdict for trial in trials]
        allowed = eligible(words, [trial.limits for trial in trials], self.baseline.limits)
        costs = [trial.change.cost if trial.change else 0 for trial in trials]
        return pick([self._scores(trial) for trial in trials], costs, allowed, self.options.margin)

    def _possible(
        self, proposed: Sequence[levers.Candidate], base: Mapping[str, Any], say: bool = True
    ) -> list[levers.Candidate]:
        """The changes that the scenario takes and that do something; of the others it is noted why not."""
        found = []
        for change in proposed:
            fixed = [key for key in change.settings if key in self.options.fix]
            why = f"{', '.join(fixed)} may not be changed" if fixed else ""
            if not why:
                try:
                    resolved = scenario.resolve(self.scenario, {**base, **change.settings}, self.seed)
                    idle = [key for key in change.settings if key in resolved.get("without_effect", [])]
                    why = f"{', '.join(idle)} has no effect here" if idle else ""
                except ScenarioError as problem:
                    why = str(problem)
            if not why:
                found.append(change)
            elif say:
                self.impossible.append(f"{change.text}: {why}")
        return found

    @property
    def runs(self) -> list[RunSet]:
        """Everything that was run."""
        return [sets for kept in self._runs.values() for sets in kept.values()]


def run_length(resolved: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, str]:
    """The settings that keep a run short, from one run of the baseline; none where the user gave a length.

    A run of repeated work stops after so many blocks or queries; another one is cut so that it would take
    some four million packet-hops with a busy bottleneck.
    """
    values, given = resolved["set"], set(resolved.get("given", []))
    hops = stats.number(summary.get("packet_hops"))
    repeats = next((key for key in ("blocks", "repetitions") if key in values), None)
    if given & {"duration", "blocks", "repetitions", "warmup"} or not hops > 0:
        return {}
    blocks = stats.number(summary.get("blocks"))
    if repeats and blocks > 0:
        count = max(_LEAST_REPEATS, _round(_HOPS * blocks / hops))
        now = _engine.quantity(str(values[repeats] or ""))
        return {repeats: str(count)} if now is None or now[0] > count else {}
    busy = stats.number(summary.get("utilisation"))
    duration, warmup = (_engine.quantity(str(values.get(key) or "")) for key in ("duration", "warmup"))
    floor = _engine.quantity(str(values.get("rto_min") or ""))
    if not busy > 0 or duration is None:
        return {}
    least = _LEAST_TIMEOUTS * floor[0] if floor else 0.0
    share = max(_HOPS / (hops / busy), least / duration[0])
    if share > 0.7:
        return {}
    found = {"duration": levers.seconds(_short(share * duration[0]))}
    if warmup and warmup[0] > 0:
        found["warmup"] = levers.seconds(_short(share * warmup[0]))
    return found


def _best_of_each(
    trials: Sequence[Trial], score: Callable[[Trial], Mapping[int, float]], margin: float
) -> set[str]:
    """Of every lever the change that did best alone, in words."""
    by_lever: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.change and trial.difference and not trial.difference.lost:
            by_lever.setdefault(trial.change.lever, []).append(trial)
    found = set()
    for same in by_lever.values():
        costs = [trial.change.cost if trial.change else 0 for trial in same]
        best = pick([score(trial) for trial in same], costs, range(len(same)), margin)
        if best is not None and (change := same[best].change):
            found.add(change.text)
    return found


def _name(settings: Mapping[str, Any]) -> str:
    return repr(sorted((str(key), str(value)) for key, value in settings.items()))


def _round(value: float) -> int:
    """One digit."""
    unit = 10 ** max(0, math.floor(math.log10(max(1.0, value))))
    return max(1, int(value / unit)) * unit


def _short(value: float) -> float:
    """Two digits."""
    return float(f"{value:.2g}")
