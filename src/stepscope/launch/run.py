"""`stepscope launch` in one process of a job: the command alone, or under a tool."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from stepscope.floor.chosen_ranks import chosen
from stepscope.floor.errors import StepScopeError
from stepscope.floor.quoting import printable_lines
from stepscope.floor.ranks import Process, process_from
from stepscope.launch.line import Line, capture_of, recorded_command, tool_line
from stepscope.launch.output import own_stem, stem_name
from stepscope.launch.tool import Capture, Request, Tool

ERRORS = {
    "no-tool": (
        "The tool is not on the PATH of this process. Inside a container, or in a step of a job, the PATH may be another "
        "than in your shell: load its module there, or name its folder in PATH."
    ),
}

NOT_FOUND = 127
NOT_EXECUTABLE = 126
_VERSION = re.compile(r"\b(\d+)\.(\d+)(?:\.(\d+))?")
_LONGEST_ANSWER_S = 60


@dataclass(frozen=True, slots=True)
class Asked:
    """What `stepscope launch` was asked, the same in every process of the job.

    Args:
        ranks: which processes are profiled; None for all.
        folder: where the output goes.
        command: what the user runs.
        capture: how a script starts and stops the tool; None: as the tool has it.
        others: as in `Request`.
    """

    tool: Tool
    command: tuple[str, ...]
    folder: Path
    ranks: str | None = None
    steps: tuple[int, int] | None = None
    capture: Capture | None = None
    delay_s: float | None = None
    duration_s: float | None = None
    wanted: str | None = None
    options: tuple[str, ...] = ()
    nvtx: bool = False
    kernels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    def request(self, stem: Path, version: tuple[int, ...] = ()) -> Request:
        """What this asks of the tool in one process."""
        capture = None
        if self.steps is not None and self.tool.way != "record":
            capture = capture_of(self.tool, self.capture, has_nvidia=has_nvidia_driver())
        return Request(
            stem=stem,
            version=version,
            steps=self.steps,
            capture=capture,
            delay_s=self.delay_s,
            duration_s=self.duration_s,
            wanted=self.wanted,
            options=self.options,
            nvtx=self.nvtx,
            kernels=self.kernels,
            metrics=self.metrics,
        )

    def line(self, executable: str, request: Request) -> Line:
        """What a chosen process runs."""
        command = recorded_command(self.tool, request, self.command, self.folder)
        return tool_line(self.tool, executable, request, command)


def has_nvidia_driver() -> bool:
    """Whether this node has NVIDIA's driver."""
    return Path("/proc/driver/nvidia/version").exists()


def executable_of(tool: Tool, path: str | None = None) -> str:
    """The tool's executable; empty for one that has none.

    Raises:
        StepScopeError: none is on the PATH.
    """
    for name in tool.executables:
        if found := shutil.which(name, path=path):
            return found
    if not tool.executables:
        return ""
    names = " or ".join(tool.executables)
    raise StepScopeError(
        f"{names} is not on the PATH of this process on {os.uname().nodename}",
        hint="load its module inside the job, or add its folder to PATH",
        slug="no-tool",
    )


def version_of(tool: Tool, executable: str) -> tuple[int, ...]:
    """The version that the tool prints; empty where it prints none."""
    if not executable:
        return ()
    try:
        done = subprocess.run(  # noqa: S603 - the user's own tool
            [executable, *tool.version_arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_LONGEST_ANSWER_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = _VERSION.search((done.stdout + done.stderr).decode("utf-8", "replace"))
    return tuple(int(part) for part in found.groups() if part) if found else ()


def dry_line(asked: Asked) -> str:
    """The line that this process would run, as it can be pasted into a shell.

    Raises:
        StepScopeError: whether it is chosen cannot be told, or it cannot be run so.
    """
    process = process_from(os.environ)
    if not chosen(asked.ranks, process):
        return shlex.join(asked.command)
    try:
        executable = executable_of(asked.tool)
    except StepScopeError:
        executable = asked.tool.executables[0]
    stem = asked.folder / stem_name(process, os.environ)
    return asked.line(executable, asked.request(stem, version_of(asked.tool, executable))).typed()


def launch(asked: Asked) -> int:  # noqa: RET503 - `become` does not return
    """Runs the command, under the tool where this process is chosen; returns the exit code.

    Where this process is not chosen, or cannot be profiled, it becomes the command and does not return.
    """
    process = process_from(os.environ)
    try:
        if not chosen(asked.ranks, process):
            become(asked.command)
    except StepScopeError as error:
        if process.rank == 0:
            warn(f"{error.message}. The command runs unprofiled", error.hint)
        become(asked.command)
    try:
        return _profiled(asked, process)
    except StepScopeError as error:
        warn(f"rank {process.rank} runs unprofiled: {error.message}", error.hint)
    except OSError as error:
        warn(f"rank {process.rank} runs unprofiled: {error.strerror or error} ({error.filename})")
    become(asked.command)


def _profiled(asked: Asked, process: Process) -> int:
    executable = executable_of(asked.tool)
    version = version_of(asked.tool, executable)
    with own_stem(asked.folder, stem_name(process, os.environ)) as stem:
        line = asked.line(executable, asked.request(stem, version))
        if asked.tool.way == "record":
            become(line.words, line.environment)
        done = subprocess.run(  # noqa: S603 - what the user asked for
            line.words, env={**original_environment(), **line.environment}, check=False
        )
        _check(asked.tool, executable, stem)
        return done.returncode


def _check(tool: Tool, executable: str, stem: Path) -> None:
    """Warns of what the tool should have written and has not."""
    for kind in tool.written:
        found = kind.found(stem)
        if not found and kind.required:
            warn(f"{tool.name} has written no {stem.name}{kind.patterns[0].replace('{stem}', '')}")
        for path in found:
            if lacks := kind.lacks(path, executable):
                warn(f"{path} is incomplete: {lacks}")


def become(command: Sequence[str], environment: Mapping[str, str] | None = None) -> NoReturn:
    """Makes this process the command: same process, environment, files, and signals as a shell would start it with."""
    # Python ignores these, and ignored signals stay ignored.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), {**original_environment(), **(environment or {})})  # noqa: S606
    except OSError as error:
        warn(f"{command[0]}: {error.strerror}")
        sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def original_environment() -> dict[str, str]:
    """The environment that this process was started with: Python adds LC_CTYPE where the locale is C."""
    environment = dict(os.environ)
    try:
        given = Path("/proc/self/environ").read_bytes()
    except OSError:
        return environment
    if not any(one.startswith(b"LC_CTYPE=") for one in given.split(b"\0")):
        environment.pop("LC_CTYPE", None)
    return environment


def warn(message: str, hint: str = "") -> None:
    """One warning on stderr; the job goes on."""
    more = f"; {hint}" if hint else ""
    os.write(2, f"stepscope launch: {printable_lines(message + more)}\n".encode("utf-8", "replace"))
