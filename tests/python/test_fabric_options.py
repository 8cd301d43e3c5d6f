"""Keys of the network between the hosts, through the program and from Python."""

import json
from pathlib import Path

import pytest
from conftest import penstock

from penstock import ScenarioError
from penstock import run as penstock_run

DOCS = Path(__file__).parents[2] / "docs"
SMALL = {"topology": "leaf-spine:2x2x2", "duration": "200us"}

BAD = [
    ("incast", {"priorities": "9"}, 'priorities = "9": must be a number of priorities, 1 to 8'),
    ("incast", {"pfc": "on:xoff=10KB,xon=20KB"}, 'pfc:xon = "20KB": must not be above xoff (10000 bytes)'),
    ("incast", {"buffer": "shared:alpha=0,size=1MB"}, 'buffer:alpha = "0": must be above 0'),
    ("incast", {"spread": "flow"}, 'spread = "flow": no node of this network has ports of equal cost'),
    ("incast", {"trim": "64B:tail=0.5", "pfc": "on"}, 'trim:tail = "0.5": must be 0 with pfc'),
    (
        "incast",
        {"sharing": "shared:alpha=1", "buffer": "shared:alpha=1,size=1MB"},
        'sharing = "shared:alpha=1": cannot be given together with buffer=shared',
    ),
    ("incast", {"sharing": "shared:alpha=0"}, 'sharing:alpha = "0": must be'),
    ("incast", {"protocol": "ndp", "nic": "endless"}, 'nic = "endless": must be pull, or unset'),
    ("incast", {"nic": "pull", "host_queue": "2pkt"}, 'host_queue = "2pkt": must be unset where network'),
    ("incast", {"nic": "push"}, 'nic = "push": must be one of endless, pull'),
    ("incast", {"nic_order": "fifo"}, 'nic_order = "fifo": must be one of round-robin, strict'),
    ("incast", {"receive_delay": "2s"}, 'receive_delay = "2s": must be'),
    ("incast", {"processing_delay": "fast"}, 'processing_delay = "fast": must be'),
    (
        "permutation",
        SMALL | {"fail": "leaf0->leaf1@1ms"},
        'fail = "leaf0->leaf1": there is no link leaf0->leaf1',
    ),
]


@pytest.mark.parametrize(
    ("scenario", "settings", "rule"), BAD, ids=lambda x: x if isinstance(x, str) else None
)
def test_bad_options_are_one_line(scenario, settings, rule):
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    done = penstock("run", scenario, *given)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert rule in done.stderr
    with pytest.raises(ScenarioError) as error:
        penstock_run(scenario, **settings)
    assert rule in str(error.value)


def test_hosts_that_are_not_connected_are_one_line(tmp_path):
    path = tmp_path / "apart.toml"
    links = "".join(
        f'[[link]]\nbetween = ["{a}", "{b}"]\nrate = "1Gbps"\ndelay = "1us"\n' for a, b in ("as", "bt")
    )
    path.write_text(
        f'scenario = "custom"\nhosts = ["a", "b"]\nswitches = ["s", "t"]\n{links}'
        '[[workload]]\nfrom = "a"\nto = "b"\n'
    )
    done = penstock("run", str(path))
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "no path leads from a to b" in done.stderr


def test_the_summary_counts_what_was_asked_for():
    quick = {"topology": "leaf-spine:2x2x4", "duration": "300us"}
    both = penstock_run("permutation", **quick, pfc="on", buffer="shared:alpha=1,size=4MB").summaries[0]
    assert both["drops"] == 0 and both["pauses"] >= 0 and "trims" not in both
    # With some seeds all flows take the other spine.
    failed = penstock_run("permutation", **quick, fail="leaf0<->spine0@100us-200us", runs=4).summaries
    assert any(one["drops_down"] > 0 for one in failed)
    assert all(one["drops"] >= one["drops_down"] for one in failed)
    trimmed = penstock_run("permutation", **quick, trim="64B", buffer="3pkt").summaries[0]
    assert trimmed["trims"] > 0


def test_a_victim_of_pause(tmp_path):
    done = penstock("run", str(DOCS / "victim.toml"), "--json", "--set", "duration=30ms")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mean"]["pauses"] > 10
