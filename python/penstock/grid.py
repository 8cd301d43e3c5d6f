"""The points of a study: lists of values, ranges `A..B:N`, their product, or a Latin hypercube."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import polars as pl

from penstock import _engine, scenario

Values = Any
"""What a key may be given: a value, a list of values, or a text "V1,V2" or "A..B:N"."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# What stands before a range belongs to every value: queue=threshold:k=5pkt..80pkt:6.
_RANGE = re.compile(
    rf"(?P<before>(?:.*[=:])?)(?P<low>{_NUMBER})(?P<unit>[A-Za-z]*)\.\.(?P<high>{_NUMBER})(?P<other>[A-Za-z]*)"
    r"(?::(?P<count>\d+))?(?P<log>:log)?"
)
_LIKE_A_RANGE = re.compile(r"\d[A-Za-z]*\.\.")
_FORM = "must be A..B:N or A..B:N:log, as in 5..80:6 or 100us..10ms:5:log"
# Parameters of a protocol or queue also stand between commas: `red:min=5pkt,max=15pkt` is one value.
_PARAMETER = re.compile(r"[A-Za-z_]\w*=")
# Digits of a bare sample: more carry no information, and fewer would make different samples equal.
_DIGITS = 6
_SUFFIX = {"": "", "bytes": "_bytes", "packets": "_packets", "s": "_s", "bit/s": "_bps"}


@dataclass(frozen=True)
class Range:
    """Values between two ends of one unit, which is the first end's; `before` precedes each of them."""

    before: str
    low: float
    high: float
    unit: str
    whole: bool
    log: bool
    count: int | None

    def at(self, share: float) -> Any:
        """The value at a share of the way, 0 to 1: a text where there is a unit, otherwise a number."""
        if self.log:
            x = self.low * (self.high / self.low) ** share
        else:
            x = self.low + (self.high - self.low) * share
        x = round(x) if self.whole else float(f"{x:.12g}")
        number = int(x) if x == int(x) and abs(x) < 1e15 else x
        return f"{self.before}{number}{self.unit}" if self.before or self.unit else number

    def rounded(self, share: float) -> Any:
        """As `at`, to six digits."""
        if self.whole:
            return self.at(share)
        low, high, size = self.low, self.high, _DIGITS
        x = low * (high / low) ** share if self.log else low + (high - low) * share
        x = float(f"{x:.{size}g}")
        number = int(x) if x == int(x) and abs(x) < 1e15 else x
        return f"{self.before}{number}{self.unit}" if self.before or self.unit else number


