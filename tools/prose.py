"""The check of our prose: exit code 1 with file, line and rule where a page breaks one.

    tools/prose.py            # check every page and the size of every committed file
    tools/prose.py --table    # print size, mean and longest sentence of every page
    tools/prose.py --code     # print what documentation in all code breaks, also where it is not yet enforced

Checked are the pages at the root (README.md and others), the fragments in changelog.d and every page below
docs. A page has a largest size, and a line 120 characters at most. A sentence has 35 words at most, and 22 on
the average of its page. No page names a commit of this repository, uses a word of a diary or a private term
that has a standard name. A fragment in changelog.d is one sentence, which has no mean; towncrier wraps its
lines.

Docstrings and comments of documentation in the code obey the rules for sentences and words, and do not begin
with a reference to the text before, except in the files of `NOT_YET` and `BACK_NOT_YET`.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Bytes of a page, of pages and folders with a limit of their own, of all pages below docs, of any file.
MOST_BYTES = 15_000
LIMITS = {
    "README.md": 6_000,
    "ARCHITECTURE.md": 12_000,
    "docs/performance.md": 8_000,
    "docs/validation": 8_000,
    "docs/background/linux-sender.md": 8_000,
    "docs/background/approximate.md": 6_000,
    "docs/papers/index.md": 6_000,
}
MOST_OF_DOCS = 260_000
MOST_OF_A_FILE = 500_000
#: Characters of a line, words of a sentence, and words of the mean sentence of a page.
MOST_CHARACTERS = 120
MOST_WORDS = 35
MEAN_WORDS = 22.0
#: What history and measurements in progress sound like: git keeps them, a page says what holds.
DIARY = (
    r"was asked",
    r"asked / met",
    r"earlier sets?",
    r"as it is now",
    r"tried and left out",
    r"minutes later",
    r"(?:loud|quiet) (?:machine|hour|minute|day)",
    r"in the set before",
    r"what stood here",
)
#: Private terms, and the standard one to use.
PRIVATE = {
    r"by stretches|stretch(?:es)? of time": "lookahead window",
    r"letters handed over|written into a letter": "message, mailbox",
    r"packet's way|way of (?:a|one) packet": "path, route",
    r"nobody|somebody": "a subject that exists: no host, no thread, a user",
    r"handed over too late": "delivered too late",
}
#: How documentation of code begins that makes sense only after the text before it.
BACK = re.compile(r"(?:The same (?:with|of|as|in|for|among|without)\b|(?:And|So is|As above)\b)")
#: Folders with documented code, and the files whose documentation is rewritten together with their code.
CODE = ("python", "papers", "tools", "tests", "crates", "examples")
NOT_YET = (
    "crates/sim/src/cores/mod.rs",
    "crates/sim/src/cores/windows.rs",
    "crates/sim/src/engine/",
    "crates/sim/src/network",
)
#: Folders that may begin so as yet.
BACK_NOT_YET = ("crates/sim/src/engine/", "crates/sim/src/network", "crates/fabric/", "papers/")
_ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e|etc|vs|Fig|Figs|eq|Eq|cf|al|no|No|Mr|St|approx)\.$")


@dataclass(frozen=True)
class Fault:
    """One broken rule: the page, the line (0: the page as a whole), and what to do."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}" if self.line else f"{self.page}: {self.text}"


def pages(root: Path = ROOT) -> list[Path]:
    """Every page that is checked, in order."""
    top = [
        root / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY")
    ]
    return [
        path
        for path in [
            *top,
            *sorted((root / "changelog.d").glob("*.md")),
            *sorted((root / "docs").rglob("*.md")),
        ]
        if path.exists()
    ]


def paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """The running text of a page, with the line on which each paragraph or list item begins.

    Code, tables, headings, comments and directives are left out; a link is its words, code is one word.
    """
    begin, text, fenced = 0, [], ""
    for number, line in enumerate([*markdown.splitlines(), ""], 1):
        bare = line.strip()
        if fenced:
            fenced = "" if bare == fenced or (fenced == "$$" and bare.endswith("$$")) else fenced
            continue
        fence = re.match(r"(`{3,}|:{3,}|\${2})", bare)
        opens = fence is not None and not (fence[1] == "$$" and bare.endswith("$$") and len(bare) > 2)
        item = re.match(r"(?:[-*+]|\d+\.)\s+", bare)
        ends = (
            not bare
            or opens
            or bare.startswith(("|", "#", "<!--", "![", "$$", ">"))
            or line.startswith("    ")
        )
        if (ends or item) and text:
            yield begin, _plain(" ".join(text))
            text = []
        if opens:
            fenced = fence[1] if fence else ""
        elif not ends:
            begin = begin if text else number
            text.append(bare[item.end() :] if item else bare)


def _plain(text: str) -> str:
    text = re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)\s]*\)", r"\1", text)
    text = re.sub(r"``?[^`]+``?|\$[^$]+\$", "code", text)
    return re.sub(r"[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}|\\$", "", text)


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph of plain text; a colon or semicolon ends none."""
    found: list[str] = []
    for part in re.split(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z0-9]|code\b)", paragraph):
        if found and (_ABBREVIATIONS.search(found[-1])):
            found[-1] += " " + part
        else:
            found.append(part)
    return [sentence for sentence in found if words(sentence)]


def words(sentence: str) -> int:
    """How many words a sentence has."""
    return len(re.findall(r"[^\W_][\w'’./%:-]*", sentence))


def lengths(markdown: str) -> list[tuple[int, int, str]]:
    """Of every sentence of a page: the line of its paragraph, its words, its text."""
    return [
        (line, words(sentence), sentence)
        for line, paragraph in paragraphs(markdown)
        for sentence in sentences(paragraph)
    ]


def mean(markdown: str) -> float:
    """The mean words of a sentence of a page; 0 where it has none."""
    found = [count for _, count, _ in lengths(markdown)]
    return sum(found) / len(found) if found else 0.0


@cache
def own_commit(word: str) -> bool:
    """Is this the (shortened) id of a commit of this repository? False where there is no git."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", f"{word}^{{commit}}"], capture_output=True, check=False
    )
    return done.returncode == 0


def check(page: str, markdown: str) -> list[Fault]:
    """The rules that a page breaks; `page` is its path from the root of the repository."""
    found = []
    fragment = page.startswith("changelog.d/")
    size = len(markdown.encode())
    most = LIMITS.get(page) or LIMITS.get(page.rpartition("/")[0]) or MOST_BYTES
    if size > most:
        found.append(Fault(page, 0, f"{size} bytes, must be at most {most}: make it two pages"))
    for number, line in enumerate(markdown.splitlines(), 1):
        if len(line) > MOST_CHARACTERS and not fragment:
            found.append(Fault(page, number, f"{len(line)} characters, must be at most {MOST_CHARACTERS}"))
        found += [
            Fault(page, number, f"{word}: a commit of ours; say what holds, git keeps the rest")
            for word in re.findall(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b", line)
            if own_commit(word)
        ]
        found += [
            Fault(page, number, f"{word[0]!r} is a word of a diary: say what holds now")
            for pattern in DIARY
            if (word := re.search(rf"\b(?:{pattern})\b", line, re.IGNORECASE))
        ]
        found += [
            Fault(page, number, f"{word[0]!r} is a private term; say: {standard}")
            for pattern, standard in PRIVATE.items()
            if (word := re.search(rf"\b(?:{pattern})\b", line, re.IGNORECASE))
        ]
    counts = lengths(markdown)
    found += [
        Fault(page, line, f"{count} words in a sentence, must be at most {MOST_WORDS}: {sentence[:60]} ...")
        for line, count, sentence in counts
        if count > MOST_WORDS
    ]
    if (average := mean(markdown)) > MEAN_WORDS and not fragment:
        found.append(
            Fault(page, 0, f"{average:.1f} words in the mean sentence, must be at most {MEAN_WORDS:.0f}")
        )
    return found


def large_files(root: Path = ROOT, most: int = MOST_OF_A_FILE) -> list[Fault]:
    """Committed files above the limit; none where the tree is no repository."""
    done = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False
    )
    names = done.stdout.split("\0") if done.returncode == 0 else []
    return [
        Fault(name, 0, f"{size} bytes, must be at most {most}: make it a product of the build")
        for name in names
        if name and (root / name).is_file() and (size := (root / name).stat().st_size) > most
    ]


