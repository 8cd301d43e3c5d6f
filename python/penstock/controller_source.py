"""The source of a class that the engine calls: read, checked before anything runs, and rewritten for the
compiler.

Everything found here has a file and a line. What a check refuses would either fail in the middle of a run, or
mean one thing to the interpreter and another to the compiler.
"""

from __future__ import annotations

import ast
import copy
import difflib
import hashlib
import linecache
import math
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, cast

from penstock import _engine
from penstock.errors import ScenarioError

RECORDS: dict[str, Any] = _engine.controller_records()


@dataclass(frozen=True)
class Role:
    """What a class can be to the engine."""

    name: str
    """As its decorator is called: `penstock.queue`."""
    hooks: Mapping[str, tuple[str, ...]]
    """Methods that the engine calls, in the order of its numbers for them (crates/py/src): the record of
    each argument after `self`."""
    records: tuple[str, ...]
    """The records, in the order of the engine's."""
    required: tuple[str, ...]
    """Methods that must be there."""
    answers: Mapping[str, str]
    """What methods return: a "verdict", a "count", a "flag"."""
    asked: str = ""
    """The method that is asked after every call."""
    reserved: Mapping[str, str] = field(default_factory=dict)
    """Fields that the engine reads, and their types."""

    @property
    def methods(self) -> dict[str, tuple[str, ...]]:
        """All methods that the engine calls."""
        return {**self.hooks, **({self.asked: ()} if self.asked else {})}


ROLES = {
    role.name: role
    for role in (
        Role(
            "controller",
            {
                "on_start": ("config",),
                "on_ack": ("ack", "flow"),
                "on_congestion": ("event", "flow"),
                "on_timer": ("event", "flow"),
                "on_transfer": ("event", "flow"),
                "on_send": ("headed", "flow"),
            },
            ("ack", "event", "flow", "config", "headed"),
            ("on_ack", "on_congestion", "control"),
            {},
            "control",
            {"timer_s": "float"},
        ),
        Role(
            "queue",
            {"on_arrival": ("packet", "port"), "on_departure": ("waited", "port")},
            ("packet", "waited", "port"),
            (),
            {"on_arrival": "verdict", "on_departure": "verdict"},
        ),
        Role(
            "router",
            {
                "on_start": ("link",),
                "on_arrival": ("headed", "line"),
                "on_drop": ("headed", "line"),
                "on_departure": ("headed", "line"),
                "on_timer": ("line",),
            },
            ("headed", "line", "link"),
            (),
            {},
            reserved={"timer_s": "float"},
        ),
        Role(
            "receiver",
            {
                "on_start": ("receiving",),
                "before_data": ("segment",),
                "on_data": ("segment", "heard"),
                "on_ack_sent": (),
                "on_timer": ("event",),
            },
            ("segment", "heard", "event", "receiving"),
            ("on_data",),
            {"before_data": "flag", "on_data": "count", "on_timer": "count"},
            reserved={"timer_s": "float", "ece": "bool", "window": "int"},
        ),
    )
}
#: Fields that are dictionaries, and the kind of their values.
TABLES = {f"dict[int, {kind}]": kind for kind in ("float", "int", "bool")}
# How the argument of a record is called, where it is not called as the record.
_ARGUMENTS = {"headed": "packet", "line": "port", "receiving": "config"}
# Results depend on the scenario, its seed and the run's number, and on nothing else.
_NOT_REPEATABLE = ("random", "time", "secrets", "datetime", "uuid", "numpy.random")


@dataclass(frozen=True)
class Source:
    """Where a controller's class stands."""

    file: str
    code_file: str
    """The file as the interpreter names it."""
    text: str
    tree: ast.ClassDef
    scope: Mapping[str, Any]
    """The globals of its module."""
    role: Role

    @property
    def sha256(self) -> str:
        """Hash of the whole file."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def mistake(self, line: int, rule: str) -> ScenarioError:
        """An error at a line of the file."""
        return mistake(self.file, line, self.tree.name, rule)

    @property
    def methods(self) -> dict[str, ast.FunctionDef]:
        """The class's methods by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}


