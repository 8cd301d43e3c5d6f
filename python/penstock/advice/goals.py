"""What advice is after: summary keys to push, with weights, and limits to keep.

    goodput_bps            push it the way that is better
    queue_mean_packets:2   with twice the weight
    fct_p99_s<5ms          keep it below; > for above

Several aims are weighed as a geometric mean of ratios: a weight of 2 values a factor in one key as much as
its square in another. So no unit and no scale enters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock import _engine, scenario, stats

_HIGHER = ("goodput_bps", "utilisation", "jain", "deadlines_met")
_LOWER = (
    *("fct_mean_s", "fct_p50_s", "fct_p99_s", "slowdown_p50", "slowdown_p99"),
    *("block_mean_s", "block_p50_s", "block_p99_s", "drop_rate"),
    *("queue_mean_packets", "queue_std_packets", "queue_max_packets", "queue_mean_bytes"),
)
# Counts of a run: more of them may just mean that more work was done in it.
_COUNTS = (
    *("drops", "drops_nonect", "timeouts", "retransmits", "fast_retransmits", "tail_loss_probes", "ce_marks"),
    *("blocks", "transfers", "flows_completed", "flows_opened", "packets_sent", "packet_hops"),
)
# Added before a logarithm is taken of what may be zero: about the least that matters.
_FLOORS = {"drop_rate": 1e-6, "utilisation": 1e-6, "goodput_bps": 1.0, "queue_mean_bytes": 1500.0}
_FORM = "must be KEY, KEY:WEIGHT, KEY<LIMIT or KEY>LIMIT, as in goodput_bps or fct_p99_s<5ms"
_GOAL = re.compile(r"(?P<key>\w+)\s*(?:(?P<sign><=|>=|<|>)\s*(?P<limit>.+)|:\s*(?P<weight>.+))?")
# A limit broken by one per cent outweighs a factor of e in the aims.
_PENALTY = 100.0

# The usual question of each scenario; of others, what the baseline measured decides.
_USUAL: dict[str, tuple[str, ...]] = {
    "incast": ("goodput_bps",),
    # Until the last response is there, the wait for a server's turn included.
    "query": ("block_p99_s",),
    "testbed": ("block_p99_s",),
    "mix": ("fct_p99_s",),
    "long-flows": ("queue_mean_packets", "utilisation>0.95"),
}


@dataclass(frozen=True)
class Aim:
    """A summary key to push: `sign` is +1 where more is better, -1 where less is."""

    key: str
    weight: float
    sign: int


@dataclass(frozen=True)
class Limit:
    """A summary key that has to stay below (`sign` -1) or above (+1) `value`, in the key's unit."""

    key: str
    sign: int
    value: float
    text: str


@dataclass(frozen=True)
class Goals:
    """Aims and limits. `text` is how they are given on the command line."""

    aims: tuple[Aim, ...]
    limits: tuple[Limit, ...]
    text: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The summary keys that matter, aims first."""
        return tuple(dict.fromkeys([*(aim.key for aim in self.aims), *(limit.key for limit in self.limits)]))

    def score(self, summary: Mapping[str, Any]) -> float:
        """How good a run is, as a natural logarithm: a difference of two is the log of a ratio.

        The weighted mean of the logs of the aims, less a hundred times the log by which each limit is broken,
        so that limits come first. NaN when the run did not measure one of the keys.
        """
        total = sum(aim.weight for aim in self.aims)
        found = sum(aim.weight * aim.sign * log(aim.key, summary) for aim in self.aims) / total
        for limit in self.limits:
            beyond = -limit.sign * (log(limit.key, summary) - math.log(limit.value + floor(limit.key)))
            found -= _PENALTY * (max(0.0, beyond) if math.isfinite(beyond) else beyond)
        return found

    def check(self, summary: Mapping[str, Any]) -> None:
        """Raise ScenarioError for a key that the baseline's summary does not have."""
        for text, key in zip(self.text, self._own_keys, strict=True):
            if key not in summary:
                rule = f"the scenario does not measure {key}; it measures: {', '.join(summary)}"
                raise scenario.error("goal", text, rule)

    @property
    def _own_keys(self) -> list[str]:
        return [_match(text)["key"] for text in self.text]


