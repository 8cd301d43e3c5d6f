"""The page: WebAssembly gives what the native engine gives, and a browser shows what the engine knows.

Needs the page's parts (`make setup` says why they are missing), Node for the first half, Playwright and
Chromium for the second.
"""

import gzip
import json
import math
import random
import shutil
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from conftest import penstock as run_program

import penstock
from penstock import _engine, scenario, store, views

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
NODE = ROOT / "tests" / "page" / "golden.mjs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_page = pytest.mark.skipif(bool(views.available()), reason=views.available() or "-")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

INCAST = {"protocol": "dctcp", "queue": "threshold:k=20pkt", "servers": 8, "duration": "40ms", "sru": "64KB"}


def document(what, settings=None, **more):
    """What the page would ask the engine for: files go with the document."""
    found = json.loads(scenario.spec(what, settings or {}, 1))
    resolved = json.loads(_engine.resolve(json.dumps(found)))
    base = Path(found.pop("base_dir", None) or ".")
    files = {name: (base / name).read_text() for name in store.files(resolved)}
    return json.dumps({**found, **({"files": files} if files else {}), **more})


@pytest.fixture(scope="module")
def wasm(tmp_path_factory):
    path = tmp_path_factory.mktemp("wasm") / "penstock.wasm"
    path.write_bytes(gzip.decompress((views.PARTS / "penstock.wasm.gz").read_bytes()))

    def answer(documents):
        done = subprocess.run(
            ["node", str(NODE), str(path)],
            input="\n".join(documents) + "\n",
            capture_output=True,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    return answer


@needs_page
@needs_node
@pytest.mark.parametrize("record", [False, True], ids=["plain", "recorded"])
def test_webassembly_gives_every_golden_result_bit_for_bit(wasm, record):
    expected = json.loads((GOLDEN / "results.json").read_text())
    more = {"fingerprint": True} | ({"record": {}} if record else {})
    found = wasm([document(GOLDEN / f"{name}.toml", **more) for name in expected])
    assert len(found) == len(expected) > 30
    for (name, golden), result in zip(expected.items(), found, strict=True):
        assert "error" not in result, (name, result)
        for key, value in golden["numbers"].items():
            assert result["summary"][key] == value, (name, key)
        # Summary and every row of every table.
        assert result["fingerprint"] == golden["fingerprint"], name
        assert (result["words"] > 0) == record


@needs_page
@needs_node
def test_errors_are_the_command_lines(wasm):
    bad = {"scenario": "incast", "set": {"servers": "0"}, "seed": 1}
    with pytest.raises(penstock.ScenarioError) as native:
        _engine.resolve(json.dumps(bad))
    assert wasm([json.dumps(bad)]) == [{"error": str(native.value)}]


def test_a_record_ends_with_the_result_of_the_run(tmp_path):
    path = tmp_path / "run.record"
    spec = scenario.spec("incast", INCAST, 1)
    assert _engine.record(spec, 0, str(path), _engine.Progress())
    data = path.read_bytes()
    assert data[:8] == views.MAGIC and len(data) % 4 == 0
    at = data.rindex(b'{"bottleneck"')
    result = json.loads(data[at:].rstrip(b"\0"))
    native = penstock.run("incast", seed=1, settings=INCAST).runs[0].summary
    assert all(result["summary"][key] == native[key] for key in ("goodput_bps", "drops", "packet_hops"))


# ---- in a browser ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Tab:
    """A page opened from disk with the network off; `errors` collects what its console complains about."""

    def __init__(self, browser, path, *, width=1280, height=900, link="", **options):
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, offline=True, **options
        )
        self.tab = self.context.new_page()
        self.errors = []
        self.tab.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.tab.on("pageerror", lambda e: self.errors.append(str(e)))
        self.tab.goto(path.as_uri() + link)
        self.settle()

    def settle(self):
        self.tab.wait_for_function(
            "() => { const e = document.getElementById('error'); return !e.hidden ||"
            " (globalThis.penstock?.logs()[0]?.result && document.body.dataset.state !== 'running'); }",
            timeout=60_000,
        )
        self.tab.wait_for_timeout(150)

    def __getattr__(self, name):
        return getattr(self.tab, name)

    def time(self):
        return self.tab.evaluate("penstock.clock.t")


@pytest.fixture(scope="module")
def incast(tmp_path_factory):
    return penstock.view("incast", settings=INCAST).save(tmp_path_factory.mktemp("page") / "incast.html")


