"""`stepscope record`: runs an unmodified script, recorded, and says what was recorded."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from stepscope.errors import StepScopeError, UsageError


@click.command(
    name="record",
    short_help="Runs a script, recorded: a trace of a few steps, or one event per iteration.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("script", metavar="-- SCRIPT [ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--inline",
    "plan",
    metavar="PLAN",
    type=click.Path(dir_okay=False),
    help="Measure this plan's events, one per iteration, and the phases of every step.",
)
@click.option("--phases", is_flag=True, help="Measure the phases of every step alone.")
@click.option("--trace", is_flag=True, help="Record a trace of a few steps, which is the default.")
@click.option(
    "--on-demand",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Record traces when `stepscope trigger DIR` asks for them.",
)
@click.option(
    "-o",
    "--out",
    default="stepscope-out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the files go; stepscope-out by default.",
)
@click.option("--name", metavar="TEXT", help="Of the trace; by default the script's.")
@click.option("--wait", type=click.IntRange(0), help="Steps before a trace; 1 by default.")
@click.option("--warmup", type=click.IntRange(0), help="Steps of warm-up after them; 1 by default.")
@click.option("--active", type=click.IntRange(1), help="Steps to trace; 5 by default.")
@click.option("--repeat", type=click.IntRange(0), help="How many times over; once by default.")
@click.option("--ranks", metavar="RANKS", help='Trace these alone: "0,8", "0-3" or "local:0".')
@click.option("--stack", is_flag=True, default=None, help="Trace with call stacks: large and slow.")
@click.option("--memory", is_flag=True, default=None, help="Trace with allocations.")
@click.option(
    "--snapshot", is_flag=True, default=None, help="Also keep the CUDA allocator's history."
)
@click.option("--max-mb", type=click.IntRange(1), help="Most that a trace may take; 2048.")
@click.option("--start-step", type=click.IntRange(0), help="First step's number, when resumed.")
@click.option("--no-summary", is_flag=True, help="Say nothing of what was recorded.")
def command(
    script: tuple[str, ...],
    plan: str | None,
    phases: bool,
    trace: bool,
    on_demand: Path | None,
    out: Path,
    no_summary: bool,
    **options: Any,
) -> None:
    """Runs a script as `python SCRIPT ARGS` would, recorded, and then says what was recorded.

    `-- -m MODULE ARGS` runs a module. Under torchrun, mpiexec or srun each process records itself
    and writes files of its own; rank 0 tells. Iterations are found from the optimizer's step, the
    model from the outermost module called, batches from the DataLoader. The exit code is the
    script's own.
    """
    from stepscope.record.plan import read_plan
    from stepscope.record.script import run
    from stepscope.record.tracing import Tracer
    from stepscope.record.trigger import OnDemand

    given = {name: value for name, value in options.items() if value is not None}
    if (plan is not None) + phases + trace + (on_demand is not None) > 1:
        raise UsageError(
            "a script is recorded in one way",
            hint="choose one of --inline PLAN, --phases, --trace and --on-demand DIR",
            slug="two-ways-to-record",
        )
    is_trace = plan is None and not phases
    if not is_trace and given:
        flag = next(iter(given)).replace("_", "-")
        raise UsageError(
            f"--{flag} is about traces",
            hint="leave it out, or record a trace: without --inline and --phases",
            slug="two-ways-to-record",
        )
    command_line = list(script)
    said_by_trigger = set(given) - {"name", "start_step"}
    if on_demand is not None and said_by_trigger:
        raise UsageError(
            f"--{min(said_by_trigger).replace('_', '-')} is not known before a trace is asked for",
            hint="say it to stepscope trigger",
            slug="two-ways-to-record",
        )
    module = command_line[:1] == ["-m"]
    if module:
        del command_line[0]
    tracer: Tracer | OnDemand | None = None
    if is_trace:
        if command_line:
            given.setdefault("name", Path(command_line[0]).stem)
        if on_demand is not None:
            tracer = OnDemand(on_demand, out=out, **given)
        else:
            given["memory_snapshot"] = given.pop("snapshot", False)
            tracer = Tracer(out, **given)
    read = read_plan(plan) if plan is not None else None
    before = _files(out)
    code = 0
    written: list[Path] = []
    try:
        written = run(command_line, module=module, plan=read, tracer=tracer, out=out)
    except SystemExit as left:
        code = _exit_code(left)
    except (StepScopeError, KeyboardInterrupt):
        raise
    except BaseException as error:
        _show(error)
        code = 1
    # Nobody may have asked for a trace, which is no failure.
    if on_demand is None or (tracer is not None and tracer.written):
        _tell(out, before, written, no_summary=no_summary)
    if code:
        raise click.exceptions.Exit(code)


def _exit_code(left: SystemExit) -> int:
    if left.code is None:
        return 0
    if isinstance(left.code, int):
        return left.code
    click.echo(str(left.code), err=True)
    return 1


def _show(error: BaseException) -> None:
    """The script's own traceback, as Python would show it: without the frames that run it."""
    ours = (str(Path(__file__).parents[1]), "<frozen runpy>")
    place: TracebackType | None = error.__traceback__
    while place is not None and place.tb_next is not None:
        name = place.tb_frame.f_code.co_filename
        if not name.startswith(ours) and Path(name).name != "runpy.py":
            break
        place = place.tb_next
    traceback.print_exception(type(error), error.with_traceback(place), place)


