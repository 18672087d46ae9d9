"""`stepscope record`: runs an unmodified script, records it, and shows the recording."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.base.captured_steps import SIGNALS, parse_steps
from stepscope.base.errors import UsageError
from stepscope.base.folders import from_anywhere
from stepscope.base.units import parse_time
from stepscope.cli.choices import out_option, recorded_ranks_option
from stepscope.cli.script.end import Interrupted
from stepscope.record.plan import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.record.on_demand.listener import OnDemand
    from stepscope.record.plan import Plan
    from stepscope.record.recording import Recording
    from stepscope.record.traces.tracing import Tracer

ERRORS = {
    "two-ways-to-record": (
        "Without an option a run records the phases of every step and a trace of a few. `--phases`, "
        "`--inline` (which includes phases), `--trace` and `--on-demand` select; one that measures every step "
        "can be combined with one that traces. `--trace` and `--on-demand` cannot be combined. `--capture` "
        "and `--nvtx` let another profiler record, and cannot be combined with any of them; `--sample` only "
        "with `--phases`. Options such as `--active` and `--stack` are for traces; with `--on-demand` give "
        "them to `stepscope trigger`. `--capture` needs `--steps`, which is only for `--capture` and "
        "`--nvtx`. `--for` and `--iterations` are for `--inline`, and `--for` takes a time: `90s`, `10m`, "
        "`2h`."
    )
}


@click.command(
    name="record",
    short_help="Runs a script and records its phases and a trace.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("script", metavar="-- SCRIPT [ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--inline",
    "plan",
    metavar="PLAN",
    is_flag=False,
    flag_value=AUTO,
    help="Measure the events of this plan, one per iteration, and the phases of every step. Without PLAN, "
    "measure what the script runs, the longest first, round after round.",
)
@click.option(
    "--for",
    "seconds",
    metavar="TIME",
    help="With --inline: fit the measurements into this time (90s, 10m, 2h), and then measure only phases.",
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
    help="Let the profiler around this command record --steps, using this signal.",
)
@click.option(
    "--nvtx",
    is_flag=True,
    help="Write NVTX ranges of steps, phases, modules and operators, for the profiler around this command.",
)
@click.option("--steps", metavar="STEPS", help="Steps to capture, or with ranges: 100 or 100-102.")
@out_option("Folder for the files")
@click.option("--name", metavar="TEXT", help="Name of the trace (default: the script's name).")
@click.option("--wait", type=click.IntRange(0), help="Steps to wait before the trace (default 1).")
@click.option("--warmup", type=click.IntRange(0), help="Warm-up steps before the trace (default 1).")
@click.option("--active", type=click.IntRange(1), help="Steps to trace (default 5).")
@click.option("--repeat", type=click.IntRange(1), help="Record this many traces, one after another (default 1).")
@recorded_ranks_option("Trace only these ranks")
@click.option("--stack", is_flag=True, default=None, help="Include call stacks: a larger trace, slower steps.")
@click.option("--memory", is_flag=True, default=None, help="Include memory allocations.")
@click.option(
    "--snapshot",
    is_flag=True,
    default=None,
    help="Also save the CUDA allocator's history, and again if memory runs out.",
)
@click.option(
    "--max-mb", type=click.IntRange(1), help="Stop recording when the trace reaches this many MiB (default 2048)."
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
    """Runs a script as `python SCRIPT ARGS` would, records it, and then shows what was recorded.

    Without options it measures the phases of every step and traces a few steps, which are left out of the
    phases' means. --phases and --inline can be combined with --trace and --on-demand.

    `-- -m MODULE ARGS` runs a module. Under torchrun, mpiexec or srun each process records itself
    and writes its own files; rank 0 shows the result. Iterations are found from the optimizer's step, the
    model from the outermost module called, batches from the DataLoader. The exit code is the
    script's own.
    """
    interrupted = Interrupted()
    from stepscope.cli.script.files import RecordedFiles
    from stepscope.cli.script.recorded import RecordedScript
    from stepscope.record.sampling import Sampling

    given = {name: value for name, value in options.items() if value is not None}
    chosen = _ways(
        {
            "inline": plan is not None,
            "phases": phases,
            "trace": trace,
            "on-demand": on_demand is not None,
            "capture" if capture or not nvtx else "nvtx": capture is not None or nvtx,
        },
        given,
        sample=sample,
    )
    captures = _captures(capture, steps, given, nvtx=nvtx)
    module = script[:1] == ("-m",)
    command_line = script[1:] if module else script
    out = from_anywhere(out)
    tracer = None
    if chosen & set(_SOME_STEPS):
        if command_line:
            # A trace has the name of the script or module.
            target = command_line[0]
            given.setdefault("name", target.rpartition(".")[2] if module else Path(target).stem)
        tracer = _tracer(out, on_demand, given)
    read = _plan(plan, seconds, iterations, given_script=bool(script))

    def reports() -> bool:
        # If nobody asked for a trace on demand, that is not a failure.
        return (
            not no_summary and captures is None and (on_demand is None or (tracer is not None and bool(tracer.written)))
        )

    code = RecordedScript(
        command_line,
        module,
        _recording(chosen, out, read, tracer, captures),
        Sampling(out, host="phases" not in chosen) if sample else None,
        RecordedFiles(out, tracer),
        reports,
    ).run(interrupted)
    if code:
        raise click.exceptions.Exit(code)


def _refused(message: str, hint: str) -> UsageError:
    return UsageError(message, hint=hint, slug="two-ways-to-record")


def _ways(requested: dict[str, bool], given: dict[str, Any], *, sample: bool) -> set[str]:
    """The ways to record, named like their options; empty if only samples were requested."""
    chosen = {way for way, is_requested in requested.items() if is_requested}
    if not chosen and not sample:
        chosen = {"phases", "trace"}
    # Samples of a profiler's own work would not describe the script.
    if sample and (others := chosen - {"phases"}):
        raise _refused(
            f"--sample and --{min(others)} cannot be combined", "sample in a run of its own, or with --phases"
        )
    _check_ways(chosen, given)
    return chosen


def _recording(
    chosen: set[str],
    out: Path,
    plan: Plan | None,
    tracer: Tracer | OnDemand | None,
    captures: Callable[[], Recording] | None,
) -> Callable[[], Recording] | None:
    """Returns a function that records the script once it has imported torch; None if nothing records inside it."""
    from stepscope.record import inline
    from stepscope.record.combined_recording import CombinedRecording

    def record() -> Recording:
        if captures is not None:
            return inline.offer(captures())
        if tracer is not None and not chosen & set(_EVERY_STEP):
            return inline.offer(tracer)
        session = inline.new_session(plan, out=out)
        return session if tracer is None else inline.offer(CombinedRecording(session, tracer))

    return record if chosen else None


def _plan(plan: str | None, seconds: str | None, iterations: int | None, *, given_script: bool) -> Plan | None:
    """The plan of --inline, fitted into the available time or iterations; None if no events are measured."""
    from dataclasses import replace

    from stepscope.record.plan import as_plan

    if plan is None:
        if seconds or iterations:
            raise _refused(
                f"--{'for' if seconds else 'iterations'} needs --inline", "write for example --inline --for 10m"
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
_TAKEN_ALONE = {"on-demand": {"name", "start_step"}, "capture": {"start_step"}, "nvtx": {"start_step"}}
"""Options of traces that other ways to record take; traces take all."""


def _check_ways(chosen: set[str], given: dict[str, Any]) -> None:
    """Refuses options that cannot be combined."""
    others = chosen.difference(_EVERY_STEP, _SOME_STEPS)
    if chosen >= set(_SOME_STEPS) or (others and len(chosen) > 1):
        first, second, *_ = sorted(chosen.intersection(_SOME_STEPS) if not others else chosen)
        raise _refused(
            f"--{first} and --{second} cannot be combined",
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
    """Makes the recording that controls another profiler; None if none was requested."""
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
