"""Dictionaries of own classes, as state by flow needs them: compiled, interpreted, and refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import penstock

pytest.importorskip("numba")

HEAD = """
import penstock
from penstock import Verdict

@penstock.queue{how}
class Police:
    share: int = penstock.param(10, "packets", range=(1, 1000))
"""
POLICE = """
    seen: dict[int, int] = {}
    last: dict[int, float] = {}
    over: dict[int, bool] = {}
    most: int = 0

    def on_arrival(self, packet, port):
        if packet.flow not in self.last:
            self.last[packet.flow] = port.now_s
        self.seen[packet.flow] = self.seen.get(packet.flow, 0) + 1
        self.over[packet.flow] = self.seen[packet.flow] > self.share
        if port.now_s - self.last[packet.flow] > 0.001:
            del self.seen[packet.flow]
            self.last[packet.flow] += 0.001
            self.most = max(self.most, len(self.last))
        if len(self.over) > 100:
            self.over.clear()
        return Verdict.MARK if self.over.pop(packet.flow, False) else Verdict.ACCEPT
"""


def _load(folder: Path, body: str, how: str = "") -> Any:
    folder.mkdir(exist_ok=True)
    file = folder / "police.py"
    file.write_text(HEAD.format(how=how) + body)
    spec = importlib.util.spec_from_file_location(f"police_{folder.name}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Police


def _run(queue: Any, **more: Any) -> Any:
    return penstock.run(
        "long-flows",
        flows=4,
        protocol="dctcp",
        queue=queue,
        link_rate="1Gbps",
        rtt="100us",
        duration="40ms",
        warmup="5ms",
        buffer="100000pkt",
        **more,
    )


def test_state_by_flow_is_the_same_compiled_and_interpreted(tmp_path: Path) -> None:
    compiled = _load(tmp_path / "compiled", POLICE)
    interpreted = _load(tmp_path / "interpreted", POLICE, "(compile=False)")
    one, two = _run(compiled), _run(interpreted)
    assert compiled._address() != 0 and interpreted._address() == 0
    assert one.summary["ce_marks"] > 100
    for key in ("ce_marks", "goodput_bps", "queue_mean_packets"):
        assert one.summary[key] == two.summary[key]


def test_each_port_has_dictionaries_of_its_own(tmp_path: Path) -> None:
    """Two paths with two flows each: with one dictionary for all, a port would know four flows."""
    body = """
    flows: dict[int, int] = {}

    def on_arrival(self, packet, port):
        self.flows[packet.flow] = 1
        return Verdict.DROP if len(self.flows) > 2 else Verdict.ACCEPT
"""
    net = penstock.Network.leaf_spine(1, 1, 6, link_rate="1Gbps", link_delay="1us")
    flows = [penstock.Flows([f"h{i}"], [f"h{4 + i // 2}"], size="20KB") for i in range(4)]
    found = penstock.run(net, workloads=flows, queue=_load(tmp_path / "own", body), duration="20ms")
    assert found.summary["drops"] == 0 and found.summary["flows_completed"] == 4


def test_a_dictionary_of_a_method_begins_empty_with_each_call(tmp_path: Path) -> None:
    """The type of its values need not be written."""
    body = """
    def on_arrival(self, packet, port):
        q = {}
        q[packet.flow] = q.get(packet.flow, 0) + 1
        share = {}
        share[0] = 0.5
        return Verdict.ACCEPT if q[packet.flow] == 1 and share[0] == 0.5 else Verdict.DROP
"""
    ints = body.replace("        share = {}\n        share[0] = 0.5\n", "").replace(
        " and share[0] == 0.5", ""
    )
    annotated = body.replace("share = {}", "share: dict[int, float] = {}")
    for name, text in (("ints", ints), ("both", annotated)):
        queue = _load(tmp_path / name, text)
        assert _run(queue).summary["drops"] == 0
        assert queue._address() != 0


def test_a_failing_call_is_told_with_its_line_and_the_dictionary_before_it(tmp_path: Path) -> None:
    """The failed call has removed the key already; the message is about what it found."""
    body = """
    left: dict[int, int] = {}

    def on_arrival(self, packet, port):
        if packet.flow not in self.left:
            self.left[packet.flow] = 3
        self.left[packet.flow] -= 1
        n = self.left.pop(packet.flow)
        if n == 0:
            n = self.left[packet.flow]
        self.left[packet.flow] = n
        return Verdict.ACCEPT
"""
    for how in ("", "(compile=False)"):
        with pytest.raises(penstock.RunError, match=r"police\.py:\d+: Police\.on_arrival.*KeyError"):
            _run(_load(tmp_path / f"fails{len(how)}", body, how))


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (
            "    q: dict[str, int] = {}\n",
            r"q: dict\[str, int\] is no field: a field is a float, an int or a bool, or a dict",
        ),
        ("    q: dict[int, int] = {1: 2}\n", "a dict begins empty"),
        ("    q: dict[int, int]\n", r"needs a value to begin with: q: dict\[int, int\] = \{\}"),
    ],
)
def test_what_is_no_dictionary_of_a_class_is_refused(tmp_path: Path, body: str, rule: str) -> None:
    method = "    def on_arrival(self, packet, port):\n        return Verdict.ACCEPT\n"
    with pytest.raises(penstock.ScenarioError, match=rule):
        _load(tmp_path / "bad", body + method)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("self.q.get(1)", r"self\.q\.get\(k\) may be None|q\.get\(k\) may be None"),
        ("for k in self.q: pass", "what the compiler knows of a dict is"),
        ("self.q[0.5] = 1", "a key of a dict is an int, not a float"),
        ("self.q[1] = 0.5", "a dict of ints gets a float"),
        ("a, self.q[1] = 1, 2", "assigned one at a time"),
        ("x = {1: 2}", "cannot be compiled"),
        ("x = [1]", "cannot be compiled"),
    ],
)
def test_what_a_dictionary_cannot_do_is_refused_with_its_line(tmp_path: Path, line: str, rule: str) -> None:
    body = f"""
    q: dict[int, int] = {{}}

    def on_arrival(self, packet, port):
        {line}
        return Verdict.ACCEPT
"""
    with pytest.raises(penstock.ScenarioError, match=rule) as raised:
        _run(_load(tmp_path / "bad", body))
    assert "police.py:1" in str(raised.value)


def test_a_port_by_hand_has_the_dictionary(tmp_path: Path) -> None:
    port = _load(tmp_path / "hand", POLICE).port(share=1)
    assert port.arrival({"flow": 7}) == penstock.Verdict.ACCEPT
    assert port.arrival({"flow": 7}) == penstock.Verdict.MARK
    assert port.seen.items() == [(7, 2)] and repr(port.last) == "{7: 0.0}"
