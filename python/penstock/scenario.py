"""Naming a scenario: a built-in name, a TOML file or a network, with settings on top.

Python only carries the values to the engine. Units, ranges and contradictions are judged there, once, so that
the command line, Python and TOML files obey the same rules and give the same messages.
"""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import _engine, controllers
from penstock.errors import ScenarioError

if TYPE_CHECKING:
    from penstock.network import Network

    #: A built-in name, the path of a TOML file, a network, or a dict with the keys of a scenario file.
    Scenario: TypeAlias = str | Path | Network | Mapping[str, Any]

# A run's numbers take some kilobytes each: so many of them still fit a small machine's memory.
MOST_RUNS = 100_000
# A run keeps one core busy; more workers than any machine has cores are a slip of the hand.
MOST_JOBS = 1024

#: What one value of a link or workload is called in settings and messages: `workload[1].load`, from 1.
TABLE_KEY = re.compile(r"(link|workload)\[(\d+)\]\.(\w+)")

type_names = "a string, a number or true/false"


def spec(scenario: Scenario, settings: Mapping[str, Any], seed: int, approximate: str | None = None) -> str:
    """The JSON document that tells the engine what to run.

    `scenario` is the name of a built-in scenario, the path of a TOML file (anything ending in .toml, or an
    existing file), a `penstock.Network`, or a dict with the keys of such a file. Values of `settings` are
    numbers or strings with units ("10Gbps", "300us", "32KB", "100pkt"). `approximate` asks for an
    approximation instead of a run ("links", docs/background/approximate.md). Raises ScenarioError for a
    missing file and for values that are neither.
    """
    document: dict[str, Any]
    what, rest = taken(scenario, settings)
    if isinstance(what, str | Path):
        text = str(what)
        if _is_file(text):
            # The name is for messages: an error says in which file it is.
            document = {"toml": read(what), "name": text, "base_dir": str(Path(text).resolve().parent)}
        else:
            document = {"scenario": text}
    else:
        document, rest = what.spec(rest)
    # Controllers in Python go by name; which they are stands beside.
    rest, own = controllers.in_scenario(rest, document)
    if own:
        document["controllers"] = own
    document["set"] = {str(key): plain(str(key), value) for key, value in rest.items()}
    document["seed"] = whole("seed", seed, least=0)
    if approximate is not None:
        document["approximate"] = approximate
    return json.dumps(document)


def taken(scenario: Scenario, settings: Mapping[str, Any]) -> tuple[str | Path | Network, dict[str, Any]]:
    """A scenario as it is named or as a `Network`, which has the `workloads` of the settings; and the other
    settings. Raises ScenarioError for workloads of a scenario that has its own, and for what is no scenario.
    """
    given = dict(settings)
    if isinstance(scenario, str | Path):
        # Plain keys the engine puts on top of a file by itself, its tables it does not.
        inside = [key for key in given if key == "workloads" or TABLE_KEY.fullmatch(key)]
        if not inside and not _names_code(scenario):
            return scenario, given
        if str(scenario) != "custom" and not _is_file(scenario):
            rule = "a scenario by name has no such key: it is of a penstock.Network or a file with tables"
            raise error(inside[0], given[inside[0]], rule)
    from penstock.network import Network

    if isinstance(scenario, str | Path):
        net = Network.from_toml(scenario) if _is_file(scenario) else Network(name="custom")
        return net.taking(given)
    if isinstance(scenario, Mapping):
        return Network.from_dict(scenario).taking(given)
    if not isinstance(scenario, Network):
        raise error(
            "scenario", repr(scenario), "must be a name, the path of a TOML file, a Network or a dict"
        )
    return scenario.taking(given)


def _names_code(scenario: str | Path) -> bool:
    """Whether a table of a scenario file names a class in Python, which only a `Network` replaces."""
    if not _is_file(scenario) or ".py:" not in (text := read(scenario)):
        return False
    from penstock import network_file

    document = network_file.read(text, str(scenario))
    tables = [
        table for key in network_file.TABLES for table in document.get(key, ()) if isinstance(table, Mapping)
    ]
    return any(".py:" in str(table.get(key, "")) for table in tables for key in ("protocol", "queue"))


def file_name(scenario: str | Path | Network) -> str:
    """What a command names a scenario: of a network the file that `Network.save` would write."""
    text = str(scenario)
    return text if isinstance(scenario, str | Path) or text.endswith(".toml") else f"{text}.toml"


def _is_file(scenario: str | Path) -> bool:
    return str(scenario).endswith(".toml") or Path(scenario).is_file()


def read(path: str | Path) -> str:
    """The text of a scenario file. Raises ScenarioError when it is missing or cannot be read."""
    try:
        # Editors on Windows put a byte-order mark in front.
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise error("scenario", path, "the file does not exist") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise error("scenario", path, f"the file cannot be read ({problem})") from None


def check(spec: str, resolve: Callable[[str], str] = _engine.resolve) -> str:
    """What the engine makes of a document of `spec`. Raises ScenarioError, in words of its objects."""
    try:
        return resolve(spec)
    except ScenarioError as problem:
        document = json.loads(spec)
        if "toml" not in document or document.get("name"):
            raise
        from penstock import network_file

        raise network_file.named(problem, document) from None


def resolve(
    scenario: Scenario,
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    approximate: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The scenario with every value filled in and checked. Raises ScenarioError on the first value that
    breaks a rule.

    Settings are given as arguments or, for keys that are no Python names, in the mapping `settings`.
    """
    resolved: dict[str, Any] = json.loads(check(spec(scenario, merged(settings, more), seed, approximate)))
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


def plain(key: str, value: object) -> str | int | float | bool:
    """A value as JSON and TOML have it. Raises ScenarioError for what is no text, number or true or false."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise error(key, repr(value), f"must be {type_names}")
