"""The still at the top of README.md, docs/still.png: the page of a run, stopped in the middle of a block, as
headless Chromium shows it.

tools/still.py [FILE]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import penstock

FILE = Path(__file__).resolve().parents[1] / "docs/still.png"
#: Short enough that the curves show single packets.
SCENARIO = {"servers": 12, "sru": "64KB", "duration": "40ms", "rto_min": "1ms"}
#: Of the 10,000 steps of the slider: a full queue and losses.
MOMENT = 380
SIZE = {"width": 1280, "height": 860}


def main() -> int:
    """The program."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("tools/still.py: Chromium is not installed", file=sys.stderr)
        return 1
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        path = penstock.view("incast", settings=SCENARIO).save(Path(folder) / "incast.html")
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(path.as_uri())
        page.wait_for_function("() => globalThis.penstock?.logs()[0]?.result", timeout=60_000)
        page.evaluate(f"document.getElementById('scrub').value = {MOMENT}")
        page.dispatch_event("#scrub", "input")
        page.wait_for_timeout(500)
        page.screenshot(path=target)
        browser.close()
    print(f"still: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
