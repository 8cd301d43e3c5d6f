"""What SECURITY.md says of each artefact."""

import base64
import gzip
import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import PENSTOCK, inline, penstock

import penstock as lab
from penstock import controllers, results, scenario, store, views

EVIL = """
import pathlib, penstock
pathlib.Path(__file__).with_name("ran").write_text("it ran")

@penstock.controller
class Evil:
    cwnd: float = 0.0
    def on_start(self, config): self.cwnd = config.initial_window
    def on_ack(self, ack, flow): self.cwnd += ack.acked
    def on_congestion(self, event, flow): self.cwnd = max(self.cwnd / 2, flow.segment)
    def control(self): return self.cwnd
"""
STAR = """
scenario = "custom"
topology = "star:4"
link_rate = "1Gbps"
link_delay = "10us"
duration = "5ms"
[[workload]]
kind = "trace"
file = "flows.csv"
"""
FLOWS = "start_s,src,dst,bytes\n0,h0,h1,1000\n"

needs_page = pytest.mark.skipif(bool(views.available()), reason="the page is not built here")


def embedded(page: str) -> str:
    """The document in a page, as JSON: it is compressed, so the text of the page does not show it."""
    (packed,) = re.findall(r'<script type="text/plain" id="given">([^<]*)</script>', page)
    return gzip.decompress(base64.b85decode(packed.replace(",", "<"))).decode()


def forged(folder: Path, change) -> None:
    """Change run.json of a directory, with a checksum that fits."""
    about = json.loads((folder / "run.json").read_text())
    change(about)
    about.pop("sha256")
    (folder / "run.json").write_text(json.dumps({**about, "sha256": results._checksum(about)}))


def identity(file: Path) -> dict[str, object]:
    """What a document says of a class, without running it."""
    import hashlib

    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return {"name": "evil", "class": "Evil", "file": str(file), "sha256": digest, "compile": None}


# --- Results are data ---------------------------------------------------------------------------------------


def test_a_result_that_names_a_python_file_runs_nothing(tmp_path):
    folder = tmp_path / "res"
    lab.run("incast", servers=2, duration="5ms").save(folder)
    evil = folder / "evil.py"
    evil.write_text(EVIL)
    named = f"{evil}:Evil"

    def as_protocol(about):
        about["scenario"]["set"]["protocol"] = named
        about["scenario"]["given"] = [*about["scenario"]["given"], "protocol"]

    def as_queue(about):
        about["scenario"]["set"]["queue"] = named
        about["scenario"]["given"] = [*about["scenario"]["given"], "queue"]

    def as_list(about):
        about["scenario"]["set"]["protocols"] = named
        about["scenario"]["given"] = [*about["scenario"]["given"], "protocols"]

    def as_controller(about):
        as_protocol(about)
        about["scenario"]["set"]["protocol"] = "evil"
        about["scenario"]["controllers"] = [identity(evil)]

    def as_table(about):
        about["scenario"]["scenario"] = "custom"
        about["scenario"]["file"] = {
            "base_dir": str(folder),
            "tables": {"workload": [{"kind": "flows", "from": "h0", "to": "h1", "protocol": named}]},
        }

    def as_table_list(about):
        as_table(about)
        about["scenario"]["file"]["tables"]["protocols"] = [named]

    original = (folder / "run.json").read_bytes()
    for change in (as_protocol, as_queue, as_list, as_controller, as_table, as_table_list):
        (folder / "run.json").write_bytes(original)
        forged(folder, change)
        lab.load(folder)
        for place in (str(folder), f"{folder}/../res"):
            done = inline("view", place, "--out", str(tmp_path / "page.html"))
            assert "Traceback" not in done.stderr
            assert len(done.stderr.splitlines()) == 1, done.stderr
        assert not (folder / "ran").exists(), change.__name__


