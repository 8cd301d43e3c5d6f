"""Advice: what to change in a fabric, with the evidence.

>>> advice = penstock.advise("incast", servers=40, link_rate="25Gbps", goal="goodput_bps", store="out/advice")
>>> print(advice)                      # sentences
>>> advice.settings                    # what is recommended
>>> advice.save("out/advice")          # advice.json, report.html
"""

from __future__ import annotations

import html
import json
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import results, sweeps
from penstock.advice.goals import Goals
from penstock.advice.judge import BETTER, MET, NOT_MET, SAME, UNDECIDED, WORSE, Difference
from penstock.advice.levers import COSTS, NOT_CONSIDERED
from penstock.advice.session import Options, Session, Step, Trial
from penstock.console import Bar
from penstock.runs import RunSet, show

if TYPE_CHECKING:
    from penstock.scenario import Scenario

__all__ = ["Advice", "Options", "advise"]

HOLDS, FAILS = "holds", "does not hold"


@dataclass(frozen=True)
class Advice:
    """The answer. `baseline` is the scenario as given, and `alone` has every change on its own. `steps` are
    the recommended changes, the one with the largest gain first, and `together` other changes tried with
    them. `best` has all steps, `fresh` baseline and best with other seeds.

    `length` are settings that keep a run short, `impossible` the changes that the scenario refused or has
    no use for, `model` what the fluid model says of long flows. `finished` is False when the work was
    stopped.
    """

    name: str
    seed: int
    given: dict[str, Any]
    goals: Goals | None
    length: dict[str, str]
    options: Options
    baseline: Trial | None
    alone: tuple[Trial, ...]
    steps: tuple[Step, ...]
    together: tuple[Trial, ...]
    best: Trial | None
    fresh: tuple[Trial, Trial] | None
    impossible: tuple[str, ...]
    model: str
    made: int
    stored: int
    cpu_s: float
    finished: bool

    @property
    def settings(self) -> dict[str, str]:
        """The recommended changes; empty when none is better than what there is."""
        return {key: value for step in self.steps for key, value in step.change.settings.items()}

    @property
    def confirmed(self) -> str:
        """Whether fresh seeds bear the recommendation out: "holds", "does not hold", or "" without one."""
        if self.fresh is None:
            return ""
        trial = self.fresh[1]
        broken = any(word == NOT_MET and self._kept(text) for text, word in trial.limits.items())
        return HOLDS if trial.verdict == BETTER and not broken else FAILS

    @cached_property
    def sentences(self) -> list[str]:
        """The answer in plain sentences, the most important first."""
        if self.goals is None or self.baseline is None:
            return ["Stopped before the baseline was measured: there is no answer yet."]
        found = [f"As it is: {self._measured(self.baseline)}.", *self._recommendation()]
        found += self._levers()
        if not self.finished:
            found.append("The work was stopped: this is what was found so far, not the answer.")
        return found

    @property
    def warnings(self) -> list[str]:
        """What the runs of the baseline and of the recommendation warned of, a line each."""
        sets = [("as it is", self.baseline), ("as recommended", self.best)]
        return list(
            dict.fromkeys(
                f"{which}: {text}" for which, trial in sets if trial for text in trial.sets.warnings
            )
        )

    def command(self, settings: Mapping[str, Any], sets: RunSet) -> str:
        """The shell command that measures a setting again, to the byte."""
        words = ["penstock", "run", self.name]
        words += [word for key, value in settings.items() for word in ("--set", f"{key}={_word(value)}")]
        return shlex.join([*words, "--seed", str(sets.seed), "--runs", str(len(sets.runs))])

    @property
    def whole_command(self) -> str:
        """The shell command that gives this advice again."""
        words = ["penstock", "advise", self.name]
        words += [word for key, value in self.given.items() for word in ("--set", f"{key}={_word(value)}")]
        words += [word for text in (self.goals.text if self.goals else ()) for word in ("--goal", text)]
        words += [word for key in self.options.fix for word in ("--fix", key)]
        usual, mine = Options(), self.options
        for key in ("runs", "most", "fresh", "margin"):
            if getattr(mine, key) != getattr(usual, key):
                words += [f"--{key}", str(getattr(mine, key))]
        return shlex.join([*words, "--seed", str(self.seed)])

    def commands(self) -> list[tuple[str, str]]:
        """What each figure is reproduced by: (what, command)."""
        found = [("this advice", self.whole_command)]
        if self.baseline:
            found.append(("as it is", self.command(self.baseline.settings, self.baseline.sets)))
        if self.best:
            found.append(("as recommended", self.command(self.best.settings, self.best.sets)))
        for which, trial in zip(("as it is", "as recommended"), self.fresh or (), strict=False):
            found.append((f"{which}, fresh seeds", self.command(trial.settings, trial.sets)))
        for trial in (*self.alone, *self.together):
            assert trial.change is not None
            found.append((trial.change.text, self.command(trial.settings, trial.sets)))
        return found

    def rows(self, trials: Iterable[Trial]) -> tuple[list[str], list[list[str]]]:
        """Trials for people: headings, and a row of texts for each."""
        assert self.goals is not None
        keys = self.goals.keys
        limits = [limit.text for limit in self.goals.limits]
        headings = ["lever", "change", "verdict", *keys, "times (95 %)", *limits, "runs", "model"]
        rows = []
        for trial in trials:
            assert trial.change is not None
            rows.append(
                [
                    trial.change.lever,
                    trial.change.text,
                    trial.verdict,
                    *(_value(trial, key) for key in keys),
                    self._times(trial.effects),
                    *(trial.limits[text] for text in limits),
                    str(len(trial.sets.runs)),
                    show(*trial.change.forecast) if trial.change.forecast else "",
                ]
            )
        empty = [i for i, _ in enumerate(headings) if not any(row[i] for row in rows)]
        kept = [i for i, _ in enumerate(headings) if i not in empty]
        return [headings[i] for i in kept], [[row[i] for i in kept] for row in rows]

    def document(self) -> dict[str, Any]:
        """The advice for JSON."""
        return {
            "scenario": self.name,
            "seed": self.seed,
            "set": {key: _word(value) for key, value in self.given.items()},
            "goals": list(self.goals.text) if self.goals else [],
            "length": self.length,
            "state": "complete" if self.finished else "partial",
            "sentences": self.sentences,
            "recommendation": {
                "set": self.settings,
                "steps": [
                    {"set": step.change.settings, "lever": step.change.lever, **step.gain.document()}
                    for step in self.steps
                ],
                "measured": self._document(self.best) if self.best else None,
                "confirmed": self.confirmed,
            },
            "baseline": self._document(self.baseline) if self.baseline else None,
            "levers": [self._document(trial) for trial in self.alone],
            "together": [self._document(trial) for trial in self.together],
            "fresh": [self._document(trial) for trial in self.fresh or ()],
            "model": self.model,
            "not_considered": [*self.impossible, *NOT_CONSIDERED],
            "warnings": self.warnings,
            "command": self.whole_command,
            "runs": self.made + self.stored,
            "cpu_s": self.cpu_s,
        }

    def save(self, folder: str | Path) -> Path:
        """Write advice.json, the figure and report.html into `folder`; the path of the report. Raises
        OSError.
        """
        from penstock.advice import page

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        results.put(path / "advice.json", json.dumps(self.document(), indent=1, allow_nan=False) + "\n")
        return page.write(self, path)

    def figure(self) -> Any:
        """A matplotlib figure: the first goal for every change, with its 95 % interval."""
        from penstock.advice import page

        return page.figure(self)

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def __repr__(self) -> str:
        return f"<Advice on {self.name}: {self.sentences[min(1, len(self.sentences) - 1)]}>"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{html.escape(text)}</p>" for text in self.sentences)

    # --- Sentences --------------------------------------------------------------------------------------

    def _recommendation(self) -> list[str]:
        assert self.goals is not None
        if self.best is None or self.best.difference is None:
            if not self.finished:
                return []
            return ["Leave it as it is: no change that was tried is better, by its 95 % interval."]
        changes = _and([_with_cost(step) for step in self.steps])
        found = [f"Change {changes}: {self._measured(self.best)}; {self._effects(self.best)}."]
        if len(self.steps) > 1:
            shares = [f"{step.change.text} {self._times(step.effects)} times" for step in self.steps]
            found.append(f"One after the other they bring: {'; then '.join(shares)}.")
        found += [f"Beware of {s.change.text}: {s.change.beware}." for s in self.steps if s.change.beware]
        for limit in self.goals.limits:
            word = {MET: "is met", NOT_MET: "is not met"}.get(self.best.limits[limit.text], "is undecided")
            found.append(f"{limit.text} {word}: {_value(self.best, limit.key)}.")
        if self.fresh is not None:
            base, best = self.fresh
            found.append(
                f"With fresh seeds it {self.confirmed}: {self._measured(base)} as it is, "
                f"{self._measured(best)} as recommended; {self._effects(best)}."
            )
        return found

    def _levers(self) -> list[str]:
        """What helps alone, what does harm, which lever makes no difference, what stays open."""
        found = []
        kinds: dict[str, list[Trial]] = {}
        for trial in self.alone:
            kinds.setdefault(trial.verdict, []).append(trial)
        better = sorted(kinds.get(BETTER, []), key=lambda trial: -trial.mean)
        if better:
            # Of each lever the best: the table has them all.
            first: dict[str, Trial] = {}
            for trial in better:
                first.setdefault(trial.change.lever if trial.change else "", trial)
            shown = "; ".join(map(self._brief, first.values()))
            found.append(f"Better, the best of each lever alone: {shown}.")
        levers = list(dict.fromkeys(trial.change.lever for trial in self.alone if trial.change))
        idle = [
            lever
            for lever in levers
            if all(t.verdict == SAME for t in self.alone if t.change and t.change.lever == lever)
        ]
        if idle:
            margin = f"within {self.options.margin:.0%}"
            found.append(f"No difference ({margin}), whatever value was tried: {_and(idle)}.")
        same = [t for t in kinds.get(SAME, []) if t.change and t.change.lever not in idle]
        if same:
            found.append(f"No difference (within {self.options.margin:.0%}): {'; '.join(map(_text, same))}.")
        if WORSE in kinds:
            shown = "; ".join(map(self._brief, kinds[WORSE]))
            found.append(f"Worse: {shown}.")
        if UNDECIDED in kinds:
            most = max(len(t.sets.runs) for t in kinds[UNDECIDED])
            shown = "; ".join(map(self._brief, kinds[UNDECIDED]))
            found.append(f"Undecided after {most} runs: {shown}.")
        if self.model:
            found.append(f"For long flows the fluid model says: {self.model}.")
        if self.alone:
            found.append(
                f"{len(self.alone)} changes were compared by 95 % intervals: one in twenty may look like a "
                "difference by chance, which the fresh seeds are there to find out."
            )
        return found

    def _measured(self, trial: Trial) -> str:
        assert self.goals is not None
        runs = len(trial.sets.runs)
        return f"{_and([f'{key} is {_value(trial, key)}' for key in self.goals.keys])} ({runs} runs)"

    def _effects(self, trial: Trial) -> str:
        assert self.goals is not None
        aims = [aim.key for aim in self.goals.aims]
        if len(aims) == 1:
            return f"{trial.effects[aims[0]].text} times what it was"
        return _and([f"{key} {trial.effects[key].text} times" for key in aims]) + " what they were"

    def _times(self, effects: Mapping[str, Difference]) -> str:
        """What the aims come to, as ratios."""
        assert self.goals is not None
        if len(self.goals.aims) == 1:
            return effects[self.goals.aims[0].key].text
        return _and([f"{aim.key} {effects[aim.key].text}" for aim in self.goals.aims])

    def _brief(self, trial: Trial) -> str:
        """A change with its ratios, and the limits that it breaks."""
        broken = [text for text, word in trial.limits.items() if word == NOT_MET]
        breaks = f" (breaks {_and(broken)})" if broken else ""
        return f"{_text(trial)} {self._times(trial.effects)} times{breaks}"

    def _kept(self, text: str) -> bool:
        return self.best is not None and self.best.limits.get(text) == MET

    def _document(self, trial: Trial) -> dict[str, Any]:
        whole = results.document(trial.sets)
        found: dict[str, Any] = {
            "lever": trial.change.lever if trial.change else None,
            "change": trial.change.settings if trial.change else {},
            "cost": COSTS[trial.change.cost] if trial.change else None,
            "why": trial.change.why if trial.change else None,
            "beware": trial.change.beware if trial.change else None,
            "forecast": dict([trial.change.forecast]) if trial.change and trial.change.forecast else {},
            "verdict": trial.verdict,
            "score": trial.difference.document() if trial.difference else None,
            "effects": {key: effect.document() for key, effect in trial.effects.items()},
            "limits": trial.limits,
            "seed": trial.sets.seed,
            "runs": len(trial.sets.runs),
            "mean": whole["mean"],
            "ci95": whole["ci95"],
            "command": self.command(trial.settings, trial.sets),
        }
        return found


