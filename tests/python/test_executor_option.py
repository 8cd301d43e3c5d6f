"""`--executor` and `sweep --plot` on the command line."""

import json

import pytest
from conftest import inline

OVER = ["incast", "--over", "servers=2,4", "--set", "duration=50ms", "--set", "rto_min=1ms"]


def test_reproduce_gives_the_same_verdict_wherever_its_runs_are_made(tmp_path):
    """In other processes, in one thread, and found again in the store by the second."""
    documents = []
    for where, folder in (("processes", "a"), ("serial", "b"), ("processes", "a")):
        done = inline(
            "reproduce", "I-2.5", "--out", str(tmp_path / folder), "--executor", where, "-j", "1", "--json"
        )
        assert done.returncode == 0, done.stderr
        (document,) = json.loads(done.stdout)
        documents.append({key: value for key, value in document.items() if key != "seconds"})
    assert documents[0] == documents[1] == documents[2]
    assert "0 runs made, 1 were in" in done.stderr
    texts = [(tmp_path / folder / "measurements" / "I-2.5.json").read_text() for folder in "ab"]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("command", [["sweep", *OVER], ["reproduce", "I-2.5"]])
def test_an_executor_that_is_none_is_named(command, tmp_path):
    done = inline(*command, "--out", str(tmp_path), "--executor", "elsewhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert '--executor = "elsewhere": must be one of serial, threads, processes' in done.stderr


def test_a_sweep_draws_the_figures_it_is_asked_for(tmp_path):
    figures = "curve:servers:goodput_bps,compare:goodput_bps:servers,slowdown"
    done = inline("sweep", *OVER, "--out", str(tmp_path), "--plot", figures)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "figures").glob("*.png")}
    assert names == {"curve-servers-goodput_bps.png", "compare-goodput_bps-servers.png", "slowdown.png"}
    done = inline("sweep", *OVER, "--out", str(tmp_path), "--plot", "curve:servers:bananas")
    assert done.returncode == 0
    assert "no figure curve:servers:bananas" in done.stderr


@pytest.mark.parametrize(
    ("plot", "words"),
    [
        ("pie", '--plot = "pie": must be one of curve, heatmap, compare, slowdown'),
        ("", '--plot = "": must be one of'),
        ("curve:servers", '--plot = "curve:servers": must be curve:XKEY:YKEY[:BY]'),
        ("curve:buffer:goodput_bps", '"curve:buffer:goodput_bps": buffer is not swept; --over has servers'),
        ("slowdown:a:b", '"slowdown:a:b": must be slowdown[:BY]'),
    ],
)
def test_a_figure_that_makes_no_sense_is_refused_before_anything_runs(plot, words, tmp_path):
    done = inline("sweep", *OVER, "--out", str(tmp_path / "out"), "--plot", plot)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_figures_need_a_place(tmp_path):
    done = inline("sweep", *OVER, "--plot", "curve:servers:goodput_bps")
    assert done.returncode == 2
    assert "needs --out DIR" in done.stderr
