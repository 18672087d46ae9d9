"""Measures the page in Chromium on a store: the overview, or the timeline's first picture, moving through it, and
memory.

    python benchmarks/timeline_page.py STORE [--overview]

For the timeline STORE is made by `timeline_tiles.py --store STORE`. The server is `stepscope view`. Needs Playwright
and Debian's `chromium`; painting is done in software.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import CDPSession, Page, sync_playwright

COMPLETE = ".timeline[data-complete=yes]"
OVERVIEW = "main[aria-busy=false] .overview"
MOVES = ("d", "d", "w", "w", "a", "s", "s", "s", "d", "w", "w", "w", "0", "w", "w", "d", "s")
ROUNDS = 6
PAINTED = """() => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() / 1000))))"""
"""Seconds from navigation until the page's contents were painted."""


def renderer(page: Page) -> int:
    """The process that draws a page: Chromium's renderer with the most memory."""
    browser = page.context.browser
    assert browser is not None
    told = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    numbers = [int(one["id"]) for one in told if one["type"] == "renderer"]
    return max(numbers, key=lambda number: memory(number)[0])


def memory(process: int) -> tuple[int, int]:
    """Resident memory of a process, and its proportional share of shared memory (bytes)."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    told = {line.split()[0]: line.split()[1] for line in text.splitlines()[1:]}
    return int(told["Rss:"]) << 10, int(told["Pss:"]) << 10


def peak(process: int) -> int:
    """The peak resident memory of a process (bytes)."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


def processor(process: int) -> float:
    """Processor time of a process (seconds)."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def heap(session: CDPSession) -> int:
    """Memory of the page's script (bytes)."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return int(next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize"))


def opened(page: Page, server: int, link: str, complete: str) -> dict[str, float]:
    """From navigation to the painted view: seconds of wall clock and of processors."""
    before = processor(server)
    page.goto(link)
    page.wait_for_function("(view) => document.querySelector(view)", arg=complete, polling="raf", timeout=120_000)
    painted_s = page.evaluate(PAINTED)
    server_s = processor(server) - before
    return {"picture_s": painted_s, "server_s": server_s, "renderer_s": processor(renderer(page))}


def walked(page: Page) -> dict[str, float]:
    """Moves through the timeline."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
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
    print(f"load before {os.getloadavg()[0]:.1f}")
    command = [sys.executable, "-m", "stepscope", "view", str(given.store), "--no-browser"]
    view, complete = ("overview", OVERVIEW) if given.overview else ("timeline", COMPLETE)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout is not None
        link = server.stdout.readline().strip()
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        told = opened(page, server.pid, f"{link}#/{view}", complete)
        if not given.overview:
            told |= {"server_first_mb": peak(server.pid) / 1e6} | walked(page)
        told |= {"server_most_mb": peak(server.pid) / 1e6}
        browser.close()
        server.terminate()
    for name, value in told.items():
        print(f"{name:24} {value:10.2f}")
    print(f"load after {os.getloadavg()[0]:.1f}")
    if given.output:
        given.output.write_text(json.dumps(told))


if __name__ == "__main__":
    main()
