"""The program as a user calls it: output, exit codes, and the text of every message."""

import json
import os
import subprocess
import sys

import pytest
from conftest import PENSTOCK, SHORT, inline, penstock, settings

SUMMARY_KEYS = {
    "goodput_bps",
    "utilisation",
    "queue_mean_packets",
    "queue_std_packets",
    "queue_max_packets",
    "drops",
    "drops_nonect",
    "drop_rate",
    "ce_marks",
    "timeouts",
    "retransmits",
    "packets_sent",
    "blocks",
    "fct_mean_s",
    "fct_p50_s",
    "fct_p99_s",
    "flows_completed",
    "jain",
    "packet_hops",
    "cpu_s",
}


def test_json_is_one_document_with_the_agreed_keys(short):
    done = penstock("run", *short, "--runs", "3", "--seed", "5", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document) == {"scenario", "seed", "runs", "mean", "ci95", "warnings"}
    assert document["seed"] == 5
    assert [run["run"] for run in document["runs"]] == [0, 1, 2]
    for run in document["runs"]:
        assert set(run) == {"run", "summary"}
        assert set(run["summary"]) >= SUMMARY_KEYS
        assert run["summary"]["bottleneck"] == "switch->client"
    goodput = [run["summary"]["goodput_bps"] for run in document["runs"]]
    assert document["mean"]["goodput_bps"] == pytest.approx(sum(goodput) / 3)
    assert 0 < document["mean"]["goodput_bps"] < 1e9
    assert document["ci95"]["goodput_bps"] > 0


def test_one_run_has_no_interval(short):
    document = json.loads(penstock("run", *short, "--json").stdout)
    assert set(document["ci95"]) == set(document["mean"])
    assert set(document["ci95"].values()) == {None}


def test_the_resolved_scenario_holds_given_and_default_values(short):
    scenario = json.dumps(json.loads(penstock("run", *short, "--json").stdout)["scenario"])
    for key in ("servers", "sru", "link_rate", "buffer", "rto_min", "jitter_mode", "queue"):
        assert f'"{key}"' in scenario, key


def test_plain_output_names_units_and_intervals(short):
    done = penstock("run", *short, "--runs", "2")
    assert done.returncode == 0
    (goodput,) = [line for line in done.stdout.splitlines() if line.lstrip().startswith("goodput_bps")]
    assert "Mb/s" in goodput and "±" in goodput
    assert done.stderr == "", "no progress bar where there is no terminal"


def test_a_run_directory_says_what_made_it(short, tmp_path):
    done = penstock("run", *short, "--out", str(tmp_path / "new" / "run"))
    assert done.returncode == 0, done.stderr
    about = json.loads((tmp_path / "new" / "run" / "run.json").read_text())
    assert about["state"] == "done"
    assert about["runs"][0]["timings"]["cpu_s"] > 0
    assert about["host"]["cores"] >= 1
    summary = json.loads((tmp_path / "new" / "run" / "summary.json").read_text())
    assert "cpu_s" not in summary["runs"][0]["summary"], "the machine's speed is no result"


