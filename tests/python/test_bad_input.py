"""Bad scenario files through the program, keys without effect, and the examples of the guide to them."""

import json
import re
from pathlib import Path

import pytest
from conftest import inline, penstock, settings

from penstock import run as penstock_run

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "scenario-files.md"


@pytest.fixture
def example(tmp_path) -> Path:
    """The worked example as files, under the names the text gives them."""
    blocks = re.findall(r"```(toml|csv)\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    incast, custom, sizes = (text for _, text in blocks[:3])
    (tmp_path / "incast16.toml").write_text(incast)
    (tmp_path / "sizes.csv").write_text(sizes)
    path = tmp_path / "racks.toml"
    path.write_text(custom)
    return path


def test_the_example_of_the_documentation_runs(example):
    done = penstock("run", str(example), "--json", "--out", str(example.parent / "out"))
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning")]
    # Two transfers are on their way when the time is up; everything else of the example is sound.
    assert all("completion statistics leave out" in line for line in warnings), warnings
    summary = json.loads(done.stdout)["mean"]
    # 0.5 of 2000 bytes, 0.4 of 20000, 0.1 of 200000: the upper reading of sizes.csv.
    assert summary["size_mean_bytes"] == pytest.approx(29_000)
    assert summary["blocks"] > 20
    assert 0.3 < summary["utilisation"] < 1

    import polars as pl

    flows = pl.read_parquet(example.parent / "out" / "flows.parquet")
    assert set(flows.filter(pl.col("workload") == 0)["protocol"]) == {"cubic:ecn=true"}
    assert set(flows.filter(pl.col("workload") > 0)["protocol"]) == {"dctcp"}
    assert set(flows.filter(pl.col("workload") == 1)["dst"]) == {"b2"}


NAMED = [
    t
    for t in re.findall(r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    if "topology" in t
]


@pytest.mark.parametrize("text", NAMED, ids=lambda t: re.search(r'topology = "([a-z-]+)', t)[1])
def test_the_examples_of_networks_by_name_run(text, tmp_path):
    path = tmp_path / "named.toml"
    path.write_text(text)
    done = penstock("run", str(path), "--json")
    assert done.returncode == 0, done.stderr
    assert "without effect" not in done.stderr
    assert json.loads(done.stdout)["mean"]["flows_completed"] >= 32


def test_the_short_example_takes_settings_on_top(example):
    short = example.with_name("incast16.toml")
    done = penstock("run", str(short), "--set", "duration=100ms", "--json")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)["scenario"]["set"]
    assert (values["servers"], values["duration"]) == ("16", "100ms")


BAD = {
    "zero rate": ('rate = "2Gbps"', 'rate = "0bps"', 'link[3].rate = "0bps": must be at least 1000 bit/s'),
    "wrong unit": (
        'delay = "20us"',
        'delay = "20KB"',
        'link[3].delay = "20KB": must be a time with a unit (ns, us, ms, s), for example 100us',
    ),
    "small buffer": (
        'buffer = "200pkt"',
        'buffer = "1KB"',
        'link[3].buffer = "1KB": must hold at least one packet of 1500 bytes',
    ),
    "flow to itself": (
        'to = "b2"',
        'to = "a1"',
        'workload[2] = "a1": must lead to another host than its own',
    ),
    "unreachable": (
        'between = ["left", "right"]',
        'from = "left"\nto = "right"',
        'workload[1] = "b0 -> a0": no path leads from b0 to a0',
    ),
    "contradiction": (
        'total = "400KB"',
        'total = "400KB"\nresponse = "1KB"',
        'workload[2].total = "400KB": cannot be given together with response',
    ),
    "unknown key": (
        "rate = 800",
        "rat = 800",
        'workload[3].rat = "800": unknown key of workload poisson; did you mean rate?',
    ),
    "no TOML": ("rate = 800", "rate = ", 'file = "rate =": is not TOML'),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line_and_exit_code_2(example, name):
    old, new, expected = BAD[name]
    text = example.read_text()
    assert old in text
    example.write_text(text.replace(old, new, 1))
    done = penstock("run", str(example))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    place, found = line.removeprefix(f"error: {example}:").split(": ", 1)
    assert found.startswith(expected)
    assert 1 <= int(place) <= len(text.splitlines())


def test_two_protocols_that_no_port_can_serve_are_refused_before_the_run(tmp_path):
    flow = '[[workload]]\nkind = "flows"\nfrom = "h0"\nto = "h1"\nsize = "1MB"\n'
    text = 'scenario = "custom"\nprotocol = "homa"\ntopology = "leaf-spine:2x2x2"\n'
    text += 'link_rate = "10Gbps"\nlink_delay = "1us"\n'
    (tmp_path / "two.toml").write_text(f'{text}{flow}{flow}protocol = "pfabric"\n')
    done = penstock("run", str(tmp_path / "two.toml"))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    rule = (
        "needs other ports of switches than protocol homa of the run: they differ in their order of service"
    )
    assert f'protocol = "pfabric": {rule}' in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_cdf_must_end_at_one(example):
    example.with_name("sizes.csv").write_text("size,cdf\n2000,0.5\n20000,0.9\n")
    done = penstock("run", str(example))
    assert done.returncode == 2
    rule = "the last cdf of the file must be 1, not 0.9"
    line = 1 + example.read_text().splitlines().index('sizes = "cdf:sizes.csv"')
    assert done.stderr.strip() == f'error: {example}:{line}: workload[3].sizes = "cdf:sizes.csv": {rule}'


def test_a_missing_file_is_named(example):
    example.with_name("sizes.csv").unlink()
    done = penstock("run", str(example))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "workload[3].sizes" in line and "sizes.csv cannot be read" in line


def test_keys_without_effect_are_told_once(tmp_path):
    arguments = [
        "run",
        "incast",
        "--set",
        "duration=50ms",
        "--set",
        "delayed_ack_timeout=10ms",
        "--runs",
        "2",
    ]
    done = penstock(*arguments, "--json", "--out", str(tmp_path / "out"))
    assert done.returncode == 0
    assert done.stderr.count("warning: without effect in this run: delayed_ack_timeout") == 1
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert about["scenario"]["without_effect"] == ["delayed_ack_timeout"]
    assert about["warnings"].count("without effect in this run: delayed_ack_timeout") == 1
    done = penstock(*arguments, "--set", "delayed_ack=2", "--json")
    assert "without effect" not in done.stderr


def test_a_run_that_ends_before_its_warm_up_says_so():
    few = ["run", "query", "--set", "repetitions=1", "--set", "warmup=1s"]
    done = penstock(*few)
    assert done.returncode == 0
    assert "warning: the run ended before its warm-up: nothing was measured" in done.stderr


# Keys of the incast remedies: settings, then the key, value and rule that the one line of the error names.
REMEDIES = [
    ({"retransmit_probability": "-0.1"}, "retransmit_probability", "-0.1", "must be at least 0"),
    ({"retransmit_probability": "1.1"}, "retransmit_probability", "1.1", "must be at most 1"),
    ({"retransmit_probability": "nan"}, "retransmit_probability", "nan", "must be a number"),
    ({"retransmit_every": "0us"}, "retransmit_every", "0us", "must be at least 0.000000001 s"),
    ({"retransmit_every": "-1us"}, "retransmit_every", "-1us", "must be at least 0.000000001 s"),
    ({"retransmit_every": "5"}, "retransmit_every", "5", "must be a time with a unit"),
    ({"retransmit_segment": "middle"}, "retransmit_segment", "middle", "must be one of newest, oldest"),
    ({"servers": "0"}, "servers", "0", "must be at least 1"),
    ({"servers": "1.5"}, "servers", "1.5", "must be a whole number"),
    ({"segment": "0B"}, "segment", "0B", "must be at least 1 bytes"),
    ({"segment_start": "0B"}, "segment_start", "0B", "must be at least 1 bytes"),
    (
        {"segment_start": "1001B"},
        "segment_start",
        "1001B",
        "must not be above the full segment of 1000 bytes",
    ),
    (
        {"segment": "500B", "segment_start": "1000B"},
        "segment_start",
        "1000B",
        "must not be above the full segment of 500 bytes",
    ),
    ({"segment_start": "50B", "resize_window": "1"}, "resize_window", "1", "must be at least 2"),
    ({"resize_from": "block"}, "resize_from", "block", "must be one of transfer, connection"),
    ({"header_compression": "perhaps"}, "header_compression", "perhaps", "must be true or false"),
    ({"tail_loss_probe": "true"}, "tail_loss_probe", "true", "needs selective acknowledgements"),
    ({"rto_granularity": "-1us"}, "rto_granularity", "-1us", "must be at least 0 s"),
    ({"rto_min": "3s", "rto_max": "2s"}, "rto_min", "3s", "must not be above rto_max"),
    ({"receive_control": "wishes"}, "receive_control", "wishes", "unknown receiver-side control"),
    ({"receive_control": "ictcp:alpha=0"}, "receive_control:alpha", "0", "must be at least 0.01"),
    ({"receive_control": "ictcp:alpha=1.5"}, "receive_control:alpha", "1.5", "must be at most 1"),
    ({"receive_control": "ictcp:beta=1"}, "receive_control:beta", "1", "must be at most 0.999"),
    ({"receive_control": "ictcp:gamma1=-1"}, "receive_control:gamma1", "-1", "must be at least 0"),
    ({"receive_control": "ictcp:gamma1=0.6"}, "receive_control:gamma1", "0.6", "must not be above gamma2"),
    ({"receive_control": "ictcp:gamma2=2"}, "receive_control:gamma2", "2", "must be at most 1"),
    ({"receive_control": "ictcp:slot=0us"}, "receive_control:slot", "0us", "must be at least"),
    ({"receive_control": "ictcp:delta=1"}, "receive_control:delta", "1", "unknown key"),
    ({"remedy": "ictcp"}, "remedy", "ictcp", "unknown key of scenario incast"),
]


@pytest.mark.parametrize(("given", "key", "value", "rule"), REMEDIES)
def test_a_bad_remedy_is_one_line_and_exit_code_2(given, key, value, rule):
    done = inline("run", "incast", *settings(given))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f'error: {key} = "{value}": {rule}')


@pytest.mark.parametrize(("given", "key", "value", "rule"), REMEDIES)
def test_a_bad_remedy_is_a_value_error_that_names_it(given, key, value, rule):
    with pytest.raises(ValueError) as caught:
        penstock_run("incast", **given)
    assert str(caught.value).startswith(f'{key} = "{value}": {rule}')
    assert caught.value.key == key
