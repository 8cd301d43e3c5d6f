"""Congestion controls written in Python: the same results by three ways, and clear messages."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import penstock
from penstock import cli, controllers, new_protocol_command

HERE = Path(__file__).parents[2]
JIT = importlib.util.find_spec("numba") is not None
INCAST = {"servers": 32, "duration": "60ms", "queue": "threshold:k=20pkt", "rto_min": "5ms", "seed": 3}

HEAD = """import math
import penstock
from penstock import Event

@penstock.controller
class Mine:
    gain: float = penstock.param(1.0, "segments per round trip", range=(0.01, 100))
    cwnd: float = 0.0
    count: int = 0
"""
START = """
    def on_start(self, config):
        self.cwnd = config.initial_window
"""
ACK = """
    def on_ack(self, ack, flow):
        self.cwnd += self.gain * ack.acked / 10
        self.count += 1
"""
CONGESTION = """
    def on_congestion(self, event, flow):
        self.cwnd = max(self.cwnd / 2, flow.segment)
"""
CONTROL = """
    def control(self):
        return self.cwnd
"""


def written(folder: Path, text: str, compile: bool = False) -> str:
    """A file with this controller; returns what a scenario writes for it."""
    decorator = "@penstock.controller" if compile else "@penstock.controller(compile=False)"
    path = folder / "laws.py"
    path.write_text(text.replace("@penstock.controller\n", f"{decorator}\n"))
    return f"{path}:Mine"


def interpreted(file: str, name: str) -> controllers.Controller:
    """The controller of a file, not compiled: a second one of its own."""
    text = (HERE / file).read_text().replace("@penstock.controller(", "@penstock.controller(compile=False, ")
    path = Path(file).name
    scope = {"__name__": "again"}
    import linecache

    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    exec(compile(text, path, "exec"), scope)
    found = scope[name]
    assert isinstance(found, controllers.Controller)
    return found


def tables(result: penstock.RunSet) -> dict[str, str]:
    """Every table as text, without the column that names the protocol."""
    return {
        name: result.table(name).drop("protocol", strict=False).write_csv()
        for name in ("flows", "transfers", "ports", "events")
    }


@pytest.mark.skipif(not JIT, reason="needs Numba")
def test_dctcp_in_python_is_the_built_in_one_byte_for_byte_compiled_and_interpreted():
    built_in = penstock.run("incast", protocol="dctcp", **INCAST)
    compiled = controllers.load(HERE / "examples/dctcp.py", "Dctcp")
    by_code = penstock.run("incast", protocol=compiled, **INCAST)
    assert compiled._address() != 0
    again = interpreted("examples/dctcp.py", "Dctcp")
    assert again._address() == 0
    by_interpreter = penstock.run("incast", protocol=again, **INCAST)
    assert by_code.summary["timeouts"] > 0 and by_code.summary["ce_marks"] > 0
    assert by_code.summaries == built_in.summaries == by_interpreter.summaries
    assert tables(by_code) == tables(built_in) == tables(by_interpreter)


def test_parameters_are_set_swept_and_described(tmp_path):
    file = written(tmp_path, HEAD + START + ACK + CONGESTION + CONTROL)
    mine = controllers.load(*file.split(":"))
    short = {**INCAST, "servers": 2, "duration": "20ms"}
    by_object = penstock.run("incast", protocol=mine(gain=0.5), **short)
    assert by_object.settings["protocol"] == "mine:gain=0.5"
    assert penstock.run("incast", protocol=f"{file}:gain=0.5", **short).summaries == by_object.summaries
    assert penstock.run("incast", protocol="mine:gain=0.5", **short).summaries == by_object.summaries
    assert penstock.run("incast", protocol=mine, **short).summaries != by_object.summaries
    settings = {key: value for key, value in short.items() if key != "seed"}
    found = penstock.study("incast", over={"protocol": [mine(gain=0.5), "dctcp"]}, settings=settings, seed=3)
    assert found.frame["protocol"].to_list() == ["mine:gain=0.5", "dctcp"]
    (entry,) = penstock.describe(file)["protocols"]
    assert entry["params"][0]["name"] == "gain" and entry["params"][0]["max"] == 100
    assert "segments per round trip" in str(penstock.describe(mine))
    with pytest.raises(penstock.ScenarioError, match=r"gain.*must be at most 100"):
        penstock.run("incast", protocol=mine(gain=200))
    with pytest.raises(penstock.ScenarioError, match="is no parameter of mine; there are: gain"):
        mine(gian=1)


def test_parameters_take_units():
    swift = interpreted("examples/swift.py", "Swift")
    low, high = (
        penstock.run("incast", protocol=swift(target=target), servers=2, duration="20ms", timestamps=True)
        for target in ("300us", "1ms")
    )
    assert low.summary["queue_mean_bytes"] < high.summary["queue_mean_bytes"]
    with pytest.raises(penstock.ScenarioError, match="must be a time with a unit"):
        penstock.run("incast", protocol=swift(target=3))


def test_a_file_of_a_scenario_names_controllers_beside_the_built_in_ones(tmp_path):
    written(tmp_path, HEAD + START + ACK + CONGESTION + CONTROL)
    file = tmp_path / "two.toml"
    file.write_text(
        'scenario = "custom"\nprotocol = "dctcp"\nprotocols = ["laws.py:Mine"]\nduration = "5ms"\n'
        'hosts = ["a", "b", "c"]\nswitches = ["s"]\n'
        + "".join(
            f'[[link]]\nbetween = ["{h}", "s"]\nrate = "1Gbps"\ndelay = "10us"\nbuffer = "100pkt"\n'
            for h in "abc"
        )
        + '[[workload]]\nkind = "flows"\nfrom = "a"\nto = "c"\nprotocol = "mine:gain=2"\n'
        + '[[workload]]\nkind = "flows"\nfrom = "b"\nto = "c"\n'
    )
    result = penstock.run(file)
    assert sorted(result.flows["protocol"].unique()) == ["dctcp", "mine:gain=2"]
    assert [c["name"] for c in result.scenario["controllers"]] == ["mine"]


def test_another_process_loads_the_file_and_a_changed_one_is_another_point(tmp_path):
    file = written(tmp_path, HEAD + START + ACK + CONGESTION + CONTROL)
    short = {"servers": 2, "duration": "5ms"}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = penstock.run("incast", protocol=file, executor=pool, **short)
    assert there.summaries == penstock.run("incast", protocol=file, **short).summaries
    before = there.scenario["controllers"]
    file = written(tmp_path, HEAD + START + ACK.replace("/ 10", "/ 20") + CONGESTION + CONTROL)
    after = penstock.resolve("incast", protocol=file)["controllers"]
    assert before != after and before[0]["class"] == after[0]["class"]


def test_a_timer_runs_when_its_field_says(tmp_path):
    timer = """
    timer_s: float = 0.001
    def on_timer(self, event, flow):
        self.count += 1
        self.cwnd = flow.segment * (1 + self.count % 2)
        self.timer_s = event.now_s + 0.001
