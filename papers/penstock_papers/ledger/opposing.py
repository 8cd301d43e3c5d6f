"""Could it have failed? The numbers of an opposing measurement, under which a claim must not hold.

They come from the same runs: another controller or regime in the place of the one that the claim is about, or
the two that it compares with their places exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock_papers.ledger.criteria import (
    Criterion,
    Estimate,
    Every,
    Monotone,
    Ordered,
    Range,
    RatioAtLeast,
    Together,
)

# What is at most this is zero up to rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Opposing:
    """An opposing measurement, in one of four ways. `swap` exchanges two keys (two controllers, two regimes)
    all over the measurement. `of` gives other numbers of it. `reversed` exchanges the two that are compared:
    a difference changes its sign, a ratio inverts, and a curve or an order turns round. `rest` judges what
    is left of the whole whose share is judged.
    """

    swap: tuple[str, str] = ("", "")
    of: Callable[[Any], Any] | None = field(default=None, repr=False)
    reversed: bool = False
    rest: bool = False

    def numbers(self, value: Callable[[Any], Any], measurement: Any, criterion: Criterion) -> Any:
        """The opposing numbers. Raises KeyError where the measurement lacks them."""
        if self.of is not None:
            return self.of(measurement)
        if self.reversed:
            return turned(value(measurement), criterion)
        if self.rest:
            return rest(value(measurement))
        return value(swapped(measurement, *self.swap))


def swapped(measurement: Any, first: str, second: str) -> Any:
    """A measurement with two keys exchanged wherever a mapping has both."""
    if not isinstance(measurement, Mapping):
        return measurement
    found = {key: swapped(item, first, second) for key, item in measurement.items()}
    if first in found and second in found:
        found[first], found[second] = found[second], found[first]
    return found


def rest(value: Any) -> Any:
    """What shares, or the shares of a list or mapping, leave of a whole."""
    if isinstance(value, Mapping):
        return {name: rest(item) for name, item in value.items()}
    if isinstance(value, Sequence | np.ndarray):
        return [rest(item) for item in value]
    x = value if isinstance(value, Estimate) else Estimate.exact(float(value))
    return replace(x, mean=1 - x.mean, low=1 - x.high, high=1 - x.low)


def needless(criterion: Criterion) -> bool:
    """Whether a criterion needs no opposing measurement: it asks for a stated number, or a range with two
    ends, which every other number opposes.
    """
    if isinstance(criterion, Every):
        return needless(criterion.each)
    if isinstance(criterion, Together):
        return all(map(needless, criterion.parts))
    if not isinstance(criterion, Range):
        return False
    # Zero up to rounding is a stated number as well.
    return bool(
        np.isfinite(criterion.high) and (np.isfinite(criterion.low) or 0 < criterion.high <= ROUNDING)
    )


def turned(value: Any, criterion: Criterion) -> Any:
    """Numbers with the two that are compared exchanged. A number that must be above a bound beyond 1, below a
    bound above zero, or in a range above zero, is a ratio, which inverts; others are differences. Raises
    ValueError for a criterion that compares nothing.
    """
    if isinstance(criterion, Every):
        items = value.values() if isinstance(value, Mapping) else value
        return [turned(item, criterion.each) for item in items]
    if isinstance(criterion, Monotone | RatioAtLeast):
        return list(value)[::-1]
    if isinstance(criterion, Ordered):
        own = [value[name] for name in criterion.names] if isinstance(value, Mapping) else list(value)
        return own[::-1]
    if not isinstance(criterion, Range):
        raise ValueError(f"criterion {criterion.text!r} compares no two numbers that could change places")
    x = value if isinstance(value, Estimate) else Estimate.exact(float(value))
    two_sided = bool(np.isfinite(criterion.low) and np.isfinite(criterion.high))
    ratio = criterion.low > (0 if two_sided else 1) if np.isfinite(criterion.low) else criterion.high > 0
    if not ratio or x.mean < 0:
        return replace(x, mean=-x.mean, low=-x.high, high=-x.low)
    # Nothing over something is, turned round, something over nothing.
    low, mean, high = (1 / end if end > 0 else np.inf for end in (x.high, x.mean, x.low))
    return replace(x, mean=mean, low=low, high=high)
