"""`stepscope report`: writes recordings into one HTML file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from stepscope.cli.choices import file_option, reading_options, sources_argument
from stepscope.cli.opened import compare_option, opened_recordings
from stepscope.cli.terminal.printing import print_err
from stepscope.cli.terminal.progress import progress_on


@click.command(name="report", short_help="Writes all answers into one HTML file.")
@sources_argument
@file_option("The file to write (default report.html).", default=Path("report.html"))
@compare_option
@click.option("--with-paths", is_flag=True, help="Keep the names of hosts and the paths of files.")
@reading_options
def command(
    sources: tuple[str, ...],
    job: str | None,
    output: Path,
    compare: tuple[str, ...],
    with_paths: bool,
    reading: dict[str, Any],
) -> None:
    """Writes the answers to all questions into one HTML file of at most 15 MB. It opens from disk in any
    browser, without a network. It can be passed on: names of hosts and paths of files are left out unless
    --with-paths is given. Names of events stay.

    The file has the first rows of very long answers, and says how many there are.
    """
    from stepscope.base.complete_file import check_output
    from stepscope.base.units import bytes_text
    from stepscope.report.page_data import write_report

    check_output(output)
    with ExitStack() as stack, progress_on() as progress:
        recordings = opened_recordings(stack, sources, job, compare, **reading)
        progress.start("answering")
        size = write_report(recordings, output, with_paths=with_paths)
        progress.finish()
    print_err(f"{output}: {bytes_text(size)}; open it in a browser")
