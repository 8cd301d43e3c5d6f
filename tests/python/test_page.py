"""The page: WebAssembly gives what the native engine gives, and a browser shows what the engine knows.

Needs the page's parts (`make setup` says why they are missing), Node for the first half, Playwright and
Chromium for the second.
"""

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
from conftest import INCAST, Tab, needs_chromium, needs_node, needs_page
from conftest import penstock as run_program

import penstock
from penstock import _engine, record_window, scenario, store, views

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
NODE = ROOT / "tests" / "page" / "golden.mjs"


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
    unpack = "process.stdout.write(require('fzstd').decompress(require('fs').readFileSync(process.argv[1])))"
    packed = str(views.PARTS / "penstock.wasm.zst")
    done = subprocess.run(["node", "-e", unpack, packed], cwd=ROOT / "page", capture_output=True, check=True)
    path.write_bytes(done.stdout)

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
    assert data[:8] == record_window.MAGIC and len(data) % 4 == 0
    at = data.rindex(b'{"bottleneck"')
    result = json.loads(data[at:].rstrip(b"\0"))
    native = penstock.run("incast", seed=1, settings=INCAST).runs[0].summary
    assert all(result["summary"][key] == native[key] for key in ("goodput_bps", "drops", "packet_hops"))


# ---- in a browser ------------------------------------------------------------------------------------------


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
    assert not shown.is_visible("#sliders"), "there is nothing to drag where nothing runs"
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
    parts = ["penstock.wasm.zst", "page.js", "page.css", "load.js", "figures.js", "cards.js", "LICENSES.txt"]
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
def test_a_page_is_one_file_of_at_most_1200_kb(incast):
    text = incast.read_text()
    assert len(text.encode()) <= views.MOST_BYTES_OF_ENGINE
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


def test_a_studys_directory_has_a_page_without_a_run(tmp_path, monkeypatch):
    """Table and figures come from `summary.parquet`: the engine makes no run, and no file but it is read."""
    from penstock import study_page

    study = penstock.study(
        "incast",
        over={"servers": "2,4", "protocol": "newreno,dctcp"},
        runs=2,
        settings={"duration": "20ms", "sru": "32KB"},
    )
    folder = study.save(tmp_path / "servers")
    assert study_page.is_study(folder)
    # A file that would run where something imported or opened it.
    (folder / "own.py").write_text("raise SystemExit('executed')")
    monkeypatch.setattr(_engine, "run", None, raising=False)
    text = study_page.write(folder, tmp_path / "page.html").read_text()
    mean = study.mean()
    for servers, protocol in ((2, "newreno"), (4, "dctcp")):
        chosen = (mean["servers"].cast(str) == str(servers)) & (mean["protocol"] == protocol)
        goodput = mean.filter(chosen)["goodput_bps"][0]
        assert penstock.runs.show("goodput_bps", goodput) in text, (servers, protocol)
    assert "protocol = dctcp" in text and "<svg" in text
    done = run_program("view", str(folder), "--out", str(tmp_path / "again.html"))
    assert done.returncode == 0 and (tmp_path / "again.html").stat().st_size > 10_000, done.stderr


def test_a_table_that_is_no_studys_is_one_line(tmp_path):
    (tmp_path / "summary.parquet").write_text("nothing")
    done = run_program("view", str(tmp_path), "--out", str(tmp_path / "page.html"))
    assert done.returncode == 2 and "must be a readable Parquet file" in done.stderr
    assert not (tmp_path / "page.html").exists()


def test_setup_adds_the_target_where_rustup_is(tmp_path):
    """`tools/page.sh` with programs that only note how they were called."""
    tree, programs, log = tmp_path / "tree", tmp_path / "bin", tmp_path / "log"
    (tree / "tools").mkdir(parents=True)
    (tree / "page").mkdir()
    (tree / "page" / "package-lock.json").write_text("{}")
    (tree / "page" / "node_modules").mkdir()
    shutil.copy(ROOT / "tools" / "page.sh", tree / "tools")
    programs.mkdir()
    library = tmp_path / "lib"
    bodies = {
        "rustup": f'mkdir -p "{library}"',
        "rustc": f'case "$*" in *target-libdir*) echo "{library}";; *) echo "{tmp_path}";; esac',
        "cargo": "",
        "npm": "",
        "node": 'case "$1" in --version) echo v20.0.0;; esac',
    }
    for name, body in bodies.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{log}"\n{body}\n')
        program.chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path)}
    command = ["bash", str(tree / "tools" / "page.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    calls = log.read_text().splitlines()
    assert "rustup target add wasm32-unknown-unknown" in calls
    built = next(call for call in calls if call.startswith("cargo "))
    assert "build-std" not in built and calls.index(built) > calls.index(
        "rustup target add wasm32-unknown-unknown"
    )
    assert calls[-1].endswith("wasm32-unknown-unknown/page/penstock_page.wasm")

    # With the target nothing is added; without rustup and target one line says what is missing.
    log.unlink()
    assert subprocess.run(command, env=environment, capture_output=True).returncode == 0
    assert not any(call.startswith("rustup") for call in log.read_text().splitlines())
    library.rmdir()
    (programs / "rustup").unlink()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "missing Rust's wasm32-unknown-unknown target" in done.stderr
