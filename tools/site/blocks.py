"""Code blocks of a page of the documentation: find them, run them, put what they print and draw below them.

A page is markdown that any viewer shows. What a block needs beside its language stands in comments directly
above it:

    <!-- file: net.toml -->       the block is a file of this name; nothing is run
    <!-- alt: what one sees -->   the block ends with a matplotlib figure, which goes below it with this text
    <!-- lines: 12 -->            show so many lines of the output (40 unless told)
    <!-- exit: 2 -->              the shell's exit code (0 unless told)
    <!-- live -->                 needs what `penstock doctor` asks for; shown without output where that is
    not there

Blocks of a page share a folder and, in Python, a namespace, and run in order. Of a Python block what is
printed is shown, then the value of
its last line; of a shell block (`sh`) what the commands print.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Lines of an output that are shown unless a page says otherwise.
MOST_LINES = 40
#: What a block may take, in seconds.
PATIENCE_S = 300

_COMMENT = re.compile(r"<!-- (file|alt|lines|exit|live)(?:: (.*))? -->\s*$")


class Failed(Exception):
    """A block did not do what the page says it does."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line of its fence, and the options above it."""

    language: str
    text: str
    line: int
    options: dict[str, str]
    #: First and last line of fence, options included; counted from 0.
    span: tuple[int, int]

    @property
    def runs(self) -> bool:
        """Is it run, and not only written or shown?"""
        return self.language in ("python", "sh") and "file" not in self.options


@dataclass
class Shown:
    """What a block printed, and the files of the figures that it drew."""

    text: str = ""
    figures: list[Path] = field(default_factory=list)


def blocks(markdown: str) -> Iterator[Block]:
    """The fenced blocks of a page that have a language, in order."""
    lines = markdown.splitlines()
    at = 0
    while at < len(lines):
        found = re.fullmatch(r"```(\w+)", lines[at])
        if not found:
            at += 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i] == "```")
        options: dict[str, str] = {}
        first = at
        while first and (option := _COMMENT.match(lines[first - 1])):
            options[option[1]] = option[2] or ""
            first -= 1
        yield Block(found[1], "\n".join(lines[at + 1 : end]) + "\n", at + 1, options, (first, end))
        at = end + 1


class Session:
    """Runs the blocks of one page, named `name`, in `folder`; figures go there too."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, Any] = {"__name__": "__main__"}
        self._drawn = 0
        # A whole table of a study, and columns as they are.
        os.environ |= {"POLARS_FMT_MAX_ROWS": "24", "POLARS_FMT_MAX_COLS": "12"}

    def run(self, block: Block) -> Shown:
        """Run one block. Raises Failed, with page and line, where it does not do what it should."""
        try:
            if "file" in block.options:
                path = self.folder / block.options["file"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
                return Shown()
            if not block.runs or ("live" in block.options and not live_possible()):
                return Shown()
            shown = self._python(block) if block.language == "python" else self._shell(block)
        except Exception as problem:
            raise Failed(f"{self.name}:{block.line}: {type(problem).__name__}: {problem}") from problem
        if ("alt" in block.options) != bool(shown.figures):
            raise Failed(
                f"{self.name}:{block.line}: a block with `alt` ends with a figure, and no other does"
            )
        return shown

    def _python(self, block: Block) -> Shown:
        name = f"<{self.name}:{block.line}>"
        linecache.cache[name] = (len(block.text), None, block.text.splitlines(keepends=True), name)
        tree = ast.parse(block.text, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed, shown = io.StringIO(), Shown()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed), _importing(self.folder):
            exec(compile(tree, name, "exec"), self._known)
            value = eval(compile(ast.Expression(last.value), name, "eval"), self._known) if last else None
        if hasattr(value, "savefig"):
            shown.figures.append(self._draw(value))
        elif value is not None:
            printed.write(f"{value}\n")
        shown.text = printed.getvalue()
        return shown

    def _draw(self, figure: Any) -> Path:
        import matplotlib as mpl

        self._drawn += 1
        path = self.folder / f"{self.name.replace('/', '-').removesuffix('.md')}-{self._drawn}.svg"
        with mpl.rc_context({"svg.hashsalt": "penstock", "svg.fonttype": "path"}):
            figure.savefig(path, metadata={"Date": None})
        return path

    def _shell(self, block: Block) -> Shown:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        wanted = int(block.options.get("exit", 0))
        if done.returncode != wanted:
            raise Failed(f"exit code {done.returncode}, not {wanted}: {done.stdout.strip()}")
        return Shown(_plain(done.stdout))


def run_page(markdown: str, name: str, folder: Path, link: str = "") -> str:
    """Run a page's blocks; the page with what they printed and drew below them, figures as `link`/NAME.

    Options leave the page; a file's name goes above it.
    """
    lines, session = markdown.splitlines(), Session(name, folder)
    for block, shown in reversed([(block, session.run(block)) for block in blocks(markdown)]):
        first, last = block.span
        after: list[str] = []
        if shown.text.strip():
            most = int(block.options.get("lines", MOST_LINES))
            text = shown.text.rstrip().splitlines()
            kept = text[:most] + ([f"... {len(text) - most} lines more"] if len(text) > most else [])
            after = ["", "```{code-block} text", ":class: output", "", *kept, "```"]
        for figure in shown.figures:
            after += ["", f"![{block.options['alt']}]({link}/{figure.name})"]
        fence = lines[block.line - 1 : last + 1]
        if "file" in block.options:
            fence = [
                f"```{{code-block}} {block.language.replace('csv', 'text')}",
                f":caption: {block.options['file']}",
                "",
                *fence[1:],
            ]
        lines[first : last + 1] = [*fence, *after]
    return "\n".join(lines) + "\n"


def environment() -> dict[str, str]:
    """The shell's environment: this Python's programs first, a terminal of 110 columns without colour."""
    found = dict(os.environ)
    found["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{found['PATH']}"
    found |= {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb", "MPLBACKEND": "agg"}
    return found


@functools.cache
def live_possible() -> bool:
    """Can kernel sockets be run here?"""
    from penstock import live

    return all(item["found"] for item in live.doctor() if item["required"])


@contextlib.contextmanager
def _importing(folder: Path) -> Iterator[None]:
    """Modules in `folder` can be imported, as from a script that lies there."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]


def _plain(text: str) -> str:
    """Without what a terminal would act upon: colours, and lines that are drawn over."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    return "\n".join(line.rsplit("\r", 1)[-1].rstrip() for line in text.splitlines())
