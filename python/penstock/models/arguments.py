"""Arguments of models: what is no legal number raises ValueError with
the argument's name, the rule and the value."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def numbers(name: str, value: ArrayLike) -> Floats:
    """The numbers of an argument. Raises ValueError for what is none, nan included."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: must be a number or an array of numbers, got {value!r}") from None
    if np.any(np.isnan(array)):
        raise ValueError(f"{name}: must be a number, got nan")
    return array


def probability(name: str, value: ArrayLike) -> Floats:
    """Numbers in [0, 1]. Raises ValueError with the first that is not."""
    array = numbers(name, value)
    bad = array[(array < 0) | (array > 1)]
    if bad.size:
        raise ValueError(f"{name}: must be a probability in [0, 1], got {bad.flat[0]:g}")
    return array


def positive(name: str, value: ArrayLike) -> Floats:
    """Numbers above 0, infinity included. Raises ValueError with the first that is not."""
    array = numbers(name, value)
    bad = array[array <= 0]
    if bad.size:
        raise ValueError(f"{name}: must be above 0, got {bad.flat[0]:g}")
    return array


def at_least(name: str, value: ArrayLike, low: float) -> Floats:
    """Numbers of `low` or more. Raises ValueError with the first that is not."""
    array = numbers(name, value)
    bad = array[array < low]
    if bad.size:
        raise ValueError(f"{name}: must be at least {low:g}, got {bad.flat[0]:g}")
    return array


def plain(value: ArrayLike) -> float | Floats:
    """A float for a scalar result, the array otherwise."""
    array = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
