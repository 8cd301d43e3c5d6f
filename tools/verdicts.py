"""The tables of docs/papers/verdicts.md, made from the pinned verdicts and searches: statements by outcome,
agreement over three seeds, and where claims that do not hold would hold, with their reasons.

    tools/verdicts.py write                                  # renew the tables
    tools/verdicts.py check                                  # exit code 1 where one says something else
    tools/verdicts.py check --page out/ledger/report.html    # and where that page counts other outcomes

A claim counts at full length where it is pinned at full length, otherwise at quick length.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock_papers import ledger
from penstock_papers.ledger import holding, outcomes, pinned

ROOT = Path(__file__).resolve().parent.parent
VERDICTS = ROOT / "docs" / "papers" / "verdicts.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- verdicts by paper: made by tools/verdicts.py -->\n", "<!-- end of verdicts -->\n"
SEEDS_AGREE = "<!-- seeds: made by tools/verdicts.py -->\n"
DIFFERING = "<!-- claims that differ: made by tools/verdicts.py -->\n"
COLUMNS = (*outcomes.COUNTED, outcomes.IDENTICAL)
UNPINNED = "not pinned"
# So many seeds make a claim one whose verdict has been repeated.
SEEDS = 3


def count(paper: str) -> tuple[int, Counter[str], Counter[str]]:
    """Of a paper: its rows, its statements by outcome, and its claims by the length of their pins."""
    rows = [row for row in ledger.rows() if row.paper == paper]
    known = pinned.load(paper)
    found: list[tuple[ledger.Row, ledger.Claim, str]] = []
    lengths: Counter[str] = Counter()
    for row in rows:
        for claim in row.claims:
            if claim.same_as:
                continue
            said, length = verdict(known, f"{row.id}/{claim.id}")
            found.append((row, claim, UNPINNED if said == UNPINNED else outcomes.outcome(row, claim, said)))
            lengths[length] += 1
    pinned_ones = [one for one in found if one[2] != UNPINNED]
    tally = outcomes.tally(outcomes.of_statements(pinned_ones), [paper])
    missing = len(found) - len(pinned_ones)
    return len(rows), tally + Counter({UNPINNED: missing} if missing else {}), lengths


# Heads of columns for outcomes.
SHORT = {
    outcomes.ROBUST: "holds robustly",
    outcomes.CHOSEN: "for our choices",
    outcomes.FAILS: "does not hold",
    outcomes.IDENTICAL: "identity",
}
# What is said of a claim that differs, and how `holding.words` begins for it; the rest is not searched yet.
ELSEWHERE = {
    "hold for other values of the open parameters": ("holds when", "holds by no", "holds in none"),
    "hold nowhere in the searched space": ("nowhere",),
    "are undecided in most of the searched space": ("open",),
    "differ at full length but not in the shorter runs of the search": ("the search's shorter runs",),
    "have no result in the searched space": ("no result",),
}
UNSEARCHED = "are not searched yet"
# Heads of columns for these: a line of a page has 120 characters at most.
HEADS = {
    "hold for other values of the open parameters": "hold elsewhere",
    "hold nowhere in the searched space": "nowhere",
    "are undecided in most of the searched space": "open",
    "differ at full length but not in the shorter runs of the search": "short runs disagree",
    "have no result in the searched space": "no result",
    UNSEARCHED: "not searched",
    "a cause": "cause",
    "one choice": "choice",
}


def differing(paper: str) -> list[tuple[ledger.Row, ledger.Claim]]:
    """A paper's claims that differ, each once."""
    return judged(paper, ledger.DIFFERS)


def judged(paper: str, wanted: str) -> list[tuple[ledger.Row, ledger.Claim]]:
    """A paper's claims with this verdict, each once."""
    known = pinned.load(paper)
    return [
        (row, claim)
        for row in ledger.rows()
        if row.paper == paper
        for claim in row.claims
        if not claim.same_as and verdict(known, f"{row.id}/{claim.id}")[0] == wanted
    ]


def elsewhere(papers: Sequence[str]) -> Counter[str]:
    """Of these papers' claims that differ, how many hold somewhere else, nowhere, or have no search yet."""
    found: Counter[str] = Counter()
    for paper in papers:
        for row, claim in differing(paper):
            words = holding.words(row, claim.id, verdict=ledger.DIFFERS)
            kind = (text for text, begins in ELSEWHERE.items() if words.startswith(begins))
            found[next(kind, UNSEARCHED)] += 1
    return found


