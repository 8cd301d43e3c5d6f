"""What the program says on a terminal: results on stdout, everything else on stderr."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.text import Text

out_console = Console(highlight=False, markup=False)
err_console = Console(stderr=True, highlight=False, markup=False)


def complain(message: str) -> None:
    """An error, in one line on stderr."""
    err_console.print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)


def note(message: str) -> None:
    """A word about the job, in one line on stderr."""
    err_console.print(message, soft_wrap=True)


class Bar:
    """A progress bar on stderr, once a job has taken two seconds, and only on a terminal."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._bar: Any = None
        self._task: Any = None
        self._started = time.monotonic()

    def __call__(self, fraction: float) -> None:
        """Show that `fraction` of the job is done."""
        if not err_console.is_terminal:
            return
        if self._bar is None:
            if time.monotonic() - self._started < 2.0 or fraction >= 1.0:
                return
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=err_console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=1.0)
        self._bar.update(self._task, completed=fraction)

    def stop(self) -> None:
        """Take the bar away; the next two seconds start anew."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._started = time.monotonic()

    def __enter__(self) -> Bar:
        self._started = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
