"""Pinned verdicts: every claim's verdict and numbers at both lengths, committed, and compared with a new run.

`pinned.json` beside a paper's rows: length -> claim ("D-10/rise") -> `verdict` and `value`, of runs with seed
1, and of a claim that differs `because`: `a cause` of its row, `one choice` that the paper leaves open, or
`unexplained`. At full length, which is seldom run, also `measured`, the numbers in words, and of a claim that
differs by a cause `reasons`, each as its sentence and its evidence. `judged_by` is the text of the criterion
and `of` the source of the numbers: a pin by another criterion, or of other numbers, is not read. A verdict
that changed, or a number that left the interval it was pinned with, is a result that moved: find out why,
then pin anew and say so in CHANGELOG.md. Under "seeds", length -> claim -> seed -> the verdict of these runs
alone: a claim on which seeds do not agree is undecided, whatever each of them says. Under "seconds", length
-> row -> the processor time that measuring it took when it was pinned, from which the next reproduction says
how long it will take.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import results
from penstock_papers.ledger import holding, layout, outcomes
from penstock_papers.ledger.claims import (
    NOT_RUN,
    STRADDLES,
    UNEXPLAINED,
    Claim,
    Judged,
    from_plain,
    plain,
    show,
    verdict_of,
)
from penstock_papers.ledger.criteria import DIFFERS, UNDECIDED, counts_none
from penstock_papers.ledger.selection import folder, rows

if TYPE_CHECKING:
    from penstock_papers.ledger.judging import Verdict

FILE = "pinned.json"
FULL = "full"
LENGTHS = (FULL, "quick")
SECONDS, SEEDS, BECAUSE = "seconds", "seeds", "because"
MEASURED, TOLD = "measured", "reasons"
CAUSE, CHOICE = "a cause", "one choice"
REASONS = (CAUSE, CHOICE, UNEXPLAINED)
# That of the runs whose numbers are pinned.
SEED = 1
# A number that was pinned without an interval may move by this share of itself: another machine's libm.
EXACT = 1e-6
# What is left of exact arithmetic is zero.
ROUNDING = 1e-9


def load(paper: str, path: Path | None = None) -> dict[str, dict[str, Any]]:
    """The pinned claims of a paper by length; empty where there are none. Where the seeds that are pinned do
    not agree the verdict is that of all of them, and `seeds` says what each says.
    """
    document = _document(paper, path)

    def read(length: str, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        if not _split(document, length, name):
            return entry
        said = document[SEEDS][length][name]
        verdict, _ = over_seeds(_claims(paper).get(name))
        why = {BECAUSE: UNEXPLAINED} if verdict == DIFFERS else {}
        return {**entry, **why, "verdict": verdict, SEEDS: agreement(said)}

    return {
        length: {name: read(length, name, entry) for name, entry in document[length].items()}
        for length in LENGTHS
        if length in document
    }


def over_seeds(claim: Claim | None, said: str = "") -> tuple[str, str]:
    """The verdict on a claim on which seeds do not agree, and why: `differs` where it asks for none in any
    run, as the runs of one seed had some, otherwise `undecided`. `said` is what each seed says.
    """
    if claim is not None and counts_none(claim.criterion):
        return DIFFERS, f"one is enough, and the runs of another seed had one: {said}"
    return UNDECIDED, f"it depends on the seed: {said}"


def by_seed(paper: str, length: str, path: Path | None = None) -> dict[str, dict[str, str]]:
    """The verdicts that are pinned of a paper's claims at "quick" or "full", by claim and seed."""
    return {
        name: dict(seeds) for name, seeds in _document(paper, path).get(SEEDS, {}).get(length, {}).items()
    }


def dissent(paper: str, length: str, claim: str) -> str:
    """What the seeds say of a claim ("D-10/rise") where they do not agree, in words; "" where they do."""
    document = _document(paper)
    if not _split(document, length, claim):
        return ""
    return agreement(document[SEEDS][length][claim])


