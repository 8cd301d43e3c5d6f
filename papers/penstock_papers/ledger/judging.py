"""Judging rows: measure, judge the claims, measure again with more runs while one is undecided, draw.

A row that does not end (it raised, or was interrupted) is `not run`.
"""

from __future__ import annotations

import json
import re
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock import results
from penstock.runs import RunSet
from penstock_papers.ledger import holding, outcomes, pinned
from penstock_papers.ledger.claims import (
    IN_PART,
    NOT_RUN,
    UNEXPLAINED,
    Claim,
    Judged,
    Measurement,
    Row,
    plain,
    verdict_of,
)
from penstock_papers.ledger.criteria import CONFIRMED, DIFFERS, UNDECIDED
from penstock_papers.ledger.lab import Lab, NotRun
from penstock_papers.ledger.selection import lacks


@dataclass(frozen=True)
class Verdict:
    """The outcome of one row; `seconds` is wall time, runs shared with an earlier row not counted again."""

    row: Row
    verdict: str
    measured: str
    reason: str
    seconds: float
    figures: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the runs of the row warned of, for the report."""
    bottlenecks: tuple[str, ...] = ()
    """The ports that its runs measured queue and utilisation at."""
    claims: tuple[Judged, ...] = ()
    measurement: Measurement | None = None
    points: int = 0
    runs: int = 0
    """How many points were simulated for it, and runs in all; none where a model answers."""
    cost_s: float | None = None
    """Processor time of measuring, shared runs not counted again; None where some of its runs were in the
    store or were made elsewhere.
    """

    @property
    def shown(self) -> str:
        """The verdict for readers: how many claims hold where not all do, and the view, where something was
        judged in another than the simulation's.
        """
        text = self.verdict
        if text == IN_PART:
            held = sum(one.verdict == CONFIRMED for one in self.claims)
            text = f"{text} ({held} of {len(self.claims)})"
        return f"{text} ({self.row.view})" if self.row.view and self.verdict != NOT_RUN else text

    def document(self) -> dict[str, Any]:
        """The verdict as `reproduce --json` prints it; rows of another view than the simulation's name it."""
        return {
            "id": self.row.id,
            "verdict": self.verdict,
            "stated": self.row.stated,
            "measured": self.measured,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "points": self.points,
            "runs": self.runs,
            "claims": [one.document() for one in self.claims],
            **({"view": self.row.view} if self.row.view else {}),
        }


def judged_in(verdicts: Sequence[Verdict]) -> list[tuple[Row, Claim, str]]:
    """The claims of these rows with their outcomes; those of a row that was not run are `not run`."""
    found: list[tuple[Row, Claim, str]] = []
    for v in verdicts:
        if v.verdict == NOT_RUN:
            found += [(v.row, claim, NOT_RUN) for claim in v.row.claims]
        found += [(v.row, one.claim, one.outcome) for one in v.claims]
    return found


def judge(row: Row, lab: Lab) -> Verdict:
    """Measure one row, judge its claims, draw its figures.

    A row that raises is `not run` with the exception in one line as reason, and its traceback in
    `out`/failed-<id>.txt. KeyboardInterrupt passes through.
    """
    started, began, stored = time.perf_counter(), time.process_time(), lab.from_store
    lab.used()
    measurement: Measurement | None = None
    claims: tuple[Judged, ...]
    try:
        lacking = lacks() if row.view else ""
        if lacking:
            raise NotRun(f"live runs are not possible here: {lacking}")
        measurement, claims = settle(row, lab)
        cost = time.process_time() - began
        figures = tuple(row.draw(measurement, lab)) if row.draw is not None else ()
    except KeyboardInterrupt:
        raise
    except NotRun as problem:
        return Verdict(row, NOT_RUN, "", str(problem), time.perf_counter() - started)
    except BaseException as problem:  # the engine's panics do not derive from Exception
        if isinstance(problem, SystemExit | GeneratorExit):
            raise
        line = " ".join(str(problem).split()) or "no message"
        log = _logged(lab.out / f"failed-{row.id.replace('/', '-')}.txt", traceback.format_exc())
        reason = f"the check failed: {type(problem).__name__}: {line} ({log})"
        return Verdict(row, NOT_RUN, "", reason, time.perf_counter() - started)
    used = lab.used()
    return Verdict(
        row,
        verdict_of(claims),
        _measured(claims),
        _reason(claims),
        time.perf_counter() - started,
        figures,
        *_told(used),
        claims=claims,
        measurement=measurement,
        points=len(used),
        runs=sum(len(runs.runs) for runs in used),
        cost_s=cost if lab.here and lab.from_store == stored else None,
    )


def settle(row: Row, lab: Lab) -> tuple[Measurement, tuple[Judged, ...]]:
    """Measure a row until none of its claims is undecided, or its budget of replications is spent.

    Each time with twice the replications, the first of which are those of before. That a claim is judged more
    than once makes a wrong verdict somewhat likelier than the 5 % of a single look.
    """
    # A quick reproduction looks once: what is undecided then stays so.
    most = 1 if lab.quick else row.budget
    lab.effort = 1
    try:
        while True:
            measurement = lab.measured(row.measure)
            judged = row.judge(measurement)
            done = all(one.verdict != UNDECIDED for one in judged)
            if done or not lab.replicates or 2 * lab.effort > most:
                break
            lab.effort *= 2
    finally:
        lab.effort = 1
    length = "quick" if lab.quick else "full"
    judged = [_over_seeds(row, one, length) for one in judged]
    if lab.quick:
        judged = [_at_quick_length(row, one) for one in judged]
    claims = tuple(
        replace(
            one,
            holds_when=holding.words(row, one.claim.id, verdict=one.verdict),
            outcome=outcomes.outcome(row, one.claim, one.verdict),
        )
        for one in map(partial(_by_one_choice, row), judged)
    )
    return measurement, claims


