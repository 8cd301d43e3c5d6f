"""`penstock live`: a scenario with real sockets of the kernel; `penstock doctor`: what this machine lacks for
it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from penstock.console import Bar, emit, note, out_console, print_json
from penstock.interrupts import Deferred
from penstock.options import (
    DONE,
    RUN_FAILED,
    Force,
    Json,
    Profile,
    RunDirectory,
    Scenario,
    Seed,
    Settings,
    chosen_settings,
    whole,
)
from penstock.run_command import keep_partial, run_set

if TYPE_CHECKING:
    from penstock.runs import RunSet


def live(
    scenario: Scenario,
    settings: Settings = None,
    profile: Profile = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also simulate each point; figure and table of both.")
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
        typer.Option(
            help="Largest lateness of 99 % of packets in a valid run, as a share of the round trip.",
            metavar="SHARE",
        ),
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

    def make(bar: Bar) -> RunSet:
        return lives.run(scenario, seed=number, runs=count, on_progress=bar, settings=chosen, **options)

    # An interruption after the claim waits until run.json says what the run came to.
    with Deferred():
        if out is not None:
            results.begin(out, scenario, resolved, number, count, force=force)
        return run_set(f"{scenario}, live", make, count, out, force, as_json)


def _compare(
    scenario: str,
    chosen: dict[str, Any],
    over: str | None,
    out: Path | None,
    as_json: bool,
    options: dict[str, Any],
) -> int:
    import numpy as np

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
            return keep_partial(stop, folder)
    with Deferred():
        path = figures.write(both.figure(), folder, f"{Path(scenario).stem}-kernel-and-packet")
        results.put(folder / "comparison.json", json.dumps(both.document(), indent=1))

    def show_table() -> None:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in (both.key, "", "kernel", "simulated", "ratio", "no noise", ""):
            table.add_column(heading, justify="left" if heading in ("", both.key) else "right")
        for row in both.table().iter_rows(named=True):
            verdict = "" if row["valid"] else "late"
            key, ratio = row["metric"], row["ratio"]
            shown = "-" if ratio != ratio else f"{ratio:.3f}"
            table.add_row(
                row["point"],
                key,
                show(key, row["kernel"]),
                show(key, row["packet"]),
                shown,
                show(key, row["noiseless"]),
                verdict,
            )
        out_console.print(table)

    written = emit(lambda: print_json(both.document()) if as_json else show_table())
    if not as_json:
        given = [key for key in lives.NOISE if key in both.kernel[0].scenario["given"]]
        if given:
            note(f"simulated hosts have the given delays ({', '.join(given)}); 'no noise' is without them")
        else:
            late = [show("lag_p99_s", float(np.median(r.values("lag_p99_s")))) for r in both.kernel]
            note(
                "simulated hosts have the delays of the kernel runs, in which 99 % of the packets "
                f"were late by at most {', '.join(dict.fromkeys(late))}; 'no noise' is without delays"
            )
    warnings = [w for r in both.kernel for w in r.warnings]
    for warning in dict.fromkeys(warnings):
        note(f"warning: {warning}")
    note(f"figure: {path}")
    return DONE if written else RUN_FAILED


def _become_root() -> None:
    """Continue in a user namespace with root rights, if this is Linux and the process is not root."""
    import shutil

    unshare = shutil.which("unshare")
    if sys.platform != "linux" or os.geteuid() == 0 or unshare is None or "PENSTOCK_UNSHARED" in os.environ:
        return
    os.environ["PENSTOCK_UNSHARED"] = "1"
    os.execv(unshare, [unshare, "--user", "--map-root-user", sys.executable, "-m", "penstock", *sys.argv[1:]])


def doctor(as_json: Json = False) -> int:
    """Print what this machine has and lacks for live runs, and what to install."""
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
