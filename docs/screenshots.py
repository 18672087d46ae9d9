"""Takes the documentation's screenshots of the page, writes docs/views.md around them, and draws the charts of
docs/scaling.md; the output of `stepscope scaling` is that page's sample.

python docs/screenshots.py traces/               # a folder with the recordings that SHOWN names
python docs/screenshots.py traces/ memory sql    # the pictures of these views, or charts, alone

Needs Chromium; torch for what is recorded here, matplotlib for charts, py-spy for samples. A view whose recording or
tool is missing, or that is empty, keeps its picture.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from stepscope.cli import demo
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
"""Recordings of views that the default one does not fill; with two, the second is compared."""
RECORDED = {"measured": "inline", "hotspots": "samples"}
"""Views of what is recorded here, and the methods of `Reports` that record it."""
GPT = DOCS.parent / "examples" / "gpt.py"
DLRM = [sys.executable, str(DOCS.parent / "examples" / "dlrm.py")]
PLAN = demo.PLAN | {"repetitions": 80}
PLAN_STEPS = 9000
SAMPLED_STEPS = 4000
"""Enough that training takes longer than the imports before it."""
STATES = {
    "measured": "?recording=2",
    "communication": "?question=communication",
    "sql": "?sql=SELECT+name%2C+count%28*%29+AS+calls%2C+sum%28dur_ns%29+AS+total_ns%0AFROM+device_event%0A"
    "WHERE+kind+%3D+%27computation%27%0AGROUP+BY+name+ORDER+BY+total_ns+DESC",
}
"""For each view, the part that its picture shows."""
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
"""Environment of a process, as torchrun sets it for several."""
SIZE = {"width": 1280, "height": 800}
COLOURS = 224
USE = {
    "overview": """\
At the top is the largest loss: the colour of its edge shows the severity, **Next** says what to do. Below are the parts
of the mean step, a column for each step, the device's use, further findings with the most that each saves, the result
of the checks, and what takes the most time. Headings and bars lead to their views, a column to its step on the
timeline.""",
    "findings": """\
Each finding says what a cure saves, what to do, and what that costs elsewhere. Its evidence has the rows, the place on
the timeline, and the command that gives its number again.""",
    "steps": """\
Each moment counts for the first part that is active, so the parts of a step add up to it. Pale steps are in no mean:
those that the recording cut off, and a slow first one. With `by` set to `mean`, the ranks stand side by side.""",
    "operators": """\
A bar filters the table to its row. The name of a row opens the durations of its single calls, all its values, and a
link to the timeline. Like every table it can be sorted, filtered, grouped, and copied as CSV or Markdown.""",
    "kernels": """\
Names are shortened so that they stay distinct. An open row has the full name and a histogram of durations, whose bars
lead to their longest call.""",
    "modules": """\
By device or host time. Press a frame to see it alone, Escape to go back; arrow keys move over the frames. A search
fades the other frames and opens the tree at its hits.""",
    "call-tree": """\
Top-down from the first call, bottom-up from functions to their callers, or a tree for each thread, by host or device
time.""",
    "timeline": """\
Drag, turn the wheel with Ctrl, or use the keys that `?` lists. [What it shows](timeline.md).""",
    "communication": """\
Each rank's step; collectives with wait, transfer and bandwidth; how much computation hides of them; stragglers and what
they did longer; a map of ranks and steps; what becomes slower; the critical path over all ranks; and who sends how much
to whom.""",
    "memory": """\
A press on the curve lists what is alive at that moment. With [`stepscope view`](view.md), dragging lists what lives in
that stretch; on the keyboard use arrow keys and Enter, with Shift for a stretch. A report holds the 2 000 largest
allocations and shows the command that lists the others.""",
    "roofline": """\
Only roofs that limit something are drawn. A hollow circle is a measurement by counters.""",
    "hotspots": """\
From py-spy, VTune, perf, Nsight Systems with its call chains, and traced Python frames. Threads that only waited while
others worked are left out, and counted.""",
    "metrics": """\
From Nsight Compute, nvprof and Kineto. With several recordings, one can be the baseline: a mark in each bar.""",
    "measured": """\
