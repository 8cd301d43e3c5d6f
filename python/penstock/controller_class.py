"""A class that the engine calls: its source, its fields and parameters, its code. What a class is to the
engine is its role (`controller_source.ROLES`).
"""

from __future__ import annotations

import ast
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock import _engine
from penstock import controller_code as code
from penstock import controller_source as sources

# How a parameter is written in a scenario, by type and unit, and the unit of its plain numbers.
_KINDS = {
    ("float", ""): "float",
    ("float", "s"): "duration",
    ("float", "bit/s"): "rate",
    ("float", "bytes"): "size",
    ("int", ""): "count",
    ("int", "bytes"): "size",
    ("bool", ""): "bool",
}
_WRITTEN = {"s": "s", "bit/s": "bps", "bytes": "B", "": ""}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a controller, as declared by `param`."""

    default: float | int | bool | str
    text: str
    low: float | None
    high: float | None
    unit: str
    origin: str


def param(
    default: float | int | bool | str,
    text: str,
    *,
    range: tuple[float, float] | None = None,
    unit: str = "",
    origin: str = "chosen",
) -> Any:
    """Declare a parameter: a field that is set from outside, as in `protocol="mylaw:gain=0.1"`.

    `text` says what it is in one line, `origin` where the default comes from. `range` are the smallest
    and the largest legal value in base units. `unit` is "s", "bit/s", "bytes" or nothing: then values are
    given with units ("50us"), and the default may be; the controller sees base units.
    """
    low, high = range if range is not None else (None, None)
    return Parameter(default, text, low, high, unit, origin)


class Written:
    """A class with typed fields and methods that the engine calls in a role."""

    def __init__(self, cls: type, role: str, name: str, text: str, source: str, compile: bool | None) -> None:
        found = sources.read(cls, sources.ROLES[role])
        self.role = role
        self.source_code = found
        self.name, self.source = name or cls.__name__.lower(), source
        self.text = text or " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())
        self.compile = compile
        self.parameters: dict[str, Parameter] = {}
        self.fields: list[tuple[str, str, float | None]] = []
        self._parameters: list[tuple[str, str, str, float, float, str, str]] = []
        self._declare(cls)
        kinds = {field: kind for field, kind, _ in self.fields}
        sources.check(found, kinds, self.parameters)
        if compile is not False:
            # Compiled code has them in the state, where they are found again, empty, by the next call. It
            # tells the kind of their values where it is not written.
            self.fields += [
                (
                    sources.local_field(method, local),
                    kind if kind in sources.TABLES else "dict[int, int]",
                    0.0,
                )
                for (method, local), kind in sources.local_tables(found).items()
            ]
        self._has = sum(1 << i for i, hook in enumerate(found.role.hooks) if hook in found.methods)
        self.shadow = code.shadow(found, [(field, kind) for field, kind, _ in self.fields], self.parameters)
        self._compiled: Any = None
        self._lock = threading.Lock()
        self.__doc__ = cls.__doc__

    def _declare(self, cls: type) -> None:
        """Fields and parameters, in the order of the class."""
        found = self.source_code
        for node in found.tree.body:
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            name, line = node.target.id, node.lineno
            kind = ast.unparse(node.annotation)
            table = kind in sources.TABLES
            if kind not in ("float", "int", "bool") and not table:
                raise found.mistake(line, f"{name}: {kind} is no field: {code.FIELD_RULE}")
            if name not in vars(cls):
                begins = "{}" if table else "0"
                raise found.mistake(
                    line, f"{name}: {kind} needs a value to begin with: {name}: {kind} = {begins}"
                )
            value = vars(cls)[name]
            if table:
                if value != {} or not isinstance(value, dict):
                    raise found.mistake(line, f"{name}: {kind} = {value!r}: a dict begins empty, with {{}}")
                self.fields.append((name, kind, 0.0))
                continue
            if isinstance(value, Parameter):
                self.parameters[name] = value
                self._parameters.append(self._parameter(name, kind, value, line))
                self.fields.append((name, kind, None))
                continue
            if not _fits(value, kind) or value != value:
                raise found.mistake(line, f"{name}: {kind} = {value!r} is no {kind}")
            self.fields.append((name, kind, float(value)))

    def _parameter(
        self, name: str, kind: str, given: Parameter, line: int
    ) -> tuple[str, str, str, float, float, str, str]:
        """A parameter as the engine declares one: name, kind, default, least, most, text, origin."""
        found = self.source_code
        sort = _KINDS.get((kind, given.unit))
        if sort is None:
            units = ", ".join(unit for type_, unit in _KINDS if type_ == kind and unit)
            raise found.mistake(
                line, f"{name}: unit={given.unit!r} is none of a {kind}'s; there are: {units or 'none'}"
            )
        if isinstance(given.default, str):
            value, unit = _engine.quantity(given.default) or (math.nan, "")
            if unit != given.unit:
                raise found.mistake(
                    line, f"{name}: default {given.default!r} is not in {given.unit or 'plain numbers'}"
                )
            written = given.default
        else:
            value = float(given.default)
            if not _fits(given.default, kind) or not math.isfinite(value):
                raise found.mistake(
                    line, f"{name}: default {given.default!r} is no {kind} that can be written"
                )
            plain = str(given.default).lower() if kind == "bool" else repr(given.default)
            written = f"{plain}{_WRITTEN[given.unit]}"
        low = given.low if given.low is not None else (0.0 if given.unit else -math.inf)
        high = given.high if given.high is not None else math.inf
        if kind != "bool" and not low <= value <= high:
            raise found.mistake(
                line, f"{name}: default {given.default!r} is outside of its range, {low:g} to {high:g}"
            )
        if not given.text:
            raise found.mistake(line, f'{name}: say what it is: penstock.param({given.default!r}, "...")')
        return (name, sort, written, low, high, given.text, given.origin)

    def __repr__(self) -> str:
        place = f"{sources.shown(self.source_code.file)}:{self.source_code.tree.lineno}"
        return f"<{self.role} {self.name} at {place}>"

    # ---- what the engine asks for (crates/py/src/controllers.rs) ----

    def _address(self) -> int:
        """Where the compiled code is; 0 to interpret. Raises ScenarioError when it cannot be compiled."""
        if self.compile is False or (self.compile is None and not code.compiler()):
            return 0
        if not code.compiler():
            rule = "compile=True needs Numba: pip install numba"
            raise self.source_code.mistake(self.source_code.tree.lineno, rule)
        with self._lock:
            if self._compiled is None:
                fields = [(field, kind) for field, kind, _ in self.fields]
                self._compiled = code.compiled(self.source_code, fields)
        address: int = self._compiled.address
        return address

    def _state(self) -> Any:
        return self.shadow()

    def _interpreted(self) -> tuple[list[Callable[..., Any]], list[Any]]:
        found = self.source_code
        return code.interpreted(found), [code.record(kind)() for kind in found.role.records]

    def _diagnose(
        self,
        call: int,
        state: tuple[list[int], list[Any]],
        first: list[int],
        second: list[int],
        place: str,
        now_s: float,
    ) -> str:
        return code.diagnose(self, call, state, first, second, place, now_s)


def _fits(value: object, kind: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    return isinstance(value, int) and abs(value) < 2**63 if kind == "int" else isinstance(value, int | float)
