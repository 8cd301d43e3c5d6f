"""The ledger's pages: every claim of every paper on one screen, then papers, rows, statements. Offline.

The front page counts statements by outcome: of the papers whose texts were at hand, and apart from these of
those that were judged from memory. A paper's page has beside each figure its statements: the paper's
sentence, the outcome in one sentence, and what would have to be true for it to hold. All of it is readable
without scripts; a short script adds the search. Each row and claim has an anchor (`#d-10`, `#d-10-rise`). A
page of quick runs gives each claim the outcome that is pinned for it at full length
(docs/papers/verdicts.md), and marks claims for which the quick runs differ.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from penstock import results
from penstock.report import slug
from penstock.svg import Sprite
from penstock_papers.ledger import holding, marks, outcomes, pinned
from penstock_papers.ledger.claims import NOT_RUN, UNEXPLAINED, Claim, Judged
from penstock_papers.ledger.judging import Verdict, judged_in
from penstock_papers.ledger.outcomes import OUTCOMES, WORDS
from penstock_papers.ledger.selection import PAPERS, REMEMBERED, REPRODUCED

# A page of more than this goes without the series of its figures.
LIMIT_BYTES = 1_000_000


@dataclass(frozen=True)
class ClaimView:
    """A claim as the page shows it: `quick` has the judgement of the runs at hand where the outcome and its
    numbers are those that are pinned at full length. `seeds` says what the full length is with which seeds,
    `first` whether it is the first of its row that checks its statement.
    """

    anchor: str
    claim: Claim
    outcome: str
    sentence: str
    measured: str
    quick: Judged | None
    seeds: str
    because: Sequence[tuple[str, Sequence[str]]]
    excluded: Sequence[tuple[str, Sequence[str]]]
    holds_when: str
    gauge: Markup
    map: Markup
    repeats: str
    """The anchor of the claim that this one shows again."""
    first: bool = True


@dataclass(frozen=True)
class RowView:
    """A row as the page shows it. A figure that was shown before is a link to the row that has it."""

    anchor: str
    verdict: Verdict
    claims: Sequence[ClaimView]
    figures: Sequence[Markup]
    shown_before: Sequence[str]
    wide: bool
    command: str
    runs: str
    full: str
    """How its full length is run, where this page is of quick runs and has pinned verdicts."""

    @property
    def kinds(self) -> list[str]:
        """The outcomes by which the row is found: those of its claims."""
        return list(dict.fromkeys(slug(one.outcome) for one in self.claims))

    @property
    def outcome(self) -> str:
        """What all its claims come to together."""
        return outcomes.together(one.outcome for one in self.claims)

    @property
    def holding(self) -> str:
        """How many of its claims hold, of those that count."""
        counted = [one.outcome for one in self.claims if one.outcome in outcomes.COUNTED]
        held = sum(one in (outcomes.ROBUST, outcomes.CHOSEN) for one in counted)
        return f"{held} of {len(counted)} hold" if counted else WORDS[self.outcome]


@dataclass(frozen=True)
class PaperView:
    """A paper: its rows, and what of it holds and what does not."""

    key: str
    title: str
    rows: Sequence[RowView]
    sentence: str
    joint: str
    counted: Sequence[tuple[str, int]]
    reproduced: bool
    """Whether it is judged from memory, and so apart from the papers whose texts were at hand."""

    def claims(self, *wanted: str) -> list[tuple[RowView, ClaimView]]:
        """The claims of these outcomes that are counted here."""
        return [
            (row, one) for row in self.rows for one in row.claims if one.outcome in wanted and not one.repeats
        ]


def write_all(found: Sequence[Verdict], path: Path, *, quick: bool, provenance: dict[str, Any]) -> Path:
    """Write the verdicts of several papers: one page for each beside `path` (`report-incast.html`), and to
    `path` the list of all claims with links into them. Verdicts of one paper are one page, `path` itself.
    Returns `path`. Raises OSError.
    """
    keys = [key for key in PAPERS if any(v.row.paper == key for v in found)]
    if len(keys) < 2:
        return write(found, path, quick=quick, provenance=provenance)
    places = {key: f"{path.stem}-{key}{path.suffix}" for key in keys}
    for key, name in places.items():
        own = [v for v in found if v.row.paper == key]
        write(own, path.with_name(name), quick=quick, provenance=provenance, back=path.name)
    return write(found, path, quick=quick, provenance=provenance, places=places)


def write(
    found: Sequence[Verdict],
    path: Path,
    *,
    quick: bool,
    provenance: dict[str, Any],
    places: Mapping[str, str] | None = None,
    back: str = "",
) -> Path:
    """Write the page of these verdicts to `path` and return the path. `places`: the pages of the papers,
    where rows and figures are on pages of their own; `back`: the page that lists them all. Raises OSError.
    """
    env = Environment(
        loader=PackageLoader("penstock_papers", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["slug"] = slug
    sprite = Sprite()
    drawn: dict[str, str] = {}
    seed = int(provenance.get("seed", 1))
    here = Counter(one for _, claim, one in judged_in(found) if not claim.same_as)
    if quick:
        found = [pinned.settled(v) for v in found]
    # A list has no figures: they are on the papers' pages.
    shown = [replace(v, figures=()) for v in found] if places else found
    papers = [
        _paper(key, [v for v in shown if v.row.paper == key], sprite, drawn, quick=quick, seed=seed)
        for key in PAPERS
        if any(v.row.paper == key for v in found)
    ]
    judged = judged_in(found)
    tally = Counter(one for _, claim, one in judged if not claim.same_as)
    statements = outcomes.of_statements(judged)
    parts = [
        (title, outcomes.tally(statements, keys))
        for title, keys in (
            ("statements of papers, judged by their texts", set(PAPERS) - set(REPRODUCED)),
            ("reproductions of headline statements and published data", REPRODUCED),
        )
    ]
    shown_with = {
        "papers": papers,
        "apart": places is not None,
        "places": places or {paper.key: "" for paper in papers},
        "back": back,
        "remembered": [paper.key for paper in papers if paper.key in REMEMBERED],
        "parts": [(title, _ordered(found), sum(found.values())) for title, found in parts if found],
        "words": WORDS,
        "total": sum(tally.values()),
        "shown": sum(len(row.claims) for paper in papers for row in paper.rows),
        "row_total": len(found),
        "settled": sum(one.quick is not None and not one.claim.same_as for v in found for one in v.claims),
        "here": _ordered(here),
        "counted": _ordered(tally),
        "quick": quick,
        "seed": seed,
        "provenance": json.dumps({**provenance, "host": results.host()}, indent=2),
        "letters": marks.LETTERS,
        "unexplained": UNEXPLAINED,
    }
    template = env.get_template("ledger.html.j2")
    text = template.render(**shown_with, sprite=sprite.defs())
    if len(text.encode()) > LIMIT_BYTES:
        # Figures stay as printed.
        sprite.plots = False
        text = template.render(**shown_with, sprite=sprite.defs())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _ordered(found: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(name, found[name]) for name in OUTCOMES if found.get(name)]


def _paper(
    key: str, found: Sequence[Verdict], sprite: Sprite, drawn: dict[str, str], *, quick: bool, seed: int
) -> PaperView:
    rows = [_row(v, sprite, drawn, quick=quick, seed=seed) for v in found]
    tally = outcomes.tally(outcomes.of_statements(judged_in(found)), [key])
    counted = _ordered(tally)
    parts = [f"{number} {WORDS[name]}" for name, number in counted]
    total = sum(tally[name] for name in outcomes.COUNTED)
    sentence = f"Of {total} statements that count: {', '.join(parts)}."
    return PaperView(key, _title(key), rows, sentence, holding.joint(key), counted, key in REPRODUCED)


def _title(key: str) -> str:
    """What the paper's package says it is."""
    module = importlib.import_module(f"penstock_papers.experiments.{PAPERS[key]}")
    return (module.__doc__ or key).strip().split("\n")[0].rstrip(".")


