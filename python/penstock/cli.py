"""The command line: run, sweep, advise, view, live, reproduce, describe, demo, doctor, new-protocol.

Exit codes: 0 done, 2 bad input (one line on stderr), 3 a run failed, 130 interrupted with partial results
kept. With `--json` stdout carries exactly one JSON document; everything else goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from penstock import completion
from penstock import export_command as exports
from penstock.advise_command import advise as advise_on
from penstock.console import Bar, complain, note, out_console
from penstock.convert_command import convert
from penstock.export_command import Export, Pcap, Perfetto
from penstock.import_command import imported, keep
from penstock.new_protocol_command import new_protocol
from penstock.options import (
    BAD_INPUT,
    DONE,
    INTERRUPTED,
    RUN_FAILED,
    Force,
    Import,
    Jobs,
    Json,
    Profile,
    RunDirectory,
    Scenario,
    Seed,
    Settings,
    Threads,
    chosen_settings,
    thread_count,
    whole,
    worker_count,
)
from penstock.reproduce_command import reproduce as reproduce_rows
from penstock.sweep_command import sweep as sweep_points
from penstock.view_command import record as write_record
from penstock.view_command import view as view_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.approximate import Comparison
    from penstock.runs import RunSet
    from penstock.sweeps import Interrupted, RunFailed

app = typer.Typer(
    name="penstock",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: list[str] | None = None) -> None:
    """The `penstock` program. Never ends in a traceback for something the user gave."""
    try:
        code = DONE
        if not completion.answer_bash():
            code = app(args=arguments, standalone_mode=False) or DONE
        sys.stdout.flush()
    except typer.TyperException as problem:
        complain(" ".join(problem.format_message().split()))
        code = BAD_INPUT
    except KeyboardInterrupt:
        note("interrupted")
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing left to say.
        _drop_stdout()
        code = DONE
    except OSError as problem:
        # A full disk, a folder that went away: what could be printed has been.
        complain(_cannot_write(problem))
        _drop_stdout()
        code = RUN_FAILED
    except Exception as problem:
        code = _told(problem)
    sys.exit(code)


def _told(problem: Exception) -> int:
    """Say in one line what was wrong and return the exit code; raise what is no error of the user or a run.

    Engine and tables are named here only, after something has gone wrong: `--help` does not wait for them.
    """
    from penstock._engine import ScenarioError

    sweeps = sys.modules.get("penstock.sweeps")
    if isinstance(problem, ScenarioError):
        code = BAD_INPUT
    elif sweeps is not None and isinstance(problem, sweeps.RunFailed):
        code = RUN_FAILED
    else:
        raise problem
    complain(str(problem))
    return code


def _drop_stdout() -> None:
    """What is still in stdout's buffer cannot be written; without this the interpreter tries at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cannot_write(problem: OSError) -> str:
    if problem.errno is None:
        return str(problem)
    place = problem.filename or "the output"
    return f"{place} cannot be written ({problem.strerror})"


def _version(wanted: bool) -> None:
    if wanted:
        from penstock import version

        print(version.line())
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print version and commit.")
    ] = False,
) -> None:
    """A laboratory for congestion control in data-centre networks."""