def mistake(file: str, line: int, name: str, rule: str) -> ScenarioError:
    """A ScenarioError of the form `laws.py:12: MyLaw: rule`."""
    problem = ScenarioError(f"{shown(file)}:{line}: {name}: {rule}")
    problem.key, problem.value, problem.rule = "protocol", name, rule
    return problem


def shown(file: str) -> str:
    """A file as it is named in messages: from here where it lies below, else in full."""
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return file if relative.startswith("..") else relative


def read(cls: type, role: Role) -> Source:
    """The source of a class in a role. Raises ScenarioError when there is none."""
    functions = [item for item in vars(cls).values() if isinstance(item, types.FunctionType)]
    if not functions:
        file = str(getattr(sys.modules.get(cls.__module__), "__file__", cls.__module__))
        lines = enumerate(linecache.getlines(file), 1)
        line = next((i for i, text in lines if text.lstrip().startswith(f"class {cls.__name__}")), 1)
        needs = ", ".join(role.required) or " or ".join(role.methods)
        raise mistake(file, line, cls.__name__, f"has no methods; it needs {needs}")
    code = functions[0].__code__
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            last = node.end_lineno or node.lineno
            if node.lineno <= code.co_firstlineno <= last:
                file = code.co_filename
                if Path(file).exists():
                    file = str(Path(file).resolve())
                return Source(file, code.co_filename, text, node, functions[0].__globals__, role)
    rule = "its source cannot be found: define it in a file or a notebook cell"
    raise mistake(code.co_filename, code.co_firstlineno, cls.__name__, rule)


def check(source: Source, fields: Mapping[str, str], parameters: Mapping[str, Any]) -> None:
    """Raise ScenarioError on the first thing in the class that cannot work: `fields` are the kinds of all
    fields by name, `parameters` those that may only be read.
    """
    tree, methods, role = source.tree, source.methods, source.role
    if tree.bases or tree.keywords:
        raise source.mistake(
            tree.lineno, f"a {role.name} has no base class; put what it shares into functions"
        )
    for name in role.required:
        if name not in methods:
            rule = f"has no method {name}; it needs {', '.join(role.required)}"
            near = difflib.get_close_matches(name, methods, 1)
            if near:
                raise source.mistake(methods[near[0]].lineno, f"{rule}; is {near[0]} meant to be it?")
            raise source.mistake(tree.lineno, rule)
    for name, kind in role.reserved.items():
        if fields.get(name, kind) != kind:
            raise source.mistake(
                tree.lineno, f"the field {name} of a {role.name} is a {kind}: {name}: {kind} = ..."
            )
    if "timer_s" in fields and "timer_s" in role.reserved and "on_timer" not in methods:
        raise source.mistake(tree.lineno, "has a field timer_s but no method on_timer")
    if "on_timer" in methods and fields.get("timer_s") != "float":
        rule = "on_timer needs the field that says when: timer_s: float = math.inf"
        raise source.mistake(methods["on_timer"].lineno, rule)
    for name, method in methods.items():
        _check_signature(source, name, method)
        _check_body(source, name, method, fields, parameters)
    if not any(name in methods for name in role.hooks):
        raise source.mistake(tree.lineno, f"has no method that is called: {' or '.join(role.hooks)}")


def _check_signature(source: Source, name: str, method: ast.FunctionDef) -> None:
    if method.decorator_list:
        raise source.mistake(method.lineno, f"{name}: methods of a {source.role.name} have no decorators")
    if name.startswith("__"):
        rule = f"{name} is not called; fields have defaults, and on_start(self, config) sets the first window"
        raise source.mistake(method.lineno, rule)
    given = method.args
    plain = not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults)
    if not plain or not given.args:
        raise source.mistake(method.lineno, f"{name} takes self and plain arguments, without defaults")
    hooks = source.role.methods
    if name in hooks:
        wanted = ("self", *(_ARGUMENTS.get(record, record) for record in hooks[name]))
        if len(given.args) != len(wanted):
            raise source.mistake(method.lineno, f"{name} takes ({', '.join(wanted)})")
    elif name.startswith("on_"):
        near = difflib.get_close_matches(name, hooks, 1)
        meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(hooks)}"
        raise source.mistake(method.lineno, f"nothing calls {name}{meant}")


