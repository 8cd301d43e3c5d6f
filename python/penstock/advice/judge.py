"""Is a difference one? Paired comparisons of runs that share their random numbers.

Run i of one setting is compared with run i of another, as the log of a ratio. The 95 % Student-t interval of
the mean over the pairs decides. A ratio within `margin` of 1 is too small to act on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock import stats
from penstock.advice.goals import Limit

BETTER, WORSE, SAME, UNDECIDED = "better", "worse", "no difference", "undecided"
MET, NOT_MET, OPEN = "met", "not met", "undecided"

Summaries = Mapping[int, Mapping[str, Any]]
"""Summaries by run number."""


@dataclass(frozen=True)
class Difference:
    """The mean log ratio of `n` pairs with the half-width of its 95 % interval, and what it comes to.

    `lost` pairs had no value on one of the two sides.
    """

    mean: float
    half: float
    n: int
    word: str
    lost: int = 0

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Mean ratio and the two ends of its interval."""
        return _exp(self.mean), _exp(self.mean - self.half), _exp(self.mean + self.half)

    @property
    def text(self) -> str:
        """The ratio for people: `24.7 (24.6 to 24.8)`."""
        if not math.isfinite(self.mean):
            return "not measured"
        mean, low, high = self.ratio
        if not math.isfinite(self.half):
            return short(mean)
        return f"{short(mean)} ({short(low)} to {short(high)})"

    def document(self) -> dict[str, Any]:
        """For JSON: `times`, its ends `low` and `high`, `n` pairs, `verdict`."""
        mean, low, high = (x if math.isfinite(x) else None for x in self.ratio)
        return {"times": mean, "low": low, "high": high, "n": self.n, "verdict": self.word}


def compare(
    of: Callable[[Mapping[str, Any]], float], base: Summaries, other: Summaries, margin: float
) -> Difference:
    """The paired difference of `of(summary)`, a logarithm, from `base` to `other`."""
    pairs = [of(other[run]) - of(base[run]) for run in sorted(base.keys() & other.keys())]
    return judge(pairs, margin)


def judge(pairs: Sequence[float], margin: float) -> Difference:
    """What the paired log ratios come to.

    - `better`, `worse`: the interval leaves out 0 and the mean is at least `margin` away from it;
    - `no difference`: the whole interval lies within `margin`;
    - `undecided`: neither, or fewer than two pairs, or pairs of which one side was not measured.
    """
    finite = [x for x in pairs if math.isfinite(x)]
    lost = len(pairs) - len(finite)
    mean, half, edge = stats.mean(finite), stats.ci95(finite), math.log1p(margin)
    word = UNDECIDED
    if math.isfinite(half) and not lost:
        if mean - half > 0 and mean >= edge:
            word = BETTER
        elif mean + half < 0 and mean <= -edge:
            word = WORSE
        elif mean - half > -edge and mean + half < edge:
            word = SAME
    return Difference(mean, half, len(finite), word, lost)


def keeps(limit: Limit, values: Sequence[float]) -> str:
    """Whether the mean of `values` keeps a limit, by its 95 % interval: `met`, `not met` or `undecided`."""
    mean, half = stats.mean(values), stats.ci95(values)
    if len(values) == 0 or not all(math.isfinite(x) for x in values) or not math.isfinite(half):
        return OPEN
    if min(limit.sign * (x - limit.value) for x in (mean - half, mean + half)) >= 0:
        return MET
    if max(limit.sign * (x - limit.value) for x in (mean - half, mean + half)) < 0:
        return NOT_MET
    return OPEN


def eligible(
    verdicts: Sequence[str], limits: Sequence[Mapping[str, str]], baseline: Mapping[str, str]
) -> list[int]:
    """The indices of the changes that may be recommended: `better`, and no limit broken; where none keeps
    them all, those that break no limit but ones that the baseline breaks too.
    """
    better = [i for i, word in enumerate(verdicts) if word == BETTER]
    broken = [{text for text, word in of.items() if word == NOT_MET} for of in limits]
    before = {text for text, word in baseline.items() if word == NOT_MET}
    return [i for i in better if not broken[i]] or [i for i in better if broken[i] <= before]


def pick(
    scores: Sequence[Mapping[int, float]], costs: Sequence[int], allowed: Sequence[int], margin: float
) -> int | None:
    """The index of the best among `allowed` by mean score; of those that the pairs cannot tell from it within
    `margin`, the one that costs least, first come first. None when none is allowed.
    """
    ranked = sorted(allowed, key=lambda i: (-stats.mean(list(scores[i].values())), costs[i], i))
    if not ranked:
        return None
    best = ranked[0]
    alike = [best]
    for i in ranked[1:]:
        runs = sorted(scores[i].keys() & scores[best].keys())
        if judge([scores[i][run] - scores[best][run] for run in runs], margin).word == SAME:
            alike.append(i)
    return min(alike, key=lambda i: (costs[i], ranked.index(i)))


def short(x: float) -> str:
    """A ratio with three digits."""
    if not math.isfinite(x):
        return "-"
    if x >= 1000:
        return f"{x:,.0f}"
    return f"{x:.3g}" if abs(x - 1) > 0.1 or x == 1 else f"{x:.3f}"


def _exp(x: float) -> float:
    # Beyond this a ratio is no number one would act on, and exp overflows.
    return math.exp(min(x, 300.0)) if not math.isnan(x) else math.nan
