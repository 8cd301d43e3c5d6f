"""Criteria: when a number, with its interval, meets what a paper states.

A criterion has a signed distance, at least zero where the statement holds. A measured number has an interval,
so the distance has one too: wholly at or above zero is `confirmed`, wholly below `differs`, anything else
`undecided`. Criteria of several numbers take the least distance of their parts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom
from scipy.stats import norm as normal
from scipy.stats import t as student

from penstock import stats

CONFIRMED, DIFFERS, UNDECIDED = "confirmed", "differs", "undecided"

Distance = tuple[float, float]
"""Least and largest signed distance within the interval of a measurement."""

# The scale of an interval: what it is symmetric on, and the range that it cannot leave. LOG is symmetric on
# a logarithm, for ratios; the others as they are: CUT for what cannot be negative, SHARE for 0 to 1, PERCENT
# for 0 to 100. An interval by RANK is one of order statistics and stays as it is.
LINEAR, LOG, CUT, SHARE, PERCENT, RANK = "linear", "log", "cut", "share", "percent", "rank"
SCALES = (LINEAR, LOG, CUT, SHARE, PERCENT)
_TOPS = {CUT: math.inf, SHARE: 1.0, PERCENT: 100.0}


@dataclass(frozen=True)
class Estimate:
    """A measured number and the ends of its 95 % interval; the ends are the number itself where it is exact.
    `runs` is the number of replications, 0 where it is not known, `scale` that on which the interval is
    symmetric.
    """

    mean: float
    low: float
    high: float
    runs: int = field(default=0, compare=False, repr=False)
    scale: str = field(default=LINEAR, compare=False, repr=False)

    @classmethod
    def unknown(cls) -> Estimate:
        """A number above zero of which nothing is known: every criterion leaves it undecided."""
        return cls(1.0, 0.0, math.inf, scale=RANK)

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A number without uncertainty, of a model or of arithmetic."""
        return cls(float(value), float(value), float(value))

    @classmethod
    def of(cls, values: ArrayLike) -> Estimate:
        """The mean of independent replications with its Student-t interval; NaN replications are left out. A
        single run gets the interval of effects.toml.
        """
        mean, half = stats.mean(values), stats.ci95(values)
        if not math.isfinite(half):
            # Here, because effect sizes are made of criteria.
            from penstock_papers.ledger.effects import uncertainty

            half = uncertainty().one_run * abs(mean)
        runs = int(np.isfinite(np.asarray(values, dtype=float)).sum())
        return cls(mean, mean - half, mean + half, runs)

    @classmethod
    def median(cls, values: ArrayLike) -> Estimate:
        """The median of replications with the interval of its order statistics (the widest, below six), for
        what has no mean: an onset, which is inf where there was none. Raises ValueError without values.
        """
        x = np.sort(np.asarray(values, dtype=float).ravel())
        if not x.size or np.isnan(x).any():
            raise ValueError("a median needs values, none of them NaN")
        cut = max(0, int(binom.ppf(0.025, x.size, 0.5)) - 1)
        # Of an even number the lower of the two: a mean of inf and a number says nothing.
        return cls(float(x[(x.size - 1) // 2]), float(x[cut]), float(x[x.size - 1 - cut]), x.size, RANK)

    def __str__(self) -> str:
        return self.show()

    def show(self, digits: int = 3, unit: str = "") -> str:
        """The number to `digits` significant ones, with its interval where it has one."""
        text = "none" if math.isinf(self.mean) else _figure(self.mean, digits)
        if self.low < self.high:
            text += f" ({_figure(self.low, digits)} to {_figure(self.high, digits)})"
        return f"{text} {unit}".rstrip()

    def __truediv__(self, other: float) -> Estimate:
        """Divided by an exact number above zero. A ratio of estimates is `Estimate.of` the runs' ratios."""
        return replace(self, mean=self.mean / other, low=self.low / other, high=self.high / other)

    def __mul__(self, other: float) -> Estimate:
        """Times an exact number above zero."""
        return replace(self, mean=self.mean * other, low=self.low * other, high=self.high * other)

    def at_level(self, level: float) -> Estimate:
        """With an interval that is wrong in a share `level` of all cases, instead of 5 %."""
        if not self.low < self.high or not math.isfinite(self.mean):
            return self
        law = student(self.runs - 1) if self.runs > 1 else normal()
        wider = float(law.ppf(1 - level / 2) / law.ppf(0.975))
        if self.scale == LOG:
            down, up = ((end / self.mean) ** wider for end in (self.low, self.high))
            return replace(self, low=self.mean * down, high=self.mean * up)
        down, up = wider * (self.mean - self.low), wider * (self.high - self.mean)
        return replace(self, low=self.mean - down, high=self.mean + up)

    def on(self, scale: str) -> Estimate:
        """With its interval on another scale: on LOG carried over by the delta method, on others without what
        lies outside of their range. A number outside of the range keeps its interval, as does one that has a
        scale.
        """
        if self.scale not in (LINEAR, scale) or self.scale == LOG or not self.low < self.high:
            return self
        if scale == LOG and self.mean > 0:
            down, up = (self.mean - self.low) / self.mean, (self.high - self.mean) / self.mean
            ends = (self.mean * math.exp(-down), self.mean * math.exp(min(up, _LARGEST)))
            return replace(self, low=ends[0], high=ends[1], scale=LOG)
        top = _TOPS.get(CUT if scale == LOG else scale)
        if top is None or not 0 <= self.mean <= top:
            return self
        return replace(self, low=max(0.0, self.low), high=min(top, self.high))


# Of which the exponential can be represented.
_LARGEST = 700.0


def _figure(x: float, digits: int) -> str:
    if math.isinf(x):
        return "none"
    if x == 0 or not math.isfinite(x):
        return f"{x:g}"
    places = digits - 1 - math.floor(math.log10(abs(x)))
    return f"{round(x, places):,.0f}" if places <= 0 else f"{x:.{min(places, 9)}f}"


def estimate(value: Any) -> Estimate:
    """A plain number as an exact estimate, None as inf (an onset that never came). Raises ValueError for NaN
    or what is no number.
    """
    if value is None:
        return Estimate.exact(math.inf)
    if isinstance(value, bool | np.bool_):
        return Estimate.exact(float(value))
    found = value if isinstance(value, Estimate) else None
    if found is None and isinstance(value, int | float | np.number):
        found = Estimate.exact(float(value))
    if found is None or math.isnan(found.mean):
        raise ValueError(f"{value!r} is no number that can be judged")
    return found


def estimates(value: Any) -> list[Estimate]:
    """A sequence, array or mapping of numbers as estimates. Raises ValueError where one is no number, or
    where there is none.
    """
    items = value.values() if isinstance(value, Mapping) else value
    found = [estimate(item) for item in items]
    if not found:
        raise ValueError("there are no numbers to judge")
    return found


def uncertain(value: Any) -> bool:
    """Whether there is a number with an interval in what is judged."""
    if isinstance(value, Estimate):
        return value.low < value.high
    items = value.values() if isinstance(value, Mapping) else value
    return isinstance(items, Iterable) and not isinstance(items, str) and any(map(uncertain, items))


def at_level(value: Any, level: float) -> Any:
    """What is judged, with intervals that are wrong in a share `level` of all cases."""
    if isinstance(value, Estimate):
        return value.at_level(level)
    if isinstance(value, Mapping):
        return {key: at_level(item, level) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [at_level(item, level) for item in value]
    return value


def fitted(value: Any, scale: str) -> Any:
    """What is judged, or a whole measurement, with its intervals on a scale."""
    if isinstance(value, Estimate):
        return value.on(scale)
    if isinstance(value, Mapping):
        return {key: fitted(item, scale) for key, item in value.items()}
    return [fitted(item, scale) for item in value] if isinstance(value, list | tuple) else value


class Criterion(ABC):
    """When a statement holds, fixed before the run."""

    @abstractmethod
    def distance(self, value: Any) -> Distance:
        """Least and largest signed distance of the value from where the verdict changes; at least zero where
        the statement holds. Raises ValueError for a value that cannot be judged.
        """

    @property
    @abstractmethod
    def text(self) -> str:
        """The criterion in words."""

    @property
    def scale(self) -> str:
        """The scale on which intervals of what is judged are symmetric, one of `SCALES`."""
        return LINEAR

    def fit(self, value: Any) -> Any:
        """The value with its intervals on the scale of what the criterion is about."""
        return fitted(value, self.scale)

    def on(self, scale: str) -> Criterion:
        """The same criterion of numbers whose intervals are symmetric on another scale. Raises ValueError for
        a criterion that fixes its scale.
        """
        raise ValueError(f"scale = {scale!r}: {self.text!r} is on a scale of its own; leave `scale` out")

    def judge(self, value: Any) -> str:
        """`confirmed`, `differs` or `undecided`."""
        least, most = self.distance(self.fit(value))
        if least >= 0:
            return CONFIRMED
        return DIFFERS if most < 0 else UNDECIDED


@dataclass(frozen=True)
class Range(Criterion):
    """A number from `low` to `high`, ends included; `stated` is the paper's own, where it gives one.
    `measure` is the scale of the number: where none is given a bound above zero tells that it cannot be
    negative.
    """

    low: float
    high: float
    words: str
    stated: float | None = None
    measure: str = ""

    @property
    def scale(self) -> str:
        if self.measure:
            return self.measure
        ends = [end for end in (self.low, self.high) if math.isfinite(end)]
        return CUT if ends and min(ends) > 0 else LINEAR

    def on(self, scale: str) -> Criterion:
        if scale not in SCALES:
            raise ValueError(f"scale = {scale!r}: must be one of {', '.join(SCALES)}")
        return replace(self, measure=scale)

    def distance(self, value: Any) -> Distance:
        x = estimate(value)
        least = min(self._at(x.low), self._at(x.high), self._at(x.mean))
        inside = [self._at(x.low), self._at(x.high), self._at(x.mean)]
        middle = (self.low + self.high) / 2
        if math.isfinite(middle) and x.low <= middle <= x.high:
            inside.append(self._at(middle))
        return least, max(inside)

    def _at(self, x: float) -> float:
        below = math.inf if self.low == -math.inf else x - self.low
        above = math.inf if self.high == math.inf else self.high - x
        return min(below, above)

    @property
    def text(self) -> str:
        return self.words


def between(low: float, high: float) -> Criterion:
    """From `low` to `high`, ends included."""
    return Range(low, high, f"from {low:g} to {high:g}")


def at_least(least: float) -> Criterion:
    """`least` or more."""
    return Range(least, math.inf, f"at least {least:g}")


def more_than(least: float) -> Criterion:
    """More than `least`: for orders of what may be equal, as times are that a sample tells."""
    return Range(math.nextafter(least, math.inf), math.inf, f"more than {least:g}")


def at_most(most: float) -> Criterion:
    """`most` or less."""
    return Range(-math.inf, most, f"at most {most:g}")


def within(stated: float, rel: float = 0.0, *, by: float = 0.0) -> Criterion:
    """The stated number, give or take a share `rel` of it or `by`, the larger of the two."""
    room = max(abs(stated) * rel, by)
    words = f"{stated:g} within {rel:.0%}" if room > by else f"{stated:g} give or take {by:g}"
    return Range(stated - room, stated + room, words, stated)


@dataclass(frozen=True)
class NoneOf(Criterion):
    """A count that is zero in every run. Its interval plays no part: one is enough."""

    what: str = "none"

    @property
    def scale(self) -> str:
        return CUT

    def distance(self, value: Any) -> Distance:
        x = estimate(value)
        return -abs(x.mean), -abs(x.mean)

    @property
    def text(self) -> str:
        return f"{self.what} in any run"


def counts_none(criterion: Criterion) -> bool:
    """Whether a criterion asks that there is none of something in any run: then more runs can refute it, but
    not make up for what others had.
    """
    return counts_none(criterion.each) if isinstance(criterion, Every) else isinstance(criterion, NoneOf)


none = NoneOf()
"""Nothing at all: no packet lost, no timeout."""


@dataclass(frozen=True)
class Holds(Criterion):
    """A property that is there or not; where a number can be given, give the number."""

    def distance(self, value: Any) -> Distance:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{value!r} is neither true nor false")
        return (0.0, 0.0) if value else (-1.0, -1.0)

    @property
    def text(self) -> str:
        return "is so"


is_so = Holds()


@dataclass(frozen=True)
class Ordered(Criterion):
    """Numbers that rise from the first to the last, each by at least `gap`. The intervals count as
    independent; where runs are paired, measure the differences and use `every(at_least(...))`.
    """

    names: tuple[str, ...]
    gap: float = 0.0

    def distance(self, value: Any) -> Distance:
        x = estimates([value[name] for name in self.names] if isinstance(value, Mapping) else value)
        if len(x) != len(self.names):
            raise ValueError(f"{len(x)} numbers for {len(self.names)} names")
        steps = [_difference(b, a) for a, b in pairwise(x)]
        return min(s.low for s in steps) - self.gap, min(s.high for s in steps) - self.gap

    @property
    def text(self) -> str:
        more = f", each by at least {self.gap:g}" if self.gap else ""
        return f"{' <= '.join(self.names)}{more}"


def ordered(*names: str, gap: float = 0.0) -> Criterion:
    """The named numbers in rising order."""
    return Ordered(names, gap)


@dataclass(frozen=True)
class Monotone(Criterion):
    """A curve that never goes back by more than a share `slack` of its whole span (what the eye would not see
    in a printed figure), and that ends beyond where it began.
    """

    rising: bool = True
    slack: float = 0.02

    @property
    def scale(self) -> str:
        return CUT

    def distance(self, value: Any) -> Distance:
        x = estimates(value)
        if len(x) < 2:
            raise ValueError("a curve needs at least two points")
        means = np.array([e.mean for e in x])
        room = self.slack * float(np.ptp(means))
        sign = 1.0 if self.rising else -1.0
        steps = [_difference(b, a) for a, b in pairwise(x)]
        whole = _difference(x[-1], x[0])
        ends = [_turned(step, sign) for step in steps], _turned(whole, sign)
        # Equal ends are no rise.
        first = np.nextafter(0, 1)
        return (
            min(min(s[0] for s in ends[0]) + room, ends[1][0] - first),
            min(min(s[1] for s in ends[0]) + room, ends[1][1] - first),
        )

    @property
    def text(self) -> str:
        word = "rises" if self.rising else "falls"
        return f"{word}, with no step back of more than {self.slack:.0%} of its span"


def monotone(*, rising: bool = True, slack: float = 0.02) -> Criterion:
    """A curve that rises (or falls) all along."""
    return Monotone(rising, slack)


@dataclass(frozen=True)
class RatioAtLeast(Criterion):
    """A pair of numbers above zero whose first is at least `least` times the second."""

    least: float

    @property
    def scale(self) -> str:
        return CUT

    def distance(self, value: Any) -> Distance:
        a, b = estimates(value)
        if b.mean <= 0:
            raise ValueError(f"a ratio to {b.mean:g} says nothing")
        # To first order, of independent numbers.
        spread = [
            math.hypot(a.mean - a.low, self.least * (b.high - b.mean)),
            math.hypot(a.high - a.mean, self.least * (b.mean - b.low)),
        ]
        middle = a.mean - self.least * b.mean
        return (middle - spread[0]) / b.mean, (middle + spread[1]) / b.mean

    @property
    def text(self) -> str:
        return f"the first at least {self.least:g} times the second"


def ratio_at_least(least: float) -> Criterion:
    """The first of two numbers is at least `least` times the second."""
    return RatioAtLeast(least)


@dataclass(frozen=True)
class Every(Criterion):
    """Each of several numbers meets the same criterion."""

    each: Criterion

    @property
    def scale(self) -> str:
        return self.each.scale

    def on(self, scale: str) -> Criterion:
        return Every(self.each.on(scale))

    def distance(self, value: Any) -> Distance:
        items = list(value.values() if isinstance(value, Mapping) else value)
        if not items:
            raise ValueError("there are no numbers to judge")
        return _least(self.each.distance(item) for item in items)

    @property
    def text(self) -> str:
        return f"each {self.each.text}"


def every(each: Criterion) -> Criterion:
    """All of a sequence or mapping meet `each`."""
    return Every(each)


@dataclass(frozen=True)
class Together(Criterion):
    """Several numbers, the first by the first criterion and so on."""

    parts: tuple[Criterion, ...]

    def fit(self, value: Any) -> Any:
        items = list(value)
        if len(items) != len(self.parts):
            return value
        return [part.fit(item) for part, item in zip(self.parts, items, strict=True)]

    def distance(self, value: Any) -> Distance:
        items: Sequence[Any] = list(value)
        if len(items) != len(self.parts):
            raise ValueError(f"{len(items)} numbers for {len(self.parts)} criteria")
        return _least(part.distance(item) for part, item in zip(self.parts, items, strict=True))

    @property
    def text(self) -> str:
        return "; ".join(part.text for part in self.parts)


def together(*parts: Criterion) -> Criterion:
    """One criterion for each of several numbers; what can stand alone is better a claim of its own."""
    return Together(parts)


def _difference(b: Estimate, a: Estimate) -> Estimate:
    d = b.mean - a.mean
    if not math.isfinite(d):
        raise ValueError("an order of numbers of which one is none says nothing")
    down, up = math.hypot(b.mean - b.low, a.high - a.mean), math.hypot(b.high - b.mean, a.mean - a.low)
    return Estimate(d, d - down, d + up)


def _turned(x: Estimate, sign: float) -> Distance:
    return (x.low, x.high) if sign > 0 else (-x.high, -x.low)


def _least(found: Iterable[Distance]) -> Distance:
    both: NDArray[np.float64] = np.array(list(found), dtype=float)
    return float(both[:, 0].min()), float(both[:, 1].min())
