"""One self-contained HTML page: sections with figures and tables, and how they came about.

The page opens from disk without a network: style and figures are inside it (`penstock.svg`). The ledger has a
page of its own, `penstock_papers.ledger.page`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from penstock import results
from penstock.svg import Sprite


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


def write(page: Page, path: Path) -> Path:
    """Render `page` to `path` and return the path."""
    env = Environment(
        loader=PackageLoader("penstock", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sprite = Sprite()
    env.filters["figure"] = sprite.embed
    env.filters["slug"] = slug
    text = env.get_template("report.html.j2").render(
        page=page, sprite=sprite, provenance=json.dumps({**page.provenance, "host": results.host()}, indent=2)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def slug(text: str) -> str:
    """`text` as an anchor: letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
