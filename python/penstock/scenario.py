"""Naming a scenario: a built-in name or a TOML file, with settings on top.

Python only carries the values to the engine. Units, ranges and contradictions are judged there, once, so that
the command line, Python and TOML files obey the same rules and give the same messages.
"""

from __future__ import annotations

import json
import numbers
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import _engine, controllers
from penstock._engine import ScenarioError

# A run's numbers take some kilobytes each: so many of them still fit a small machine's memory.
MOST_RUNS = 100_000
# A run keeps one core busy; more workers than any machine has cores are a slip of the hand.
MOST_JOBS = 1024

type_names = "a string, a number or true/false"


def spec(scenario: str | Path, settings: Mapping[str, Any], seed: int) -> str:
    """The JSON document that tells the engine what to run.

    `scenario` is the name of a built-in scenario or the path of a TOML file (anything ending in .toml, or an
    existing file). Values of `settings` are numbers or strings with units ("10Gbps", "300us", "32KB",
    "100pkt"). Raises ScenarioError for a missing file and for values that are neither.
    """
    document: dict[str, Any]
    text = str(scenario)
    path = Path(text)
    if text.endswith(".toml") or path.is_file():
        try:
            # The name is for messages: an error says in which file it is.
            document = {"toml": path.read_text(encoding="utf-8"), "name": text}
            document["base_dir"] = str(path.resolve().parent)
        except FileNotFoundError:
            raise error("scenario", text, "the file does not exist") from None
        except (OSError, UnicodeDecodeError) as problem:
            raise error("scenario", text, f"the file cannot be read ({problem})") from None
    else:
        document = {"scenario": text}
    # Controllers in Python go by name; which they are stands beside.
    settings, own = controllers.in_scenario(settings, document.get("toml", ""), path.parent)
    if own:
        document["controllers"] = own
    document["set"] = {str(key): _plain(str(key), value) for key, value in settings.items()}
    document["seed"] = whole("seed", seed, least=0)
    return json.dumps(document)


def resolve(
    scenario: str | Path, settings: Mapping[str, Any] | None = None, seed: int = 1, **more: Any
) -> dict[str, Any]:
    """The scenario with every value filled in and checked. Raises ScenarioError on the first value that
    breaks a rule.

    Settings are given as arguments or, for keys that are no Python names, in the mapping `settings`.
    """
    resolved: dict[str, Any] = json.loads(_engine.resolve(spec(scenario, merged(settings, more), seed)))
    return resolved


def describe() -> dict[str, Any]:
    """Everything the engine offers: scenarios, protocols, queues, with each parameter's unit, default, range,
    source.
    """
    catalogue: dict[str, Any] = json.loads(_engine.describe())
    return catalogue


def merged(settings: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from two places as one. Raises ScenarioError for a key that is in both."""
    first = dict(settings or {})
    for key in more:
        if key in first:
            both = f"{first[key]!r} and {more[key]!r}"
            raise error(key, both, "is given twice, in `settings` and beside it")
    return {**first, **more}


def whole(key: str, value: object, *, least: int, most: int | None = None) -> int:
    """`value` as an int of `least` to `most`. Raises ScenarioError, naming `key`, when it is not."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < least:
        raise error(key, value, f"must be a whole number, at least {least}")
    if most is not None and int(value) > most:
        raise error(key, value, f"must be at most {most}")
    return int(value)


def error(key: str, value: object, rule: str) -> ScenarioError:
    """A ScenarioError of the same form as the engine's: one line with key, value and rule."""
    shown = value if isinstance(value, int | float) else f'"{" ".join(str(value).split())}"'
    problem = ScenarioError(f"{key} = {shown}: {rule}")
    problem.key, problem.value, problem.rule = key, str(value), rule
    return problem


def _plain(key: str, value: object) -> str | int | float | bool:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise error(key, repr(value), f"must be {type_names}")