def _check_body(
    source: Source,
    name: str,
    method: ast.FunctionDef,
    fields: Mapping[str, str],
    parameters: Mapping[str, Any],
) -> None:
    arguments = [argument.arg for argument in method.args.args]
    me = arguments[0]
    tables = {field for field, kind in fields.items() if kind in TABLES}
    check_tables(
        source,
        method,
        lambda node: node.attr if _of(node, me) in tables and isinstance(node, ast.Attribute) else "",
    )
    records = dict(zip(arguments[1:], source.role.methods.get(name, ()), strict=False))
    constants = numbers(source)
    for node in ast.walk(method):
        if isinstance(node, ast.Name):
            _check_repeatable(source, node, node.id)
        if not isinstance(node, ast.Attribute):
            continue
        _check_repeatable(source, node, ast.unparse(node))
        if not isinstance(node.value, ast.Name):
            continue
        stored = not isinstance(node.ctx, ast.Load)
        if node.value.id == me:
            if node.attr in parameters and stored:
                rule = f"{node.attr} is a parameter, which does not change; keep a field beside it"
                raise source.mistake(node.lineno, rule)
            if node.attr in fields or (
                not stored and (node.attr in source.methods or node.attr in constants)
            ):
                continue
            known = [*fields, *source.methods, *constants]
            near = difflib.get_close_matches(node.attr, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"add {node.attr}: float = 0.0 to the class"
            raise source.mistake(node.lineno, f"{me}.{node.attr} is not declared; {meant}")
        if node.value.id in records:
            rows = RECORDS[records[node.value.id]]
            known = [field.removeprefix("_") for field, *_ in rows if field != "_drawn"]
            if node.attr not in known:
                near = difflib.get_close_matches(node.attr, known, 1)
                meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise source.mistake(node.lineno, f"{node.value.id}.{node.attr} does not exist; {meant}")
            if stored and not any(field == node.attr and writable for field, _, _, writable in rows):
                raise source.mistake(node.lineno, f"{node.value.id}.{node.attr} can only be read")


def _of(node: ast.AST, me: str) -> str:
    """The field that `self.field` is; "" for anything else."""
    mine = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == me
    return node.attr if mine and isinstance(node, ast.Attribute) else ""


def check_tables(source: Source, method: ast.FunctionDef, named: Callable[[ast.AST], str]) -> None:
    """Raise ScenarioError where a method does with a dictionary what the compiler cannot: `named` says which
    one a node is.
    """
    allowed: set[int] = set()
    for node in ast.walk(method):
        if isinstance(node, ast.Subscript):
            allowed.add(id(node.value))
        elif (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], ast.In | ast.NotIn)
        ):
            allowed.add(id(node.comparators[0]))
        elif isinstance(node, ast.Call) and not node.keywords:
            f, n = node.func, len(node.args)
            if isinstance(f, ast.Name) and f.id == "len" and n == 1:
                allowed.add(id(node.args[0]))
            elif isinstance(f, ast.Attribute):
                if (f.attr, n) in (("get", 2), ("pop", 1), ("pop", 2), ("clear", 0)):
                    allowed.add(id(f.value))
                elif f.attr == "get" and n == 1 and named(f.value):
                    rule = f"{named(f.value)}.get(k) may be None: {named(f.value)}.get(k, 0)"
                    raise source.mistake(node.lineno, rule)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if isinstance(node.value, ast.Dict) and not node.value.keys:
                # A new one of the method's own.
                allowed.update(id(target) for target in targets if isinstance(target, ast.Name))
            if len(targets) != 1 or isinstance(targets[0], ast.Tuple | ast.List):
                for target in targets:
                    for part in ast.walk(target):
                        if isinstance(part, ast.Subscript) and named(part.value):
                            rule = f"{named(part.value)}[k] is assigned one at a time"
                            raise source.mistake(node.lineno, rule)
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute | ast.Name) and named(node) and id(node) not in allowed:
            q = named(node)
            does = f"{q}[k], {q}.get(k, d), {q}.pop(k, d), del {q}[k], {q}.clear(), k in {q} and len({q})"
            rule = f"what the compiler knows of a dict is {does}"
            raise source.mistake(node.lineno, rule)


