"""Your own congestion control in one Python file: a class with typed fields and methods.

    import penstock

    @penstock.controller
    class Aimd:
        gain: float = penstock.param(1.0, "segments added per round trip", range=(0.01, 100))
        cwnd: float = 0.0

        def on_start(self, config): self.cwnd = config.initial_window
        def on_ack(self, ack, flow): self.cwnd += self.gain * flow.segment * ack.acked / self.cwnd
        def on_congestion(self, event, flow): self.cwnd = max(self.cwnd / 2, flow.segment)
        def control(self): return self.cwnd

    penstock.run("incast", protocol=Aimd(gain=0.5))

With Numba (the extra `jit`) the methods are compiled and need no interpreter lock; without it they are
interpreted, with the same results to the last byte. docs/own-protocol.md is the guide.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from penstock import _engine
from penstock import controller_code as code
from penstock import controller_source as sources
from penstock._engine import ScenarioError

if TYPE_CHECKING:

    class Event(IntEnum):
        """Kinds of a sign of congestion (`event.kind`)."""

        LOSS = 1
        TIMEOUT = 2
        SYN_LOST = 3
        ECN = 4
        RECOVERED = 5
        IDLE = 6
        SPURIOUS = 7

    class Limit(IntEnum):
        """What kept a sender from sending more (`flow.limit`, `ack.limit`)."""

        WINDOW = 1
        PACING = 2
        APPLICATION = 3
        RECEIVER = 4
        HOST = 5

else:
    Event = IntEnum("Event", sources.RECORDS["Event"], module=__name__)
    Limit = IntEnum("Limit", sources.RECORDS["Limit"], module=__name__)

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
_IN_FILE = re.compile(r"(?P<file>[^:]+\.py):(?P<name>[A-Za-z_]\w*)(?P<rest>:.*)?", re.DOTALL)


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


class Controller:
    """A protocol made of a class by `controller`. Called with parameters it is that protocol with these set:
    `protocol=MyLaw(gain=0.1)`; its name is what a scenario writes: `protocol="mylaw:gain=0.1"`.
    """

    def __init__(
        self, cls: type, name: str, text: str, source: str, recovery: str, ecn: str, compile: bool | None
    ) -> None:
        found = sources.read(cls)
        self.source_code = found
        self.name, self.source = name or cls.__name__.lower(), source
        self.text = text or " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())
        self.recovery, self.ecn = recovery, ecn
        self.compile = compile
        line = found.tree.lineno
        for key, value, words in (
            ("recovery", recovery, ("reno", "newreno", "sack")),
            ("ecn", ecn, ("off", "classic", "dctcp")),
        ):
            if value not in words:
                raise found.mistake(line, f"{key}={value!r} must be one of {', '.join(words)}")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise found.mistake(line, f"name={self.name!r} must be small letters, digits and _")
        if self.name in built_in():
            rule = f"there is a protocol {self.name} already; choose another: @penstock.controller(name=...)"
            raise found.mistake(line, rule)
        self.parameters: dict[str, Parameter] = {}
        self.fields: list[tuple[str, str, float | None]] = []
        self._parameters: list[tuple[str, str, str, float, float, str, str]] = []
        self._declare(cls)
        kinds = {field: kind for field, kind, _ in self.fields}
        sources.check(found, kinds, self.parameters)
        self._has = sum(1 << i for i, hook in enumerate(code.CALLS) if hook in found.methods)
        self._wants_rate = sources.reads(found, "ack", "rate_bps")
        self.shadow = code.shadow(found, [(field, kind) for field, kind, _ in self.fields], self.parameters)
        self._compiled: Any = None
        self._lock = threading.Lock()
        self.__doc__ = cls.__doc__

    def _declare(self, cls: type) -> None:
        """Fields and parameters, in the order of the class."""
        import ast

        found = self.source_code
        for node in found.tree.body:
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            name, line = node.target.id, node.lineno
            kind = ast.unparse(node.annotation)
            if kind not in ("float", "int", "bool"):
                raise found.mistake(line, f"{name}: {kind}: a field is a float, an int or a bool")
            if name not in vars(cls):
                raise found.mistake(line, f"{name}: {kind} needs a value to begin with: {name}: {kind} = 0")
            value = vars(cls)[name]
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

    def __call__(self, **parameters: Any) -> Chosen:
        """This protocol with these parameters. Raises ScenarioError for a name that is none."""
        for name, value in parameters.items():
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise _problem(name, value, f"is no parameter of {self.name}; there are: {known}")
        return Chosen(self, parameters)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        place = f"{sources.shown(self.source_code.file)}:{self.source_code.tree.lineno}"
        return f"<controller {self.name} at {place}>"

    def sender(self, *, segment: int = 1460, initial_window: int = 14600, **parameters: Any) -> Any:
        """One sender, to try the controller by hand and in tests: see `penstock.controller_trial`."""
        from penstock.controller_trial import Sender

        return Sender(self, segment, initial_window, parameters)

    @property
    def identity(self) -> dict[str, Any]:
        """What names this very class in a document: file, class and the hash of the file."""
        found = self.source_code
        return {
            "name": self.name,
            "class": found.tree.name,
            "file": found.file,
            "sha256": found.sha256,
            "compile": self.compile,
        }

    @property
    def description(self) -> dict[str, Any]:
        """As the catalogue describes a protocol."""
        units = {"duration": "s", "rate": "bit/s", "size": "bytes", "bool": "true/false"}
        parameters = [
            {
                "name": name,
                "kind": kind,
                "unit": units.get(kind, ""),
                "default": default,
                "min": low if math.isfinite(low) else None,
                "max": high if math.isfinite(high) else None,
                "choices": None,
                "text": text,
                "origin": origin,
            }
            for name, kind, default, low, high, text, origin in self._parameters
        ]
        return {"name": self.name, "text": self.text, "source": self.source, "params": parameters}

    # ---- what the engine asks for (crates/py/src/controllers.rs) ----

    def _address(self) -> int:
        """Where the compiled code is; 0 to interpret. Raises ScenarioError when it cannot be compiled."""
        if self.compile is False or (self.compile is None and not code.compiler()):
            return 0
        if not code.compiler():
            rule = "compile=True needs Numba: pip install 'penstock[jit]'"
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
        return code.interpreted(), [code.record(kind)() for kind in ("ack", "event", "flow", "config")]

    def _diagnose(self, call: int, state: list[int], about: list[int], flow: list[int], now_s: float) -> str:
        return code.diagnose(self, call, state, about, flow, now_s)


@dataclass(frozen=True)
class Chosen:
    """A controller with parameters set."""

    controller: Controller
    parameters: Mapping[str, Any]

    def __str__(self) -> str:
        given = ",".join(f"{name}={_text(value)}" for name, value in self.parameters.items())
        return f"{self.controller.name}:{given}" if given else self.controller.name


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fits(value: object, kind: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    return isinstance(value, int) and abs(value) < 2**63 if kind == "int" else isinstance(value, int | float)


@overload
def controller(cls: type) -> Controller: ...
@overload
def controller(
    *,
    name: str = "",
    text: str = "",
    source: str = "",
    recovery: str = "sack",
    ecn: str = "off",
    compile: bool | None = None,
) -> Callable[[type], Controller]: ...
def controller(
    cls: type | None = None,
    *,
    name: str = "",
    text: str = "",
    source: str = "",
    recovery: str = "sack",
    ecn: str = "off",
    compile: bool | None = None,
) -> Any:
    """Make a protocol of a class: with or without arguments, as a decorator.

    `name` is its name in scenarios (by default the class's in small letters), `text` one line on what it
    is (by default the docstring's first paragraph), `source` the paper. `recovery` is how losses are
    repaired: "sack", "newreno" or "reno"; `ecn` "off", "classic" (RFC 3168) or "dctcp" (RFC 8257: marks
    echoed one by one). `compile` None compiles where Numba is installed; False interprets. Raises
    ScenarioError with file and line for what cannot work.
    """

    def make(cls: type) -> Controller:
        made = Controller(cls, name, text, source, recovery, ecn, compile)
        with _lock:
            identity = made.identity
            _LOADED[_key(identity)] = made
            _NAMED[made.name] = made
        return made

    return make if cls is None else make(cls)


_lock = threading.RLock()
_LOADED: dict[tuple[str, str, str, Any], Controller] = {}
# The latest of each name: what a scenario that names it means.
_NAMED: dict[str, Controller] = {}


def _key(identity: Mapping[str, Any]) -> tuple[str, str, str, Any]:
    return (identity["file"], identity["class"], identity["sha256"], identity["compile"])


@lru_cache(maxsize=1)
def built_in() -> frozenset[str]:
    """Names of the engine's own protocols."""
    return frozenset(entry["name"] for entry in json.loads(_engine.describe())["protocols"])


def provide(identity: str) -> Controller:
    """The controller that a document names, loaded from its file where this process does not have it. Raises
    ScenarioError when there is none, or when the file is another by now.
    """
    wanted = json.loads(identity)
    with _lock:
        found = _LOADED.get(_key(wanted))
        if found is not None:
            return found
        if not Path(wanted["file"]).is_file():
            rule = "another process cannot read it: define the controller in a file"
            raise _problem("protocol", f"{wanted['file']}:{wanted['class']}", rule)
        load(wanted["file"], wanted["class"])
        found = _LOADED.get(_key(wanted))
    if found is None:
        rule = "the file has changed since the run was planned"
        raise _problem("protocol", f"{wanted['file']}:{wanted['class']}", rule)
    return found


def load(file: str | Path, name: str) -> Controller:
    """The controller `name` of a Python file, which is run once for each of its contents. Raises
    ScenarioError, with the line where it has one.
    """
    path = Path(file).resolve()
    shown = sources.shown(str(path))
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as problem:
        raise _problem(
            "protocol", f"{file}:{name}", f"the file cannot be read ({problem.strerror})"
        ) from None
    with _lock:
        module_name = f"penstock_controllers_{hashlib.sha256(f'{path} {digest}'.encode()).hexdigest()[:16]}"
        module = sys.modules.get(module_name)
        if module is None:
            specification = importlib.util.spec_from_file_location(module_name, path)
            assert specification is not None and specification.loader is not None
            module = importlib.util.module_from_spec(specification)
            sys.modules[module_name] = module
            try:
                specification.loader.exec_module(module)
            except BaseException as problem:
                del sys.modules[module_name]
                if isinstance(problem, ScenarioError) or not isinstance(problem, Exception):
                    raise
                line = getattr(problem, "lineno", None) or _line_in(problem, str(path))
                said = f"{type(problem).__name__}: {getattr(problem, 'msg', None) or problem}"
                raise sources.mistake(str(path), line, name, said) from None
        found = getattr(module, name, None)
        if not isinstance(found, Controller):
            there = [key for key, item in vars(module).items() if isinstance(item, Controller)]
            if isinstance(found, type):
                rule = f"{name} is a class without @penstock.controller in front of it"
            else:
                rule = f"has no controller {name}; there are: {', '.join(there) or 'none'}"
            raise _problem("protocol", f"{shown}:{name}", rule)
        _NAMED[found.name] = found
        return found


def name_of(given: str | Controller) -> str:
    """The name of a controller that is given itself or as `FILE.py:CLASS`; anything else as it is."""
    match = _IN_FILE.fullmatch(given.strip()) if isinstance(given, str) else None
    return load(match["file"], match["name"]).name if match else str(given)


def descriptions() -> list[dict[str, Any]]:
    """The loaded controllers as the catalogue describes protocols."""
    return [_NAMED[name].description for name in sorted(_NAMED)]


def _line_in(problem: BaseException, file: str) -> int:
    line, trace = 1, problem.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def in_scenario(
    settings: Mapping[str, Any], document: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings with every controller replaced by what a scenario writes, and the identities of those
    that are named: in a setting, by `protocols`, or in the text of a scenario file, from whose folder files
    are found.
    """
    toml, folder = str(document.get("toml", "")), Path(document.get("base_dir") or ".")
    chosen: dict[str, Controller] = {}

    def use(found: Controller) -> None:
        other = chosen.setdefault(found.name, found)
        if other is not found:
            rule = f"two controllers have this name: {other!r} and {found!r}"
            raise _problem("protocols", found.name, rule)

    def plain(value: Any, base: Path | None) -> Any:
        if isinstance(value, Controller | Chosen):
            use(value.controller if isinstance(value, Chosen) else value)
            return str(value)
        match = _IN_FILE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            return value
        found = load((base or Path()) / match["file"], match["name"])
        use(found)
        return f"{found.name}{match['rest'] or ''}"

    values = dict(settings)
    for item in _listed(values.pop("protocols", ())):
        if plain(item, None) is item:
            raise _problem("protocols", item, "must be controllers, or FILE.py:CLASS")
    out = {key: plain(value, None) for key, value in values.items()}
    if toml and ".py" in toml:
        for item in _of_file(toml):
            plain(item, folder)
        protocol = _top(toml).get("protocol")
        if isinstance(protocol, str) and _IN_FILE.fullmatch(protocol.strip()) and "protocol" not in out:
            out["protocol"] = plain(protocol, folder)
    texts = [value for value in out.values() if isinstance(value, str)] + [toml]
    for name, found in list(_NAMED.items()):
        if name not in chosen and any(re.search(rf"(?<![\w.]){name}(?![\w.])", text) for text in texts):
            use(found)
    return out, [chosen[name].identity for name in sorted(chosen)]


def _listed(given: Any) -> Iterable[Any]:
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return [given] if isinstance(given, Controller | Chosen) else given


def _top(toml: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(toml)
    except tomllib.TOMLDecodeError:
        return {}  # the engine says what is wrong with it, and where


def _of_file(toml: str) -> Iterable[Any]:
    return _listed(_top(toml).get("protocols", ()))


def _problem(key: str, value: object, rule: str) -> ScenarioError:
    from penstock import scenario

    return scenario.error(key, value, rule)
