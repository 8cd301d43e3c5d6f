"""What the ledger's committed records lack, and the runs that fill them, cheapest claim first.

    tools/records.py plan                           # what lacks, with the processor time that is expected
    tools/records.py seeds --out DIR --minutes 60   # rows at full length with seeds 1, 2 and 3, pinned
    tools/records.py searches --out DIR [ROW ...]   # the share of the space of claims that no search has

Rows named after it are the only ones considered, with those claims for which a search had no numbers. Runs
and points are kept in DIR, so that a stopped job resumes. Ctrl-C stops it, `--minutes` in all, or
`--row-minutes` of processor time for rows that share runs and a seed. A row is pinned as soon as it is
complete, and a stopped one is expected to take twice its time so far. Several processes may share one DIR:
each takes rows that no other has, and they write in turn. Figures are not drawn.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType

from penstock import results
from penstock.store import Store
from penstock_papers import ledger
from penstock_papers.ledger import holding, judging, pinned, search, selection

Entry = dict[str, float]

SEEDS = (1, 2, 3)
# Rows share runs; quick, those that found theirs took less than this (s), and go with the row before them.
SHARED_S = 0.15
# Points of a search with those at the boundary and single changes; a point takes this share of a quick row.
POINTS, POINT = 110, 0.5
# What a row that was stopped is expected to take, by what it has taken.
AGAIN = 2.0
# A stop may be lost: raised where exceptions are dropped (a callback of the collector), or never delivered.
# It is said again after so much time (s) more, longer than what was stopped needs to end.
REPEAT_S = 5.0


@dataclass(frozen=True)
class Work:
    """Rows that share their runs, and what is lacking of them: `claims` of them would be complete after
    `seconds` of processor time, with these seeds (none: a search).
    """

    rows: tuple[ledger.Row, ...]
    seeds: tuple[int, ...]
    claims: int
    seconds: float

    @property
    def name(self) -> str:
        """The first row's id."""
        return self.rows[0].id

    @property
    def words(self) -> str:
        """One line of the plan."""
        what = f"seeds {', '.join(map(str, self.seeds))}" if self.seeds else "search"
        rows = self.name if len(self.rows) == 1 else f"{self.name} to {self.rows[-1].id}"
        return f"{rows:<18} {what:<14} {self.claims:3} claims, some {self.seconds:.0f} s"


