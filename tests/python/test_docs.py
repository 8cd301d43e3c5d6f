"""The documentation: every block of every page runs, README, examples and notebooks too; the site builds
without a warning, has no dead link, and its search finds things."""

import functools
import http.server
import importlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest
from conftest import CHROMIUM, inline, needs_chromium

from penstock import controllers

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "tools/site"
sys.path.insert(0, str(SITE))
import background  # noqa: E402
import blocks  # noqa: E402
import check  # noqa: E402
import drawn  # noqa: E402
import papers  # noqa: E402
import reference  # noqa: E402
import stage  # noqa: E402

PAGES = sorted(
    path.relative_to(ROOT / "docs")
    for path in (ROOT / "docs").rglob("*.md")
    if any(block.runs for block in blocks.blocks(path.read_text(encoding="utf-8")))
)
SCRIPTS = sorted((ROOT / "examples/scripts").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
# These take more than a second or two.
LONG_SCRIPTS = [path for path in SCRIPTS if "Takes some" in path.read_text()]

full = pytest.mark.full


def some_full(items, long):
    return [pytest.param(item, id=str(item.name), marks=[full] if item in long else []) for item in items]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.as_posix())
def test_the_blocks_of_a_page_run(page, tmp_path):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    shown = blocks.run_page(text, page.as_posix(), tmp_path, "figures")
    assert "<!-- " not in shown
    assert shown.count("](figures/") == text.count("<!-- alt: ")


