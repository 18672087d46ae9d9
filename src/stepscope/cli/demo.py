"""`stepscope demo`: records an example as users record their own script, and shows both recordings."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import click

from stepscope.base.errors import StepScopeError, UsageError
from stepscope.cli.choices import typed_sources
from stepscope.cli.terminal.invoked_as import invoked_as
from stepscope.cli.terminal.output import print_answer
from stepscope.cli.terminal.printing import print_err, print_out
from stepscope.cli.terminal.progress import open_watched
from stepscope.report.page_data import OpenRecording, write_report

EXAMPLE = "gpt.py"
PLAN = {
    "warmup": 4,
    "repetitions": 10,
    "events": ["input_wait", "forward", "layers.0.attn.forward", "backward", "optimizer.step"],
}
"""Few repetitions of few events: this is a demonstration, not a reliable measurement."""
PLAN_STEPS = 90
"""The plan's steps and a few more."""
STEPS_BEFORE_A_TRACE = 3
"""One until an optimizer steps, one to wait, one to warm up."""

ERRORS = {
    "no-device": "torch does not see the device on which the demo should train.",
    "no-example": (
        "`stepscope demo` records one of the example scripts, which are in `stepscope/examples` of a wheel "
        "and at the top of a checkout. Neither was found."
    ),
    "no-trace-written": "The demo's recordings could not be written.",
}


@click.command(name="demo", short_help="Records a small training run and shows where its time went.")
@click.option("--steps", type=click.IntRange(1, 50), default=4, show_default=True, help="Steps to trace.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the recordings in this folder (default: a new temporary one).",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where to train; auto takes a GPU if there is one.",
)
def command(steps: int, output: Path | None, device: str) -> None:
    """Records a small training run here and shows where its time went.

    Runs the unchanged example `gpt.py` twice: first with a few events measured inline, one per iteration,
    which hardly disturbs it; then with a trace of a few steps. Prints both, and writes all answers into a
    page. Takes about half a minute on two CPU cores, longer if they are busy, and needs torch.
    """
    _check_device(device)
    folder = Path(tempfile.mkdtemp(prefix="stepscope-demo-")) if output is None else output
    try:
        measured, traced = record_example(folder, steps=steps, device=device)
    except BaseException:
        if output is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    _show(measured, traced, folder / "report.html")


def record_example(folder: Path, *, steps: int, device: str) -> tuple[Path, Path]:
    """Runs the example twice, as `stepscope record --inline` and `stepscope record --trace` do; returns the paths of
    both recordings.

    Raises:
        StepScopeError: the example is not installed, or nothing could be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    from stepscope.record import inline
    from stepscope.record.plan import plan_from
    from stepscope.record.script import run
    from stepscope.record.traces.profiling import quieten_profiler
    from stepscope.record.traces.tracing import Tracer

    quieten_profiler()
    script = example()
    train = [str(script), "--device", device, "--steps"]
    name = script.relative_to(script.parents[1])
    began = time.perf_counter()
    # The example's output is not part of our answer.
    with redirect_stdout(sys.stderr):
        print_err(f"Training {name}, measured inline (about half a minute in all) ...")
        plan = plan_from(PLAN, source="the demo's plan")
        session = partial(inline.new_session, plan, out=folder.absolute(), phases=False)
        measured = run([*train, str(PLAN_STEPS)], session)
        print_err(f"Training {name}, traced ...")
        tracer = Tracer(folder, name="demo", active=steps)
        traced = run([*train, str(steps + STEPS_BEFORE_A_TRACE)], lambda: tracer)
    if not measured or not traced:
        raise StepScopeError(
            f"no recording was written to {folder}",
            hint="look at the folder's permissions and free space, or choose one with --output DIR",
            slug="no-trace-written",
        )
    print_err(f"Recorded in {time.perf_counter() - began:.1f} s: {folder}\n")
    return measured[0], traced[0]


def example() -> Path:
    """Finds the script: installed beside the package, or at the top of a checkout.

    Raises:
        StepScopeError: it is in neither place.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / EXAMPLE).is_file():
            return folder / EXAMPLE
    raise StepScopeError(
        f"the example {EXAMPLE} was not found next to {package}",
        hint="install stepscope again, or record a script of your own: stepscope record -- train.py",
        slug="no-example",
    )


def _check_device(device: str) -> None:
    try:
        import torch
    except ImportError:
        raise StepScopeError(
            "the demo trains a model, and this Python has no torch",
            hint="pip install torch, or look at a trace you have: stepscope summary FILE",
            slug="no-torch",
        ) from None
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "torch sees no CUDA or ROCm device here", hint="leave --device out to train on the CPU", slug="no-device"
        )


def _show(measured: Path, traced: Path, report: Path) -> None:
    with open_watched(measured) as inline, open_watched(traced) as trace:
        print_answer(inline.ask("inline"), source=typed_sources([str(measured)]))
        print_out("\n")
        print_answer(trace.ask("summary"), source=typed_sources([str(traced)]))
        recordings = [OpenRecording("demo, traced", trace), OpenRecording("demo, measured inline", inline)]
        write_report(recordings, report)
    name = invoked_as()
    print_out(
        "\nAsk more of it:\n"
        f"  {name} steps {traced}\n"
        f"  {name} modules {traced}\n"
        f"  {name} operators {traced} --top 20\n"
        f"  {name} inline {measured}\n"
        f"  {name} --help          all questions; each answers with --json, --csv and --parquet too\n"
        f"Record your own and ask the same: {name} record -- train.py ARGS\n"
        f"\nAll answers in one page, without a network: open {report.absolute().as_uri()} in a browser,\n"
        f"or copy {report.absolute()} to where there is one.\n"
    )
