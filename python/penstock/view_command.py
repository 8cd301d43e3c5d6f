"""`penstock view`: a run as one HTML file that opens offline (`penstock.view` from the shell)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock import completion
from penstock.console import complain, note, out_console
from penstock.options import DONE, RUN_FAILED, Profile, Seed, Settings, chosen_settings, whole


def view(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE.toml|DIR|RECORD",
            help="A built-in scenario, a file, the directory of a run or a study, a record; or `gallery`.",
            autocompletion=completion.scenarios,
        ),
    ],
    settings: Settings = None,
    profile: Profile = None,
    seed: Seed = "1",
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Show the packets from this time of the run on; flows are shown whole.",
            metavar="TIME",
        ),
    ] = "0s",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the page here instead of opening it; of the gallery a folder.", metavar="FILE.html"
        ),
    ] = None,
) -> int:
    """Make a page that shows a run packet by packet and runs it again, in one file."""
    from penstock import views

    number = whole("--seed", seed, 0)
    begin = views.seconds("--from", start)
    try:
        if what == "gallery":
            from penstock import gallery

            out_console.print(f"pages: {gallery.write(out or Path('out/gallery'))}", soft_wrap=True)
            return DONE
        if Path(what).is_dir() and (made := _of_study(Path(what), out)):
            out_console.print(f"page: {made}", soft_wrap=True)
            return DONE
        page = views.view(
            what, seed=number, settings=chosen_settings(settings or [], profile), packets_from=begin
        )
    except views.NotBuiltError as problem:
        complain(str(problem))
        return RUN_FAILED
    path = page.save(out) if out is not None else page.show()
    if page.note:
        note(page.note)
    note(f"{len(page.text) / 1e6:.1f} MB")
    out_console.print(f"page: {path}", soft_wrap=True)
    return DONE


def _of_study(folder: Path, out: Path | None) -> Path | None:
    """Write the page of a study's directory, and open it unless it goes to `out`; None for another one."""
    from penstock import study_page, views

    if not study_page.is_study(folder):
        return None
    if out is not None:
        return study_page.write(folder, out)
    path = study_page.write(folder, views.place(folder.resolve().name))
    views.open_page(path)
    return path


def record(scenario: str, chosen: dict[str, str], seed: int, path: Path) -> None:
    """Run replication 0 once more and write its record to `path`. Raises OSError."""
    from penstock import _engine, interrupts, results
    from penstock import scenario as scenarios

    progress = _engine.Progress()
    spec = scenarios.spec(scenario, chosen, seed)
    with results.new(path) as beside:
        interrupts.watched(lambda: _engine.record(spec, 0, str(beside), progress), progress.cancel)
    note(f"record: {path} ({path.stat().st_size / 1e6:.1f} MB)")
