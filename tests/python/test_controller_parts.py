"""Queues, routers and receivers written in Python: the built-in ones' bytes, and clear messages."""

from __future__ import annotations

import json
import linecache
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from test_controller import HERE, INCAST, JIT, tables

import penstock
from penstock import Verdict, cli, controllers, new_protocol_command

needs_numba = pytest.mark.skipif(not JIT, reason="needs Numba")
QUEUES = {
    "Threshold": ("dctcp", "threshold:k=20pkt", {"k": 20}),
    "Red": ("newreno", "red:wq=0.01", {"wq": 0.01}),
}
# The echo of DCTCP (RFC 8257 section 3.2) on delayed acknowledgements (RFC 5681 section 4.2).
ECHO = """

@penstock.receiver
class Echo:
    every: int = 1
    longest: float = 0.0
    ece: bool = False
    timer_s: float = math.inf

    def on_start(self, config):
        self.every = config.delayed_ack
        self.longest = config.delayed_ack_s

    def before_data(self, segment):
        return segment.ce != self.ece

    def on_data(self, segment, heard):
        changed = segment.ce != self.ece
        self.ece = segment.ce
        at_once = segment.probe or segment.fin or not heard.in_order
        if changed or at_once or heard.unacknowledged >= self.every:
            return 1
        if self.timer_s == math.inf:
            self.timer_s = heard.now_s + self.longest
        return 0

    def on_ack_sent(self):
        self.timer_s = math.inf

    def on_timer(self, event):
        return 1

"""


def of_text(text: str, name: str, file: str = "parts.py") -> controllers.Named:
    """The class of a text that is no file."""
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = {"__name__": "parts"}
    exec(compile(text, file, "exec"), scope)
    found = scope[name]
    assert isinstance(found, controllers.Named)
    return found


def interpreted(text: str) -> str:
    """The same classes, not compiled."""
    for role in ("controller", "queue", "router", "receiver"):
        text = text.replace(f"@penstock.{role}\n", f"@penstock.{role}()\n")
        text = text.replace(f"@penstock.{role}(", f"@penstock.{role}(compile=False, ")
    return text


@needs_numba
@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_in_python_is_the_built_in_one_byte_for_byte_compiled_and_interpreted(name):
    protocol, queue, parameters = QUEUES[name]
    settings = {**INCAST, "protocol": protocol}
    built_in = penstock.run("incast", **{**settings, "queue": queue})
    text = (HERE / "examples/red.py").read_text()
    compiled = controllers.load(HERE / "examples/red.py", name)
    by_code = penstock.run("incast", **{**settings, "queue": compiled(**parameters)})
    again = of_text(interpreted(text), name)
    assert compiled._address() != 0 and again._address() == 0
    by_interpreter = penstock.run("incast", **{**settings, "queue": again(**parameters)})
    counted = built_in.summary["ce_marks"] if name == "Threshold" else built_in.summary["drops"]
    assert counted > 100
    assert by_code.summaries == built_in.summaries == by_interpreter.summaries
    assert tables(by_code) == tables(built_in) == tables(by_interpreter)


@needs_numba
def test_a_receiver_in_python_is_dctcp_s_echo_byte_for_byte():
    text = (HERE / "examples/dctcp.py").read_text()
    head, at, body = text.partition("@penstock.controller(")
    text = head + ECHO + at + "receiver=Echo, " + body
    settings = {**INCAST, "delayed_ack": 2, "servers": 9}
    built_in = penstock.run("incast", protocol="dctcp", **settings)
    ways = [of_text(text, "Dctcp"), of_text(interpreted(text), "Dctcp", "again.py")]
    assert [way.receiver._address() != 0 for way in ways] == [True, False]
    for way in ways:
        made = penstock.run("incast", protocol=way, **settings)
        assert made.summaries == built_in.summaries
        assert tables(made) == tables(built_in)
    # It is the receiver that does it: one that never echoes gives another run.
    deaf = of_text(interpreted(text.replace("self.ece = segment.ce", "pass")), "Dctcp", "deaf.py")
    assert penstock.run("incast", protocol=deaf, **settings).summaries != built_in.summaries


@needs_numba
def test_a_router_in_python_shares_a_link_compiled_and_interpreted_alike():
    text = (HERE / "examples/rcp.py").read_text()
    settings = {"flows": 4, "duration": "400ms", "link_rate": "100Mbps", "warmup": "200ms", "sample": "10ms"}
    ways = [
        controllers.load(HERE / "examples/rcp.py", "Fair"),
        of_text(interpreted(text), "Fair"),
    ]
    assert [way.router._address() != 0 for way in ways] == [True, False]
    runs = [penstock.run("long-flows", protocol=way, series=True, **settings) for way in ways]
    assert runs[0].summaries == runs[1].summaries and tables(runs[0]) == tables(runs[1])
    # Four flows have a quarter of what the link carries each, and the queue stays short.
    summary = runs[0].summary
    assert summary["jain"] > 0.99 and summary["utilisation"] > 0.9 and summary["drops"] == 0
    # Parameters of the router are the protocol's; its fields are sampled.
    slow = penstock.run("long-flows", protocol=ways[0](alpha=0.01), **settings)
    assert slow.summaries != runs[0].summaries
    (entry,) = penstock.describe(ways[0])["protocols"]
    assert {row["name"] for row in entry["params"]} == {"alpha", "beta", "interval"}
    rates = runs[0].series.filter(pl.col("metric") == "rate")
    assert {"port", "flow"} <= set(rates["entity"].unique())


