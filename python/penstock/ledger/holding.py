"""Where in the space of open parameters claims hold: what a search has found, committed as data and shown.

`holds.json` beside a paper's rows. Per row: the parameters varied, their number of points, a hash of
their ranges, the engine; per claim a letter for each point (c confirmed, d differs, u undecided, x no result)
and the rule that describes where it holds. What was found with other ranges is shown as stale.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.ledger.claims import Row
from penstock.ledger.criteria import CONFIRMED
from penstock.ledger.selection import folder
from penstock.ledger.space import Space, telling

FILE = "holds.json"
# From this share of the space on a confirmed claim counts as robust, below the other as selected.
ROBUST, SELECTED = 0.9, 0.5
# Where the axes of a map have their texts, as shares of the range.
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


@lru_cache(maxsize=16)
def _document(path: Path, _changed_ns: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def document(paper: str, path: Path | None = None) -> dict[str, Any]:
    """The search results of a paper; empty where there are none."""
    file = path or folder(paper) / FILE
    try:
        return _document(file, file.stat().st_mtime_ns)
    except FileNotFoundError:
        return {"rows": {}}


@lru_cache(maxsize=16)
def space(paper: str) -> Space:
    """The space of a paper's open parameters."""
    return Space.load(folder(paper) / "choices.toml")


def words(row: Row, claim: str, found: Mapping[str, Any] | None = None) -> str:
    """Where a claim holds, in words; "" where nothing was searched."""
    entry = (document(row.paper) if found is None else found)["rows"].get(row.id)
    if entry is None or claim not in entry["claims"]:
        return ""
    what = entry["claims"][claim]
    text = _words(entry, what)
    return f"stale, the ranges have changed since: {text}" if stale(row, entry) else text


def _words(entry: Mapping[str, Any], what: Mapping[str, Any]) -> str:
    letters, names = what["at"], ", ".join(entry["names"])
    share = letters.count("c") / len(letters)
    lost = letters.count("x")
    space_of = f"{len(letters)} points of {names}" + (f", {lost} without a result" if lost else "")
    if what["chosen"] == CONFIRMED:
        word = "robust" if share >= ROBUST else "selected" if share < SELECTED else "mostly"
        rule = f"; best described by {what['rule']}" if what["rule"] and share < ROBUST else ""
        return f"{word}: stays confirmed in {share:.0%} of {space_of}{rule}"
    if share > 0:
        rule = what["rule"] or "no simple rule"
        return f"holds when {rule}: {share:.0%} of {space_of}"
    refined = what.get("refined", "")
    if "c" in refined:
        held = f"{refined.count('c')} of {len(refined)} more where it is nearest"
        return f"holds in none of {space_of}, but in {held}: {what['rule'] or 'no simple rule'}"
    more = f" and {len(refined)} more where it is nearest" if refined else ""
    return f"nowhere in {space_of}{more}"


def stale(row: Row, entry: Mapping[str, Any]) -> bool:
    """Whether a search was made over other parameters or ranges than the row has now."""
    if list(entry["names"]) != list(row.matters):
        return True
    try:
        return bool(space(row.paper).fingerprint(entry["names"]) != entry["ranges"])
    except (ValueError, FileNotFoundError):
        return True


def joint(paper: str) -> str:
    """Whether one point meets all claims of a paper that can hold; "" where nothing was searched."""
    found = document(paper).get("joint")
    if not found:
        return ""
    at = ", ".join(f"{name} = {value}" for name, value in found["settings"].items())
    if found["met"] == found["can"]:
        points = f"{found['points']} points, as at {at}"
        return f"all {found['can']} claims that hold somewhere hold together at {points}"
    return f"of {found['can']} claims that hold somewhere at most {found['met']} hold at one point, at {at}"


@dataclass(frozen=True)
class Map:
    """Where a claim holds, over the two parameters that tell most: shares of their ranges, a letter per
    point, and what five places of each axis stand for. `second` is "" where there is one parameter only.
    """

    first: str
    second: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    letters: str
    x_ticks: tuple[str, ...]
    y_ticks: tuple[str, ...]


def map_of(row: Row, claim: str) -> Map | None:
    """The map of a claim; None where it holds everywhere or nowhere, or the search is stale."""
    entry = document(row.paper)["rows"].get(row.id)
    if entry is None or claim not in entry["claims"] or stale(row, entry):
        return None
    letters: str = entry["claims"][claim]["at"]
    good = np.array([letter == "c" for letter in letters])
    if good.all() or not good.any() or not entry["names"]:
        return None
    here = space(row.paper)
    shares = here.sample(entry["names"], len(letters), entry["seed"])
    first, *more = telling(shares, good)
    second = more[0] if more else None

    def ticks(j: int) -> tuple[str, ...]:
        parameter = here[entry["names"][j]]
        return tuple(str(parameter.at(share)).rpartition("=")[2] for share in TICKS)

    return Map(
        entry["names"][first],
        "" if second is None else entry["names"][second],
        shares[:, first],
        np.full(len(letters), 0.5) if second is None else shares[:, second],
        letters,
        ticks(first),
        () if second is None else ticks(second),
    )
