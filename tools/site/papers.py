"""One page per judged paper: every row with its claims, as they are pinned."""

from __future__ import annotations

from typing import Any

from reference import md, table

from penstock import ledger
from penstock.ledger import holding, pinned

#: Where docs/papers/index.md has the list of these pages.
MARK = "<!-- papers -->"


def name(paper: str) -> str:
    """Path of a paper's page from the root of the site, without the ending."""
    return f"papers/claims-{paper}"


def pages() -> dict[str, str]:
    """Every page by its path from the root of the site, without the ending."""
    return {name(paper): _page(paper) for paper in ledger.PAPERS}


def index() -> str:
    """The list of the pages, as docs/papers/index.md has it, and its toctree."""
    paths = [name(paper).removeprefix("papers/") for paper in ledger.PAPERS]
    links = [f"- [{path.removeprefix('claims-')}]({path}.md)" for path in paths]
    return "\n".join([*links, "", "```{toctree}", ":hidden:", "", *paths, "```"])


def _page(paper: str) -> str:
    pins = pinned.load(paper)
    lines = [
        f"# Claims: {paper}",
        "",
        "Made from the rows and their pinned verdicts, at full length where there is one. "
        "[How claims are judged](index.md) explains the words.",
        "",
    ]
    for row in ledger.rows():
        if row.paper == paper:
            lines += _row(row, pins)
    return "\n".join(lines) + "\n"


def _row(row: ledger.Row, pins: dict[str, dict[str, Any]]) -> list[str]:
    rows, notes = [], []
    for claim in row.claims:
        pin: dict[str, Any] = next(
            (
                pins[length][key]
                for length in ("full", "quick")
                if (key := f"{row.id}/{claim.id}") in pins[length]
            ),
            {},
        )
        verdict = pin.get("verdict", "not pinned")
        same = f" (as {md(claim.same_as)})" if claim.same_as else ""
        measured = str(pin.get("measured", "")).partition("\n")[0] or _value(pin.get("value"))
        rows.append((md(claim.text) + same, md(claim.where), md(claim.stated), md(measured), verdict))
        if verdict == ledger.DIFFERS and not claim.same_as:
            where = holding.words(row, claim.id, verdict=verdict)
            why = "; ".join(str(reason[0]) for reason in pin.get("reasons", []))
            notes.append(
                f"- *{md(claim.text)}*: {md(where) or 'not searched'}."
                + (f" Reason: {md(why)}." if why else "")
            )
    shown = table(("claim", "where", "stated", "measured", "verdict"), rows)
    more = ["Claims that differ:", "", *notes, ""] if notes else []
    return [f"## {md(row.id)}: {md(row.title)}", "", shown, *more]


def _value(value: Any) -> str:
    """A pinned number with its interval, in three digits; empty where there is none."""
    if isinstance(value, float | int):
        return f"{value:.3g}"
    if isinstance(value, dict) and {"mean", "low", "high"} <= value.keys():
        return "{mean:.3g} ({low:.3g} to {high:.3g})".format(**value)
    return ""