def _files(out: Path) -> dict[Path, int]:
    """The recordings in a folder, and when each was written."""
    if not out.is_dir():
        return {}
    return {
        path: path.stat().st_mtime_ns
        for path in out.iterdir()
        if path.name.endswith((".prof.json", ".phases.json", ".json.gz", ".json"))
        and not path.name.startswith(".")
    }


def _tell(out: Path, before: dict[Path, int], written: list[Path], *, no_summary: bool) -> None:
    """What this run has written; under a launcher rank 0 speaks for all, of its own files."""
    from stepscope.record.ranks import this_process

    process = this_process()
    if no_summary or process.rank != 0:
        return
    mine = (f".{process.rank}.prof.json", f".{process.rank}.phases.json")
    # What a script that exits early has written is told by its folder alone.
    new = sorted(
        set(written)
        | {
            path
            for path, when in _files(out).items()
            if before.get(path) != when
            and (
                path.name.endswith(mine) or f"-{process.rank}-of-{process.world_size}." in path.name
            )
        }
    )
    sys.stdout.flush()
    if not new:
        click.echo(
            "stepscope: nothing was recorded; the script may have ended before the first steps were "
            "over, or it has no optimizer that steps",
            err=True,
        )
        return
    for path in new:
        click.echo(f"wrote {path}", err=True)
    for path in new:
        if path.name.endswith((".json", ".json.gz")):
            _summarise(path)
    where = new[0] if len(new) == 1 else out
    click.echo(f"Ask more of it: stepscope --help, then stepscope QUESTION {where}", err=True)


def _summarise(path: Path) -> None:
    from stepscope.cli.output import put_answer
    from stepscope.questions.trace import open_trace
    from stepscope.report.text import MOST_ROWS

    kind = path.name.split(".")[-2]
    question = {"prof": "inline", "phases": "phases"}.get(kind, "summary")
    try:
        with open_trace(path) as trace:
            sys.stdout.write("\n")
            answer = trace.ask(question)
            put_answer(answer, most=MOST_ROWS)
            for row in answer.rows() if question == "phases" else ():
                if row["verdict"]:
                    sys.stdout.write(f"Rank {row['rank']}: {row['verdict']}\n")
                    sys.stdout.write(f"  next: {row['next_step'] or '–'}\n")
    except StepScopeError as error:
        # The job has done its work: that we cannot show it is no failure of the job.
        click.echo(f"stepscope: {error.message}", err=True)