"""
    file = written(
        tmp_path, HEAD + START + timer + ACK.replace("self.count += 1", "pass") + CONGESTION + CONTROL
    )
    steady = HEAD + START + ACK + CONGESTION + CONTROL
    with_timer = penstock.run("incast", protocol=file, servers=1, duration="20ms")
    without = penstock.run("incast", protocol=written(tmp_path, steady), servers=1, duration="20ms")
    assert with_timer.summaries != without.summaries


MISTAKES_BEFORE = {
    "a method is missing": (HEAD + ACK + CONGESTION, 6, "has no method control"),
    "a name that nothing calls": (
        HEAD + ACK + CONGESTION + CONTROL + "\n    def on_ak(self, a, f): pass",
        21,
        "on_ack",
    ),
    "arguments": (
        HEAD + ACK.replace("ack, flow", "ack") + CONGESTION + CONTROL,
        11,
        "takes (self, ack, flow)",
    ),
    "a field that is not declared": (
        HEAD + ACK.replace("self.count +=", "self.coutn =") + CONGESTION + CONTROL,
        13,
        "did you mean count?",
    ),
    "a parameter that is changed": (
        HEAD + ACK.replace("self.count +=", "self.gain =") + CONGESTION + CONTROL,
        13,
        "is a parameter",
    ),
    "a field of a record that does not exist": (
        HEAD + ACK.replace("ack.acked", "ack.acks") + CONGESTION + CONTROL,
        12,
        "did you mean acked?",
    ),
    "a field of another type": (
        HEAD.replace("count: int = 0", "count: list = []") + ACK + CONGESTION + CONTROL,
        9,
        "a float, an int or a bool",
    ),
    "a default that is none": (
        HEAD.replace("int = 0", "int = 0.5") + ACK + CONGESTION + CONTROL,
        9,
        "is no int",
    ),
    "a default out of range": (
        HEAD.replace("param(1.0", "param(0.0") + ACK + CONGESTION + CONTROL,
        7,
        "outside of its range",
    ),
    "chance": (
        "import random\n" + HEAD + ACK.replace("/ 10", "* random.random()") + CONGESTION + CONTROL,
        13,
        "not the same",
    ),
    "syntax": (HEAD + "    def on_ack(self, ack flow): pass\n", 10, "SyntaxError"),
}


@pytest.mark.parametrize("what", MISTAKES_BEFORE)
def test_a_mistake_that_is_known_before_the_run_is_one_line_with_its_place(what, tmp_path, capsys):
    text, line, rule = MISTAKES_BEFORE[what]
    file = written(tmp_path, text)
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", "incast", "--set", f"protocol={file}"])
    said = capsys.readouterr().err.strip()
    assert stop.value.code == 2
    assert "\n" not in said and f"laws.py:{line}: Mine: " in said and rule in said, said


MISTAKES_IN_THE_RUN = {
    "an exception": (
        ACK.replace("/ 10", "+ 1 / (self.count - 40)"),
        CONTROL,
        15,
        "on_ack",
        "ZeroDivisionError",
    ),
    "not a number": (
        ACK.replace("+= self.gain", "= math.inf - math.inf + self.gain"),
        CONTROL,
        15,
        "on_ack",
        "cwnd becomes NaN",
    ),
    "a negative window": (
        ACK,
        CONTROL.replace("self.cwnd", "-self.cwnd if self.count > 9 else 3000.0"),
        22,
        "control",
        "0 or more",
    ),
    "a float in an int": (
        ACK.replace("self.count += 1", "self.count += 0.5"),
        CONTROL,
        16,
        "on_ack",
        "integer",
    ),
    "an assertion": (
        ACK.replace("self.count += 1", "assert ack.acked < 0"),
        CONTROL,
        16,
        "on_ack",
        "AssertionError",
    ),
    "nothing returned": (
        ACK,
        CONTROL.replace("return self.cwnd", "self.count += 0"),
        22,
        "control",
        "returns None",
    ),
}


@pytest.mark.parametrize("what", MISTAKES_IN_THE_RUN)
def test_a_mistake_in_the_run_ends_it_with_file_line_and_flow(what, tmp_path, capsys):
    ack, control, line, method, rule = MISTAKES_IN_THE_RUN[what]
    file = written(tmp_path, HEAD + START + ack + CONGESTION + control)
    with pytest.raises(SystemExit) as stop:
        cli.main(
            ["run", "incast", "--set", f"protocol={file}", "--set", "servers=3", "--set", "duration=50ms"]
        )
    said = " ".join(capsys.readouterr().err.split())
    assert f"laws.py:{line}: Mine.{method}, " in said and rule in said, said
    if what == "nothing returned":  # control is asked before the first packet
        assert "before the first packet" in said
    else:
        assert stop.value.code == 3 and ", flow " in said, said


@pytest.mark.skipif(not JIT, reason="needs Numba")
def test_compiled_code_ends_a_run_at_the_same_line_and_says_before_what_it_cannot_compile(tmp_path):
    ack = MISTAKES_IN_THE_RUN["an exception"][0]
    text = HEAD + START + ack + CONGESTION + CONTROL
    with pytest.raises(penstock.RunFailed) as of_code:
        penstock.run("incast", protocol=written(tmp_path, text, compile=True), servers=3, duration="50ms")
    with pytest.raises(penstock.RunFailed) as of_interpreter:
        penstock.run("incast", protocol=written(tmp_path, text), servers=3, duration="50ms")
    assert str(of_code.value) == str(of_interpreter.value)
    for change, rule in (
        ("self.count += 0.5", "an int field gets a float; write int"),
        ("self.count = hash(object())", "cannot be compiled"),
    ):
        text = HEAD + START + ACK.replace("self.count += 1", change) + CONGESTION + CONTROL
        with pytest.raises(penstock.ScenarioError, match=rf"laws.py:16: Mine: .*{rule}"):
            penstock.run("incast", protocol=written(tmp_path, text, compile=True))


def test_a_name_that_is_taken_and_a_class_without_the_decorator_are_refused(tmp_path):
    text = HEAD + START + ACK + CONGESTION + CONTROL
    with pytest.raises(penstock.ScenarioError, match="there is a protocol dctcp already"):
        controllers.load(
            *written(
                tmp_path, text.replace("@penstock.controller", "@penstock.controller(name='dctcp')")
            ).split(":")
        )
    with pytest.raises(penstock.ScenarioError, match=r"without @penstock\.controller"):
        controllers.load(*written(tmp_path, text.replace("@penstock.controller\n", "")).split(":"))
    with pytest.raises(penstock.ScenarioError, match="has no controller or queue Mime; there are: Mine"):
        penstock.resolve("incast", protocol=written(tmp_path, text).replace(":Mine", ":Mime"))
    with pytest.raises(penstock.ScenarioError, match="the file cannot be read"):
        penstock.resolve("incast", protocol=f"{tmp_path}/none.py:Mine")


def test_a_new_protocol_runs_and_its_own_test_passes(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["new-protocol", "my_law", "--out", str(tmp_path)])
    assert stop.value.code == 0 and "my_law.py:MyLaw" in capsys.readouterr().out
    arguments = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_law.py"]
    # The template is compiled where Numba is; its own tests say so much without.
    text = (tmp_path / "my_law.py").read_text()
    (tmp_path / "my_law.py").write_text(text.replace('(name="my_law"', '(compile=False, name="my_law"'))
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
    for name, rule in (("my_law", "is there already"), ("dctcp", "of this name"), ("My", "small letters")):
        with pytest.raises(penstock.ScenarioError, match=rule):
            new_protocol_command.write(name, "python", tmp_path)
    (rust,) = new_protocol_command.write("my_law", "rust", tmp_path)
    assert "pub const MY_LAW: Protocol" in rust.read_text() and "@" not in rust.read_text()


@pytest.mark.full
def test_the_rust_template_is_a_protocol_of_the_zoo(tmp_path):
    """CONTRIBUTING, "Add a protocol", followed to the letter in a copy of the workspace."""
    root = Path(__file__).resolve().parents[2]
    for name in ("crates", "examples"):
        shutil.copytree(root / name, tmp_path / name)
    for name in ("Cargo.toml", "Cargo.lock", "clippy.toml"):
        shutil.copy(root / name, tmp_path)
    models = tmp_path / "crates/models/src"
    new_protocol_command.write("my_law", "rust", models / "protocols")
    modules, registry = models / "protocols/mod.rs", models / "registry/standard.rs"
    modules.write_text(modules.read_text() + "pub mod my_law;\n")
    line = "    &protocols::xcp::XCP,\n"
    assert line in registry.read_text()
    registry.write_text(registry.read_text().replace(line, line + "    &protocols::my_law::MY_LAW,\n"))
    environment = {**os.environ, "CARGO_TARGET_DIR": str(root / "target/template")}
    command = ["cargo", "test", "-p", "penstock-models", "--lib", "--locked", "--", "my_law"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_describe_on_the_command_line_reads_the_file(tmp_path, capsys):
    file = written(tmp_path, HEAD + START + ACK + CONGESTION + CONTROL)
    with pytest.raises(SystemExit) as stop:
        cli.main(["describe", file, "--json"])
    assert stop.value.code == 0
    assert json.loads(capsys.readouterr().out)["protocols"][0]["name"] == "mine"