def agreement(verdicts: Mapping[str, str]) -> str:
    """What each of these seeds says, in words: "differs with 1 and 3, confirmed with 2"."""
    said = {v: [seed for seed in verdicts if verdicts[seed] == v] for v in dict.fromkeys(verdicts.values())}
    return ", ".join(f"{verdict} with {_listed(seeds)}" for verdict, seeds in said.items())


def _listed(seeds: Sequence[str]) -> str:
    *first, last = seeds
    return f"{', '.join(first)} and {last}" if first else last


def _split(document: Mapping[str, Any], length: str, claim: str) -> bool:
    return len(set(document.get(SEEDS, {}).get(length, {}).get(claim, {}).values())) > 1


def _document(paper: str, path: Path | None = None) -> dict[str, dict[str, Any]]:
    try:
        found: dict[str, dict[str, Any]] = json.loads(
            (path or folder(paper) / FILE).read_text(encoding="utf-8")
        )
    except FileNotFoundError:
        return {}
    return found if path else _current(paper, found)


@lru_cache(maxsize=16)
def _claims(paper: str) -> dict[str, Claim]:
    """A paper's claims by row and name."""
    own = (row for row in rows(live=True) if row.paper == paper)
    return {f"{row.id}/{claim.id}": claim for row in own for claim in row.claims}


def stale(paper: str, document: Mapping[str, Mapping[str, Any]]) -> set[tuple[str, str]]:
    """The length and name of what is pinned of a paper by another criterion than the present one, or of other
    numbers, or without saying so.
    """
    present = {name: holding.judged_by(claim) for name, claim in _claims(paper).items()}
    return {
        (length, name)
        for length in LENGTHS
        for name, entry in document.get(length, {}).items()
        if name in present and not present[name].items() <= entry.items()
    }


