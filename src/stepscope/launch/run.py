"""Runs `stepscope launch` in one process of a job: the command alone, or under a tool."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from stepscope.base.chosen_ranks import chosen, may_be_chosen, names_nobody
from stepscope.base.errors import StepScopeError
from stepscope.base.ranks import Process, process_from
from stepscope.launch.divert import Diverted
from stepscope.launch.exec_command import exec_command, original_environment, warn
from stepscope.launch.line import Line, capture_of, recorded_command, tool_line
from stepscope.launch.output import outcome, reserve_stem, stem_name
from stepscope.launch.preflight import executable_of, lacks_space, problems, this_node, version_of
from stepscope.launch.supervise import Ended, Supervisor
from stepscope.launch.tool import Request, Tool

LONGEST_END_S = 600.0
"""Time that a tool may take to write its files after the command has ended."""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """The request to `stepscope launch`, the same in every process of the job.

    Args:
        wish: what the tool is to record, with the output folder as stem and without a version. Its `capture` may be
            `auto` for the best signal; with steps, None also means the best.
        longest_end_s: time that the tool may take to write its files after the command has ended.
    """

    tool: Tool
    command: tuple[str, ...]
    wish: Request
    ranks: str | None = None
    longest_end_s: float = LONGEST_END_S

    @property
    def folder(self) -> Path:
        """The folder for the output."""
        return self.wish.stem

    def request(self, stem: Path, version: tuple[int, ...] = ()) -> Request:
        """The request to the tool in one process."""
        capture, wish = None, self.wish
        if self.tool.way != "record" and (wish.steps or wish.capture):
            capture_name = None if wish.capture == "auto" else wish.capture
            capture = capture_of(self.tool, capture_name, has_nvidia=this_node().has_nvidia)
        return replace(wish, stem=stem, version=version, capture=capture)

    def recorded(self, request: Request) -> list[str]:
        """The command of a chosen process, under `stepscope record` if that marks its steps."""
        return recorded_command(self.tool, request, self.command, self.folder)


@dataclass(frozen=True, slots=True)
class Launched:
    """The wait status of the command in a chosen process, and the tool's files; the lowest rank speaks for all."""

    status: int
    files: tuple[Path, ...]
    speaks: bool
    was_terminated: bool


def dry_line(options: LaunchOptions) -> str:
    """The line that this process would run, as it can be pasted into a shell; StepScopeError if that is unknown."""
    process = process_from(os.environ)
    if not chosen(options.ranks, process):
        return shlex.join(options.command)
    try:
        executable = executable_of(options.tool)
    except StepScopeError:
        executable = options.tool.executables[0]
    stem = options.folder / stem_name(process, os.environ)
    request = options.request(stem, version_of(options.tool, executable))
    command = options.recorded(request)
    if options.tool.way == "record":
        return Line(tuple(command), {}).typed()
    line = tool_line(options.tool, executable, request, command).typed()
    # Most tools do not create it: nsys then leaves the report in /tmp.
    is_there = options.tool.way != "around" or options.folder.is_dir()
    return line if is_there else f"mkdir -p {shlex.quote(str(options.folder))} && {line}"


def about_process(ranks: str | None) -> str:
    """Describes this process, and whether it is chosen, in one line; StepScopeError if that is unknown."""
    process = process_from(os.environ)
    numbers = [f"rank {process.rank} of {process.world_size}"]
    if process.local_rank is not None:
        size = "" if process.local_world_size is None else f" of {process.local_world_size}"
        numbers.append(f"local rank {process.local_rank}{size}")
    if process.node is not None:
        numbers.append(f"node {process.node}")
    whether = "profiled" if chosen(ranks, process) else "not profiled"
    by = "no launcher" if process.rule == "single" else process.rule
    return f"{', '.join(numbers)} on {process.host}, by {by}: {whether}"


def launch(options: LaunchOptions) -> Launched:  # noqa: RET503 - `exec_command` does not return
    """Runs the command under the tool if this process is chosen.

    A process that is not chosen, or cannot be profiled, becomes the command and does not return.
    """
    if shutil.which(options.command[0]) is None:
        exec_command(options.command)  # reports errors as a shell would
    process = process_from(os.environ)
    try:
        if not chosen(options.ranks, process):
            _warn_of_nobody(options.ranks, process)
            exec_command(options.command)
    except StepScopeError as error:
        if process.rank == 0:
            warn(f"{error.message}; the command runs unprofiled", error.hint)
        exec_command(options.command)
    try:
        if options.tool.way == "record":
            exec_command(options.recorded(options.request(options.folder / "rank")))
        with reserve_stem(options.folder, stem_name(process, os.environ)) as stem:
            launched = _profiled(options, process, stem)
        if launched is not None:
            return launched
    except StepScopeError as error:
        warn(f"rank {process.rank} runs unprofiled: {error.message}", error.hint)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        warn(f"rank {process.rank} runs unprofiled: {where}{error.strerror or error}")
    exec_command(options.command)


