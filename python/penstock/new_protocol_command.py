"""`penstock new-protocol`: a commented template of a protocol or a queue of one's own, with a test."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from penstock.options import DONE

_FILES = {
    "python": {"protocol.py.txt": "@name@.py", "test_protocol.py.txt": "test_@name@.py"},
    "queue": {"queue.py.txt": "@name@.py", "test_queue.py.txt": "test_@name@.py"},
    "rust": {"protocol.rs.txt": "@name@.rs"},
}


def new_protocol(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: small letters, digits and _.")],
    rust: Annotated[bool, typer.Option("--rust/--python", help="The language; Python by default.")] = False,
    queue: Annotated[bool, typer.Option("--queue", help="A queue discipline (Python only).")] = False,
    out: Annotated[Path, typer.Option(help="Where the files go.", metavar="DIR")] = Path(),
) -> int:
    """Write a commented template of your own protocol or queue, with a test."""
    from penstock import scenario
    from penstock.console import out_console

    if queue and rust:
        rule = "is written in Python; crates/models/src/queues has those in Rust, one file each"
        raise scenario.error("--queue", "--rust", rule)
    for path in write(name, "queue" if queue else "rust" if rust else "python", out):
        out_console.print(str(path), soft_wrap=True, highlight=False)
    if rust:
        said = "move it to crates/models/src/protocols; its first lines say where it is made known"
    else:
        place = out / name
        key = "queue" if queue else "protocol"
        said = f"try: penstock run incast --set {key}={place}.py:{class_name(name)}"
    out_console.print(said, soft_wrap=True, highlight=False, style="dim")
    return DONE


def write(name: str, language: str, folder: Path) -> list[Path]:
    """Write the files of a new protocol ("python", "rust") or "queue" and return their paths. Raises
    ScenarioError for a name that cannot be one, and when a file is there already; OSError when the disk does
    not take them.
    """
    from penstock import controllers, scenario

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise scenario.error("NAME", name, "must be small letters, digits and _, and begin with a letter")
    for kind in ("protocols", "queues"):
        if name in controllers.built_in(kind):
            raise scenario.error("NAME", name, f"there is a {kind[:-1]} of this name already")
    words = {"@name@": name, "@Class@": class_name(name), "@CONST@": name.upper()}
    made: dict[Path, str] = {}
    for template, file in _FILES[language].items():
        text = resources.files("penstock").joinpath("templates", template).read_text(encoding="utf-8")
        for mark, word in words.items():
            text, file = text.replace(mark, word), file.replace(mark, word)
        made[folder / file] = text
    for path in made:
        if path.exists():
            raise scenario.error("NAME", name, f"{path} is there already")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return list(made)


def class_name(name: str) -> str:
    """`my_law` as `MyLaw`."""
    return "".join(part.capitalize() for part in name.split("_"))
