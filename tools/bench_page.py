"""The page in a headless browser: time to the first picture and of a run that is made again; packet-hops per
second of the engine; frames per second while packets move. Without its parts, Playwright or Chromium it says
so.

Times are the page's own: it writes "penstock: first picture" and "penstock: run again" into the browser's
timeline once the run is over and drawn. Beside each stands the processor time of the page's main thread,
which does not depend on what else the machine does. The goals (`GOALS`) are for an idle machine, so the exit
code is 0 whatever is measured; the tests use the same measurements (`tests/python/test_page_speed.py`).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

# Enough packet-hops that the browser's compiler has caught up.
LONG = {"flows": 8, "protocol": "dctcp", "queue": "threshold:k=20pkt", "duration": "10s", "warmup": "1s"}
INCAST = {"servers": 32, "protocol": "dctcp", "queue": "threshold:k=20pkt", "duration": "2s"}
# More than 100,000 packets on the wires: a fast link as long as a sea cable, and full windows from the start.
MANY = {
    "link_rate": "100Gbps",
    "rtt": "40ms",
    "start_spread": "0s",
    "flows": 12,
    "protocol": "reno",
    "initial_window": 10000,
    "rwnd": "64MB",
    "buffer": "200000pkt",
    "duration": "50ms",
    "warmup": "1ms",
}
#: What is asked of an idle machine: at most so many seconds, at least so many per second.
GOALS = {"first_s": 1.0, "rerun_s": 0.3, "hops_per_s": 1.5e6, "frames_per_s": 30.0}
#: What is asked of the main thread at any time, in seconds of its processor time: a frame leaves room for
#: what the browser does with it.
MAIN_GOALS = {"first_main_s": 0.6, "rerun_main_s": 0.2, "frame_main_s": 0.025}
PACKETS = 100_000


class _Thread:
    """Processor time of the main thread of a tab."""

    def __init__(self, tab: Any) -> None:
        self.session = tab.context.new_cdp_session(tab)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        found = self.session.send("Performance.getMetrics")["metrics"]
        return float(next(m["value"] for m in found if m["name"] == "TaskDuration"))


def _opened(
    browser: Any, folder: Path, name: str, settings: dict[str, Any]
) -> tuple[Any, _Thread, float, float]:
    """A tab with the page of a scenario; seconds until its run was drawn, and the main thread's share."""
    import penstock

    path = penstock.view(name, settings=settings).save(folder / f"{len(list(folder.iterdir()))}.html")
    tab = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True).new_page()
    thread = _Thread(tab)
    tab.goto(path.as_uri())
    first = _measured(tab, "penstock: first picture")
    return tab, thread, first, thread.seconds()


def _measured(tab: Any, name: str) -> float:
    """Seconds of a measure of the page, once it is there."""
    find = f"performance.getEntriesByName({name!r}, 'measure')"
    tab.wait_for_function(f"() => {find}.length > 0", timeout=300_000)
    seconds = float(tab.evaluate(f"{find}[0].duration")) / 1000
    tab.evaluate(f"performance.clearMeasures({name!r})")
    return seconds


def incast(browser: Any, folder: Path) -> dict[str, float]:
    """Incast of 32 servers, 2 s simulated: seconds until the run is drawn first, and when it is made again
    (the least of five); and the main thread's share of them.
    """
    tab, thread, first, first_main = _opened(browser, folder, "incast", INCAST)
    again = []
    for _ in range(5):
        before = thread.seconds()
        tab.evaluate("document.getElementById('run').click()")
        again.append((_measured(tab, "penstock: run again"), thread.seconds() - before))
    tab.context.close()
    rerun, rerun_main = (min(values) for values in zip(*again, strict=True))
    return {"first_s": first, "first_main_s": first_main, "rerun_s": rerun, "rerun_main_s": rerun_main}


def hops(browser: Any, folder: Path) -> dict[str, float]:
    """Packet-hops per second of the engine in the page's worker, everything recorded."""
    tab, *_ = _opened(browser, folder, "long-flows", LONG)
    rate = float(tab.evaluate("document.getElementById('side-a').dataset.rate"))
    tab.context.close()
    return {"hops_per_s": rate}


def frames(browser: Any, folder: Path) -> dict[str, float]:
    """Frames per second while packets move, how many packets there are, the main thread's time for one."""
    tab, thread, *_ = _opened(browser, folder, "long-flows", MANY)
    tab.evaluate("penstock.seek(0.018); penstock.play()")
    tab.wait_for_timeout(500)
    before = thread.seconds()
    tab.evaluate("penstock.frames = { count: 0, seconds: 0 }")
    tab.wait_for_timeout(3000)
    count, seconds = tab.evaluate("[penstock.frames.count, penstock.frames.seconds]")
    main = thread.seconds() - before
    shown = tab.evaluate("penstock.shown()")
    tab.context.close()
    found = {"frames_per_s": count / seconds, "packets": shown["packets"], "frame_main_s": main / count}
    if shown["heat"]:
        raise RuntimeError("the page shows load instead of packets")
    return found


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
        first, rerun = (
            f"{found[key]:.2f} s (goal {GOALS[key]:g}; main thread {found[main]:.2f})"
            for key, main in (("first_s", "first_main_s"), ("rerun_s", "rerun_main_s"))
        )
        print(f"the page, incast 32, 2 s: first picture {first}, run again {rerun}")
        rate, goal = hops(browser, folder)["hops_per_s"] / 1e6, GOALS["hops_per_s"] / 1e6
        print(f"the page, eight flows, recorded: {rate:.2f} million packet-hops per second (goal {goal})")
        found = frames(browser, folder)
        main = f"main thread {found['frame_main_s'] * 1e3:.0f} ms a frame"
        print(
            f"the page, playing {found['packets']:,} packets on wires: {found['frames_per_s']:.0f} frames "
            f"per second (goal {GOALS['frames_per_s']:.0f}; {main})"
        )
        browser.close()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"note: the machine was busy (load {load:.1f}); the goals are for an idle one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
