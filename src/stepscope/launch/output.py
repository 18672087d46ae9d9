"""Names each process's output uniquely among processes and earlier runs; afterwards checks the tool's files and reports
missing ones.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from stepscope.base.ranks import Process
from stepscope.launch.tool import Request, Tool

_JOBS = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PBS_JOBID",),
    ("LSB_JOBID", "LSF_PM_TASKID"),
    ("FLUX_JOB_ID",),
    ("COBALT_JOBID",),
    ("JOB_ID",),
    ("TORCHELASTIC_RUN_ID",),
)
"""Variables in which batch systems number a job and its steps; the first one that is set names the job."""
_ODD = re.compile(r"[^A-Za-z0-9.-]+")
_LONGEST = 40


def job_name(environment: Mapping[str, str]) -> str:
    """The numbers of the job and its step, safe for a file name; empty without a batch system.

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
    """`rank3.node07.4711.0`: the rank, its node and its job; readers of such files understand the rank."""
    job = job_name(environment)
    return f"rank{process.rank}.{process.host}" + (f".{job}" if job else "")


@contextmanager
def reserve_stem(folder: Path, name: str) -> Iterator[Path]:
    """Reserves an unused stem in `folder` by a hidden file: the name, or the name with `-2` and so on.

    Raises:
        OSError: the folder cannot be created or written.
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
    """Whether a file with this stem and any ending exists."""
    return any(entry.name == stem.name or entry.name.startswith(f"{stem.name}.") for entry in os.scandir(stem.parent))


def outcome(
    tool: Tool, executable: str, request: Request, *, ended: str, lasted_s: float
) -> tuple[tuple[Path, ...], list[str]]:
    """Returns the tool's files of one process, and what is wrong with them, in words.

    Args:
        ended: how the tool ended, in words; empty if all was well.
    """
    files: list[Path] = []
    wrong: list[str] = []
    for kind in tool.written:
        paths = kind.find(request.stem)
        for path in paths:
            try:
                lacks = kind.lacks(path, executable)
            except OSError as error:
                lacks = str(error)
            if lacks:
                more = f"; {tool.name} {ended}" if ended else ""
                wrong.append(f"{path} is incomplete: {lacks}{more}")
            else:
                files.append(path)
        if not paths and kind.required:
            name = kind.patterns[0].replace("{stem}", request.stem.name)
            wrong.append(f"{tool.name} wrote no {name}: {_cause(tool, request, ended, lasted_s)}")
    return tuple(files), wrong


def _cause(tool: Tool, request: Request, ended: str, lasted_s: float) -> str:
    if ended:
        return f"it {ended}; what it says stands above"
    if request.delay_s is not None and lasted_s < request.delay_s:
        return f"the command ended after {lasted_s:.0f} s, before --delay {request.delay_s:g}"
    if request.capture is not None:
        what, steps = "no stepscope.capture() was", request.steps
        if steps is not None:
            what = f"{steps} {'was' if steps.first == steps.last else 'were'} not"
        no_file_reason = f", or {tool.no_file_reason}" if tool.no_file_reason else ""
        return f"{what} reached, or its signal ({request.capture}) did not reach the tool{no_file_reason}"
    return tool.no_file_reason or "what it says stands above"
