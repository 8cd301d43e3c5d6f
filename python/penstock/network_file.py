"""The scenario file of a network: writing and reading its text, and errors in words of the objects."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from penstock import scenario

TABLES = ("hosts", "switches", "link", "workload")
"""What a scenario file has beside plain keys."""

# Most names that a range may stand for, as in the engine.
_MOST = 100_000
_KEY = re.compile(r"(link|workload)\[(\d+)\](?:\.(.*))?")


def text(document: Mapping[str, Any]) -> str:
    """A document as TOML: plain keys, then a `[[...]]` for each table of a list.

    TOML has three kinds of values here (texts, numbers, lists of texts), which JSON writes alike; so this
    needs no package for it.
    """
    lines, after = [], []
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            for table in value:
                after += ["", f"[[{key}]]", *(f"{_bare(k)} = {_value(v)}" for k, v in table.items())]
        else:
            lines.append(f"{_bare(key)} = {_value(value)}")
    return "\n".join([*lines, *after, ""])


def read(content: str, name: str) -> dict[str, Any]:
    """The document that a TOML text is. Raises ScenarioError for what is no TOML (with the line), and
    for an unknown table.
    """
    try:
        found = tomllib.loads(content)
    except tomllib.TOMLDecodeError as problem:
        raise scenario.error("file", name or "text", f"is not TOML: {problem}") from None
    for key, value in found.items():
        if key not in (*TABLES, "protocols") and isinstance(value, Mapping | list):
            from penstock.workloads import unknown

            raise scenario.error(key, "a table", unknown(key, TABLES, "table"))
    return found


def tables(document: dict[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The tables under a key or its plural, taken out. Raises ScenarioError for what is no list of them."""
    found = document.pop(key, None)
    more = document.pop(f"{key}s", None)
    if found is not None and more is not None:
        raise scenario.error(f"{key}s", "a list", f"is given beside {key}")
    value = found if more is None else more
    if value is None:
        return []
    if isinstance(value, list | tuple) and all(
        isinstance(table, Mapping) or hasattr(table, "document") for table in value
    ):
        return [table if isinstance(table, Mapping) else table.document() for table in value]
    raise scenario.error(key, "no list of tables", f"must be written [[{key}]], or be a list of dicts")


def move(table: dict[str, Any], rename: Callable[[str], str]) -> None:
    """Rename the files that a workload's table names: `file`, and `sizes` that are a `cdf:`."""
    if "file" in table:
        table["file"] = rename(str(table["file"]))
    kind, colon, name = str(table.get("sizes", "")).partition(":")
    if kind.strip() == "cdf" and colon:
        table["sizes"] = f"cdf:{rename(name.strip())}"


def expand(key: str, names: Any) -> list[str]:
    """The names that a text, or a list of texts, stands for: `h[0-3]` is h0, h1, h2, h3, and `h[0-9:4]`
    is h0, h4, h8. As the engine reads them; raises ScenarioError for a broken range.
    """
    if not isinstance(names, str):
        return [name for item in names for name in expand(key, item)]
    head, bracket, rest = names.partition("[")
    if not bracket:
        return [names]
    numbers, closed, tail = rest.partition("]")
    ends = re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*(?::\s*(\d+)\s*)?", numbers)
    step = int(ends[3] or 1) if ends else 0
    if not closed or ends is None or step < 1 or not 0 <= int(ends[2]) - int(ends[1]) < _MOST:
        rule = "must have a range of numbers in brackets, such as h[0-3], or h[0-1023:8] for every eighth"
        raise scenario.error(key, names, rule)
    chosen = range(int(ends[1]), int(ends[2]) + 1, step)
    return [name for i in chosen for name in expand(key, f"{head}{i}{tail}")]


def named(problem: scenario.ScenarioError, document: Mapping[str, Any]) -> scenario.ScenarioError:
    """Turn an error of the engine about a file that an object made into one that names object and argument,
    because the user has not written that file.
    """
    whole, key = str(problem), str(getattr(problem, "key", ""))
    # The place stands before the key.
    _, found, said = whole.partition(f"{key} = ")
    if not found:
        return problem
    where = _KEY.fullmatch(key)
    if where is None:
        return _like(problem, f"{key} = {said}")
    name, number, argument = where.groups()
    try:
        table = tomllib.loads(document["toml"])[name][int(number) - 1]
    except (KeyError, IndexError, tomllib.TOMLDecodeError):
        return problem
    label = f"{name}[{number}] ({_label(name, table)})"
    if argument is None:
        return _like(problem, f"{label} = {said}" if not said.startswith('""') else f"{label}: {said[4:]}")
    argument = {"from": "from_", "class": "class_"}.get(argument, argument)
    return _like(problem, f"{label}: {argument} = {said}")


def _like(problem: scenario.ScenarioError, message: str) -> scenario.ScenarioError:
    made = scenario.ScenarioError(message)
    made.key, made.value, made.rule = problem.key, problem.value, problem.rule
    return made


def _label(name: str, table: Mapping[str, Any]) -> str:
    """An object as its user knows it."""
    from penstock import workloads

    if name == "workload":
        return workloads.KINDS[str(table.get("kind", "flows"))].__name__
    a, b, line = (
        (*table["between"], "-") if "between" in table else (table.get("from"), table.get("to"), "->")
    )
    return f"{_short(a)} {line} {_short(b)}"


def _short(names: Any) -> str:
    return names if isinstance(names, str) else ", ".join(map(_short, names or ()))


def _bare(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    # What TOML's numbers cannot be is for the engine to refuse, in its own words.
    if isinstance(value, float) and not math.isfinite(value):
        return f'"{value}"'
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f'"{value}"'
    # JSON leaves DEL as it is, TOML does not take it.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