def advise(
    name: Scenario,
    /,
    *,
    goal: str | Sequence[str] | None = None,
    fix: Iterable[str] = (),
    seed: int = 1,
    runs: int = 5,
    most: int = 20,
    fresh: int = 10,
    margin: float = 0.02,
    store: str | Path | None = None,
    executor: Executor | None = None,
    jobs: int | None = None,
    settings: Mapping[str, Any] | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    **more: Any,
) -> Advice:
    """What to change in a scenario (name, TOML file or `penstock.Network`), measured: every lever alone, the
    best together, fresh seeds. Commands of an answer about a network name the file that `Network.save`
    writes.

    `goal` is one goal or several: KEY (push it the way that is better), KEY:WEIGHT, KEY<LIMIT or KEY>LIMIT;
    without one the scenario's usual question. `fix` names keys that may not be changed. Every setting runs
    `runs` times, and up to `most` times while its difference is undecided; `fresh` runs with other seeds
    confirm. A ratio within `margin` of 1 is no difference. `store` keeps finished runs, from which an
    interrupted advice goes on; `executor`, `jobs` and `settings` as in `penstock.study`. `on_progress`
    hears the stage and its finished fraction.

    Raises ScenarioError before anything runs for a bad goal, key or value, and after the first run for a goal
    that the scenario does not measure. RunFailed and Interrupted have the stage's study in `.study`.
    """
    from penstock import scenario

    chosen = scenario.merged(settings, more)
    workers = sweeps.worker_count(jobs)
    session = Session(name, chosen, goal, seed, Options(runs, most, fresh, margin, tuple(fix)))
    with Bar(str(name)) as bar:
        session.work(store, executor, workers, on_progress or staged(bar))
    return answer(session)


