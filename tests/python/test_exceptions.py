"""Exceptions: one base, names that end in Error, and all of them as they were after a journey to a worker."""

import importlib
import inspect
import pickle
import pkgutil
from concurrent.futures import ProcessPoolExecutor

import pytest

import penstock as lab
from penstock import errors


def classes() -> list[type[BaseException]]:
    """Every exception that a module of penstock defines."""
    found = set()
    for module in pkgutil.walk_packages(lab.__path__, "penstock."):
        if module.name.endswith("__main__"):
            continue
        for item in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(item) and issubclass(item, BaseException):
                found.add(item)
    return sorted((c for c in found if c.__module__.startswith("penstock")), key=lambda c: c.__name__)


def test_every_public_exception_has_the_base_and_ends_in_error():
    public = [c for c in classes() if not c.__name__.startswith("_")]
    assert len(public) >= 7
    for cls in public:
        assert cls.__name__.endswith("Error"), cls
        # An interruption passes `except Exception`, as KeyboardInterrupt does.
        assert issubclass(cls, errors.PenstockError) or cls is errors.RunInterruptedError, cls
        assert getattr(errors, cls.__name__) is cls


def test_former_names_are_the_same_classes():
    from penstock import _engine, results, runs, sweeps, views
    from penstock_papers.ledger import NotRun

    assert _engine.ScenarioError is lab.ScenarioError is errors.ScenarioError
    assert sweeps.RunFailed is lab.RunFailed is lab.RunError
    assert sweeps.Interrupted is lab.Interrupted is lab.RunInterruptedError
    assert runs.NotRecorded is lab.NotRecorded is lab.NotRecordedError
    assert (results.NotWritten, views.NotBuilt) == (lab.NotWrittenError, lab.NotBuiltError)
    assert NotRun is errors.NotRunError
    assert issubclass(lab.ScenarioError, ValueError) and issubclass(lab.RunError, RuntimeError)
    assert issubclass(lab.NotRecordedError, KeyError) and issubclass(lab.NotWrittenError, OSError)
    assert issubclass(lab.RunInterruptedError, KeyboardInterrupt)


def made() -> list[BaseException]:
    runs = [lab.run("incast", servers=2, duration="2ms")]
    with pytest.raises(lab.ScenarioError) as of_the_engine:
        lab.run("incast", servers=-1)
    return [
        of_the_engine.value,
        lab.ScenarioError("a = 1: must be 2", "a", "1", "must be 2"),
        lab.RunError("incast, run 1: the workers died", runs),
        lab.RunInterruptedError(runs),
        lab.NotRecordedError('no table "x"'),
        lab.NotWrittenError("out cannot be written (No space left on device)"),
        lab.NotBuiltError("the page is not built here"),
        errors.NotRunError("no kernel"),
    ]


def test_an_exception_comes_back_from_a_pickle_as_it_was():
    for problem in made():
        back = pickle.loads(pickle.dumps(problem))
        assert type(back) is type(problem) and str(back) == str(problem)
        for name in ("key", "value", "rule"):
            assert getattr(back, name, None) == getattr(problem, name, None)
        if hasattr(problem, "results"):
            assert [r.summary for r in back.results] == [r.summary for r in problem.results]
            assert back.results[0].flows.equals(problem.results[0].flows)


def refuse() -> None:
    """What a worker process does with a bad setting."""
    lab.run("incast", protocol="no such one")


def test_a_worker_process_hands_back_the_message():
    with ProcessPoolExecutor(1) as pool, pytest.raises(lab.ScenarioError) as said:
        pool.submit(refuse).result()
    assert said.value.key == "protocol" and "no such one" in str(said.value)
    assert said.value.rule and said.value.value == "no such one"


def test_an_error_of_the_engine_names_key_value_and_rule():
    with pytest.raises(lab.PenstockError) as said:
        lab.resolve("incast", servers=0)
    assert (said.value.key, said.value.value) == ("servers", "0")
    assert said.value.rule in str(said.value)