def grid(over: Mapping[str, Values], declared: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Every combination of the values, the last key fastest, in the order given.

    `declared` is what each key is by the engine's declaration. Raises ScenarioError for what is no list or
    range, a value given twice, or more points than runs are kept.
    """
    lists = {
        str(key): _listed(str(key), given, (declared or {}).get(str(key), "")) for key, given in over.items()
    }
    total = prod(len(found) for found in lists.values())
    if total > scenario.MOST_RUNS:
        raise scenario.error("over", ", ".join(lists), f"makes {total} points; at most {scenario.MOST_RUNS}")
    return [dict(zip(lists, chosen, strict=True)) for chosen in product(*lists.values())]


def latin(
    over: Mapping[str, Values], count: int, seed: int, declared: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """`count` points of a Latin hypercube (McKay, Beckman and Conover, 1979; from memory) over ranges
    `A..B` or `A..B:log`; of a list every value as often as the others. The same for the same seed.

    Raises ScenarioError as `grid` does.
    """
    from scipy.stats import qmc

    number = scenario.whole("sample", count, least=1, most=scenario.MOST_RUNS)
    sources: dict[str, Range | list[Any]] = {}
    for name, given in over.items():
        key = str(name)
        sources[key] = source(key, given, (declared or {}).get(key, ""))
    shares = qmc.LatinHypercube(len(sources), seed=np.random.default_rng(seed)).random(number)
    return [
        {
            key: source.rounded(share) if isinstance(source, Range) else source[int(share * len(source))]
            for (key, source), share in zip(sources.items(), row, strict=True)
        }
        for row in shares.tolist()
    ]


def source(key: str, given: Values, kind: str = "") -> Range | list[Any]:
    """What values of a key are drawn from: a range `A..B` or `A..B:log`, or a list. Raises ScenarioError."""
    span = _range(key, given.strip(), kind) if isinstance(given, str) else None
    if span is not None and span.count is not None:
        raise scenario.error(
            key, given, "is a range for a sample: A..B or A..B:log, without a number of values"
        )
    return span or _listed(key, given, kind)


def _listed(key: str, given: Values, kind: str) -> list[Any]:
    """The values of one key."""
    found: list[Any] = []
    if isinstance(given, str):
        for part in split(given):
            span = _range(key, part, kind)
            found += _spread(key, part, span) if span else [_number(part)]
    elif isinstance(given, Iterable):
        found = [value.item() if isinstance(value, np.generic) else value for value in given]
    else:
        found = [given]
    if not found:
        raise scenario.error(key, given, "has no values to sweep")
    seen: set[str] = set()
    for text in map(str, found):
        if text in seen:
            raise scenario.error(key, text, "is given twice in the values to sweep")
        seen.add(text)
    return found


def split(text: str) -> list[str]:
    """The values of a list with commas; `name=...` goes on with the value before it."""
    found: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        if found and _PARAMETER.match(part) and ":" in found[-1]:
            found[-1] += f",{part}"
        elif part:
            found.append(part)
    return found


def _number(text: str) -> Any:
    if _engine.quantity(text) is None or not re.fullmatch(_NUMBER, text):
        return text
    try:
        return int(text)
    except ValueError:
        return float(text)


def _range(key: str, text: str, kind: str) -> Range | None:
    match = _RANGE.fullmatch(text)
    if match is None:
        if _LIKE_A_RANGE.search(text):
            raise scenario.error(key, text, _FORM)
        return None
    unit, other = match["unit"] or match["other"], match["other"] or match["unit"]
    one, low, high = (_engine.quantity(t) for t in (f"1{unit}", match["low"] + unit, match["high"] + other))
    if one is None or low is None or high is None or low[1] != high[1]:
        raise scenario.error(key, text, f"has ends of different units, or of none that is known; {_FORM}")
    first, last = float(match["low"]), high[0] / one[0]
    if match["log"] and min(first, last) <= 0:
        raise scenario.error(key, text, "a range with :log needs two ends above zero")
    if first == last:
        raise scenario.error(key, text, "has two equal ends")
    # There is no half server, packet or byte.
    whole = (kind == "count" and not match["before"]) or one[1] == "packets" or one == (1.0, "bytes")
    count = int(match["count"]) if match["count"] else None
    return Range(match["before"], first, last, unit, whole, bool(match["log"]), count)


def _spread(key: str, text: str, span: Range) -> Sequence[Any]:
    """Evenly spaced values of a range, each once where whole numbers are too few."""
    if span.count is None or not 2 <= span.count <= scenario.MOST_RUNS:
        raise scenario.error(key, text, f"{_FORM}, N from 2 to {scenario.MOST_RUNS}")
    return list(dict.fromkeys(span.at(i / (span.count - 1)) for i in range(span.count)))


def kinds(resolved: Mapping[str, Any]) -> dict[str, str]:
    """What each key of a scenario is by the engine's declaration: count, size, duration, text, ..."""
    for entry in scenario.describe()["scenarios"]:
        if entry["name"] == resolved.get("scenario"):
            return {parameter["name"]: parameter["kind"] for parameter in entry["params"]}
    return {}


def column(key: str, texts: Sequence[str], kind: str) -> pl.Series:
    """Swept values as a column: numbers in one unit, which its name says, or texts."""
    found = [_engine.quantity(text) for text in texts]
    numbers = [quantity for quantity in found if quantity is not None]
    units = {unit for _, unit in numbers}
    if kind in ("size", "amount") and units <= {"", "bytes"}:
        units = {"bytes"}  # a bare number is one of bytes there
    if len(numbers) < len(texts) or len(units) != 1 or kind in ("choice", "bool"):
        return pl.Series(key, texts, dtype=pl.String)
    unit = units.pop()
    values = [number for number, _ in numbers]
    suffix = _SUFFIX.get(unit, "")
    name = key if suffix and key.endswith(suffix) else f"{key}{suffix}"
    if unit == "" and all(value == int(value) and abs(value) < 2**53 for value in values):
        return pl.Series(name, [int(value) for value in values], dtype=pl.Int64)
    return pl.Series(name, values, dtype=pl.Float64)
