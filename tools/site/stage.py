"""The pages of the site, laid out as Sphinx reads them: docs/, some documents of the repository, the
reference, and what blocks print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import background
import blocks
import drawn
import papers
import reference

from penstock_papers import ledger

ROOT = reference.ROOT
DOCS = ROOT / "docs"
#: Documents of the repository that are pages too.
PROJECT = {
    "ARCHITECTURE.md": "contributing/architecture.md",
    "CONTRIBUTING.md": "contributing/contributing.md",
    "CHANGELOG.md": "contributing/changelog.md",
    "SECURITY.md": "contributing/security.md",
}
#: What is not for Sphinx: HTML is put beside the pages as it is.
VERDICTS = "verdicts.html"
#: The page of verdicts that `make ledger`, or `penstock reproduce --all`, writes.
LEDGER = background.LEDGER
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
_FENCED = re.compile(r"(^```[\s\S]*?^```$|^    [^\n]*$)", re.MULTILINE)


def lay_out(stage: Path, run: bool = True) -> None:
    """Write all pages below `stage`, anew. `run=False` leaves blocks as they are."""
    shutil.rmtree(stage, ignore_errors=True)
    (stage / "_extra").mkdir(parents=True)
    shutil.copytree(DOCS / "_static", stage / "_static")
    shutil.copy(DOCS / "conf.py", stage)
    _verdicts(stage / "_extra" / VERDICTS, run)
    if run and (why := drawn.still(stage / "_still.png")):
        print(f"site: the still is the repository's: {why}", file=sys.stderr)
    # Before any block runs: a controller that a page loads is known from then on.
    reference_pages = reference.pages()
    for path in sorted(DOCS.rglob("*.md")):
        page = path.relative_to(DOCS).as_posix()
        text = path.read_text(encoding="utf-8")
        if run:
            figures = stage / "figures" / "work" / page.removesuffix(".md")
            text = blocks.run_page(text, page, figures, os.path.relpath(figures, (stage / page).parent))
            text = drawn.drawn(text, path, stage / page, stage / "figures")
        text = text.replace(reference.MARK, reference_pages["index"]).replace(papers.MARK, papers.index())
        _write(stage, page, path, text)
    for name, page in PROJECT.items():
        if (ROOT / name).exists():
            text = (ROOT / name).read_text(encoding="utf-8")
            _write(stage, page, ROOT / name, drawn.drawn(text, ROOT / name, stage / page, stage / "figures"))
    for page, text in papers.pages().items():
        _write(stage, f"{page}.md", stage / f"{page}.md", text)
    for page, text in reference_pages.items():
        if page == "index":
            continue
        _write(stage, f"reference/{page}.md", stage / f"reference/{page}.md", text)


def _verdicts(target: Path, run: bool) -> None:
    """The page of verdicts: the one that is there with all papers, else made from quick runs."""
    if run and not whole(LEDGER):
        print("site: every row of the ledger runs, quick: some minutes", file=sys.stderr)
        command = [sys.executable, "-m", "penstock", "reproduce", "--all", "--quick"]
        subprocess.run([*command, "--out", str(LEDGER.parent)], cwd=ROOT, check=True, stdout=sys.stderr)
    if LEDGER.exists():
        copy_verdicts(LEDGER, target)
    else:
        target.write_text("<!doctype html><title>Verdicts</title><p>Not built: make ledger</p>\n", "utf-8")


def copy_verdicts(page: Path, target: Path) -> None:
    """Put the list of verdicts at `target`, and the page of each paper beside it: they link to each other by
    name, which begins with that of the list.
    """
    for file in [page, *page.parent.glob(f"{page.stem}-*{page.suffix}")]:
        text = file.read_text(encoding="utf-8")
        text = text.replace(f'href="{page.stem}-', f'href="{target.stem}-')
        text = text.replace(f'href="{page.name}', f'href="{target.name}')
        name = target.stem + file.stem.removeprefix(page.stem) + target.suffix
        target.with_name(name).write_text(text, encoding="utf-8")


def whole(page: Path) -> bool:
    """Does this report have every paper? One of a few rows has not."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return all(f'id="paper-{paper}"' in text for paper in ledger.PAPERS)


def _write(stage: Path, page: str, source: Path, text: str) -> None:
    up = "../" * page.count("/")
    text = background.filled(text, up)
    # Sphinx knows no highlighting for these.
    text = re.sub(r"^```(csv|json5)$", "```text", text, flags=re.MULTILINE)
    parts = _FENCED.split(text)
    text = "".join(part if i % 2 else _linked(part, stage, page, source) for i, part in enumerate(parts))
    target = stage / page
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def _linked(text: str, stage: Path, page: str, source: Path) -> str:
    """Links of the repository as links of the site."""
    up = "../" * page.count("/")

    def moved(link: re.Match[str]) -> str:
        words, address = link[1], link[2]
        if address.startswith("site:"):
            return f'<a href="{up}{address[5:]}">{words[1:-1].replace("`", "")}</a>'
        if re.match(r"[a-z]+:", address) or address.startswith("#") or source.is_relative_to(stage):
            return link[0]
        name, _, anchor = address.partition("#")
        place = Path(os.path.normpath(source.parent / name))
        if (stage / "figures") in place.parents or not place.is_relative_to(ROOT):
            return link[0]
        inside = place.relative_to(ROOT).as_posix()
        if not place.exists():
            return link[0]
        if place.suffix == ".md":
            there = PROJECT.get(inside, inside.removeprefix("docs/"))
        else:
            there = f"files/{inside}"
            (stage / there).parent.mkdir(parents=True, exist_ok=True)
            if place.is_file():
                made = stage / "_still.png"
                shutil.copy(made if place == drawn.STILL and made.exists() else place, stage / there)
        moved_to = os.path.relpath(stage / there, (stage / page).parent)
        return f"{words}({moved_to}{'#' + anchor if anchor else ''})"

    return _LINK.sub(moved, text)
