"""Where a process's output goes: a name that no other process, and no earlier run, has."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from stepscope.floor.ranks import Process

_JOBS = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PBS_JOBID",),
    ("LSB_JOBID", "LSF_PM_TASKID"),
    ("FLUX_JOB_ID",),
    ("COBALT_JOBID",),
    ("JOB_ID",),
    ("TORCHELASTIC_RUN_ID",),
)
"""Variables in which batch systems number a job and its steps; the first that is set names the job."""
_ODD = re.compile(r"[^A-Za-z0-9.-]+")
_LONGEST = 40


def job_name(environment: Mapping[str, str]) -> str:
    """The job's number and its step's, as a file name can hold it; empty where no batch system says any.

    >>> job_name({"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0"})
    '4711.0'
    """
    for names in _JOBS:
        number = environment.get(names[0], "")
        if number and number != "none":
            parts = [number, *(environment[name] for name in names[1:] if environment.get(name))]
            return _ODD.sub("_", ".".join(parts))[:_LONGEST]
    return ""


def stem_name(process: Process, environment: Mapping[str, str]) -> str:
    """`rank3.node07.4711.0`: the rank, its node and its job, as readers of such files understand the rank."""
    job = job_name(environment)
    return f"rank{process.rank}.{process.host}" + (f".{job}" if job else "")


@contextmanager
def own_stem(folder: Path, name: str) -> Iterator[Path]:
    """Gives a stem in `folder` that nothing has: the name, or with `-2` and so on behind it.

    While the block runs, a hidden file keeps the name from others, who may share the folder from other nodes.

    Raises:
        OSError: the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        stem = folder / (name if number == 1 else f"{name}-{number}")
        claim = stem.with_name(f".{stem.name}.launch")
        try:
            os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        try:
            if not is_taken(stem):
                yield stem
                return
        finally:
            with contextlib.suppress(OSError):
                claim.unlink()


def is_taken(stem: Path) -> bool:
    """Whether something has this stem, with whatever ending."""
    return any(
        entry.name == stem.name or entry.name.startswith(f"{stem.name}.")
        for entry in os.scandir(stem.parent)
    )