@app.command()
def run(
    scenario: Scenario,
    settings: Settings = None,
    profile: Profile = None,
    seed: Seed = "1",
    runs: Annotated[str, typer.Option(help="Replications, each with own random numbers.", metavar="N")] = "1",
    jobs: Jobs = "0",
    threads: Threads = "1",
    out: RunDirectory = None,
    force: Force = False,
    form: Import = None,
    plot: Annotated[
        str | None,
        typer.Option(
            help="Figures to draw into DIR/figures, as in queue,cwnd,fct; needs --out.",
            metavar="FIGURE,...",
            autocompletion=completion.figures,
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Write what became of every packet of the first replication, for `view`.", metavar="FILE"
        ),
    ] = None,
    approximate: Annotated[
        str | None,
        typer.Option(
            help="Estimate flow times in the place of a run: links, or links:flows=N (docs/approximate.md).",
            metavar="METHOD",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="exact: the exact runs beside the approximation, and its error.", metavar="exact"),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Most memory for the tables of a run, as in 1GB; what is more goes to disk (into DIR).",
            metavar="SIZE",
        ),
    ] = None,
    pcap: Pcap = None,
    perfetto: Perfetto = None,
    export: Export = None,
    as_json: Json = False,
) -> int:
    """Run a scenario and print what it measured: the mean over the runs and its 95 % interval."""
    from penstock import results
    from penstock import scenario as scenarios
    from penstock.runs import TABLES
    from penstock.sweeps import sweep

    chosen = chosen_settings(settings or [], profile)
    exports.check(pcap, export, out)
    if form is not None:
        scenario = imported(form, scenario)
    count, workers = whole("--runs", runs, 1, scenarios.MOST_RUNS), worker_count(jobs)
    number, most = whole("--seed", seed, 0), thread_count(threads)
    tables = TABLES if out is not None else ()
    if memory is not None:
        from penstock.spill import memory as bytes_of

        bytes_of("--memory", memory)
    if compare is not None and (compare != "exact" or approximate is None):
        rule = (
            "must be exact" if compare != "exact" else "needs --approximate: it is the exact run beside one"
        )
        raise scenarios.error("--compare", compare, rule)
    for option, wanted in (("--record", record), ("--pcap", pcap), ("--perfetto", perfetto)):
        if approximate is not None and wanted:
            rule = "an approximation has no packets of the network to record"
            raise scenarios.error(option, wanted, rule)
    drawn: list[str] = []
    if out is not None:
        resolved = scenarios.resolve(scenario, chosen, number, approximate)
        if plot is not None:
            from penstock.plot import chosen as chosen_figures

            drawn = chosen_figures(plot, resolved)
        results.begin(out, scenario, resolved, number, count, force=force)
        if form is not None:
            keep(scenario, out)
    elif plot is not None:
        raise scenarios.error("--plot", plot, "needs --out DIR, where the figures go")

    def make(bar: Bar) -> RunSet:
        points = [(scenario, chosen)]
        how: dict[str, Any] = {"runs": count, "seed": number, "jobs": workers, "threads": most}
        if memory is not None:
            how |= {"memory": memory, "spill_to": None if out is None else str(out), "key": "--memory"}
        made = sweep(points, keep=tables, on_progress=bar, approximate=approximate, **how)[0]
        if export is not None and out is not None:
            made.export(out, export)
        return made

    beside = None
    if compare is not None:

        def beside(bar: Bar) -> RunSet:
            return sweep([(scenario, chosen)], runs=count, seed=number, jobs=workers, on_progress=bar)[0]

    code = _run_set(scenario, make, count, out, force, as_json, drawn, beside)
    if record is not None and code == DONE:
        write_record(scenario, chosen, number, record)
    if (pcap or perfetto is not None) and code == DONE:
        exports.write(scenario, chosen, number, pcap, perfetto, out)
    return code


app.command("sweep")(sweep_points)
app.command("advise")(advise_on)
app.command("view")(view_run)


app.command("reproduce")(reproduce_rows)
app.command("new-protocol")(new_protocol)
app.command("convert")(convert)


