"""Your own congestion control, queue, router or receiver in one Python file: a class with typed fields and
methods.

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
interpreted, with the same results to the last byte. docs/reference/controllers.md is the guide.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from penstock import _engine
from penstock import controller_source as sources
from penstock.controller_class import Parameter as Parameter
from penstock.controller_class import Written
from penstock.controller_class import param as param
from penstock.errors import ScenarioError

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

    class Verdict(IntEnum):
        """What a queue does with a packet."""

        ACCEPT = 0
        MARK = 1
        DROP = 2

else:
    Event = IntEnum("Event", sources.RECORDS["Event"], module=__name__)
    Verdict = IntEnum("Verdict", sources.RECORDS["Verdict"], module=__name__)
    Limit = IntEnum("Limit", sources.RECORDS["Limit"], module=__name__)

_IN_FILE = re.compile(r"(?P<file>[^:]+\.py):(?P<name>[A-Za-z_]\w*)(?P<rest>:.*)?", re.DOTALL)


class Named(Written):
    """A class that a scenario names: a controller or a queue. Called with parameters it is that with these
    set: `protocol=MyLaw(gain=0.1)`; its name is what a scenario writes: `protocol="mylaw:gain=0.1"`.
    """

    def __init__(self, cls: type, role: str, name: str, text: str, source: str, compile: bool | None) -> None:
        super().__init__(cls, role, name, text, source, compile)
        found = self.source_code
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise found.mistake(found.tree.lineno, f"name={self.name!r} must be small letters, digits and _")
        if self.name in built_in() | built_in("queues"):
            kind = "protocol" if self.name in built_in() else "queue"
            rule = f"there is a {kind} {self.name} already; choose another: @penstock.{role}(name=...)"
            raise found.mistake(found.tree.lineno, rule)

    def __call__(self, **parameters: Any) -> Chosen:
        """This protocol with these parameters. Raises ScenarioError for a name that is none."""
        for name, value in parameters.items():
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise _problem(name, value, f"is no parameter of {self.name}; there are: {known}")
        return Chosen(self, parameters)

    def __str__(self) -> str:
        return self.name

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


class Controller(Named):
    """A protocol made of a class by `controller`."""

    def __init__(
        self,
        cls: type,
        name: str,
        text: str,
        source: str,
        recovery: str,
        ecn: str,
        router: Written | None,
        receiver: Written | None,
        compile: bool | None,
    ) -> None:
        super().__init__(cls, "controller", name, text, source, compile)
        found = self.source_code
        self.recovery, self.ecn, self.router, self.receiver = recovery, ecn, router, receiver
        line = found.tree.lineno
        for key, value, words in (
            ("recovery", recovery, ("reno", "newreno", "sack")),
            ("ecn", ecn, ("off", "classic", "dctcp")),
        ):
            if value not in words:
                raise found.mistake(line, f"{key}={value!r} must be one of {', '.join(words)}")
        for role, part in (("router", router), ("receiver", receiver)):
            if part is not None:
                self._take(role, part)
        self._wants_rate = sources.reads(found, "ack", "rate_bps")
        if "on_send" in found.methods and router is None:
            rule = "on_send writes the header of packets for a router: @penstock.controller(router=...)"
            raise found.mistake(found.methods["on_send"].lineno, rule)

    def _take(self, role: str, part: object) -> None:
        """Make the parameters of its router or receiver the protocol's."""
        found = self.source_code
        line = found.tree.lineno
        if not isinstance(part, Written) or part.role != role:
            raise found.mistake(line, f"{role}={part!r} must be a class with @penstock.{role} before it")
        if part.source_code.file != found.file:
            raise found.mistake(line, f"{role}={part!r} must be in the same file, which is what a run names")
        for row in part._parameters:
            mine = next((own for own in self._parameters if own[0] == row[0]), None)
            if mine is None and any(field == row[0] for field, *_ in self.fields):
                rule = f"{row[0]} is a field here and a parameter of its {role}: call one otherwise"
                raise found.mistake(line, rule)
            if mine is not None and mine != row:
                rule = f"{row[0]} is a parameter here and, declared otherwise, of its {role}"
                raise found.mistake(line, rule)
            if mine is None:
                self._parameters.append(row)
                self.parameters[row[0]] = part.parameters[row[0]]

    def sender(self, *, segment: int = 1460, initial_window: int = 14600, **parameters: Any) -> Any:
        """One sender, to try the controller by hand and in tests: see `penstock.controller_trial`."""
        from penstock.controller_trial import Sender

        return Sender(self, segment, initial_window, parameters)


