"""A million flows that are over cost neither time nor memory beyond their rows."""

import json
import subprocess
import sys

import pytest
from conftest import PEAK, needs_linux

# One process per case: the peak of its memory is what is asked for. `closed` tables of a `custom` star of 64
# hosts, one source or 64 x 16 of them.
CASE = """
import json, sys, tempfile
from pathlib import Path
import penstock

flows, many = int(sys.argv[1]), sys.argv[2] == "many"
text = '''scenario = "custom"
duration = "1000s"
rto_min = "1ms"
rto_initial = "1ms"
hosts = ["h[0-63]"]
switches = ["s"]
[[link]]
between = ["h[0-63]", "s"]
rate = "10Gbps"
delay = "1us"
'''
tables = 16 if many else 1
for _ in range(tables):
    text += f'''[[workload]]
kind = "closed"
from = "{'h[0-63]' if many else 'h0'}"
to = "h[0-63]"
sizes = "fixed:10KB"
count = {flows // tables}
'''
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "star.toml"
    path.write_text(text)
    result = penstock.run(path)
rows = result.runs[0].tables["flows"]
assert rows.height == flows // tables * tables
assert rows["src"].n_unique() == (64 if many else 1)
print(json.dumps({
    "cpu_s": result.runs[0].timings["cpu_s"],
    "peak_mb": peak() / 2**20,
}))
"""


def case(flows: int, at_a_time: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", PEAK + CASE, str(flows), at_a_time], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@needs_linux
@pytest.mark.parametrize("at_a_time", ["one", "many"])
def test_rows_of_flows_take_some_hundred_bytes(at_a_time):
    few, most = case(10_000, at_a_time), case(100_000, at_a_time)
    grown = (most["peak_mb"] - few["peak_mb"]) * 1e6 / 90_000
    assert grown < 1000, f"{grown} bytes per flow, all tables kept"


@pytest.mark.full
@needs_linux
@pytest.mark.parametrize("at_a_time", ["one", "many"])
def test_a_million_flows_fit_into_a_gigabyte(at_a_time):
    # The least of three on both sides: others use the machine too.
    few, most = (
        min((case(n, at_a_time) for _ in range(3)), key=lambda x: x["cpu_s"]) for n in (10_000, 10**6)
    )
    assert most["peak_mb"] < 1000, most
    assert most["cpu_s"] / 10**6 < 1.3 * few["cpu_s"] / 10_000, (few, most)
