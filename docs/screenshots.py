"""Takes the screenshots of the page that the documentation shows, and writes docs/views.md around them.

python docs/screenshots.py traces/    # a folder with the recordings that SHOWN names; needs Chromium

A view whose recording is not there, or that has nothing of it to show, keeps its words alone.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from stepscope.cli.main import main as stepscope

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
BY_DEFAULT = ("kineto/resnet50_v100",)
SHOWN = {
    "modules": ("kineto/bert_small_h100",),
    "call-tree": ("kineto/bert_small_h100",),
    "memory": ("kineto/bert_small_h100",),
    "communication": ("kineto/dlrm_8rank_v100",),
    "compare": ("kineto/ddp_v100_rank1of2", "kineto/ddp_a100_rank3of8"),
    "metrics": ("ncu/a10g_5_kernels.ncu-rep",),
}
"""The recordings of views that the one by default does not fill; of two, the second is compared."""
SIZE = {"width": 1280, "height": 800}
COLOURS = 96
HEAD = """\
# The views of the page

What `stepscope report` writes and `stepscope view` shows. Each view's numbers are those of `stepscope QUESTION --json`; what has
no view of its own has a table, and a chart where the answer has one, under "All other questions". The pictures show
recordings of others.
"""


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as space, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        pages = Reports(Path(sys.argv[1]), Path(space))
        parts = [HEAD]
        for view, title, shows in views(page, pages.of(BY_DEFAULT)):
            parts.append(f"## {title}\n\n{shows[:1].upper()}{shows[1:]}.\n")
            address = pages.of(SHOWN.get(view, BY_DEFAULT))
            if address and taken(page, f"{address}#/{view}", IMAGES / f"view-{view}.png"):
                parts.append(f"![{title}](images/view-{view}.png)\n")
        browser.close()
    (DOCS / "views.md").write_text("\n".join(parts), encoding="utf-8")
    return 0


class Reports:
    """Reports of recordings, each made once."""

    def __init__(self, traces: Path, space: Path) -> None:
        self._traces, self._space = traces, space
        self._made: dict[tuple[str, ...], str] = {}

    def of(self, names: tuple[str, ...]) -> str:
        """The address of the report; empty where a recording is not there."""
        paths = [self._traces / name for name in names]
        if not all(path.exists() for path in paths):
            return ""
        if names not in self._made:
            report = self._space / f"{len(self._made)}.html"
            first, *others = map(str, paths)
            compared = [word for other in others for word in ("--compare", other)]
            if code := stepscope(["report", first, *compared, "-o", str(report)]):
                sys.exit(code)
            self._made[names] = report.as_uri()
        return self._made[names]


def views(page: Page, address: str) -> list[tuple[str, str, str]]:
    """The page's own views: name in the address, title, what each shows."""
    page.goto(address)
    page.wait_for_selector("nav > ul a")
    links: list[Any] = page.locator("nav > ul a").evaluate_all(
        "all => all.map((one) => [one.getAttribute('href'), one.innerText, one.title])"
    )
    return [(href.partition("#/")[2].partition("?")[0], *words) for href, *words in links]


def taken(page: Page, address: str, path: Path) -> bool:
    """Takes a picture of a view, in few colours; false where it has nothing to show."""
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(f"main[data-shows='#{address.partition('#')[2]}']:not(:has(.waiting))")
    page.wait_for_selector("main:not(:has([data-complete=no]))")
    if page.locator("main table, main canvas, main svg").count() == 0:
        return False
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