def test_the_first_run_of_the_readme_prints_what_stands_below_it(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    program, printed = re.findall(r"```(?:python|text)\n(.*?)```", text, flags=re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == printed, "put it into README.md"


def session(tmp_path, text):
    return blocks.run_page(text, "page.md", tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# a\n\n```python\n1 / 0\n```\n", "page.md:3: ZeroDivisionError"),
        ("```sh\nfalse\n```\n", "page.md:1: Failed: exit code 1, not 0"),
        ("<!-- exit: 2 -->\n```sh\ntrue\n```\n", "exit code 0, not 2"),
        ("```sh\nfalse | true\n```\n", "exit code 1, not 0"),
        ("<!-- alt: a figure -->\n```python\n3\n```\n", "ends with a figure"),
    ],
)
def test_a_block_that_does_not_do_what_the_page_says_is_told_with_its_line(tmp_path, text, words):
    with pytest.raises(blocks.Failed, match=re.escape(words)):
        session(tmp_path, text)


def test_blocks_share_files_and_names_and_show_what_they_print(tmp_path):
    shown = session(
        tmp_path,
        "<!-- file: own.py -->\n```python\nx = 41\n```\n\n```python\nimport own\ny = own.x + 1\n```\n\n"
        "```python\nprint('so')\ny\n```\n\n```sh\nseq 9\ncat own.py\n```\n",
    )
    assert ":caption: own.py" in shown and "so\n42\n" in shown and "9\nx = 41\n" in shown
    assert "own" not in sys.modules
    cut = session(tmp_path, "<!-- lines: 2 -->\n```sh\nseq 9\n```\n")
    assert "1\n2\n... 7 lines more" in cut and "3" not in cut


def shown_commands():
    """Commands of penstock in indented blocks, which are not run: page and words."""
    found = []
    for page in [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        text = text.replace("\\\n", " ")
        for line in re.findall(r"^ {4,}(?:sudo )?(?:\.venv/bin/)?penstock (.+)$", text, re.MULTILINE):
            found.append((page.relative_to(ROOT).as_posix(), tuple(shlex.split(line, comments=True))))
    return found


@pytest.mark.parametrize(
    ("page", "words"),
    shown_commands(),
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_command_that_a_page_shows_without_running_it_is_accepted(page, words, tmp_path, monkeypatch):
    accept(page, words, tmp_path, monkeypatch)


def accept(page, words, tmp_path, monkeypatch, *, whole=True):
    """The options of a command exist, and so do the scenario and the keys that it sets. Not `whole`: a name
    without its arguments is enough.
    """
    import typer.main

    import penstock
    from penstock import cli
    from penstock_papers import ledger

    monkeypatch.chdir(tmp_path)
    name, *rest = words
    group = typer.main.get_command(cli.app)
    assert name in group.commands, f"{page}: there is no command {name}"
    if not rest and not whole:
        return
    context = group.commands[name].make_context(name, list(rest))
    shown = context.params
    scenario = shown.get("scenario") or shown.get("what")
    if scenario in {entry["name"] for entry in penstock.describe()["scenarios"]}:
        given = dict(item.split("=", 1) for item in shown["settings"])
        if shown.get("profile"):
            given["profile"] = shown["profile"]
        resolve = penstock.live.resolve if name == "live" else penstock.resolve
        resolve(scenario, settings={key: value for key, value in given.items() if ".py:" not in value})
    assert set(shown.get("ids") or ()) <= {row.id for row in ledger.rows(live=True)}, page


#: Words of a page that stand for what the reader has.
PLACES = {"NAME": "incast", "protocol=NAME": "protocol=dctcp", "DIR": "out", "FILE": "run.record"}


def inline_code():
    """Code within the text of pages: page and text."""
    for page in [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
            yield page.relative_to(ROOT).as_posix(), " ".join(code.split())


def inline_commands():
    """Commands of penstock within a sentence: page and words, with the reader's own names filled in."""
    found = {}
    for page, code in inline_code():
        if shown := re.fullmatch(r"(?:sudo )?(?:\.venv/bin/)?penstock ([a-z][a-z-]*.*)", code):
            words = tuple(PLACES.get(word, word) for word in shlex.split(shown[1]))
            found.setdefault(words, page)
    return [(page, words) for words, page in found.items()]


@pytest.mark.parametrize(
    ("page", "words"),
    inline_commands(),
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_command_within_a_sentence_is_accepted(page, words, tmp_path, monkeypatch):
    accept(page, words, tmp_path, monkeypatch, whole=False)


def test_names_targets_and_files_within_a_sentence_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    gone = []
    for page, code in inline_code():
        if target := re.fullmatch(r"make ([a-z-]+)", code):
            there = target[1] in targets
        elif name := re.match(r"penstock((?:\.[A-Za-z_]\w*)+)", code):
            there = named(name[1][1:].split("."))
        elif path := re.match(r"((?:tools|tests|crates|python|examples|docs|papers)/[\w./*-]+)", code):
            there = any(ROOT.glob(path[1].rstrip("/.").replace("NAME", "dctcp")))
        else:
            continue
        if not there:
            gone.append(f"{page}: {code}")
    assert gone == []


def named(names):
    """Has penstock this attribute, or this module and attribute?"""
    found = importlib.import_module("penstock")
    for i, name in enumerate(names):
        if not hasattr(found, name):
            try:
                importlib.import_module(".".join(["penstock", *names[: i + 1]]))
            except ModuleNotFoundError:
                return False
        found = getattr(found, name)
    return True


def test_blocks_that_no_test_runs_are_none_of_a_language_that_runs():
    """Outside docs only README has such blocks, which the test of its first run takes. An indented block is
    a command, a message, a figure of text, TOML or Python that is complete without what it leaves out.
    """
    for page in ROOT.glob("*.md"):
        found = [b.language for b in blocks.blocks(page.read_text(encoding="utf-8")) if b.runs]
        assert found == (["python"] if page.name == "README.md" else []), page.name
    seen = {"python": 0, "toml": 0}
    for page in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for block in re.findall(r"(?:^ {4}.*\n)+", text, re.MULTILINE):
            code = textwrap.dedent(block)
            if re.match(r"\[\[|\w+ = \{", code):
                tomllib.loads(code)
                seen["toml"] += 1
            elif re.match(r"(?:def |class |import |from |[A-Za-z_]\w*(?: = |\())", code) and not re.search(
                " <- | {3,}\\(", code
            ):
                compile(code, str(page), "exec")
                seen["python"] += 1
    assert seen["python"] >= 2 and seen["toml"] >= 3


def test_the_rack_of_forty_servers_has_the_goodput_that_the_readme_says():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (command, said) = re.findall(r"`penstock (run [^`]+)`[^`]*goodput is ([\d.]+) Gb/s", text)[0]
    found = inline(*shlex.split(command), "--json")
    assert found.returncode == 0, found.stderr
    goodput = json.loads(found.stdout)["mean"]["goodput_bps"]
    assert f"{goodput / 1e9:.1f}" == said


def test_every_python_block_of_a_figure_says_what_one_sees():
    for page in PAGES:
        for block in blocks.blocks((ROOT / "docs" / page).read_text(encoding="utf-8")):
            assert len(block.options.get("alt", "long enough, or none")) > 15, page


@functools.cache
def generated():
    """Paths of generated pages below docs/reference."""
    return {(ROOT / f"docs/reference/{name}.md").resolve() for name in reference.pages()}


def test_every_page_is_in_the_site_and_its_links_lead_somewhere():
    """What Sphinx says in `make site`, without Sphinx: a page without a toctree, a link without a file."""
    pages = {path.resolve() for path in (ROOT / "docs").rglob("*.md")}
    named, dead = {(ROOT / "docs/index.md").resolve()}, []
    for page in [*pages, *ROOT.glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        for tree in re.findall(r"```{toctree}\n(.*?)```", text, flags=re.DOTALL):
            lines = [line for line in tree.splitlines() if line and not line.startswith(":")]
            named |= {(page.parent / f"{line}.md").resolve() for line in lines}
        prose = re.sub(r"^```.*?^```$|^    .*?$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", prose):
            target = (page.parent / link).resolve()
            if not (link.startswith(("site:", "http")) or target.exists() or target in generated()):
                dead.append(f"{page.relative_to(ROOT)}: {link}")
    assert dead == []
    assert sorted(pages - named) == []


def test_every_anchor_that_a_page_links_to_is_a_heading():
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    heads = {page.resolve(): anchors(page.read_text(encoding="utf-8")) for page in pages}
    dead = []
    for page in pages:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for link, anchor in re.findall(r"\]\(([^)\s#:]*)#([^)\s]+)\)", prose):
            target = (page.parent / link).resolve() if link else page.resolve()
            if anchor not in heads.get(target, {anchor}):
                dead.append(f"{page.relative_to(ROOT)}: {link}#{anchor}")
    assert dead == []


def anchors(markdown):
    """Anchors of the headings of a page, as GitHub and MyST make them."""
    found = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", markdown, flags=re.S | re.M), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in found}


def test_no_equation_is_cut_by_a_line_that_looks_like_a_list():
    """A sum that goes on in a line beginning with + or - ends its paragraph, and the equation with it."""
    for page in (ROOT / "docs").rglob("*.md"):
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        for line in text.splitlines():
            if re.match(r"[-+*] ", line):
                assert line.replace("\\$", "").count("$") % 2 == 0, f"{page.name}: {line}"


def test_every_protocol_is_on_the_page_of_its_family():
    told = set()
    for page in (ROOT / "docs/background").glob("*.md"):
        for names in re.findall(r"<!-- protocols: (.+) -->", page.read_text(encoding="utf-8")):
            told |= set(names.split())
    groups = ("protocols", "receive_controls", "host_controllers")
    assert {name for group in groups for name in controllers.built_in(group)} - told == set()
    for page, words in (
        ("README.md", r"(\d+) transports are built in"),
        ("docs/background/others.md", r"\| penstock \| (\d+), "),
    ):
        (said,) = re.findall(words, (ROOT / page).read_text(encoding="utf-8"))
        assert int(said) == len(controllers.built_in()), page


def test_the_verdicts_that_the_readme_counts_are_those_of_the_table():
    text = (ROOT / "docs/papers/verdicts.md").read_text(encoding="utf-8").partition("## Do the")[0]
    counted = sum(int(n) for n in re.findall(r"^\| all \| \d+ \| (\d+) \|(?: \d+ \|){5,6}$", text, re.M))
    (said,) = re.findall(r"judges (\d+) statements", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert int(said) == counted


def test_every_claim_of_the_ledger_is_on_the_page_of_its_paper():
    from penstock_papers import ledger
    from penstock_papers.ledger import outcomes

    pages = papers.pages()
    assert {papers.name(paper) for paper in ledger.PAPERS} == pages.keys()
    for paper in ledger.PAPERS:
        rows = [row for row in ledger.rows() if row.paper == paper]
        shown = re.findall(
            r"^\*\*(\S+/\S+): ([a-z ]+)\.\*\* The paper says: ", pages[papers.name(paper)], re.M
        )
        own = [f"{row.id}/{claim.id}" for row in rows for claim in row.claims if not claim.same_as]
        assert sorted(name for name, _ in shown) == sorted(own)
        assert {words for _, words in shown} <= set(outcomes.WORDS.values())
        assert "We find ," not in pages[papers.name(paper)], "every judged claim has its numbers"


def test_a_report_of_some_rows_is_not_taken_for_the_page_of_verdicts(tmp_path):
    from penstock_papers import ledger

    page = tmp_path / "report.html"
    assert not stage.whole(page)
    page.write_text('<h2 id="paper-incast">')
    assert not stage.whole(page)
    page.write_text("".join(f'<h2 id="paper-{paper}">' for paper in ledger.PAPERS))
    assert stage.whole(page)


def test_the_site_has_the_page_of_every_paper(tmp_path, monkeypatch):
    """The list of verdicts links to pages beside it, and a paper's table of rows links into them."""
    page = tmp_path / "report.html"
    page.write_text('<a href="report-incast.html#i-1-5">I-1.5</a><section id="paper-incast"></section>')
    (tmp_path / "report-incast.html").write_text('<a href="report.html">All</a><p id="i-1-5"></p>')
    (tmp_path / "site").mkdir()
    stage.copy_verdicts(page, tmp_path / "site" / "verdicts.html")
    looked, dead = check.dead_links(tmp_path / "site")
    assert looked >= 2 and dead == []
    made = sorted(file.name for file in (tmp_path / "site").iterdir())
    assert made == ["verdicts-incast.html", "verdicts.html"]
    monkeypatch.setattr(background, "LEDGER", page)
    table = background.filled("<!-- verdicts: incast -->", "../")
    assert "[I-1.5](site:verdicts-incast.html#i-1-5)" in table and "#i-2-5" not in table


def test_every_figure_of_the_pages_is_drawn_by_the_build(tmp_path):
    """No picture is committed but the still, and each mark's script draws one."""
    docs = ROOT / "docs"
    pictures = {path.name for ending in ("png", "svg", "jpg") for path in docs.rglob(f"*.{ending}")}
    assert pictures == {"still.png"}
    marks = [
        (page, *mark)
        for page in [*docs.rglob("*.md"), ROOT / "ARCHITECTURE.md"]
        for mark in drawn.MARK.findall(page.read_text(encoding="utf-8"))
    ]
    scripts = {(page.parent / script).resolve() for page, script, _ in marks}
    assert scripts == set((docs / "figures").glob("*.py"))
    assert all(len(alt) > 40 for *_, alt in marks)
    page = tmp_path / "page.md"
    text = "<!-- figure: figures/live_incast.py: what one\nsees -->\n"
    shown = drawn.drawn(text, docs / "live.md", page, tmp_path / "figures")
    assert shown == "![what one sees](figures/live_incast.svg)\n"
    assert (tmp_path / "figures/live_incast.svg").read_text(encoding="utf-8").count("<path") > 20


def test_a_figure_is_found_from_every_page_that_has_it(monkeypatch, tmp_path):
    """As the build finds it: pages in several folders name scripts, which import what lies elsewhere."""
    drawn_from = []

    def draw(script, folder):
        drawn_from.append(drawn.load(script).__file__)
        return folder / "figure.svg"

    monkeypatch.setattr(drawn, "draw", draw)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if not p.endswith("tests/validation")])
    monkeypatch.delitem(sys.modules, "rdma_ns3", raising=False)
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "ARCHITECTURE.md"]:
        drawn.drawn(page.read_text(encoding="utf-8"), page, tmp_path / "page.md", tmp_path)
    assert {Path(path).name for path in drawn_from} == {p.name for p in (ROOT / "docs/figures").glob("*.py")}


@full
@pytest.mark.parametrize("script", sorted((ROOT / "docs/figures").glob("*.py")), ids=lambda path: path.stem)
def test_a_figure_is_drawn(script, tmp_path):
    assert drawn.draw(script, tmp_path).stat().st_size > 10_000


@full
@needs_chromium
def test_the_still_of_the_readme_is_what_its_script_makes(tmp_path):
    pytest.importorskip("playwright.sync_api")
    if why := drawn.still(tmp_path / "still.png"):
        pytest.skip(why)
    from PIL import Image

    made, kept = (
        np.asarray(Image.open(path).convert("L"), float) for path in (tmp_path / "still.png", drawn.STILL)
    )
    assert made.shape == kept.shape
    # Another version of a font moves some edges; another run, slider or layout moves more.
    assert (abs(made - kept) > 32).mean() < 0.02, "renew it: tools/still.py"


# ---- examples ----------------------------------------------------------------------------------------------


def test_there_are_ten_scripts_of_thirty_lines_and_four_notebooks():
    assert len(SCRIPTS) == 10 and len(NOTEBOOKS) == 4
    for script in SCRIPTS:
        assert len(script.read_text(encoding="utf-8").splitlines()) <= 30, script.name


@pytest.mark.parametrize("script", some_full(SCRIPTS, LONG_SCRIPTS))
def test_an_example_runs(script, tmp_path):
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=blocks.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Its first lines say what it prints; the numbers are there.
    assert re.search(r"\d", done.stdout), done.stdout


@full
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(notebook, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="the extra `docs` is not installed: make docs")
    nbclient = pytest.importorskip("nbclient", reason="the extra `docs` is not installed: make docs")
    pytest.importorskip("ipykernel", reason="the extra `docs` is not installed: make docs")
    document = nbformat.read(notebook, as_version=4)
    nbformat.validate(document)
    assert all(not cell.get("outputs") for cell in document.cells), "committed without outputs"
    nbclient.NotebookClient(document, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in document.cells for output in cell.get("outputs", [])]
    assert outputs and all(output.output_type != "error" for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs), "no figure"


# ---- the site ----------------------------------------------------------------------------------------------


def test_dead_links_are_found(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="sub/page.html#there">1</a><a href="sub/page.html#gone">2</a><a href="no.html">3</a>'
        '<a href="https://example.org/">4</a><a href="sub/">5</a><img src="../outside.png">'
        '<a href="#here" id="here">6</a>'
    )
    (tmp_path / "sub/page.html").write_text('<h1 id="there"><a href="../index.html">back</a></h1>')
    looked, dead = check.dead_links(tmp_path)
    assert looked == 7
    assert dead == [
        "index.html: sub/page.html#gone: no such place in the page",
        "index.html: no.html: no such file",
        "index.html: sub/: no such file",
        "index.html: ../outside.png: no such file",
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The whole site, as `make site` builds it: exit code 0 means no warning and no dead link."""
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("the extra `docs` is not installed: make docs")
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, SITE, "--out", folder],
        cwd=ROOT,
        env=blocks.environment(),
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert " 0 dead" in done.stderr and "WARNING" not in done.stderr
    return folder


@full
def test_the_site_has_what_it_promises(site):
    for page in (
        "tutorial/first-incast",
        "how-to/which-fct",
        "background/rdma",
        "reference/protocols/dctcp",
        "reference/glossary",
        "papers/claims-incast",
        "verdicts",
        "rust/penstock/index",
    ):
        assert (site / f"{page}.html").exists(), page
    # Nothing is fetched from anywhere.
    for page in site.rglob("*.html"):
        if not page.relative_to(site).as_posix().startswith("rust/"):
            assert not re.search(
                r'<(?:script|img|link)[^>]*(?:src|href)="https?://', page.read_text(encoding="utf-8")
            ), page


@full
@needs_chromium
def test_the_search_of_the_site_finds_things(site):
    playwright = pytest.importorskip("playwright.sync_api")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    handler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with playwright.sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            errors = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            for words, wanted in (
                ("hysteresis threshold", "queues/hysteresis"),
                ("rto_min", "choose-a-timeout"),
                ("PowerTCP", "powertcp"),
            ):
                page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
                page.fill("input[name=q]", words)
                page.press("input[name=q]", "Enter")
                page.wait_for_selector("#search-results li a")
                page.wait_for_function(
                    "!document.querySelector('#search-progress')?.textContent.includes('Preparing')"
                )
                found = page.eval_on_selector_all(
                    "#search-results li a", "links => links.map(a => a.getAttribute('href'))"
                )
                assert any(wanted in link for link in found), (words, found)
            assert errors == []
            browser.close()
    finally:
        server.shutdown()


def test_the_version_is_one_and_names_the_commit():
    import penstock
    from penstock import version

    declared = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    assert penstock.__version__ == declared
    assert re.search(rf"^version: {re.escape(declared)}$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    again = re.findall(r'path = "crates/[\w-]+", version = "(.+?)"', (ROOT / "Cargo.toml").read_text())
    assert len(again) == 10 and set(again) == {declared}
    said = inline("--version").stdout
    assert said == version.line() + "\n" and said.startswith(f"penstock {declared}")
    if (ROOT / ".git").exists() and shutil.which("git"):
        head = subprocess.run(
            ["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout
        assert head.startswith(version.commit().rstrip("+")) and version.commit()


def test_a_commit_of_a_wheel_is_read_from_its_file(monkeypatch, tmp_path):
    from penstock import version

    monkeypatch.setattr(version, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(version, "_FILE", tmp_path / "commit.txt")
    version.commit.cache_clear()
    assert version.commit() == "" and version.line() == f"penstock {version.line().split()[1]}"
    (tmp_path / "commit.txt").write_text("0123456789\n")
    version.commit.cache_clear()
    assert version.line().endswith(" (commit 0123456789)")
    version.commit.cache_clear()


def test_every_licence_is_an_allowed_one():
    if shutil.which("cargo") is None and not Path(os.path.expanduser("~/.cargo/bin/cargo")).exists():
        pytest.skip("cargo is not installed")
    done = subprocess.run(
        [sys.executable, ROOT / "tools/licences.py", "check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
