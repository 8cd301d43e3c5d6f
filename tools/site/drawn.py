"""Figures that a page has drawn by a script, and the picture of README.md, which is drawn anew.

    <!-- figure: figures/victim.py: what one sees -->

in a page, on one line or several, is replaced by what `draw()` of that script (its path from the page)
returns, as SVG.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARK = re.compile(r"^<!-- figure: (\S+\.py): ([^>]+?)\s-->$", re.MULTILINE)
#: A still of the page that runs, in README.md too.
STILL = ROOT / "docs/still.png"


def drawn(markdown: str, source: Path, page: Path, folder: Path) -> str:
    """The text of `page`, made from `source`, its figures drawn into `folder`."""

    def put(mark: re.Match[str]) -> str:
        path = draw((source.parent / mark[1]).resolve(), folder)
        return f"![{' '.join(mark[2].split())}]({os.path.relpath(path, page.parent)})"

    return MARK.sub(put, markdown)


def draw(script: Path, folder: Path) -> Path:
    """The figure that `script` draws, written to `folder`; the path of the SVG."""
    import matplotlib as mpl

    figure = load(script).draw()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{script.stem}.svg"
    with mpl.rc_context({"svg.hashsalt": "penstock", "svg.fonttype": "path"}):
        figure.savefig(path, metadata={"Date": None})
    return path


def load(script: Path) -> Any:
    """A script as a module; nothing else can import it."""
    spec = importlib.util.spec_from_file_location(f"figure_{script.stem}", script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def still(target: Path) -> str:
    """Write the still to `target`, anew where a browser and the page are there; else what the repository has,
    and the reason.
    """
    done = subprocess.run(
        [sys.executable, ROOT / "tools/still.py", target], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    shutil.copy(STILL, target)
    return (done.stderr.strip().splitlines() or ["tools/still.py failed"])[-1]