def local_tables(source: Source) -> dict[tuple[str, str], str]:
    """Dictionaries that methods make for themselves, as `q = {}` or `q: dict[int, float] = {}`, by method and
    name: their type as it is written, or "".
    """
    found: dict[tuple[str, str], str] = {}
    for name, method in source.methods.items():
        for node in ast.walk(method):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if not isinstance(value, ast.Dict) or value.keys:
                continue
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[name, node.target.id] = ast.unparse(node.annotation)
            elif isinstance(node, ast.Assign) and all(
                isinstance(target, ast.Name) for target in node.targets
            ):
                for target in node.targets:
                    found.setdefault((name, cast("ast.Name", target).id), "")
    return found


def local_field(method: str, name: str) -> str:
    """The field in which compiled code keeps a dictionary of a method's own."""
    return f"_{method}_{name}"


def _check_repeatable(source: Source, node: ast.expr, text: str) -> None:
    found: Any = None
    for i, part in enumerate(text.split(".")):
        found = source.scope.get(part) if i == 0 else getattr(found, part, None)
    home = found.__name__ if isinstance(found, types.ModuleType) else getattr(found, "__module__", None)
    if isinstance(found, types.ModuleType | types.BuiltinFunctionType | types.MethodType) and home in (
        _NOT_REPEATABLE
    ):
        rule = f"{text} is not the same in every run: a {source.role.name} depends on what it is told alone"
        raise source.mistake(node.lineno, rule)


def numbers(source: Source) -> dict[str, float | int | bool]:
    """Constants of the class: names without annotation that are set to a number."""
    found: dict[str, float | int | bool] = {}
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            value = eval(compile(ast.Expression(node.value), source.file, "eval"), dict(source.scope), found)
            if not isinstance(value, bool | int | float):
                raise source.mistake(
                    node.lineno, f"{name} must be a number, or have a type: {name}: float = ..."
                )
            found[name] = value
    return found


def reads(source: Source, record: str, field: str) -> bool:
    """Whether a method of the engine's reads a field of a record."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == field
        and isinstance(node.value, ast.Name)
        and node.value.id in arguments
        for method, arguments in _records(source, record)
        for node in ast.walk(method)
    )


def fields_read(source: Source, record: str) -> int:
    """The fields of a record that methods read, a bit each in its order; all where one passes it on."""
    rows = [name.removeprefix("_") for name, *_ in RECORDS[record]]
    found = 0
    for method, arguments in _records(source, record):
        attributes = [
            node
            for node in ast.walk(method)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        ]
        own = {id(node.value) for node in attributes}
        for node in ast.walk(method):
            if isinstance(node, ast.Name) and node.id in arguments and id(node) not in own:
                return 2 ** len(rows) - 1
        for node in attributes:
            if isinstance(node.value, ast.Name) and node.value.id in arguments and node.attr in rows:
                found |= 1 << rows.index(node.attr)
    return found


def names(source: Source, attribute: str) -> bool:
    """Whether a method names `Verdict.MARK`, say."""
    return any(isinstance(node, ast.Attribute) and node.attr == attribute for node in ast.walk(source.tree))


def _records(source: Source, record: str) -> Iterator[tuple[ast.FunctionDef, set[str]]]:
    for name, method in source.methods.items():
        names = [argument.arg for argument in method.args.args][1:]
        yield (
            method,
            {
                given
                for given, kind in zip(names, source.role.methods.get(name, ()), strict=False)
                if kind == record
            },
        )


def functions(source: Source, fields: Mapping[str, str]) -> ast.Module:
    """The methods as functions of the state, for the compiler: `Law_on_ack(self, ack, flow)`. Their lines are
    those of the file. `fields` has the dictionaries of methods too (`local_field`).
    """
    body: list[ast.stmt] = []
    for name, method in source.methods.items():
        new = copy.deepcopy(method)
        new.name = f"{source.tree.name}_{name}"
        new.returns = None
        for argument in new.args.args:
            argument.annotation = None
        body.append(_Rewritten(source, method, fields).visit(new))
    return ast.fix_missing_locations(ast.Module(body, []))


def methods(source: Source) -> dict[str, Any]:
    """The methods for the interpreter: those of the file with enumerations as the numbers they are, for
    which the interpreter would take most of an ACK's time.
    """
    body: list[ast.stmt] = [
        _Folded(source).visit(copy.deepcopy(method)) for method in source.methods.values()
    ]
    found: dict[str, Any] = {}
    tree = ast.fix_missing_locations(ast.Module(body, []))
    exec(compile(tree, source.code_file, "exec"), cast("dict[str, Any]", source.scope), found)
    return found


class _Folded(ast.NodeTransformer):
    """`Event.LOSS` as its number."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        found: Any = self.source.scope
        for i, part in enumerate(ast.unparse(node).split(".")):
            found = found.get(part) if i == 0 else getattr(found, part, None)
            if found is None:
                break
        if isinstance(found, IntEnum):
            return ast.copy_location(ast.Constant(int(found)), node)
        return self.generic_visit(node)


