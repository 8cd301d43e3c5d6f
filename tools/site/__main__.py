"""Build the documentation site: `python tools/site [--out out/site] [--only pages]`.

Lays the pages out (running the blocks of tutorial and how-to), builds them with Sphinx where a warning is
an error, puts gallery, page and
rustdoc beside them, and checks every internal link.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

import check
import stage


def main() -> int:
    """The program; its exit code is 1 where the site could not be built without a warning and without a
    dead link.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=stage.ROOT / "out/site", help="where the site goes")
    parser.add_argument(
        "--only",
        choices=("pages",),
        help="pages: without gallery, rustdoc and links between them; blocks are not run",
    )
    given = parser.parse_args()
    site: Path = given.out.resolve()
    work = site.with_name(site.name + "-pages")
    began = time.monotonic()
    stage.lay_out(work, run=given.only is None)
    _said("pages laid out and run" if given.only is None else "pages laid out", began)
    shutil.rmtree(site, ignore_errors=True)
    sphinx = [
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-d",
        str(work) + "-trees",
        str(work),
        str(site),
    ]
    if subprocess.run([sys.executable, *sphinx], check=False).returncode:
        return 1
    _said("built", began)
    if given.only is None:
        _gallery(site / "gallery")
        _rustdoc(site / "rust")
        looked, dead = check.dead_links(site)
        for line in dead:
            print(line, file=sys.stderr)
        _said(f"{looked} internal links looked at, {len(dead)} dead", began)
        if dead:
            return 1
    print(f"site: {site / 'index.html'}")
    return 0


def _said(what: str, began: float) -> None:
    print(f"site: {what} ({time.monotonic() - began:.0f} s)", file=sys.stderr)


def _gallery(folder: Path) -> None:
    from penstock import gallery, views

    if why := views.available():
        folder.mkdir(parents=True)
        (folder / "index.html").write_text(
            f"<!doctype html><title>Gallery</title><p>Built without the page: {why}</p>\n"
        )
        print(f"site: without the gallery: {why}", file=sys.stderr)
        return
    gallery.write(folder, docs="../")


def _rustdoc(folder: Path) -> None:
    command = ["cargo", "doc", "--workspace", "--exclude", "penstock-py", "--no-deps", "--quiet", "--locked"]
    subprocess.run(command, cwd=stage.ROOT, check=True)
    shutil.copytree(stage.ROOT / "target/doc", folder, dirs_exist_ok=True)


if __name__ == "__main__":
    sys.exit(main())
