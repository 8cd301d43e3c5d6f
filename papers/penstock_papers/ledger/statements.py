"""The statements of a paper and their checks, read from claims.toml beside the paper's rows.

A statement is a sentence of the paper: `quote`, and `where` it stands. Its checks are claims of rows: what is
measured (`value`, a path in the row's measurement, or `measure`, a function of it), the criterion, and what
the outcome rests on (`basis`). docs/contributing/add-a-paper.md describes the keys.
"""

from __future__ import annotations

import importlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from penstock_papers.ledger import conditions, criteria, words
from penstock_papers.ledger.claims import BASES, KINDS, Cause, Claim, repeated
from penstock_papers.ledger.criteria import Criterion
from penstock_papers.ledger.effects import effect
from penstock_papers.ledger.opposing import Opposing

FILE = "claims.toml"
_STATEMENT = {"id", "quote", "where", "check", "not_judged"}
_CHECK = {
    *("id", "says", "stated", "kind", "quantity", "unit", "value", "measure", "with", "criterion", "basis"),
    *("reading", "where", "shown", "shown_by", "shown_with", "shown_in", "opposing", "unopposed", "part"),
}
_NEEDED = ("id", "says", "stated", "kind", "quantity", "criterion", "basis")
# Criteria of one number or list, by their key; each takes the other keys that are named with it.
_PLAIN = {
    "at_least": criteria.at_least,
    "more_than": criteria.more_than,
    "at_most": criteria.at_most,
    "ratio_at_least": criteria.ratio_at_least,
}
_CRITERIA = (
    *_PLAIN,
    *("between", "within", "none", "is_so", "ordered", "rises", "falls", "every", "together", "effect"),
)


@dataclass(frozen=True)
class Statement:
    """One sentence of a paper. `quote` is empty where the text was not at hand; `checks` are names of its
    claims, "D-10/rise". A statement without a check says why in `not_judged`.
    """

    id: str
    quote: str
    where: str
    checks: tuple[str, ...]
    not_judged: str = ""


@dataclass(frozen=True)
class Document:
    """What a claims.toml holds: the statements, and claims and causes by row, in the order of the file."""

    statements: tuple[Statement, ...]
    rows: Mapping[str, tuple[Claim, ...]]
    causes: Mapping[str, tuple[Cause, ...]]


def load(package: str, folder: Path) -> Document:
    """The statements and claims of a paper whose Python package is `package`. Raises ValueError in one line
    that names the file, the statement or check, the key, its value and the rule.
    """
    path = folder / FILE
    try:
        return _read(path, path.stat().st_mtime_ns, package)
    except FileNotFoundError:
        return Document((), {}, {})


@lru_cache(maxsize=32)
def _read(path: Path, _changed_ns: int, package: str) -> Document:
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"{path}: {problem}") from None
    try:
        return parse(entries, package)
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None


def parse(entries: Mapping[str, Any], package: str) -> Document:
    """The statements and claims of a claims.toml. Raises ValueError as `load`, without the file's name."""
    _known("the file", entries, {"statement", "cause"})
    found: list[Statement] = []
    claims: dict[str, Claim] = {}
    again: list[tuple[str, Claim]] = []
    for entry in entries.get("statement", ()):
        name = f"statement {entry.get('id', len(found) + 1)!r}"
        _known(name, entry, _STATEMENT)
        _need(name, entry, ("id", "where"))
        if ("check" in entry) == ("not_judged" in entry):
            raise ValueError(f"{name}: check, not_judged: give one of the two, checks or why there is none")
        if any(one.id == entry["id"] for one in found):
            raise ValueError(f"{name}: id: there are two of it; give one another id")
        for check in entry.get("check", ()):
            claim, row = _claim(entry, check, package)
            full = f"{row}/{claim.id}"
            if full in claims:
                raise ValueError(f"check {full!r}: id: there are two of it; give one another id")
            claims[full] = claim
            again += [
                (where["row"], repeated(claim, row, where.get("where", claim.where)))
                for where in check.get("shown_in", ())
            ]
        checks = tuple(check["id"] for check in entry.get("check", ()))
        found.append(
            Statement(
                entry["id"], entry.get("quote", ""), entry["where"], checks, entry.get("not_judged", "")
            )
        )
    rows: dict[str, list[Claim]] = {}
    for full, claim in claims.items():
        rows.setdefault(full.partition("/")[0], []).append(claim)
    for row, claim in again:
        rows.setdefault(row, []).append(claim)
    causes: dict[str, list[Cause]] = {}
    for entry in entries.get("cause", ()):
        for row, cause in _causes(entry, rows):
            causes.setdefault(row, []).append(cause)
    return Document(tuple(found), _fixed(rows), _fixed(causes))


