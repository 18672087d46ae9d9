"""`stepscope doctor`: checks for each tool what `stepscope launch` would find on this node."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import click

from stepscope.base.errors import StepScopeError
from stepscope.cli.choices import out_option, tool_option
from stepscope.cli.terminal.printing import print_out
from stepscope.launch.preflight import Problem, dotted, executable_of, problems, this_node, version_of
from stepscope.launch.tools import all_tools

_WIDTH = 100
_INDENT = 12


@click.command(name="doctor", short_help="Checks whether this node lets profilers record.")
@tool_option("names", "Only this profiler", multiple=True)
@out_option("Folder where the files would go")
def command(names: tuple[str, ...], out: Path) -> None:
    """Checks whether this node lets profilers record, and says what to do if it does not.

    Run it where the job runs, inside the same container and batch step, because the PATH, disks and
    permissions may differ there. Exit code 1 if a profiler that was found, or that --tool names, would
    record nothing.
    """
    is_well = True
    for tool in all_tools().values():
        if names and tool.name not in names:
            continue
        try:
            executable = executable_of(tool)
        except StepScopeError as error:
            is_well = is_well and not names
            print_out(_row(tool.name, "–", f"not on the PATH on {os.uname().nodename}"))
            if names:
                print_out(_lines(Problem("failure", error.message, error.hint)))
            continue
        version = version_of(tool, executable)
        print_out(_row(tool.name, dotted(version) or "–", executable or "needs no program of its own"))
        for problem in problems(tool, version, out.absolute(), (), this_node()):
            is_well = is_well and problem.severity != "failure"
            print_out(_lines(problem))
    if not is_well:
        raise click.exceptions.Exit(1)


def _row(name: str, version: str, place: str) -> str:
    return f"{name:<{_INDENT}}{version:<10}  {place}\n"


def _lines(problem: Problem) -> str:
    more = f"; {problem.cure}" if problem.cure else ""
    text = f"{problem.severity}: {problem.what}{more}"
    lines = textwrap.wrap(text, _WIDTH - _INDENT, break_on_hyphens=False)
    return "".join(f"{' ' * _INDENT}{line}\n" for line in lines)
