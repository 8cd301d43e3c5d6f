"""`penstock advise`: what to change in a scenario, with the evidence (`penstock.advise` from the shell)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from penstock.console import Bar, cannot_write, complain, emit, note, out_console, print_json
from penstock.interrupts import Deferred
from penstock.options import (
    DONE,
    INTERRUPTED,
    RUN_FAILED,
    Jobs,
    Json,
    Profile,
    Scenario,
    Seed,
    Settings,
    chosen_settings,
    whole,
    worker_count,
)

if TYPE_CHECKING:
    from penstock.advice import Advice

# Arguments of `advise` that have another name here.
_OPTIONS = {
    "goal": "--goal",
    "fix": "--fix",
    "runs": "--runs",
    "most": "--most",
    "fresh": "--fresh",
    "store": "--out",
}
# Columns of a terminal from which on the whole table fits.
_WIDE = 130
_STYLES = {"better": "green", "worse": "yellow", "no difference": "dim", "undecided": "cyan"}


def advise(
    scenario: Scenario,
    settings: Settings = None,
    profile: Profile = None,
    goal: Annotated[
        list[str] | None,
        typer.Option(
            help="The goal: KEY, KEY:WEIGHT, KEY<LIMIT or KEY>LIMIT, as in 'fct_p99_s<5ms'.",
            metavar="GOAL",
        ),
    ] = None,
    fix: Annotated[
        list[str] | None, typer.Option(help="A key that may not be changed.", metavar="KEY")
    ] = None,
    seed: Seed = "1",
    runs: Annotated[str, typer.Option(help="Replications of every change.", metavar="N")] = "5",
    most: Annotated[
        str, typer.Option(help="Replications while a difference is undecided.", metavar="N")
    ] = "20",
    fresh: Annotated[str, typer.Option(help="Replications with fresh seeds.", metavar="N")] = "10",
    margin: Annotated[
        str, typer.Option(help="A ratio this close to 1 is no difference.", metavar="SHARE")
    ] = "0.02",
    jobs: Jobs = "0",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory of finished runs, advice.json and report.html; the same command resumes there "
            "(default: out/advise/NAME).",
            metavar="DIR",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Say what to change: every lever alone, the best together, confirmed with fresh seeds; with a report."""
    from penstock import advice, results
    from penstock import scenario as scenarios
    from penstock.sweeps import RunFailed

    chosen = chosen_settings(settings or [], profile)
    workers = worker_count(jobs)
    folder = out or Path("out/advise") / Path(scenario).stem
    options = advice.Options(
        whole("--runs", runs, 2, scenarios.MOST_RUNS),
        whole("--most", most, 2, scenarios.MOST_RUNS),
        whole("--fresh", fresh, 2, scenarios.MOST_RUNS),
        _share(margin),
        tuple(fix or ()),
    )
    code, stops, path = DONE, Deferred(), None
    with stops, Bar(scenario) as bar:
        try:
            session = advice.Session(scenario, chosen, goal, whole("--seed", seed, 0), options)
            results.writable(folder, "--out")
            try:
                session.work(folder, None, workers, advice.staged(bar))
            except (KeyboardInterrupt, RunFailed) as stop:
                bar.stop()
                code = INTERRUPTED
                if isinstance(stop, RunFailed):
                    complain(str(stop))
                    code = RUN_FAILED
        except scenarios.ScenarioError as problem:
            if problem.key in _OPTIONS and problem.key not in chosen:
                raise scenarios.error(_OPTIONS[problem.key], problem.value, problem.rule) from None
            raise
        found = advice.answer(session)
        try:
            path = found.save(folder)
        except OSError as problem:
            complain(cannot_write(problem))
            code, path = code or RUN_FAILED, None
    shown = emit(lambda: print_json(found.document()) if as_json else _print(found))
    for warning in found.warnings:
        note(f"warning: {warning}")
    if code == DONE and stops.count:
        code = INTERRUPTED
    if code != DONE:
        ended = f"{found.made + found.stored} runs are finished; the same command goes on from {folder}"
        note(f"interrupted: {ended}" if code == INTERRUPTED else ended)
    runs = f"{found.made} runs made now, {found.stored} from the store"
    if path is not None:
        note(f"report: {path} ({runs}, {found.cpu_s:.0f} s of CPU in all)")
    return RUN_FAILED if code == DONE and not shown else code


def _share(text: str) -> float:
    from penstock import scenario as scenarios

    try:
        return float(text)
    except ValueError:
        raise scenarios.error("--margin", text, "must be a share between 0 and 1, as in 0.02") from None


def _print(found: Advice) -> None:
    goals = ", ".join(found.goals.text) if found.goals else ""
    out_console.print(Text.assemble((found.name, "bold"), f"  goal {goals}, seed {found.seed}"))
    if found.length:
        out_console.print(
            "run length: " + ", ".join(f"{k}={v}" for k, v in found.length.items()), style="dim"
        )
    if found.alone:
        out_console.print(_table(found))
    for text in found.sentences:
        out_console.print(text + "\n")
    if found.best is not None:
        out_console.print(
            "again: " + found.command(found.best.settings, found.best.sets), soft_wrap=True, style="dim"
        )


def _table(found: Advice) -> Table:
    """Every change alone, the best first, in as many columns as the terminal has room for."""
    ranked = sorted(found.alone, key=lambda trial: -trial.mean if math.isfinite(trial.mean) else math.inf)
    headings, rows = found.rows(ranked)
    # Narrow: the change, its verdict, and what it brings. Lever, runs and the rest are in the report.
    kept = list(range(len(headings)))
    if out_console.width < _WIDE:
        kept = [headings.index(name) for name in ("change", "verdict", "times (95 %)")]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i in kept:
        words = headings[i] in ("lever", "change", "verdict")
        table.add_column(
            headings[i],
            justify="left" if words else "right",
            no_wrap=headings[i] in ("lever", "verdict", "times (95 %)"),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(row[i], _STYLES.get(row[i], "")) for i in kept))
    return table