@needs_page
@needs_chromium
def test_it_plays_scrubs_selects_runs_compares_and_restores(browser, incast):
    page = Tab(browser, incast)
    first = page.evaluate("penstock.logs()[0].result.summary")
    native = penstock.run("incast", seed=1, settings=INCAST).runs[0].summary
    for key, value in native.items():
        shown = math.nan if first[key] is None else first[key]
        assert shown == value or (math.isnan(shown) and math.isnan(value)), key

    before = page.time()
    page.click("#play")
    page.wait_for_timeout(600)
    page.click("#play")
    assert page.time() > before
    assert page.evaluate("penstock.frames.count") > 3

    page.evaluate("document.getElementById('scrub').value = 5000")
    page.dispatch_event("#scrub", "input")
    assert page.time() == pytest.approx(0.02, rel=0.01)
    page.click("#forth")
    after = page.time()
    page.click("#back")
    page.click("#back")
    assert page.time() < after
    page.locator("body").press("Home")
    assert page.time() == 0
    page.click("#zoom-in")
    assert page.evaluate("penstock.clock.to - penstock.clock.from") == pytest.approx(0.01)

    page.select_option("#flow", "3")
    page.select_option("#port", "0")
    page.wait_for_timeout(100)
    assert page.evaluate("penstock.selected") == {"port": 0, "flow": 3}
    assert "Flow 3" in page.text_content("#detail")

    page.fill("#set-queue", "threshold:k=5pkt")
    page.click("#compare")
    page.settle()
    assert page.is_visible("#side-b")
    other = penstock.run("incast", seed=1, settings=INCAST | {"queue": "threshold:k=5pkt"}).runs[0].summary
    assert page.evaluate("penstock.logs()[1].result.summary.ce_marks") == other["ce_marks"]
    assert other["ce_marks"] != native["ce_marks"]
    assert page.locator("#summary tr.differs").count() > 3

    page.fill("#set-servers", "0")
    page.click("#run")
    page.wait_for_selector("#error:visible")
    with pytest.raises(penstock.ScenarioError) as line:
        penstock.resolve("incast", INCAST | {"servers": "0"})
    # The control's other edit is in the document too, and is not what is wrong.
    assert page.text_content("#error") == str(line.value)
    assert page.get_attribute("#set-servers", "aria-invalid") == "true"

    page.fill("#set-servers", "4")
    page.click("#run")
    page.settle()
    assert page.evaluate("penstock.logs()[0].flows.size") == 4
    page.evaluate("penstock.seek(0.0123)")
    page.wait_for_timeout(200)
    link = page.evaluate("location.hash")

    again = Tab(browser, incast, link=link)
    again.wait_for_timeout(300)
    assert again.time() == pytest.approx(0.0123)
    assert again.evaluate("penstock.selected") == {"port": 0, "flow": 3}
    assert again.evaluate("penstock.logs()[0].flows.size") == 4
    assert again.is_visible("#side-b") and again.input_value("#set-servers") == "4"

    # The other side may be there first, and have fewer ports than the one that is selected in the first.
    last = page.evaluate("penstock.logs()[0].head.links.length") - 1
    page.select_option("#port", str(last))
    page.fill("#set-servers", "2")
    page.click("#compare")
    page.settle()
    page.wait_for_timeout(200)
    assert page.evaluate("penstock.logs()[1].head.links.length") <= last
    assert page.evaluate("penstock.selected.port") == last
    assert page.errors == [] and again.errors == []


SHOWN = {
    "incast": ("incast", INCAST),
    "leaf-spine, NDP: trimming, pulls, spraying": (
        "permutation",
        {"topology": "leaf-spine:2x2x4", "protocol": "ndp", "duration": "2ms"},
    ),
    "every workload, loss": (GOLDEN / "custom_all_workloads.toml", {}),
}


@needs_page
@needs_node
@needs_chromium
@pytest.mark.parametrize("name", SHOWN)
def test_what_the_page_shows_is_true(browser, wasm, tmp_path, name):
    what, settings = SHOWN[name]
    page = Tab(browser, penstock.view(what, settings=settings).save(tmp_path / "page.html"))
    end = page.evaluate("penstock.logs()[0].result.end_s")
    draw = random.Random(20)
    # In thousandths of a nanosecond; not at the very instant of an event but by chance.
    times = [draw.randrange(int(end * 1e12)) for _ in range(10)]
    engine = wasm([document(what, settings, whereabouts=times)])[0]
    packets = queued = 0
    for at, expected in zip(times, engine, strict=True):
        shown = page.evaluate(f"penstock.logs()[0].whereabouts({at} * 1e-12)")
        assert shown == expected, (at, name)
        page.evaluate(f"penstock.seek({at} * 1e-12)")
        page.wait_for_timeout(60)
        picture = page.evaluate("penstock.shown()")
        assert picture["packets"] == sum(len(wire) for wire, _ in expected)
        # A bar is as long as the port's queue: those waiting and the one in service.
        assert picture["queues"] == [len(port) for _, port in expected]
        packets += sum(len(wire) + len(port) for wire, port in expected)
        queued += sum(picture["queues"])
    assert packets > 20 and queued > 5
    assert page.errors == []