def test_a_store_and_a_record_that_name_a_python_file_run_nothing(tmp_path):
    (tmp_path / "evil.py").write_text(EVIL)
    over = {"servers": [2, 3]}
    lab.study("incast", over, settings={"duration": "5ms"}, store=tmp_path / "store")
    for path in (tmp_path / "store" / "runs").glob("*/*.json"):
        document = json.loads(path.read_text())
        document["entry"]["set"]["protocol"] = f"{tmp_path / 'evil.py'}:Evil"
        document["sha256"] = store._hash(document["entry"])
        path.write_text(json.dumps(document))
    lab.study("incast", over, settings={"duration": "5ms"}, store=tmp_path / "store")
    assert (
        inline("run", "incast", "--set", "duration=1ms", "--record", str(tmp_path / "r.bin")).returncode == 0
    )
    content = (tmp_path / "r.bin").read_bytes()
    named = content.replace(b'"newreno"', f'"{tmp_path / "evil.py"}:Evil"'.encode())
    (tmp_path / "r.bin").write_bytes(named)
    inline("view", str(tmp_path / "r.bin"), "--out", str(tmp_path / "page.html"))
    assert not (tmp_path / "ran").exists()


def test_a_python_file_that_changed_after_the_run_was_planned_is_not_run(tmp_path):
    evil = tmp_path / "evil.py"
    evil.write_text(EVIL)
    planned = identity(evil)
    evil.write_text(EVIL + "# another\n")
    with pytest.raises(lab.ScenarioError, match="has changed since the run was planned"):
        controllers.provide(json.dumps(planned))
    assert not (tmp_path / "ran").exists()


def test_a_python_file_that_the_caller_names_is_run(tmp_path):
    evil = tmp_path / "evil.py"
    evil.write_text(EVIL)
    done = penstock("run", "incast", "--set", f"protocol={evil}:Evil", "--set", "duration=2ms")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").exists()


# --- Files in pages -----------------------------------------------------------------------------------------


@needs_page
def test_a_page_holds_the_file_that_a_key_names_and_no_other(tmp_path):
    (tmp_path / "flows.csv").write_text(FLOWS)
    # Hosts, a topology and a word of another key that are called like files beside the scenario.
    for name in ("secret", "h0", "star:4", "websearch", "custom"):
        (tmp_path / name).write_text("SECRET of the user")
    (tmp_path / "s.toml").write_text(STAR)
    text = embedded(views.view(str(tmp_path / "s.toml")).text)
    assert json.dumps(FLOWS)[1:-1] in text
    assert "SECRET" not in text
    (tmp_path / "n.toml").write_text(
        'scenario = "custom"\\nhosts = ["secret", "b"]\\nswitches = ["s"]\\nduration = "1ms"\\n'.replace(
            "\\n", "\n"
        )
        + '[[link]]\nbetween = ["secret", "s"]\nrate = "1Gbps"\ndelay = "1us"\n'
        + '[[link]]\nbetween = ["b", "s"]\nrate = "1Gbps"\ndelay = "1us"\n'
        + '[[workload]]\nfrom = "secret"\nto = "b"\nsize = "1KB"\n'
    )
    assert "SECRET" not in embedded(views.view(str(tmp_path / "n.toml")).text)


@needs_page
def test_a_page_takes_no_file_from_outside_the_scenarios_folder(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "flows.csv").write_text(FLOWS)
    (tmp_path / "here" / "link.csv").symlink_to(tmp_path / "flows.csv")
    for name in ("../flows.csv", str(tmp_path / "flows.csv"), "link.csv"):
        (tmp_path / "here" / "s.toml").write_text(STAR.replace("flows.csv", name))
        done = inline("view", str(tmp_path / "here" / "s.toml"), "--out", str(tmp_path / "page.html"))
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.endswith("is not below the scenario's folder: a page takes no other file")


