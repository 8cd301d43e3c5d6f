"""What the tests share: the program as a user starts it, and a scenario short enough for a test."""

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import cli
from penstock_papers import ledger

PENSTOCK = Path(sys.executable).with_name("penstock")

# Some fifteen blocks of four servers; the low timeout floor keeps a single timeout from filling the time.
SHORT = {"servers": "4", "duration": "150ms", "protocol": "newreno", "rto_min": "1ms"}


def penstock(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run the program to its end and return its exit code and output."""
    return subprocess.run(
        [str(PENSTOCK), *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


def inline(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process: for the many calls that end before anything runs."""
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
    return ledger.Row(name, "incast", f"title of {name}", claims=(claim,), measure=measure, **more)


def measuring(x: float) -> Callable[[ledger.Lab], ledger.Measurement]:
    """A measurement of x."""
    return lambda lab: {"x": x}


@pytest.fixture
def short() -> list[str]:
    return ["incast", *settings(SHORT)]