def answer(session: Session) -> Advice:
    """What a session has found so far."""
    cpu = math.fsum(run.timings.get("cpu_s", 0.0) for sets in session.runs for run in sets.runs)
    return Advice(
        name=session.name,
        seed=session.seed,
        given=session.given,
        goals=session.goals,
        length=session.length,
        options=session.options,
        baseline=session.baseline,
        alone=tuple(session.alone),
        steps=tuple(session.steps),
        together=tuple(session.together),
        best=session.best,
        fresh=session.fresh,
        impossible=tuple(session.impossible),
        model=session.model,
        made=session.made,
        stored=session.stored,
        cpu_s=cpu,
        finished=session.finished,
    )


def staged(bar: Bar) -> Callable[[str, float], None]:
    """A progress bar that names the stage."""

    def hear(stage: str, done: float) -> None:
        if bar.label != stage:
            bar.stop()
            bar.label = stage
        bar(done)

    return hear


def _value(trial: Trial, key: str) -> str:
    mean = trial.sets.summary.get(key, math.nan)
    return f"{show(key, mean)} {trial.sets.interval(key)}".strip()


def _text(trial: Trial) -> str:
    return trial.change.text if trial.change else ""


def _with_cost(step: Step) -> str:
    return step.change.text if step.change.cost == 0 else f"{step.change.text} ({COSTS[step.change.cost]})"


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
