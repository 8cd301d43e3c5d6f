"""The search over open parameters: for each claim, where in the space of its paper's choices it holds.

A row's `probe` is evaluated at the chosen point and at a Latin hypercube of the parameters that matter to it.
If a claim differs at the chosen point and holds at few others, more points are placed near those that missed
its criterion least. If it holds at some points and differs at others, more points are placed between
neighbours that disagree, at the boundary of the region. Each parameter is also changed alone, all others as
chosen; if the claim then holds, the open parameter is the reason. A point that the probe cannot measure is
counted separately. Every probe's numbers are kept under `out`/probes by content, and every simulation in the
lab's store. So rows share simulations, and a search that was stopped resumes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock import _engine, results
from penstock import scenario as scenarios
from penstock.interrupts import POLL_S, Deferred
from penstock.store import engine
from penstock.sweeps import RunFailed
from penstock_papers.ledger import holding, layout, selection
from penstock_papers.ledger.claims import Claim, Measurement, Row, from_plain, plain
from penstock_papers.ledger.criteria import CONFIRMED, DIFFERS, UNDECIDED
from penstock_papers.ledger.lab import Lab, source_hash
from penstock_papers.ledger.space import BLOCK, Floats, Parameter, Space, describe

LEAST_POINTS = 64
LETTERS = {CONFIRMED: "c", DIFFERS: "d", UNDECIDED: "u"}
NO_RESULT = "x"
# A claim that holds in less than this share of the space is looked for once more, with so many points more.
FEW, MORE = 0.05, 0.25
# So many more, as a share of the least points, are placed between neighbours of which one confirms a claim
# of the row and the other differs.
BETWEEN = 0.25
# Digits of the shares at which they are placed: they are kept in holds.json.
DIGITS = 4
# Up to so many times the points, where some have no result.
MOST = 4
# The share of the points nearest to the criterion whose box is searched again.
NEAREST = 0.125


def searchable(rows: Iterable[Row]) -> list[Row]:
    """The rows that can be searched: those with a probe, parameters, and a claim that no other row has."""
    return [
        row
        for row in rows
        if row.probe is not None and row.matters and not all(claim.same_as for claim in row.claims)
    ]


def search(
    row: Row, lab: Lab, *, points: int = LEAST_POINTS, on_progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Search one row's space; its entry of holds.json. Raises KeyboardInterrupt with finished probes kept,
    ValueError for a parameter without a range.
    """
    space, names = holding.space(row.paper), list(row.matters)
    shares, found = _sampled(row, lab, space, points, on_progress)
    entry: dict[str, Any] = {
        "names": names,
        "ranges": space.fingerprint(names),
        "seed": lab.seed,
        "engine": _engine.__version__,
        "points": len(shares),
        "length": _length(row, lab),
        "claims": {},
    }
    for claim in row.claims:
        if found[0] is None:
            continue
        if not _probed(claim, found[0]):
            # Recorded, so that no later search repeats it.
            entry.setdefault("unprobed", []).append(claim.id)
            continue
        chosen, at = _judge(claim, found[0])[0], _letters(claim, found[1:])
        what: dict[str, Any] = {"chosen": chosen, "at": at, "rule": ""}
        what |= holding.judged_by(claim)
        places = space.places(names, shares)
        told = at.replace(NO_RESULT, "")
        if chosen != CONFIRMED and told and told.count("c") / len(told) < FEW:
            misses = np.array([_judge(claim, m)[1] for m in found[1:]])
            more, what["refined"] = _again(row, lab, space, claim, places, misses, points)
            places = np.vstack([places, more])
        _describe(what, at + what.get("refined", ""), places, [space[name] for name in names])
        entry["claims"][claim.id] = what
    return with_single(row, lab, with_boundary(row, lab, entry, on_progress), on_progress)


