"""Ctrl-C where an exception at any instruction would do harm.

Python raises KeyboardInterrupt between any two instructions of the main thread. `concurrent.futures` takes
the locks of futures and gives them back at the end of a block; an exception in between leaves them taken, and
the thread that has the result waits for them without end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

#: How often one who waits looks whether Ctrl-C was pressed, in seconds.
POLL_S = 0.05


class Presses:
    """Counts Ctrl-C while it is entered, in place of raising; who enters it looks at `count`.

    `then` is called at each press, in the main thread. Nothing changes outside the main thread, which alone
    hears signals, nor where somebody has another handler than Python's own.
    """

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self._then = then
        self._held = False

    def __enter__(self) -> Presses:
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._press)
            self._held = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def look(self) -> None:
        """Raises KeyboardInterrupt when Ctrl-C was pressed."""
        if self.count:
            raise KeyboardInterrupt

    def _press(self, _signal: int, _frame: FrameType | None) -> None:
        self.count += 1
        self._then()
