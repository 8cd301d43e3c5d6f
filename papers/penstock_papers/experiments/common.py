"""What rows of several papers share: estimates over replications, onsets of a collapse, tables of figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from penstock.runs import RunSet
from penstock.stats import ci95
from penstock_papers.ledger import LIVE, Estimate, Lab, Measurement, Row, words

# The view of rows with kernel sockets.
VIEW = "live, scaled"
Floats = NDArray[np.float64]

# A collapse: the first number of senders, past the best one, with less than this share of the best goodput.
HALF = 0.5


def measured(sets: Iterable[RunSet], key: str) -> list[Estimate]:
    """A summary key of each point, with its interval."""
    return [Estimate.of(s.values(key)) for s in sets]


def differences(first: Sequence[RunSet], second: Sequence[RunSet], key: str) -> list[Estimate]:
    """First minus second at each point, run by run: the runs have their random numbers in common."""
    return [Estimate.of(a.values(key) - b.values(key)) for a, b in zip(first, second, strict=True)]


def ratios(first: Sequence[RunSet], second: Sequence[RunSet], key: str) -> list[Estimate]:
    """First over second at each point, run by run. The second is above zero."""
    return [Estimate.of(a.values(key) / b.values(key)) for a, b in zip(first, second, strict=True)]


def centre(estimates: Iterable[Estimate]) -> Floats:
    """The numbers of estimates."""
    return np.array([e.mean for e in estimates])


def half(estimates: Iterable[Estimate]) -> Floats:
    """Half the width of their intervals, for a band."""
    return np.array([(e.high - e.low) / 2 for e in estimates])


def means(sets: Iterable[RunSet], key: str) -> Floats:
    """Mean of a summary key of each point."""
    return np.array([s.mean(key) for s in sets])


def onset(senders: Sequence[int], goodput: ArrayLike, share: float = HALF) -> int | None:
    """The first number of senders, past the best one, with less than a share of the best goodput, or None."""
    values = np.asarray(goodput, dtype=float)
    best = int(np.argmax(values))
    fallen = np.flatnonzero(values[best:] < share * values[best])
    return int(senders[best + int(fallen[0])]) if fallen.size else None


def onsets(
    sets: Sequence[RunSet], senders: Sequence[int], share: float = HALF, key: str = "goodput_bps"
) -> Floats:
    """The onset of each replication; inf where there is none."""
    curves = np.array([s.values(key) for s in sets])
    return np.array([onset(senders, curve, share) or np.inf for curve in curves.T])


def later(first: Floats, second: Floats) -> Estimate:
    """By how many senders the second onset of each replication lies beyond the first: the median. Where
    neither came, by none.
    """
    with np.errstate(invalid="ignore"):
        steps = second - first
    return Estimate.median(np.where(np.isnan(steps), 0.0, steps))


def jackknife(function: Callable[[Sequence[int]], Mapping[str, float]], runs: int) -> dict[str, Estimate]:
    """Numbers that are computed from means over all replications, with intervals.

    `function` gets the replications to use. Each number is that of all; its interval is Student's t of the
    pseudo-values of leaving one out (Tukey 1958; from memory), the number alone where those are not finite.
    """
    everything = list(range(runs))
    whole = function(everything)
    without = [function([r for r in everything if r != left]) for left in everything] if runs > 1 else []
    found = {}
    for key, value in whole.items():
        pseudo = np.array([runs * value - (runs - 1) * part[key] for part in without])
        room = ci95(pseudo) if pseudo.size and np.isfinite(pseudo).all() else 0.0
        found[key] = Estimate(float(value), float(value - room), float(value + room))
    return found


def ratio_of_means(a: ArrayLike, b: ArrayLike) -> Estimate:
    """The mean of `a` over that of `b`, with the interval of leaving out one replication: for counts that
    some replications have none of. Nothing over nothing is one, something over nothing inf.
    """
    above, below = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if not below.sum() > 0:
        return Estimate.exact(np.inf if above.sum() > 0 else 1.0)

    def of(runs: Sequence[int]) -> dict[str, float]:
        rest = float(below[runs].mean())
        return {"": float(above[runs].mean()) / rest if rest > 0 else np.inf}

    found = jackknife(of, len(above))[""]
    return Estimate.of([found.mean]) if len(above) == 1 else found


def some(sets: Iterable[RunSet], runs: Sequence[int]) -> list[RunSet]:
    """The same points with some of their replications."""
    return [RunSet(s.name, s.seed, tuple(s.runs[r] for r in runs)) for s in sets]


def ratio(m: Measurement, first: Sequence[str | int], second: Sequence[str | int]) -> Any:
    """One number of a measurement over another, by their paths."""
    return over(words.at(first, m), words.at(second, m))


def over(a: Any, b: Any) -> Any:
    """One number over another above zero; of two estimates to first order, as if they were independent."""
    if not isinstance(b, Estimate):
        return a / b
    if not b.mean > 0:
        raise ValueError(f"a ratio to {b.mean:g} says nothing")
    x = a if isinstance(a, Estimate) else Estimate.exact(float(a))
    middle = x.mean / b.mean
    down = math.hypot((x.mean - x.low) / b.mean, middle * (b.high - b.mean) / b.mean)
    up = math.hypot((x.high - x.mean) / b.mean, middle * (b.mean - b.low) / b.mean)
    return Estimate(middle, middle - down, middle + up)


def difference(m: Measurement, first: Sequence[str | int], second: Sequence[str | int]) -> Any:
    """One number of a measurement less another, by their paths."""
    return less(words.at(first, m), words.at(second, m))


def less(a: Any, b: Any) -> Any:
    """One number less another; of two estimates as if they were independent."""
    if not isinstance(b, Estimate):
        return a - b
    x = a if isinstance(a, Estimate) else Estimate.exact(float(a))
    middle = x.mean - b.mean
    down, up = math.hypot(x.mean - x.low, b.high - b.mean), math.hypot(x.high - x.mean, b.mean - b.low)
    return Estimate(middle, middle - down, middle + up)


def with_sockets(row: Row, title: str, **more: Any) -> Row:
    """A row's live variant: its claims, unless others are given, judged with kernel sockets."""
    return Row(row.id + LIVE, title, **{"stated": row.stated, "claims": row.claims, "view": VIEW, **more})


def fall(m: Measurement, path: Sequence[str | int]) -> Any:
    """The first number of a list less its last."""
    found = words.at(path, m)
    return less(found[0], found[-1])


def each(m: Measurement, *paths: Sequence[str | int]) -> list[Any]:
    """The numbers at these paths."""
    return [words.at(path, m) for path in paths]


def picked(m: Measurement, path: Sequence[str | int], keys: Sequence[str | int]) -> Any:
    """Some of what is at a path: of a mapping a mapping, of a list a list."""
    found = words.at(path, m)
    own = [words.at([key], found) for key in keys]
    return dict(zip(keys, own, strict=True)) if isinstance(found, Mapping) else own


def count(m: Measurement, key: str) -> int:
    """How many there are."""
    return len(m[key])


def save_table(lab: Lab, name: str, columns: Mapping[str, Any]) -> Path:
    """Write the numbers behind a figure as CSV under `out`/tables."""
    path = lab.out / "tables" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(dict(columns)).write_csv(path, float_precision=6)
    return path