def explained(paper: str) -> Counter[str]:
    """By what a paper's claims that differ are explained: at full length where that is known."""
    known = pinned.load(paper)
    found: Counter[str] = Counter()
    for row, claim in differing(paper):
        pins = (known.get(length, {}).get(f"{row.id}/{claim.id}", {}) for length in pinned.LENGTHS)
        said = (str(pin[pinned.BECAUSE]) for pin in pins if pinned.BECAUSE in pin)
        found[next(said, UNPINNED)] += 1
    return found


def differences() -> str:
    """The table on claims that differ, between two marks."""
    kinds = [*ELSEWHERE, UNSEARCHED]
    counted = {paper: (elsewhere([paper]), explained(paper)) for paper in ledger.PAPERS}
    all_ = [sum((found[i] for found in counted.values()), Counter[str]()) for i in (0, 1)]
    kinds = [kind for kind in kinds if all_[0][kind]]
    reasons = [reason for reason in (*pinned.REASONS, UNPINNED) if all_[1][reason]]
    lines = [
        f"| paper | fail | {' | '.join(HEADS.get(kind, kind) for kind in [*kinds, *reasons])} |",
        "|---|" + "---:|" * (1 + len(kinds) + len(reasons)),
    ]
    for paper, (where, why) in [*counted.items(), ("all", (all_[0], all_[1]))]:
        cells = [where.total(), *(where[kind] for kind in kinds), *(why[reason] for reason in reasons)]
        lines.append(f"| {paper} | {' | '.join(str(cell) for cell in cells)} |")
    return f"{DIFFERING}\n" + "\n".join(lines) + f"\n\n{END}"


def verdict(known: Mapping[str, Mapping[str, Any]], name: str) -> tuple[str, str]:
    """The pinned verdict of a claim and the length it was pinned at; the full one where there is one."""
    for length in ("full", "quick"):
        if name in known.get(length, {}):
            return known[length][name]["verdict"], length
    return UNPINNED, ""


def table() -> str:
    """A table of statements by outcome for each part of the ledger, between two marks."""
    first = [paper for paper in ledger.PAPERS if paper not in ledger.REPRODUCED]
    parts = (
        ("The five papers, by their texts", first),
        ("Reproductions: headline statements of lossless Ethernet, from memory", ledger.PART_TWO),
        ("Reproductions: sprayed and receiver-driven transports, from memory and data", ledger.PART_THREE),
    )
    lines = [BEGIN]
    for title, papers in parts:
        counted, lengths = _counted(papers)
        pinned_at = f"Pinned at full length: {lengths['full']} claims; at quick length: {lengths['quick']}."
        lines += [f"### {title}\n", f"{counted}\n", f"{pinned_at}\n"]
    tally = elsewhere(first)
    kinds = [f"- {tally[kind]} {kind}," for kind in (*ELSEWHERE, UNSEARCHED) if tally[kind]]
    if kinds:
        lines += [
            f"Of the {tally.total()} claims of the five papers that do not hold:\n",
            "\n".join([*kinds[:-1], kinds[-1][:-1] + "."]) + "\n",
        ]
    return "\n".join(lines) + f"\n{END}"


def _counted(papers: Sequence[str]) -> tuple[str, Counter[str]]:
    """The table of these papers, and their claims by the length of pins."""
    found = {paper: count(paper) for paper in papers}
    columns = [*COLUMNS, *([UNPINNED] if any(v[UNPINNED] for _, v, _ in found.values()) else [])]
    heads = [SHORT.get(column, column) for column in columns]
    lines = [
        "| paper | rows | statements | " + " | ".join(heads) + " |",
        "|---|" + "---:|" * (2 + len(columns)),
    ]
    total: Counter[str] = Counter()
    rows, lengths = 0, Counter[str]()
    for paper, (own, verdicts, at) in found.items():
        lines.append(_line(f"[{paper}](site:verdicts.html#paper-{paper})", own, verdicts, columns))
        total, lengths, rows = total + verdicts, lengths + at, rows + own
    lines.append(_line("all", rows, total, columns))
    return "\n".join(lines), lengths