Bars are means; whiskers are 95 % intervals or percentiles, as the title says.""",
    "compare": """\
For `stepscope report BEFORE --compare AFTER`. Words say how certain a change is: “unclear” if its 95 % interval
contains 0.""",
    "sql": """\
Only with `stepscope view`, because a report holds answers and no tables. A press on a name in the schema inserts it at
the cursor.""",
}
"""What users can do in a view."""
HEAD = """\
# The views of the page

These are the views of `stepscope report` and `stepscope view`. Their numbers are those of `stepscope QUESTION --json`. A
question without a view of its own is under "All other questions", as a table, and a chart if the answer has one. The
pictures show recordings by others and of our examples.
"""


def main() -> int:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    traces, *wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as space:
        if not wanted or set(wanted) - set(CHARTS):
            pictures(Path(traces), Path(space), wanted)
        for name, drawn in CHARTS.items():
            if not wanted or name in wanted:
                drawn(Path(space), IMAGES / f"{name}.png")
    return 0


def pictures(traces: Path, space: Path, wanted: list[str]) -> None:
    """Takes pictures of the requested views, by default all, and writes the page around them."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        pages = Reports(traces, space)
        parts = [HEAD]
        listed = views(page, pages.of(BY_DEFAULT))
        if unknown := set(wanted) - set(CHARTS) - {view for view, _, _ in listed}:
            sys.exit(f"no view is called {', '.join(sorted(unknown))}")
        for view, title, shows in listed:
            parts.append(f"## {title}\n\n{shows[:1].upper()}{shows[1:]}.\n{USE.get(view, '')}\n")
            address = pages.shows(view) if not wanted or view in wanted else ""
            path = IMAGES / f"view-{view}.png"
            if address:
                taken(page, f"{address}#/{view}{STATES.get(view, '')}", path)
            if path.exists():
                parts.append(f"![{title}](images/view-{view}.png)\n")
        browser.close()
        pages.close()
    (DOCS / "views.md").write_text("\n".join(parts), encoding="utf-8")


