"""Effect sizes: what *much*, *significantly*, *similar* and their like have to be, for all papers.

The table is effects.toml, fixed before any figure was judged by it. A word compares two numbers by their
ratio, or bounds a share. `criterion` turns a word into the criterion of a claim, which cites the word.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock_papers.ledger.criteria import LOG, SHARE, Criterion, NoneOf, Range

FILE = Path(__file__).with_name("effects.toml")
WAYS = ("lower", "higher")
_BOUNDS = ("factor", "upto", "within", "least", "most")


@dataclass(frozen=True)
class Effect:
    """One word of size. `factor` and `upto` bound the larger over the smaller of two numbers, `within` bounds
    it either way; `least` and `most` bound a share. What does not apply is NaN. `also` are words of the same
    size, `because` says why it is that large.
    """

    word: str
    because: str
    also: tuple[str, ...] = ()
    factor: float = math.nan
    upto: float = math.nan
    within: float = math.nan
    least: float = math.nan
    most: float = math.nan

    def criterion(self, way: str = "", to: float = 1.0) -> Criterion:
        """The criterion of the word: of a ratio that is `lower` or `higher` (`way`) for words of difference,
        of a number beside `to` for words of likeness, of a share otherwise. Raises ValueError for a way that
        the word does not have.
        """
        directed = not math.isnan(self.factor)
        if directed and way not in WAYS:
            raise ValueError(f"way = {way!r}: {self.word!r} compares, so it must be lower or higher")
        if not directed and way:
            raise ValueError(f"way = {way!r}: {self.word!r} has no direction; leave `way` out")
        if directed:
            far = math.inf if math.isnan(self.upto) else self.upto
            low, high = (self.factor, far) if way == "higher" else (1 / far, 1 / self.factor)
            low = -math.inf if way == "lower" and math.isinf(far) else low
            return Range(low, high, f"{self.word} {way}: a ratio {_range(low, high)}", measure=LOG)
        if not math.isnan(self.within):
            low, high = to / self.within, to * self.within
            words = f"{self.word}: {to:g} within a factor of {self.within:g}"
            return Range(low, high, words, to, measure=LOG)
        if self.most == 0:
            return NoneOf(self.word)
        if math.isnan(self.least):
            return Range(
                -math.inf, self.most, f"{self.word}: at most {self.most:g} of the whole", measure=SHARE
            )
        words = f"{self.word}: at least {self.least:g} of the whole"
        return Range(self.least, math.inf, words, measure=SHARE)


def _range(low: float, high: float) -> str:
    if math.isinf(low):
        return f"of at most {high:.3g}"
    return f"of at least {low:.3g}" if math.isinf(high) else f"from {low:.3g} to {high:.3g}"


@dataclass(frozen=True)
class Uncertainty:
    """How measurements without an interval, and many comparisons, are treated. `one_run` is half the interval
    of a single run as a share of its result; `level` the share of wrong outcomes among the decided claims of
    a row that Benjamini and Hochberg's procedure (1995) allows.
    """

    one_run: float
    level: float


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=1)
def effects() -> dict[str, Effect]:
    """The words by name. Raises ValueError for an entry without a reason or without one kind of bound."""
    found = {}
    for word, entry in _table().items():
        if word == "uncertainty":
            continue
        kinds = [bound for bound in _BOUNDS if bound in entry and bound != "upto"]
        if len(kinds) != 1 or not str(entry.get("because", "")).strip():
            raise ValueError(f"{FILE.name}: {word}: needs one of factor, within, least, most, and `because`")
        numbers = {bound: float(entry[bound]) for bound in _BOUNDS if bound in entry}
        found[word] = Effect(word, entry["because"], tuple(entry.get("also", ())), **numbers)
    return found


@lru_cache(maxsize=1)
def uncertainty() -> Uncertainty:
    """The rules on intervals."""
    table = _table()["uncertainty"]
    return Uncertainty(float(table["one_run"]), float(table["level"]))


def effect(word: str) -> Effect:
    """A word of the table. Raises ValueError naming the words that there are."""
    if word not in effects():
        raise ValueError(f"effect = {word!r}: must be one of {', '.join(effects())}")
    return effects()[word]
