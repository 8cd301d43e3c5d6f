"""The tables of docs/papers/statements.md: made from the papers' claims.toml, and never by hand."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "statements.py"
spec = importlib.util.spec_from_file_location("statements_tool", TOOL)
statements = importlib.util.module_from_spec(spec)
spec.loader.exec_module(statements)


def test_the_tables_say_what_the_papers_claims_do():
    text = statements.PAGE.read_text(encoding="utf-8")
    assert text == statements.renewed(text), "renew it: tools/statements.py write"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("section 4.2, Fig 7 and 8", "section 4.2"),
        ("sections I and VI.B", "section I"),
        ("abstract; section I", "abstract"),
        ("Theorem 1", "Theorem 1"),
    ],
)
def test_a_place_counts_for_its_first_section(where, expected):
    assert statements.section(where) == expected


def test_a_page_without_the_marks_is_refused():
    with pytest.raises(ValueError, match="has no place for the statements"):
        statements.renewed("# What the papers state\n")