def _row(v: Verdict, sprite: Sprite, drawn: dict[str, str], *, quick: bool, seed: int) -> RowView:
    anchor = slug(v.row.id)
    new, before = [], []
    for path in v.figures:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in drawn:
            before.append(drawn[digest])
        else:
            drawn[digest] = v.row.id
            new.append(sprite.embed(path))
    command = (
        f"penstock reproduce {v.row.id}{'' if quick else ' --full'}{f' --seed {seed}' if seed != 1 else ''}"
    )
    if v.runs:
        runs = f"{v.runs} simulated runs of {v.points} point{'s' if v.points > 1 else ''}, seed {seed}"
    else:
        runs = "no simulation: a model answers"
    return RowView(
        anchor,
        v,
        _grouped(
            [_claim(v, one, anchor) for one in v.claims]
            or [_missing(v, claim, anchor) for claim in v.row.claims]
        ),
        new,
        list(dict.fromkeys(before)),
        any(_width(figure) > _WIDE_PX for figure in new),
        command,
        runs if v.verdict != NOT_RUN else "",
        _full(v),
    )


def _grouped(claims: Sequence[ClaimView]) -> list[ClaimView]:
    """Claims of one statement together, the first of each marked."""
    by_statement: dict[str, list[ClaimView]] = {}
    for one in claims:
        by_statement.setdefault(one.claim.statement or one.anchor, []).append(one)
    return [replace(one, first=i == 0) for own in by_statement.values() for i, one in enumerate(own)]


