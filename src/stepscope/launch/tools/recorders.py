"""StepScope's own recording: the command's script runs under `stepscope record` on the chosen ranks."""

from __future__ import annotations

from stepscope.launch.tool import Request, Tool

_FIRST = 2  # the first step that can be recorded: the first starts the script, and the second finds the loop


def _torch(request: Request) -> list[str]:
    if request.steps is None:
        return ["--trace"]
    first, last = request.steps.first, request.steps.last
    if first < _FIRST:
        raise TORCH.refusal(f"records from step {_FIRST} on", "a script's loop is found in the steps before")
    warmup = min(first - _FIRST, 1)
    # The step that contains the start of the script precedes those that `--wait` counts.
    schedule = {"wait": first - warmup - 1, "warmup": warmup, "active": last - first + 1}
    return ["--trace", *(f"--{name}={steps}" for name, steps in schedule.items())]


def _phases(request: Request) -> list[str]:
    _without_steps(PHASES, request)
    return ["--phases"]


def _inline(request: Request) -> list[str]:
    _without_steps(INLINE, request)
    return ["--inline" if request.set_name is None else f"--inline={request.set_name}"]


def _without_steps(tool: Tool, request: Request) -> None:
    if request.steps is not None:
        raise tool.refusal("measures every step", "leave --steps out")


TORCH = Tool(
    name="torch",
    about="stepscope record: a trace of torch.profiler of a few steps",
    way="record",
    arguments=_torch,
    reads="kineto",
)
PHASES = Tool(
    name="phases", about="stepscope record: the phases of every step", way="record", arguments=_phases, reads="inline"
)
INLINE = Tool(
    name="inline",
    about="stepscope record: one event per iteration, of a plan (--set PLAN) or its own",
    way="record",
    arguments=_inline,
    sets=("PLAN",),
    reads="inline",
)
