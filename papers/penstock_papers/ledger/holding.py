"""Where in the space of open parameters claims hold: what a search has found, committed as data and shown.

`holds.json` beside a paper's rows. A row has the varied parameters, their number of points, a hash of their
ranges, the engine, and what one point simulates. A claim has a letter for each point (c confirmed, d differs,
u undecided, x no result), letters of further points between neighbours that disagree, and the rule that
describes where it holds. `judged_by` is the text of the criterion and `of` the source of the numbers; letters
by another criterion, or of other numbers, are not read.
Shares are of the points with a result. Results for other ranges are shown as stale.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock_papers.ledger import selection
from penstock_papers.ledger.claims import Claim, Row, percent
from penstock_papers.ledger.criteria import CONFIRMED, DIFFERS, UNDECIDED
from penstock_papers.ledger.selection import folder
from penstock_papers.ledger.space import Space, telling

FILE = "holds.json"
# Of a pin and of a search, the text of the criterion and where the numbers come from: what another criterion
# judged, or was judged of other numbers, is not read. What does not say so is of before these were kept.
JUDGED_BY, JUDGED_OF = "judged_by", "of"
# From this share of the space on a confirmed claim counts as robust.
ROBUST = 0.5
# From this share of undecided points on nothing is said of robustness.
MOSTLY_OPEN = 0.5
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


def judged_by(claim: Claim) -> dict[str, str]:
    """What judges a claim, as pins and searches keep it."""
    return {JUDGED_BY: claim.criterion.text, JUDGED_OF: claim.source}


def by_present_criterion(row: Row, claim: str, what: Mapping[str, Any]) -> bool:
    """Whether a row still has a claim, with the criterion and the numbers by which it was searched."""
    return any(judged_by(one).items() <= what.items() for one in row.claims if one.id == claim)


def _searched(row: Row, claim: str, found: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """The entry of the row that was searched for a claim, and the claim's in it; None where there is none by
    the present criterion.
    """
    whose, name = _meant(row, claim)
    entry = found.get(whose)
    if entry is None or name not in entry["claims"]:
        return None
    what = entry["claims"][name]
    return (entry, what) if by_present_criterion(row, claim, what) else None


@lru_cache(maxsize=16)
def space(paper: str) -> Space:
    """The space of a paper's open parameters."""
    return Space.load(folder(paper) / "choices.toml")


def words(row: Row, claim: str, found: Mapping[str, Any] | None = None, verdict: str = "") -> str:
    """Where a claim holds, in words; "" where nothing was searched. `verdict` is that of the row's own runs,
    which the shorter ones of the search need not bear out.

    A claim that repeats another has the other's words.
    """
    searched = _searched(row, claim, (document(row.paper) if found is None else found)["rows"])
    if searched is None:
        return ""
    entry, what = searched
    text = _words(entry, what, verdict)
    near = what.get("near", "").replace("x", "")
    if {"c", "d"} <= set(what["at"]) and near:
        text += f"; it holds at {near.count('c')} of {len(near)} more between points that disagree"
    if entry.get("length"):
        text += f"; a point is {entry['length']}"
    if what.get("singly") == []:
        many = f"none of {entry['singly']} changes of one parameter alone makes it hold"
        text += (
            f"; {many}" if entry["singly"] > 1 else "; the one other choice there is does not make it hold"
        )
    old = _old(row, claim, entry)
    return f"stale, the ranges have changed since: {text}" if old else text


def share(row: Row, claim: str) -> float | None:
    """The share of the searched points with a result at which a claim holds, 0 to 1; None where nothing was
    searched, no point has a result, or the ranges have changed since.
    """
    searched = _searched(row, claim, document(row.paper)["rows"])
    if searched is None:
        return None
    entry, what = searched
    told = what["at"].replace("x", "")
    old = _old(row, claim, entry)
    return None if old or not told else told.count("c") / len(told)