def test_a_queue_s_parameters_are_set_swept_and_described(tmp_path):
    file = HERE / "examples/red.py"
    threshold = controllers.load(file, "Threshold")
    short = {**INCAST, "protocol": "dctcp", "servers": 4, "duration": "10ms"}
    low, named, high = (
        penstock.run("incast", **{**short, "queue": queue})
        for queue in (threshold(k=5), f"{file}:Threshold:k=5", "pythreshold:k=60")
    )
    assert low.summaries == named.summaries
    assert low.summary["ce_marks"] > high.summary["ce_marks"]
    assert low.settings["queue"] == "pythreshold:k=5"
    assert [c["name"] for c in low.scenario["controllers"]] == ["pythreshold"]
    settings = {key: value for key, value in short.items() if key not in ("seed", "queue")}
    found = penstock.study(
        "incast", over={"queue": [threshold(k=5), "threshold:k=5pkt"]}, settings=settings, seed=3
    )
    first, second = found.frame["ce_marks"].to_list()
    assert first == second > 0
    (entry,) = penstock.describe(threshold)["queues"]
    assert entry["params"][0]["name"] == "k"
    with pytest.raises(penstock.ScenarioError, match="is no parameter of pythreshold; there are: k"):
        threshold(kk=5)
    path = tmp_path / "net.toml"
    path.write_text(f'scenario = "incast"\nprotocol = "dctcp"\nqueue = "{file}:Threshold:k=5"\nservers = 4\n')
    of_file = penstock.run(path, **{key: short[key] for key in ("duration", "rto_min", "seed")})
    assert of_file.summaries == low.summaries


def test_one_port_is_driven_by_hand():
    threshold, red = (controllers.load(HERE / "examples/red.py", name) for name in ("Threshold", "Red"))
    port = threshold.port(k=20)
    assert port.arrival(queue_packets=19) == Verdict.ACCEPT
    assert port.arrival(queue_packets=20) == Verdict.MARK
    # wq = 1: the average is the queue; above twice max_th everything is dropped.
    port = red.port(wq=1)
    assert [port.arrival(queue_packets=q) for q in (10, 130)] == [Verdict.ACCEPT, Verdict.DROP]
    with pytest.raises(AttributeError, match="port has no field queue"):
        port.arrival(queue=3)


def test_a_queue_that_decides_at_departure(tmp_path):
    text = (
        "import penstock\nfrom penstock import Verdict\n\n@penstock.queue(compile=False)\nclass Sojourn:\n"
        '    target: float = penstock.param("100us", "longest wait without a mark", unit="s")\n'
        "    def on_departure(self, waited, port):\n"
        "        return Verdict.MARK if waited.sojourn_s > self.target else Verdict.ACCEPT\n"
    )
    queue = of_text(text, "Sojourn")
    short = {**INCAST, "protocol": "dctcp", "servers": 8, "duration": "20ms"}
    found = [
        penstock.run("incast", **{**short, "queue": queue(target=target)}).summary
        for target in ("20us", "100us", "10s")
    ]
    queues = [summary["queue_mean_packets"] for summary in found]
    assert queues[0] < queues[1] < queues[2]
    assert [summary["ce_marks"] > 0 for summary in found] == [True, True, False]


QUEUE = """import penstock
from penstock import Verdict

@penstock.queue
class Mine:
    k: int = penstock.param(20, "threshold", range=(0, 1000))
    average: float = 0.0

    def on_arrival(self, packet, port):
        self.average += 0.5 * (port.queue_packets - self.average)
        return Verdict.MARK if self.average > self.k else Verdict.ACCEPT
"""
MISTAKES_BEFORE = {
    "nothing that is called": (QUEUE.replace("on_arrival", "arrival"), 5, "on_arrival or on_departure"),
    "a method of another role": (QUEUE.replace("on_arrival", "on_ack"), 9, "nothing calls on_ack"),
    "a record's field": (QUEUE.replace("queue_packets", "queue_packet"), 10, "did you mean queue_packets?"),
    "a packet that is written": (
        QUEUE.replace("self.average += 0.5", "packet.ce = True; self.average += 0.5"),
        10,
        "can only be read",
    ),
    "a name that is taken": (QUEUE.replace("@penstock.queue", '@penstock.queue(name="red")'), 5, "queue red"),
}
MISTAKES_IN_THE_RUN = {
    "an exception": (QUEUE.replace("0.5 *", "1 / (port.queue_packets - 3) *"), 10, "ZeroDivisionError"),
    "no verdict": (QUEUE.replace("Verdict.MARK if", "7 if").replace("> self.k", ">= 0"), 11, "Verdict"),
    "NaN": (
        QUEUE.replace("0.5 *", 'float("nan") *' if not JIT else "(port.rate_bps * 1e300 * 0) *"),
        10,
        "NaN",
    ),
}


