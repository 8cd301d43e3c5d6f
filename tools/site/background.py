"""What the build puts into a page: protocols as implemented, and the verdicts of a paper."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import papers
from reference import ROOT, md, module_of, module_text, rust, table

from penstock import catalogue
from penstock_papers import ledger
from penstock_papers.ledger import outcomes, pinned

#: Where `make ledger` puts the page of verdicts.
LEDGER = ROOT / "out" / "ledger" / "report.html"
_MARK = re.compile(r"^<!-- (protocols|verdicts): (.+?) -->$", re.MULTILINE)


def filled(markdown: str, up: str) -> str:
    """A page with its marks replaced. `up` leads from the page to the root of the site.

    <!-- protocols: rcp xcp -->           what the files of these protocols say at their head
    <!-- verdicts: piqi-rcp -->           the rows of the paper's ledger
    """
    makers = {"protocols": _protocols, "verdicts": _verdicts}
    return _MARK.sub(lambda mark: makers[mark[1]](mark[2], up), markdown)


def _protocols(names: str, up: str) -> str:
    known: dict[str, dict[str, Any]] = {}
    everything = catalogue.find(None)
    for group in ("protocols", "receive_controls", "host_controllers", "queues"):
        known |= {entry["name"]: {**entry, "group": group} for entry in everything[group]}
    lines: list[str] = []
    told: set[Path] = set()
    for name in names.split():
        entry = known[name]
        text = entry["text"]
        folder = "queues" if entry["group"] == "queues" else "protocols"
        lines += [
            f"### {name}",
            "",
            f"{md(text[:1].upper() + text[1:])}. [Parameters]({up}reference/{folder}/{name}.md)."
            f" Source: {md(entry['source'])}.",
            "",
        ]
        path = module_of(name) if folder == "protocols" else None
        if path and path not in told:
            told.add(path)
            lines += [
                *(f"> {line}".rstrip() for line in module_text(path).splitlines()),
                "",
                f"({rust(path, path.name)})",
                "",
            ]
    return "\n".join(lines)


def _verdicts(paper: str, up: str) -> str:
    known = pinned.load(paper)
    verdict = _tool("verdicts").verdict
    # A row that is newer than the page has no place there yet.
    page = LEDGER.with_name(f"{LEDGER.stem}-{paper}{LEDGER.suffix}")
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    rows = []
    for row in ledger.rows():
        if row.paper != paper:
            continue
        found = [
            outcomes.outcome(row, claim, verdict(known, f"{row.id}/{claim.id}")[0])
            for claim in row.claims
            if not claim.same_as
        ]
        counts = [str(found.count(kind) or "") for kind in outcomes.COUNTED]
        shown = f'id="{anchor(row.id)}"' in text
        name = f"[{row.id}](site:verdicts-{paper}.html#{anchor(row.id)})" if shown else row.id
        rows.append((name, md(row.title), *counts))
    heads = [outcomes.WORDS[kind] for kind in outcomes.COUNTED]
    shown_rows = table(("row", "what", *heads), rows)
    return f"{shown_rows}\n[Every statement]({up}{papers.name(paper)}.md).\n"


def anchor(row: str) -> str:
    """Where a row is on the page of verdicts."""
    return re.sub(r"[^a-z0-9]+", "-", row.lower())


def _tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