class Spent:
    """The processor time (s) that rows have taken, by "K-16 seed 3" or "P-11 search", kept in a file."""

    def __init__(self, out: Path) -> None:
        self.path = out / "spent.json"

    def read(self) -> dict[str, Entry]:
        """Of each: `seconds` in all, and `whole` (1) where it came to its end."""
        try:
            found: dict[str, Entry] = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def add(self, name: str, seconds: float, whole: bool) -> None:
        """What one more attempt took; the caller holds the lock."""
        known = self.read()
        before = known.get(name, {}).get("seconds", 0.0)
        known[name] = {"seconds": round(before + seconds, 1), "whole": float(whole)}
        results.put(self.path, json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def groups(rows: Sequence[ledger.Row]) -> list[tuple[ledger.Row, ...]]:
    """The rows in their order, together where they share a measurement or, quick, took no time of their
    own after one that did.
    """
    found: list[list[ledger.Row]] = []
    for row in rows:
        last = found[-1] if found and found[-1][0].paper == row.paper else None
        if last and (last[0].measure is row.measure or _quick(row) < SHARED_S <= _quick(last[0])):
            last.append(row)
        else:
            found.append([row])
    return [tuple(group) for group in found]


def _quick(row: ledger.Row) -> float:
    return pinned.seconds(row.paper, "quick").get(row.id, SHARED_S)


def longer(papers: Sequence[str] = tuple(ledger.PAPERS)) -> float:
    """How many times as long as quick a row takes at full length: all those of these papers that are pinned
    at both, together; where there is none, those of all papers.
    """
    long = short = 0.0
    for paper in papers:
        quick, full = (pinned.seconds(paper, length) for length in ("quick", "full"))
        both = [row for row in full if min(full[row], quick.get(row, 0.0)) >= SHARED_S]
        long, short = long + sum(full[row] for row in both), short + sum(quick[row] for row in both)
    if short > 0:
        return long / short
    return 1.0 if len(papers) == len(ledger.PAPERS) else longer()


def seeds_of(row: ledger.Row) -> list[set[int]]:
    """Of each claim of its own: the seeds that are pinned at full length."""
    known = pinned.by_seed(row.paper, "full")
    own = [claim for claim in row.claims if not claim.same_as]
    return [{int(seed) for seed in known.get(f"{row.id}/{claim.id}", {})} for claim in own]


def lacking_seeds(rows: Sequence[ledger.Row], spent: Mapping[str, Entry]) -> list[Work]:
    """What lacks the verdicts of three seeds at full length, cheapest claim first."""
    found = []
    for group in groups(rows):
        lacking = tuple(row for row in group if any(not set(SEEDS) <= there for there in seeds_of(row)))
        own = [there for row in lacking for there in seeds_of(row)]
        seeds = tuple(seed for seed in SEEDS if any(seed not in there for there in own))
        if not seeds:
            continue
        name = lacking[0].id
        whole = [took for seed in SEEDS if (took := _took(spent, f"{name} seed {seed}", True))]
        once = statistics.mean(whole) if whole else sum(_guess(row) for row in group)
        seconds = sum(max(once, AGAIN * _took(spent, f"{name} seed {seed}", False)) for seed in seeds)
        found.append(Work(lacking, seeds, sum(not set(SEEDS) <= there for there in own), seconds))
    return sorted(found, key=lambda work: work.seconds / work.claims)


def _guess(row: ledger.Row) -> float:
    """What one seed of a row at full length is expected to take (s): what is undecided is measured on."""
    full = pinned.seconds(row.paper, "full").get(row.id)
    if full is not None:
        return full
    undecided = any(
        ledger.UNDECIDED in pinned.by_seed(row.paper, length).get(f"{row.id}/{claim.id}", {}).values()
        for length in pinned.LENGTHS
        for claim in row.claims
    )
    return longer([row.paper]) * _quick(row) * (row.budget if undecided else 1)


def lacking_searches(
    rows: Sequence[ledger.Row], spent: Mapping[str, Entry], *, named: bool = False
) -> list[Work]:
    """Return rows with claims that are confirmed or differ and were not searched, cheapest claim first.
    Claims without numbers ("unprobed") are included only if the rows are `named`, because their probes may
    have them now.
    """
    # The first of rows that share runs has the time of these; their probes measure what it measures.
    first = {row.id: _quick(group[0]) for group in groups(rows) for row in group}
    found = []
    for row in search.searchable(rows):
        entry = holding.document(row.paper)["rows"].get(row.id)
        there: set[str] = set()
        if entry is not None and not holding.stale(row, entry):
            kept = (
                name
                for name, what in entry["claims"].items()
                if holding.by_present_criterion(row, name, what)
            )
            there = {*kept, *(() if named else entry.get("unprobed", ()))}
        known = pinned.load(row.paper)
        lacking = [claim.id for claim in row.claims if not claim.same_as and claim.id not in there]
        names = [f"{row.id}/{claim}" for claim in lacking]
        pins = [[known[at][name] for at in pinned.LENGTHS if name in known.get(at, {})] for name in names]
        claims = sum(not at or at[0]["verdict"] != ledger.UNDECIDED for at in pins)
        if claims:
            guess = POINTS * POINT * max(first[row.id], SHARED_S)
            seconds = max(guess, AGAIN * _took(spent, f"{row.id} search", False))
            found.append(Work((row,), (), claims, seconds))
    return sorted(found, key=lambda work: work.seconds / work.claims)


def _took(spent: Mapping[str, Entry], name: str, whole: bool) -> float:
    entry = spent.get(name, {})
    return entry["seconds"] if entry and bool(entry["whole"]) == whole else 0.0


class Stopped(KeyboardInterrupt):
    """The processor time of a row, or the time for everything, is over."""


@contextlib.contextmanager
def limited(row_s: float, until: float) -> Iterator[None]:
    """Raise `Stopped` after so much processor time of this process, or at this moment (`time.monotonic`)."""

    over: list[str] = []

    def stop(number: int, _: FrameType | None) -> None:
        over.append("processor time" if number == signal.SIGPROF else "time")
        raise Stopped(over[0])

    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    try:
        signal.setitimer(signal.ITIMER_PROF, row_s, REPEAT_S)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, until - time.monotonic()), REPEAT_S)
        yield
    except KeyboardInterrupt:
        # What runs simulations ends with an interrupt of its own.
        if over:
            raise Stopped(over[0]) from None
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Whether this process has the file to itself; with `wait` it does when it goes on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def fill_seed(work: Work, seed: int, out: Path) -> None:
    """Judge the rows that lack a seed at full length with it, and pin each. KeyboardInterrupt passes through.

    Raises RuntimeError where a row's check fails.
    """
    lab = ledger.Lab(out, quick=False, jobs=1, seed=seed, store=Store(out / "store", "--out"))
    for row in work.rows:
        if all(seed in there for there in seeds_of(row)):
            continue
        verdict = judging.judge(replace(row, draw=None), lab)
        if verdict.verdict == ledger.NOT_RUN:
            raise RuntimeError(f"{row.id}: {verdict.reason}")
        with locked(out / "pins.lock"):
            pinned.write([verdict], "full", seed=seed)
        print(f"{row.id:<12} seed {seed}  {verdict.shown:<18} {verdict.seconds:.0f} s", flush=True)


