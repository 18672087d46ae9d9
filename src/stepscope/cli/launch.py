"""`stepscope launch`: runs a command under a profiler on some ranks of a job."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from stepscope.base.captured_steps import SIGNALS, StepRange, parse_steps
from stepscope.base.chosen_ranks import may_be_chosen
from stepscope.base.errors import StepScopeError, UsageError
from stepscope.base.folders import from_anywhere
from stepscope.base.ranks import process_from
from stepscope.cli.choices import (
    Seconds,
    out_option,
    recorded_ranks_option,
    seconds_option,
    tool_option,
    top_option,
    typed_sources,
)
from stepscope.cli.terminal.invoked_as import invoked_as
from stepscope.cli.terminal.printing import print_err, print_out
from stepscope.cli.terminal.streams import reporting
from stepscope.launch.exec_command import exec_command, warn
from stepscope.launch.finish import raw_results
from stepscope.launch.preflight import executable_of
from stepscope.launch.run import LONGEST_END_S, Launched, LaunchOptions, about_process, dry_line, launch
from stepscope.launch.supervise import end_as
from stepscope.launch.tool import Request
from stepscope.launch.tools import tool_named

ERRORS = {"no-command": "There is nothing to run: put the command last, after `--`."}


def _steps(_ctx: click.Context, _param: click.Parameter, text: str | None) -> StepRange | None:
    return None if text is None else parse_steps(text)


def _names(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(name for name in (text or "").replace(",", " ").split())


@click.command(
    name="launch",
    short_help="Runs a command under another profiler, on some ranks of a job.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("words", metavar="-- [TOOL OPTIONS --] COMMAND...", nargs=-1, type=click.UNPROCESSED)
@tool_option("name", "The profiler")
@recorded_ranks_option("Profile only these ranks")
@out_option("Folder for the files")
@click.option("--set", "set_name", metavar="SET", help="What to record: one of the tool's sets.")
@click.option(
    "--metrics",
    metavar="LIST",
    callback=_names,
    help="Record these metrics of kernels, by nvprof's or ncu's names: ipc,dram__bytes_read.sum (ncu, nvprof).",
)
@click.option(
    "--kernels-from",
    "earlier",
    metavar="SRC",
    help="Record only the kernels with the most device time in this recording (ncu).",
)
@top_option(3, "With --kernels-from: the number of kernels")
@click.option("--steps", metavar="A-B", callback=_steps, help="Record only these steps of a Python script.")
@click.option(
    "--capture",
    type=click.Choice(["auto", *SIGNALS]),
    help="The signal with which --steps, or stepscope.capture() in COMMAND, starts and stops the profiler.",
)
@click.option("--nvtx", is_flag=True, help="Mark steps, modules and operators as NVTX ranges.")
@click.option("--delay", type=Seconds(min=0), metavar="SECONDS", help="Start recording this long after the command.")
@click.option("--duration", type=Seconds(min=0, min_open=True), metavar="SECONDS", help="Record for this long.")
@seconds_option("--wait", LONGEST_END_S, "Time that the profiler may take to write its files after COMMAND has ended.")
@click.option("--stats", is_flag=True, help="Show what took the time, on the lowest of the ranks.")
@click.option("--dry-run", is_flag=True, help="Print what this process would run, and run nothing.")
@click.option("--print-rank", is_flag=True, help="Print which process this is and whether it is profiled.")
@click.option(
    "--query-metrics",
    is_flag=True,
    help="Let the tool list the metrics that it can record; options of the tool follow --.",
)
@click.option(
    "--finalize",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Finish the raw results in this folder (vtune), for example on a login node, and run nothing else.",
)
def command(
    words: tuple[str, ...],
    name: str | None,
    ranks: str | None,
    out: Path,
    set_name: str | None,
    metrics: tuple[str, ...],
    earlier: str | None,
    top: int,
    steps: StepRange | None,
    capture: str | None,
    nvtx: bool,
    delay: float | None,
    duration: float | None,
    wait: float,
    stats: bool,
    dry_run: bool,
    print_rank: bool,
    query_metrics: bool,
    finalize: Path | None,
) -> None:
    """Runs COMMAND under a profiler on the ranks that --ranks chooses. On the other ranks it becomes COMMAND.

    Put it between the job's launcher and the program: mpiexec -n 8 stepscope launch --tool nsys --ranks
    local:0 -- python train.py. Put options of the profiler itself between two --. The exit code is the
    command's own.
    """
    if finalize is not None:
        for result in raw_results(finalize):
            print_err(shlex.join(result.words))
            result.finish()
        return
    if name is None:
        raise click.UsageError("Missing option '--tool'.")
    tool = tool_named(name)
    if query_metrics:
        if not tool.query_metrics:
            raise tool.refusal("lists no metrics", "ask ncu, nvprof or rocprofv3")
        exec_command([executable_of(tool), *tool.query_metrics, *words])
    options, to_run = apart(words)
    launch_request = LaunchOptions(
        tool=tool,
        command=to_run,
        wish=Request(
            stem=from_anywhere(out),
            steps=steps,
            capture=capture,
            delay_s=delay,
            duration_s=duration,
            set_name=set_name,
            options=options,
            nvtx=nvtx,
            metrics=metrics,
            # Only the profiled processes look up which ones.
            kernels=() if earlier is None else (earlier,),
        ),
        ranks=ranks,
        longest_end_s=wait,
    )
    # Refused by all processes, before any of them runs.
    launch_request.tool.check(launch_request.request(launch_request.folder / "rank"))
    if earlier is not None and may_be_chosen(ranks, process_from(os.environ)):
        try:
            from stepscope.api.heaviest_kernels import heaviest_kernels

            wish = replace(launch_request.wish, kernels=heaviest_kernels(earlier, top=top))
            launch_request = replace(launch_request, wish=wish)
        except Exception as error:
            if dry_run or print_rank:
                raise
            message, hint = (
                (error.message, error.hint)
                if isinstance(error, StepScopeError)
                else (f"{earlier}: {type(error).__name__}: {error}", "")
            )
            warn(f"the command runs unprofiled: {message}", hint)
            exec_command(to_run)
    if dry_run or print_rank:
        try:
            print_out(f"{dry_line(launch_request) if dry_run else about_process(ranks)}\n")
        except StepScopeError as error:
            raise UsageError(error.message, hint=error.hint, slug=error.slug) from None
        return
    launched = launch(launch_request)
    if launched.speaks and launched.files and not launched.was_terminated:
        with reporting():
            _report(launch_request, launched, stats=stats)
    if code := end_as(launched.status):
        raise click.exceptions.Exit(code)


def _report(launch_request: LaunchOptions, launched: Launched, *, stats: bool) -> None:
    """Printed at the end by the lowest chosen rank: where the files are, and how to read them."""
    print_err(f"stepscope launch: wrote {', '.join(map(str, launched.files))}")
    if not launch_request.tool.reads:
        return
    if stats:
        show(launched.files, launch_request.tool.question)
    print_err(
        f"To read what all ranks wrote: {invoked_as()} {launch_request.tool.question} {shlex.quote(str(launch_request.folder))}"
    )


def show(files: Sequence[Path], question: str) -> None:
    """Shows the first answer from this rank's own files; without a summary, the table of device work."""
    from stepscope.api.trace import open_trace
    from stepscope.cli.terminal.output import print_answer
    from stepscope.report.text import MAX_ROWS

    sources = [str(path) for path in files]
    try:
        with open_trace(*files) as trace:
            print_answer(
                trace.ask("gpu-summary" if question == "summary" else question),
                max_rows=MAX_ROWS,
                source=typed_sources(sources),
            )
    except StepScopeError as error:
        print_err(f"stepscope: {error.message}" + (f"\n  {error.hint}" if error.hint else ""))


def apart(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Splits off the tool's options: `-- OPTIONS -- COMMAND`, or only `-- COMMAND`, which does not start with `-`."""
    if words and words[0].startswith("-"):
        if "--" not in words:
            raise UsageError(
                f"{words[0]} is in the place of the command",
                hint="put options of the tool between two --: "
                f"stepscope launch --tool nsys -- {shlex.join(words)} -- python train.py",
                slug="no-command",
            )
        at = words.index("--")
        options, words = words[:at], words[at + 1 :]
    else:
        options = ()
    if not words or not words[0]:
        raise UsageError(
            "no command was given",
            hint="stepscope launch --tool nsys --ranks local:0 -- python train.py",
            slug="no-command",
        )
    return options, words
