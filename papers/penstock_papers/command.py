"""`penstock reproduce`: judge the rows of the ledger, search their open parameters, pin their verdicts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from penstock.console import Bar, cannot_write, complain, emit, err_console, note, out_console, print_json
from penstock.interrupts import Deferred
from penstock.options import (
    BAD_INPUT,
    DONE,
    INTERRUPTED,
    RUN_FAILED,
    Executor,
    Jobs,
    Json,
    Seed,
    whole,
    worker_count,
)

if TYPE_CHECKING:
    from penstock_papers.ledger import Judged, Lab, Row, Verdict

_STYLES = {
    "confirmed": "green",
    "in part": "cyan",
    "differs": "yellow",
    "undecided": "magenta",
    "not run": "dim",
}
# Of outcomes.
_COLOURS = {
    "robust": "green",
    "chosen": "cyan",
    "fails": "yellow",
    "undecided": "magenta",
    "identity": "dim",
    "not run": "dim",
}


def reproduce(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Rows by id (I-4.1).")] = None,
    paper: Annotated[list[str] | None, typer.Option(help="All rows of a paper.", metavar="KEY")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All rows.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use fewer points and replications (default).")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Use the published lengths.")] = False,
    seed: Seed = "1",
    jobs: Jobs = "0",
    executor: Executor = "threads",
    out: Annotated[
        Path,
        typer.Option(
            help="Directory of figures, verdicts.json, report.html and runs; finished runs are reused."
        ),
    ] = Path("out/ledger"),
    as_json: Json = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Print reading, criterion, reasons, and where each claim holds."
        ),
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="List the rows (with --paper, those of the paper) and stop.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Include rows with kernel sockets; without other rows, only these (Linux, root)."
        ),
    ] = False,
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Search the ranges of open parameters for values at which each claim holds."
        ),
    ] = False,
    points: Annotated[str, typer.Option(help="Points of the search.", metavar="N")] = "64",
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the pinned verdicts; exit code 3 if any moved.")
    ] = False,
    pin: Annotated[
        bool, typer.Option("--pin", help="Write the verdicts, or the results of the search, beside the rows.")
    ] = False,
) -> int:
    """Judge published results: measure, print a verdict for each claim, write a report."""
    from penstock import cluster, results
    from penstock import scenario as scenarios
    from penstock.store import Store
    from penstock_papers import ledger

    workers, number = worker_count(jobs), whole("--seed", seed, 0)
    count = whole("--points", points, 2, scenarios.MOST_RUNS)
    if listing:
        return _list_rows(live, ids or [], paper or [])
    if quick and full:
        raise scenarios.error("--quick", "--full", "give one of the two")
    if search and (check or live):
        raise scenarios.error("--search", "--check" if check else "--live", "give one of the two")
    if everything and (ids or paper):
        raise scenarios.error("--all", " ".join([*(ids or []), *(paper or [])]), "names all rows already")
    if not (everything or ids or paper or live):
        raise scenarios.error(
            "ID", "nothing", "name rows (I-4.1 ...), a paper (--paper incast), --all or --live"
        )
    results.writable(out)
    chosen = ledger.select(ids or (), paper or (), live=live)
    if live and not (everything or ids or paper):
        chosen = [row for row in chosen if row.view]
    if not search:
        _plan(chosen, "full" if full else "quick", out)
    bar, store = Bar("rows"), Store(out / "store", "--out")
    words = ["penstock", "reproduce", *(["--all"] if everything else []), *(ids or [])]
    words += [word for key in paper or [] for word in ("--paper", key)]
    words += ["--live"] if live else []
    words += [*(["--seed", seed] if number != 1 else []), "--full" if full else "--quick"]
    with cluster.named(executor, workers) as (pool, jobs_there):
        lab = ledger.Lab(
            out, quick=not full, jobs=jobs_there, seed=number, executor=pool, store=store, on_progress=bar
        )
        if search:
            return _search(chosen, lab, count, pin, as_json, bar)
        return _judge(
            chosen, lab, " ".join(words), bar, as_json=as_json, check=check, pin=pin, verbose=verbose
        )


def _judge(
    chosen: Sequence[Row],
    lab: Lab,
    command: str,
    bar: Bar,
    *,
    as_json: bool,
    check: bool,
    pin: bool,
    verbose: bool,
) -> int:
    from penstock import _engine
    from penstock_papers import ledger
    from penstock_papers.ledger import page, pinned

    def show(verdict: Verdict) -> None:
        bar.stop()
        if err_console.is_terminal or as_json:
            _verdict_line(verdict)

    with bar:
        found, interrupted = ledger.reproduce(chosen, lab, show)
    provenance = {"command": command, "penstock": _engine.__version__, "seed": lab.seed}
    # Written before anything is printed, whose reader may go away; printed even where the disk takes no file.
    unwritten = ""
    with Deferred() as stops:
        try:
            ledger.write(found, lab.out)
            path = page.write_all(found, lab.out / "report.html", quick=lab.quick, provenance=provenance)
        except OSError as problem:
            unwritten = cannot_write(problem)
    interrupted = interrupted or stops.count > 0
    shown = emit(
        lambda: print_json([v.document() for v in found]) if as_json else _print_outcomes(found, verbose)
    )
    if lab.from_store:
        note(f"{lab.ran} runs made, {lab.from_store} were in {lab.out / 'store'}")
    if unwritten:
        complain(unwritten)
    else:
        note(f"report: {path}")
    if interrupted:
        judged = sum(v.verdict != ledger.NOT_RUN for v in found)
        note(f"interrupted: {judged} of {len(found)} rows have a verdict")
        return INTERRUPTED
    failed = [v for v in found if v.verdict == ledger.NOT_RUN]
    for verdict in failed:
        complain(f"{verdict.row.id}: {verdict.reason}")
    length = "quick" if lab.quick else "full"
    if pin:
        for written in pinned.write(found, length, seed=lab.seed):
            note(f"pinned: {written}")
    moved: list[str] = []
    if check:
        moved, missing = pinned.compare(found, length, seed=lab.seed)
        for line in moved:
            complain(line)
        note(f"pinned verdicts: {len(moved)} moved, {len(missing)} claims are not pinned")
    return RUN_FAILED if failed or moved or unwritten or not shown else DONE


# From this much work on a reproduction says beforehand how long it will take (s).
LONG_S = 600.0


def _plan(chosen: Sequence[Row], length: str, out: Path) -> None:
    """Say how long a long reproduction took when its verdicts were pinned."""
    from penstock_papers.ledger import pinned

    known = {paper: pinned.seconds(paper, length) for paper in dict.fromkeys(row.paper for row in chosen)}
    times = [known[row.paper][row.id] for row in chosen if row.id in known[row.paper]]
    if sum(times) < LONG_S:
        return
    others = len(chosen) - len(times)
    rest = f"; {others} rows more whose time is not known" if others else ""
    note(
        f"some {sum(times) / 3600:.1f} h of one core for {len(times)} rows{rest}; stopped, it goes on "
        f"where it was with the same --out ({out})"
    )


def _search(chosen: Sequence[Row], lab: Lab, points: int, pin: bool, as_json: bool, bar: Bar) -> int:
    from penstock_papers.ledger import holding, selection
    from penstock_papers.ledger import search as searching

    rows = searching.searchable(chosen)
    if not rows:
        complain("none of these rows has a probe: nothing can be searched")
        return BAD_INPUT
    lines: list[dict[str, str]] = []
    written: list[Path] = []
    code = DONE
    for row in rows:
        bar.label = row.id
        try:
            with bar:
                entry = searching.search(row, lab, points=points, on_progress=bar)
        except KeyboardInterrupt:
            note(f"interrupted during {row.id}: what was evaluated is kept in {lab.out} and not run again")
            code = INTERRUPTED
            break
        # Row by row: a search of all papers is a long one.
        path = selection.folder(row.paper) / holding.FILE if pin else lab.out / f"holds-{row.paper}.json"
        searching.write(searching.merged(holding.document(row.paper, path), {row.id: entry}), path)
        written += [path] if path not in written else []
        for claim in row.claims:
            text = holding.words(row, claim.id, {"rows": {row.id: entry}})
            if text:
                chosen_there = entry["claims"][claim.id]["chosen"]
                name = f"{row.id}/{claim.id}"
                lines.append({"id": name, "chosen": chosen_there, "holds_when": text})
                if not as_json:
                    style = _STYLES.get(chosen_there, "")
                    head = ((f"{name:<20}", "bold"), (f"{chosen_there:<10}", style))
                    out_console.print(Text.assemble(*head, text), soft_wrap=True)
    if as_json:
        print(json.dumps(lines))
    for path in written:
        note(f"search results: {path}")
    if written and not pin:
        note("`--pin` writes them beside the rows, where `reproduce` and the report show them")
    return code


def _verdict_line(verdict: Verdict) -> None:
    line = Text.assemble(
        (f"{verdict.row.id:<10}", "bold"),
        (f"{verdict.shown:<18}", _STYLES[verdict.verdict]),
        f"{verdict.seconds:6.1f} s  {verdict.row.title}",
    )
    err_console.print(line, soft_wrap=True)


def _print_outcomes(found: list[Verdict], verbose: bool) -> None:
    """One line a claim, and the statements by outcome."""
    from penstock_papers import ledger
    from penstock_papers.ledger import judging, outcomes

    for v in found:
        if not v.claims:
            out_console.print(Text.assemble((f"{v.row.id:<24}", "bold"), ("not run", "dim")), soft_wrap=True)
            out_console.print(Text(f"    {v.reason}"), soft_wrap=True)
        for one in v.claims:
            words, again = outcomes.WORDS[one.outcome], f" (as {one.claim.same_as})"
            line = Text.assemble(
                (f"{v.row.id}/{one.claim.id}".ljust(24), "bold"),
                (f" {words:<22} ", _COLOURS[one.outcome]),
                f"{one.claim.text}: {one.measured}{outcomes.untested(one.claim, one.outcome)}",
                again if one.claim.same_as else "",
            )
            out_console.print(line, soft_wrap=True)
            for head, text in _details(one) if verbose else ():
                out_console.print(Text(f"    {head}: {text}", style="dim"), soft_wrap=True)
    statements = outcomes.of_statements(judging.judged_in(found))
    five = [paper for paper in ledger.PAPERS if paper not in ledger.REPRODUCED]
    for title, papers in (("statements", five), ("reproductions", ledger.REPRODUCED)):
        tally = outcomes.tally(statements, papers)
        told = ", ".join(f"{tally[name]} {words}" for name, words in outcomes.WORDS.items() if tally[name])
        if told:
            out_console.print(f"{title}: {told}", soft_wrap=True)


def _details(one: Judged) -> list[tuple[str, str]]:
    """What `-v` says of a claim."""
    claim = one.claim
    opposed = {
        "differs": "does not hold, as it must be",
        "confirmed": "holds, too: the claim says little",
        "undecided": "undecided",
    }
    found = [
        ("quote", f"{claim.quote} ({claim.where})" if claim.quote else claim.where),
        ("criterion", f"{claim.quantity or 'value'}: {claim.criterion.text}"),
        ("our reading", claim.why),
        ("judged of it", claim.part),
        ("because", one.reason),
        *(("tried, and not supported", f"{text} ({numbers})") for text, numbers in one.excluded),
        ("elsewhere", one.holds_when),
        ("under the opposing measurement", opposed.get(one.opposed, "")),
    ]
    return [(head, text) for head, text in found if text]


def _list_rows(live: bool, ids: list[str], papers: list[str]) -> int:
    from penstock_papers import ledger

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("row", "paper", "claims", "what"):
        table.add_column(
            heading, no_wrap=heading != "what", justify="right" if heading == "claims" else "left"
        )
    rows = ledger.select(ids, papers, live=live) if ids or papers else ledger.rows(live=live)
    for row in rows:
        table.add_row(row.id, row.paper, str(len(row.claims) or 1), row.title)
    out_console.print(table)
    return DONE