@pytest.mark.parametrize("what", MISTAKES_BEFORE)
def test_a_mistake_in_a_queue_is_said_before_the_run(what, tmp_path):
    text, line, rule = MISTAKES_BEFORE[what]
    path = tmp_path / "queues.py"
    path.write_text(text)
    with pytest.raises(penstock.ScenarioError) as problem:
        penstock.run("incast", queue=f"{path}:Mine")
    assert f"queues.py:{line}: Mine: " in str(problem.value) and rule in str(problem.value)


@pytest.mark.parametrize("compile", [pytest.param(True, marks=needs_numba), False])
@pytest.mark.parametrize("what", MISTAKES_IN_THE_RUN)
def test_a_mistake_in_a_queue_ends_the_run_with_file_line_and_port(what, compile, tmp_path, capsys):
    text, line, rule = MISTAKES_IN_THE_RUN[what]
    path = tmp_path / "queues.py"
    path.write_text(text.replace("@penstock.queue\n", f"@penstock.queue(compile={compile})\n"))
    with pytest.raises(SystemExit) as stop:
        cli.main(["run", "incast", "--set", f"queue={path}:Mine", "--set", "duration=50ms"])
    said = " ".join(capsys.readouterr().err.split())
    assert stop.value.code == 3
    assert f"queues.py:{line}: Mine.on_arrival, port " in said and "->" in said and rule in said, said


def test_a_mistake_in_a_router_or_receiver_names_port_or_flow(tmp_path):
    text = (HERE / "examples/rcp.py").read_text()
    text = interpreted(text.replace("load = 8.0", "load = 8.0 / (port.queue_bytes - port.queue_bytes)"))
    path = tmp_path / "laws.py"
    path.write_text(text)
    with pytest.raises(
        penstock.RunFailed, match=r"laws.py:\d+: Announcer.on_timer, port \S+->\S+ at .*ZeroDiv"
    ):
        penstock.run("long-flows", protocol=f"{path}:Fair", duration="10ms", warmup="0s")
    text = (HERE / "examples/dctcp.py").read_text()
    head, at, body = text.partition("@penstock.controller(")
    echo = ECHO.replace("return 1\n        if", "return -1\n        if")
    path.write_text(interpreted(head + echo + at + "receiver=Echo, " + body))
    with pytest.raises(
        penstock.RunFailed, match=r"laws.py:\d+: Echo.on_data, receiver of flow \d+ at .* -1; it"
    ):
        penstock.run("incast", protocol=f"{path}:Dctcp", duration="10ms")


def test_parts_that_a_protocol_cannot_take(tmp_path):
    text = (HERE / "examples/rcp.py").read_text()
    for given, said in (
        (text.replace("router=Announcer, ", ""), "on_send writes the header"),
        (
            text.replace("router=Announcer, ", "receiver=Announcer, "),
            "must be a class with @penstock.receiver",
        ),
        (text.replace("    first: float", "    alpha: float = 0.0\n    first: float"), "alpha is a field"),
    ):
        path = tmp_path / "laws.py"
        path.write_text(given)
        with pytest.raises(penstock.ScenarioError, match=said):
            penstock.resolve("long-flows", protocol=f"{path}:Fair")
    path = Path(tmp_path / "laws.py")
    path.write_text(text)
    with pytest.raises(penstock.ScenarioError, match="Announcer is a router: a protocol takes it"):
        penstock.resolve("long-flows", protocol=f"{path}:Announcer")


def test_a_new_queue_runs_and_its_own_test_passes(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["new-protocol", "my_queue", "--queue", "--out", str(tmp_path)])
    assert stop.value.code == 0 and "--set queue=" in capsys.readouterr().out
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_queue.py"]
    found = subprocess.run(test, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
    with pytest.raises(SystemExit) as stop:
        cli.main(["new-protocol", "other", "--queue", "--rust", "--out", str(tmp_path)])
    assert stop.value.code == 2
    with pytest.raises(penstock.ScenarioError, match="there is a queue of this name already"):
        new_protocol_command.write("red", "queue", tmp_path)


def test_the_command_line_shows_a_queue(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["describe", f"{HERE}/examples/red.py:Red", "--json"])
    assert stop.value.code == 0
    (entry,) = json.loads(capsys.readouterr().out)["queues"]
    assert entry["name"] == "pyred" and len(entry["params"]) == 4