class Queue(Named):
    """A queue discipline made of a class by `queue`."""

    def __init__(
        self, cls: type, name: str, text: str, source: str, marks: bool | None, compile: bool | None
    ) -> None:
        super().__init__(cls, "queue", name, text, source, compile)
        # What a scenario asks: whether packets that are not ECN-capable are dropped where others are marked.
        self.marks = sources.names(self.source_code, "MARK") if marks is None else marks
        self._random = any(
            sources.reads(self.source_code, record, "uniform") for record in ("packet", "waited")
        )
        self._reads = [sources.fields_read(self.source_code, record) for record in ("packet", "port")]

    def port(self, **parameters: Any) -> Any:
        """One port, to try the queue by hand and in tests: see `penstock.controller_trial`."""
        from penstock.controller_trial import Port

        return Port(self, parameters)


@dataclass(frozen=True)
class Chosen:
    """A controller or a queue with parameters set."""

    controller: Named
    parameters: Mapping[str, Any]

    def __str__(self) -> str:
        given = ",".join(f"{name}={_text(value)}" for name, value in self.parameters.items())
        return f"{self.controller.name}:{given}" if given else self.controller.name


@dataclass(frozen=True)
class _Given(Chosen):
    """A choice with its parameters as they were written: `:gain=2`."""

    rest: str = ""

    def __str__(self) -> str:
        return f"{self.controller.name}{self.rest}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
    router: Written | None = None,
    receiver: Written | None = None,
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
    router: Written | None = None,
    receiver: Written | None = None,
    compile: bool | None = None,
) -> Any:
    """Make a protocol of a class: with or without arguments, as a decorator.

    `name` is its name in scenarios (by default the class's in small letters), `text` one line on what it
    is (by default the docstring's first paragraph), `source` the paper. `recovery` is how losses are
    repaired: "sack", "newreno" or "reno"; `ecn` "off", "classic" (RFC 3168) or "dctcp" (RFC 8257: marks
    echoed one by one). `router` is the class that runs at the switches' ports and reads and writes the
    headers of the protocol's packets, `receiver` the one that acknowledges. `compile` None compiles where
    Numba is
    installed; False interprets. Raises ScenarioError with file and line for what cannot work.
    """

    def make(cls: type) -> Controller:
        return _known(Controller(cls, name, text, source, recovery, ecn, router, receiver, compile))

    return make if cls is None else make(cls)


def _known(made: Named) -> Any:
    """Let a scenario name it."""
    with _lock:
        _LOADED[_key(made.identity)] = made
        _NAMED[made.name] = made
    return made


@overload
def queue(cls: type) -> Queue: ...
@overload
def queue(
    *,
    name: str = "",
    text: str = "",
    source: str = "",
    marks: bool | None = None,
    compile: bool | None = None,
) -> Callable[[type], Queue]: ...
def queue(
    cls: type | None = None,
    *,
    name: str = "",
    text: str = "",
    source: str = "",
    marks: bool | None = None,
    compile: bool | None = None,
) -> Any:
    """Make a queue discipline of a class, which decides about packets at a port: `on_arrival(self, packet,
    port)` and `on_departure(self, waited, port)` return a `Verdict`.

    `marks` says that packets may be marked, so that those that are not ECN-capable may be dropped instead;
    by default it does when the class names `Verdict.MARK`. The rest is as for `controller`.
    """

    def make(cls: type) -> Queue:
        made: Queue = _known(Queue(cls, name, text, source, marks, compile))
        return made

    return make if cls is None else make(cls)


@overload
def router(cls: type) -> Written: ...
@overload
def router(*, compile: bool | None = None) -> Callable[[type], Written]: ...
def router(cls: type | None = None, *, compile: bool | None = None) -> Any:
    """Make the router's part of a protocol of a class: `@penstock.controller(router=...)` takes it. It sees
    every packet at every port of a switch and reads and writes the headers of its protocol's.
    """

    def make(cls: type) -> Written:
        return Written(cls, "router", "", "", "", compile)

    return make if cls is None else make(cls)


