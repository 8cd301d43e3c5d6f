"""What `penstock run` and `penstock live` do with the runs of one scenario: make them under a progress bar,
print, write and draw them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from penstock.console import Bar, complain, emit, note, out_console, print_json
from penstock.interrupts import Deferred
from penstock.options import DONE, INTERRUPTED, RUN_FAILED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.approximate import Comparison
    from penstock.errors import RunError, RunInterruptedError
    from penstock.runs import RunSet


def run_set(
    label: str,
    make: Callable[[Bar], RunSet],
    count: int,
    out: Path | None,
    force: bool,
    as_json: bool,
    drawn: Sequence[str] = (),
    beside: Callable[[Bar], RunSet] | None = None,
) -> int:
    """Make the runs of one scenario under a progress bar, write and print them; the exit code. `beside` makes
    the exact runs that an approximation is compared with.

    Written first: neither a reader that went away nor an interruption loses what is finished. What the disk
    does not take is printed all the same.
    """
    from penstock import results

    with Deferred() as stops:
        said: list[str] = []
        code, state, reason, found, comparison = _made(label, make, beside, said)
        if out is not None:
            try:
                results.write(found, out, state=state, reason=reason, force=force, key="--out")
            except results.NotWritten as problem:
                complain(str(problem))
                code, out = RUN_FAILED, None
        shown = emit(lambda: _show(found, comparison, as_json, reason if state == "failed" else ""))
        for warning in found.warnings:
            note(f"warning: {warning}")
        told = dict.fromkeys(run.threads_note for run in found.runs if run.threads_note)
        for text in [text for text in told if text not in said]:
            note(text)
        late = sum(run.summary.get("valid") == 0 for run in found.runs)
        if late:
            note(
                f"invalid: {late} of {len(found.runs)} runs did not pass the gate; do not trust their numbers"
            )
        if state == "failed":
            complain(reason)
        elif code == INTERRUPTED:
            complete = sum(r.completed for r in found.runs)
            note(f"interrupted: {complete} of {count} runs complete, {len(found.runs) - complete} cut short")
        if out is not None:
            note(f"run directory: {out}")
            if not stops.count:
                _draw(found, drawn, out / "figures")
    if code == DONE and stops.count:
        note(f"interrupted: all {count} runs are complete")
        return INTERRUPTED
    return code if shown or code != DONE else RUN_FAILED


def _made(
    label: str, make: Callable[[Bar], RunSet], beside: Callable[[Bar], RunSet] | None, said: list[str]
) -> tuple[int, str, str, RunSet, Comparison | None]:
    """Exit code, state and its reason, the runs, and what they are compared with. `said` gets the notes that
    the progress bar has printed.
    """
    from penstock.errors import RunError, RunInterruptedError

    with Bar(label) as bar:
        try:
            found = make(bar)
        except RunInterruptedError as stop:
            return INTERRUPTED, "partial", "interrupted", stop.results[0], None
        except RunError as stop:
            return RUN_FAILED, "failed", str(stop), stop.results[0], None
        finally:
            said += bar.notes
    if beside is None:
        return DONE, "", "", found, None
    from penstock.approximate import Comparison

    with Bar(f"{label}, exact") as bar:
        try:
            return DONE, "", "", found, Comparison(found, beside(bar))
        except RunInterruptedError:
            return INTERRUPTED, "", "", found, None
        except RunError as stop:
            return RUN_FAILED, "failed", str(stop), found, None


def _show(found: RunSet, comparison: Comparison | None, as_json: bool, error: str) -> None:
    from penstock import results

    if as_json:
        document = results.document(results.timed(found))
        if error:
            document["error"] = error
        if comparison is not None:
            document["approximate"] = comparison.document()
        print_json(document)
        return
    if found.runs:
        _print_runs(results.timed(found))
    if comparison is not None:
        _print_comparison(comparison)


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


def keep_partial(stop: RunInterruptedError | RunError, folder: Path) -> int:
    """Write what the points of a job that was stopped have so far, say where it is; the exit code."""
    from penstock import results
    from penstock.errors import RunError

    failed = isinstance(stop, RunError)
    if failed:
        complain(str(stop))
    ended = [results.document(found) for found in stop.results if found.runs]
    path = folder / "partial.json"
    results.put(path, json.dumps(ended, indent=1))
    note(f"{'' if failed else 'interrupted: '}{len(ended)} points have runs: {path}")
    return RUN_FAILED if failed else INTERRUPTED
