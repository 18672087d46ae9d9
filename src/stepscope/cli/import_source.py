"""`stepscope import`: reads files once and keeps their tables."""

from __future__ import annotations

from typing import Any

import click

from stepscope.base.errors import UsageError
from stepscope.base.units import bytes_text
from stepscope.cli.choices import (
    capture_option,
    form_options,
    numbers_option,
    read_size,
    read_window,
    sources_argument,
    typed_sources,
)
from stepscope.cli.terminal.invoked_as import invoked_as
from stepscope.cli.terminal.output import chosen_form, print_answer
from stepscope.cli.terminal.printing import print_err
from stepscope.cli.terminal.progress import progress_on

ERRORS = {
    "too-little-memory": (
        "`import --memory` was given less than 512MiB, which the libraries that read a recording take "
        "whatever it holds. Allow more, or leave the option out."
    )
}


@click.command(name="import", short_help="Reads recordings into a store, which later questions read fast.")
@sources_argument
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="The directory to make the store in.",
)
@numbers_option("--steps", "steps", "Keep only these steps, as in 3-5.")
@numbers_option("--ranks", "ranks", "Keep only these ranks, as in 0,2-5.")
@click.option(
    "--window",
    metavar="FROM:TO",
    callback=read_window,
    help="Keep only events that start in this window, as in 500ms:2s after the recording's start.",
)
@click.option(
    "--as-rank",
    type=click.IntRange(min=0),
    metavar="N",
    help="The rank of a single recording, if the file does not state it or states a wrong one.",
)
@capture_option
@click.option("--no-python-stack", is_flag=True, help="Leave out the frames of Python functions.")
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Read the ranks on the workers of this Dask cluster: the scheduler's address or its file.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    callback=read_size,
    help="Use about this much memory in all processes, as in 2GB; at least 512MiB. Default: a quarter of the machine's, 1 GiB for one rank, 512 MiB each for several.",
)
@click.option("--strict", is_flag=True, help="Treat any damage in a file as an error.")
@form_options
def command(
    sources: tuple[str, ...],
    job: str | None,
    output: str,
    steps: tuple[int, ...] | None,
    ranks: tuple[int, ...] | None,
    window: tuple[int, int] | None,
    as_rank: int | None,
    capture: tuple[str, ...],
    no_python_stack: bool,
    dask: str | None,
    memory: int | None,
    strict: bool,
    **given: Any,
) -> None:
    """Reads recordings into a store, a directory that answers all questions without the original files.

    If the files are of several jobs, each job gets a store in a folder of DIR with the job's name.

    Lists for each file how many events were kept, repaired or dropped, where damage starts, and how
    its rank was found. Files that are left out are listed with the reason.
    """
    from stepscope.api.trace import open_trace
    from stepscope.store.build import import_source
    from stepscope.store.memory import MINIMUM

    form = chosen_form(given)
    if memory is not None and memory < MINIMUM:
        raise UsageError(
            f"an import needs more than {bytes_text(memory)} of memory",
            hint=f"allow {MINIMUM >> 20}MiB or more, most of which its libraries take",
            slug="too-little-memory",
        )
    with progress_on() as progress:
        directory = import_source(
            sources,
            output,
            ranks=ranks,
            steps=steps,
            window=window,
            python_stack=not no_python_stack,
            strict=strict,
            rank=as_rank,
            job=job,
            dask=dask,
            memory=memory,
            captures=capture,
            progress=progress,
        )
    with open_trace(directory) as trace:
        answer = trace.ask("sources")
    print_answer(answer, form)
    store = typed_sources([str(directory)])
    print_err(f"{directory}: ready; ask it with: {invoked_as()} summary {store}")
