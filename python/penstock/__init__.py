"""penstock: a laboratory for congestion control in data-centre networks.

>>> import penstock
>>> result = penstock.run("incast", servers=32, protocol="dctcp")
>>> print(result.summary["goodput_bps"])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock import export as export
    from penstock import figures as figures
    from penstock import live as live
    from penstock import models as models
    from penstock import plot as plot
    from penstock import report as report
    from penstock import results as results
    from penstock import stats as stats
    from penstock import workloads as workloads
    from penstock._engine import __version__ as __version__
    from penstock.advice import Advice as Advice
    from penstock.advice import advise as advise
    from penstock.catalogue import describe as describe
    from penstock.controllers import Event as Event
    from penstock.controllers import Limit as Limit
    from penstock.controllers import Verdict as Verdict
    from penstock.controllers import controller as controller
    from penstock.controllers import param as param
    from penstock.controllers import queue as queue
    from penstock.controllers import receiver as receiver
    from penstock.controllers import router as router
    from penstock.errors import NotBuiltError as NotBuiltError
    from penstock.errors import NotRecordedError as NotRecordedError
    from penstock.errors import NotWrittenError as NotWrittenError
    from penstock.errors import PenstockError as PenstockError
    from penstock.errors import RunError as RunError
    from penstock.errors import RunInterruptedError as RunInterruptedError
    from penstock.errors import ScenarioError as ScenarioError
    from penstock.network import Link as Link
    from penstock.network import Network as Network
    from penstock.results import load as load
    from penstock.runs import NotRecorded as NotRecorded
    from penstock.runs import Run as Run
    from penstock.runs import RunSet as RunSet
    from penstock.runs import run as run
    from penstock.scenario import resolve as resolve
    from penstock.studies import Study as Study
    from penstock.studies import study as study
    from penstock.sweeps import Interrupted as Interrupted
    from penstock.sweeps import RunFailed as RunFailed
    from penstock.sweeps import sweep as sweep
    from penstock.views import Page as Page
    from penstock.views import view as view
    from penstock.workloads import AllToAll as AllToAll
    from penstock.workloads import Closed as Closed
    from penstock.workloads import Collective as Collective
    from penstock.workloads import Flows as Flows
    from penstock.workloads import Goal as Goal
    from penstock.workloads import Incast as Incast
    from penstock.workloads import Matrix as Matrix
    from penstock.workloads import Permutation as Permutation
    from penstock.workloads import Poisson as Poisson
    from penstock.workloads import Query as Query
    from penstock.workloads import Reads as Reads
    from penstock.workloads import Trace as Trace

# Loaded on first use: the analytic models need neither the engine nor the tables.
_HOME = {
    "Advice": "advice",
    "advise": "advice",
    "Event": "controllers",
    "Limit": "controllers",
    "Verdict": "controllers",
    "controller": "controllers",
    "param": "controllers",
    "queue": "controllers",
    "receiver": "controllers",
    "router": "controllers",
    "NotBuiltError": "errors",
    "NotRecordedError": "errors",
    "NotWrittenError": "errors",
    "PenstockError": "errors",
    "RunError": "errors",
    "RunInterruptedError": "errors",
    "ScenarioError": "errors",
    "__version__": "_engine",
    "load": "results",
    "Run": "runs",
    "RunSet": "runs",
    "run": "runs",
    "describe": "catalogue",
    "resolve": "scenario",
    "Study": "studies",
    "study": "studies",
    "sweep": "sweeps",
    "Page": "views",
    "view": "views",
    "Link": "network",
    "Network": "network",
    "AllToAll": "workloads",
    "Closed": "workloads",
    "Collective": "workloads",
    "Flows": "workloads",
    "Goal": "workloads",
    "Incast": "workloads",
    "Matrix": "workloads",
    "Permutation": "workloads",
    "Poisson": "workloads",
    "Query": "workloads",
    "Reads": "workloads",
    "Trace": "workloads",
}

# Former names of exceptions.
_HOME |= {"Interrupted": "sweeps", "NotRecorded": "runs", "RunFailed": "sweeps"}

# Modules of their own use, loaded on first use like the names above: `penstock.live.compare(...)`.
_MODULES = (
    "export",
    "figures",
    "live",
    "models",
    "plot",
    "report",
    "results",
    "stats",
    "workloads",
)

__all__ = [
    "Advice",
    "AllToAll",
    "Closed",
    "Collective",
    "Event",
    "Flows",
    "Goal",
    "Incast",
    "Interrupted",
    "Limit",
    "Link",
    "Matrix",
    "Network",
    "NotBuiltError",
    "NotRecorded",
    "NotRecordedError",
    "NotWrittenError",
    "Page",
    "PenstockError",
    "Permutation",
    "Poisson",
    "Query",
    "Reads",
    "Run",
    "RunError",
    "RunFailed",
    "RunInterruptedError",
    "RunSet",
    "ScenarioError",
    "Study",
    "Trace",
    "Verdict",
    "__version__",
    "advise",
    "controller",
    "describe",
    "load",
    "param",
    "queue",
    "receiver",
    "resolve",
    "router",
    "run",
    "study",
    "sweep",
    "view",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"penstock.{name}")
    if name == "ledger":
        # Its former place: it is of the distribution penstock-papers.
        return importlib.import_module("penstock_papers.ledger")
    if name not in _HOME:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(importlib.import_module(f"penstock.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
