"""Shell completion: scenarios, keys after `--set`, and the words a key can take.

Nothing here costs a start that does not complete: the engine is loaded inside the functions. Installed by
`penstock --install-completion`.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

_SHELL = "_PENSTOCK_COMPLETE"
# Where the shells put the words so far.
_WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")

# Keys that take the name of something from the catalogue: key -> group.
_NAMED = {"protocol": "protocols", "queue": "queues", "receive_control": "receive_controls"}


def scenarios(incomplete: str) -> list[tuple[str, str]]:
    """Built-in scenarios; files are the shell's own business."""
    return _matching(_catalogue("scenarios"), incomplete)


def names(incomplete: str) -> list[tuple[str, str]]:
    """Everything that `describe` knows by name."""
    from penstock import catalogue

    return [(name, text) for name, text in catalogue.index().items() if name.startswith(incomplete)]


def profiles(incomplete: str) -> list[tuple[str, str]]:
    """The profiles of the scenario that was given before."""
    return _matching(_chosen().get("profiles", []), incomplete)


def settings(incomplete: str) -> list[tuple[str, str]]:
    """`KEY=` of the scenario that was given before, or after the `=` the words the key can take."""
    scenario = _chosen()
    key, equals, value = incomplete.partition("=")
    if not equals:
        return [(f"{name}=", text) for name, text in _matching(scenario.get("params", []), incomplete)]
    return [(f"{key}={word}", text) for word, text in _words(scenario, key) if word.startswith(value)]


def figures(incomplete: str) -> list[tuple[str, str]]:
    """Figures of `run --plot`, the last of several between commas."""
    from penstock.runs import FIGURES

    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [
        (f"{before}{comma}{name}", figure.text)
        for name, figure in FIGURES.items()
        if name.startswith(last) and name not in given
    ]


def values_over(incomplete: str) -> list[tuple[str, str]]:
    """As `settings`, for the last of several values between commas."""
    before, comma, last = incomplete.rpartition(",")
    key, equals, _ = incomplete.partition("=")
    if not comma or not equals:
        return settings(incomplete)
    found = settings(f"{key}={last}")
    return [(f"{before},{word.partition('=')[2]}", text) for word, text in found]


def answer_bash() -> bool:
    """Complete what follows the `=` of a setting for bash, to which `=` is a word of its own; whether this
    was that.

    Anything else is left to typer, with `KEY=VALUE` put together again in the words so far.
    """
    if os.environ.get(_SHELL) != "complete_bash":
        return False
    try:
        words = shlex.split(os.environ["COMP_WORDS"])
        cursor = int(os.environ["COMP_CWORD"])
    except (KeyError, ValueError):
        return False
    words = [*words[: cursor + 1], *([""] if cursor >= len(words) else [])]
    joined: list[str] = []
    for word in words:
        if joined and (word == "=" or joined[-1].endswith("=")):
            joined[-1] += word
        else:
            joined.append(word)
    os.environ["COMP_WORDS"] = shlex.join(joined)
    os.environ["COMP_CWORD"] = str(len(joined) - 1)
    completes = {"--set": settings, "--over": values_over}.get(joined[-2] if len(joined) > 1 else "")
    if completes is None or "=" not in joined[-1]:
        return False
    # Bash replaces the part after the `=` by the answer.
    print("\n".join(word.partition("=")[2] for word, _ in completes(joined[-1])))
    return True


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


def _chosen() -> dict[str, Any]:
    """The catalogue's entry of the scenario on the command line; empty for a file.

    From the shell's own words: the parser has no arguments while an option still lacks its value.
    """
    typed = next((os.environ[name] for name in _WORDS if name in os.environ), "")
    known = {entry["name"]: entry for entry in _catalogue("scenarios")}
    return next((known[word] for word in typed.split() if word in known), {})


def _catalogue(group: str) -> list[dict[str, Any]]:
    from penstock import scenario

    found: list[dict[str, Any]] = scenario.describe().get(group, [])
    return found


def _matching(entries: list[dict[str, Any]], incomplete: str) -> list[tuple[str, str]]:
    return [(entry["name"], entry["text"]) for entry in entries if entry["name"].startswith(incomplete)]
