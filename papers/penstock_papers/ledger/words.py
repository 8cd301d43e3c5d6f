"""Measured numbers in words, by templates: "{plain/drops} drops with TCP, {cbc/drops} with CBC".

A field is a path into the measurement, keys and indices with "/" between them, `mean`, `low` and `high` of an
estimate included. "*1e-6" behind it scales the number. The format behind ":" is that of every number.

Lists and mappings take a verb behind "|". In "{late|range:.2f}" it is one of these:

- `range`, the least and the largest number,
- `each`, all of them with commas,
- `named`, each after its name; `at`, each before its key,
- `count`, how many they are,
- `over senders`, each with its place, which is a path, too.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock_papers.ledger.criteria import Estimate

Path = Sequence[str | int]
VERBS = ("range", "each", "named", "at", "count", "over")
_ENDS = ("mean", "low", "high")


def at(path: Path, measurement: Any) -> Any:
    """What is at a path of keys and indices. Raises KeyError naming the path where nothing is."""
    found = measurement
    for key in path:
        try:
            if isinstance(found, Estimate) and key in _ENDS:
                found = getattr(found, str(key))
            elif isinstance(found, int | float | np.number) and key in _ENDS:
                # An exact number is its own interval.
                continue
            elif isinstance(found, Mapping):
                # Keys of a mapping may be numbers that a template can only spell.
                found = found[key] if key in found else found[int(key)]
            else:
                found = found[int(key)]
        except (KeyError, IndexError, ValueError, TypeError):
            raise KeyError(f"the measurement has nothing at {'/'.join(map(str, path))}") from None
    return found


def _split(place: str, measurement: Any) -> list[str | int]:
    """A place of a template as a path; keys may have a "/" themselves."""
    path: list[str | int] = []
    found, rest = measurement, place.split("/")
    while rest:
        take = 1
        if isinstance(found, Mapping):
            take = next((n for n in range(len(rest), 0, -1) if "/".join(rest[:n]) in found), 1)
        path.append("/".join(rest[:take]))
        rest = rest[take:]
        found = at(path, measurement)
    return path


def found(place: str, measurement: Any) -> Any:
    """What is at a place, as a template spells it. Raises KeyError where nothing is."""
    return at(_split(place, measurement), measurement)


def told(template: str, measurement: Any) -> str:
    """A template with the numbers of a measurement. Raises KeyError for a path that it lacks, ValueError for
    a field that cannot be read.
    """
    return _Words().vformat(template, (measurement,), {})


def fields(template: str) -> list[str]:
    """The fields of a template. Raises ValueError for one that cannot be read."""
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]


class _Words(string.Formatter):
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        place, _, verb = field_name.partition("|")
        place, _, scale = place.partition("*")
        value = found(place, args[0])
        return (value, verb, float(scale or 1), args[0]), ""

    def format_field(self, value: Any, format_spec: str) -> str:
        own, verb, scale, measurement = value
        name, _, rest = verb.partition(" ")
        if name and name not in VERBS:
            raise ValueError(f"{verb!r} is no verb of a template: must be one of {', '.join(VERBS)}")

        def one(x: Any) -> str:
            return _number(x, scale, format_spec)

        items = list(own.values()) if isinstance(own, Mapping) else own
        if name == "range":
            if not len(items):
                return "nothing"
            ends = sorted(float(x.mean if isinstance(x, Estimate) else x) for x in items)
            return one(ends[0]) if ends[0] == ends[-1] else f"{one(ends[0])} to {one(ends[-1])}"
        if name == "each":
            return ", ".join(one(x) for x in items)
        if name == "named":
            return ", ".join(f"{key} {one(x)}" for key, x in own.items())
        if name == "at":
            return ", ".join(f"{one(x)} at {key}" for key, x in own.items())
        if name == "count":
            return str(len(items))
        if name == "over":
            places = found(rest, measurement)
            return ", ".join(
                f"{_number(x, scale, format_spec or '.3g')} at {place:g}"
                for x, place in zip(items, places, strict=True)
            )
        return one(own)


def _number(x: Any, scale: float, spec: str) -> str:
    if isinstance(x, Estimate):
        return format(x.mean * scale, spec) if spec else str(x * scale)
    if isinstance(x, int | float | np.number) and not isinstance(x, bool) and scale != 1:
        x = float(x) * scale
    return format(x, spec) if spec else str(x)
