"""Where runs are made: a Dask client as an executor, and the executors that the command line names.

`penstock.study(..., executor=Client("tcp://scheduler:8786"))` needs the extra `cluster`. What a worker must
have is said in docs/reference/studies.md.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

NAMES = ("serial", "threads", "processes")
# How long a scheduler may take to answer.
_CONNECT_S = 10


@contextmanager
def named(text: str, jobs: int) -> Iterator[tuple[Any, int]]:
    """The executor of `--executor`, and how many runs it makes at a time: `serial`, `threads` (None: the
    engine's own), `processes`, or the address of a Dask scheduler. Closed at the end.

    Raises ScenarioError for anything else, and where the scheduler cannot be reached.
    """
    from penstock import scenario

    if text in ("serial", "threads"):
        yield None, 1 if text == "serial" else jobs
    elif text == "processes":
        # Not forked: the parent has threads.
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool, jobs
    elif "://" in text or ":" in text:
        try:
            from distributed import Client
        except ImportError:
            raise scenario.error("--executor", text, "needs the extra `cluster` (Dask)") from None
        try:
            client = Client(text, timeout=_CONNECT_S)
        except (OSError, ValueError) as problem:
            why = " ".join(str(problem).split()) or type(problem).__name__
            raise scenario.error("--executor", text, f"cannot be reached: {why}") from None
        with client:
            yield client, jobs
    else:
        rule = f"must be one of {', '.join(NAMES)}, or a Dask scheduler's address (tcp://HOST:PORT)"
        raise scenario.error("--executor", text, rule)


def as_executor(workers: Any) -> Executor:
    """`workers` as a concurrent.futures.Executor: itself if it is one, around it if it is a Dask client.

    Raises ScenarioError, naming `executor`, for anything else.
    """
    if callable(getattr(workers, "submit", None)):
        # A client's own executor does not do: see below.
        return ClientExecutor(workers) if hasattr(workers, "scheduler_info") else workers
    from penstock import scenario

    rule = "must be a concurrent.futures.Executor or a Dask client"
    raise scenario.error("executor", type(workers).__name__, rule)


class ClientExecutor(Executor):
    """A `distributed.Client` as an executor that lets go of a result as soon as it has arrived here.

    Dask repeats the tasks of a dead worker as long as a reference to their futures exists. The executor of a
    client (`client.get_executor()`) keeps one as long as the caller keeps the other future, so a stored run
    could be repeated.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Schedule `fn(*args, **kwargs)` on the cluster. Raises RuntimeError when the client is closed."""
        if self._client.status != "running":
            raise RuntimeError(f"the Dask client is {self._client.status}")
        # Not pure: a run that was withdrawn and is asked for again is another one.
        there = self._client.submit(fn, *args, pure=False, **kwargs)
        here: Future[Any] = Future()

        def arrived(ended: Any) -> None:
            """Called in a thread of the client's once the run ended, was lost or withdrawn."""
            if not here.set_running_or_notify_cancel():
                return
            try:
                found = ended.result()
            except (Exception, CancelledError) as problem:
                ended.release()
                here.set_exception(problem)
            else:
                ended.release()
                here.set_result(found)

        def withdrawn(future: Future[Any]) -> None:
            if future.cancelled():
                there.release()

        here.add_done_callback(withdrawn)
        there.add_done_callback(arrived)
        return here