@app.command()
def describe(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A scenario, protocol, queue, parameter, summary key or column; all without it.",
            autocompletion=completion.names,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Scenarios, protocols, queues and every parameter with unit, default, range and source."""
    from penstock import catalogue

    if as_json:
        print(json.dumps(catalogue.find(name)))
    else:
        catalogue.show(out_console, name)
    return DONE


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the report goes.", metavar="DIR")] = Path("out/demo"),
    jobs: Jobs = "0",
) -> int:
    """The incast study: goodput against the number of servers for five kinds of TCP, with figures and a
    report.
    """
    from penstock import results
    from penstock.experiments.incast import study
    from penstock.sweeps import Interrupted, RunFailed

    workers = worker_count(jobs)
    results.writable(out)
    with Bar("incast study") as bar:
        try:
            path = study.run(out, jobs=workers, on_progress=bar, console=out_console)
        except (Interrupted, RunFailed) as stop:
            bar.stop()
            return _keep_partial(stop, out)
    from penstock import gallery, views

    if why := views.available():
        note(f"without the gallery of pages: {why}")
    else:
        out_console.print(f"pages that run: {gallery.write(out / 'pages')}", soft_wrap=True)
    out_console.print(f"report: {path}", soft_wrap=True)
    return DONE


@app.command()
def live(
    scenario: Scenario,
    settings: Settings = None,
    profile: Profile = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Simulate the same beside it; figure and table of both.")
    ] = False,
    over: Annotated[
        str | None,
        typer.Option(help="With --compare: a point per value, as in servers=1,4,16", metavar="KEY=V1,V2,..."),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="none, auto or a factor: divide rates, multiply times.", metavar="FACTOR")
    ] = "none",
    kernel: Annotated[
        str, typer.Option(help="The kernel's congestion control: its name, dctcp or steered.", metavar="NAME")
    ] = "",
    gate: Annotated[
        str,
        typer.Option(help="Share of the round trip that 99 % of packets may be late by.", metavar="SHARE"),
    ] = "0.1",
    seed: Seed = "1",
    runs: Annotated[str, typer.Option(help="Replications, one after the other.", metavar="N")] = "1",
    out: RunDirectory = None,
    force: Force = False,
    as_json: Json = False,
) -> int:
    """Run a scenario with real kernel TCP across the simulator's own queues (Linux, root)."""
    from penstock import live as lives
    from penstock import results
    from penstock import scenario as scenarios

    chosen: dict[str, Any] = dict(chosen_settings(settings or [], profile))
    count, number = whole("--runs", runs, 1, scenarios.MOST_RUNS), whole("--seed", seed, 0)
    if over is not None and not compare:
        raise scenarios.error("--over", over, "needs --compare")
    options: dict[str, Any] = {"scale": scale, "kernel": kernel, "gate": gate}
    resolved = lives.resolve(scenario, chosen, seed=number, **options)
    _become_root()
    if compare:
        return _compare(scenario, chosen, over, out, as_json, {**options, "seed": number, "runs": count})
    if out is not None:
        results.begin(out, scenario, resolved, number, count, force=force)

    def make(bar: Bar) -> RunSet:
        return lives.run(scenario, seed=number, runs=count, on_progress=bar, settings=chosen, **options)

    return _run_set(f"{scenario}, live", make, count, out, force, as_json)


def _compare(
    scenario: str,
    chosen: dict[str, Any],
    over: str | None,
    out: Path | None,
    as_json: bool,
    options: dict[str, Any],
) -> int:
    from penstock import figures, results
    from penstock import live as lives
    from penstock import scenario as scenarios
    from penstock.runs import show
    from penstock.sweeps import Interrupted, RunFailed

    swept: tuple[str, list[str]] | None = None
    if over is not None:
        key, equals, values = over.partition("=")
        wanted = [v.strip() for v in values.split(",") if v.strip()]
        if not equals or not key.strip() or not wanted:
            raise scenarios.error("--over", over, "must be KEY=V1,V2,...")
        swept = (key.strip(), wanted)
    folder = out or Path("out/live")
    results.writable(folder)
    with Bar(f"{scenario}, live and simulated") as bar:
        try:
            both = lives.compare(scenario, over=swept, on_progress=bar, settings=chosen, **options)
        except (Interrupted, RunFailed) as stop:
            bar.stop()
            return _keep_partial(stop, folder)
    if as_json:
        print(json.dumps(both.document(), allow_nan=False))
    else:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in (both.key, "", "kernel", "simulated", "ratio", ""):
            table.add_column(heading, justify="left" if heading in ("", both.key) else "right")
        for row in both.table().iter_rows(named=True):
            verdict = "" if row["valid"] else "invalid: packets were late"
            key, ratio = row["metric"], row["ratio"]
            shown = "-" if ratio != ratio else f"{ratio:.3f}"
            table.add_row(
                row["point"], key, show(key, row["kernel"]), show(key, row["packet"]), shown, verdict
            )
        out_console.print(table)
    warnings = [w for r in both.kernel for w in r.warnings]
    for warning in dict.fromkeys(warnings):
        note(f"warning: {warning}")
    path = figures.write(both.figure(), folder, f"{Path(scenario).stem}-kernel-and-packet")
    results.put(folder / "comparison.json", json.dumps(both.document(), indent=1))
    note(f"figure: {path}")
    return DONE


def _keep_partial(stop: Interrupted | RunFailed, folder: Path) -> int:
    """Write what the points of a job that was stopped have so far, say where it is; the exit code."""
    from penstock import results
    from penstock.sweeps import RunFailed

    failed = isinstance(stop, RunFailed)
    if failed:
        complain(str(stop))
    ended = [results.document(found) for found in stop.results if found.runs]
    path = folder / "partial.json"
    results.put(path, json.dumps(ended, indent=1))
    note(f"{'' if failed else 'interrupted: '}{len(ended)} points have runs: {path}")
    return RUN_FAILED if failed else INTERRUPTED


def _become_root() -> None:
    """Continue in a user namespace where one may be root, when this is Linux and nobody is yet."""
    import shutil

    unshare = shutil.which("unshare")
    if sys.platform != "linux" or os.geteuid() == 0 or unshare is None or "PENSTOCK_UNSHARED" in os.environ:
        return
    os.environ["PENSTOCK_UNSHARED"] = "1"
    os.execv(unshare, [unshare, "--user", "--map-root-user", sys.executable, "-m", "penstock", *sys.argv[1:]])


@app.command()
def doctor(as_json: Json = False) -> int:
    """What this machine has and lacks for live runs, and what to install."""
    from penstock import live as lives

    found = lives.doctor()
    if as_json:
        print(json.dumps(found))
        return DONE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "for live runs", "found"):
        table.add_column(heading)
    for item in found:
        mark = Text("yes", "green") if item["found"] else Text("no", "red" if item["required"] else "yellow")
        table.add_row(mark, item["what"], item["detail"])
    out_console.print(table)
    for item in found:
        if not item["found"]:
            need = "required" if item["required"] else "wanted"
            out_console.print(f"{item['what']} ({need}): {item['remedy']}", soft_wrap=True)
    possible = all(item["found"] for item in found if item["required"])
    out_console.print("Live runs are possible here." if possible else "Live runs are not possible here.")
    return DONE