ONE_CHOICE = (
    "what the paper leaves open decides it: with one other choice, all else as it is, the statement holds"
)


def one_choice(row: Row, claim: str) -> str:
    """The single changes of an open parameter that make a claim hold that differs at the chosen values, with
    semicolons; "" where there is none, or the search is stale or was not made.
    """
    searched = _searched(row, claim, document(row.paper)["rows"])
    if searched is None:
        return ""
    entry, what = searched
    old = _old(row, claim, entry)
    return "" if old else "; ".join(what.get("singly", ()))


def _meant(row: Row, claim: str) -> tuple[str, str]:
    """The row and claim that were searched for a claim: those that it repeats, or its own."""
    repeats = next((one.same_as for one in row.claims if one.id == claim), "")
    whose, _, name = repeats.partition("/")
    return (whose, name) if repeats else (row.id, claim)


def _words(entry: Mapping[str, Any], what: Mapping[str, Any], verdict: str) -> str:
    letters, names, chosen = what["at"], ", ".join(entry["names"]), what["chosen"]
    told = letters.replace("x", "")
    lost = len(letters) - len(told)
    if not told:
        return f"no result at any of {lost} points of {names}"
    space_of = f"{len(told)} points of {names}" + (f" ({lost} more have no result)" if lost else "")
    held, differs, unclear = (told.count(letter) / len(told) for letter in "cdu")
    space_of += f", undecided in {percent(unclear)}" if unclear else ""
    if {verdict, chosen} == {CONFIRMED, DIFFERS}:
        at = f"at the chosen values it {'holds' if chosen == CONFIRMED else 'differs'} there"
        rule = f"; best described by {what['rule']}" if what["rule"] else ""
        return (
            f"the search's shorter runs do not bear this out: {at}, and it holds in {percent(held)} of "
            f"{space_of}{rule}"
        )
    if verdict == UNDECIDED:
        rule = f"; best described by {what['rule']}" if what["rule"] else ""
        at = {CONFIRMED: "holds", DIFFERS: "differs"}.get(chosen, "is undecided")
        return (
            f"in the search it {at} at the chosen values, and it holds in {percent(held)} of {space_of}{rule}"
        )
    if (verdict if verdict in (CONFIRMED, DIFFERS) else chosen) == CONFIRMED:
        # The share of what was decided: an interval that was too wide speaks neither for nor against.
        share = held / (held + differs) if held + differs else 0.0
        word = "robust" if share >= ROBUST else "selected"
        word = word if unclear < MOSTLY_OPEN else "open"
        rule = f"; best described by {what['rule']}" if what["rule"] and share < ROBUST else ""
        return f"{word}: stays confirmed in {percent(held)} of {space_of}{rule}"
    if held > 0:
        rule = f"holds when {what['rule']}" if what["rule"] else "holds by no simple rule"
        return f"{rule}: {percent(held)} of {space_of}"
    refined = what.get("refined", "")
    if "c" in refined:
        near = f"{refined.count('c')} of {len(refined)} more where it is nearest"
        return f"holds in none of {space_of}, but in {near}: {what['rule'] or 'no simple rule'}"
    more = f" and {len(refined)} more where it is nearest" if refined else ""
    if unclear >= MOSTLY_OPEN:
        return f"open: confirmed at none of {space_of}{more}"
    return f"nowhere in {space_of}{more}"


def _old(row: Row, claim: str, entry: Mapping[str, Any]) -> bool:
    """Whether the entry in which a claim was searched is of other ranges than the present ones."""
    return _moved(row.paper, entry) if _meant(row, claim)[0] != row.id else stale(row, entry)


def _moved(paper: str, entry: Mapping[str, Any]) -> bool:
    try:
        return bool(space(paper).fingerprint(entry["names"]) != entry["ranges"])
    except (ValueError, FileNotFoundError):
        return True


