"""`stepscope record`: runs an unmodified script, recorded, and shows what was recorded."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli.all_ranks import of_one_rank, soon_read, wrote_phases
from stepscope.cli.choices import out_option, recorded_ranks_option, typed_sources
from stepscope.cli.recorded_notes import TRACE, has_no_step, note_others, note_unfinished
from stepscope.cli.say import put, say
from stepscope.cli.script_end import Interrupted, exit_code, show_traceback
from stepscope.cli.streams import as_python_has_them, reporting
from stepscope.cli.typed_name import typed_name
from stepscope.floor.captured_steps import SIGNALS, parse_steps
from stepscope.floor.errors import StepScopeError, UsageError
from stepscope.floor.plugins import stay_out
from stepscope.floor.ranks import this_process
from stepscope.floor.units import parse_time
from stepscope.record.job.at_term import AtTerm
from stepscope.record.plan import OWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.record.on_demand.listener import OnDemand
    from stepscope.record.plan import Plan
    from stepscope.record.recording import Recording
    from stepscope.record.traces.tracing import Tracer

_CAPTURE = re.compile(r"\.capture\d+-\d+-of-\d+\.json\.gz$")

ERRORS = {
    "two-ways-to-record": (
        "Without an option a run records the phases of every step and a trace of a few. `--phases`, `--inline`, "
        "which has phases too, `--trace` and `--on-demand` choose; one that measures every step goes "
        "with one that traces. `--trace` and `--on-demand` are two schedules for the same traces. "
        "`--capture` and `--nvtx` have another profiler record, and go with none of them; `--sample` goes with "
        "`--phases` alone. Options such as `--active` "
        "and `--stack` are for traces; with `--on-demand` they are given to `stepscope trigger`. `--capture` needs "
        "`--steps`, and `--steps` is for it and for `--nvtx` alone. `--for` and `--iterations` are for `--inline`, and "
        "`--for` is a time: `90s`, `10m`, `2h`."
    ),
}


@click.command(
    name="record",
    short_help="Runs a script, recorded: the phases of every step and a trace of a few.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("script", metavar="-- SCRIPT [ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--inline",
    "plan",
    metavar="PLAN",
    is_flag=False,
    flag_value=OWN,
    help="Measure this plan's events, one per iteration, and the phases of every step; without PLAN what "
    "the script turns out to run, the heaviest first, round after round.",
)
@click.option(
    "--for",
    "seconds",
    metavar="TIME",
    help="With --inline: fit the measurements into this time (90s, 10m, 2h), and then leave the script alone.",
)
@click.option(
    "--iterations",
    type=click.IntRange(1),
    help="With --inline: fit the measurements into this many iterations of the script.",
)
@click.option("--phases", is_flag=True, help="Measure the phases of every step, and trace nothing.")
@click.option("--trace", is_flag=True, help="Record a trace of a few steps, and no phases.")
@click.option(
    "--sample",
    is_flag=True,
    help="Sample the call stacks of the script, Python and native, with py-spy; alone or with --phases.",
)
@click.option(
    "--on-demand",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Record traces when `stepscope trigger DIR` asks for them.",
)
@click.option(
    "--capture",
    metavar=f"[{'|'.join(SIGNALS)}]",
    type=click.Choice(SIGNALS),
    help="Have the profiler that this runs under record --steps, by this signal to it.",
)
@click.option(
    "--nvtx",
    is_flag=True,
    help="Write NVTX ranges of steps, phases, modules and operators, for the profiler that this runs under.",
)
@click.option("--steps", metavar="STEPS", help="Steps to capture, or with ranges: 100 or 100-102.")
@out_option("Folder for the files")
@click.option("--name", metavar="TEXT", help="Name of the trace (default: the script's name).")
@click.option("--wait", type=click.IntRange(0), help="Steps to wait before the trace (default 1).")
@click.option("--warmup", type=click.IntRange(0), help="Warm-up steps before the trace (default 1).")
@click.option("--active", type=click.IntRange(1), help="Steps to trace (default 5).")
@click.option(
    "--repeat",
    type=click.IntRange(1),
    help="Record this many traces, one after another (default 1).",
)
@recorded_ranks_option("Trace only these ranks")
@click.option("--stack", is_flag=True, default=None, help="Include call stacks: a larger trace, slower steps.")
@click.option("--memory", is_flag=True, default=None, help="Include memory allocations.")
@click.option(
    "--snapshot",
    is_flag=True,
    default=None,
    help="Also save the CUDA allocator's history, and again where memory runs out.",
)
@click.option(
    "--max-mb",
    type=click.IntRange(1),
    help="Stop recording when the trace reaches this many MiB (default 2048).",
)
@click.option("--start-step", type=click.IntRange(0), help="Number of the first step, for a resumed run.")
@click.option("--no-summary", is_flag=True, help="Do not show what was recorded.")
def command(
    script: tuple[str, ...],
    plan: str | None,
    seconds: str | None,
    iterations: int | None,
    phases: bool,
    trace: bool,
    sample: bool,
    on_demand: Path | None,
    capture: str | None,
    nvtx: bool,
    steps: str | None,
    out: Path,
    no_summary: bool,
    **options: Any,
) -> None:
    """Runs a script as `python SCRIPT ARGS` would, recorded, and then shows what was recorded.

    Without an option the phases of every step are measured, and a few steps are traced; the traced
    ones stay out of the phases' means. --phases or --inline and --trace or --on-demand go together too.

    `-- -m MODULE ARGS` runs a module. Under torchrun, mpiexec or srun each process records itself
    and writes files of its own; rank 0 shows the result. Iterations are found from the optimizer's step, the
    model from the outermost module called, batches from the DataLoader. The exit code is the
    script's own.
    """
    interrupted = Interrupted()
    from stepscope.record import inline
    from stepscope.record.recording import SCRIPTS_OWN
    from stepscope.record.script import run
    from stepscope.record.together import Together

    given = {name: value for name, value in options.items() if value is not None}
    ways = {
        "inline": plan is not None,
        "phases": phases,
        "trace": trace,
        "on-demand": on_demand is not None,
        "capture" if capture or not nvtx else "nvtx": capture is not None or nvtx,
    }
    chosen = {way for way, asked in ways.items() if asked}
    if not chosen and not sample:
        chosen = {"phases", "trace"}
    if sample:
        _check_sampled(chosen)
    _check_ways(chosen, given)
    captures = _captures(capture, steps, given, nvtx=nvtx)
    command_line = list(script)
    module = command_line[:1] == ["-m"]
    if module:
        del command_line[0]
    # The script may change its directory.
    out = out.absolute()
    tracer: Tracer | OnDemand | None = None
    if chosen & {"trace", "on-demand"}:
        if command_line:
            given.setdefault("name", _name(command_line[0], module=module))
        tracer = _tracer(out, on_demand, given)
    read = _plan(plan, seconds, iterations, given_script=bool(script))

    def record() -> Recording:
        if captures is not None:
            return inline.offer(captures())
        if tracer is not None and not chosen & {"inline", "phases"}:
            return inline.offer(tracer)
        session = inline.begin(read, out=out)
        return session if tracer is None else inline.offer(Together(session, tracer))

    sampling = None
    if sample:
        from stepscope.record.sampling import Sampling

        sampling = Sampling(out, host="phases" not in chosen)
    started = os.getpid()
    stay_out()
    before = _files(out)
    path = sys.path[:]
    code = 0
    written: list[Path] = []

    def reports() -> bool:
        return (
            not no_summary
            and os.getpid() == started  # a child that the script forked has nothing to say
            and captures is None
            # Nobody may have asked for a trace, which is no failure.
            and (on_demand is None or (tracer is not None and bool(tracer.written)))
        )

    outlived: list[Callable[[], list[Path]]] = []

    def end_late() -> None:
        with reporting():
            outlived[0]()
            if sampling is not None:
                sampling.stop()
            leaving.cancel()
            if reports():
                _tell_files(out, before, tracer, "The script's threads ended after it.")

    as_python_has_them()
    SCRIPTS_OWN.clear()
    leaving = AtTerm(lambda: _tell_files(out, before, tracer) if reports() else None, reports=True)
    try:
        if sampling is not None:
            sampling.start()
        written = run(
            command_line,
            record if chosen else None,
            module=module,
            stay_main=True,
            outlived=outlived.append,
        )
    except SystemExit as left:
        code = exit_code(left)
    except StepScopeError:
        raise
    except KeyboardInterrupt as error:
        show_traceback(error)
        code = Interrupted.CODE
        interrupted.end_so()
    except BaseException as error:
        show_traceback(error)
        code = 1
    finally:
        if outlived:
            # Python waits for the script's threads, which may train, and then calls exit handlers.
            atexit.register(end_late)
        else:
            leaving.cancel()
    if outlived:
        raise click.exceptions.Exit(code)
    if sampling is not None:
        written += sampling.stop()
    if reports():
        scripts, sys.path[:] = sys.path[:], path
        with reporting():
            _tell(out, before, written, tracer)
            if sampling is not None and sampling.why_not is not None and this_process().rank == 0:
                say(f"note: no stacks, or not all, were sampled: {sampling.why_not}")
        sys.path[:] = scripts
    if code:
        raise click.exceptions.Exit(code)


def _refused(message: str, hint: str) -> UsageError:
    return UsageError(message, hint=hint, slug="two-ways-to-record")


def _check_sampled(chosen: set[str]) -> None:
    """Refuses ways to record beside samples but phases: what samples see of a profiler is not the script."""
    if others := chosen - {"phases"}:
        raise _refused(
            f"--sample and --{min(others)} cannot be combined",
            "sample in a run of its own, or with --phases",
        )


def _plan(plan: str | None, seconds: str | None, iterations: int | None, *, given_script: bool) -> Plan | None:
    """The plan of --inline, fitted into what there is to measure in; None where events are not measured."""
    from dataclasses import replace

    from stepscope.record.plan import as_plan

    if plan is None:
        if seconds or iterations:
            raise _refused(
                f"--{'for' if seconds else 'iterations'} needs --inline",
                "write for example --inline --for 10m",
            )
        return None
    if not given_script and plan.endswith(".py"):
        raise UsageError(f"{plan} was taken for the plan", hint=f"write --inline -- {plan}", slug="no-script")
    read = as_plan(plan)
    if not seconds and not iterations:
        return read
    try:
        measured = None if seconds is None else parse_time(seconds) / 1e9
    except ValueError:
        measured = -1
    if measured is not None and measured <= 0:
        raise _refused(f"--for {seconds} is not a time", "write 90s, 10m or 2h")
    return replace(read, mode="in_rounds", measured_seconds=measured, measured_iterations=iterations)


_EVERY_STEP = ("inline", "phases")
_SOME_STEPS = ("trace", "on-demand")
_TAKEN_ALONE = {
    "on-demand": {"name", "start_step"},
    "capture": {"start_step"},
    "nvtx": {"start_step"},
}
"""Options of traces that another way to record takes; a trace takes all."""


def _check_ways(chosen: set[str], given: dict[str, Any]) -> None:
    """Refuses options that do not go together.

    Args:
        chosen: the ways to record, as their options are called.
        given: the options of traces that were given.
    """
    others = chosen.difference(_EVERY_STEP, _SOME_STEPS)
    if chosen >= set(_SOME_STEPS) or (others and len(chosen) > 1):
        one, other, *_ = sorted(chosen.intersection(_SOME_STEPS) if not others else chosen)
        raise _refused(
            f"--{one} and --{other} cannot be combined",
            "leave one of them out; without any, phases and a trace are recorded",
        )
    if "trace" in chosen:
        return
    taken = {option for way in chosen for option in _TAKEN_ALONE.get(way, ())}
    refused = given.keys() - taken
    if refused:
        way = min(chosen & _TAKEN_ALONE.keys() or chosen)
        instead = {"on-demand": "give it to stepscope trigger, when you ask for a trace"}
        raise _refused(
            f"--{min(refused).replace('_', '-')} cannot be given with --{way}",
            instead.get(way, "leave it out, or add --trace"),
        )


def _captures(
    capture: str | None, steps: str | None, given: dict[str, Any], *, nvtx: bool
) -> Callable[[], Recording] | None:
    """Makes the recording that has another profiler record; None where none is asked for."""
    missing = "steps" if capture and not steps else "capture" if steps and not (capture or nvtx) else None
    if missing:
        raise _refused(
            f"--{'capture' if missing == 'steps' else 'steps'} needs --{missing}",
            "write for example --capture cuda-profiler --steps 100-102",
        )
    if capture is None and not nvtx:
        return None
    from stepscope.record.capture.signals import signal_called
    from stepscope.record.capture.steps import CapturedSteps

    chosen = None if steps is None else parse_steps(steps)
    signal = None if capture is None else signal_called(capture)
    return partial(CapturedSteps, chosen, signal, nvtx=nvtx, **given)


def _tracer(out: Path, on_demand: Path | None, given: dict[str, Any]) -> Tracer | OnDemand:
    from stepscope.record.on_demand.listener import OnDemand
    from stepscope.record.traces.profiling import quieten_profiler
    from stepscope.record.traces.tracing import Tracer

    quieten_profiler()
    if on_demand is not None:
        return OnDemand(on_demand, out=out, **given)
    given["memory_snapshot"] = given.pop("snapshot", False)
    return Tracer(out, **given)


def _name(target: str, *, module: bool) -> str:
    """What a trace of this is called: the script's or the module's name."""
    return target.rpartition(".")[2] if module else Path(target).stem


def _files(out: Path) -> dict[Path, int]:
    """The recordings in a folder, and when each was written; none where it cannot be read."""
    found = {}
    with contextlib.suppress(OSError):
        for path in out.iterdir():
            if path.name.endswith((".json", ".json.gz")) and not path.name.startswith("."):
                # Another rank, or a clean-up, may take it away meanwhile.
                with contextlib.suppress(OSError):
                    found[path] = path.stat().st_mtime_ns
    return found


def _tell(
    out: Path,
    before: dict[Path, int],
    written: list[Path],
    tracer: Tracer | OnDemand | None,
) -> None:
    """What this run has written, and what is in it."""
    sys.stdout.flush()
    new = _wrote(out, before, written, tracer)
    if not new:
        return
    process = this_process()
    note_others(before, new, process.world_size)
    phases = any(path.name.endswith(".phases.json") for path in new)
    of_all = phases and wrote_phases(lambda: _files(out), before, process.world_size)
    captures = [path for path in new if _CAPTURE.search(path.name)]
    traced = [path for path in new if TRACE.fullmatch(path.name) and path not in captures]
    alone = set(_files(new[0].parent)) == set(new)  # nothing lies there from before
    together = of_all and traced and soon_read(_files(out))
    shown = _show("summary", [out]) if together else False
    for path in new:
        if together and not path.name.endswith((".prof.json", ".speedscope.json")):
            continue
        if path.name.endswith(".phases.json"):
            # Beside the trace, in its summary, unless other ranks have phases too.
            if of_all or not traced:
                shown |= _show("phases", [out if of_all else path], one_rank=of_all)
        elif path in traced:
            beside = [] if of_all else [one for one in new if one.name.endswith(".phases.json")]
            sources = [path, *captures, *beside]
            folder = [path.parent] if alone and len(traced) == 1 else sources
            shown |= _show("summary", sources, typed=folder)
        elif path.name.endswith(".prof.json"):
            # With the phases beside it, which know what all steps took: one mean, and one throughput.
            beside = [one for one in new if one.name.endswith(".phases.json")]
            shown |= _show("inline", [path, *beside])
        elif path.name.endswith(".speedscope.json"):
            shown |= _show("hotspots", [path])
        if path.name.endswith(".prof.json"):
            note_unfinished(path)
    if not shown:
        return
    name = typed_name()
    say(f"Ask more of it: {name} --help, then {name} QUESTION {_where(new, alone=process.world_size == 1)}")


def _where(new: list[Path], *, alone: bool = True) -> str:
    """The files of a run as a command takes them: one file of one rank, or the folders that they are in. A folder that
    is full, or cannot be written, has some of them, or none.
    """
    places = new if len(new) == 1 and alone else dict.fromkeys(path.parent for path in new)
    return typed_sources([str(place) for place in places])


def _tell_files(
    out: Path,
    before: dict[Path, int],
    tracer: Tracer | OnDemand | None,
    why: str = "The script left past Python's exit (os._exit or SIGTERM).",
) -> None:
    """What a run has written that ends too late to show what is in it."""
    new = _wrote(out, before, [], tracer)
    if not new:
        return
    if all(map(has_no_step, new)):
        say(f"{why} No step was counted yet: the first ones do not count.")
    else:
        say(f"{why} Ask: {typed_name()} summary {_where(new)}")


def _wrote(out: Path, before: dict[Path, int], written: list[Path], tracer: Tracer | OnDemand | None) -> list[Path]:
    """Names what this run has written; under a launcher rank 0 alone reports, and only its own files."""
    from stepscope.record.recording import SCRIPTS_OWN

    process = this_process()
    if process.rank != 0:
        return []
    mine = (f".{process.rank}.prof.json", f".{process.rank}.phases.json")
    # What a script that exits early has written can only be seen in its folder.
    new = sorted(
        set(written)
        | {
            path
            for path, when in _files(out).items()
            if before.get(path) != when
            and (path.name.endswith(mine) or f"-{process.rank}-of-{process.world_size}." in path.name)
        }
    )
    own = [str(folder) for folder in dict.fromkeys(SCRIPTS_OWN) if folder != out and folder.is_dir()]
    if own:
        also = "also " if new else ""
        say(f"note: the script {also}recorded by itself, into {', '.join(own)}")
    # A tracer that has started warns by itself of what it did not record.
    elif not new and (tracer is None or "torch" not in sys.modules):
        say(_nothing())
    for path in new:
        instead = ", in place of an earlier one" if path in before else ""
        say(f"wrote {path}{instead}")
    return new


def _nothing() -> str:
    if "torch" not in sys.modules:
        return "stepscope: nothing was recorded: the script did not import torch in this process"
    return (
        "stepscope: nothing was recorded; the script may have ended before the first steps were "
        "over, has no optimizer that steps (`with stepscope.inline.iteration():` says where a step is), or trains in "
        "processes that it starts itself (torchrun --no-python stepscope record ... records each)"
    )


def _show(
    question: str,
    sources: list[Path],
    *,
    typed: list[Path] | None = None,
    one_rank: bool = False,
) -> bool:
    """Shows what some files have; whether it could.

    Args:
        typed: what has the same in it, for command lines; None for the files.
        one_rank: in as few rows as of one rank, of a folder of several.
    """
    from stepscope.api.trace import open_trace
    from stepscope.cli.output import put_answer
    from stepscope.report.text import MOST_ROWS

    try:
        with open_trace(*sources) as trace:
            put("\n")
            answer = trace.ask(question)
            put_answer(
                of_one_rank(answer) if one_rank else answer,
                most=MOST_ROWS,
                source=typed_sources([str(source) for source in typed or sources]),
            )
    except StepScopeError as error:
        # The job has done its work: that we cannot show it is no failure of the job.
        hint = f"\n  {error.hint}" if error.hint else ""
        say(f"stepscope: {error.message}{hint}")
        return False
    except Exception as error:
        if isinstance(error, BrokenPipeError):
            raise
        say(f"stepscope: {sources[0]} cannot be shown: {type(error).__name__}: {error}")
        return False
    return True
