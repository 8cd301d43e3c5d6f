"""A Dask client as an executor: `penstock.study(..., executor=Client("tcp://scheduler:8786"))`.

Needs the extra `cluster`. What a worker must have is said in docs/studies.md.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from typing import Any


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

    Dask computes again what a dead worker held as long as somebody holds its future. The executor that a
    client makes itself (`client.get_executor()`) holds it as long as the caller holds the other future,
    so that a run which is already stored could be run a second time.
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
