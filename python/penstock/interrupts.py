"""Ctrl-C, SIGTERM and SIGHUP: one way for all three to end a job without losing what is finished.

A command gets SIGTERM (Slurm, containers) and SIGHUP (a terminal that closes) like Ctrl-C, as
KeyboardInterrupt. Python raises that between any two instructions of the main thread. In some places it would
do harm: while `concurrent.futures` holds locks of futures, while a compiler calls back into Python from C,
and while a result is written. There `Deferred` counts interruptions, and the code checks the count where it
can stop.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TypeVar

Found = TypeVar("Found")

#: How often code that waits looks for an interruption, in seconds.
POLL_S = 0.05
#: How long a stopped run may take to hand back what it has; the engine looks at the flag every few
#: milliseconds.
GRACE_S = 0.7
# From so many interruptions on, a block that defers them is left all the same.
_MOST = 5

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
# The first that came, for the exit code.
_received: int | None = None


def listen() -> None:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt from now on. A signal that is ignored (`nohup`) or that
    the process handles already stays as it is.
    """
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS[1:]:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _raise)


def within(problem: BaseException) -> bool:
    """Whether an interruption is behind an exception. Code of others raises its own in the place of
    KeyboardInterrupt, as Python does when it completes a class while a module loads.
    """
    seen: BaseException | None = problem
    while seen is not None and not isinstance(seen, KeyboardInterrupt):
        seen = seen.__cause__ or seen.__context__
    return seen is not None


def exit_code() -> int:
    """128 and the number of the signal that came first: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (signal.SIGINT if _received is None else _received)


def leave(code: int) -> None:
    """End the process with `code`. A run that does not stop (the engine is still building its network) is not
    waited for: what was finished is written by now.
    """
    here = threading.main_thread()
    if all(thread is here or thread.daemon for thread in threading.enumerate()):
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    # Temporary folders go; the threads are left behind.
    atexit._run_exitfuncs()
    os._exit(code)


class Deferred:
    """Counts interruptions while it is entered, in place of raising; the code inside looks at `count`.

    `then` is called at each, in the main thread. Blocks may be nested: an inner one begins with the count of
    the outer one. Nothing changes outside the main thread, because Python handles signals only there, or if
    the process has its own handlers. The fifth interruption raises KeyboardInterrupt all the same.
    """

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self._then = then
        self._entered = False

    def __enter__(self) -> Deferred:
        if threading.current_thread() is threading.main_thread():
            if not _entered:
                for number in _SIGNALS:
                    handler = signal.getsignal(number)
                    if handler is signal.default_int_handler or handler is _raise:
                        _replaced[number] = handler
                        signal.signal(number, _hold)
            self.count = max((outer.count for outer in _entered), default=0)
            _entered.append(self)
            self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered:
            _entered.remove(self)
            if not _entered:
                for number, handler in _replaced.items():
                    signal.signal(number, handler)
                _replaced.clear()

    def look(self) -> None:
        """Raises KeyboardInterrupt when an interruption came."""
        if self.count:
            raise KeyboardInterrupt


_entered: list[Deferred] = []
_replaced: dict[int, Callable[[int, FrameType | None], object]] = {}


def look() -> None:
    """Raises KeyboardInterrupt when an interruption came in a `Deferred` block around the caller. A long loop
    in such a block calls it.
    """
    if threading.current_thread() is threading.main_thread():
        for block in _entered:
            block.look()


def watched(work: Callable[[], Found], cancel: Callable[[], object]) -> Found:
    """What `work` returns, called in a thread of its own, since the engine would keep the main thread from
    handling signals. After an interruption `cancel` is called, `work` has a moment to end, and
    KeyboardInterrupt is raised.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    with Deferred(cancel) as stops:
        pool = ThreadPoolExecutor(1)
        future, until = pool.submit(work), None
        while not wait([future], timeout=POLL_S).done:
            if stops.count and until is None:
                until = time.monotonic() + GRACE_S
            if until is not None and time.monotonic() > until:
                break
        pool.shutdown(wait=False)
        stops.look()
        return future.result()


def _raise(number: int, _frame: FrameType | None) -> None:
    _hear(number)
    raise KeyboardInterrupt


def _hold(number: int, _frame: FrameType | None) -> None:
    _hear(number)
    for block in list(_entered):
        block.count += 1
        block._then()
    if _entered and _entered[0].count >= _MOST:
        raise KeyboardInterrupt


def _hear(number: int) -> None:
    global _received
    _received = number if _received is None else _received