def with_boundary(
    row: Row, lab: Lab, entry: dict[str, Any], on_progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """The entry with what its claims are at more points between neighbours that disagree: under "near" their
    shares of the ranges and, of each claim, its letters. Rules are described anew with them; shares of the
    space are not, which these points are no sample of.
    """
    space, names = holding.space(row.paper), list(row.matters)
    shares = space.sample(names, entry["points"], entry["seed"])
    lists = np.array([isinstance(space[name].source, list) for name in names], dtype=bool)
    letters = [what["at"] for what in entry["claims"].values()]
    near = between(shares, space.places(names, shares), lists, letters, int(LEAST_POINTS * BETWEEN))
    if not near.size:
        return entry
    found = _probes(row, lab, space.settings(names, near), on_progress)
    entry["near"] = near.tolist()
    places = np.vstack([space.places(names, shares), space.places(names, near)])
    for claim in row.claims:
        if claim.id not in entry["claims"]:
            continue
        what = entry["claims"][claim.id]
        what["near"] = _letters(claim, found)
        # Where it holds in hardly a point the rule is that of the search for it, whose places are not kept.
        if "refined" not in what:
            _describe(what, what["at"] + what["near"], places, [space[name] for name in names])
    return entry


def between(
    shares: Floats, places: Floats, lists: NDArray[np.bool_], letters: Sequence[str], count: int
) -> Floats:
    """Up to `count` places between points of which one confirms a claim and the other differs, of each claim
    (a text of letters, one per point) in turn the nearest such pairs. Halfway in a range; of a list, the
    entry of either point in turn.
    """
    pairs = [_disagreeing(places, text) for text in letters]
    chosen: list[tuple[int, int]] = []
    for turn in range(max((len(found) for found in pairs), default=0)):
        chosen += [found[turn] for found in pairs if turn < len(found)]
    chosen = list(dict.fromkeys((min(pair), max(pair)) for pair in chosen))[:count]
    out = [
        np.where(lists, shares[(a, b)[i % 2]], (shares[a] + shares[b]) / 2) for i, (a, b) in enumerate(chosen)
    ]
    return np.round(np.array(out), DIGITS)


def _disagreeing(places: Floats, letters: str) -> list[tuple[int, int]]:
    """Of a claim: each point that confirms it with the nearest that differs, nearest pairs first."""
    good, bad = ([i for i, x in enumerate(letters) if x == LETTERS[kind]] for kind in (CONFIRMED, DIFFERS))
    if not good or not bad:
        return []
    apart = np.linalg.norm(places[good][:, None, :] - places[bad][None, :, :], axis=2)
    nearest = apart.argmin(axis=1)
    order = np.argsort(apart[np.arange(len(good)), nearest], kind="stable")
    return [(good[i], bad[int(nearest[i])]) for i in order]


def _describe(what: dict[str, Any], letters: str, places: Floats, parameters: Sequence[Parameter]) -> None:
    """Put the rule that describes where a claim holds into its entry, from its letters at these places."""
    each = np.array(list(letters))
    with_result = each != NO_RESULT
    good = each[with_result] == LETTERS[CONFIRMED]
    if good.any() and not good.all():
        box = describe(places[with_result], good)
        what["rule"] = box.words(parameters)
        what["precision"], what["coverage"] = round(box.precision, 3), round(box.coverage, 3)


def with_single(
    row: Row, lab: Lab, entry: dict[str, Any], on_progress: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Return the entry with the effect of changing one open parameter alone. Each claim that differs at the
    chosen values has the changes with which it holds, as "name: value instead of chosen", and the number of
    changes tried.
    """
    space, names = holding.space(row.paper), list(row.matters)
    chosen = space.chosen(names)
    changes = [(name, value) for name in names for value in space[name].others()]
    found = _probes(row, lab, [chosen], None)
    differing = [
        claim for claim in row.claims if claim.id in entry["claims"] and _judge(claim, found[0])[0] == DIFFERS
    ]
    if not differing:
        return entry
    after = _probes(row, lab, [{**chosen, name: value} for name, value in changes], on_progress)
    entry["singly"] = len(changes)
    for claim in differing:
        entry["claims"][claim.id]["singly"] = [
            f"{name}: {value} instead of {chosen[name]}"
            for (name, value), measured in zip(changes, after, strict=True)
            if _judge(claim, measured)[0] == CONFIRMED
        ]
    return entry


def _sampled(
    row: Row, lab: Lab, space: Space, points: int, on_progress: Callable[[float], None] | None
) -> tuple[Floats, list[Measurement | None]]:
    """The points, as shares of the ranges, and what the probe measured at the chosen one and at each of them.

    Where some have no result more points are drawn, up to `MOST` times as many, until `points` have one; of
    whole blocks only, which do not move when others follow them.
    """
    names = list(row.matters)
    shares = space.sample(names, points, lab.seed)
    found = _probes(row, lab, [space.chosen(names), *space.settings(names, shares)], on_progress)
    most = 1 if points % BLOCK else MOST
    while 0 < sum(m is not None for m in found[1:]) < points and len(shares) < most * points:
        more = space.sample(names, len(shares) + points, lab.seed)[len(shares) :]
        found += _probes(row, lab, space.settings(names, more), on_progress)
        shares = np.vstack([shares, more])
    return shares, found


def _again(
    row: Row, lab: Lab, space: Space, claim: Claim, places: Floats, misses: Floats, points: int
) -> tuple[Floats, str]:
    """Points in the box of those where the criterion was missed least, and their letters."""
    names = list(row.matters)
    near = np.argsort(misses)[: max(2, int(points * NEAREST))]
    low, high = places[near].min(axis=0), places[near].max(axis=0)
    inner = space.sample(names, max(8, int(points * MORE)), lab.seed + 1)
    shares = low + inner * (high - low)
    more = _probes(row, lab, space.settings(names, shares), None)
    return space.places(names, shares), _letters(claim, more)


def _probed(claim: Claim, measurement: Measurement) -> bool:
    """Whether the row's probe measures what this claim needs."""
    try:
        claim.value(measurement)
    except KeyError:
        return False
    return True


def _judge(claim: Claim, measurement: Measurement | None) -> tuple[str, float]:
    """Verdict and how far the criterion was missed (0 where it holds); "" and inf without a result."""
    if measurement is None:
        return "", math.inf
    try:
        value = claim.criterion.fit(claim.value(measurement))
        return claim.criterion.judge(value), max(0.0, -claim.criterion.distance(value)[0])
    except (ValueError, KeyError):
        return "", math.inf


def _letters(claim: Claim, found: Iterable[Measurement | None]) -> str:
    return "".join(LETTERS.get(_judge(claim, m)[0], NO_RESULT) for m in found)


def _probes(
    row: Row, lab: Lab, settings: Sequence[Mapping[str, Any]], on_progress: Callable[[float], None] | None
) -> list[Measurement | None]:
    """The probe at every point, in parallel; None where it has no result."""
    found: list[Measurement | None] = [None] * len(settings)
    pool = ThreadPoolExecutor(max(1, lab.jobs))
    with Deferred() as presses:
        try:
            pending = {pool.submit(_probe, row, lab, here): i for i, here in enumerate(settings)}
            while pending:
                presses.look()
                for future in wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED).done:
                    found[pending.pop(future)] = future.result()
                    if on_progress:
                        on_progress(1 - len(pending) / len(settings))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    presses.look()
    return found


def _probe(row: Row, lab: Lab, settings: Mapping[str, Any]) -> Measurement | None:
    assert row.probe is not None
    path = _kept(row, lab, settings)
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return None if kept["numbers"] is None else from_plain(kept["numbers"])
    except (OSError, ValueError, KeyError):
        pass
    numbers: Any = None
    own = lab.fork()
    try:
        numbers = plain(row.probe(own, settings))
    except RunFailed:
        return None  # of this machine, perhaps: asked again next time
    except (ValueError, scenarios.ScenarioError) as problem:
        why = str(problem)
    else:
        why = ""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "row": row.id,
        "settings": dict(settings),
        "numbers": numbers,
        "problem": why,
        "runs": [float(run.summary["measured_s"]) for runs in own.used() for run in runs.runs],
    }
    results.put(path, json.dumps(document, default=str) + "\n")
    return None if numbers is None else from_plain(numbers)


