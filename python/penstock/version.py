"""Which penstock this is: the version (declared once, in Cargo.toml) and the commit it was made from."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CHECKOUT = _HERE.parents[1]
# Written into wheel and sdist by tools/dist.sh.
_FILE = _HERE / "commit.txt"


@functools.cache
def commit() -> str:
    """The commit this package is of, with "+" behind it where files were changed since; "" where nothing
    tells.

    In a checkout git is asked, elsewhere the wheel knows.
    """
    if (_CHECKOUT / ".git").exists() and (_CHECKOUT / "Cargo.toml").exists():
        found = _git("rev-parse", "--short=10", "HEAD")
        return found + "+" if found and _git("status", "--porcelain", "--untracked-files=no") else found
    try:
        return _FILE.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(_CHECKOUT), *words], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def line() -> str:
    """What `penstock --version` prints."""
    from penstock._engine import __version__

    return f"penstock {__version__}" + (f" (commit {commit()})" if commit() else "")