def _warn_of_nobody(ranks: str | None, process: Process) -> None:
    size = process.world_size
    # With a launcher that gives a rank but no size, rank 0 gets the size 1, which may be wrong.
    is_certain = size > 1 or process.rule == "single"
    if process.rank == 0 and is_certain and names_nobody(ranks, size):
        last = "only rank 0" if size == 1 else f"ranks 0 to {size - 1}"
        warn(f'nothing is profiled: "{ranks}" names none of this job\'s ranks', f"it has {last}")


def _profiled(options: LaunchOptions, process: Process, stem: Path) -> Launched | None:
    """Runs the command under the tool; None if it was not started and the tool can no longer start it."""
    tool = options.tool
    executable = executable_of(tool)
    version = version_of(tool, executable)
    request = options.request(stem, version)
    for problem in problems(
        tool,
        version,
        options.folder,
        options.command,
        this_node(),
        set_name=request.set_name,
        together=_chosen_here(options.ranks, process),
    ):
        if problem.severity != "note":
            warn(f"rank {process.rank}: {problem.what}", problem.cure)
    started_s = time.monotonic()
    ended = _run(options, process, executable, request)
    if not ended.was_started and ended.termination is None and not ended.gave_up:
        # Many that start at once on a node disturb each other: nsys through its semaphores.
        warn(f"rank {process.rank}: {tool.name} {ended.tool or 'ended'} at its start, and is started again")
        ended = _run(options, process, executable, request)
    if not ended.was_started:
        if ended.termination is not None:
            return Launched(ended.termination, (), speaks=False, was_terminated=True)
        why = ended.tool if ended.gave_up else f"{ended.tool or 'ended'} before it started the command"
        warn(f"rank {process.rank} runs unprofiled: {tool.name} {why}")
        return None
    status = ended.command
    if status is None:
        status = 1 << 8
        warn(f"rank {process.rank}: how the command ended is unknown: its parent was killed")
    lasted_s = time.monotonic() - started_s
    try:
        files, wrong = outcome(tool, executable, request, ended=ended.tool, lasted_s=lasted_s)
    except (Exception, KeyboardInterrupt) as error:
        # The command has ended: nothing below may start it again or change its exit code.
        why = f"{type(error).__name__}: {error}"
        files, wrong = (), [f"what {tool.name} wrote could not be checked: {why}"]
    for words in wrong:
        warn(f"rank {process.rank}: {words}")
    return Launched(
        status, files, speaks=_is_lowest(options.ranks, process), was_terminated=ended.termination is not None
    )


def _run(options: LaunchOptions, process: Process, executable: str, request: Request) -> Ended:
    tool, stem, command = options.tool, request.stem, options.recorded(request)
    supervisor = Supervisor(options.longest_end_s, lambda words: warn(f"rank {process.rank}: {tool.name} {words}"))
    try:
        with _temporary(tool, stem) as variables:
            if tool.way == "inside":
                line = tool_line(tool, executable, request, command)
                output = Diverted(tool.prefixes, stem.with_name(f"{stem.name}.{tool.name}.txt"))
                return supervisor.run_diverted(line.words, _environment(line, variables), output)
            line = tool_line(tool, executable, request, supervisor.starter(command))
            return supervisor.run(line, _environment(line, variables))
    finally:
        supervisor.release()


def _environment(line: Line, variables: Mapping[str, str]) -> dict[str, str]:
    return {**original_environment(), **line.environment, **variables}


@contextmanager
def _temporary(tool: Tool, stem: Path) -> Iterator[dict[str, str]]:
    """Sets the variable for a temporary folder if the node's own is unsuitable."""
    if "temporary-space" not in tool.needs or not lacks_space(this_node().temporary):
        yield {}
        return
    folder = stem.with_name(f".{stem.name}.tmp")
    folder.mkdir()
    try:
        yield {"TMPDIR": str(folder)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _chosen_here(ranks: str | None, process: Process) -> int:
    """The number of chosen processes on this node for the first of them; 1 for others, which repeat no messages."""
    if process.local_rank is None or not process.local_world_size:
        return 1
    first = process.rank - process.local_rank
    chosen_locals = [
        local
        for local in range(process.local_world_size)
        if may_be_chosen(ranks, replace(process, rank=first + local, local_rank=local))
    ]
    return len(chosen_locals) if chosen_locals[:1] == [process.local_rank] else 1


def _is_lowest(ranks: str | None, process: Process) -> bool:
    """Whether no lower rank is chosen, if ranks are placed on all nodes as here: in blocks or round-robin."""
    size = process.local_world_size
    for rank in range(process.rank):
        local_rank = node = None
        if size and process.local_rank == process.rank % size:
            node, local_rank = divmod(rank, size)
        elif size and size <= process.world_size:
            local_rank, node = divmod(rank, process.world_size // size)
        if may_be_chosen(ranks, replace(process, rank=rank, local_rank=local_rank, node=node)):
            return False
    return True