def _run_set(
    label: str,
    make: Callable[[Bar], RunSet],
    count: int,
    out: Path | None,
    force: bool,
    as_json: bool,
    drawn: Sequence[str] = (),
    beside: Callable[[Bar], RunSet] | None = None,
) -> int:
    """Make the runs of one scenario under a progress bar, print and write them; the exit code. `beside` makes
    the exact runs that an approximation is compared with.

    Printed first: a disk that does not take the files loses no result.
    """
    from penstock import results
    from penstock.sweeps import Interrupted, RunFailed

    code, state, reason = DONE, "", ""
    with Bar(label) as bar:
        try:
            found = make(bar)
        except Interrupted as stop:
            found, code, state, reason = stop.results[0], INTERRUPTED, "partial", "interrupted"
        except RunFailed as stop:
            found, code, state, reason = stop.results[0], RUN_FAILED, "failed", str(stop)
    comparison = None
    if beside is not None and code == DONE:
        from penstock.approximate import Comparison

        with Bar(f"{label}, exact") as bar:
            comparison = Comparison(found, beside(bar))
    if as_json:
        document = results.document(results.timed(found))
        if comparison is not None:
            document["approximate"] = comparison.document()
        print(json.dumps(document, allow_nan=False), flush=True)
    elif found.runs:
        _print_runs(results.timed(found))
    if comparison is not None and not as_json:
        _print_comparison(comparison)
    for warning in found.warnings:
        note(f"warning: {warning}")
    for text in dict.fromkeys(run.threads_note for run in found.runs if run.threads_note):
        note(text)
    late = sum(run.summary.get("valid") == 0 for run in found.runs)
    if late:
        note(f"invalid: {late} of {len(found.runs)} runs did not pass the gate; do not trust their numbers")
    if code == RUN_FAILED:
        complain(reason)
    elif code == INTERRUPTED:
        complete = sum(r.completed for r in found.runs)
        note(f"interrupted: {complete} of {count} runs complete, {len(found.runs) - complete} cut short")
    if out is not None:
        try:
            results.write(found, out, state=state, reason=reason, force=force, key="--out")
        except results.NotWritten as problem:
            complain(str(problem))
            return RUN_FAILED
        note(f"run directory: {out}")
        _draw(found, drawn, out / "figures")
    return code


def _draw(found: RunSet, names: Sequence[str], folder: Path) -> None:
    """Draw the named figures of a run set that has come to something."""
    if not names or not found.runs:
        return
    from penstock import figures, plot
    from penstock.runs import NotRecorded

    for name in names:
        try:
            note(f"figure: {figures.write(plot.draw(found, name), folder, name)}")
        except NotRecorded as problem:
            note(f"warning: no figure {name}: {problem}")


def _print_comparison(both: Comparison) -> None:
    from penstock.runs import show

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "approximate", "exact", "error"):
        table.add_column(heading, justify="right" if heading else "left")
    for key, error in both.errors().items():
        means = (show(key, runs.summary[key]) for runs in (both.approximate, both.exact))
        table.add_row(key, *means, f"{error:+.1%}")
    out_console.print(table)
    out_console.print(f"The exact runs took {both.speedup:.1f} times the CPU time of the approximation.")


def _print_runs(found: RunSet) -> None:
    from penstock.runs import headline, show

    count = len(found.runs)
    plural = "s" if count != 1 else ""
    out_console.print(Text.assemble((found.name, "bold"), f"  seed {found.seed}, {count} run{plural}"))
    given = ", ".join(f"{key}={value}" for key, value in headline(found.scenario))
    out_console.print(given or "all values are defaults", style="dim")
    if found.bottleneck:
        out_console.print(f"bottleneck: {found.bottleneck}", style="dim", soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("mean" if count > 1 else "value", justify="right")
    if count > 1:
        table.add_column("95 %", justify="right", style="dim")
    for key, mean in found.summary.items():
        row = [key, show(key, mean)]
        table.add_row(*row, *([found.interval(key)] if count > 1 else []))
    out_console.print(table)


if __name__ == "__main__":
    main()