@needs_page
def test_a_result_gets_only_the_files_that_its_run_read_into_its_page(tmp_path):
    (tmp_path / "flows.csv").write_text(FLOWS)
    (tmp_path / "s.toml").write_text(STAR)
    folder = tmp_path / "res"
    done = inline("run", str(tmp_path / "s.toml"), "--out", str(folder))
    assert done.returncode == 0, done.stderr
    assert json.dumps(FLOWS)[1:-1] in embedded(views.view(str(folder)).text)
    home = tmp_path / "home"
    home.mkdir()
    (home / "key").write_text("SECRET of the user")

    def elsewhere(about):
        about["scenario"]["file"]["base_dir"] = str(home)
        about["scenario"]["file"]["tables"]["workload"][0]["file"] = "key"

    def with_a_guess(about):
        elsewhere(about)
        about["inputs"] = {"key": "0" * 64}

    def with_its_own_word(about):
        elsewhere(about)
        about["scenario"]["file"]["inputs"] = None
        del about["inputs"]

    original = (folder / "run.json").read_bytes()
    for change in (elsewhere, with_a_guess, with_its_own_word):
        (folder / "run.json").write_bytes(original)
        forged(folder, change)
        done = inline("view", str(folder), "--out", str(tmp_path / "page.html"))
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert "is not there any more as the run read it" in line
        assert not (tmp_path / "page.html").exists()


@needs_page
def test_pages_and_reports_make_no_request_to_a_network(tmp_path):
    text = views.view("incast", duration="1ms").text
    outside = re.sub(r'"ENGINE".*', "", text)
    for pattern in (
        r'<(?:script|img|link|iframe)[^>]+(?:src|href)="?https?:',
        r"@import",
        r"url\(\s*['\"]?https?:",
    ):
        assert not re.search(pattern, outside)


@needs_page
def test_names_in_a_page_are_text(tmp_path):
    text = views.view("incast", title="</script><script>alert(1)</script>", duration="1ms").text
    assert "<script>alert(1)" not in text


# --- Temporary files ----------------------------------------------------------------------------------------


def test_links_in_the_place_of_temporary_files_are_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    for name in (
        ".rec.bin.part",
        ".trace.json.part",
        ".packets.pcapng.part",
        ".run.json.part",
        ".summary.json",
    ):
        (out / name).symlink_to(target)
    arguments = ["run", "incast", "--set", "servers=2", "--set", "duration=1ms", "--out", str(out)]
    more = ["--record", str(out / "rec.bin"), "--perfetto", str(out / "trace.json"), "--pcap", "client"]
    done = inline(*arguments, *more)
    assert done.returncode == 0, done.stderr
    assert target.read_text() == "precious"
    assert (out / "rec.bin").read_bytes()[:8] == b"PENSTOCK"
    for name in ("rec.bin", "trace.json", "packets.pcapng", "run.json"):
        assert (out / name).is_file() and not (out / name).is_symlink()


def test_the_engine_makes_the_file_of_a_record_itself(tmp_path):
    from penstock import _engine

    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "record").symlink_to(target)
    spec = scenario.spec("incast", {"duration": "1ms"}, 1)
    with pytest.raises(FileExistsError):
        _engine.record(spec, 0, str(tmp_path / "record"), _engine.Progress())
    assert target.read_text() == "precious"


def test_a_result_is_written_in_a_folder_of_its_own(tmp_path, monkeypatch):
    seen = []
    fill = results._fill

    def looked(beside, *rest):
        seen.append(beside.stat().st_mode & 0o777)
        fill(beside, *rest)

    monkeypatch.setattr(results, "_fill", looked)
    lab.run("incast", servers=2, duration="1ms").save(tmp_path / "out")
    assert seen == [0o700]


def test_no_port_is_opened(tmp_path):
    script = """
import socket
def refuse(*_args, **_more): raise AssertionError("a socket")
socket.socket.bind = socket.socket.connect = refuse
from penstock import cli
cli.main(["run", "incast", "--set", "servers=2", "--set", "duration=1ms"])
"""
    done = subprocess.run([str(PENSTOCK.with_name("python")), "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