def all_faults(root: Path = ROOT) -> list[Fault]:
    """Every fault of every page, of all pages together, and of files that are too large."""
    found = [
        fault
        for path in pages(root)
        for fault in check(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    ]
    total = sum(path.stat().st_size for path in (root / "docs").rglob("*.md"))
    if total > MOST_OF_DOCS:
        found.append(Fault("docs", 0, f"{total} bytes of Markdown, must be at most {MOST_OF_DOCS}"))
    return found + code_faults(root, leaving_out=NOT_YET) + large_files(root)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The documentation in a file of Python or Rust: its line and its text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
                found := ast.get_docstring(node)
            ):
                # A table between lines of = has no sentences.
                yield getattr(node, "lineno", 1), re.sub(r"(?ms)^=+ [= ]+$.*^=+ [= ]+$", "", found)
        return
    begin, block = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if found := re.match(r"\s*//[/!] ?(.*)", line):
            begin = begin if block else number
            block.append(found[1])
        elif block:
            yield begin, "\n".join(block)
            block = []


def code_faults(root: Path = ROOT, leaving_out: tuple[str, ...] = ()) -> list[Fault]:
    """Long sentences, words of a diary and private terms in docstrings, except below `leaving_out`."""
    found = []
    files = [
        path
        for folder in CODE
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in (".py", ".rs") and "target" not in path.parts
    ]
    for path in files:
        page = path.relative_to(root).as_posix()
        if page.startswith(leaving_out):
            continue
        for line, text in docstrings(path):
            found += [
                Fault(
                    page,
                    line,
                    f"{count} words in a sentence, must be at most {MOST_WORDS}: {sentence[:60]} ...",
                )
                for _, count, sentence in lengths(text)
                if count > MOST_WORDS
            ]
            if (word := BACK.match(text)) and not page.startswith(BACK_NOT_YET):
                found.append(
                    Fault(page, line, f"begins with {word[0]!r}: say what it is, not what it is like")
                )
            for pattern in (*DIARY, *PRIVATE):
                if word := re.search(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
                    found.append(
                        Fault(page, line, f"{word[0]!r}: {PRIVATE.get(pattern, 'say what holds now')}")
                    )
    return found


def table(root: Path = ROOT) -> str:
    """Size, mean and longest sentence of every page."""
    lines = ["page                                          bytes   mean  longest"]
    for path in pages(root):
        text = path.read_text(encoding="utf-8")
        longest = max((count for _, count, _ in lengths(text)), default=0)
        name = path.relative_to(root).as_posix()
        lines.append(f"{name:44} {len(text.encode()):6} {mean(text):6.1f} {longest:8}")
    total = sum(path.stat().st_size for path in (root / "docs").rglob("*.md"))
    return "\n".join([*lines, f"{'docs, Markdown':44} {total:6}"])


def main() -> int:
    """Check, or print the table."""
    parser = argparse.ArgumentParser(description="The check of our prose")
    parser.add_argument("--table", action="store_true", help="print size and sentence lengths of every page")
    parser.add_argument("--code", action="store_true", help="print what documentation in the code breaks")
    parser.add_argument("only", nargs="*", type=Path, help="check these pages only")
    given = parser.parse_args()
    if given.table:
        print(table())
        return 0
    if given.code:
        print("\n".join(map(str, code_faults())))
        return 0
    if given.only:
        found = [
            fault
            for path in given.only
            for fault in check(path.resolve().relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        ]
    else:
        found = all_faults()
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
