"""The command line: run, sweep, advise, view, live, reproduce, describe, demo, doctor, new-protocol.

Exit codes: 0 done, 2 bad input (one line on stderr), 3 a run failed; with partial results kept 130
interrupted, 143 terminated (SIGTERM), 129 hung up (SIGHUP). With `--json` stdout carries exactly one JSON
document; everything else goes to stderr. Results are written before they are printed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from penstock import completion, interrupts
from penstock import export_command as exports
from penstock.advise_command import advise as advise_on
from penstock.console import Bar, cannot_write, complain, drop, note, out_console, prepare
from penstock.convert_command import convert
from penstock.export_command import Export, Pcap, Perfetto
from penstock.import_command import imported, keep
from penstock.live_command import doctor
from penstock.live_command import live as live_run
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
from penstock.run_command import keep_partial, run_set
from penstock.sweep_command import sweep as sweep_points
from penstock.view_command import record as write_record
from penstock.view_command import view as view_run

if TYPE_CHECKING:
    from penstock.runs import RunSet


class _Interrupted(Exception):
    """Ctrl-C in a command: Typer would end without a word."""


class _Group(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise _Interrupted from None


app = typer.Typer(
    name="penstock",
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: list[str] | None = None) -> None:
    """The `penstock` program. Never ends in a traceback for something the user gave."""
    interrupts.listen()
    prepare()
    try:
        code = DONE
        if not completion.answer_bash():
            code = app(args=arguments, standalone_mode=False) or DONE
        sys.stdout.flush()
    except typer.TyperException as problem:
        complain(" ".join(problem.format_message().split()))
        code = BAD_INPUT
    except (KeyboardInterrupt, _Interrupted):
        note("interrupted")
        code = INTERRUPTED
    except (BrokenPipeError, SystemExit) as end:
        # The reader of our output went away (`| head`): nothing left to say. Typer and rich exit then.
        if not any(isinstance(cause, BrokenPipeError) for cause in (end, end.__context__)):
            raise
        drop(sys.stdout)
        code = DONE
    except OSError as problem:
        # A full disk, a folder that went away: what could be printed has been.
        complain(cannot_write(problem))
        drop(sys.stdout)
        code = RUN_FAILED
    except Exception as problem:
        if interrupts.within(problem):
            note("interrupted")
            code = INTERRUPTED
        else:
            code = _told(problem)
    if code == INTERRUPTED:
        interrupts.leave(interrupts.exit_code())
    sys.exit(code)


def _told(problem: Exception) -> int:
    """Print one line about the error and return the exit code; raise errors that neither user nor run caused.

    Engine and tables are named here only, after something has gone wrong: `--help` does not wait for them.
    """
    from penstock.errors import ScenarioError

    sweeps = sys.modules.get("penstock.sweeps")
    if isinstance(problem, ScenarioError):
        code = BAD_INPUT
    elif sweeps is not None and isinstance(problem, sweeps.RunFailed):
        code = RUN_FAILED
    else:
        raise problem
    complain(str(problem))
    return code


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
    runs: Annotated[
        str, typer.Option(help="Replications, each with its own random numbers.", metavar="N")
    ] = "1",
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
        typer.Option(help="Record every packet of the first replication, for `view`.", metavar="FILE"),
    ] = None,
    approximate: Annotated[
        str | None,
        typer.Option(
            help="Estimate flow times instead of running the network: links, or links:flows=N "
            "(docs/background/approximate.md).",
            metavar="METHOD",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="exact: also run the network, and print the approximation's error.", metavar="exact"
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Most memory for the tables of a run, as in 1GB; the rest goes to disk (into DIR).",
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
    for option, place in (("--record", record), ("--perfetto", perfetto), ("--out", out)):
        if place is not None:
            results.named(place, option)
    exports.check_places(scenario, chosen, number, pcap)
    drawn: list[str] = []
    if out is not None:
        resolved = scenarios.resolve(scenario, chosen, number, approximate)
        if plot is not None:
            from penstock.plot import chosen as chosen_figures

            drawn = chosen_figures(plot, resolved)
    elif plot is not None:
        raise scenarios.error("--plot", plot, "needs --out DIR, where the figures go")

    def make(bar: Bar) -> RunSet:
        points = [(scenario, chosen)]
        how: dict[str, Any] = {"runs": count, "seed": number, "jobs": workers, "threads": most}
        if memory is not None:
            how |= {"memory": memory, "spill_to": None if out is None else str(out), "key": "--memory"}
        how |= {"on_progress": bar, "on_note": bar.note}
        made = sweep(points, keep=tables, approximate=approximate, **how)[0]
        if export is not None and out is not None:
            made.export(out, export)
        return made

    beside = None
    if compare is not None:

        def beside(bar: Bar) -> RunSet:
            return sweep([(scenario, chosen)], runs=count, seed=number, jobs=workers, on_progress=bar)[0]

    # An interruption after the claim waits until run.json says what the run came to.
    with interrupts.Deferred():
        if out is not None:
            results.begin(out, scenario, resolved, number, count, force=force)
            if form is not None:
                keep(scenario, out)
        code = run_set(scenario, make, count, out, force, as_json, drawn, beside)
    if record is not None and code == DONE:
        write_record(scenario, chosen, number, record)
    if (pcap or perfetto is not None) and code == DONE:
        exports.write(scenario, chosen, number, pcap, perfetto, out)
    return code


app.command("live")(live_run)
app.command("sweep")(sweep_points)
app.command("advise")(advise_on)
app.command("view")(view_run)


def _papers() -> bool:
    return importlib.util.find_spec("penstock_papers") is not None


def _reproduce() -> Any:
    """The command of the distribution `penstock-papers`, or where it is missing one that says so."""
    if _papers():
        return importlib.import_module("penstock_papers.command").reproduce

    def missing(rows: Annotated[list[str] | None, typer.Argument(metavar="[ID]...")] = None) -> int:
        """Judge published results (needs the package penstock-papers)."""
        complain("reproduce needs the papers' package, which is not installed: pip install penstock-papers")
        return BAD_INPUT

    return missing


# Without the package every option is let through to the message.
app.command("reproduce", context_settings={} if _papers() else {"ignore_unknown_options": True})(_reproduce())
app.command("new-protocol")(new_protocol)
app.command("convert")(convert)
app.command("doctor")(doctor)


@app.command()
def describe(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A scenario, protocol, queue, parameter, summary key or column; default: all.",
            autocompletion=completion.names,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """List scenarios, protocols, queues and every parameter with unit, default, range and source."""
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
    """Run the incast study: goodput against the number of servers for five kinds of TCP, with figures and a
    report.
    """
    from penstock import results
    from penstock.sweeps import Interrupted, RunFailed
    from penstock_papers.experiments.incast import study

    workers = worker_count(jobs)
    results.writable(out)
    with Bar("incast study") as bar:
        try:
            path = study.run(out, jobs=workers, on_progress=bar, console=out_console)
        except (Interrupted, RunFailed) as stop:
            bar.stop()
            return keep_partial(stop, out)
    from penstock import gallery, views

    if why := views.available():
        note(f"without the gallery of pages: {why}")
    else:
        out_console.print(f"pages that run: {gallery.write(out / 'pages')}", soft_wrap=True)
    out_console.print(f"report: {path}", soft_wrap=True)
    return DONE


if __name__ == "__main__":
    main()