def parse(texts: str | Sequence[str] | None, name: str, summary: Mapping[str, Any]) -> Goals:
    """Goals as given (a text with commas, or several), or the usual ones of the scenario `name`.

    Limits alone stand beside the usual aims. Raises ScenarioError that names the goal and the rule.
    """
    given = [texts] if isinstance(texts, str) else list(texts or ())
    words = [word.strip() for text in given for word in str(text).split(",") if word.strip()]
    if texts is not None and not words:
        raise scenario.error("goal", texts or "", f"is empty; {_FORM}")
    found: list[Aim | Limit] = [_goal(word) for word in words]
    if not any(isinstance(goal, Aim) for goal in found):
        usual = [word for word in usual_goals(name, summary) if not words or not re.search("[<>]", word)]
        words = [*usual, *words]
        found = [_goal(word) for word in words]
    seen: set[tuple[str, int]] = set()
    for goal, word in zip(found, words, strict=True):
        what = (goal.key, goal.sign if isinstance(goal, Limit) else 0)
        if what in seen:
            raise scenario.error("goal", word, f"gives {goal.key} a second time")
        seen.add(what)
    aims = tuple(goal for goal in found if isinstance(goal, Aim))
    return Goals(aims, tuple(goal for goal in found if isinstance(goal, Limit)), tuple(words))


def usual_goals(name: str, summary: Mapping[str, Any]) -> tuple[str, ...]:
    """The goals of a scenario that is given none."""
    if name in _USUAL:
        return _USUAL[name]
    if math.isfinite(stats.number(summary.get("fct_p99_s"))):
        return ("fct_p99_s",)
    return ("goodput_bps",)


def log(key: str, summary: Mapping[str, Any]) -> float:
    """The natural logarithm of a summary value, with a floor where it may be zero; NaN without the value."""
    value = stats.number(summary.get(key)) + floor(key)
    return math.log(value) if value > 0 and math.isfinite(value) else math.nan


def floor(key: str) -> float:
    """What is added to a value of `key` before its logarithm is taken."""
    if key in _COUNTS or key.endswith("_packets"):
        return 1.0
    return _FLOORS.get(key, 0.0)


def _match(text: str) -> re.Match[str]:
    match = _GOAL.fullmatch(text.strip())
    if match is None:
        raise scenario.error("goal", text, _FORM)
    return match


def _goal(text: str) -> Aim | Limit:
    match = _match(text)
    key = match["key"]
    known = [entry["name"] for entry in scenario.describe()["summary_keys"]]
    if key not in known:
        rule = f"{key} is no summary key; aims are: {', '.join((*_HIGHER, *_LOWER))}"
        raise scenario.error("goal", text, f"{rule}; limits may be put on every summary key")
    if match["sign"]:
        return Limit(key, 1 if match["sign"][0] == ">" else -1, _limit(text, key, match["limit"]), text)
    if key not in (*_HIGHER, *_LOWER):
        why = (
            "counts what happens in a run, and more work makes more of it"
            if key in _COUNTS
            else ("is neither better nor worse when it is higher")
        )
        raise scenario.error("goal", text, f"{key} {why}; as a limit it works: {key}<100")
    weight = 1.0
    if match["weight"]:
        try:
            weight = float(match["weight"])
        except ValueError:
            raise scenario.error("goal", text, _FORM) from None
        if not 0 < weight < math.inf:
            raise scenario.error("goal", text, "the weight must be a number above 0")
    return Aim(key, weight, 1 if key in _HIGHER else -1)


def _limit(text: str, key: str, written: str) -> float:
    unit = next((u for end, u in _UNITS.items() if key.endswith(end)), "")
    quantity = _engine.quantity(written.strip())
    if quantity is None or quantity[1] not in ("", unit):
        rule = (
            f"the limit must be a number or a value in {unit}" if unit else "the limit must be a plain number"
        )
        raise scenario.error("goal", text, rule)
    value = quantity[0]
    if value < 0 or (value == 0 and floor(key) == 0):
        raise scenario.error("goal", text, "the limit must be above 0")
    return value


_UNITS = {"_bps": "bit/s", "_s": "s", "_packets": "packets", "_bytes": "bytes"}
