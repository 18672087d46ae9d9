"""Takes the screenshots of the page that the documentation shows, writes docs/views.md around them, and draws the
charts of docs/scaling.md; what `stepscope scaling` then prints is that page's sample.

python docs/screenshots.py traces/               # a folder with the recordings that SHOWN names
python docs/screenshots.py traces/ memory sql    # the pictures of these views, or charts, alone

Needs Chromium; torch for what is recorded here, matplotlib for charts, py-spy for samples. A view whose recording or tool is
not there, or that has nothing to show, keeps the picture it had.
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
"""The recordings of views that the one by default does not fill; of two, the second is compared."""
RECORDED = {"measured": "inline", "hotspots": "samples"}
"""Views of what is recorded here: the methods of `Reports` that do."""
GPT = DOCS.parent / "examples" / "gpt.py"
DLRM = [sys.executable, str(DOCS.parent / "examples" / "dlrm.py")]
PLAN = demo.PLAN | {"repetitions": 80}
PLAN_STEPS = 9000
SAMPLED_STEPS = 4000
"""So many that training takes longer than the imports before it."""
STATES = {
    "measured": "?recording=2",
    "communication": "?question=communication",
    "sql": "?sql=SELECT+name%2C+count%28*%29+AS+calls%2C+sum%28dur_ns%29+AS+total_ns%0AFROM+device_event%0A"
    "WHERE+kind+%3D+%27computation%27%0AGROUP+BY+name+ORDER+BY+total_ns+DESC",
}
"""Of a view, what its picture shows of it."""
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
"""Of a process: as torchrun sets it for several, so that one has no more."""
SIZE = {"width": 1280, "height": 800}
COLOURS = 224
USE = {
    "overview": """\
On top stands the largest loss; the edge's colour is its severity, **Next** what to do about it. Below: the mean step as
parts that add up, each step as a column, what the device did meanwhile, further findings with what each saves at most,
what the checks found, and what takes most time. Headings and bars lead to their views, a column to its step on the
timeline.""",
    "findings": """\
Each says what a cure saves, what to do, and what that costs elsewhere. Its evidence has the rows, the place on the
timeline, and the command that gives its number again.""",
    "steps": """\
A moment belongs to the first part that goes on, so that the parts of a step add up to it. Steps that no mean counts are
pale: those that the recording cut off, and a slow first one. By mean, ranks stand beside each other.""",
    "operators": """\
A bar filters the table to its row; the name of a row opens how long its single calls took, all its values, and the way to the timeline. As every table, it is
sorted by its heads, filtered, grouped, and copied as CSV or Markdown.""",
    "kernels": """\
Names are shortened so that they stay apart; an open row has them in full, and a histogram of how long each run took, whose
bars lead to their longest.""",
    "modules": """\
By device or host time. Press a frame to see it alone, Escape goes back; arrow keys walk over the frames. A search makes the
others pale and opens the tree where it finds something.""",
    "call-tree": """\
Top-down from the first call, bottom-up from functions themselves to their callers, or a tree for each
thread; by host or device time.""",
    "timeline": """\
Drag, turn the wheel with Ctrl, or use the keys, which `?` lists; [what it shows](timeline.md).""",
    "communication": """\
Each rank's step, collectives with their wait, transfer and bandwidth, what computation hides of them, stragglers and what they
did longer, a map of ranks and steps, what takes longer and longer, the critical path over all ranks, and who sends how
much to whom.""",
    "memory": """\
A press on the curve lists what is alive at that moment, and with [`stepscope view`](view.md) a drag what lives in that
stretch; with the keyboard, arrow keys and Enter, with Shift for a stretch. A report holds the 2 000 largest allocations, and
the command that lists the others is below them.""",
    "roofline": """\
Only roofs that limit something are drawn. A hollow circle is what counters counted.""",
    "hotspots": """\
Of py-spy, VTune, perf, Nsight Systems with its call chains, and of traced Python frames. Threads that only waited while
others worked are left out, and counted.""",
    "metrics": """\
Of Nsight Compute, nvprof and Kineto. Of several recordings another can be chosen as the baseline, a mark in each bar.""",
    "measured": """\
Bars are means, whiskers their 95 % intervals or percentiles, as the title says.""",
    "compare": """\
For `stepscope report BEFORE --compare AFTER`. Words say how sure a change is: “unclear” where its 95 % interval contains 0.""",
    "sql": """\
