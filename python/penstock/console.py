"""What the program says on a terminal: results on stdout, everything else on stderr."""

from __future__ import annotations

import html
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.text import Text


class _Output(Console):
    """A console that goes on without its reader: a pipe that was closed (`| head`) costs no more than the
    text.
    """

    def on_broken_pipe(self) -> None:
        """Drop what cannot be read. Rich would end the program here, before its results are kept."""
        self.quiet = True
        drop(sys.stderr if self.stderr else sys.stdout)


out_console = _Output(highlight=False, markup=False, emoji=False)
err_console = _Output(stderr=True, highlight=False, markup=False, emoji=False)

# A job that is over sooner needs no bar.
_PATIENCE_S = 2.0
# So often a notebook's bar is drawn anew.
_REFRESH_S = 0.25


def complain(message: str) -> None:
    """An error, in one line on stderr."""
    err_console.print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)


def prepare() -> None:
    """Make the standard streams such that no text can end the program: one that is closed (`>&-`) leads
    nowhere, and a character that the terminal's encoding does not have is written as its code.
    """
    for name, number in (("stdin", 0), ("stderr", 2), ("stdout", 1)):
        stream = getattr(sys, name)
        if stream is None:
            # The number must not be free: the next file that is opened would get it, and the output with it.
            with suppress(OSError):
                opened = os.open(os.devnull, os.O_RDWR)
                if opened != number:
                    os.dup2(opened, number)
                    os.close(opened)
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115
            if name == "stdout":
                note("the output is closed (>&-): nothing is printed")
        elif number > 0 and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def drop(stream: Any) -> None:
    """Let what is still in a stream's buffer, and all that comes, lead nowhere; without this the interpreter
    would try to write it at its end.
    """
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def emit(show: Callable[[], object]) -> bool:
    """Call `show`, which prints a result, after the result is kept. A reader that went away is no fault;
    where the output cannot be written otherwise this is told, and the answer is False.
    """
    try:
        show()
        sys.stdout.flush()
    except BrokenPipeError:
        drop(sys.stdout)
    except OSError as problem:
        complain(cannot_write(problem))
        drop(sys.stdout)
        return False
    return True


def print_json(document: Any) -> None:
    """The one JSON document of a command."""
    print(json.dumps(document, allow_nan=False), flush=True)


def cannot_write(problem: OSError) -> str:
    """A fault of writing in one line."""
    if problem.errno is None:
        return str(problem)
    place = problem.filename or "the output"
    return f"{place} cannot be written ({problem.strerror})"


def note(message: str) -> None:
    """A word about the job, in one line on stderr."""
    err_console.print(message, soft_wrap=True)


class Bar:
    """A progress bar with the time left, once a job has taken two seconds: on stderr where that is a
    terminal, below the cell in a notebook, nowhere else.

    Entered as a context, it appears on a terminal although nothing is done yet: a large network is built for
    seconds before its run begins. `notes` are the lines that `note` has printed.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.notes: list[str] = []
        self._bar: Any = None
        self._task: Any = None
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._first: threading.Timer | None = None

    def __call__(self, fraction: float) -> None:
        """Show that `fraction` of the job is done."""
        with self._lock:
            self._show(fraction)

    def _show(self, fraction: float) -> None:
        if self._bar is None:
            if time.monotonic() - self._started < _PATIENCE_S or fraction >= 1.0:
                return
            if in_notebook():
                self._bar = _NotebookBar(self.label)
            elif err_console.is_terminal:
                self._bar, self._task = _terminal_bar(self.label)
            else:
                return
        if isinstance(self._bar, _NotebookBar):
            self._bar.show(fraction)
        else:
            self._bar.update(self._task, completed=fraction)

    def note(self, message: str) -> None:
        """Print a line above the bar."""
        self.notes.append(message)
        note(message)

    def stop(self) -> None:
        """Take the bar away; the next two seconds start anew."""
        with self._lock:
            if self._first is not None:
                self._first.cancel()
                self._first = None
            if self._bar is not None:
                self._bar.stop()
                self._bar = None
            self._started = time.monotonic()

    def _appear(self) -> None:
        with self._lock:
            # A bar that was stopped before its first display is never shown.
            if self._first is not None and self._bar is None:
                self._show(0.0)

    def __enter__(self) -> Bar:
        self._started = time.monotonic()
        if err_console.is_terminal and not in_notebook():
            self._first = threading.Timer(_PATIENCE_S + 0.05, self._appear)
            self._first.daemon = True
            self._first.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def in_notebook() -> bool:
    """Whether this is the process behind a notebook, which shows objects and not a terminal."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and getattr(running, "kernel", None) is not None


def _terminal_bar(label: str) -> tuple[Any, Any]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=err_console,
        transient=True,
    )
    bar.start()
    return bar, bar.add_task(label, total=1.0)


class Share:
    """A share of a job for a notebook: a bar as HTML, a line as text."""

    def __init__(self, label: str, fraction: float, left: str) -> None:
        self.label, self.fraction, self.left = label, fraction, left

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        said = f"{self.fraction:.0%}{', ' if self.left else ''}{self.left}"
        bar = f"<progress max='1' value='{self.fraction:.4f}' style='width:20em'></progress>"
        return {
            "text/plain": f"{self.label}: {said}",
            "text/html": f"<div>{html.escape(self.label)} {bar} {html.escape(said)}</div>",
        }


class _NotebookBar:
    """A bar below a notebook's cell, through IPython's own displays: no widgets needed."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._handle: Any = None
        self._first = (time.monotonic(), 0.0)
        self._last = -math.inf

    def show(self, fraction: float) -> None:
        from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

        now = time.monotonic()
        if self._handle is None:
            # What was there when the bar appeared may have come out of a store: it says nothing of the pace.
            self._first = (now, fraction)
        if now - self._last < _REFRESH_S:
            return
        self._last = now
        began, done = self._first
        left = ""
        if fraction > done:
            left = f"{clock((now - began) * (1 - fraction) / (fraction - done))} left"
        share = Share(self._label, fraction, left)
        if self._handle is None:
            self._handle = display(share, display_id=True)
        else:
            self._handle.update(share)

    def stop(self) -> None:
        """Leave nothing behind."""
        if self._handle is not None:
            self._handle.update(Nothing())


class Nothing:
    """What a notebook shows in the place of a bar that is over."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": "", "text/html": ""}


def clock(seconds: float) -> str:
    """A time to wait for people: 45 s, 3:05 min, 2:10 h."""
    whole = math.ceil(seconds - 1e-6)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"
