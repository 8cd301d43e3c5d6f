"""`penstock run --pcap ... --perfetto FILE --export csv|arrow`: a run in the formats of other programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from penstock.console import note

Pcap = Annotated[
    list[str] | None,
    typer.Option(
        help="Write packets at a host or a port (a->b) of the first run to DIR/packets.pcapng, of several "
        "to a file each; needs --out.",
        metavar="HOST|PORT,...",
    ),
]
Perfetto = Annotated[
    Path | None,
    typer.Option(help="Write the first run as a trace for ui.perfetto.dev.", metavar="FILE.json"),
]
Export = Annotated[
    str | None,
    typer.Option(help="Also write every table as csv or arrow; needs --out.", metavar="csv|arrow"),
]


def check(pcap: list[str] | None, form: str | None, out: Path | None) -> None:
    """Raise ScenarioError for what can be known to be wrong before the run."""
    from penstock import scenario
    from penstock.export.tables import FORMS

    if form is not None and form not in FORMS:
        raise scenario.error("--export", form, f"must be one of {', '.join(FORMS)}")
    for key, value in (("--pcap", ",".join(pcap or [])), ("--export", form or "")):
        if value and out is None:
            raise scenario.error(key, value, "needs --out DIR, where the files go")


def check_places(scenario: str, chosen: dict[str, str], seed: int, pcap: list[str] | None) -> None:
    """Raise ScenarioError for a place of `--pcap` that is neither a host nor a port, before the run."""
    if pcap:
        from penstock.export import pcapng
        from penstock.export.record import made

        pcapng.places(made(scenario, chosen, seed, only_head=True), _places(pcap))


def _places(pcap: list[str]) -> list[str]:
    return [place.strip() for text in pcap for place in text.split(",")]


def write(
    scenario: str,
    chosen: dict[str, str],
    seed: int,
    pcap: list[str] | None,
    perfetto: Path | None,
    out: Path | None,
) -> None:
    """Make the run once more with its record and write what is asked for. Raises ScenarioError for a place
    that is neither a host nor a port; OSError.
    """
    from penstock import export
    from penstock.export import pcapng
    from penstock.export.record import made

    record = made(scenario, chosen, seed)
    if pcap and out is not None:
        places = pcapng.places(record, _places(pcap))
        for place in places:
            path = pcapng.file_of(out / "packets.pcapng", place, places)
            _whole(path, partial(pcapng.write, record, place=place))
    if perfetto is not None:
        _whole(perfetto, lambda path: export.perfetto(record, path))


def _whole(path: Path, write: Callable[[Path], Path]) -> None:
    """The file, or nothing."""
    from penstock import results

    with results.new(path) as beside:
        write(beside)
    note(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
