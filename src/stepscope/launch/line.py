"""Makes the command line of a tool: executable, arguments, command, and environment variables."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscope.base.captured_steps import SIGNAL_VARIABLE
from stepscope.base.errors import UsageError
from stepscope.launch.tool import Request, Tool

ERRORS = {
    "no-script-here": (
        "`--steps`, and the tools that are `stepscope record`, run the command's Python script under "
        "StepScope. The command must start one, as `python train.py` or `python -m package.train`, with the "
        "Python that has StepScope. In any other program mark the steps with `stepscope.capture()`."
    )
}

_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})  # Python options whose value is a separate word
_OPTION = re.compile(r"-[bBdEiIOPqRsSuvVx]+|-[WX].*|--[a-z-]+(?:=.*)?")
"""Options of Python itself, but not `-c`, `-m`, `-` or `-um`."""


@dataclass(frozen=True, slots=True)
class Line:
    """What one process runs: the executable with its arguments, and variables set in addition."""

    words: tuple[str, ...]
    environment: Mapping[str, str]

    def typed(self) -> str:
        """The line as it can be pasted into a shell."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return shlex.join([*(["env", *variables] if variables else ()), *self.words])


def script_line(command: Sequence[str], record: Sequence[str]) -> list[str]:
    """Runs the command's script under `stepscope record` with these options, with the Python that runs StepScope.

    Raises:
        UsageError: the command does not start a Python script, or uses a Python without StepScope.
    """
    options, script = _taken_apart(command)
    return [sys.executable, *options, "-m", "stepscope", "record", *record, "--", *script]


def _taken_apart(command: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Splits off the options of Python itself; then come the script, or `-m` and a module, and its arguments."""
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
    """Whether a name starts the Python that runs us: the same file in the same environment."""
    path = shutil.which(name)
    if path is None or not Path(path).name.startswith("python"):
        return False
    same = os.path.realpath(path) == os.path.realpath(sys.executable)
    # Two virtual environments link to one Python; the link's place decides which one is used.
    return same and (Path(path).parent.resolve() == Path(sys.executable).parent.resolve())


def _no_script(command: Sequence[str], why: str) -> UsageError:
    return UsageError(
        f"`{shlex.join(command)}` cannot be run under StepScope: {why}",
        hint="have the program mark the steps itself, with stepscope.capture(), and leave --steps out",
        slug="no-script-here",
    )


def recorded_command(tool: Tool, request: Request, command: Sequence[str], folder: Path) -> list[str]:
    """The command as it will run: under `stepscope record` if that records it or marks its steps.

    Raises:
        UsageError: that needs a Python script, and the command does not start one.
    """
    if tool.way == "record":
        return script_line(command, [*tool.arguments(request), "--out", str(folder), *request.options])
    options = ["--nvtx"] if request.nvtx else []
    if request.capture is not None and request.steps is not None:
        steps = f"{request.steps.first}-{request.steps.last}"
        options = ["--capture", request.capture, "--steps", steps, *options]
    return script_line(command, options) if options else list(command)


def capture_of(tool: Tool, signal: str | None, *, has_nvidia: bool) -> str:
    """Chooses how a command starts and stops the tool: as requested, else the best way that works here.

    Raises:
        UsageError: the tool cannot be started and stopped like that.
    """
    if not tool.captures:
        raise tool.refusal("cannot be started and stopped by a command", "leave --steps and --capture out")
    if signal is None:
        without = [way for way in tool.captures if way != "cuda-profiler" or has_nvidia]
        return (without or list(tool.captures))[0]
    if signal not in tool.captures:
        signals = ", ".join(tool.captures)
        raise tool.refusal(f"is not started and stopped by {signal}", f"--capture takes {signals}")
    return signal


def tool_line(tool: Tool, executable: str, request: Request, command: Sequence[str]) -> Line:
    """Makes the line that runs `command` with the tool.

    Raises:
        UsageError: the tool cannot do what was requested.
    """
    tool.check(request)
    environment = tool.environment(request)
    if request.capture is not None and request.steps is None:
        environment = {**environment, SIGNAL_VARIABLE: request.capture}
    if tool.way in ("inside", "record"):
        return Line(tuple(command), environment)
    return Line((executable, *tool.arguments(request), *command), environment)
