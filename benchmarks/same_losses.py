"""Checks that a recorded job computes the same as alone: every loss and the exit code, in every way to record.

The jobs are short forms of common trainings (`short_jobs.py`). Each prints its losses as hexadecimal numbers, alone and
in each way, and both are compared. `stepscope plan` ends a job when it has seen enough, with exit code 0, or says that
it has seen no iteration, with 1: the losses until then must be the same.

    python benchmarks/same_losses.py [JOB ...] [--way WAY ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.short_jobs import JOB, JOBS

PLAN = 'warmup = 2\nrepetitions = 3\nevents = ["input_wait", "forward", "backward", "optimizer.step"]\n'
RECORD, SURVEY = "record", "plan"
WAYS: dict[str, list[str]] = {
    "default": [RECORD],
    "phases": [RECORD, "--phases"],
    "trace": [RECORD, "--trace", "--stack", "--memory"],
    "inline": [RECORD, "--inline", "PLAN"],
    "inline, no plan": [RECORD, "--inline"],
    "inline and trace": [RECORD, "--inline", "PLAN", "--trace"],
    "on demand": [RECORD, "--on-demand", "OUT/trigger"],
    "sample": [RECORD, "--sample"],
    "nvtx": [RECORD, "--nvtx"],
    "plan": [SURVEY],
}
_UNSEEN = "[no-iterations]"
_PATIENCE_SECONDS = 600
_COMMANDS = {
    "arguments": [
        "-m",
        "benchmarks.short_jobs",
        "--phases",
        "7",
        "-o",
        "there",
        "--trace",
        "--inline",
        "--",
        "a",
        "--nvtx",
        "b",
    ]
}
"""Command lines of jobs that do not run as the file of jobs without arguments."""


def ran(job: str, way: list[str] | None, out: Path) -> tuple[int, list[str], str]:
    """Exit code, losses and further output of a job, alone (None) or recorded."""
    (out / "plan.toml").write_text(PLAN)
    command = [sys.executable]
    if way is not None:
        options = [one.replace("PLAN", str(out / "plan.toml")).replace("OUT", str(out)) for one in way]
        files = [str(out / "found.toml")] if way[0] == SURVEY else [str(out), "--no-summary"]
        command += ["-m", "stepscope", *options, "-o", *files, "--"]
    if job == "ddp":
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                   "--no-python", *command]  # fmt: skip
    jobs = Path(__file__).with_name("short_jobs.py")
    done = subprocess.run(
        [*command, *_COMMANDS.get(job, [str(jobs)])],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        env=os.environ | {"OMP_NUM_THREADS": "1", "STEPSCOPE_PROGRESS": "0", JOB: job},
        cwd=jobs.parents[1],
        check=False,
    )
    # `stepscope plan` reserves stdout for the plan.
    lines = (done.stderr if way is not None and way[0] == SURVEY else done.stdout).splitlines()
    return done.returncode, [one for one in lines if one.startswith("loss ")], done.stderr


def differences(way: list[str], alone: tuple[int, list[str]], found: tuple[int, list[str]], said: str) -> list[str]:
    """How a recorded job differs from the job alone in exit code and losses; `said` is its stderr."""
    (code, losses), (other, others) = alone, found
    if way[0] == SURVEY:
        code, losses = int(_UNSEEN in said), losses[: len(others)]
    # Some jobs print their losses only at the end, for which `stepscope plan` does not wait.
    told = bool(others) or way[0] == SURVEY
    different = [] if told and others == losses else [f"{len(others)} losses of {len(losses)}, not the same"]
    return different + ([] if other == code else [f"exit code {other}, not {code}"])


def compared(job: str, ways: list[str]) -> Iterator[tuple[str, str]]:
    """Yields each way with its differences, usually none."""
    with tempfile.TemporaryDirectory() as folder:
        code, losses, said = ran(job, None, Path(folder))
    if not losses:
        yield "alone", f"no losses (exit code {code}): {said[-300:]}"
        return
    for name in ways:
        with tempfile.TemporaryDirectory() as folder:
            found, others, said = ran(job, WAYS[name], Path(folder))
        warned = [line for line in said.splitlines() if "RecordingWarning" in line]
        different = differences(WAYS[name], (code, losses), (found, others), said)
        same = f"the same {len(others)} losses, exit code {found}"
        yield name, "; ".join([*(different or [same]), *warned])


def main() -> None:
    """Compares the requested jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}")
    parser.add_argument("--way", action="append", choices=WAYS)
    asked = parser.parse_args()
    failed = 0
    for job in asked.jobs or JOBS:
        for way, result in compared(job, asked.way or list(WAYS)):
            failed += not result.startswith("the same")
            print(f"{job:18} {way:18} {result}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
