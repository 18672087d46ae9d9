"""Opens the recordings of `stepscope report`, `stepscope view` and `stepscope mcp`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli.choices import Seconds

if TYPE_CHECKING:
    from stepscope.report.page_data import OpenRecording

compare_option = click.option(
    "--compare",
    metavar="SRC",
    multiple=True,
    type=click.Path(),
    help="A further recording, to compare with SRC, the earlier one. May be repeated.",
)

time_limit_option = click.option(
    "--time-limit",
    type=Seconds(min=0, min_open=True),
    default=60,
    metavar="SECONDS",
    help="Time limit of one answer (default 60).",
)


def opened_recordings(
    stack: ExitStack,
    sources: tuple[str, ...],
    job: str | None,
    compare: tuple[str, ...],
    *,
    silent: bool = False,
    **reading: Any,
) -> list[OpenRecording]:
    """Opens each job of the recordings separately, with the shortest distinct names from the paths.

    Stores stay in the cache until the stack is closed. A bar shows the progress of reading unless `silent`.
    """
    from stepscope.api.trace import open_trace
    from stepscope.base.path_names import path_names
    from stepscope.cli.terminal.progress import open_watched
    from stepscope.report.page_data import OpenRecording
    from stepscope.store.cache import in_use

    groups = [sources, *((job_trace,) for job_trace in compare)]
    names = path_names([Path(group[0]).absolute() for group in groups])
    recordings = []
    for name, group, chosen_job in zip(names, groups, [job, *(None for _ in compare)], strict=True):
        opening = open_trace if silent else open_watched
        trace = stack.enter_context(opening(*group, job=chosen_job, **reading))
        jobs = trace.jobs
        recordings += [
            OpenRecording(name if len(jobs) == 1 else f"{name}: {of_job}", job_trace)
            for of_job, job_trace in jobs.items()
        ]
    stores = [job_trace.trace.store.directory for job_trace in recordings]
    stack.enter_context(in_use([store for store in stores if store is not None]))
    return recordings
