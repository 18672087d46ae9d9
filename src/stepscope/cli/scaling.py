"""`stepscope scaling`: what runs on more processes, beside what ran on fewer."""

from __future__ import annotations

import sys

import click

from stepscope.cli.choices import form_options
from stepscope.cli.output import check_form, put_answer
from stepscope.floor.units import ratio_text
from stepscope.progress import progress_on


@click.command(name="scaling", short_help="Does it really scale, event by event?")
@click.argument("sources", metavar="SRC...", nargs=-1, required=True, type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also draw it: a .png or a .svg file.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="TEXT",
    help="What to call a run; once for each SRC. By default the last part of its path.",
)
@click.option(
    "--mode",
    type=click.Choice(["weak", "strong"]),
    default="weak",
    metavar="weak|strong",
    help="Whether each process has the same work in all runs (weak, the default), or all together.",
)
@click.option(
    "--below",
    type=click.FloatRange(0.0, 1.0),
    default=0.8,
    metavar="RATIO",
    help="Efficiency below which a label stops scaling; 0.8 by default.",
)
@form_options
def command(
    sources: tuple[str, ...],
    output: str | None,
    names: tuple[str, ...],
    mode: str,
    below: float,
    as_json: bool,
    as_csv: bool,
    parquet: str | None,
) -> None:
    """Sets inline measurements of several runs beside each other: one SRC per number of processes.

    For each label: the average and the largest of the ranks' means, weak- and strong-scaling
    efficiency against the run with the fewest ranks, and whether it stops scaling. A label stops
    where its efficiency is too low even at the favourable ends of both 95 % intervals. Runs that
    have no inline measurements are compared by their phases.
    """
    from stepscope.compare.scaling import scaling, stopped

    check_form(as_json=as_json, as_csv=as_csv, parquet=parquet)
    if output is not None:
        from stepscope.report.figures import check_name

        check_name(output)
    with progress_on() as progress:
        table = scaling(sources, names=names or None, mode=mode, below=below, progress=progress)
        progress.finish()
    put_answer(table, as_json=as_json, as_csv=as_csv, parquet=parquet)
    if not (as_json or as_csv or parquet):
        found = stopped(table)
        limit = f"{mode}-scaling efficiency below {ratio_text(below)}"
        if found:
            sys.stdout.write(f"\nStop scaling ({limit}), from so many ranks on:\n")
            lines = [f"  {ranks:>4}  {' '.join(label.split())}\n" for label, ranks in found.items()]
            sys.stdout.writelines(lines)
        elif len(sources) > 1:
            sys.stdout.write(f"\nNothing stops scaling ({limit}).\n")
    if output is not None:
        from stepscope.report.figures import save_figure
        from stepscope.report.scaling_chart import scaling_chart

        click.echo(f"{save_figure(scaling_chart(table), output)}: drawn", err=True)
