"""Measures the page in Chromium over a store: the overview, or the timeline's first picture and the tab's memory.

    python benchmarks/timeline_page.py STORE [--overview]

STORE for the timeline is what `timeline_tiles.py --store STORE` makes. Needs Playwright and Debian's `chromium`;
painting is software's.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from stepscope.api.trace import open_trace
from stepscope.report.page_data import Shown
from stepscope.serve.asking import Recordings
from stepscope.serve.policy import Policy
from stepscope.serve.running import listen, serve

COMPLETE = ".timeline[data-complete=yes]"
MOVES = ("d", "d", "w", "w", "a", "s", "s", "s", "d", "w", "w", "w", "0", "w", "w", "d", "s")
ROUNDS = 6


def renderer(page: Page) -> int:
    """The process that draws a page: the one of Chromium's renderers that has most memory."""
    browser = page.context.browser
    assert browser is not None
    told = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    numbers = [int(one["id"]) for one in told if one["type"] == "renderer"]
    return max(numbers, key=lambda number: memory(number)[0])


def memory(process: int) -> tuple[int, int]:
    """Resident memory of a process, and its share of what others map, too (bytes)."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    told = {line.split()[0]: line.split()[1] for line in text.splitlines()[1:]}
    return int(told["Rss:"]) << 10, int(told["Pss:"]) << 10


def heap(session: CDPSession) -> int:
    """What the page's script holds (bytes)."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return int(next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize"))


def timed(page: Page, view: str, complete: str) -> tuple[float, float]:
    """Seconds by the clock until a view is complete, and of this process's processor time: the server's."""
    began, processor = time.perf_counter(), time.process_time()
    page.goto(f"{page.url}{view}")
    page.wait_for_selector(complete, timeout=120_000)
    return time.perf_counter() - began, time.process_time() - processor


def overview(page: Page, link: str) -> dict[str, Any]:
    """Opens the first view."""
    page.goto("about:blank")
    began, processor = time.perf_counter(), time.process_time()
    page.goto(link)
    page.wait_for_selector("main:not(:has(.waiting)) .overview", timeout=120_000)
    return {
        "overview_s": time.perf_counter() - began,
        "overview_server_s": time.process_time() - processor,
    }


def measured(page: Page, link: str) -> dict[str, Any]:
    """Opens the timeline and walks over it."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(link)
    first, first_processor = timed(page, "#/timeline", COMPLETE)
    process = renderer(page)
    at_first = memory(process)
    page.locator("canvas").focus()
    most, most_heap, times = at_first, heap(session), []
    for _ in range(ROUNDS):
        for key in MOVES:
            began = time.perf_counter()
            page.keyboard.press(key)
            page.wait_for_timeout(30)
            page.wait_for_selector(COMPLETE, timeout=120_000)
            times.append(time.perf_counter() - began)
            most, most_heap = max(most, memory(process)), max(most_heap, heap(session))
    return {
        "first_picture_s": first,
        "first_picture_server_s": first_processor,
        "move_median_s": sorted(times)[len(times) // 2],
        "move_p95_s": sorted(times)[int(0.95 * len(times))],
        "renderer_first_mb": at_first[0] / 1e6,
        "renderer_most_mb": most[0] / 1e6,
        "renderer_most_pss_mb": most[1] / 1e6,
        "script_heap_most_mb": most_heap / 1e6,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--overview", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    bound = listen(0)
    policy = Policy(bound.getsockname()[1])
    trace = open_trace(given.store)
    ends: list[Any] = []
    ready = threading.Event()

    def started(end: Any) -> None:
        ends.append(end)
        ready.set()

    recordings = Recordings([Shown("generated", trace)])
    thread = threading.Thread(
        target=serve, args=[recordings, policy, bound], kwargs={"limit_s": 120, "ready": started}
    )
    thread.start()
    ready.wait(20)
    print(f"load before {os.getloadavg()[0]:.1f}")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            told = (overview if given.overview else measured)(page, policy.link)
            browser.close()
    finally:
        ends[0]()
        thread.join(20)
        trace.close()
    for name, value in told.items():
        print(f"{name:24} {value:10.2f}")
    print(f"load after {os.getloadavg()[0]:.1f}")
    if given.output:
        given.output.write_text(json.dumps(told))


if __name__ == "__main__":
    main()
