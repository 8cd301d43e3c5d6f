"""What the tests share: the program as a user starts it, scenarios short enough for a test, and a browser."""

import contextlib
import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import cli, views
from penstock_papers import ledger

PENSTOCK = Path(sys.executable).with_name("penstock")

# Some fifteen blocks of four servers; the low timeout floor keeps a single timeout from filling the time.
SHORT = {"servers": "4", "duration": "150ms", "protocol": "newreno", "rto_min": "1ms"}

# The incast of the tests of pages: it has marks, and is over before half of its time.
INCAST = {"protocol": "dctcp", "queue": "threshold:k=20pkt", "servers": 8, "duration": "40ms", "sru": "64KB"}

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_page = pytest.mark.skipif(bool(views.available()), reason=views.available() or "-")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def penstock(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run the program to its end and return its exit code and output."""
    return subprocess.run(
        [str(PENSTOCK), *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


# Begins the text of a program that asks for the peak of its own memory, in bytes. The kernel begins `VmHWM`
# anew with every program; `ru_maxrss` goes on from the process that started it, which has run other tests.
PEAK = """
def peak():
    import re
    from pathlib import Path
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

"""
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read in /proc")


def inline(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A call of penstock in this process: for the many that end before anything runs."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        cli.main(list(arguments))
    return subprocess.CompletedProcess(
        list(arguments), int(end.value.code or 0), out.getvalue(), err.getvalue()
    )


def settings(values: dict[str, str]) -> list[str]:
    """Settings as the shell gives them."""
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def row(name: str, measure: Callable[[ledger.Lab], ledger.Measurement], **more: Any) -> ledger.Row:
    """A row of one claim: that the x of its measurement is 1."""
    claim = ledger.Claim("x", "x is 1", "number", "1", "x", ledger.within(1, by=0.5), where="nowhere")
    return ledger.Row(name, f"title of {name}", "incast", claims=(claim,), measure=measure, **more)


def measuring(x: float) -> Callable[[ledger.Lab], ledger.Measurement]:
    """A measurement of x."""
    return lambda lab: {"x": x}


@pytest.fixture
def short() -> list[str]:
    return ["incast", *settings(SHORT)]


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Tab:
    """A page opened from disk with the network off; `errors` collects what its console complains about."""

    def __init__(self, browser, path, *, width=1280, height=900, link="", **options):
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, offline=True, **options
        )
        self.tab = self.context.new_page()
        self.errors = []
        self.tab.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.tab.on("pageerror", lambda e: self.errors.append(str(e)))
        self.tab.goto(path.as_uri() + link)
        self.settle()

    def settle(self):
        self.tab.wait_for_function(
            "() => { const e = document.getElementById('error'); return !e.hidden ||"
            " (globalThis.penstock?.logs()[0]?.result && document.body.dataset.state !== 'running'); }",
            timeout=60_000,
        )
        self.drawn()

    def drawn(self):
        """Waits until the page has drawn what it was told so far, however busy the machine is."""
        self.tab.evaluate(
            "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(0))))"
        )

    def __getattr__(self, name):
        return getattr(self.tab, name)

    def time(self):
        return self.tab.evaluate("penstock.clock.t")