def _current(paper: str, document: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """A document without the claims that were pinned by another criterion than the present one."""
    old = stale(paper, document)
    if not old:
        return document
    kept = {
        length: {name: entry for name, entry in document[length].items() if (length, name) not in old}
        for length in LENGTHS
        if length in document
    }
    seeds = {
        length: {name: found for name, found in by_claim.items() if (length, name) not in old}
        for length, by_claim in document.get(SEEDS, {}).items()
    }
    return {**document, **kept, **({SEEDS: seeds} if seeds else {})}


def seconds(paper: str, length: str) -> dict[str, float]:
    """Processor time (s) of measuring a paper's rows at "quick" or "full", where it was pinned. The first of
    rows that share runs has the time of these.
    """
    return {row: float(time) for row, time in _document(paper).get(SECONDS, {}).get(length, {}).items()}


def at_full_length(paper: str, claim: str) -> str:
    """The verdict that is pinned of a claim ("D-10/rise") at full length; "" where none is."""
    return str(load(paper).get("full", {}).get(claim, {}).get("verdict", ""))


# Stands behind the evidence of a reason that the pins do not have.
OF_QUICK = "these are numbers of the quick runs"
# The reason where a cause of the row explains a claim at full length, but the runs at hand bear none out.
SHOWN_THEN = "a cause of this row explains it at full length; the quick runs at hand do not show which"


def settled(v: Verdict) -> Verdict:
    """A row that was run quick, with the verdicts that are pinned of its claims at full length where there
    are; what the quick runs said is kept with each. Reasons are the pinned ones, or those that the quick runs
    support.
    """
    if v.row.view or v.verdict == NOT_RUN:
        return v
    known = load(v.row.paper).get(FULL, {})
    names = {one.claim.id: f"{v.row.id}/{one.claim.id}" for one in v.claims}
    claims = tuple(
        _settled(v, one, known[names[one.claim.id]]) if names[one.claim.id] in known else one
        for one in v.claims
    )
    return replace(v, claims=claims, verdict=verdict_of(claims))


def _settled(v: Verdict, one: Judged, pin: Mapping[str, Any]) -> Judged:
    value, verdict = from_plain(pin["value"]), str(pin["verdict"])
    # Numbers that a claim puts into words of its own say little without them.
    measured = str(pin.get(MEASURED, "" if one.claim.say else show(value, one.claim.unit)))
    because: tuple[tuple[str, str], ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    said = dissent(v.row.paper, FULL, f"{v.row.id}/{one.claim.id}")
    if said:
        verdict, why = over_seeds(one.claim, said)
        because = ((why, ""),)
    elif verdict == UNDECIDED:
        tried = f"{STRADDLES}, with up to {v.row.budget} times the first number of replications"
        because = ((tried, ""),)
    elif verdict == DIFFERS:
        because, excluded = _why(v, one, pin)
    return replace(
        one,
        verdict=verdict,
        measured=measured,
        value=value,
        reason="; ".join(f"{text} ({evidence})" if evidence else text for text, evidence in because),
        because=because,
        excluded=excluded,
        holds_when=holding.words(v.row, one.claim.id, verdict=verdict),
        outcome=outcomes.outcome(v.row, one.claim, verdict),
        quick=one,
    )


Reasons = tuple[tuple[str, str], ...]


def _why(v: Verdict, one: Judged, pin: Mapping[str, Any]) -> tuple[Reasons, Reasons]:
    """The reasons of a claim that differs at full length, and what was tried in vain."""
    if TOLD in pin:
        return tuple((str(text), str(evidence)) for text, evidence in pin[TOLD]), ()
    here = one
    if one.verdict != DIFFERS and v.measurement is not None:
        here = v.row.explained(replace(one, verdict=DIFFERS), v.measurement)
    kind = pin.get(BECAUSE, UNEXPLAINED)
    changes = holding.one_choice(v.row, one.claim.id) if kind == CHOICE else ""
    if changes:
        return ((holding.ONE_CHOICE, changes),), ()
    if kind != CAUSE:
        return ((UNEXPLAINED, ""),), here.excluded
    if here.verdict != DIFFERS or because(here) != CAUSE:
        return ((SHOWN_THEN, ""),), ()
    return tuple((text, f"{evidence}; {OF_QUICK}") for text, evidence in here.because), ()


def entries(verdicts: Iterable[Verdict], *, told: bool = False) -> dict[str, Any]:
    """The claims of these verdicts in the form that is pinned, with their words where they are to be `told`.
    Rows that were not run have none.
    """
    return {
        f"{v.row.id}/{one.claim.id}": {
            "verdict": one.verdict,
            "value": plain(one.value),
            **holding.judged_by(one.claim),
            **({MEASURED: one.measured} if told else {}),
            **({BECAUSE: because(one)} if one.verdict == DIFFERS else {}),
            **({TOLD: [list(each) for each in one.because]} if told and _caused(one) else {}),
        }
        for v in verdicts
        if v.verdict != NOT_RUN
        for one in v.claims
    }


def because(one: Judged) -> str:
    """By what a claim that differs is explained: one of `REASONS`."""
    if one.reason == UNEXPLAINED:
        return UNEXPLAINED
    return CHOICE if one.because and one.because[0][0] == holding.ONE_CHOICE else CAUSE


def _caused(one: Judged) -> bool:
    return one.verdict == DIFFERS and because(one) == CAUSE


def write(
    verdicts: Sequence[Verdict], length: str, where: Path | None = None, *, seed: int = SEED
) -> list[Path]:
    """Pin these verdicts for "quick" or "full", beside the rows of their papers (or under `where`); other
    rows' stay as they are, claims that no longer exist in these rows go. Of runs with another seed than
    `SEED` only that seed's verdicts are pinned. Raises OSError.
    """
    written = []
    for paper in dict.fromkeys(v.row.paper for v in verdicts):
        own = [v for v in verdicts if v.row.paper == paper and v.verdict != NOT_RUN]
        path = (where / paper if where else folder(paper)) / FILE
        document = _document(paper, path)
        _seed(document, own, length, seed)
        if seed == SEED:
            gone = tuple(f"{v.row.id}/" for v in own)
            kept = {key: value for key, value in document.get(length, {}).items() if not key.startswith(gone)}
            document[length] = dict(sorted({**kept, **entries(own, told=length == FULL)}.items()))
            times = document.setdefault(SECONDS, {}).setdefault(length, {})
            times |= {v.row.id: round(v.cost_s, 1) for v in own if v.cost_s is not None}
            document[SECONDS] = {
                key: dict(sorted(rows.items())) for key, rows in sorted(document[SECONDS].items())
            }
        path.parent.mkdir(parents=True, exist_ok=True)
        results.put(path, layout.text(dict(sorted(document.items()))) + "\n")
        written.append(path)
    return written


def _seed(document: dict[str, Any], own: Sequence[Verdict], length: str, seed: int) -> None:
    """Put the verdicts of one seed's runs into a paper's document; the claims that rows have lost go."""
    seeds = document.setdefault(SEEDS, {})
    here: dict[str, dict[str, str]] = seeds.setdefault(length, {})
    exist = {f"{v.row.id}/{claim.id}" for v in own for claim in v.row.claims}
    rows = tuple(f"{v.row.id}/" for v in own)
    for name in [name for name in here if name.startswith(rows) and name not in exist]:
        del here[name]
    for v in own:
        for one in v.claims:
            verdicts = here.setdefault(f"{v.row.id}/{one.claim.id}", {})
            verdicts[str(seed)] = one.alone or one.verdict
    ordered = {
        name: dict(sorted(found.items(), key=lambda item: int(item[0]))) for name, found in here.items()
    }
    seeds[length] = dict(sorted(ordered.items()))
    document[SEEDS] = dict(sorted(seeds.items()))


def compare(verdicts: Sequence[Verdict], length: str, *, seed: int = SEED) -> tuple[list[str], list[str]]:
    """What moved since it was pinned, a line each; and the claims that are not pinned. The numbers of runs
    with another seed than `SEED` are others: then verdicts alone are compared.
    """
    moved, missing = [], []
    for paper in dict.fromkeys(v.row.paper for v in verdicts):
        known = load(paper).get(length, {})
        for name, now in entries(v for v in verdicts if v.row.paper == paper).items():
            if name not in known:
                missing.append(name)
                continue
            before = known[name]
            if now["verdict"] != before["verdict"]:
                moved.append(f"{name}: was {before['verdict']}, is {now['verdict']}")
            elif seed == SEED and (changes := _changes(before["value"], now["value"])):
                moved.append(
                    f"{name}: {changes[0]}" + (f" and {len(changes) - 1} more" if changes[1:] else "")
                )
    return moved, missing


def _changes(before: Any, now: Any, place: str = "") -> list[str]:
    """The numbers that left their interval, as "place: was a, is b"."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        if set(before) == {"mean", "low", "high"} == set(now):
            low, high, mean = (_number(before[key]) for key in ("low", "high", "mean"))
            room = EXACT * abs(mean) + ROUNDING
            if low - room <= _number(now["mean"]) <= high + room or before["mean"] == now["mean"]:
                return []
            return [f"{place}was {before['mean']} ({before['low']} to {before['high']}), is {now['mean']}"]
        if set(before) == set(now):
            return [line for key in before for line in _changes(before[key], now[key], f"{place}{key}: ")]
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) == len(now):
            return [line for a, b in zip(before, now, strict=True) for line in _changes(a, b, place)]
    elif isinstance(before, int | float) and isinstance(now, int | float):
        return (
            [] if abs(now - before) <= EXACT * abs(before) + ROUNDING else [f"{place}was {before}, is {now}"]
        )
    elif before == now:
        return []
    return [f"{place}was {before}, is {now}"]


def _number(value: Any) -> float:
    return float(value)