def fill_search(work: Work, out: Path) -> None:
    """Search a row's space and write what was found beside the rows. KeyboardInterrupt passes through."""
    (row,) = work.rows
    entry = search.search(row, ledger.Lab(out, jobs=1, store=Store(out / "store", "--out")))
    path = selection.folder(row.paper) / holding.FILE
    with locked(out / "pins.lock"):
        search.write(search.merged(holding.document(row.paper, path), {row.id: entry}), path)
    for claim in row.claims:
        print(f"{row.id}/{claim.id}: {holding.words(row, claim.id)}", flush=True)


def fill(
    what: str,
    rows: Sequence[ledger.Row],
    out: Path,
    minutes: float,
    row_minutes: float,
    *,
    named: bool = False,
) -> int:
    """Do what lacks, cheapest claim first, until nothing does or the time is over; each row and seed once.
    `named`: rows that were asked for by name. 1 where something failed, otherwise 0.
    """
    until, spent, done, code = time.monotonic() + 60 * minutes, Spent(out), set[str](), 0
    lacking = lacking_seeds if what == "seeds" else partial(lacking_searches, named=named)
    while time.monotonic() < until:
        name = ""
        for work in lacking(rows, spent.read()):
            names = [f"{work.name} seed {seed}" for seed in work.seeds] or [f"{work.name} search"]
            name = next((each for each in names if each not in done), "")
            if name:
                break
        if not name:
            break
        done.add(name)
        with locked(out / f"{name.replace('/', '-').replace(' ', '-')}.lock", wait=False) as mine:
            if not mine:
                continue
            began, whole = time.process_time(), False
            try:
                with limited(60 * row_minutes, until):
                    fill_seed(work, int(name.split()[-1]), out) if work.seeds else fill_search(work, out)
                whole = True
            except Stopped as stopped:
                print(f"{name}: stopped, its {stopped} is over; kept in {out}", flush=True)
            except (RuntimeError, ValueError) as problem:
                print(f"{name}: {problem}", file=sys.stderr, flush=True)
                code = 1
            finally:
                with locked(out / "pins.lock"):
                    spent.add(name, time.process_time() - began, whole)
    return code


def main() -> int:
    """Say what lacks, or fill it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("plan", "seeds", "searches"))
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows by id; all where none is named")
    parser.add_argument("--out", type=Path, default=Path("out/records"), help="where runs are kept")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so much time")
    parser.add_argument("--row-minutes", type=float, default=15.0, help="processor time of a row and seed")
    given = parser.parse_intermixed_args()
    rows = ledger.select(given.rows)
    if given.what == "plan":
        spent = Spent(given.out).read()
        for work in [*lacking_seeds(rows, spent), *lacking_searches(rows, spent, named=bool(given.rows))]:
            print(work.words)
        return 0
    results.writable(given.out)
    # In the background a shell has Ctrl-C ignored: what ends such a process is the other signal.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return fill(given.what, rows, given.out, given.minutes, given.row_minutes, named=bool(given.rows))
    except KeyboardInterrupt:
        print(f"interrupted: what was run is kept in {given.out}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
