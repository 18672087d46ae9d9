"""`stepscope export`: a recording as a file for other viewers."""

from __future__ import annotations

from pathlib import Path

import click

from stepscope.cli.choices import (
    numbers_option,
    reading_options,
    sources_argument,
    together,
    window_option,
)
from stepscope.cli.progress import open_watched, progress_on
from stepscope.cli.say import say


@click.command(
    name="export", short_help="Writes a recording as a trace for Perfetto and chrome://tracing."
)
@sources_argument
@click.option(
    "--chrome",
    "target",
    required=True,
    metavar="FILE",
    type=click.Path(),
    help="The .json file to write, in the Trace Event format; compressed if its name ends in .gz.",
)
@together(
    numbers_option("--rank", "ranks", "Only these ranks, as in 0,2-5."),
    numbers_option("--step", "steps", "Only what these steps did, as in 3 or 3-5."),
    window_option,
    reading_options,
)
def command(
    sources: tuple[str, ...],
    job: str | None,
    target: str,
    ranks: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
    window: tuple[int, int] | None,
    no_cache: bool,
    strict: bool,
) -> None:
    """Writes a recording, all its ranks on one time line, as a trace that Perfetto (ui.perfetto.dev) and
    chrome://tracing open.

    Beside the recorded events it has tracks of steps, of the modules that the device works for, of the
    work that is queued on each stream, of the bandwidth of copies and of memory in use. Recordings of
    every format can be exported: exports of Nsight Systems and databases of nvprof too.
    """
    from stepscope.answers.part import part
    from stepscope.answers.scope import Scope
    from stepscope.floor.complete_file import check_output
    from stepscope.report.trace_events import write_trace_events

    check_output(Path(target))
    with (
        open_watched(*sources, job=job, cache=not no_cache, strict=strict) as trace,
        Scope(trace.store, ranks, steps, part(window=window)) as scope,
        progress_on() as progress,
    ):
        events = write_trace_events(scope, Path(target), progress)
        written = scope.ranks
    of = f"rank {written[0]}" if len(written) == 1 else f"{len(written)} ranks"
    say(f"{target}: {events} events of {of}; open it in ui.perfetto.dev or chrome://tracing")