@overload
def receiver(cls: type) -> Written: ...
@overload
def receiver(*, compile: bool | None = None) -> Callable[[type], Written]: ...
def receiver(cls: type | None = None, *, compile: bool | None = None) -> Any:
    """Make the receiver's part of a protocol of a class: `@penstock.controller(receiver=...)` takes it. It
    says when an ACK leaves, whether it carries ECN-Echo, and how large the receive window may be.
    """

    def make(cls: type) -> Written:
        return Written(cls, "receiver", "", "", "", compile)

    return make if cls is None else make(cls)


_lock = threading.RLock()
_LOADED: dict[tuple[str, str, str, Any], Named] = {}
# The latest of each name: what a scenario that names it means.
_NAMED: dict[str, Named] = {}


def _key(identity: Mapping[str, Any]) -> tuple[str, str, str, Any]:
    return (identity["file"], identity["class"], identity["sha256"], identity["compile"])


@lru_cache(maxsize=2)
def built_in(kind: str = "protocols") -> frozenset[str]:
    """Names of the engine's own protocols, or of its "queues"."""
    return frozenset(entry["name"] for entry in json.loads(_engine.describe())[kind])


def provide(identity: str) -> Named:
    """The controller or queue that a document names, loaded from its file where this process does not have
    it. Raises ScenarioError when there is none, or when the file is another by now, of which nothing is run.
    """
    wanted = json.loads(identity)
    with _lock:
        found = _LOADED.get(_key(wanted))
        if found is not None:
            return found
        if not Path(wanted["file"]).is_file():
            rule = "another process cannot read it: define the controller in a file"
            raise _problem("protocol", f"{wanted['file']}:{wanted['class']}", rule)
        load(wanted["file"], wanted["class"], sha256=wanted["sha256"])
        found = _LOADED.get(_key(wanted))
    if found is None:
        raise _changed(wanted["file"], wanted["class"])
    return found


def _changed(file: str, name: str) -> ScenarioError:
    return _problem("protocol", f"{file}:{name}", "the file has changed since the run was planned")


@contextmanager
def data_only() -> Iterator[None]:
    """Whatever the block reads is data: a Python file that it names is refused, not run."""
    before, _here.data_only = getattr(_here, "data_only", False), True
    try:
        yield
    finally:
        _here.data_only = before


_here = threading.local()


def load(file: str | Path, name: str, sha256: str = "") -> Any:
    """The controller or queue `name` of a Python file, which is run once for each of its contents. Raises
    ScenarioError, with the line where it has one; where `sha256` is given and is not the file's nothing is
    run.
    """
    if getattr(_here, "data_only", False):
        rule = "is a program, and a result is data: give it yourself, with the scenario"
        raise _problem("protocol", f"{file}:{name}", rule)
    path = Path(file).resolve()
    shown = sources.shown(str(path))
    try:
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
    except OSError as problem:
        raise _problem(
            "protocol", f"{file}:{name}", f"the file cannot be read ({problem.strerror})"
        ) from None
    if sha256 and sha256 != digest:
        raise _changed(str(file), name)
    with _lock:
        module_name = f"penstock_controllers_{hashlib.sha256(f'{path} {digest}'.encode()).hexdigest()[:16]}"
        module = sys.modules.get(module_name)
        if module is None:
            specification = importlib.util.spec_from_file_location(module_name, path)
            assert specification is not None and specification.loader is not None
            module = importlib.util.module_from_spec(specification)
            sys.modules[module_name] = module
            try:
                # What was read, not what the file holds by now or a compiled copy beside it.
                exec(compile(content, str(path), "exec"), module.__dict__)
            except BaseException as problem:
                del sys.modules[module_name]
                if isinstance(problem, ScenarioError) or not isinstance(problem, Exception):
                    raise
                line = getattr(problem, "lineno", None) or _line_in(problem, str(path))
                said = f"{type(problem).__name__}: {getattr(problem, 'msg', None) or problem}"
                raise sources.mistake(str(path), line, name, said) from None
        found = getattr(module, name, None)
        if not isinstance(found, Named):
            there = [key for key, item in vars(module).items() if isinstance(item, Named)]
            if isinstance(found, type):
                rule = f"{name} is a class without @penstock.controller or @penstock.queue in front of it"
            elif isinstance(found, Written):
                rule = f"{name} is a {found.role}: a protocol takes it: @penstock.controller(...={name})"
            else:
                rule = f"has no controller or queue {name}; there are: {', '.join(there) or 'none'}"
            raise _problem("protocol", f"{shown}:{name}", rule)
        _NAMED[found.name] = found
        return found


