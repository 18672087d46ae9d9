"""`stepscope timeline-chart`: draws the measured events of an iteration."""

from __future__ import annotations

from pathlib import Path

import click

from stepscope.cli.choices import file_option, source_argument
from stepscope.cli.terminal.printing import print_err


@click.command(name="timeline-chart", short_help="Draws the measured events of an iteration in the order they run.")
@source_argument
@file_option("The .png or .svg file to draw into.", required=True)
@click.option("--title", metavar="TEXT", help="A title above the chart.")
def command(source: str, output: Path, title: str | None) -> None:
    """Draws the measured events of an iteration, one line each, in the order in which they run.

    SRC is what `stepscope record --inline` wrote.
    """
    from stepscope.base.complete_file import check_output
    from stepscope.report.figures import check_name, save_figure
    from stepscope.report.timeline_chart import timeline_chart

    check_name(output)
    check_output(output)
    written = save_figure(timeline_chart(source, title=title), output)
    print_err(f"{written}: drawn")
