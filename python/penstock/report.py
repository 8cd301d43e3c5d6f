"""One self-contained HTML page: verdicts, tables, figures and how they came about.

The page opens from disk without a network: style and figures are inside it. Figures are inline SVG that
follows the reader's light or dark page; a figure that would be very large as SVG is embedded as PNG.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from penstock import results
from penstock.figures import INK
from penstock.ledger import PAPERS, VERDICTS, Verdict

# Beyond this a browser is slow to draw a figure: a few thousand points.
_SVG_LIMIT_BYTES = 400_000


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column is a heading, the others are right-aligned when `numbers` is set."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers: bool = True


@dataclass(frozen=True)
class Section:
    """One block of the page: paragraphs, then figures with captions, then tables.

    `verdict` is the text of a badge, `kind` the verdict that colours it ("" = the text itself); `warnings`
    are what its runs warned of, `commands` go one below the other as they are.
    """

    title: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[tuple[Path, str]] = ()
    tables: Sequence[Table] = ()
    verdict: str = ""
    kind: str = ""
    anchor: str = ""
    facts: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()
    commands: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """Everything the template needs. `provenance` is shown as JSON at the end."""

    title: str
    lead: str
    sections: Sequence[Section]
    provenance: dict[str, Any] = field(default_factory=dict)
    summary: Table | None = None
    counts: Sequence[tuple[str, int]] = ()


def write(page: Page, path: Path) -> Path:
    """Render `page` to `path` and return the path."""
    env = Environment(
        loader=PackageLoader("penstock", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    number = iter(range(1, 10_000))
    env.filters["figure"] = lambda figure: embed(figure, next(number))
    env.filters["slug"] = slug
    text = env.get_template("report.html.j2").render(
        page=page, provenance=json.dumps({**page.provenance, "host": results.host()}, indent=2)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def verdicts(found: Sequence[Verdict], path: Path, *, quick: bool, provenance: dict[str, Any]) -> Path:
    """The ledger's report: the verdict table, then one section per row with statement and finding."""
    counts = [(name, sum(v.verdict == name for v in found)) for name in VERDICTS]
    keys = [key for key in PAPERS if any(v.row.paper == key for v in found)]
    sections = [
        Section(
            title=f"{v.row.id}  {v.row.title}",
            verdict=v.shown,
            kind=v.verdict,
            anchor=slug(v.row.id),
            facts=[
                (name, text)
                for name, text in (
                    # Of a row with claims the table says it, claim by claim.
                    ("Stated", "" if v.row.claims else v.row.stated),
                    ("Measured", "" if v.row.claims else v.measured),
                    ("Reason", "" if v.row.claims and v.claims else v.reason),
                    ("Bottleneck", ", ".join(v.bottlenecks)),
                )
                if text
            ],
            warnings=v.warnings,
            tables=[_claims(v)] if v.row.claims and v.claims else [],
            figures=[(figure, "") for figure in v.figures],
        )
        for key in keys
        for v in found
        if v.row.paper == key
    ]
    length = "quick (fewer points and replications)" if quick else "full"
    lead = (
        f"{len(found)} published statements, each judged by a check that runs the experiment anew. "
        f"Length of the runs: {length}. A row that differs says why, found by experiment."
    )
    page = Page("penstock: the ledger", lead, sections, provenance, counts=[c for c in counts if c[1]])
    return write(page, path)


def _claims(verdict: Verdict) -> Table:
    """The claims of a row: what is stated, where, what was measured and how it was judged."""
    rows = [
        (
            one.claim.text + (f" (as {one.claim.same_as})" if one.claim.same_as else ""),
            one.verdict,
            f"“{one.claim.quote}”, {one.claim.where}" if one.claim.quote else one.claim.where,
            "\n".join(text for text in (one.measured, one.reason) if text),
            f"{one.claim.criterion.text}" + (f": {one.claim.why}" if one.claim.why else ""),
            one.holds_when,
        )
        for one in verdict.claims
    ]
    columns = ("claim", "verdict", "the paper", "measured", "criterion", "over the open parameters")
    return Table(columns, rows, numbers=False)


def embed(figure: Path, number: int) -> Markup:
    """The figure saved at `figure` (PNG, with an SVG beside it) as markup; `number` keeps the ids of a page
    apart.
    """
    svg = figure.with_suffix(".svg")
    if svg.exists() and svg.stat().st_size <= _SVG_LIMIT_BYTES:
        return Markup(inline_svg(svg.read_text(encoding="utf-8"), f"f{number}-"))
    data = base64.b64encode(figure.read_bytes()).decode("ascii")
    return Markup(f'<img alt="" src="data:image/png;base64,{data}">')


def inline_svg(text: str, prefix: str) -> str:
    """A matplotlib SVG made fit for a page: no prolog, own ids, scalable, ink in the page's text colour."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'href="#', f'href="#{prefix}', text)
    text = re.sub(r"url\(#", f"url(#{prefix}", text)
    return re.sub(re.escape(INK), "currentColor", text, flags=re.IGNORECASE)


def slug(text: str) -> str:
    """`text` as an anchor: letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
