"""Other numbers in place of what a row measured: what its claims and causes make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np

from penstock_papers.ledger import Estimate, Measurement, criteria

Change = Callable[[float], float]
# So many other measurements are tried at most; nearly all come out both ways within a dozen.
TRIES = 1000


class Reading(dict[str, Any]):
    """A measurement that knows which of its entries were looked at."""

    def __init__(self, measurement: Measurement) -> None:
        super().__init__(measurement)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


def outcomes(
    judge: Callable[[Measurement], Any], measurement: Measurement, wanted: set[Any], aims: list[float]
) -> set[Any]:
    """What `judge` says of the measurement and of others in its place, until it has said all that is wanted;
    `aims` are numbers that matter to it.
    """
    rng = np.random.default_rng(1)
    seen: set[Any] = set()
    read: set[str] = set()

    def look(numbers: Mapping[str, Any]) -> None:
        reading = Reading(numbers)
        try:
            with np.errstate(all="ignore"):
                seen.add(judge(reading))
        except (ArithmeticError, LookupError, ValueError, TypeError):
            pass  # Such numbers cannot be judged.
        read.update(reading.read & measurement.keys())

    look(measurement)
    for _ in range(TRIES):
        if seen >= wanted:
            break
        together = some_change(rng, aims)
        alike, counted = rng.random() < 0.5, rng.random() < 0.1
        others = {}
        for key in sorted(read):
            if rng.random() < 0.3:
                continue
            change = together if alike else some_change(rng, aims)
            item = measurement[key]
            others[key] = shortened(item, rng) if counted else changed(item, change)
        look({**measurement, **others})
    return seen


def changed(value: Any, change: Change) -> Any:
    """A measurement, or a part of it, with every number changed and without intervals."""
    if isinstance(value, bool | np.bool_):
        return change(float(value)) > 0.5
    if isinstance(value, Estimate):
        return Estimate.exact(change(value.mean))
    if isinstance(value, int | float | np.number) or value is None:
        return change(1.0 if value is None else float(value))
    if isinstance(value, Mapping):
        return {key: changed(item, change) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return np.array([changed(item, change) for item in value])
    if isinstance(value, list | tuple):
        return [changed(item, change) for item in value]
    return value


def shortened(value: Any, rng: np.random.Generator) -> Any:
    """`value` with lists cut short, for what is counted."""
    if isinstance(value, Mapping):
        return {key: shortened(item, rng) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [shortened(item, rng) for item in value[: int(rng.integers(len(value) + 1))]]
    return value


def some_change(rng: np.random.Generator, aims: list[float]) -> Change:
    """All numbers alike, or scaled, or scattered; rising or falling from one to the next, or all but the
    first beyond it by the same.
    """
    size = float(rng.choice([10 ** rng.uniform(-3, 3), 0.0, 1.0, *aims]))
    number = count(1)
    changes: list[Change] = [
        lambda x: size,
        lambda x: size * x,
        lambda x: x * 10 ** rng.normal(0, 0.3),
        lambda x: float(rng.choice([-1, 1])) * 10 ** rng.uniform(-3, 3),
        lambda x: size * next(number),
        lambda x: size / next(number),
        lambda x: 10.0 + size * (next(number) > 1),
    ]
    return changes[int(rng.integers(len(changes)))]


def targets(criterion: criteria.Criterion) -> Iterator[float]:
    """Numbers in the middle of the ranges that a criterion names."""
    match criterion:
        case criteria.Range(low=low, high=high):
            yield (low + high) / 2 if np.isfinite(low + high) else low if np.isfinite(low) else high
        case criteria.Every(each=each):
            yield from targets(each)
        case criteria.Together(parts=parts):
            for part in parts:
                yield from targets(part)