BAD = {
    "unknown scenario": (["run", "incest"], ["scenario", "incest", "incast"]),
    "unknown key": (["run", "incast", "--set", "sevrers=3"], ["sevrers", "servers"]),
    "not a number": (["run", "incast", "--set", "servers=many"], ["servers", "many"]),
    "no servers": (["run", "incast", "--set", "servers=0"], ["servers", "0", "at least"]),
    "fraction of a server": (["run", "incast", "--set", "servers=2.5"], ["servers", "2.5", "whole"]),
    "wrong unit": (["run", "incast", "--set", "link_rate=10km"], ["link_rate", "10km"]),
    "unit of another kind": (["run", "incast", "--set", "rto_min=200KB"], ["rto_min", "200KB"]),
    "negative size": (["run", "incast", "--set", "sru=-5KB"], ["sru", "-5KB"]),
    "buffer below one packet": (["run", "incast", "--set", "buffer=100B"], ["buffer", "100B", "packet"]),
    "unknown protocol": (["run", "incast", "--set", "protocol=dtcp"], ["protocol", "dtcp", "dctcp"]),
    "unknown protocol key": (["run", "incast", "--set", "protocol=dctcp:h=1"], ["protocol", "h"]),
    "gain out of range": (["run", "incast", "--set", "protocol=dctcp:g=2"], ["protocol", "g", "2"]),
    "unknown queue": (["run", "incast", "--set", "queue=dropfront"], ["queue", "dropfront"]),
    "contradiction": (
        ["run", "incast", "--set", "duration=1s", "--set", "warmup=2s"],
        ["warmup", "duration"],
    ),
    "floor above ceiling": (
        ["run", "incast", "--set", "rto_min=2s", "--set", "rto_max=1s"],
        ["rto_min", "rto_max"],
    ),
    "missing file": (["run", "nowhere.toml"], ["nowhere.toml", "does not exist"]),
    "no equals sign": (["run", "incast", "--set", "servers"], ["--set", "servers", "KEY=VALUE"]),
    "no value": (["run", "incast", "--set", "servers="], ["--set", "servers=", "value is empty"]),
    "no key": (["run", "incast", "--set", "=3"], ["--set", "=3", "key is empty"]),
    "two profiles": (
        ["run", "incast", "--set", "profile=paper", "--profile", "25g"],
        ["--profile", "25g", "contradicts", "paper"],
    ),
    "no such profile": (["run", "incast", "--profile", "nonsense"], ["profile", "nonsense"]),
    "too many runs": (["run", "incast", "--runs", "1000000000"], ["--runs", "1000000000", "at most 100000"]),
    "too many live runs": (["live", "incast", "--runs", "1000000000"], ["--runs", "at most 100000"]),
    "runs beyond all numbers": (["run", "incast", "--runs", "9" * 5000], ["--runs", "whole number"]),
    "too many jobs": (["run", "incast", "--jobs", "1000000"], ["--jobs", "1000000", "at most 1024"]),
    "seed": (["run", "incast", "--seed", "x"], ["--seed", "x", "whole number"]),
    "negative seed": (["run", "incast", "--seed=-1"], ["--seed", "-1", "at least 0"]),
    "no runs": (["run", "incast", "--runs", "0"], ["--runs", "0", "at least 1"]),
    "jobs": (["run", "incast", "--jobs", "two"], ["--jobs", "two", "whole number"]),
    "unknown option": (["run", "incast", "--sets", "a=1"], ["--sets"]),
    "unknown command": (["rum"], ["rum"]),
    "nothing to reproduce": (["reproduce"], ["--all", "--paper"]),
    "quick and full": (["reproduce", "--all", "--quick", "--full"], ["--quick", "--full"]),
    "all and one": (["reproduce", "--all", "I-4.1"], ["--all", "I-4.1"]),
    "nothing of that name": (["describe", "incest"], ["incest", "incast"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_code_2(name):
    arguments, expected = BAD[name]
    done = inline(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ")
    for word in expected:
        assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_the_program_itself_ends_with_that_code_too():
    done = penstock("run", "incast", "--set", "servers=many")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith('error: servers = "many": ')
    assert len(done.stderr.splitlines()) == 1


def test_an_unwritable_directory_is_bad_input(short, tmp_path):
    (tmp_path / "file").write_text("")
    done = penstock("run", *short, "--out", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "--out" in done.stderr and "is a file" in done.stderr
    done = penstock("run", *short, "--out", str(tmp_path / "file" / "below"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_describe_lists_everything_and_each_thing_in_full():
    done = penstock("describe")
    assert done.returncode == 0
    for name in ("incast", "long-flows", "newreno", "dctcp", "droptail", "red"):
        assert name in done.stdout
    done = penstock("describe", "incast")
    for word in ("servers", "sru", "256KB", "Table 3.1", "link_rate", "1Gbps"):
        assert word in done.stdout


def test_every_parameter_has_unit_default_range_and_text():
    catalogue = json.loads(penstock("describe", "--json").stdout)
    seen = 0
    for group in ("scenarios", "protocols", "queues"):
        assert catalogue[group]
        for entry in catalogue[group]:
            assert entry["text"]
            for parameter in entry["params"]:
                seen += 1
                assert parameter["name"] and parameter["text"], (entry["name"], parameter)
                assert {"unit", "default", "origin"} <= set(parameter), (entry["name"], parameter)
    assert seen > 30


@pytest.mark.parametrize(
    "arguments", [("describe",), ("describe", "--json"), ("run", "incast", "--set", "duration=5ms")]
)
def test_a_reader_that_has_left_is_no_failure(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([str(PENSTOCK), *arguments], stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    # Warnings of the run are told all the same.
    said = [line for line in done.stderr.splitlines() if not line.startswith(b"warning: ")]
    assert (done.returncode, said) == (0, [])


def test_the_reader_of_the_output_may_go_away():
    done = subprocess.run(
        f"{PENSTOCK} describe incast | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("incast")
    assert "Traceback" not in done.stderr


def test_help_and_version():
    assert penstock("--version").stdout.startswith("penstock ")
    for command in ("run", "reproduce", "describe", "demo"):
        done = inline(command, "--help")
        assert done.returncode == 0
        assert done.stdout.strip()


def test_settings_reach_the_engine(short):
    few = json.loads(penstock("run", *short, "--json").stdout)["mean"]
    many = json.loads(penstock("run", "incast", *settings(SHORT | {"servers": "8"}), "--json").stdout)["mean"]
    assert few["blocks"] > many["blocks"]


NETWORK = """
scenario = "custom"
duration = "20ms"
hosts = ["a", "b", "island"]
switches = ["s"]
[[link]]
between = ["a", "s"]
rate = "1Gbps"
delay = "10us"
[[link]]
between = ["s", "b"]
rate = "{rate}"
delay = "10us"
buffer = "{buffer}"
[[workload]]
kind = "flows"
from = "{source}"
to = "{target}"
size = "{size}"
"""
GOOD = {"rate": "100Mbps", "buffer": "50pkt", "source": "a", "target": "b", "size": "100KB"}

BAD_FILE = {
    "a flow to itself": ({"target": "a"}, ["workload", "a", "another host"]),
    "an unreachable host": ({"target": "island"}, ["island"]),
    "a host that does not exist": ({"source": "c"}, ["c"]),
    "wrong unit": ({"rate": "100MB"}, ["rate", "100MB"]),
    "negative size": ({"size": "-1KB"}, ["size", "-1KB"]),
    "buffer below one packet": ({"buffer": "1000B"}, ["buffer", "1000B", "packet"]),
}


def test_a_scenario_file_runs(tmp_path):
    (tmp_path / "net.toml").write_text(NETWORK.format(**GOOD))
    done = penstock("run", str(tmp_path / "net.toml"), "--json")
    assert done.returncode == 0, done.stderr
    mean = json.loads(done.stdout)["mean"]
    # 100 KB at 100 Mb/s take 8 ms and a little for headers, handshake and path.
    assert 8e-3 < mean["fct_mean_s"] < 10e-3
    assert mean["flows_completed"] == 1


@pytest.mark.parametrize("name", BAD_FILE)
def test_a_wrong_scenario_file_is_one_line_and_exit_code_2(name, tmp_path):
    change, expected = BAD_FILE[name]
    (tmp_path / "net.toml").write_text(NETWORK.format(**(GOOD | change)))
    done = inline("run", str(tmp_path / "net.toml"))
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in expected:
        assert word in done.stderr


def test_a_cdf_that_does_not_end_at_one_and_a_missing_one(tmp_path):
    (tmp_path / "sizes.csv").write_text("size,cdf\n1000,0\n2000,0.5\n5000,0.9\n")
    for name, expected in (("sizes.csv", ["cdf", "1"]), ("none.csv", ["none.csv"])):
        done = inline("run", "mix", "--set", f"sizes=cdf:{tmp_path / name}")
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        for word in ("sizes", *expected):
            assert word in done.stderr


def test_toml_that_cannot_be_read_names_the_line(tmp_path):
    (tmp_path / "bad.toml").write_text("scenario = \nservers = 3\n")
    done = inline("run", str(tmp_path / "bad.toml"))
    assert done.returncode == 2
    assert "bad.toml:1: " in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_of_a_key_given_twice_the_last_counts_and_help_says_so(short):
    done = inline("run", *short, "--set", "servers=3", "--set", "servers=2", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scenario"]["set"]["servers"] == "2"
    words = " ".join(inline("run", "--help").stdout.replace("│", " ").split())
    assert "if a key is given twice, the last value counts" in words


def test_the_bottleneck_is_named_in_the_table_and_in_every_document(short, tmp_path):
    done = inline("run", *short, "--out", str(tmp_path))
    assert "bottleneck: switch->client" in done.stdout
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["runs"][0]["summary"]["bottleneck"] == "switch->client"


def test_a_warning_is_on_stderr_in_the_document_and_in_the_run_directory(short, tmp_path):
    # A key that has no effect: the table's quiet companion.
    unused = [*short, "--set", "delayed_ack_timeout=10ms", "--runs", "2"]
    done = inline("run", *unused, "--json", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    about = json.loads((tmp_path / "run.json").read_text())
    assert any("delayed_ack_timeout" in line for line in document["warnings"])
    assert about["warnings"] == document["warnings"]
    assert json.loads((tmp_path / "summary.json").read_text())["warnings"] == document["warnings"]
    told = [line.removeprefix("warning: ") for line in done.stderr.splitlines() if line.startswith("warning")]
    assert told == document["warnings"]


def test_an_interval_of_something_positive_does_not_go_below_zero():
    # Few timeouts, at chance: the formula's lower end is negative.
    chosen = settings({"servers": "3", "duration": "150ms", "jitter": "1ms"})
    done = inline("run", "incast", *chosen, "--runs", "3", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    wide = [key for key, mean in document["mean"].items() if (document["ci95"][key] or 0) > mean > 0]
    assert wide, document
    table = inline("run", "incast", *chosen, "--runs", "3").stdout
    for key in wide:
        (line,) = [line for line in table.splitlines() if line.split()[:1] == [key]]
        assert " 0 to " in line and "±" not in line


def test_describe_knows_a_parameter_wherever_there_is_one():
    done = inline("describe", "rto_min")
    assert done.returncode == 0, done.stderr
    for word in ("parameter", "200ms", "long-flows", "incast", "RFC"):
        assert word in done.stdout, word
    found = json.loads(inline("describe", "rto_min", "--json").stdout)
    assert {"name", "of", "default", "unit", "min", "max", "origin", "text"} <= set(found["parameters"][0])
    # Of a table of the custom scenario only.
    assert "custom" in inline("describe", "cdf_unit").stdout
    assert "near it: rto_min" in inline("describe", "rto_mim").stderr


@pytest.mark.parametrize("shell", ["zsh", "bash"])
@pytest.mark.parametrize(
    ("typed", "expected", "unexpected"),
    [
        (["run", "inc"], "incast", "long-flows"),
        (["run", "incast", "--set", "rto_mi"], "rto_min=", "rto_max="),
        (["run", "incast", "--set", "protocol=dct"], "dctcp", "newreno"),
        (["run", "incast", "--set", "queue="], "droptail", "dctcp"),
        (["run", "incast", "--set", "jitter_mode="], "independent", "droptail"),
        (["describe", "rto_mi"], "rto_min", "rto_max"),
    ],
)
def test_the_shell_completes(shell, typed, expected, unexpected):
    if shell == "zsh":
        given = {"_TYPER_COMPLETE_ARGS": " ".join(["penstock", *typed])}
    else:
        # Bash hands over the equals sign as a word of its own.
        words = ["penstock"]
        for word in typed:
            key, equals, value = word.partition("=")
            words += [key, *([equals] if equals else []), *([value] if value else [])]
        given = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [str(PENSTOCK)],
        env={**os.environ, **given, "_PENSTOCK_COMPLETE": f"complete_{shell}"},
        capture_output=True,
        text=True,
        check=False,
    )
    offered = done.stdout.split()
    assert expected in done.stdout, (done.stdout, done.stderr)
    assert unexpected not in done.stdout
    if shell == "bash" and "=" in typed[-1]:
        assert expected in offered, "bash puts it in the place of what follows the ="


def test_a_failed_run_says_as_json_what_it_was_and_why_it_failed(monkeypatch):
    from penstock import sweeps

    def fail(task, progress=None):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(sweeps, "execute", fail)
    done = inline("run", "incast", *settings(SHORT), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 3
    assert document["scenario"]["scenario"] == "incast"
    assert document["scenario"]["set"]["duration"] == SHORT["duration"]
    assert "the disk is full" in document["error"]
    assert document["runs"] == []


def test_no_help_text_turns_into_emoji():
    for command in ("run", "sweep", "advise", "view", "live", "reproduce", "describe", "demo", "convert"):
        done = inline(command, "--help")
        assert done.returncode == 0
        pictures = [c for c in done.stdout if ord(c) > 0x2600]
        assert not pictures, (command, pictures)
    assert "heatmap:XKEY:YKEY:ZKEY" in "".join(inline("sweep", "--help").stdout.split())


def test_a_note_is_printed_as_it_is(capsys):
    from penstock.console import note

    note("curve:x:goodput_bps :key: :smile:")
    assert capsys.readouterr().err == "curve:x:goodput_bps :key: :smile:\n"


def test_reproduce_says_how_to_install_the_papers_where_they_are_missing():
    code = (
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'penstock_papers' else find(name, *more)\n"
        "from penstock import cli\n"
        "cli.main(['reproduce', 'D-7', '--quick'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install penstock-papers" in done.stderr


def test_the_papers_have_the_version_of_the_engine():
    import penstock_papers
    from penstock import __version__

    assert penstock_papers.__version__ == __version__
