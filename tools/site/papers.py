"""One page per judged paper: its statements with their outcomes, as they are pinned."""

from __future__ import annotations

from typing import Any

from reference import md

from penstock_papers import ledger
from penstock_papers.ledger import holding, outcomes, pinned
from penstock_papers.ledger.claims import from_plain, show
from penstock_papers.ledger.selection import statements_of

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
    """The statements of a paper: its sentence, the outcome in one sentence, and what would make it hold."""
    pins = pinned.load(paper)
    rows = {row.id: row for row in ledger.rows() if row.paper == paper}
    claims = {f"{row.id}/{c.id}": (row, c) for row in rows.values() for c in row.claims if not c.same_as}
    lines = [
        f"# Statements: {paper}",
        "",
        "Made from claims.toml and the pinned verdicts, at full length where there is one. "
        "[How claims are judged](index.md) explains the words.",
        "",
    ]
    for statement in statements_of(paper).statements:
        lines += [
            f"## {md(statement.where)}" + (f": {md(rows[r].title)}" if (r := _row(statement)) else ""),
            "",
        ]
        lines += [f"> {md(statement.quote)}", ""] if statement.quote else []
        for name in statement.checks:
            lines += _check(*claims[name], pins)
        if statement.not_judged:
            lines += [f"Not judged: {md(statement.not_judged)}.", ""]
    return "\n".join(lines) + "\n"


def _row(statement: ledger.Statement) -> str:
    return statement.checks[0].partition("/")[0] if statement.checks else ""


def _check(row: ledger.Row, claim: ledger.Claim, pins: dict[str, dict[str, Any]]) -> list[str]:
    name = f"{row.id}/{claim.id}"
    pin: dict[str, Any] = next(
        (pins[length][name] for length in ("full", "quick") if name in pins.get(length, {})), {}
    )
    verdict = pin.get("verdict", ledger.NOT_RUN)
    outcome = outcomes.outcome(row, claim, verdict)
    measured = str(pin.get("measured", "")).partition("\n")[0]
    measured = measured or show(from_plain(pin.get("value")), claim.unit)
    why = "; ".join(str(reason[0]) for reason in pin.get("reasons", []))
    lines = [
        f"**{md(name)}: {outcomes.WORDS[outcome]}.** {md(outcomes.sentence(claim, outcome, measured, why))}"
    ]
    lines += [f"Our reading: {md(claim.why)}."] if claim.why else []
    where = holding.words(row, claim.id, verdict=verdict) if outcome == outcomes.FAILS else ""
    lines += [f"To hold: {md(where)}."] if where else []
    return [line for part in lines for line in (part, "")]
