"""Takes the screenshots of the page that the documentation shows.

python docs/screenshots.py resnet50_v100/    # a recording; needs Chromium
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from stepscope.cli.main import main as stepscope

IMAGES = Path(__file__).parent / "images"
SHOWN = {"report-overview.png": "overview"}
SIZE = {"width": 1440, "height": 900}


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as space, sync_playwright() as playwright:
        report = Path(space) / "report.html"
        if code := stepscope(["report", sys.argv[1], "-o", str(report)]):
            return code
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        for name, view in SHOWN.items():
            page.goto(f"{report.as_uri()}#/{view}")
            page.wait_for_selector(f"main[data-shows='#/{view}']:not(:has(.waiting))")
            page.screenshot(path=IMAGES / name)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
