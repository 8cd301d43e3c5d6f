"""The code of a class that the engine calls: compiled where Numba is installed, interpreted otherwise, on
one block of words.

Both do the same arithmetic: IEEE doubles in the order of the source, nothing fused or reordered; powers by
the C library's `pow`, as the interpreter has it; ints are int64.
"""

from __future__ import annotations

import ast
import ctypes
import ctypes.util
import math
import struct
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock import _engine
from penstock.controller_source import (
    RECORDS,
    TABLES,
    Role,
    Source,
    functions,
    local_field,
    local_tables,
    methods,
    numbers,
    shown,
)
from penstock.errors import ScenarioError

if TYPE_CHECKING:
    from penstock.controller_class import Written

# What a queue's methods return (`Verdict`), at most.
_VERDICTS = len(RECORDS["Verdict"])
_FORMATS = {"float": "f8", "int": "i8", "bool": "?"}


def compiler() -> bool:
    """Whether Numba is installed (the extra `jit`)."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def _dtype(fields: Sequence[tuple[str, str]]) -> np.dtype[Any]:
    """A block of 8-byte words as a NumPy record."""
    some = fields or [("_unused", "int")]
    return np.dtype(
        {
            "names": [name for name, _ in some],
            "formats": [_FORMATS.get(kind, "i8") for _, kind in some],
            "offsets": [8 * i for i in range(len(some))],
            "itemsize": 8 * len(some),
        }
    )


@lru_cache(maxsize=1)
def _helpers() -> dict[str, Any]:
    """What compiled code calls so as to do what the interpreter does."""
    from numba import types as nb
    from numba.core.errors import TypingError
    from numba.extending import overload

    library = ctypes.CDLL(ctypes.util.find_library("m") or None)
    power = library.pow
    power.restype, power.argtypes = ctypes.c_double, (ctypes.c_double, ctypes.c_double)

    def _int_field(x: Any) -> Any:
        return x

    def _bool_field(x: Any) -> Any:
        return bool(x)

    def _whole(x: Any) -> Any:
        return int(x)

    def _power(x: Any, y: Any) -> Any:
        return x**y

    def _window(answer: Any) -> Any:
        return answer

    def _pacing(answer: Any) -> Any:
        return answer

    def _verdict(answer: Any) -> Any:
        return answer

    def _count(answer: Any) -> Any:
        return answer

    def _flag(answer: Any) -> Any:
        return answer

    def _draw(record: Any) -> Any:
        return record

    tables = _tables()

    # Numba compares the names and annotations of both signatures: here are none.
    @overload(_int_field)
    def int_field(x):  # type: ignore[no-untyped-def]
        if isinstance(x, nb.Integer | nb.Boolean):
            return lambda x: np.int64(x)
        raise TypingError(f"an int field gets {_named(x)}; write int(...)")

    @overload(_bool_field)
    def bool_field(x):  # type: ignore[no-untyped-def]
        if isinstance(x, nb.Boolean):
            return lambda x: x
        raise TypingError(f"a bool field gets {_named(x)}; write bool(...)")

    @overload(_whole)
    def whole(x):  # type: ignore[no-untyped-def]
        if isinstance(x, nb.Float):

            def of_float(x):  # type: ignore[no-untyped-def]
                if not (-9.223372036854776e18 <= x < 9.223372036854776e18):
                    raise ValueError
                return np.int64(x)

            return of_float
        return lambda x: np.int64(x)

    @overload(_power)
    def power_of(x, y):  # type: ignore[no-untyped-def]
        if isinstance(x, nb.Integer) and isinstance(y, nb.Integer):
            # A negative power of an int is a float to the interpreter.
            raise TypingError("a power of ints: write float(...) ** n, or multiply")

        def of_floats(x, y):  # type: ignore[no-untyped-def]
            found = power(float(x), float(y))
            if found != found or (x == 0.0 and y < 0.0) or (math.isinf(found) and not math.isinf(x)):
                raise ValueError
            return found

        return of_floats

    @overload(_window)
    def window(answer):  # type: ignore[no-untyped-def]
        if isinstance(answer, nb.BaseTuple):
            if len(answer) != 2:
                raise TypingError("control returns a window, or a window and a pacing rate")
            return lambda answer: float(answer[0])
        if isinstance(answer, nb.Float | nb.Integer):
            return lambda answer: float(answer)
        raise TypingError(f"control returns a window in bytes, not {_named(answer)}")

    @overload(_pacing)
    def pacing(answer):  # type: ignore[no-untyped-def]
        if isinstance(answer, nb.BaseTuple):
            return lambda answer: float(answer[1])
        return lambda answer: math.inf

    @overload(_verdict)
    def verdict(answer):  # type: ignore[no-untyped-def]
        if isinstance(answer, nb.Integer):
            return lambda answer: float(answer)
        raise TypingError(f"a queue's method returns a Verdict on every path, not {_named(answer)}")

    @overload(_count)
    def count(answer):  # type: ignore[no-untyped-def]
        if isinstance(answer, nb.Integer):
            return lambda answer: float(answer)
        if isinstance(answer, nb.Boolean):
            return lambda answer: 1.0 if answer else 0.0
        raise TypingError(f"a receiver's method returns how many ACKs leave now, not {_named(answer)}")

    @overload(_flag)
    def flag(answer):  # type: ignore[no-untyped-def]
        if isinstance(answer, nb.Boolean):
            return lambda answer: 1.0 if answer else 0.0
        raise TypingError(f"before_data returns True or False, not {_named(answer)}")

    @overload(_draw)
    def draw(record):  # type: ignore[no-untyped-def]
        def drawn(record):  # type: ignore[no-untyped-def]
            record._drawn = True
            return record._uniform

        return drawn

    made = (_int_field, _bool_field, _whole, _power, _window, _pacing, _verdict, _count, _flag, _draw)
    return {function.__name__: function for function in made} | tables | {"_infinity": math.inf}


def _tables() -> dict[str, Any]:
    """What compiled code calls to read and write a dictionary. A field holds its address."""
    from numba import types as nb
    from numba.core.errors import TypingError
    from numba.extending import overload

    word: dict[str, Any] = {"i": ctypes.c_int64, "f": ctypes.c_double}
    calls = {
        name: ctypes.CFUNCTYPE(word[answer], ctypes.c_int64, *(word[one] for one in takes))(address)
        for name, address, takes, answer in _engine.table_calls()
    }
    has, size, clear, remove = (calls[name] for name in ("has", "size", "clear", "remove"))
    made: dict[str, Any] = {}

    def given(key: Any) -> None:
        if not isinstance(key, nb.Integer | nb.Boolean):
            raise TypingError(f"a key of a dict is an int, not {_named(key)}")

    def declare(name: str, arguments: int, build: Callable[..., Any]) -> None:
        """A function with so many arguments; `build` gets their types."""
        names = ("table", "key", "value")[:arguments]
        scope: dict[str, Any] = {"build": build}
        exec(f"def {name}({', '.join(names)}): pass", scope)
        exec(f"def typed({', '.join(names)}): return build({', '.join(names)})", scope)
        made[name] = scope[name]
        overload(scope[name])(scope["typed"])

    def of_size(table: Any) -> Any:
        return lambda table: size(table)

    def of_clear(table: Any) -> Any:
        return lambda table: clear(table)

    def of_has(table: Any, key: Any) -> Any:
        given(key)
        return lambda table, key: has(table, np.int64(key)) != 0

    def of_remove(table: Any, key: Any) -> Any:
        given(key)

        def removed(table, key):  # type: ignore[no-untyped-def]
            if remove(table, np.int64(key)) == 0:
                raise ValueError
            return 0

        return removed

    declare("_size", 1, of_size)
    declare("_clear", 1, of_clear)
    declare("_has", 2, of_has)
    declare("_remove", 2, of_remove)
    for kind in ("int", "float", "bool"):
        _declare_values(kind, calls, given, declare)
    return made


def _declare_values(
    kind: str, calls: Mapping[str, Any], given: Callable[[Any], None], declare: Callable[..., None]
) -> None:
    """Those functions of dictionaries that depend on the kind of their values."""
    from numba import types as nb
    from numba.core.errors import TypingError

    has, remove = calls["has"], calls["remove"]
    stored = "float" if kind == "float" else "int"
    read, write = calls[f"get_{stored}"], calls[f"put_{stored}"]
    fits = {
        "int": nb.Integer | nb.Boolean,
        "float": nb.Float | nb.Integer | nb.Boolean,
        "bool": nb.Boolean,
    }[kind]
    whole = np.float64 if kind == "float" else np.int64
    none = 0.0 if kind == "float" else 0
    answered = {"int": np.int64, "float": np.float64, "bool": np.bool_}[kind]

    def checked(key: Any, value: Any) -> None:
        given(key)
        if not isinstance(value, fits):
            raise TypingError(f"a dict of {kind}s gets {_named(value)}; write {kind}(...)")

    def of_item(table: Any, key: Any) -> Any:
        given(key)

        def item(table, key):  # type: ignore[no-untyped-def]
            if has(table, np.int64(key)) == 0:
                raise ValueError
            return answered(read(table, np.int64(key), none))

        return item

    def of_taken(table: Any, key: Any) -> Any:
        given(key)

        def taken(table, key):  # type: ignore[no-untyped-def]
            found = read(table, np.int64(key), none)
            if remove(table, np.int64(key)) == 0:
                raise ValueError
            return answered(found)

        return taken

    def of_get(table: Any, key: Any, value: Any) -> Any:
        checked(key, value)
        return lambda table, key, value: answered(read(table, np.int64(key), whole(value)))

    def of_pop(table: Any, key: Any, value: Any) -> Any:
        checked(key, value)

        def popped(table, key, value):  # type: ignore[no-untyped-def]
            found = read(table, np.int64(key), whole(value))
            remove(table, np.int64(key))
            return answered(found)

        return popped

    def of_put(table: Any, key: Any, value: Any) -> Any:
        checked(key, value)

        def put(table, key, value):  # type: ignore[no-untyped-def]
            word = whole(value)
            if word != word:
                raise ValueError
            return write(table, np.int64(key), word)

        return put

    declare(f"_{kind}_item", 2, of_item)
    declare(f"_{kind}_taken", 2, of_taken)
    declare(f"_{kind}_get", 3, of_get)
    declare(f"_{kind}_pop", 3, of_pop)
    declare(f"_{kind}_put", 3, of_put)


_CONTAINERS = (ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
#: What a field may be.
FIELD_RULE = "a field is a float, an int or a bool, or a dict of them by int: backlog: dict[int, int] = {}"
#: What is possible instead of a value that is another dict, a list or a set.
CONTAINER_RULE = (
    "state by flow is a dict of the class by int: backlog: dict[int, int] = {}; compile=False interprets"
)


def _named(kind: Any) -> str:
    name = str(kind)
    if name.startswith("float"):
        return "a float"
    return "nothing" if name == "none" else f"a value of type {name}"


def compiled(source: Source, fields: Sequence[tuple[str, str]]) -> Any:
    """The methods as one C function (Numba's `cfunc`; its `.address` is what the engine calls). Raises
    ScenarioError, with the line, for what cannot be compiled.
    """
    from numba.core.errors import NumbaError

    for method in source.methods.values():
        made = {id(node.value) for node in ast.walk(method) if isinstance(node, ast.Assign | ast.AnnAssign)}
        for node in ast.walk(method):
            called_name = (
                node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            )
            filled = isinstance(node, ast.Dict) and (bool(node.keys) or id(node) not in made)
            if filled or isinstance(node, _CONTAINERS) or called_name in ("dict", "list", "set"):
                line = getattr(node, "lineno", source.tree.lineno)
                raise source.mistake(line, f"{ast.unparse(node)} cannot be compiled: {CONTAINER_RULE}")
    # What the values of a method's own dictionary are, where it is not written: ints, or else floats.
    open_ = {local_field(*of) for of, kind in local_tables(source).items() if kind not in TABLES}
    failed: Exception | None = None
    for values in ("dict[int, int]", "dict[int, float]") if open_ else ("",):
        kinds = [(name, values if name in open_ else kind) for name, kind in fields]
        try:
            return _built(source, kinds)
        except NumbaError as problem:
            failed = failed or problem
        except ScenarioError:
            raise
        except Exception as problem:
            # What the compiler itself stumbles over has no line.
            rule = f"cannot be compiled: {_said(problem)} (compile=False interprets it)"
            raise source.mistake(source.tree.lineno, rule) from None
    assert failed is not None
    line, rule = _explained(source, failed)
    raise source.mistake(line, rule) from None


def _built(source: Source, fields: Sequence[tuple[str, str]]) -> Any:
    """The C function. Raises what Numba raises."""
    import numba
    from numba import types as nb

    tree = functions(source, dict(fields))
    scope: dict[str, Any] = {**source.scope, **_helpers()}
    scope.pop(source.tree.name, None)
    for name, item in source.scope.items():
        # Functions of the user's own file; what they call is found in `scope`, compiled too.
        if isinstance(item, types.FunctionType) and item.__code__.co_filename == source.code_file:
            copied = types.FunctionType(item.__code__, scope, name, item.__defaults__, item.__closure__)
            scope[name] = numba.njit(copied)
    names = [f"{source.tree.name}_{name}" for name in source.methods]
    exec(compile(tree, source.code_file, "exec"), scope)
    for name in names:
        scope[name] = numba.njit(scope[name])
    role = source.role
    called = {name: f"{source.tree.name}_{name}" for name in source.methods if name in role.methods}
    lines = [
        "def step(call, state, first, second, out):",
        "    me = carray(state, (1,), STATE)[0]",
        "    try:",
    ]
    for i, (name, kinds) in enumerate(role.hooks.items()):
        if name in called:
            views = [
                f"carray({of}, (1,), {kind.upper()})[0]"
                for of, kind in zip(("first", "second"), kinds, strict=False)
            ]
            does = f"{called[name]}({', '.join(['me', *views])})"
            if name in role.answers:
                does = f"out[0] = _{role.answers[name]}({does})"
            lines.append(f"        if call == {i}:\n            {does}")
    if role.asked:
        lines += [
            f"        answer = {called[role.asked]}(me)",
            "        out[0] = _window(answer)",
            "        out[1] = _pacing(answer)",
        ]
    lines += [
        "    except Exception:",
        "        return 1",
        "    return 0",
    ]
    layouts = {kind.upper(): _dtype([row[:2] for row in RECORDS[kind]]) for kind in role.records}
    around = {**scope, **layouts, "STATE": _dtype(fields), "carray": numba.carray}
    exec("\n".join(lines), around)
    pointer = nb.voidptr
    signature = nb.int64(nb.int64, pointer, pointer, pointer, nb.CPointer(nb.float64))
    return numba.cfunc(signature)(around["step"])


def _explained(source: Source, problem: Exception) -> tuple[int, str]:
    """Line and reason of what the compiler says in its many lines."""
    import re

    text = re.sub(r"\x1b\[[0-9;]*m", "", str(problem))
    base = re.escape(source.file.rsplit("/", 1)[-1])
    first, last = source.tree.lineno, source.tree.end_lineno or source.tree.lineno
    found = [int(n) for n in re.findall(rf'{base}[",)]*,? ?\(?(?:line )?(\d+)', text)]
    inside = [n for n in found if first <= n <= last]
    location = getattr(getattr(problem, "loc", None), "line", 0)
    # The innermost call is named first.
    line = inside[0] if inside else found[0] if found else location or first
    own = re.search(
        r"(an? (?:int|bool) field gets [^\n]*|control returns [^\n]*|a power of ints: [^\n]*"
        r"|a dict of [^\n]*|a key of [^\n]*"
        r"|a (?:queue|receiver)'s method returns [^\n]*|before_data returns [^\n]*)",
        text,
    )
    if own:
        if "returns" in own[0]:
            named = [
                name for name in source.methods if name in source.role.answers or name == source.role.asked
            ]
            line = _returning(source, named, own[0])
        return line, own[0]
    reasons = [
        row.strip() for row in text.splitlines() if row.strip() and not row.lstrip().startswith(("File", "<"))
    ]
    told = [
        row for row in reasons if not row.startswith(("Failed in", "During:", "-", "There are", "Known", "*"))
    ]
    reason = told[-1] if told else "it"
    for row in reasons:
        if re.search(
            r"Untyped global|Cannot unify|No implementation|Unknown attribute|undefined|not defined"
            r"|[Uu]nsupported|Invalid use",
            row,
        ):
            reason = row
    return line, f"cannot be compiled: {reason[:200]} (compile=False interprets it)"


def _returning(source: Source, named: Sequence[str], what: str) -> int:
    """The line of the method whose answer is of no use: of those that could be, the one that the text names
    or one that can end without a return.
    """
    tell = [name for name in named if name in what] or [
        name for name in named if not isinstance(source.methods[name].body[-1], ast.Return)
    ]
    return source.methods[(tell or list(named))[0]].lineno


def shadow(source: Source, fields: Sequence[tuple[str, str]], parameters: Mapping[str, Any]) -> type:
    """The class whose objects have the user's methods and read and write a block of words."""
    tables = {name: TABLES[kind] for name, kind in fields if kind in TABLES}
    # The word of a dictionary is for compiled code; here its attribute holds it.
    columns = [
        (f"_at_{name}", "int", False) if name in tables else (name, kind, name not in parameters)
        for name, kind in fields
    ]
    block: type = _engine.block_type(source.tree.name, columns)
    scope: dict[str, Any] = {"__slots__": tuple(tables), "__module__": source.scope.get("__name__", "")}
    if tables:

        def begin(me: Any) -> None:
            for name, kind in tables.items():
                setattr(me, name, _engine.Table(kind))

        scope["__init__"] = begin
    return type(source.tree.name, (block,), {**scope, **numbers(source), **methods(source)})


@lru_cache(maxsize=32)
def record(kind: str) -> type:
    """The class of a record that the engine fills."""
    rows = RECORDS[kind]
    columns = [(name, word, writable or name == "_drawn") for name, word, _, writable in rows]
    made: type = _engine.block_type(kind.capitalize(), columns)
    if any(name == "_uniform" for name, *_ in rows):
        made = type(kind.capitalize(), (made,), {"__slots__": (), "uniform": property(_drawn)})
    return made


def _drawn(of: Any) -> Any:
    """The random number of a record: the engine sees that it was looked at."""
    of._drawn = True
    return of._uniform


def filled(made: type, values: Sequence[int]) -> Any:
    """An object of a block's class with these words."""
    block = made()
    _engine.put_words(block, list(values))
    return block


def interpreted(source: Source) -> list[Callable[..., Any]]:
    """What the engine calls in the place of compiled code, in the order of the role's methods: each runs a
    method and returns its answer, or what the method that is asked says.
    """
    return [_caller(source, name) for name in source.role.hooks]


def _caller(source: Source, name: str) -> Callable[..., Any]:
    """A call of the engine's as one of the interpreter's. One function for each form: this is the price of
    an ACK.
    """
    role = source.role
    n, there, answer = len(role.hooks[name]), name in source.methods, role.answers.get(name)
    takes = ", ".join(["first", "second"][:n])
    does = f"me.{name}({takes})" if there else "None"
    if answer is not None:
        body = f"    return _{answer}({does})" if there else "    return 0"
    elif role.asked:
        body = (f"    {does}\n" if there else "") + f"    return me.{role.asked}()"
    else:
        body = f"    {does}\n    return 0"
    scope: dict[str, Any] = {"_verdict": _verdict, "_count": _count, "_flag": _flag}
    exec(f"def call(me, first, second):\n{body}", scope)
    made: Callable[..., Any] = scope["call"]
    return made


def _verdict(answer: Any) -> int:
    if type(answer) is not int and not isinstance(answer, IntEnum):
        raise TypeError(f"returns {answer!r}; it must return a Verdict")
    return int(answer)


def _count(answer: Any) -> int:
    if not isinstance(answer, int):
        raise TypeError(f"returns {answer!r}; it must return how many ACKs leave now")
    return int(answer)


def _flag(answer: Any) -> bool:
    if not isinstance(answer, bool):
        raise TypeError(f"returns {answer!r}; it must return True or False")
    return answer


def words(kind: str, values: Mapping[str, Any]) -> list[int]:
    """A record as the words that the engine would write; fields that are not named are 0."""
    rows = RECORDS[kind]
    return [word(values.get(name, values.get(name.lstrip("_"), 0)), type_) for name, type_, *_ in rows]


def word(value: float | int | bool, kind: str) -> int:
    """A value as a word of 64 bits."""
    if kind == "float":
        return int(struct.unpack("<Q", struct.pack("<d", float(value)))[0])
    return int(value) % 2**64


def diagnose(
    written: Written,
    call: int,
    state: tuple[list[int], list[Any]],
    first: list[int],
    second: list[int],
    place: str,
    now_s: float,
) -> str:
    """Why a call failed, with file, line, place ("flow 7") and time: it is made once more by the
    interpreter, every float looked at after each line. `state` has the words and the dictionaries.
    """
    source = written.source_code
    role = source.role
    name = list(role.hooks)[call]
    me = filled(written.shadow, state[0])
    held = [field for field, kind, _ in written.fields if kind in TABLES]
    for field, table in zip(held, state[1], strict=True):
        setattr(me, field, table)
    kinds = role.hooks[name]
    seen = [filled(record(kind), words) for kind, words in zip(kinds, (first, second), strict=False)]
    where = f"{place} at {now_s:.9g} s" if place else "before the first packet"

    def told(method: str, line: int, what: str) -> str:
        return f"{shown(source.file)}:{line}: {source.tree.name}.{method}, {where}: {what}"

    floats = [field for field, kind, _ in written.fields if kind == "float"]
    watch = _Watch(source.code_file, me, floats, seen)
    method, answer = name, None
    try:
        if name in source.methods:
            answer = watch.run(getattr(me, name), tuple(seen))
        if watch.lost is not None:
            field, line = watch.lost
            return told(name, line, f"{field} becomes NaN, which is no number")
        if name == "on_timer" and not me.timer_s > now_s:
            what = f"timer_s = {me.timer_s!r} s: must be later than now"
            return told(name, source.methods[name].lineno, what)
        if role.asked:
            method = role.asked
            answer = watch.run(getattr(me, method), ())
    except Exception as problem:
        return told(method, _line(problem, source) or source.methods[method].lineno, _said(problem))
    what = _illegal(answer) if role.asked else _unusable(role, name, answer)
    return told(method, watch.last or source.methods[method].lineno, what)


class _Watch:
    """Follows the lines of a file while a method runs: the last, and the first that left a NaN behind."""

    def __init__(self, file: str, me: Any, floats: Sequence[str], seen: Sequence[Any]) -> None:
        self.file, self.me, self.floats = file, me, floats
        # What the method may write of the records it sees.
        self.headers = [(of, name) for of in seen for name in dir(type(of)) if name.startswith("header_")]
        self.last = 0
        self.lost: tuple[str, int] | None = None

    def run(self, method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        before = sys.gettrace()
        sys.settrace(self._see)
        try:
            return method(*arguments)
        finally:
            sys.settrace(before)

    def _see(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != self.file:
            return None
        if event in ("line", "return") and self.lost is None:
            values = [(f, getattr(self.me, f)) for f in self.floats]
            values += [(f, getattr(of, f)) for of, f in self.headers]
            self.lost = next(((f, self.last) for f, value in values if math.isnan(value)), None)
        back = frame.f_back
        if event == "return" and back is not None and back.f_code.co_filename == self.file:
            self.last = back.f_lineno  # goes on there
        elif event != "call":
            self.last = frame.f_lineno
        return self._see


def _illegal(answer: Any) -> str:
    pair = answer if isinstance(answer, tuple) else (answer, math.inf)
    if len(pair) != 2 or not all(isinstance(x, int | float) for x in pair):
        return f"returns {answer!r}; it must return a window in bytes, or a window and a pacing rate in bit/s"
    if not pair[0] >= 0.0:
        return f"the window is {pair[0]!r} bytes; it must be a number, 0 or more"
    if not pair[1] > 0.0:
        return f"the pacing rate is {pair[1]!r} bit/s; it must be above 0 (math.inf = not paced)"
    return "failed compiled and not interpreted: please report this"


def _unusable(role: Role, name: str, answer: Any) -> str:
    kind = role.answers.get(name, "")
    if kind == "verdict" and (type(answer) is not int or not 0 <= answer < _VERDICTS):
        return f"returns {answer!r}; it must return Verdict.ACCEPT, MARK or DROP"
    if kind == "count" and not (isinstance(answer, int) and 0 <= answer <= 10**6):
        return f"returns {answer!r}; it must return how many ACKs leave now, 0 to wait"
    if kind == "flag" and not isinstance(answer, bool):
        return f"returns {answer!r}; it must return True or False"
    return "failed compiled and not interpreted: please report this"


def _line(problem: BaseException, source: Source) -> int:
    """The last line of the user's file that an exception passed through."""
    line, trace = 0, problem.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in (source.file, source.code_file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _said(problem: BaseException) -> str:
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