def stale(row: Row, entry: Mapping[str, Any]) -> bool:
    """Whether a search was made over other parameters or ranges than the row has now."""
    return list(entry["names"]) != list(row.matters) or _moved(row.paper, entry)


def joint(paper: str) -> str:
    """Whether one point meets all claims of a paper that can hold; "" where nothing was searched."""
    known = {row.id: row for row in selection.rows() if row.paper == paper}
    present = {
        name: {
            **entry,
            "claims": {
                claim: what
                for claim, what in entry["claims"].items()
                if by_present_criterion(known[name], claim, what)
            },
        }
        for name, entry in document(paper)["rows"].items()
        if name in known and not stale(known[name], entry)
    }
    found = _joined(paper, present)
    if not found:
        return ""
    at = ", ".join(f"{name} = {value}" for name, value in found["settings"].items())
    if found["met"] == found["can"]:
        points = f"{found['points']} points, as at {at}"
        return f"all {found['can']} claims that hold somewhere hold together at {points}"
    return f"of {found['can']} claims that hold somewhere at most {found['met']} hold at one point, at {at}"


def _joined(paper: str, searched: Mapping[str, Any]) -> dict[str, Any]:
    """Over the points that all searched rows of a paper share: at how many claims that hold somewhere hold
    together, at most, and where.
    """
    seeds = [entry["seed"] for entry in searched.values()]
    if not seeds:
        return {}
    seed = max(set(seeds), key=seeds.count)
    shared = {name: entry for name, entry in searched.items() if entry["seed"] == seed}
    # A larger search begins with the points of a smaller one.
    points = min(entry["points"] for entry in shared.values())
    letters = [claim["at"][:points] for entry in shared.values() for claim in entry["claims"].values()]
    can = [text for text in letters if "c" in text]
    if not can:
        return {}
    together = [sum(text[i] == "c" for text in can) for i in range(points)]
    best = int(np.argmax(together))
    here = space(paper)
    names = list(dict.fromkeys(name for entry in shared.values() for name in entry["names"]))
    try:
        settings = here.settings(names, here.sample(names, points, seed))[best]
    except ValueError:  # a parameter that has lost its range: the entry is stale
        return {}
    return {
        "can": len(can),
        "met": together[best],
        "points": together.count(together[best]),
        "rows": sorted(shared),
        "settings": settings,
    }


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


def _short(text: str) -> str:
    """A value of an axis with no more digits than are read there: 0.0316 for 0.0316228, 1.54us."""

    def short(number: re.Match[str]) -> str:
        return f"{float(number[0]):.3g}" if float(number[0]) < 1000 else f"{float(number[0]):.0f}"

    return re.sub(r"\d+\.\d+", short, text)


def map_of(row: Row, claim: str) -> Map | None:
    """The map of a claim; None where it holds everywhere or nowhere, or the search is stale."""
    entry = document(row.paper)["rows"].get(row.id)
    if entry is None or claim not in entry["claims"] or stale(row, entry):
        return None
    if not by_present_criterion(row, claim, entry["claims"][claim]):
        return None
    letters: str = entry["claims"][claim]["at"]
    told = np.array([letter != "x" for letter in letters])
    good = np.array([letter == "c" for letter in letters])
    if good[told].all() or not good.any() or not entry["names"]:
        return None
    here = space(row.paper)
    shares = here.sample(entry["names"], len(letters), entry["seed"])
    first, *more = telling(shares[told], good[told])
    second = more[0] if more else None

    def ticks(j: int) -> tuple[str, ...]:
        parameter = here[entry["names"][j]]
        return tuple(_short(str(parameter.at(share)).rpartition("=")[2]) for share in TICKS)

    return Map(
        entry["names"][first],
        "" if second is None else entry["names"][second],
        shares[:, first],
        np.full(len(letters), 0.5) if second is None else shares[:, second],
        letters,
        ticks(first),
        () if second is None else ticks(second),
    )
