"""`stepscope trigger`: makes a running job record a trace of a few steps."""

from __future__ import annotations

from pathlib import Path

import click

from stepscope.base.errors import StepScopeError
from stepscope.cli.choices import recorded_ranks_option, seconds_option
from stepscope.cli.terminal.printing import print_err, print_out

ERRORS = {
    "not-recorded": (
        "Not every rank recorded the steps that `stepscope trigger` ordered; the message says "
        "why. A rank that was already past the step needs a longer `--lead`. Files that were "
        "written are listed."
    )
}


@click.command(name="trigger", short_help="Makes a running job record a trace.")
@click.argument("job_dir", type=click.Path(path_type=Path))
@click.option("--steps", type=click.IntRange(1, 100), default=5, show_default=True, help="Steps to record.")
@click.option(
    "--at",
    type=click.IntRange(min=1),
    metavar="STEP",
    help="First recorded step (default: one that all ranks reach a few seconds from now).",
)
@recorded_ranks_option("Ranks that record")
@click.option("--memory", is_flag=True, help="Include memory allocations.")
@click.option("--stack", is_flag=True, help="Include call stacks: a larger trace, slower steps.")
@seconds_option(
    "--lead", 3.0, "How long the request may take to reach the slowest rank; use more on a slow file system."
)
@seconds_option("--timeout", 60.0, "How long the ranks have to answer.")
@seconds_option("--wait", 600.0, "How long to wait for the files; 0 to leave at once.")
def command(
    job_dir: Path,
    steps: int,
    at: int | None,
    ranks: str | None,
    memory: bool,
    stack: bool,
    lead: float,
    timeout: float,
    wait: float,
) -> None:
    """Makes a running job record a trace of a few steps, the same on all ranks.

    JOB_DIR is the directory that was given to `stepscope record --on-demand` or `stepscope.on_demand` in the
    job. Prints the files that were written. Exit code 1 if a rank did not answer, or did not record.
    """
    from stepscope.record.on_demand.request import new_request
    from stepscope.record.on_demand.trigger import agree, wait_until_done

    request = new_request(steps=steps, at_step=at, ranks=ranks, memory=memory, stack=stack)
    order = agree(job_dir, request, lead_seconds=lead, timeout_seconds=timeout)
    print_err(f"recording {steps} step{'s'[: steps != 1]} from step {order.at_step}")
    if wait == 0:
        return
    answers = wait_until_done(job_dir, order, timeout_seconds=wait)
    for answer in answers:
        for file in answer.files:
            print_out(f"{file}\n")
    if not answers:
        raise StepScopeError(
            f"no rank has reported within {wait:g} s that it recorded step {order.at_step}",
            hint="give a longer --wait; the files appear in the job's directory all the same",
            slug="not-recorded",
        )
    size = max(answer.world_size for answer in answers)
    missed = [f"rank {rank} did not report" for rank in sorted({*range(size)} - {answer.rank for answer in answers})]
    missed += [
        f"rank {answer.rank} {answer.state}{f' ({answer.why})' if answer.why else ''}"
        for answer in answers
        if answer.state not in ("written", "not-chosen")
    ]
    if missed:
        hint = "a longer --lead gives slow file systems more time; --wait waits longer for files"
        if any(answer.state == "ended" for answer in answers):
            hint = "the job was over first: ask earlier, or for fewer steps"
        raise StepScopeError(
            f"not every rank recorded step {order.at_step}: {'; '.join(missed[:4])}"
            + (f"; and {len(missed) - 4} more" if len(missed) > 4 else ""),
            hint=hint,
            slug="not-recorded",
        )
