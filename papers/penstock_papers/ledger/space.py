"""The space of what a paper leaves open: choices.toml with a range for every open parameter.

An entry is `key = { value, origin, range, range_origin }`: the value that all figures use, where it comes
from, the range a reader of the paper could have chosen from, and where that comes from. A range is "A..B",
"A..B:log" (drawn evenly on a log scale) or a list. An entry without a range is stated by the paper, or is our
choice without influence on results, such as a number of replications. If its origin is "open", `no_range`
says why it is not searched.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from penstock import grid

Floats = NDArray[np.float64]
# Points of one Latin hypercube; more are several.
BLOCK = 64
_WHOLE = re.compile(r"-?\d+\.\.-?\d+(:log)?")


@dataclass(frozen=True)
class Parameter:
    """One open parameter: its name, the chosen value, and the values it might have had.

    The name is "table.key", or "table" of an entry that is a table of its own.
    """

    name: str
    value: Any
    given: Any
    origin: str
    source: grid.Range | list[Any]

    def at(self, share: float) -> Any:
        """The value at a share of the range, 0 to 1."""
        if isinstance(self.source, grid.Range):
            return self.source.rounded(share)
        return self.source[min(int(share * len(self.source)), len(self.source) - 1)]

    def others(self) -> list[Any]:
        """What it is set to when it alone is changed: other entries of a list, ends and middle of a range."""
        values = self.source if isinstance(self.source, list) else [self.at(share) for share in (0, 0.5, 1)]
        different = {str(value): value for value in values}
        different.pop(str(self.value), None)
        return list(different.values())

    def words(self, low: float, high: float) -> str:
        """The part of the range between two shares, in words."""
        if not isinstance(self.source, grid.Range):
            first, last = (min(int(share * len(self.source)), len(self.source) - 1) for share in (low, high))
            return f"{self.name} is {' or '.join(str(x) for x in self.source[first : last + 1])}"
        if low <= 0:
            return f"{self.name} <= {self._short(high)}"
        if high >= 1:
            return f"{self.name} >= {self._short(low)}"
        return f"{self.name} from {self._short(low)} to {self._short(high)}"

    def _short(self, share: float) -> str:
        assert isinstance(self.source, grid.Range)
        text = str(self.source.at(share))
        number = re.search(r"-?\d+\.?\d*(e[-+]?\d+)?", text.removeprefix(self.source.before))
        return f"{_figure(float(number[0]))}{self.source.unit}" if number else text


def _figure(x: float) -> str:
    """Three digits, without an exponent below a million."""
    rounded = float(f"{x:.3g}")
    return f"{rounded:.0f}" if 1e3 <= abs(rounded) < 1e6 else f"{rounded:g}"


class Space:
    """The open parameters of one paper, in the order of its file."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = {parameter.name: parameter for parameter in parameters}

    @classmethod
    def load(cls, path: Path) -> Space:
        """The space of a choices.toml. Raises ValueError, naming the entry, for a range without an origin and
        for what is open and has neither a range nor a reason, and ScenarioError for a range that cannot be
        read.
        """
        found: list[Parameter] = []
        for table, entries in tomllib.loads(path.read_text(encoding="utf-8")).items():
            # Either a table of entries, or one entry as a table of its own, whose name is the parameter's.
            alone = "value" in entries and not isinstance(entries["value"], Mapping)
            named = {table: entries} if alone else {f"{table}.{key}": e for key, e in entries.items()}
            for name, entry in named.items():
                if not isinstance(entry, Mapping):
                    continue
                if "range" not in entry:
                    if (
                        str(entry.get("origin", "")).startswith("open")
                        and not str(entry.get("no_range", "")).strip()
                    ):
                        raise ValueError(f"{path}: {name} is open and has neither a range nor no_range")
                    continue
                given = entry["range"]
                if not str(entry.get("range_origin", "")).strip():
                    raise ValueError(f"{path}: {name} has a range without its range_origin")
                # Whole ends of a whole number: there is no half segment.
                whole = isinstance(given, str) and isinstance(entry["value"], int) and _WHOLE.fullmatch(given)
                kind = "count" if whole else ""
                source = grid.source(name, given, kind)
                found.append(Parameter(name, entry["value"], given, entry["range_origin"], source))
        return cls(found)

    def chosen(self, names: Sequence[str]) -> dict[str, Any]:
        """The values that the figures use."""
        return {name: self[name].value for name in names}

    def __getitem__(self, name: str) -> Parameter:
        if name not in self.parameters:
            raise ValueError(f"{name} has no range in choices.toml")
        return self.parameters[name]

    def sample(self, names: Sequence[str], points: int, seed: int) -> Floats:
        """Shares of the ranges, (points, names): a Latin hypercube, of more than `BLOCK` points one after the
        other, so that a larger number begins with the points of a smaller one.

        A parameter's column depends on its name, the number of points and the seed alone. So point i is the
        same point of the whole space for every row, whatever others its claims depend on, and a new parameter
        moves no other.
        """
        columns = []
        for name in names:
            column = []
            for block, first in enumerate(range(0, points, BLOCK)):
                # The first block has the two numbers alone: it is what was sampled before there were others.
                words = [seed, zlib.crc32(name.encode()), *([block] if block else [])]
                hypercube = qmc.LatinHypercube(1, seed=np.random.default_rng(words))
                column.append(hypercube.random(min(BLOCK, points - first)))
            columns.append(np.vstack(column))
        return np.hstack(columns) if columns else np.empty((points, 0))

    def settings(self, names: Sequence[str], shares: Floats) -> list[dict[str, Any]]:
        """The values at rows of shares."""
        return [
            {name: self[name].at(float(share)) for name, share in zip(names, row, strict=True)}
            for row in shares
        ]

    def places(self, names: Sequence[str], shares: Floats) -> Floats:
        """The same shares with those of lists in the middle of their entry."""
        out = shares.copy()
        for j, name in enumerate(names):
            source = self[name].source
            if isinstance(source, list):
                out[:, j] = (np.minimum(np.floor(out[:, j] * len(source)), len(source) - 1) + 0.5) / len(
                    source
                )
        return out

    def fingerprint(self, names: Sequence[str]) -> str:
        """Hash of the ranges and chosen values of these parameters: results of others are stale."""
        what = {name: [self[name].given, self[name].value] for name in sorted(names)}
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Box:
    """A part of the space: lowest and highest share of each parameter. `precision` of its points are good,
    and `coverage` of the good points are in it.
    """

    low: Floats
    high: Floats
    precision: float
    coverage: float

    def words(self, parameters: Sequence[Parameter]) -> str:
        """The box as a rule; "" where it is the whole space."""
        parts = [
            parameter.words(float(low), float(high))
            for parameter, low, high in zip(parameters, self.low, self.high, strict=True)
            if low > 0 or high < 1
        ]
        return " and ".join(parts)