def _kept(row: Row, lab: Lab, settings: Mapping[str, Any]) -> Path:
    """Where a probe's numbers are kept: in one place for rows that share their probe."""
    assert row.probe is not None
    first = next((one.id for one in selection.rows() if one.probe is row.probe), row.id)
    what = [first, dict(settings), lab.seed, engine(), source_hash(row.probe)]
    name = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
    return lab.out / "probes" / name[:2] / f"{name}.json"


def _length(row: Row, lab: Lab) -> str:
    """What a probe simulates at the chosen point, in words; "" where it simulates nothing."""
    chosen = holding.space(row.paper).chosen(list(row.matters))
    try:
        measured = json.loads(_kept(row, lab, chosen).read_text(encoding="utf-8"))["runs"]
    except (OSError, ValueError, KeyError):
        return ""
    if not measured:
        return ""
    spans = sorted({f"{seconds:.3g}" for seconds in measured}, key=float)
    span = spans[0] if len(spans) == 1 else f"{spans[0]} to {spans[-1]}"
    return f"{len(measured)} runs of {span} s"


def merged(before: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """holds.json with the entries of the rows searched now in place of older ones."""
    rows = {**before.get("rows", {}), **entries}
    return {"rows": dict(sorted(rows.items()))}


def write(document: Mapping[str, Any], path: Any) -> None:
    """Write holds.json. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    results.put(path, layout.text(document) + "\n")
