"""Dead links of a built site: every internal link of every page, anchors included, without a network."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Pages of rustdoc are checked as targets only: rustdoc itself fails on a dead link (`-D warnings`).
FOREIGN = ("rust/",)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value for key, value in attrs if value is not None}
        self.anchors |= {found[key] for key in ("id", "name") if key in found}
        self.links += [found[key] for key in ("href", "src") if key in found]


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def dead_links(site: Path) -> tuple[int, list[str]]:
    """How many links were looked at, and those that lead nowhere: "page: link: why"."""
    site = site.resolve()
    _read.cache_clear()
    looked, dead = 0, []
    for path in sorted(site.rglob("*.html")):
        page = path.relative_to(site).as_posix()
        if page.startswith(FOREIGN):
            continue
        for link in _read(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            looked += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_relative_to(site) or not target.exists():
                dead.append(f"{page}: {link}: no such file")
            elif (
                parts.fragment and target.suffix == ".html" and not _scripted(target, unquote(parts.fragment))
            ):
                dead.append(f"{page}: {link}: no such place in the page")
    return looked, dead


def _scripted(target: Path, fragment: str) -> bool:
    """Is there such a place, or is it one that a script of the page reads (values of the page of a run)?"""
    return fragment in _read(target).anchors or bool(re.search(r"[=&]", fragment))
