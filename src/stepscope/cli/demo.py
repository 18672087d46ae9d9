"""`stepscope demo`: records a small training here and shows where its time went."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import click

from stepscope.cli.output import put_answer
from stepscope.progress import progress_on

TRACE_NAME = "demo.pt.trace.json"


@click.command(
    name="demo", short_help="Records a small training here and shows where its time went."
)
@click.option(
    "--steps", type=click.IntRange(1, 50), default=4, show_default=True, help="Steps to record."
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the trace in this folder. By default it goes to a new temporary one.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where to train; auto takes a GPU where there is one.",
)
def command(steps: int, output: Path | None, device: str) -> None:
    """Records a small training here and shows where its time went.

    Trains a small language model for a few steps under torch.profiler, with shapes, stacks and
    modules, reads the trace and prints the summary. Takes some ten seconds and needs torch.
    """
    folder = Path(tempfile.mkdtemp(prefix="stepscope-demo-")) if output is None else output
    try:
        path = _record(folder, steps, device)
    except BaseException:
        if output is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    _summarise(path)


def _record(folder: Path, steps: int, device: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    # The profiler's library announces start and stop on stderr, below this level of its log.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    from stepscope.cli.demo_training import record_training

    click.echo("Training a small language model under torch.profiler ...", err=True)
    recorded = record_training(folder / TRACE_NAME, steps=steps, device=device)
    count = f"{steps} step{'' if steps == 1 else 's'}"
    click.echo(
        f"Recorded {count} on {recorded.device} in {recorded.seconds:.1f} s: {recorded.path}\n",
        err=True,
    )
    return recorded.path


def _summarise(path: Path) -> None:
    from stepscope.questions.trace import open_trace

    with progress_on() as progress, open_trace(path, progress=progress) as trace:
        progress.finish()
        put_answer(trace.ask("summary"))
    sys.stdout.write(
        "\nAsk more of it:\n"
        f"  stepscope steps {path}\n"
        f"  stepscope modules {path}\n"
        f"  stepscope operators {path} --top 20\n"
        "  stepscope --help          all questions; each answers with --json, --csv and --parquet too\n"
        "Record your own with torch.profiler and ask the same: stepscope summary YOUR_TRACES/\n"
    )