def _by_one_choice(row: Row, one: Judged) -> Judged:
    """A claim that no cause explains, with what the search found of it: one open parameter decides."""
    if one.verdict != DIFFERS or one.reason != UNEXPLAINED:
        return one
    changes = holding.one_choice(row, one.claim.id)
    if not changes:
        return one
    because = ((holding.ONE_CHOICE, changes),)
    return replace(one, reason=f"{holding.ONE_CHOICE} ({changes})", because=because, excluded=())


def _at_quick_length(row: Row, one: Judged) -> Judged:
    """A verdict of quick runs that the full length is known to contradict is none: undecided."""
    full = pinned.at_full_length(row.paper, f"{row.id}/{one.claim.id}")
    if {full, one.verdict} != {CONFIRMED, DIFFERS}:
        return one
    return _undecided(one, f"at full length it is {full}: the quick length cannot tell")


def _over_seeds(row: Row, one: Judged, length: str) -> Judged:
    """A verdict that depends on the seed is none, unless one seed is enough."""
    said = pinned.dissent(row.paper, length, f"{row.id}/{one.claim.id}")
    if not said or one.verdict == UNDECIDED:
        return one
    verdict, why = pinned.over_seeds(one.claim, said)
    if verdict == one.verdict:
        return one
    return replace(_undecided(one, why), verdict=verdict)


def _undecided(one: Judged, why: str) -> Judged:
    because = ((why, ""),)
    alone = one.alone or one.verdict
    return replace(one, verdict=UNDECIDED, reason=why, because=because, excluded=(), alone=alone)


def _measured(claims: Sequence[Judged]) -> str:
    return "; ".join(f"{one.claim.id}: {one.measured}" for one in claims)


def _reason(claims: Sequence[Judged]) -> str:
    """Why claims do not hold, each reason once with the claims that it is the reason of."""
    by_text: dict[str, list[str]] = {}
    for one in claims:
        if one.reason:
            by_text.setdefault(one.reason, []).append(one.claim.id)
    return "; ".join(f"{', '.join(ids)}: {text}" for text, ids in by_text.items())


def _told(used: Sequence[RunSet]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a row's runs warned of, with how many of its points did, and the ports they measured. Warnings
    that are the same but for their runs and numbers are told once, with the first of them.
    """
    kinds: dict[str, list[str]] = {}
    of: dict[str, set[int]] = {}
    for point, runs in enumerate(used):
        for text in runs.warnings:
            kind = _NUMBERS.sub("", _RUNS.sub("", text))
            kinds.setdefault(kind, []).append(text)
            of.setdefault(kind, set()).add(point)
    warnings = []
    for kind, texts in kinds.items():
        first, same = texts[0], len(set(texts)) == 1
        if same and len(of[kind]) == len(used):
            warnings.append(first)
        else:
            like = "" if same else ", for example"
            warnings.append(f"{len(of[kind])} of {len(used)} points{like}: {first}")
    return tuple(warnings), tuple(dict.fromkeys(runs.bottleneck for runs in used if runs.bottleneck))


# How `RunSet.warnings` begins where not all runs of a point warn; numbers with their units.
_RUNS = re.compile(r"^(runs? [\d, ]+|\d+ of \d+ runs \([\d, .]+\)): ")
_NUMBERS = re.compile(r"\d[\d.]*( ?(ns|us|ms|s|packets?|SYNs?)\b)?")


def _logged(path: Path, text: str) -> str:
    """Write a traceback where it can be written; where it is, or why it is not."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        return f"its traceback cannot be written: {problem.strerror}"
    return f"traceback: {path}"


def reproduce(
    chosen: Sequence[Row], lab: Lab, on_verdict: Callable[[Verdict], None] | None = None
) -> tuple[list[Verdict], bool]:
    """Judge the rows in order; return their verdicts and whether Ctrl-C cut the list short.

    After every row `out`/verdicts.json is written, so that what was finished outlives whatever happens next;
    a disk that does not take it stops nothing, because the caller has the verdicts. Rows that were not
    reached are `not run`.
    """
    verdicts: list[Verdict] = []
    interrupted = False
    for row in chosen:
        if interrupted:
            verdict = Verdict(row, NOT_RUN, "", "interrupted before this row", 0.0)
        else:
            started = time.perf_counter()
            try:
                verdict = judge(row, lab)
            except KeyboardInterrupt:
                interrupted = True
                verdict = Verdict(
                    row, NOT_RUN, "", "interrupted during this row", time.perf_counter() - started
                )
        verdicts.append(verdict)
        with suppress(OSError):
            write(verdicts, lab.out)
        if on_verdict:
            on_verdict(verdict)
    return verdicts, interrupted


def write(verdicts: Sequence[Verdict], out: Path) -> Path:
    """Write `out`/verdicts.json, the document of `reproduce --json`, and the numbers behind it, one file per
    row under `out`/measurements; return the path of the first. Raises OSError.
    """
    out.mkdir(parents=True, exist_ok=True)
    for v in verdicts:
        if v.measurement is not None:
            place = out / "measurements" / f"{v.row.id.replace('/', '-')}.json"
            place.parent.mkdir(exist_ok=True)
            results.put(place, json.dumps(plain(v.measurement), indent=1) + "\n")
    path = out / "verdicts.json"
    results.put(path, json.dumps([v.document() for v in verdicts], indent=2) + "\n")
    return path
