"""`stepscope report`: recordings as one HTML file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli.choices import reading_options, sources_argument
from stepscope.cli.progress import progress_on
from stepscope.cli.say import say

if TYPE_CHECKING:
    from stepscope.report.page_data import Shown


@click.command(
    name="report", short_help="Writes one HTML file with all answers, to open and pass on."
)
@sources_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    help="The file to write (default report.html).",
)
@click.option(
    "--compare",
    metavar="SRC",
    multiple=True,
    type=click.Path(),
    help="A further recording, to compare with SRC, which is the one before it. May be given several times.",
)
@click.option(
    "--with-paths",
    is_flag=True,
    help="Keep the names of hosts and the paths of files, which a report otherwise leaves out.",
)
@reading_options
def command(
    sources: tuple[str, ...],
    job: str | None,
    output: Path,
    compare: tuple[str, ...],
    with_paths: bool,
    capture: tuple[str, ...],
    no_cache: bool,
    strict: bool,
) -> None:
    """Writes a page with the answers to all questions into one HTML file of at most 15 MB. It opens from
    disk in any browser, without a network, and can be passed on: the names of hosts and the paths of files
    are left out unless --with-paths is given; what recorded events are called stays.

    Of an answer with very many rows the first are in the file, and the page says how many there are.
    """
    from stepscope.floor.complete_file import check_output
    from stepscope.floor.units import bytes_text
    from stepscope.report.report_file import write_report

    check_output(output)
    with ExitStack() as stack, progress_on() as progress:
        reading: dict[str, Any] = {"capture": capture, "cache": not no_cache, "strict": strict}
        shown = _opened(stack, sources, job, compare, **reading)
        progress.start("answering")
        size = write_report(shown, output, with_places=with_paths)
        progress.finish()
    say(f"{output}: {bytes_text(size)}; open it in a browser")


def _opened(
    stack: ExitStack,
    sources: tuple[str, ...],
    job: str | None,
    compare: tuple[str, ...],
    **reading: Any,
) -> list[Shown]:
    """Each job of the recordings by itself, named as the paths tell them apart."""
    from stepscope.cli.progress import open_watched
    from stepscope.floor.path_names import path_names
    from stepscope.report.page_data import Shown

    groups = [sources, *((one,) for one in compare)]
    names = path_names([Path(group[0]).absolute() for group in groups])
    shown = []
    for name, group, wanted in zip(names, groups, [job, *(None for _ in compare)], strict=True):
        trace = stack.enter_context(open_watched(*group, job=wanted, **reading))
        jobs = trace.jobs
        shown += [
            Shown(name if len(jobs) == 1 else f"{name}: {of_job}", one)
            for of_job, one in jobs.items()
        ]
    return shown