class _Rewritten(_Folded):
    """Where the compiler would do without a word what the interpreter refuses, both now do the same."""

    def __init__(self, source: Source, method: ast.FunctionDef, fields: Mapping[str, str]) -> None:
        super().__init__(source)
        self.me, self.fields = method.args.args[0].arg, fields
        self.constants = numbers(source)
        self.locals = {
            name: field
            for of, name in local_tables(source)
            if of == method.name and (field := local_field(of, name)) in fields
        }
        check_tables(source, method, lambda node: self._table(node)[0])
        self.random = {
            argument.arg
            for argument, record in zip(
                method.args.args[1:], source.role.methods.get(method.name, ()), strict=False
            )
            if any(name == "_uniform" for name, *_ in RECORDS[record])
        }

    def _kind(self, node: ast.AST) -> str:
        mine = (
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.me
        )
        return self.fields.get(node.attr, "") if mine and isinstance(node, ast.Attribute) else ""

    def _table(self, node: ast.AST) -> tuple[str, str]:
        """A dictionary as it is written, and the kind of its values; "" for anything else."""
        if isinstance(node, ast.Name) and node.id in self.locals:
            return node.id, TABLES[self.fields[self.locals[node.id]]]
        kind = TABLES.get(self._kind(node), "")
        return (ast.unparse(node) if kind else "", kind)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.locals:
            mine = ast.Attribute(ast.Name(self.me, ast.Load()), self.locals[node.id], ast.Load())
            return ast.copy_location(mine, node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        kind = self._table(node.value)[1]
        self.generic_visit(node)
        if kind and isinstance(node.ctx, ast.Load):
            return ast.copy_location(_call(f"_{kind}_item", node.value, node.slice), node)
        return node

    def visit_Delete(self, node: ast.Delete) -> ast.AST | list[ast.stmt]:
        if not any(isinstance(t, ast.Subscript) and self._table(t.value)[1] for t in node.targets):
            return self.generic_visit(node)
        steps: list[ast.stmt] = []
        for target in node.targets:
            if not isinstance(target, ast.Subscript) or not self._table(target.value)[1]:
                raise self.source.mistake(node.lineno, "del removes keys of dicts only")
            self.generic_visit(target)
            steps.append(ast.copy_location(ast.Expr(_call("_remove", target.value, target.slice)), node))
        return steps

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        kind = self._table(node.comparators[0])[1]
        self.generic_visit(node)
        if not kind:
            return node
        has: ast.expr = _call("_has", node.comparators[0], node.left)
        if isinstance(node.ops[0], ast.NotIn):
            has = ast.UnaryOp(ast.Not(), has)
        return ast.copy_location(has, node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if self._table(node.target)[1] and node.value is not None:
            return self.visit_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        folded = super().visit_Attribute(node)
        if not isinstance(folded, ast.Attribute):
            return folded
        if isinstance(node.value, ast.Name) and node.value.id == self.me and node.attr in self.constants:
            value = self.constants[node.attr]
            if isinstance(value, float) and not math.isfinite(value):
                if math.isnan(value):
                    raise self.source.mistake(node.lineno, f"{node.attr} is NaN, which is no number")
                infinity: ast.expr = ast.Name("_infinity", ast.Load())
                return ast.copy_location(infinity if value > 0 else ast.UnaryOp(ast.USub(), infinity), node)
            return ast.copy_location(ast.Constant(value), node)
        if isinstance(node.value, ast.Name) and node.value.id in self.random and node.attr == "uniform":
            return ast.copy_location(_call("_draw", node.value), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        f = node.func
        of = f.value if isinstance(f, ast.Attribute) else node.args[0] if node.args else None
        kind = self._table(of)[1] if of is not None else ""
        self.generic_visit(node)
        if kind and isinstance(f, ast.Name) and f.id == "len":
            return ast.copy_location(_call("_size", *node.args), node)
        if kind and isinstance(f, ast.Attribute):
            takes = {"get": f"_{kind}_get", "pop": f"_{kind}_pop", "clear": "_clear"}[f.attr]
            if f.attr == "pop" and len(node.args) == 1:
                takes = f"_{kind}_taken"
            return ast.copy_location(_call(takes, f.value, *node.args), node)
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name) and f.value.id == self.me:
            name = ast.Name(f"{self.source.tree.name}_{f.attr}", ast.Load())
            mine = ast.Name(self.me, ast.Load())
            return ast.copy_location(ast.Call(name, [mine, *node.args], node.keywords), node)
        if (
            isinstance(f, ast.Name)
            and f.id == "int"
            and len(node.args) == 1
            and "int" not in self.source.scope
        ):
            return ast.copy_location(_call("_whole", node.args[0]), node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Pow):
            return ast.copy_location(_call("_power", node.left, node.right), node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if self._table(target)[1]:
            if len(node.targets) != 1:
                raise self.source.mistake(node.lineno, f"{ast.unparse(target)} = {{}} alone")
            self.generic_visit(node)
            return ast.copy_location(ast.Expr(_call("_clear", node.targets[0])), node)
        kind = self._table(target.value)[1] if isinstance(target, ast.Subscript) else ""
        self.generic_visit(node)
        if kind and isinstance(target, ast.Subscript):
            return ast.copy_location(
                ast.Expr(_call(f"_{kind}_put", target.value, target.slice, node.value)), node
            )
        kinds = [kind for target in node.targets for part in ast.walk(target) if (kind := self._kind(part))]
        if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
            if any(kind != "float" for kind in kinds):
                raise self.source.mistake(node.lineno, "int and bool fields are assigned one at a time")
            return node
        return self._stored(node, kinds)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        changed = node.target
        values = self._table(changed.value)[1] if isinstance(changed, ast.Subscript) else ""
        self.generic_visit(node)
        if values and isinstance(changed, ast.Subscript):
            # The key is worked out once.
            key = ast.copy_location(ast.Assign([ast.Name("_key", ast.Store())], changed.slice), node)
            there = _call(f"_{values}_item", changed.value, ast.Name("_key", ast.Load()))
            power = isinstance(node.op, ast.Pow)
            new = _call("_power", there, node.value) if power else ast.BinOp(there, node.op, node.value)
            put = _call(f"_{values}_put", copy.deepcopy(changed.value), ast.Name("_key", ast.Load()), new)
            return [key, ast.copy_location(ast.Expr(put), node)]
        kind = self._kind(node.target)
        power = isinstance(node.op, ast.Pow)
        if not kind and not power:
            return node
        left = copy.deepcopy(node.target)
        if isinstance(left, ast.Name | ast.Attribute | ast.Subscript):
            left.ctx = ast.Load()
        value = _call("_power", left, node.value) if power else ast.BinOp(left, node.op, node.value)
        assign = ast.copy_location(ast.Assign([node.target], ast.copy_location(value, node)), node)
        return self._stored(assign, [kind])

    def _stored(self, node: ast.Assign, kinds: list[str]) -> ast.Assign:
        for kind in kinds:
            if kind in ("int", "bool"):
                node.value = ast.copy_location(_call(f"_{kind}_field", node.value), node.value)
        return node


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