def describe(x: Floats, good: NDArray[np.bool_]) -> Box:
    """The box that describes the good ones of points `x` (points, parameters; shares) best.

    The method is peeling as in Friedman and Fisher's patient rule induction (1999; from memory). Of the
    slices at either end of each parameter, it removes the one that leaves the largest share of good points,
    until few are left. Of all boxes on the way it returns the one with the best F measure of precision and
    coverage, without bounds that do not raise it. Raises ValueError when no point is good.
    """
    if not good.any():
        raise ValueError("no point is good")
    n, d = x.shape
    low, high = np.zeros(d), np.ones(d)
    best = _box(x, good, low, high)
    inside = np.ones(n, dtype=bool)
    while inside.sum() > max(2, n // 20) and not good[inside].all():
        count = max(1, int(inside.sum()) // 16)
        options: list[tuple[tuple[float, int], int, int, float]] = []
        for j in range(d):
            values = np.sort(x[inside, j])
            # Points of one value go together: half of a list's entry is no rule.
            above, below = values[values > values[count - 1]], values[values < values[-count]]
            edges = [(0, above[0])] if above.size else []
            edges += [(1, below[-1])] if below.size else []
            for side, edge in edges:
                kept = inside & (x[:, j] >= edge if side == 0 else x[:, j] <= edge)
                options.append(((float(good[kept].mean()), int(kept.sum())), j, side, float(edge)))
        if not options:
            break
        _, j, side, edge = max(options, key=lambda option: option[0])
        (high if side else low)[j] = edge
        inside = np.all((x >= low) & (x <= high), axis=1)
        best = max(best, _box(x, good, low.copy(), high.copy()), key=_quality)
    for j in range(d):
        for end, open_end in ((best.low, 0.0), (best.high, 1.0)):
            before = end[j]
            end[j] = open_end
            wider = _box(x, good, best.low.copy(), best.high.copy())
            if _quality(wider) >= _quality(best):
                best = wider
            else:
                end[j] = before
    return best


def telling(x: Floats, good: NDArray[np.bool_]) -> list[int]:
    """The parameters by how much one cut through their range says about which points are good, best first."""

    def impurity(part: NDArray[np.bool_]) -> float:
        share = part.mean() if part.size else 0.0
        return float(part.size * share * (1 - share))

    gains = []
    for j in range(x.shape[1]):
        order = good[np.argsort(x[:, j], kind="stable")]
        cuts = [impurity(order[:i]) + impurity(order[i:]) for i in range(1, len(order))]
        gains.append(impurity(good) - min(cuts, default=impurity(good)))
    return [int(j) for j in np.argsort(gains)[::-1]]


def _box(x: Floats, good: NDArray[np.bool_], low: Floats, high: Floats) -> Box:
    inside = np.all((x >= low) & (x <= high), axis=1)
    hits = int(good[inside].sum())
    return Box(low, high, hits / max(1, int(inside.sum())), hits / int(good.sum()))


def _quality(box: Box) -> float:
    both = box.precision + box.coverage
    return 2 * box.precision * box.coverage / both if both else 0.0