class Reports:
    """Makes reports of recordings, each once."""

    def __init__(self, traces: Path, space: Path) -> None:
        self._traces, self._space = traces, space
        self._made: dict[tuple[str, ...], str] = {}
        self._served: list[subprocess.Popen[str]] = []

    def shows(self, view: str) -> str:
        """The address of a page with a view; empty if there is none."""
        if view == "sql":
            return self.served(BY_DEFAULT[0])
        if view in RECORDED:
            return str(getattr(self, RECORDED[view])())
        return self.of(SHOWN.get(view, BY_DEFAULT))

    def inline(self) -> str:
        """Records an example's events inline."""
        if lacks("torch"):
            return ""
        plan = self._space / "plan.json"
        plan.write_text(json.dumps(PLAN), encoding="utf-8")
        out = self._space / "gpt"
        recorded = ["-m", "stepscope", "record", "--inline", str(plan), "-o", str(out), "--"]
        alone([sys.executable, *recorded, str(GPT), "--steps", str(PLAN_STEPS)])
        run("report", str(out), "-o", str(self._space / "inline.html"))
        return (self._space / "inline.html").as_uri()

    def samples(self) -> str:
        """Samples an example with py-spy."""
        spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
        if spy is None or lacks("torch"):
            return ""
        file = self._space / "gpt.speedscope.json"
        script = [sys.executable, str(GPT), "--steps", str(SAMPLED_STEPS)]
        alone([spy, "record", "--format", "speedscope", "--rate", "200", "-o", str(file), "--", *script])
        if not file.exists():  # the system may forbid reading another process
            return ""
        run("report", str(file), "-o", str(self._space / "samples.html"))
        return (self._space / "samples.html").as_uri()

    def served(self, name: str) -> str:
        """Serves a page until `close`."""
        if not (self._traces / name).exists():
            return ""
        command = [sys.executable, "-m", "stepscope", "view", str(self._traces / name), "--no-browser"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._served.append(server)
        return "" if server.stdout is None else server.stdout.readline().strip()

    def close(self) -> None:
        """Ends the servers."""
        for server in self._served:
            server.terminate()
            server.wait()

    def of(self, names: tuple[str, ...]) -> str:
        """The address of the report; empty if a recording, or the tool that reads it, is missing."""
        paths = [self._traces / name for name in names]
        if not all(path.exists() for path in paths):
            return ""
        if names not in self._made:
            report = self._space / f"{len(self._made)}.html"
            first, *others = map(str, paths)
            compared = [word for other in others for word in ("--compare", other)]
            made = stepscope(["report", first, *compared, "-o", str(report)]) == 0
            self._made[names] = report.as_uri() if made else ""
        return self._made[names]


def timeline_chart(space: Path, path: Path) -> None:
    """Draws the measured events of an example."""
    if lacks("torch", "matplotlib"):
        return
    alone([*DLRM, "--plan", "seed", "--out", str(space / "dlrm")])
    run("timeline-chart", str(space / "dlrm"), "-o", str(path))


def scaling_chart(space: Path, path: Path) -> None:
    """Draws how an example scales to more processes."""
    if lacks("torch", "matplotlib"):
        return
    runs = []
    for count in (1, 2, 4):
        runs.append(str(space / f"dlrm{count}"))
        launch = ["-m", "torch.distributed.run", "--nproc_per_node", str(count), "--no-python"]
        record = ["-m", "stepscope", "record", "--phases", "-o", runs[-1], "--"]
        command = [sys.executable, *launch, sys.executable, *record, *DLRM[1:], "--steps", "200"]
        subprocess.run(command, check=True, stdout=sys.stderr, env=ONE_THREAD)
    run("scaling", *runs, "-o", str(path))


CHARTS = {"dlrm-timeline": timeline_chart, "dlrm-scaling": scaling_chart}
"""Pictures of docs/scaling.md by name."""


def alone(command: list[str]) -> None:
    """Runs a training on one core, where other threads and processes disturb it least."""
    subprocess.run(command, check=False, stdout=sys.stderr, env=ONE_THREAD)


def lacks(*modules: str) -> bool:
    """Whether any of these modules cannot be imported."""
    return any(find_spec(one) is None for one in modules)


def run(*command: str) -> None:
    """Runs a StepScope command; ends the script if it fails."""
    if code := stepscope(list(command)):
        sys.exit(code)


def views(page: Page, address: str) -> list[tuple[str, str, str]]:
    """The page's own views: name in the address, title, and what each shows."""
    page.goto(address)
    page.wait_for_selector("nav > ul a")
    links: list[Any] = page.locator("nav > ul a").evaluate_all(
        "all => all.map((one) => [one.getAttribute('href'), one.innerText, one.title])"
    )
    page.wait_for_selector(".where")
    # The link of an empty view has the reason as title, but this list has what each view shows.
    listed: list[list[str]] = page.locator(".where dl > div").evaluate_all(
        "all => all.map((one) => ['dt', 'dd'].map((part) => one.querySelector(part).textContent))"
    )
    shows = dict(listed)
    return [(href.partition("#/")[2].partition("?")[0], title, shows.get(title, why)) for href, title, why in links]


def taken(page: Page, address: str, path: Path) -> None:
    """Takes a picture of a view, in few colours, if it has something to show."""
    page.goto("about:blank")
    link, _, view = address.partition("#")
    page.goto(link)  # the server removes the token from the address
    page.goto(f"{page.url}#{view}")
    page.wait_for_selector(f"main[data-shows='#{view}'][aria-busy=false]")
    page.wait_for_selector("main:not(:has([data-complete=no]))")
    page.evaluate("document.activeElement.blur()")
    if page.locator("main table, main canvas, main svg").count() == 0:
        return
    picture = Image.open(io.BytesIO(page.screenshot()))
    fewer_colours(picture.convert("RGB")).save(path, optimize=True)


def fewer_colours(picture: Image.Image) -> Image.Image:
    """Reduces an image to its commonest colours unchanged: a median cut would mix those of small areas, such as
    swatches."""
    found: Any = picture.getcolors(picture.width * picture.height)
    common = [colour for _, colour in sorted(found, reverse=True)[:COLOURS]]
    palette = Image.new("P", (1, 1))
    palette.putpalette([channel for colour in common for channel in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


if __name__ == "__main__":
    sys.exit(main())
