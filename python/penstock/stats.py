"""Means and 95 % Student-t intervals over replications.

A replication is one run of the same scenario and seed under another run number. Its summary value is one
independent observation, so the interval of the mean follows Student's t with n - 1 degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def mean(values: ArrayLike) -> float:
    """Mean over the finite values; NaN when there is none."""
    x = _finite(values)
    return float(x.mean()) if x.size else float("nan")


def ci95(values: ArrayLike) -> float:
    """Half-width of the 95 % Student-t interval of the mean, in the unit of `values`; NaN below two finite
    values.
    """
    x = _finite(values)
    if x.size < 2:
        return float("nan")
    # Loading it takes longer than a short run, whose single value has no interval.
    from scipy.special import stdtrit

    return float(stdtrit(x.size - 1, 0.975) * x.std(ddof=1) / np.sqrt(x.size))


def over_runs(summaries: Sequence[Mapping[str, object]]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean and 95 % half-width of every numeric key of the summaries, keys in order of first appearance."""
    keys = dict.fromkeys(key for summary in summaries for key in summary)
    means: dict[str, float] = {}
    halves: dict[str, float] = {}
    for key in keys:
        values = [number(summary.get(key)) for summary in summaries]
        if any(np.isfinite(values)):
            means[key], halves[key] = mean(values), ci95(values)
    return means, halves


def number(value: object) -> float:
    """`value` as a float; NaN when it is missing or not a number."""
    if isinstance(value, bool | int | float | np.number):
        return float(value)
    return float("nan")


def _finite(values: ArrayLike | Iterable[float]) -> NDArray[np.float64]:
    x = np.asarray(values, dtype=float).ravel()
    return x[np.isfinite(x)]
