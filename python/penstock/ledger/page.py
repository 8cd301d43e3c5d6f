"""The ledger's pages: every claim of every paper on one screen, then papers, rows, claims. Offline.

All of it is readable without scripts; a short script adds the search. Each row and claim has an anchor of its
own (`#d-10`, `#d-10-rise`). A page of quick runs gives each claim the verdict that is pinned for it at full
length (docs/papers/verdicts.md), and marks claims for which the quick runs differ.
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
from penstock.ledger import holding, marks, pinned
from penstock.ledger.claims import IN_PART, NOT_RUN, UNEXPLAINED, Claim, Judged
from penstock.ledger.criteria import CONFIRMED, DIFFERS, UNDECIDED
from penstock.ledger.judging import Verdict, counts
from penstock.ledger.selection import PAPERS, REMEMBERED
from penstock.report import slug
from penstock.svg import Sprite

ORDER = (CONFIRMED, IN_PART, DIFFERS, UNDECIDED, NOT_RUN)
# What a search may have found, as the words of `holding.words` begin, and how it is counted.
_FOUND = {
    "robust": "confirmed and robust: stay so in at least 90 % of the space of open parameters",
    "mostly": "confirmed and mostly so in that space",
    "selected": "confirmed by the selection of parameters: hold in less than half of that space",
    "open": "are undecided in most of that space",
    "holds when": "differ at the chosen values and hold elsewhere in that space",
    "holds by no": "differ at the chosen values and hold elsewhere in that space by no simple rule",
    "holds in none": "differ in all of the space that was searched, but hold near its edge of least miss",
    "nowhere": "hold nowhere in that space",
    "the search's shorter runs": "have another verdict in the search's shorter runs at the same values",
    "no result": "have no result at any point of that space",
}


@dataclass(frozen=True)
class ClaimView:
    """A claim as the page shows it: `quick` has the judgement of the runs at hand where the verdict and its
    numbers are those that are pinned at full length. `seeds` says what the full length is with which seeds.
    """

    anchor: str
    claim: Claim
    verdict: str
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
        """The verdicts by which the row is found: those of its claims, its own where it has none."""
        return list(dict.fromkeys(slug(one.verdict) for one in self.claims)) or [slug(self.verdict.verdict)]


@dataclass(frozen=True)
class PaperView:
    """A paper: its rows, and what of it holds and what does not."""

    key: str
    title: str
    rows: Sequence[RowView]
    sentence: str
    searched: Sequence[str]
    joint: str
    counted: Sequence[tuple[str, int]]

    def claims(self, *verdicts: str) -> list[tuple[RowView, ClaimView]]:
        """The claims of these verdicts that are counted here."""
        return [
            (row, one)
            for row in self.rows
            for one in row.claims
            if one.verdict in verdicts and not one.repeats
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
        loader=PackageLoader("penstock", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["slug"] = slug
    sprite = Sprite()
    drawn: dict[str, str] = {}
    seed = int(provenance.get("seed", 1))
    here = counts(found)
    if quick:
        found = [pinned.settled(v) for v in found]
    # A list has no figures: they are on the papers' pages.
    shown = [replace(v, figures=()) for v in found] if places else found
    papers = [
        _paper(key, [v for v in shown if v.row.paper == key], sprite, drawn, quick=quick, seed=seed)
        for key in PAPERS
        if any(v.row.paper == key for v in found)
    ]
    tally = counts(found)
    text = env.get_template("ledger.html.j2").render(
        papers=papers,
        apart=places is not None,
        places=places or {paper.key: "" for paper in papers},
        back=back,
        remembered=[paper.key for paper in papers if paper.key in REMEMBERED],
        counted=[(name, tally[name]) for name in ORDER if tally[name]],
        rows=Counter(v.verdict for v in found),
        order=ORDER,
        total=sum(tally.values()),
        shown=sum(len(row.claims) for paper in papers for row in paper.rows),
        row_total=len(found),
        settled=sum(one.quick is not None and not one.claim.same_as for v in found for one in v.claims),
        here=[(name, here[name]) for name in ORDER if here[name]],
        quick=quick,
        seed=seed,
        provenance=json.dumps({**provenance, "host": results.host()}, indent=2),
        sprite=sprite.defs(),
        letters=marks.LETTERS,
        unexplained=UNEXPLAINED,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _paper(
    key: str, found: Sequence[Verdict], sprite: Sprite, drawn: dict[str, str], *, quick: bool, seed: int
) -> PaperView:
    rows = [_row(v, sprite, drawn, quick=quick, seed=seed) for v in found]
    tally = counts(found)
    words = {CONFIRMED: "hold", DIFFERS: "differ", UNDECIDED: "are undecided", NOT_RUN: "were not run"}
    parts = [f"{tally[name]} {text}" for name, text in words.items() if tally[name]]
    told = Counter(
        kind
        for row in rows
        for one in row.claims
        if not one.repeats
        for kind in _FOUND
        if one.holds_when.startswith(kind)
    )
    searched = [f"{told[kind]} {text}" for kind, text in _FOUND.items() if told[kind]]
    unsearched = sum(
        one.verdict == DIFFERS and not one.repeats and not one.holds_when
        for row in rows
        for one in row.claims
    )
    searched += [f"{unsearched} that differ are not searched yet"] if unsearched else []
    return PaperView(
        key,
        _title(key),
        rows,
        f"Of {tally.total()} claims {', '.join(parts)}.",
        searched,
        holding.joint(key),
        [(name, tally[name]) for name in ORDER if tally[name]],
    )


def _title(key: str) -> str:
    """What the paper's package says it is."""
    module = importlib.import_module(f"penstock.experiments.{PAPERS[key]}")
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
        [_claim(v, one, anchor) for one in v.claims]
        or [_missing(v, claim, anchor) for claim in v.row.claims],
        new,
        list(dict.fromkeys(before)),
        any(_width(figure) > _WIDE_PX for figure in new),
        command,
        runs if v.verdict != NOT_RUN else "",
        _full(v),
    )


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
        one.verdict,
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
    return ClaimView(where, claim, NOT_RUN, "", None, "", [], [], words, none, none, slug(claim.same_as))


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")


def _parts(evidence: str) -> list[str]:
    """The numbers of a reason, one line each."""
    return [part.strip() for part in evidence.split("; ") if part.strip()]