@needs_page
@needs_chromium
def test_a_recording_needs_no_webassembly(browser, tmp_path):
    path = tmp_path / "run.record"
    _engine.record(scenario.spec("incast", INCAST, 1), 0, str(path), _engine.Progress())
    made = penstock.view(path)
    page = Tab(browser, made.save(tmp_path / "page.html"))
    assert page.evaluate("penstock.logs()[0].hops") > 1000
    assert not page.is_visible("#parameters")
    assert page.text_content("#engine") == ""
    assert page.errors == []


@needs_page
@needs_chromium
def test_a_run_directory_is_shown_from_its_record(browser, tmp_path):
    """A big run, 128 hosts: `run --out --record`, then `view DIR`, without the engine."""
    folder, page = tmp_path / "big", tmp_path / "big.html"
    given = {"topology": "fat-tree:8", "protocol": "dctcp", "link_rate": "10Gbps", "duration": "1ms"}
    words = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    record = folder / views.RECORD
    done = run_program("run", "permutation", *words, "--out", str(folder), "--record", str(record))
    assert done.returncode == 0, done.stderr
    done = run_program("view", str(folder), "--out", str(page))
    assert done.returncode == 0, done.stderr
    assert page.stat().st_size < views.MOST_BYTES

    shown = Tab(browser, page)
    assert shown.text_content("#engine") == "" and not shown.is_visible("#parameters")
    summary = json.loads((folder / "summary.json").read_text())
    native = penstock.run("permutation", seed=1, settings=given).runs[0].summary
    result = shown.evaluate("penstock.logs()[0].result.summary")
    assert all(result[key] == native[key] for key in ("goodput_bps", "packet_hops", "queue_max_packets"))
    assert json.dumps(native["goodput_bps"]) in json.dumps(summary)
    assert shown.evaluate("penstock.logs()[0].head.nodes.length") == 128 + 80
    assert shown.evaluate("penstock.logs()[0].hops") > 100_000
    shown.evaluate("penstock.seek(0.0005)")
    shown.wait_for_timeout(200)
    assert shown.evaluate("penstock.shown().packets") > 100
    assert shown.errors == []


@needs_page
@needs_chromium
def test_a_notebook_shows_the_page_in_its_frame(browser, tmp_path):
    """What a cell's answer is rendered as: a sandboxed frame, without an origin of its own."""
    result = penstock.run("incast", settings=INCAST)
    cell = f"<!doctype html><title>notebook</title><body>{result.view()._repr_html_()}</body>"
    (tmp_path / "cell.html").write_text(cell)
    context = browser.new_context(viewport={"width": 1100, "height": 900}, offline=True)
    tab = context.new_page()
    errors = []
    tab.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    tab.on("pageerror", lambda e: errors.append(str(e)))
    tab.goto((tmp_path / "cell.html").as_uri())
    frame = tab.frames[1]
    frame.wait_for_function("() => globalThis.penstock?.logs()[0]?.result", timeout=60_000)
    drops = frame.evaluate("penstock.logs()[0].result.summary.drops")
    assert drops == result.runs[0].summary["drops"]
    frame.click("#play")
    frame.wait_for_function("() => penstock.frames.count > 2")
    frame.click("#play")
    frame.fill("#set-servers", "4")
    frame.click("#run")
    frame.wait_for_function("() => penstock.logs()[0]?.result && penstock.logs()[0].flows.size === 4")
    assert errors == []


def test_a_wheel_has_the_page():
    """`include` of maturin covers every part, whatever git ignores."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["maturin"]["include"]
    parts = ["penstock.wasm.gz", "page.js", "page.css", "figures.js", "LICENSES.txt"]
    for part in parts:
        assert any(fnmatch(f"python/penstock/page/{part}", pattern) for pattern in patterns), part
    if not views.available():
        assert sorted(path.name for path in views.PARTS.iterdir()) == sorted(parts)


@pytest.mark.full
@needs_page
def test_a_built_wheel_has_the_page(tmp_path):
    maturin = Path(sys.executable).with_name("maturin")
    command = [str(maturin), "build", "--profile", "fast", "--locked", "--quiet", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=1200)
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    for part in views.PARTS.iterdir():
        assert f"penstock/page/{part.name}" in names


@needs_page
def test_a_page_is_one_file_of_at_most_5_mb(incast):
    text = incast.read_text()
    assert len(text) < views.MOST_BYTES
    # Nothing is fetched: no reference leaves the file.
    assert "src=" not in text.split("<script", 1)[0] and "<link" not in text
    assert "uplot 1." in text


def test_without_its_parts_there_is_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(views, "PARTS", tmp_path)
    from penstock import cli

    with pytest.raises(SystemExit) as stop:
        cli.main(["view", "incast", "--out", str(tmp_path / "page.html")])
    assert stop.value.code == 3
    assert "the page is not built here" in capsys.readouterr().err
