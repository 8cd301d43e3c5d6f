"""The simulator (Rust). Everything crosses as plain data: JSON text in, dictionaries and NumPy arrays out."""

from typing import Any

from numpy.typing import NDArray

__version__: str

class ScenarioError(ValueError):
    """A scenario breaks a rule; `str()` is one line that names the key, the value and the rule."""

    key: str
    value: str
    rule: str

class Progress:
    """Watches one run from another thread, and stops it."""

    def __init__(self) -> None: ...
    @property
    def fraction(self) -> float: ...
    def cancel(self) -> None: ...

class RunResult:
    """What one run measured."""

    @property
    def summary(self) -> dict[str, Any]: ...
    @property
    def tables(self) -> dict[str, dict[str, NDArray[Any] | list[str]]]: ...
    @property
    def timings(self) -> dict[str, float]: ...
    @property
    def completed(self) -> bool: ...
    @property
    def scenario(self) -> str: ...

def describe() -> str: ...
def resolve(spec_json: str) -> str: ...
def run(spec_json: str, run: int, progress: Progress) -> RunResult: ...
