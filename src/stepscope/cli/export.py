"""`stepscope export`: writes a recording or a part of it for other viewers or as a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stepscope.cli.choices import (
    numbers_option,
    reading_options,
    sources_argument,
    together,
    typed_sources,
    window_option,
)
from stepscope.cli.terminal.invoked_as import invoked_as
from stepscope.cli.terminal.printing import print_err
from stepscope.cli.terminal.progress import open_watched, progress_on


@click.command(name="export", short_help="Writes a trace for Perfetto and chrome://tracing, or a store.")
@sources_argument
@click.option(
    "--chrome",
    "--perfetto",
    "chrome",
    metavar="FILE",
    type=click.Path(),
    help="The .json file to write, in the Trace Event format; compressed if its name ends in .gz.",
)
@click.option(
    "--store",
    "directory",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="The directory to make a store in, as `stepscope import` does.",
)
@together(
    numbers_option("--rank", "ranks", "Only these ranks, as in 0,2-5."),
    numbers_option("--step", "steps", "Only what ran in these steps, as in 3 or 3-5."),
    window_option(),
    reading_options,
)
def command(
    sources: tuple[str, ...],
    job: str | None,
    chrome: str | None,
    directory: str | None,
    ranks: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
    window: tuple[int, int] | None,
    reading: dict[str, Any],
) -> None:
    """Writes a recording as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing (--chrome), or a part
    of it as a store (--store).

    The trace has all ranks on one time line, and tracks for steps, modules of device work, work queued on each
    stream, the critical path, the bandwidth of copies and memory in use. Recordings of every format can be
    exported, such as exports of Nsight Systems and databases of nvprof.

    The store answers like one that was imported with these ranks and steps. --window is only for --chrome.
    """
    if (chrome is None) == (directory is None):
        raise click.UsageError("give one of --chrome FILE and --store DIR")
    if directory is not None and window is not None:
        raise click.UsageError("--window goes with --chrome; choose the steps of a store with --step")
    reading["job"] = job
    if directory is not None:
        from stepscope.store.part import write_part
        from stepscope.store.place import place_for

        target = Path(directory)
        place_for(target)
        with open_watched(*sources, **reading) as trace, progress_on() as progress:
            written = write_part(trace.store, target, ranks=ranks, steps=steps, progress=progress)
        store = typed_sources([str(target)])
        print_err(f"{target}: {_counted(written)}; ask it with: {invoked_as()} summary {store}")
        return

    from stepscope.base.complete_file import check_output
    from stepscope.query.event_filter import event_filter
    from stepscope.query.scope import Scope
    from stepscope.report.trace_events import write_trace_events

    target = Path(chrome or "")
    check_output(target)
    with (
        open_watched(*sources, **reading) as trace,
        Scope(trace.store, ranks, steps, event_filter(window=window)) as scope,
        progress_on() as progress,
    ):
        events = write_trace_events(scope, target, progress)
        written = scope.ranks
    print_err(f"{target}: {events} events of {_counted(written)}; open it in ui.perfetto.dev or chrome://tracing")


def _counted(ranks: tuple[int, ...]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