Only with `stepscope view`: a report holds answers and no tables. A name in the schema is put where the cursor is.""",
}
"""What can be done with a view."""
HEAD = """\
# The views of the page

What `stepscope report` writes and `stepscope view` shows. Each view's numbers are those of `stepscope QUESTION --json`; what has
no view of its own has a table, and a chart where the answer has one, under "All other questions". The pictures show
recordings of others, and of our examples.
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
    """Takes pictures of the views that are wanted, of all where none is, and writes the page around them."""
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
    """Reports of recordings, each made once."""

    def __init__(self, traces: Path, space: Path) -> None:
        self._traces, self._space = traces, space
        self._made: dict[tuple[str, ...], str] = {}
        self._served: list[subprocess.Popen[str]] = []

    def shows(self, view: str) -> str:
        """The address of a page that shows a view; empty where there is none."""
        if view == "sql":
            return self.served(BY_DEFAULT[0])
        if view in RECORDED:
            return str(getattr(self, RECORDED[view])())
        return self.of(SHOWN.get(view, BY_DEFAULT))

    def inline(self) -> str:
        """An example's events, measured inline."""
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
        """An example's samples, of py-spy."""
        spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
        if spy is None or lacks("torch"):
            return ""
        file = self._space / "gpt.speedscope.json"
        script = [sys.executable, str(GPT), "--steps", str(SAMPLED_STEPS)]
        alone([spy, "record", "--format", "speedscope", "--rate", "200", "-o", str(file), "--", *script])
        if not file.exists():  # the system may forbid it to read another process
            return ""
        run("report", str(file), "-o", str(self._space / "samples.html"))
        return (self._space / "samples.html").as_uri()

    def served(self, name: str) -> str:
        """A page that a server answers, until `close`."""
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
        """The address of the report; empty where a recording, or the tool that reads it, is not there."""
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
    """Draws what more processes do to an example."""
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
"""Pictures of docs/scaling.md, by their names."""


def alone(command: list[str]) -> None:
    """Runs a training on one core, where other threads and processes do not make it slow and fast by turns."""
    subprocess.run(command, check=False, stdout=sys.stderr, env=ONE_THREAD)


def lacks(*modules: str) -> bool:
    """Whether one of these cannot be imported."""
    return any(find_spec(one) is None for one in modules)


def run(*command: str) -> None:
    """A command of StepScope; ends the script where it fails."""
    if code := stepscope(list(command)):
        sys.exit(code)


def views(page: Page, address: str) -> list[tuple[str, str, str]]:
    """The page's own views: name in the address, title, what each shows."""
    page.goto(address)
    page.wait_for_selector("nav > ul a")
    links: list[Any] = page.locator("nav > ul a").evaluate_all(
        "all => all.map((one) => [one.getAttribute('href'), one.innerText, one.title])"
    )
    page.wait_for_selector(".where")
    # The link of a view that has nothing says why in its title; this list has what each shows.
    listed: list[list[str]] = page.locator(".where dl > div").evaluate_all(
        "all => all.map((one) => ['dt', 'dd'].map((part) => one.querySelector(part).textContent))"
    )
    shows = dict(listed)
    return [(href.partition("#/")[2].partition("?")[0], title, shows.get(title, why)) for href, title, why in links]


def taken(page: Page, address: str, path: Path) -> None:
    """Takes a picture of a view, in few colours, where it has something to show."""
    page.goto("about:blank")
    link, _, view = address.partition("#")
    page.goto(link)  # a server's link: the token leaves it
    page.goto(f"{page.url}#{view}")
    page.wait_for_selector(f"main[data-shows='#{view}'][aria-busy=false]")
    page.wait_for_selector("main:not(:has([data-complete=no]))")
    page.evaluate("document.activeElement.blur()")
    if page.locator("main table, main canvas, main svg").count() == 0:
        return
    picture = Image.open(io.BytesIO(page.screenshot()))
    fewer_colours(picture.convert("RGB")).save(path, optimize=True)


def fewer_colours(picture: Image.Image) -> Image.Image:
    """The same in its commonest colours as they are: a median cut would mix those of small areas, as a swatch's."""
    found: Any = picture.getcolors(picture.width * picture.height)
    common = [colour for _, colour in sorted(found, reverse=True)[:COLOURS]]
    palette = Image.new("P", (1, 1))
    palette.putpalette([channel for colour in common for channel in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


if __name__ == "__main__":
    sys.exit(main())
