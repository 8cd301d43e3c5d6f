"""What the commands share: options, exit codes, and how an option's text becomes a value."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from penstock import completion

DONE, BAD_INPUT, RUN_FAILED, INTERRUPTED = 0, 2, 3, 130

Scenario = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE.toml",
        help="A built-in scenario or a file.",
        autocompletion=completion.scenarios,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change a value, as in --set rto_min=200us; if a key is given twice, the last value counts.",
        metavar="KEY=VALUE",
        autocompletion=completion.settings,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        help="Named set of defaults of the scenario (`describe` lists them); short for --set profile=NAME.",
        metavar="NAME",
        autocompletion=completion.profiles,
    ),
]
RunDirectory = Annotated[
    Path | None,
    typer.Option(help="Write the run directory here; it must not hold another run.", metavar="DIR"),
]
Force = Annotated[bool, typer.Option("--force", help="Replace another run in the directory of --out.")]
Import = Annotated[
    str | None,
    typer.Option(
        "--import",
        help="Read the input of another simulator: hpcc, where NAME is the directory of its config.",
        metavar="FORM",
    ),
]
Seed = Annotated[str, typer.Option(help="Seed of all random streams.", metavar="N")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout, everything else on stderr.")
]
Jobs = Annotated[
    str, typer.Option("--jobs", "-j", help="Runs at the same time; 0 = one per core.", metavar="N")
]
Threads = Annotated[
    str,
    typer.Option(
        help="Threads for one run, if it can be partitioned and cores are free; 0 = one per core. "
        "The results do not depend on it.",
        metavar="N",
    ),
]

Executor = Annotated[
    str,
    typer.Option(
        help="Where runs execute: serial, threads, processes, or a Dask scheduler's address.",
        metavar="WHERE",
    ),
]


def chosen_settings(pairs: list[str], profile: str | None = None) -> dict[str, str]:
    """Return `--set` options and `--profile` as a mapping; the last value of a repeated key counts."""
    from penstock import scenario as scenarios

    chosen: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise scenarios.error("--set", pair, "must be KEY=VALUE; there is no = in it")
        if not key or not value:
            raise scenarios.error(
                "--set", pair, f"must be KEY=VALUE; the {'value' if key else 'key'} is empty"
            )
        chosen[key] = value
    if profile is not None:
        if chosen.get("profile", profile) != profile:
            raise scenarios.error("--profile", profile, f"contradicts --set profile={chosen['profile']}")
        chosen["profile"] = profile
    return chosen


def whole(option: str, text: str, least: int, most: int | None = None) -> int:
    """An option's text as an int of `least` to `most`. Raises ScenarioError."""
    from penstock import scenario as scenarios

    try:
        number = int(text)
    except ValueError:
        raise scenarios.error(option, text, f"must be a whole number, at least {least}") from None
    return scenarios.whole(option, number, least=least, most=most)


def worker_count(jobs: str) -> int:
    """`--jobs` as a number of workers; 0 is one per core. Raises ScenarioError."""
    from penstock import scenario as scenarios

    return whole("--jobs", jobs, 0, scenarios.MOST_JOBS) or os.cpu_count() or 1


def thread_count(threads: str) -> int:
    """`--threads` as a number of threads; 0 is one per core. Raises ScenarioError."""
    from penstock import scenario as scenarios

    return whole("--threads", threads, 0, scenarios.MOST_JOBS) or os.cpu_count() or 1
