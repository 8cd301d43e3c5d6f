"""PIAS's timeouts, on a link that loses everything: counted by hand."""

from pathlib import Path

import pytest

import penstock

LOST = """
scenario = "custom"
duration = "10500us"
hosts = ["a", "b"]
switches = ["s"]
send_jitter = "0s"
[[link]]
from = "a"
to = "s"
rate = "1Gbps"
delay = "1us"
loss = 1
[[link]]
from = "s"
to = "a"
rate = "1Gbps"
delay = "1us"
[[link]]
between = ["b", "s"]
rate = "1Gbps"
delay = "1us"
[[workload]]
kind = "flows"
from = "a"
to = "b"
size = "10MB"
"""


@pytest.mark.parametrize(
    ("keys", "timeouts"),
    [
        # After 1, 1 + 2, 1 + 2 + 4 ms; the next is due at 15.
        ("rto=1ms", 3),
        # After each of ten milliseconds.
        ("rto=1ms,backoff=false", 10),
        ("rto=1ms,backoff=false,probe=5", 10),
    ],
)
def test_a_packet_leaves_at_each_timeout(tmp_path: Path, keys: str, timeouts: int):
    (tmp_path / "lost.toml").write_text(f'protocol = "pias:{keys}"\n{LOST}')
    found = penstock.run(tmp_path / "lost.toml", seed=1).summary
    # The first window has ten; then one packet, or one byte, at each timeout.
    assert (found["timeouts"], found["packets_sent"]) == (timeouts, 10 + timeouts)
