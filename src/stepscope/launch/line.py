"""The command line of a tool: its executable, its arguments, the command, and the variables that are set."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscope.floor.captured_steps import SIGNAL_VARIABLE
from stepscope.floor.errors import UsageError
from stepscope.launch.tool import Request, Tool

ERRORS = {
    "no-script-here": (
        "`--steps`, and the tools that are `stepscope record`, run the command's Python script under StepScope. "
        "That needs a command that starts one, `python train.py` or `python -m package.train`, with the Python that "
        "has StepScope. In any other program `stepscope.capture()` marks the steps that matter."
    )
}

_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""Python's options whose value is a word of its own."""
_OPTION = re.compile(r"-[bBdEiIOPqRsSuvVx]+|-[WX].*|--[a-z-]+(?:=.*)?")
"""Options of Python itself; `-c`, `-m` and `-` are none of them, `-um` neither."""


@dataclass(frozen=True, slots=True)
class Line:
    """What one process runs.

    Args:
        words: the executable and its arguments.
        environment: variables that are set for it, beside those that are there.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]

    def typed(self) -> str:
        """As it can be pasted into a shell."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return shlex.join([*(["env", *variables] if variables else ()), *self.words])


def script_line(command: Sequence[str], record: Sequence[str]) -> list[str]:
    """The command's script under `stepscope record` with these options, by the Python that runs StepScope.

    Raises:
        UsageError: the command starts no Python script, or with a Python without StepScope.
    """
    options, script = _taken_apart(command)
    return [sys.executable, *options, "-m", "stepscope", "record", *record, "--", *script]


def _taken_apart(command: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The options of Python itself; the script, or `-m` and a module, and its arguments."""
    if not _is_our_python(command[0]):
        raise _no_script(command, f"{command[0]} is not the Python that runs StepScope, {sys.executable}")
    at = 1
    while at < len(command) and _OPTION.fullmatch(command[at]):
        at += 2 if command[at] in _VALUED else 1
    options, script = command[1:at], command[at:]
    if not script or (script[0].startswith("-") and script[0] != "-m"):
        raise _no_script(command, "it starts no script and no module")
    return options, script


def _is_our_python(name: str) -> bool:
    """Whether a name starts the Python that runs us: the same file, in the same environment."""
    found = shutil.which(name)
    if found is None or not Path(found).name.startswith("python"):
        return False
    same = os.path.realpath(found) == os.path.realpath(sys.executable)
    # Two virtual environments link to one Python, and which of them it is hangs on the link's place.
    return same and (Path(found).parent.resolve() == Path(sys.executable).parent.resolve())


def _no_script(command: Sequence[str], why: str) -> UsageError:
    return UsageError(
        f"`{shlex.join(command)}` cannot be run under StepScope: {why}",
        hint="have the program mark the steps itself, with stepscope.capture(), and leave --steps out",
        slug="no-script-here",
    )


def recorded_command(tool: Tool, request: Request, command: Sequence[str], folder: Path) -> list[str]:
    """The command as it runs: under `stepscope record` where that records it or marks its steps.

    Raises:
        UsageError: that needs a Python script, and the command starts none.
    """
    if tool.way == "record":
        return script_line(command, [*tool.arguments(request), "--out", str(folder), *request.options])
    options = ["--nvtx"] if request.nvtx else []
    if request.capture is not None and request.steps is not None:
        steps = f"{request.steps.first}-{request.steps.last}"
        options = ["--capture", request.capture, "--steps", steps, *options]
    return script_line(command, options) if options else list(command)


def capture_of(tool: Tool, asked: str | None, *, has_nvidia: bool) -> str:
    """How a command is to start and stop the tool: as asked, else by the best way that works here.

    cudaProfilerStart needs a driver; an NVTX range does not.

    Raises:
        UsageError: the tool cannot be started and stopped so.
    """
    if not tool.captures:
        raise tool.refusal("cannot be started and stopped by a command", "leave --steps and --capture out")
    if asked is None:
        without = [way for way in tool.captures if way != "cuda-profiler" or has_nvidia]
        return (without or list(tool.captures))[0]
    if asked not in tool.captures:
        known = ", ".join(tool.captures)
        raise tool.refusal(f"is not started and stopped by {asked}", f"--capture takes {known}")
    return asked


def tool_line(tool: Tool, executable: str, request: Request, command: Sequence[str]) -> Line:
    """The line that runs `command` with the tool.

    Raises:
        UsageError: the tool cannot do what was asked.
    """
    tool.check(request)
    environment = tool.environment(request)
    if request.capture is not None and request.steps is None:
        environment = {**environment, SIGNAL_VARIABLE: request.capture}
    if tool.way in ("inside", "record"):
        return Line(tuple(command), environment)
    return Line((executable, *tool.arguments(request), *command), environment)
