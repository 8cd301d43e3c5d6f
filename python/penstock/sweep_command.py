"""`penstock sweep`: a scenario at many points (`penstock.study` from the shell)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from penstock import completion
from penstock.console import Bar, cannot_write, complain, emit, note, out_console, print_json
from penstock.interrupts import Deferred
from penstock.options import (
    DONE,
    INTERRUPTED,
    RUN_FAILED,
    Executor,
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
    from penstock.studies import Study, Until


# Arguments of `study` that have another name here.
_OPTIONS = {"store": "--out", "sample": "--latin", "until": "--until", "runs": "--runs"}


def sweep(
    scenario: Scenario,
    over: Annotated[
        list[str],
        typer.Option(
            help="Values of a key: a list, or N values of a range, A..B:N[:log], as in servers=4..32:8.",
            metavar="KEY=V1,V2,...",
            autocompletion=completion.values_over,
        ),
    ],
    settings: Settings = None,
    profile: Profile = None,
    runs: Annotated[
        str | None, typer.Option(help="Replications of each point (1; with --until 5).", metavar="N")
    ] = None,
    seed: Seed = "1",
    jobs: Jobs = "0",
    executor: Executor = "threads",
    latin: Annotated[
        str | None,
        typer.Option(
            help="So many points of a Latin hypercube over ranges A..B in place of all combinations.",
            metavar="N",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Replicate until the 95 % interval of KEY is at most SHARE of the mean, at most MAX times.",
            metavar="KEY:SHARE:MAX",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Keep every finished run here, and summary.parquet and .csv; run only what is not there.",
            metavar="DIR",
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            help="Figures to draw into DIR/figures: curve:XKEY:YKEY[:BY], heatmap:XKEY:YKEY:ZKEY, "
            "compare:YKEY:BY, slowdown[:BY]; needs --out.",
            metavar="FIGURE,...",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Run a scenario at every combination of values: means and 95 % intervals, a row per point."""
    from penstock import cluster, studies, study_plot
    from penstock import scenario as scenarios
    from penstock.sweeps import Interrupted, RunFailed

    chosen = chosen_settings(settings or [], profile)
    count = None if runs is None else whole("--runs", runs, 1, scenarios.MOST_RUNS)
    axes, code = _over(over, chosen), DONE
    drawn = [] if plot is None else study_plot.chosen(plot, list(axes))
    if drawn and out is None:
        raise scenarios.error("--plot", plot, "needs --out DIR, where the figures go")
    keep = ("flows", "transfers") if any(name == "slowdown" for name, _ in drawn) else ()
    stops = Deferred()
    with stops, Bar(scenario) as bar, cluster.named(executor, worker_count(jobs)) as (pool, workers):
        try:
            found = studies.study(
                scenario,
                axes,
                sample=None if latin is None else ("latin", whole("--latin", latin, 1, scenarios.MOST_RUNS)),
                runs=count,
                seed=whole("--seed", seed, 0),
                settings=chosen,
                store=out,
                executor=pool,
                jobs=workers,
                keep=keep,
                until=None if until is None else _until(until),
                on_progress=bar,
            )
        except scenarios.ScenarioError as problem:
            if problem.key in _OPTIONS and problem.key not in chosen:
                raise scenarios.error(_OPTIONS[problem.key], problem.value, problem.rule) from None
            raise
        except (Interrupted, RunFailed) as stop:
            bar.stop()
            assert stop.study is not None
            found, code = stop.study, INTERRUPTED
            if isinstance(stop, RunFailed):
                complain(str(stop))
                code = RUN_FAILED
        saved = out is not None
        try:
            if out is not None:
                found.save(out)
        except OSError as problem:
            complain(cannot_write(problem))
            code, saved = code or RUN_FAILED, False
    shown = emit(lambda: print_json(found.document()) if as_json else _print(found))
    for warning in found.warnings:
        note(f"warning: {warning}")
    if code == DONE and stops.count:
        code = INTERRUPTED
    if code != DONE:
        ended = sum(len(runs.runs) for runs in found.sets)
        kept = f"; the same command goes on from {out}" if out is not None else ""
        note(f"{'interrupted: ' if code == INTERRUPTED else ''}{ended} runs are finished{kept}")
    if saved and out is not None:
        note(f"study: {out} ({found.ran} runs made now, {found.stored} from the store)")
        if code != INTERRUPTED:
            _draw(found, drawn, out / "figures")
    return RUN_FAILED if found.unstored or (code == DONE and not shown) else code


def _draw(found: Study, drawn: list[tuple[str, list[str]]], folder: Path) -> None:
    """Draw the named figures of a study that has come to something."""
    from penstock import figures
    from penstock import scenario as scenarios
    from penstock.runs import NotRecorded

    for name, given in drawn if found.sets and found.sets[0].runs else []:
        try:
            figure = getattr(found.plot, name)(*given)
            file = "-".join([name, *given]).replace("/", "-")
            note(f"figure: {figures.write(figure, folder, file)}")
        except (scenarios.ScenarioError, NotRecorded) as problem:
            note(f"warning: no figure {':'.join([name, *given])}: {problem}")


def _over(options: list[str], chosen: dict[str, str]) -> dict[str, str]:
    """`--over` options as a mapping."""
    from penstock import scenario as scenarios

    found: dict[str, str] = {}
    for text in options:
        key, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not key or not values:
            raise scenarios.error("--over", text, "must be KEY=V1,V2,... or KEY=A..B:N")
        if key in found:
            raise scenarios.error("--over", text, f"gives {key} a second time")
        if key in chosen:
            raise scenarios.error("--over", text, f"contradicts --set {key}={chosen[key]}")
        found[key] = values
    return found


def _until(text: str) -> Until:
    from penstock import scenario as scenarios

    parts = text.split(":")
    try:
        key, share, most = parts
        return key.strip(), float(share), int(most)
    except ValueError:
        raise scenarios.error("--until", text, "must be KEY:SHARE:MAX, as in goodput_bps:0.05:50") from None


def _print(found: Study) -> None:
    points = f"{len(found.points)} point{'s' if len(found.points) != 1 else ''}"
    out_console.print(Text.assemble((found.name, "bold"), f"  seed {found.seed}, {points}"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings, rows = found.rows()
    # As many columns as the terminal has room for, but at least one that was measured.
    widths = [max(map(len, column)) + 3 for column in zip(headings, *rows, strict=True)]
    room, least = out_console.width, len(found.keys) + 2
    shown = max(least, sum(sum(widths[: i + 1]) <= room for i in range(len(widths))))
    headings, rows = headings[:shown], [row[:shown] for row in rows]
    for heading in headings:
        table.add_column(heading, justify="left" if heading in found.keys else "right")
    for row in rows:
        table.add_row(*row)
    out_console.print(table)
