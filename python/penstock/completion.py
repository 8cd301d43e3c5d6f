"""Shell completion: scenarios, keys after `--set`, and the words a key can take.

Nothing here costs a start that does not complete: the engine is loaded inside the functions. Installed by
`penstock --install-completion`.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

_ENVIRONMENT = "_PENSTOCK_COMPLETE"
# Set when the shell will put the answer in the place of what follows the `=`, not of the whole word.
_AFTER_EQUALS = "_PENSTOCK_COMPLETE_AFTER_EQUALS"

# Keys that take the name of something from the catalogue: key -> group.
_NAMED = {"protocol": "protocols", "queue": "queues", "receive_control": "receive_controls"}


def scenarios(incomplete: str) -> list[tuple[str, str]]:
    """Built-in scenarios; files are the shell's own business."""
    return _matching(_catalogue("scenarios"), incomplete)


def names(incomplete: str) -> list[tuple[str, str]]:
    """Everything that `describe` knows by name."""
    from penstock import catalogue

    return [(name, text) for name, text in catalogue.index().items() if name.startswith(incomplete)]


def profiles(ctx: Any, incomplete: str) -> list[tuple[str, str]]:
    """The profiles of the scenario that was given before."""
    return _matching(_chosen(ctx).get("profiles", []), incomplete)


def settings(ctx: Any, incomplete: str) -> list[tuple[str, str]]:
    """`KEY=` of the scenario that was given before, or after the `=` the words the key can take."""
    scenario = _chosen(ctx)
    key, equals, value = incomplete.partition("=")
    if not equals:
        return [(f"{name}=", text) for name, text in _matching(scenario.get("params", []), incomplete)]
    before = "" if os.environ.get(_AFTER_EQUALS) else f"{key}="
    return [(f"{before}{word}", text) for word, text in _words(scenario, key) if word.startswith(value)]


def join_bash_words() -> None:
    """Put `KEY=VALUE` together again in the words that bash asks to complete.

    Bash takes `=` for a word of its own, and puts what it gets in the place of the part after it.
    """
    if os.environ.get(_ENVIRONMENT) != "complete_bash":
        return
    try:
        words = shlex.split(os.environ["COMP_WORDS"])
        cursor = int(os.environ["COMP_CWORD"])
    except (KeyError, ValueError):
        return
    words = [*words[: cursor + 1], *([""] if cursor >= len(words) else [])]
    joined: list[str] = []
    for word in words:
        if joined and (word == "=" or joined[-1].endswith("=")):
            joined[-1] += word
        else:
            joined.append(word)
    if "=" in joined[-1]:
        os.environ[_AFTER_EQUALS] = "yes"
    os.environ["COMP_WORDS"] = shlex.join(joined)
    os.environ["COMP_CWORD"] = str(len(joined) - 1)


def _words(scenario: dict[str, Any], key: str) -> list[tuple[str, str]]:
    if key == "profile":
        return [(entry["name"], entry["text"]) for entry in scenario.get("profiles", [])]
    if key in _NAMED:
        return [(entry["name"], entry["text"]) for entry in _catalogue(_NAMED[key])]
    for parameter in scenario.get("params", []):
        if parameter["name"] == key:
            words = parameter.get("choices") or (["true", "false"] if parameter.get("kind") == "bool" else [])
            return [(word, parameter["text"]) for word in words]
    return []


def _chosen(ctx: Any) -> dict[str, Any]:
    """The catalogue's entry of the scenario on the command line; empty for a file."""
    name = ctx.params.get("scenario")
    return next((entry for entry in _catalogue("scenarios") if entry["name"] == name), {})


def _catalogue(group: str) -> list[dict[str, Any]]:
    from penstock import scenario

    found: list[dict[str, Any]] = scenario.describe().get(group, [])
    return found


def _matching(entries: list[dict[str, Any]], incomplete: str) -> list[tuple[str, str]]:
    return [(entry["name"], entry["text"]) for entry in entries if entry["name"].startswith(incomplete)]
