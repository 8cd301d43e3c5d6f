"""The page in a headless browser: time to the first picture, to a result, of a rerun; packet-hops per second
of the engine; frames per second while packets move. Without its parts, Playwright or Chromium it says so.

The goals (`GOALS`) are for an idle machine, so the exit code is 0 whatever is measured; the tests use the
same measurements (`tests/python/test_page_speed.py`).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Enough packet-hops that the browser's compiler has caught up.
LONG = {"flows": 8, "protocol": "dctcp", "queue": "threshold:k=20pkt", "duration": "10s", "warmup": "1s"}
INCAST = {"servers": 32, "protocol": "dctcp", "queue": "threshold:k=20pkt", "duration": "2s"}
# More than 5,000 packets on the wires at any time: long links and full windows.
MANY = {
    "link_rate": "10Gbps",
    "rtt": "10ms",
    "start_spread": "0s",
    "flows": 8,
    "protocol": "reno",
    "initial_window": 2000,
    "rwnd": "16MB",
    "buffer": "20000pkt",
    "duration": "40ms",
    "warmup": "1ms",
}
#: What is asked of an idle machine: at most so many seconds, at least so many per second. Frames are asked of
#: a browser that draws with a GPU; one that draws in software may reach `FRAMES_IN_SOFTWARE`.
GOALS = {"first_s": 1.0, "rerun_s": 0.3, "hops_per_s": 1.5e6, "frames_per_s": 30.0}
FRAMES_IN_SOFTWARE = 10.0
PACKETS = 5000
RUN_OVER = "() => document.body.dataset.state !== 'running' && globalThis.penstock?.logs()[0]?.result"
_RENDERER = """() => {
  const gl = document.createElement('canvas').getContext('webgl');
  const about = gl?.getExtension('WEBGL_debug_renderer_info');
  return about ? gl.getParameter(about.UNMASKED_RENDERER_WEBGL) : '';
}"""


def _opened(browser: Any, folder: Path, name: str, settings: dict[str, Any]) -> tuple[Any, float, float]:
    """A tab with the page of a scenario; seconds to its first picture and to its result."""
    import penstock

    path = penstock.view(name, settings=settings).save(folder / f"{len(list(folder.iterdir()))}.html")
    tab = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True).new_page()
    before = time.monotonic()
    tab.goto(path.as_uri())
    tab.wait_for_function("() => globalThis.penstock?.logs()[0]", timeout=120_000)
    first = time.monotonic() - before
    tab.wait_for_function(RUN_OVER, timeout=300_000)
    return tab, first, time.monotonic() - before


def incast(browser: Any, folder: Path) -> dict[str, float]:
    """Incast of 32 servers, 2 s simulated: seconds to the first picture, to the result, of a rerun."""
    tab, first, ready = _opened(browser, folder, "incast", INCAST)
    before = time.monotonic()
    tab.evaluate("document.getElementById('run').click()")
    tab.wait_for_function("() => document.body.dataset.state === 'idle'", timeout=300_000)
    rerun = time.monotonic() - before
    tab.context.close()
    return {"first_s": first, "result_s": ready, "rerun_s": rerun}


def hops(browser: Any, folder: Path) -> dict[str, float]:
    """Packet-hops per second of the engine in the page's worker, everything recorded."""
    tab, _, _ = _opened(browser, folder, "long-flows", LONG)
    rate = float(tab.evaluate("document.getElementById('side-a').dataset.rate"))
    tab.context.close()
    return {"hops_per_s": rate}


def frames(browser: Any, folder: Path) -> dict[str, float]:
    """Frames per second while packets move, how many there are, and what is asked of this browser."""
    tab, _, _ = _opened(browser, folder, "long-flows", MANY)
    tab.evaluate("penstock.seek(0.02); penstock.play()")
    tab.wait_for_timeout(3000)
    count, seconds = tab.evaluate("[penstock.frames.count, penstock.frames.seconds]")
    shown = tab.evaluate("penstock.shown()")
    name = tab.evaluate(_RENDERER)
    software = not name or "swiftshader" in name.lower() or "llvmpipe" in name.lower()
    tab.context.close()
    goal = FRAMES_IN_SOFTWARE if software else GOALS["frames_per_s"]
    return {"frames_per_s": count / seconds, "packets": shown["packets"], "goal": goal}


def main() -> int:
    """Print the figures beside the goals."""
    from penstock import views

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("the page: Playwright is not installed, not measured")
        return 0
    if why := views.available() or ("" if chromium else "Chromium is not installed"):
        print(f"the page: {why}: not measured")
        return 0
    with tempfile.TemporaryDirectory(prefix="penstock-") as name, sync_playwright() as play:
        folder = Path(name)
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        found = incast(browser, folder)
        first, rerun = (f"{found[key]:.2f} s (goal {GOALS[key]:g})" for key in ("first_s", "rerun_s"))
        print(
            f"the page, incast 32, 2 s: first picture {first}, "
            f"result {found['result_s']:.2f} s, rerun {rerun}"
        )
        rate, goal = hops(browser, folder)["hops_per_s"] / 1e6, GOALS["hops_per_s"] / 1e6
        print(f"the page, eight flows, recorded: {rate:.2f} million packet-hops per second (goal {goal})")
        found = frames(browser, folder)
        drawn = ", drawn in software" if found["goal"] == FRAMES_IN_SOFTWARE else ""
        print(
            f"the page, playing {found['packets']} packets on wires: "
            f"{found['frames_per_s']:.0f} frames per second (goal {found['goal']:.0f}{drawn})"
        )
        browser.close()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"note: the machine was busy (load {load:.1f}); the goals are for an idle one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