def is_own(value: object) -> bool:
    """Whether a value is a class in Python, with or without parameters."""
    return isinstance(value, Named | Chosen)


def in_file(value: object, folder: Path) -> Named | Chosen | None:
    """The class that a value names as FILE.py:CLASS, with the parameters behind it; the file is found from
    `folder`. None for any other value. Raises ScenarioError.
    """
    match = _IN_FILE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    found: Named = load(folder / match["file"], match["name"])
    return found if match["rest"] is None else _Given(found, {}, match["rest"])


def names_file(value: object) -> bool:
    """Whether a value is FILE.py:CLASS."""
    return isinstance(value, str) and _IN_FILE.fullmatch(value.strip()) is not None


def place_of(value: Named | Chosen) -> str:
    """FILE.py:CLASS of a class in Python, the file from the root."""
    own = value.controller if isinstance(value, Chosen) else value
    return f"{own.identity['file']}:{own.identity['class']}"


def name_of(given: str | Named) -> str:
    """The name of a controller or queue, given itself or as `FILE.py:CLASS`; anything else as it is."""
    match = _IN_FILE.fullmatch(given.strip()) if isinstance(given, str) else None
    return load(match["file"], match["name"]).name if match else str(given)


def descriptions(role: str = "controller") -> list[dict[str, Any]]:
    """The loaded controllers, or those of another role, as the catalogue describes protocols."""
    return [_NAMED[name].description for name in sorted(_NAMED) if _NAMED[name].role == role]


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
    """Return the settings with every controller replaced by its text in a scenario, and the identities of the
    controllers. These are named in a setting, by `protocols`, or in a scenario file, relative to its folder.
    """
    toml, folder = str(document.get("toml", "")), Path(document.get("base_dir") or ".")
    chosen: dict[str, Named] = {}

    def use(found: Named) -> None:
        other = chosen.setdefault(found.name, found)
        if other is not found:
            rule = f"two controllers have this name: {other!r} and {found!r}"
            raise _problem("protocols", found.name, rule)

    def plain(value: Any, base: Path | None) -> Any:
        if isinstance(value, Named | Chosen):
            use(value.controller if isinstance(value, Chosen) else value)
            return str(value)
        match = _IN_FILE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            return value
        found = load((base or Path()) / match["file"], match["name"])
        use(found)
        return f"{found.name}{match['rest'] or ''}"

    values = dict(settings)
    for item in listed(values.pop("protocols", ())):
        if plain(item, None) is item:
            raise _problem("protocols", item, "must be controllers or queues, or FILE.py:CLASS")
    out = {key: plain(value, None) for key, value in values.items()}
    if toml and ".py" in toml:
        for item in _of_file(toml):
            plain(item, folder)
        for key in ("protocol", "queue"):
            named = _top(toml).get(key)
            if isinstance(named, str) and _IN_FILE.fullmatch(named.strip()) and key not in out:
                out[key] = plain(named, folder)
    texts = [value for value in out.values() if isinstance(value, str)] + [toml]
    for name, found in list(_NAMED.items()):
        if name not in chosen and any(re.search(rf"(?<![\w.]){name}(?![\w.])", text) for text in texts):
            use(found)
    return out, [chosen[name].identity for name in sorted(chosen)]


def listed(given: Any) -> Iterable[Any]:
    """What `protocols` names: a list, one of it, or a text with commas."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return [given] if isinstance(given, Named | Chosen) else given


def _top(toml: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(toml)
    except tomllib.TOMLDecodeError:
        return {}  # the engine says what is wrong with it, and where


def _of_file(toml: str) -> Iterable[Any]:
    return listed(_top(toml).get("protocols", ()))


def _problem(key: str, value: object, rule: str) -> ScenarioError:
    from penstock import scenario

    return scenario.error(key, value, rule)
