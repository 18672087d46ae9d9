"""`stepscope plan`: what an inline recording could measure, as a plan to cut down."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli.say import put, say
from stepscope.floor.complete_file import check_output, complete_output, descriptor_of
from stepscope.floor.errors import StepScopeError, UsageError

if TYPE_CHECKING:
    from stepscope.record.planning.rounds import Listed


class _Plan(click.Command):
    """Explains where a script's own options belong when it was given one of them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"{error.format_message()} A script's own options go after --: "
                "stepscope plan -- train.py ARGS",
                ctx,
            ) from None


@click.command(
    name="plan", cls=_Plan, short_help="Writes a plan of what can be measured, to cut down."
)
@click.argument("source", metavar="SRC | -- SCRIPT [ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the plan to this file, as TOML, or as JSON if its name ends in .json (default: print it).",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=20,
    metavar="N",
    help="List this many modules, the heaviest ones (default 20).",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    default=50,
    metavar="N",
    help="Measurements per event (default 50).",
)
@click.option(
    "--iterations",
    type=click.IntRange(1),
    default=3,
    metavar="N",
    help="For a script: watch each event in this many iterations (default 3).",
)
@click.option(
    "--operators",
    is_flag=True,
    help="For a script: list all operators of a module, not only the 4 longest.",
)
def command(
    source: tuple[str, ...],
    output: Path | None,
    top: int,
    repetitions: int,
    iterations: int,
    operators: bool,
) -> None:
    """Writes a plan for `stepscope record --inline`: labels to cut down, one per line.

    It is made from one of two:

    A script, with its arguments: `stepscope plan -- train.py ARGS`, or `-- -m MODULE ARGS`, under
    torchrun, mpiexec or srun as well. It is run as `stepscope record` runs it, some of its iterations are
    watched (about 15 run in all), and then it is ended. The plan names what they ran, in that order, with rough times.
    What the script prints goes to stderr.

    A recording with modules (a trace file, a folder, a store), whose modules come heaviest first.
    """
    from stepscope.record.planning.listing import plan_json, plan_text

    def write(found: list[Listed], header: list[str]) -> None:
        if output is not None and output.suffix.lower() == ".json":
            text = plan_json(found, repetitions=repetitions)
        else:
            text = plan_text(found, repetitions=repetitions, header=header, all_operators=operators)
        _put(text, place, stdout)
        if output is not None:
            events = sum(one.events for one in found)
            say(f"{output}: {events} events")

    # A script may change its directory.
    place = None if output is None or descriptor_of(output) == 1 else output.absolute()
    stdout: int | None = None
    if not source:
        raise UsageError(
            "nothing was given to make a plan of",
            hint="name a script or a recording",
            slug="no-script",
        )
    if _is_script(source):
        from stepscope.cli.script_plan import ScriptPlan, stdout_apart

        _check_writable(output)
        stdout = stdout_apart()
        module = source[0] == "-m"
        script = source[1:] if module else source
        ScriptPlan(script, module, write, top, iterations, repetitions).make()
        return
    from stepscope.cli.recorded_plan import recorded_plan

    write(*recorded_plan(source[0], top))


def _is_script(source: Sequence[str]) -> bool:
    # With arguments it can be nothing else.
    return len(source) > 1 or source[0].endswith(".py") or source[0] == "-m"


def _put(text: str, output: Path | None, stdout: int | None) -> None:
    if output is not None:
        if stdout is not None:
            os.close(stdout)
        with complete_output(output) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    elif stdout is not None:
        from stepscope.cli.script_plan import write_all

        write_all(stdout, text)
    else:
        put(text)


def _check_writable(output: Path | None) -> None:
    """Refuses a place that the plan cannot be written to, before a script runs for it."""
    if output is None:
        return
    if not output.parent.is_dir():
        raise StepScopeError(
            f"{output}: cannot be written (there is no folder {output.parent})",
            hint="choose a folder that exists and that you may write to",
            slug="cannot-write",
        )
    check_output(output)
