"""The check of our prose: each rule finds what it is for and leaves good text alone; our pages pass it."""

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("prose", ROOT / "tools" / "prose.py")
prose = importlib.util.module_from_spec(_spec)
sys.modules["prose"] = prose
_spec.loader.exec_module(prose)


def said(markdown, page="docs/page.md"):
    return [str(fault) for fault in prose.check(page, markdown)]


def test_our_pages_pass():
    assert [str(fault) for fault in prose.all_faults()] == []


def test_a_good_page_has_no_fault():
    assert (
        said("# Head\n\nA port drops a packet that finds its buffer full. The sender repairs the loss.\n")
        == []
    )


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("# a\n\n" + "x" * 121 + "\n", "docs/page.md:3: 121 characters, must be at most 120"),
        ("a word of ours. " * 1000, "bytes, must be at most 15000"),
        ("One " + "word " * 36 + "ends.\n", "38 words in a sentence, must be at most 35"),
        (("Word " + "word " * 24 + "ends. ") * 3, "26.0 words in the mean sentence, must be at most 22"),
        ("The figure was asked for.\n", "'was asked' is a word of a diary"),
        ("On a loud machine it takes longer.\n", "'loud machine' is a word of a diary"),
        ("The run goes by stretches.\n", "'by stretches' is a private term; say: lookahead window"),
        ("Nobody waits for the packet.\n", "'Nobody' is a private term"),
    ],
)
def test_a_broken_rule_is_named_with_its_line(markdown, words):
    assert any(words in fault for fault in said(markdown)), said(markdown)


def test_pages_with_a_limit_of_their_own():
    text = "A word is here. " * 500
    assert any("must be at most 6000" in fault for fault in said(text, "README.md"))
    assert any("must be at most 8000" in fault for fault in said(text + text, "docs/validation/ns2.md"))
    assert not any("must be at most" in fault and "bytes" in fault for fault in said(text, "docs/page.md"))


def test_a_commit_of_ours_is_named_and_one_of_others_is_not():
    head = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short=9", "HEAD"], capture_output=True, text=True, check=False
    )
    if head.returncode:
        pytest.skip("no git")
    own = head.stdout.strip()
    if own.isdigit() or own.isalpha():
        pytest.skip("a hash that looks like a number or a word")
    assert any("a commit of ours" in fault for fault in said(f"See {own} for that.\n"))
    assert said("The public simulator at 40ccb05a1 is the reference.\n") == []


def test_code_tables_and_headings_are_no_sentences():
    long = "word " * 50
    code = f"```sh\n{long}\n```\n\n    {long}\n\n<!-- lines: 3 -->\n\n"
    text = f"# {long}\n\n| {long} |\n|---|\n\n{code}It ends.\n"
    assert [count for _, count, _ in prose.lengths(text)] == [2]


def test_sentences_are_split_where_they_end():
    (line, text), (item, other) = prose.paragraphs(
        "First\nline. Second one\nwith `a.b c` in it.\n\n- [An item](x.md).\n"
    )
    assert (line, item) == (1, 5)
    assert prose.sentences(text) == ["First line.", "Second one with code in it."]
    assert prose.sentences(other) == ["An item."]
    assert prose.sentences("It takes 0.5 s, see Fig. 3 of it. Then it ends.") == [
        "It takes 0.5 s, see Fig. 3 of it.",
        "Then it ends.",
    ]


def test_a_committed_file_that_is_too_large_is_named(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "small").write_bytes(b"x" * 10)
    (tmp_path / "large").write_bytes(b"x" * 11)
    (tmp_path / "built").write_bytes(b"x" * 99)
    subprocess.run(["git", "-C", tmp_path, "add", "small", "large"], check=True)
    assert [fault.page for fault in prose.large_files(tmp_path, most=10)] == ["large"]


def test_the_documentation_in_code_is_found(tmp_path):
    python, rust = tmp_path / "python/a.py", tmp_path / "crates/b/src/lib.rs"
    python.parent.mkdir()
    rust.parent.mkdir(parents=True)
    python.write_text('"""A module."""\n\n\ndef f():\n    """It waits for nobody."""\n')
    rust.write_text("//! A crate.\n\n// nobody reads this\n/// One port,\n/// and nobody else.\nfn f() {}\n")
    assert list(prose.docstrings(python)) == [(1, "A module."), (4, "It waits for nobody.")]
    assert list(prose.docstrings(rust)) == [(1, "A crate."), (4, "One port,\nand nobody else.")]
    assert [(fault.page, fault.line) for fault in prose.code_faults(tmp_path)] == [
        ("python/a.py", 4),
        ("crates/b/src/lib.rs", 4),
    ]
    assert [fault.page for fault in prose.code_faults(tmp_path, leaving_out=("crates/b/",))] == [
        "python/a.py"
    ]


def test_documentation_in_code_is_part_of_the_check_except_in_crates_that_are_named(tmp_path):
    for name in ("crates/models/src/lib.rs", f"{prose.NOT_YET[1]}mod.rs"):
        source = tmp_path / name
        source.parent.mkdir(parents=True)
        source.write_text("//! It waits for nobody.\n")
    assert [fault.page for fault in prose.all_faults(tmp_path)] == ["crates/models/src/lib.rs"]


def test_documentation_that_begins_with_a_reference_to_what_stands_before_it_is_found(tmp_path):
    source = tmp_path / "crates/models/src/lib.rs"
    source.parent.mkdir(parents=True)
    source.write_text(
        "/// The same with a range.\nfn a() {}\n/// And the other.\nfn b() {}\n"
        "/// The same seed gives the same bytes.\nfn c() {}\n/// One. And two.\nfn d() {}\n"
    )
    assert [(fault.line, fault.text.partition(":")[0]) for fault in prose.all_faults(tmp_path)] == [
        (1, "begins with 'The same with'"),
        (3, "begins with 'And'"),
    ]


def test_a_table_in_a_docstring_is_no_sentence(tmp_path):
    table = "===  ===\na    b\n===  ===\n" + "x    " + "word " * 40 + "\n===  ===\n"
    path = tmp_path / "a.py"
    path.write_text(f'"""What there is.\n\n{table}\nA sentence.\n"""\n')
    (_, text), *_ = prose.docstrings(path)
    assert [count for _, count, _ in prose.lengths(text)] == [3, 2]


def test_every_fragment_of_the_changelog_has_a_known_type_and_a_text():
    """towncrier passes over a file whose type it does not know."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    types = {entry["directory"] for entry in project["tool"]["towncrier"]["type"]}
    assert types == {"added", "changed", "fixed", "removed", "results"}
    for path in (ROOT / "changelog.d").glob("*"):
        if path.name.startswith("."):
            continue
        slug, kind, ending = path.name.split(".")
        assert slug and kind in types and ending == "md", path.name
        assert path.read_text(encoding="utf-8").strip(), path.name
