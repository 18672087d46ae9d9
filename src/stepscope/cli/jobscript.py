"""`stepscope jobscript`: writes a batch job script that starts every rank under a profiler."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

import click

from stepscope.base.complete_file import complete_output, descriptor_of
from stepscope.base.errors import UsageError
from stepscope.cli.choices import file_option
from stepscope.cli.launch import apart
from stepscope.cli.launch import command as launch
from stepscope.cli.terminal.printing import print_err, print_out
from stepscope.launch.job_preset import SCHEDULERS, find_preset, preset_names
from stepscope.launch.jobscript import Job, jobscript, not_given
from stepscope.launch.tool import Request
from stepscope.launch.tools import tool_named

ERRORS = {"file-exists": "The file exists, and `--force` was not given."}

_NOT_OF_JOBS = frozenset({"out", "dry_run", "print_rank", "query_metrics", "finalize"})
"""Options of `stepscope launch` that a job script sets itself, or that do not start a job."""


def _as_typed(option: click.Option) -> click.Option:
    """An option of `stepscope launch` that keeps its text as typed."""
    typed = copy(option)
    typed.callback = None
    if isinstance(option.type, click.Choice):
        typed.metavar = option.metavar or f"[{'|'.join(option.type.choices)}]"
    if not typed.is_flag:
        typed.type, typed.default = click.STRING, None
    return typed


_LAUNCH = [
    _as_typed(option)
    for option in launch.params
    if isinstance(option, click.Option) and option.name not in _NOT_OF_JOBS
]


@click.command(
    name="jobscript",
    short_help="Writes the script of a batch job that runs its ranks under a profiler.",
    params=[*_LAUNCH],
)
@click.argument("scheduler", type=click.Choice(list(SCHEDULERS)))
@click.argument("words", metavar="-- [TOOL OPTIONS --] COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.option("--nodes", type=click.IntRange(1), default=1, metavar="N", help="Nodes (default 1).")
@click.option(
    "--ranks-per-node", type=click.IntRange(1), default=1, metavar="N", help="Ranks on each node (default 1)."
)
@click.option(
    "--preset",
    metavar="NAME",
    help=f"The cluster: {', '.join(preset_names())}, or a TOML file of your own (default: the scheduler's name).",
)
@click.option("-A", "--account", metavar="NAME", help="The account or project of the job.")
@click.option("-q", "--queue", "--partition", metavar="NAME", help="Queue of PBS, partition of Slurm.")
@click.option("--walltime", metavar="TIME", help="Time limit of the job (default: 30 minutes).")
@click.option(
    "--gpus-per-node",
    type=click.IntRange(0),
    metavar="N",
    help="GPUs of each node, 0 for none (default: the preset's, otherwise one per rank).",
)
@click.option("--cpus-per-rank", type=click.IntRange(1), metavar="N", help="Cores for each rank.")
@click.option(
    "--directive",
    "directives",
    multiple=True,
    metavar="TEXT",
    help="One more line for the scheduler: --directive=--qos=dev. May be repeated.",
)
@click.option(
    "--setup",
    multiple=True,
    metavar="LINE",
    help="One more line of bash before the run: --setup 'conda activate mine'. May be repeated.",
)
@click.option("--container", metavar="IMAGE", help="Run the ranks in this image.")
@click.option(
    "--bind",
    "--mount",
    "binds",
    multiple=True,
    metavar="SRC[:DST]",
    help="Mount this in the container. May be repeated.",
)
@click.option("--tmpdir", metavar="DIR", help="Folder for temporary files, which nsys needs.")
@click.option(
    "--profiles", default="profiles", metavar="DIR", help="Folder for the profiler's files (default profiles)."
)
@file_option("Write the script to this file (default: print it).")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def command(
    scheduler: str, words: tuple[str, ...], preset: str | None, output: Path | None, force: bool, **given: Any
) -> None:
    """Writes a complete script for PBS or Slurm that runs COMMAND on every rank with `stepscope launch`.

    Options of `stepscope launch` are passed on: stepscope jobscript slurm --nodes 2 --ranks-per-node 4
    --tool nsys --ranks local:0 -- python train.py. Before the run the script checks for the profiler on a
    node of the job, so that a job without it ends in seconds.
    """
    passed_on = _passed_on(given)
    ctx = click.get_current_context()
    # Refuses here what the job would refuse.
    with launch.make_context("launch", [*passed_on, "--", *words], parent=ctx.parent) as parsed:
        launch_options = parsed.params
    if launch_options["name"] is None:
        raise click.UsageError("Missing option '--tool'.", ctx)
    options, to_run = apart(words)
    tool = tool_named(launch_options["name"])
    tool.check(
        Request(
            Path("rank"),
            delay_s=launch_options["delay"],
            duration_s=launch_options["duration"],
            set_name=launch_options["set_name"],
            kernels=(launch_options["earlier"],) if launch_options["earlier"] else (),
            metrics=launch_options["metrics"],
        )
    )
    cluster = find_preset(preset or scheduler)
    if cluster.scheduler != scheduler:
        raise UsageError(
            f"the preset {preset} is for {cluster.scheduler}, not for {scheduler}",
            hint=f"for {scheduler} there are: {', '.join(preset_names(scheduler))}",
            slug="job-preset",
        )
    job = Job(
        tool=tool.name,
        launch=passed_on,
        command=(*options, "--", *to_run) if options else to_run,
        finalize=tool.finalize is not None,
        made_by=("stepscope", *sys.argv[1:]),
        **{key: value for key, value in given.items() if key in Job.__slots__},
    )
    script = jobscript(cluster, job)
    _write(script, output, force=force)
    for option, value in not_given(cluster, job).items():
        print_err(f"no --{option} was given: {SCHEDULERS[scheduler]} will refuse {value}")


def _passed_on(given: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for option in _LAUNCH:
        value = given[option.name or ""]
        if value:
            words += [option.opts[-1], *([] if option.is_flag else [value])]
    return words


def _write(script: str, output: Path | None, *, force: bool) -> None:
    if output is None:
        print_out(script)
        return
    if output.is_file() and descriptor_of(output) is None and not force:
        raise UsageError(f"{output} exists", hint="name another file, or give --force", slug="file-exists")
    with complete_output(output) as unfinished:
        unfinished.write_bytes(script.encode("utf-8", "surrogateescape"))
