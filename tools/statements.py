"""The table of docs/papers/statements.md: how many statements each section of the five papers makes, how many
are judged, and which are not, with the reason. Made from the claims.toml of the papers, and never by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from penstock_papers import ledger
from penstock_papers.ledger import selection, statements

PAGE = Path(__file__).resolve().parents[1] / "docs" / "papers" / "statements.md"
BEGIN = "<!-- statements by section: made by tools/statements.py -->\n"
END = "<!-- end of statements -->\n"
# The papers whose texts are at hand.
PAPERS = ("incast", "dt-dctcp", "sdc-racs", "piqi-rcp", "cbc")


def section(where: str) -> str:
    """The first section that a place names, or the place itself: "section 4.2, Fig 7" is "section 4.2"."""
    plural = re.match(r"sections ([^\s,;]+)", where)
    found = re.match(r"section [^\s,;]+", where)
    if plural:
        return f"section {plural[1]}"
    return found[0] if found else re.split(r"[,;]", where)[0]


def _order(name: str) -> tuple[int, list[tuple[int, object]]]:
    roman = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7}
    parts: list[tuple[int, object]] = []
    for part in re.split(r"[.\- ]", name.removeprefix("section ")):
        parts.append((0, int(part)) if part.isdigit() else (0, roman[part]) if part in roman else (1, part))
    return (0 if name.startswith("section") else -1), parts


def table() -> str:
    """The tables, between their marks."""
    lines = [BEGIN]
    for paper in PAPERS:
        folder = selection.folder(paper)
        found = statements.load(f"penstock_papers.experiments.{folder.name}", folder).statements
        stated = Counter(section(one.where) for one in found)
        judged = Counter(section(one.where) for one in found if one.checks)
        checks = Counter()
        for one in found:
            checks[section(one.where)] += len(one.checks)
        lines += [f"## {paper}\n", "| place | statements | judged | checks |", "|---|---:|---:|---:|"]
        lines += [
            f"| {name} | {stated[name]} | {judged[name]} | {checks[name]} |"
            for name in sorted(stated, key=_order)
        ]
        total = sum(stated.values()), sum(judged.values()), sum(checks.values())
        lines += [f"| all | {total[0]} | {total[1]} | {total[2]} |\n", "Not judged:\n"]
        lines += [_left_out(one) for one in found if not one.checks]
        lines.append("")
    return "\n".join([*lines, END])


def _left_out(one: statements.Statement) -> str:
    words = one.quote.split()
    quote = " ".join(words[:14]) + (" ..." if len(words) > 14 else "")
    lines, line = [], "-"
    for word in f'"{quote}" ({section(one.where)}): {one.not_judged}.'.split():
        if len(line) + len(word) > 115:
            lines.append(line)
            line = " "
        line += f" {word}"
    return "\n".join([*lines, line])


def renewed(text: str) -> str:
    """`text` with the tables of today between the marks. Raises ValueError where they are missing."""
    head, mark, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the text has no place for the statements: {BEGIN.strip()} ... {END.strip()}")
    return head + table() + tail


def main() -> int:
    """Write or check the tables."""
    parser = argparse.ArgumentParser(description="The statements in docs/papers/statements.md")
    parser.add_argument("what", choices=("write", "check"))
    given = parser.parse_args()
    ledger.rows()
    text = PAGE.read_text(encoding="utf-8")
    new = renewed(text)
    if given.what == "write":
        PAGE.write_text(new, encoding="utf-8")
    elif new != text:
        print(
            f"{PAGE.name}: not what the papers' claims.toml say: tools/statements.py write", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