def _line(name: str, rows: int, verdicts: Counter[str], columns: Sequence[str]) -> str:
    cells = [name, rows, sum(verdicts[one] for one in outcomes.COUNTED), *(verdicts[c] for c in columns)]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def agreement(paper: str, length: str) -> tuple[int, int, int]:
    """Of a paper at "quick" or "full": rows whose claims all have the verdicts of three seeds; claims that
    do, each counted once; and how many of these have the same verdict with every seed.
    """
    known = pinned.by_seed(paper, length)
    whole = claims = same = 0
    for row in (row for row in ledger.rows() if row.paper == paper):
        own = [known.get(f"{row.id}/{claim.id}", {}) for claim in row.claims if not claim.same_as]
        there = [seeds for seeds in own if len(seeds) >= SEEDS]
        whole += bool(there) and len(there) == len(own)
        claims += len(there)
        same += sum(len(set(seeds.values())) == 1 for seeds in there)
    return whole, claims, same


def seeded() -> str:
    """The table on seeds, between two marks."""
    lines = [
        "| paper | "
        + " | ".join(f"rows at {x} length | claims | same verdict" for x in pinned.LENGTHS)
        + " |",
        "|---|" + "---:|" * 6,
    ]
    sums = [0] * 6
    for paper in ledger.PAPERS:
        numbers = [number for length in pinned.LENGTHS for number in agreement(paper, length)]
        sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        lines.append(_agreed(paper, numbers))
    lines.append(_agreed("all", sums))
    return f"{SEEDS_AGREE}\n" + "\n".join(lines) + f"\n\n{END}"


def _agreed(name: str, numbers: Sequence[int]) -> str:
    cells = [name]
    for whole, claims, same in (numbers[:3], numbers[3:]):
        cells += [str(whole), str(claims), f"{same} ({ledger.percent(same / claims)})" if claims else "-"]
    return "| " + " | ".join(cells) + " |"


_LINE_OF_PAGE = re.compile(r'<div class="who"><a href="#paper-([\w-]+)">.*?</div>', re.DOTALL)
_COUNT_OF_PAGE = re.compile(r'aria-label="([a-z ]+)">.*?</svg> (\d+)')


def counted_on(page: str) -> dict[str, dict[str, int]]:
    """The statements by outcome that the first screen of a page counts, by paper."""
    names = {words: name for name, words in outcomes.WORDS.items()}
    return {
        line[1]: {names[words]: int(number) for words, number in _COUNT_OF_PAGE.findall(line[0])}
        for line in _LINE_OF_PAGE.finditer(page)
    }


def behind(page: str) -> list[str]:
    """The papers whose statements the page does not count as they are pinned: it is of before these pins."""
    shown = counted_on(page)
    return [paper for paper in ledger.PAPERS if shown.get(paper) != dict(count(paper)[1])]


def renewed(text: str, new: str, begin: str = BEGIN) -> str:
    """`text` with `new` in place of what is between the marks. Raises ValueError where they are missing."""
    head, mark, rest = text.partition(begin)
    _, end, tail = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the text has no place for the verdicts: {begin.strip()} ... {END.strip()}")
    return head + new + tail


def readme(text: str) -> str:
    """The README with the number of statements that count."""
    number = sum(count(paper)[1][one] for paper in ledger.PAPERS for one in outcomes.COUNTED)
    return re.sub(r"judges \d+ statements", f"judges {number} statements", text)


def main() -> int:
    """Write or check the tables."""
    parser = argparse.ArgumentParser(description="The verdicts in docs/papers/verdicts.md")
    parser.add_argument("what", choices=("write", "check"))
    parser.add_argument("--page", type=Path, help="the report of `penstock reproduce --all`, to be checked")
    given = parser.parse_args()
    text = VERDICTS.read_text(encoding="utf-8")
    new = text
    for part, begin in (
        (table(), BEGIN),
        (seeded(), SEEDS_AGREE),
        (differences(), DIFFERING),
    ):
        new = renewed(new, part, begin)
    code = 0
    front = README.read_text(encoding="utf-8")
    if given.what == "write":
        VERDICTS.write_text(new, encoding="utf-8")
        README.write_text(readme(front), encoding="utf-8")
    elif readme(front) != front:
        print("README.md: counts other statements than are pinned: tools/verdicts.py write", file=sys.stderr)
        code = 1
    elif new != text:
        print(f"{VERDICTS.name}: not what is pinned: tools/verdicts.py write", file=sys.stderr)
        code = 1
    if given.page is not None and (papers := behind(given.page.read_text(encoding="utf-8"))):
        print(f"{given.page}: counts other verdicts of {', '.join(papers)}: make ledger", file=sys.stderr)
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
