"""Progress with the time left: in a notebook below its cell, on a terminal, and nowhere else."""

import sys
import types

import pytest

import penstock as lab
from penstock import console


class Notebook:
    """IPython's side of a notebook: what was shown, and what took its place."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.ids = 0

    def display(self, thing, display_id=False):
        assert display_id is True
        self.ids += 1
        self.update(thing)
        return self

    def update(self, thing) -> None:
        self.shown.append(thing._repr_mimebundle_(include=None, exclude=None))


@pytest.fixture
def notebook(monkeypatch):
    found = Notebook()
    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    screen = types.ModuleType("IPython.display")
    screen.display = found.display
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", screen)
    monkeypatch.setattr(console, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(console, "_REFRESH_S", 0.0)
    return found


def test_a_notebook_shows_a_bar_with_the_time_left(notebook, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    with console.Bar("a <b>") as bar:
        for seconds, fraction in ((3, 0.2), (13, 0.3), (33, 0.5)):
            clock[0] = 100.0 + seconds
            bar(fraction)
    texts = [bundle["text/plain"] for bundle in notebook.shown]
    # What was there at the start came out of a store: 0.1 took ten seconds, so 0.7 take seventy.
    assert texts == ["a <b>: 20%", "a <b>: 30%, 1:10 min left", "a <b>: 50%, 50 s left", ""]
    assert notebook.ids == 1
    assert "<progress max='1' value='0.3000'" in notebook.shown[1]["text/html"]
    assert "a &lt;b&gt;" in notebook.shown[1]["text/html"]


@pytest.mark.parametrize("job", ["run", "sweep", "study"])
def test_every_job_shows_it(notebook, job):
    how = {"duration": "1s", "servers": 8}
    {
        "run": lambda: lab.run("incast", settings=how, runs=4, jobs=1),
        "sweep": lambda: lab.sweep([("incast", how)], runs=4, jobs=1),
        "study": lambda: lab.study("incast", {"servers": [8]}, settings={"duration": "1s"}, runs=4, jobs=1),
    }[job]()
    assert len(notebook.shown) >= 2
    assert notebook.shown[0]["text/plain"].startswith("incast: ")
    assert notebook.shown[-1]["text/html"] == ""


def test_outside_a_notebook_nothing_is_shown(monkeypatch, capsys):
    assert not console.in_notebook()
    # IPython in a terminal has no kernel.
    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", shell)
    assert not console.in_notebook()
    monkeypatch.setattr(console, "_PATIENCE_S", 0.0)
    lab.run("incast", servers=2, duration="10ms")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "1 s"), (59.5, "1:00 min"), (185, "3:05 min"), (7805, "2:10 h")]
)
def test_times_to_wait(seconds, said):
    assert console.clock(seconds) == said
