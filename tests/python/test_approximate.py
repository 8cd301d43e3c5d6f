"""`--approximate links`: marked wherever it is shown, beside the exact run, refused where it cannot be."""

import json
from pathlib import Path

import pytest

import penstock
from penstock import cli

GIVEN = {
    "topology": "leaf-spine:2x2x4",
    "long_flows": 0,
    "link_rate": "10Gbps",
    "link_delay": "1us",
    "host_queue": "2pkt",
    "arrivals": "load:30%",
    "warmup": "1ms",
    "duration": "11ms",
}
OPTIONS = [word for key, value in GIVEN.items() for word in ("--set", f"{key}={value}")]


def command(*arguments: str) -> int:
    """Run the program; its exit code."""
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    return int(str(ended.value.code))


def test_it_says_that_it_is_approximate_wherever_it_is_shown(tmp_path: Path) -> None:
    found = penstock.run("mix", settings=GIVEN, approximate="links")
    assert found.name == "mix (approximate: links)" and "approximate" in repr(found)
    assert found.warnings[0].startswith("approximate: ") and found.scenario["approximate"] == "links"
    assert "approximate" in found.plot.fct().axes[0].get_title(loc="left")
    assert "approximate" in found._repr_html_()
    # Nothing is known of queues and packets.
    assert set(found.tables()) == {"flows", "transfers"} and "utilisation" not in found.summary
    folder = found.save(tmp_path / "run")
    kept = json.loads((folder / "summary.json").read_text())
    assert kept["scenario"]["approximate"] == "links" and kept["warnings"][0].startswith("approximate: ")
    assert penstock.load(folder).name == found.name


def test_the_exact_run_beside_it_has_the_same_flows_and_shows_the_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command("run", "mix", *OPTIONS, "--approximate", "links", "--compare", "exact", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    about = document["approximate"]
    exact = penstock.run("mix", settings=GIVEN).summary
    assert about["method"] == "links" and about["speedup"] > 0
    assert about["exact"]["slowdown_p99"] == exact["slowdown_p99"]
    assert document["mean"]["flows_opened"] == exact["flows_opened"]
    ratio = document["mean"]["slowdown_p99"] / exact["slowdown_p99"]
    assert about["error"]["slowdown_p99"] == pytest.approx(ratio - 1)
    assert command("run", "mix", *OPTIONS, "--approximate", "links", "--compare", "exact") == 0
    shown = capsys.readouterr()
    assert "mix (approximate: links)" in shown.out and "error" in shown.out
    assert "warning: approximate: " in shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["incast", "--approximate", "links"], "reacts to what becomes of its flows"),
        (["mix", *OPTIONS, "--approximate", "nodes"], 'approximate = "nodes": must be links'),
        (["mix", *OPTIONS, "--compare", "exact"], "needs --approximate"),
        (["mix", *OPTIONS, "--approximate", "links", "--compare", "ns2"], "must be exact"),
        (["mix", *OPTIONS, "--approximate", "links", "--record", "x"], "has no packets of the network"),
    ],
)
def test_what_is_impossible_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("run", *arguments) == 2
    error = capsys.readouterr().err.strip()
    assert words in error and "\n" not in error