def _full(v: Verdict) -> str:
    if all(one.quick is None for one in v.claims):
        return ""
    took = pinned.seconds(v.row.paper, pinned.FULL).get(v.row.id, 0.0)
    # Rows that share runs with one before them took no time of their own.
    return "--full" + (f", some {took:.0f} s of one core for a seed" if took >= 1 else "")


# Figures wider than this have no room beside the claims: there they would be drawn below 0.8 of their size.
_WIDE_PX = 742


def _width(figure: Markup) -> float:
    return float(figure.partition("--w:")[2].partition("px")[0] or 0)


def _claim(v: Verdict, one: Judged, row: str) -> ClaimView:
    found = holding.map_of(v.row, one.claim.id)
    seeds = pinned.by_seed(v.row.paper, pinned.FULL).get(f"{v.row.id}/{one.claim.id}", {})
    return ClaimView(
        f"{row}-{slug(one.claim.id)}",
        one.claim,
        one.outcome,
        outcomes.sentence(one.claim, one.outcome, one.measured, one.because[0][0] if one.because else ""),
        one.measured,
        one.quick,
        pinned.agreement(seeds) if one.quick is not None else "",
        [(_sentence(text), _parts(evidence)) for text, evidence in one.because]
        or ([(_sentence(one.reason), [])] if one.reason else []),
        [(_sentence(text), _parts(evidence)) for text, evidence in one.excluded],
        one.holds_when,
        marks.gauge(one),
        Markup("") if found is None else marks.map_svg(found),
        slug(one.claim.same_as.replace("/", "-")),
    )


def _missing(v: Verdict, claim: Claim, row: str) -> ClaimView:
    """A claim of a row that was not run."""
    where, none, words = f"{row}-{slug(claim.id)}", Markup(""), holding.words(v.row, claim.id)
    said, again = outcomes.sentence(claim, NOT_RUN, ""), slug(claim.same_as)
    return ClaimView(where, claim, NOT_RUN, said, "", None, "", [], [], words, none, none, again)


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")


def _parts(evidence: str) -> list[str]:
    """The numbers of a reason, one line each."""
    return [part.strip() for part in evidence.split("; ") if part.strip()]