def _fixed(by_row: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    return {row: tuple(own) for row, own in by_row.items()}


def _causes(entry: Mapping[str, Any], rows: Mapping[str, Sequence[Claim]]) -> list[tuple[str, Cause]]:
    """A cause for each row that has claims it may explain."""
    name = f"cause {str(entry.get('text', '?'))[:40]!r}"
    _known(name, entry, {"of", "text", "holds", "evidence"})
    _need(name, entry, ("of", "text", "holds", "evidence"))
    try:
        conditions.compiled(entry["holds"])
        words.fields(entry["evidence"])
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None
    holds, evidence = partial(conditions.met, entry["holds"]), partial(words.told, entry["evidence"])
    of: dict[str, list[str]] = {}
    for full in entry["of"]:
        row, _, claim = full.partition("/")
        if all(one.id != claim for one in rows.get(row, ())):
            raise ValueError(f"{name}: of: {full!r} is no claim of this paper")
        of.setdefault(row, []).append(claim)
    return [(row, Cause(entry["text"], holds, evidence, tuple(own))) for row, own in of.items()]


def _claim(statement: Mapping[str, Any], check: Mapping[str, Any], package: str) -> tuple[Claim, str]:
    name = f"check {check.get('id', '?')!r}"
    _known(name, check, _CHECK)
    _need(name, check, _NEEDED)
    row, _, own = str(check["id"]).partition("/")
    if not own:
        raise ValueError(f"{name}: id: must be ROW/CLAIM, as K-7/equalises")
    for key, allowed in (("kind", KINDS), ("basis", BASES)):
        if check[key] not in allowed:
            raise ValueError(f"{name}: {key} = {check[key]!r}: must be one of {', '.join(allowed)}")
    if "opposing" in check and "unopposed" in check:
        raise ValueError(f"{name}: opposing, unopposed: give one of the two, or none")
    if ("value" in check) == ("measure" in check):
        raise ValueError(f"{name}: value, measure: give one of the two, a path or a function")
    if "shown" in check and "shown_by" in check:
        raise ValueError(f"{name}: shown, shown_by: give one of the two, a template or a function")
    try:
        criterion = criterion_of(check["criterion"])
        if "shown" in check:
            words.fields(check["shown"])
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None
    more: dict[str, Any] = {}
    if "shown" in check:
        more["say"] = partial(words.told, check["shown"])
    elif "shown_by" in check:
        more["say"] = Named(package, check["shown_by"], tuple(check.get("shown_with", ())))
    return Claim(
        own,
        check["says"],
        check["kind"],
        check["stated"],
        _number(check, package),
        criterion,
        quote=statement.get("quote", ""),
        where=check.get("where", statement["where"]),
        why=check.get("reading", ""),
        unit=check.get("unit", ""),
        statement=statement["id"],
        quantity=check["quantity"],
        basis=check["basis"],
        opposing=_opposing(name, check.get("opposing"), package),
        unopposed=check.get("unopposed", ""),
        part=check.get("part", ""),
        **more,
    ), row


def _number(what: Mapping[str, Any], package: str) -> Any:
    """The numbers of a claim: a path of the measurement, or a function of it."""
    if "measure" in what:
        return Named(package, what["measure"], tuple(what.get("with", ())))
    value = what["value"]
    return At(tuple(value) if isinstance(value, list) else (value,))


@dataclass(frozen=True)
class At:
    """What is at a path of a measurement."""

    path: tuple[str | int, ...]

    def __call__(self, measurement: Any) -> Any:
        """What is there. Raises KeyError where nothing is."""
        return words.at(self.path, measurement)

    def __str__(self) -> str:
        return "/".join(map(str, self.path))


def _opposing(name: str, what: Mapping[str, Any] | None, package: str) -> Opposing | None:
    if what is None:
        return None
    kinds = {"swap", "value", "measure", "reversed", "rest"} & set(what)
    if len(kinds) != 1 or set(what) - kinds - {"with"}:
        raise ValueError(f"{name}: opposing: give one of swap, value, measure, reversed, rest")
    if "swap" in what:
        first, second = what["swap"]
        return Opposing(swap=(first, second))
    if "reversed" in what or "rest" in what:
        return Opposing(reversed="reversed" in what, rest="rest" in what)
    return Opposing(of=_number(what, package))


@dataclass(frozen=True)
class Named:
    """A function of a paper's package, by "module.function", or of what all papers share, "common.function";
    it is called with a measurement and `more`. It is looked up when it is needed, because its module needs
    the claims.
    """

    package: str
    name: str
    more: tuple[Any, ...] = ()

    def __str__(self) -> str:
        more = ", ".join(json.dumps(one) for one in self.more)
        return f"{self.name}({more})"

    def function(self) -> Any:
        """The function. Raises ValueError where there is none of that name."""
        module, _, own = self.name.rpartition(".")
        package = self.package.rpartition(".")[0] if module == "common" else self.package
        try:
            return getattr(importlib.import_module(f"{package}.{module}"), own)
        except (ImportError, AttributeError, ValueError):
            raise ValueError(f"{self.name!r}: {self.package} has no such function; write it there") from None

    def __call__(self, measurement: Any) -> Any:
        """What the function finds in a measurement."""
        return self.function()(measurement, *self.more)


def criterion_of(what: Mapping[str, Any]) -> Criterion:
    """The criterion of a table like { within = 32, rel = 0.1 } or { effect = "much", way = "lower" }. Raises
    ValueError naming the keys that there are.
    """
    kinds = [kind for kind in _CRITERIA if kind in what]
    if len(kinds) != 1:
        raise ValueError(f"criterion = {dict(what)}: needs one of {', '.join(_CRITERIA)}")
    kind = kinds[0]
    if "scale" in what:
        return criterion_of({key: given for key, given in what.items() if key != "scale"}).on(what["scale"])
    value, rest = what[kind], {key: given for key, given in what.items() if key != kind}
    try:
        if kind in _PLAIN:
            return _PLAIN[kind](value, **rest)
        if kind == "between":
            return criteria.between(*value, **rest)
        if kind == "within":
            return criteria.within(value, **rest)
        if kind == "none":
            return criteria.NoneOf(value, **rest)
        if kind == "is_so":
            return criteria.is_so
        if kind == "ordered":
            return criteria.ordered(*value, **rest)
        if kind in ("rises", "falls"):
            return criteria.monotone(rising=kind == "rises", slack=value, **rest)
        if kind == "every":
            return criteria.every(criterion_of(value), **rest)
        if kind == "together":
            return criteria.together(*map(criterion_of, value), **rest)
        return effect(value).criterion(**rest)
    except TypeError:
        raise ValueError(f"criterion = {dict(what)}: {kind} takes other keys or another value") from None


def _known(name: str, entry: Mapping[str, Any], keys: set[str]) -> None:
    for key in entry:
        if key not in keys:
            raise ValueError(f"{name}: {key}: is no key of it; there are {', '.join(sorted(keys))}")


def _need(name: str, entry: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in keys:
        if key not in entry or (entry[key] == "" and key != "where"):
            raise ValueError(f"{name}: {key}: is missing; every one has it")
