"""Exceptions of penstock.

Every one is a `PenstockError`, except `RunInterruptedError`: like Python's own `KeyboardInterrupt`, which it
is, it must pass an `except Exception`. Each is also an exception of Python that says what kind of fault it
is. All of them can be pickled, so a worker process hands back the same message, attributes and results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.runs import RunSet
    from penstock.studies import Study


class PenstockError(Exception):
    """The base of all errors of penstock."""


class ScenarioError(PenstockError, ValueError):
    """A scenario, an option or a file breaks a rule. `str()` is one line with the `key`, its `value` and the
    `rule`; these three are attributes, too.
    """

    def __init__(self, message: str = "", key: str = "", value: str = "", rule: str = "") -> None:
        super().__init__(message)
        self.key, self.value, self.rule = key, value, rule

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.key, self.value, self.rule)


class _WithResultsError(Exception):
    """An end of the work before its time, which keeps what was finished."""

    def __init__(self, message: str, results: list[RunSet], study: Study | None = None) -> None:
        super().__init__(message)
        self.results = results
        self.study = study

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.results, self.study)


class RunError(_WithResultsError, PenstockError, RuntimeError):
    """A run failed; the message names it. `.results` has one RunSet per point with the runs that ended, of a
    study `.study` has them.
    """


class RunInterruptedError(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP during runs. `.results` has one RunSet per point with the runs that ended
    and, cut short, those under way. Of a study `.study` has the runs that ended.
    """

    def __init__(self, results: list[RunSet], study: Study | None = None) -> None:
        super().__init__("interrupted")
        self.results = results
        self.study = study

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.results, self.study)


class NotRecordedError(PenstockError, KeyError):
    """A table, a series or a key that these runs do not have; the message says what to add to have it."""

    def __str__(self) -> str:
        return str(self.args[0])


class NotWrittenError(PenstockError, OSError):
    """A result could not be written; `str()` is one line that names the directory and says why."""


class NotBuiltError(PenstockError, RuntimeError):
    """The page's parts are not there: `make setup` had no Node or no WebAssembly target, and said so."""


class NotRunError(PenstockError):
    """A row of the ledger cannot measure; the message is the verdict's reason."""
