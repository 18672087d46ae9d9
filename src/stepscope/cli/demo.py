"""`stepscope demo`: records a small training here and shows where its time went."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli.output import put_answer
from stepscope.progress import progress_on

if TYPE_CHECKING:
    from stepscope.cli.demo_training import Recorded


@click.command(
    name="demo", short_help="Records a small training here and shows where its time went."
)
@click.option(
    "--steps", type=click.IntRange(1, 50), default=4, show_default=True, help="Steps to trace."
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the recordings in this folder. By default they go to a new temporary one.",
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

    Trains a small language model. First a few of its events are measured inline, one per iteration,
    so that the job runs as it does alone; then a few steps are traced, with shapes and the modules'
    paths. Prints both. Takes some ten seconds and needs torch.
    """
    folder = Path(tempfile.mkdtemp(prefix="stepscope-demo-")) if output is None else output
    try:
        recorded = _record(folder, steps, device)
    except BaseException:
        if output is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    _show(recorded)


def _record(folder: Path, steps: int, device: str) -> Recorded:
    folder.mkdir(parents=True, exist_ok=True)
    # The profiler's library announces start and stop on stderr, below this level of its log.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    from stepscope.cli.demo_training import record_training

    click.echo("Training a small language model, measured inline and then traced ...", err=True)
    recorded = record_training(folder, steps=steps, device=device)
    count = f"{steps} step{'' if steps == 1 else 's'}"
    click.echo(
        f"Recorded {count} on {recorded.device} in {recorded.seconds:.1f} s: {recorded.path}\n",
        err=True,
    )
    return recorded


def _show(recorded: Recorded) -> None:
    path = recorded.path
    if recorded.inline is not None:
        _ask(recorded.inline, "inline")
        sys.stdout.write("\n")
    _ask(path, "summary")
    more = "" if recorded.inline is None else f"  stepscope inline {recorded.inline}\n"
    sys.stdout.write(
        "\nAsk more of it:\n"
        f"  stepscope steps {path}\n"
        f"  stepscope modules {path}\n"
        f"  stepscope operators {path} --top 20\n"
        f"{more}"
        "  stepscope --help          all questions; each answers with --json, --csv and --parquet too\n"
        "Record your own and ask the same: stepscope record -- train.py ARGS\n"
    )


def _ask(path: Path, question: str) -> None:
    from stepscope.questions.trace import open_trace

    with progress_on() as progress, open_trace(path, progress=progress) as trace:
        progress.finish()
        put_answer(trace.ask(question))
