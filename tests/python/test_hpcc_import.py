"""`penstock run --import hpcc DIR`: what the public simulator's files become, what is refused, by line."""

import json
import tomllib
from pathlib import Path

import pytest
from conftest import inline, penstock

from penstock import ScenarioError, hpcc_import, run

CONFIG = """ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1

PACKET_PAYLOAD_SIZE 1000

TOPOLOGY_FILE mix/net.txt
FLOW_FILE mix/flow.txt
FCT_OUTPUT_FILE mix/fct.txt

SIMULATOR_STOP_TIME 2.001

CC_MODE {mode}
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
RP_TIMER 300
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI 20Mb/s
RATE_HAI 200Mb/s
MIN_RATE 1000Mb/s
DCTCP_RATE_AI 615Mb/s
L2_ACK_INTERVAL 1
HAS_WIN 1
VAR_WIN 1
U_TARGET 0.9
MI_THRESH 0
INT_MULTI 4
MULTI_RATE 0
ACK_HIGH_PRIO 1
LINK_DOWN 0 0 0
KMAX_MAP 2 100000000000 1600 400000000000 6400
KMIN_MAP 2 100000000000 400 400000000000 1600
PMAX_MAP 2 100000000000 0.2 400000000000 0.2
BUFFER_SIZE 8
"""
# Two hosts at each of two switches.
NET = """6 2 5
4 5
0 4 100Gbps 1000ns 0
1 4 100Gbps 0.001ms 0
2 5 100Gbps 1us 0
3 5 100Gbps 1us 0.001
4 5 400Gbps 1us 0

First line: nodes, switches, links
"""
FLOWS = """2
0 2 3 100 100000 2
1 3 3 100 200000 2.0001

src0 dst0 class port size start
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.txt").write_text(CONFIG.format(mode=1))
    (tmp_path / "net.txt").write_text(NET)
    (tmp_path / "flow.txt").write_text(FLOWS)
    return tmp_path


def document(folder: Path) -> dict:
    return tomllib.loads(hpcc_import.convert(folder, folder / "made").path.read_text())


def laws(protocol: str) -> tuple[str, dict[str, str]]:
    name, _, keys = protocol.partition(":")
    return name, dict(key.split("=") for key in keys.split(","))


def test_everything_of_the_files_is_in_the_scenario(folder):
    found = document(folder)
    law, keys = laws(found["protocol"])
    assert law == "dcqcn"
    # 6 us there and back, 80 ns for 1000 B at 100 Gb/s twice and 20 ns at 400 Gb/s: x 100 Gb/s are 77,250 B.
    assert (keys["base_rtt"], keys["window"], keys["window_by_rate"]) == ("6180ns", "77250B", "true")
    assert (keys["alpha_timer"], keys["cut_timer"], keys["timer"]) == ("1us", "4us", "300us")
    assert (keys["rate_ai"], keys["rate_hai"], keys["rate_min"]) == (
        "20000000bps",
        "200000000bps",
        "1000000000bps",
    )
    assert (keys["kmin"], keys["kmax"], keys["pmax"], keys["k_rate"]) == (
        "400KB",
        "1600KB",
        "0.2",
        "100000000000bps",
    )
    assert (keys["fast_recovery"], keys["clamp_target"], keys["priority"], keys["control_priority"]) == (
        "1",
        "false",
        "3",
        "7",
    )
    assert (keys["pfc_alpha"], keys["pfc_alpha_by_rate"]) == ("0.125", "true")
    assert (found["segment"], found["buffer"]) == ("1000B", "shared:alpha=1,size=8MiB")
    assert [link["between"] for link in found["link"]][-2:] == [["h3", "s5"], ["s4", "s5"]]
    assert [link.get("loss", 0) for link in found["link"]] == [0, 0, 0, 0.001, 0]
    assert "fail" not in found
    rows = (folder / "made" / "flows.csv").read_text().splitlines()
    assert rows == ["start_s,src,dst,bytes", "2,h0,h2,100000", "2.0001,h1,h3,200000"]


def test_every_law_of_that_code_runs(folder):
    laws_of = {1: "dcqcn", 3: "hpcc", 7: "timely", 8: "dctcp-roce", 10: "hpcc", 0: "roce"}
    for mode, law in laws_of.items():
        (folder / "config.txt").write_text(CONFIG.format(mode=mode))
        made = hpcc_import.convert(folder, folder / "made")
        result = run(made.path)
        assert result.flows["protocol"][0].split(":")[0] == law
        assert result.mean("flows_completed") == 2
        # A flow alone: 100 full packets at 100 Gb/s, three cables, the last one's way through two switches.
        extra = {3: 42, 7: 8, 10: 1}.get(mode, 0)
        wire = (1048 + extra) * 8e-9 / 100
        first = result.transfers.sort("start_s").row(0, named=True)
        expected = 101 * wire + wire / 4 + 3e-6
        took = first["delivered_s"] - first["start_s"]
        if law == "hpcc":
            # It aims at 90 % of the link from its first feedback on.
            assert expected < took < 1.1 * expected
        else:
            assert took == pytest.approx(expected, rel=1e-4)


def test_the_program_runs_it_and_keeps_what_it_made(folder):
    done = penstock("run", "--import", "hpcc", str(folder), "--json", "--out", str(folder / "out"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mean"]["flows_completed"] == 2
    assert "without effect here: FCT_OUTPUT_FILE" in done.stderr
    again = penstock("run", str(folder / "out" / "imported" / "case.toml"), "--json")
    assert json.loads(again.stdout)["mean"]["fct_mean_s"] == json.loads(done.stdout)["mean"]["fct_mean_s"]


def test_the_fork_s_columns_and_keys_and_a_link_that_fails(folder):
    text = CONFIG.format(mode=3).replace("LINK_DOWN 0 0 0", "LINK_DOWN 500 4 5")
    (folder / "config.txt").write_text(text + "FIXED_WIN 52000\nBASE_RTT 8000\nMAX_RATE 50Gbps\n")
    (folder / "flow.txt").write_text("1\n17 0 2 4 100 100000 2\n")
    found = document(folder)
    _, keys = laws(found["protocol"])
    assert (keys["window"], keys["base_rtt"], keys["rate_max"]) == ("52000B", "8000ns", "50000000000bps")
    assert (keys["eta"], keys["max_stage"], keys["int_multi"], keys["priority"]) == ("0.9", "0", "4", "4")
    assert found["fail"] == "s4<->s5@2000500.000us"


def test_hpcc_pint_has_its_byte_its_base_and_its_share(folder):
    (folder / "config.txt").write_text(CONFIG.format(mode=10) + "PINT_LOG_BASE 1.01\nPINT_PROB 0.0625\n")
    law, keys = laws(document(folder)["protocol"])
    assert (law, keys["int"], keys["pint_base"], keys["pint_share"]) == ("hpcc", "pint", "1.01", "0.0625")
    assert "int_multi" not in keys


# File, what is replaced by what, and the message.
BAD = [
    ("config.txt", "CC_MODE 1", "CCMODE 1", "config.txt:12: CCMODE: unknown key; did you mean CC_MODE?"),
    ("config.txt", "CC_MODE 1", "CC_MODE one", 'config.txt:12: CC_MODE = "one": must be a number'),
    ("config.txt", "RATE_AI 20Mb/s", "RATE_AI 20", 'config.txt:18: RATE_AI = "20": must be a rate'),
    ("config.txt", "VAR_WIN 1", "VAR_WIN", 'config.txt:24: VAR_WIN = "VAR_WIN": must have its value'),
    ("config.txt", "BUFFER_SIZE 8", "BUFFER_SIZE", 'config.txt:34: BUFFER_SIZE = "": the file ends here'),
    ("config.txt", " 400 4", " 1700 4", 'config.txt:32: KMIN_MAP = "1600": must be in proportion'),
    ("config.txt", "1600 400000000000 6400", "200 400000000000 800", "must not be above KMAX_MAP (200)"),
    ("config.txt", "000 0.2 4", "000 1.2 4", 'config.txt:33: PMAX_MAP = "1.2": must be at most 1'),
    ("config.txt", "KMAX_MAP 2 100000000000 1600 ", "KMAX_MAP 1 ", "config.txt:1: KMAX_MAP: must have a"),
    ("config.txt", "mix/net.txt", "mix/other.txt", 'config.txt:6: TOPOLOGY_FILE = "mix/other.txt": there is'),
    ("config.txt", "DOWN 0 0 0", "DOWN 5 0 1", 'config.txt:30: LINK_DOWN = "0": there is no link'),
    ("config.txt", "L2_ACK_INTERVAL 1", "L2_ACK_INTERVAL 0", 'L2_ACK_INTERVAL = "0": must be 1 to 1000'),
    ("net.txt", "6 2 5", "6 2 6", 'net.txt:9: link 6 = "First": must be a number'),
    ("net.txt", "0 4 100Gbps", "0 9 100Gbps", 'net.txt:3: link 1 = "9": must be a node, 0 to 5'),
    ("net.txt", "1us 0.001", "1 0.001", 'net.txt:6: link 4 = "1": must be a time'),
    ("flow.txt", "0 2 3 100 100000 2", "0 4 3 100 100000 2", 'flow.txt:2: flow 1 = "4": must be a host'),
    ("flow.txt", "1 3 3 100", "1 3 2 100", 'flow.txt:3: flow 2 = "2": must be class 3'),
    ("flow.txt", "1 3 3 100 200000", "1 3 3 200000", 'flow.txt:3: flow 2 = "1": must be from, to, class'),
    ("flow.txt", "2\n0", "9\n0", 'flow.txt:5: flow 3 = "src0": must be a number'),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "words"), BAD, ids=[f"{b[0]}-{i}" for i, b in enumerate(BAD)])
def test_bad_files_are_one_line_with_file_line_and_key(folder, file, old, new, words):
    text = (folder / file).read_text()
    assert text.count(old) == 1 or old == "2\n0"
    (folder / file).write_text(text.replace(old, new, 1))
    done = inline("run", "--import", "hpcc", str(folder))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_other_forms_and_folders_are_refused(tmp_path):
    done = inline("run", "--import", "ns2", str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert '--import = "ns2": must be one of hpcc' in done.stderr
    for name in ("config_a.txt", "config_b.txt"):
        (tmp_path / name).write_text("")
    with pytest.raises(ScenarioError, match=r"config_a\.txt, config_b\.txt"):
        hpcc_import.convert(tmp_path, tmp_path / "made")
