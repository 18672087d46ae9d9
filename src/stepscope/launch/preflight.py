"""Finds what would keep a tool from recording on this node, before the command starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stepscope.base.errors import StepScopeError
from stepscope.launch.tool import Need, Tool

ERRORS = {
    "no-tool": (
        "The tool is not on the PATH of this process. Inside a container or a job step the PATH may differ "
        "from your shell's: load the tool's module there, or add its folder to PATH."
    )
}

SPACE_WANTED = 1 << 30
"""Bytes that should be free for reports and their temporary files: those of a few steps take less."""
_VERSION = re.compile(r"\b(\d+)\.(\d+)(?:\.(\d+))?")
_LONGEST_ANSWER_S = 60
_PARANOID_SAMPLING = 2
_LONGEST_SCRIPT = 1 << 20

Severity = Literal["note", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why a tool records nothing (`failure`), probably not all (`warning`), or a `note`."""

    severity: Severity
    what: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """Where this node states what is allowed, and the environment in which the command would run."""

    environment: Mapping[str, str]
    proc: Path = Path("/proc")
    is_root: bool = False

    @property
    def has_nvidia(self) -> bool:
        """Whether NVIDIA's driver is loaded."""
        return (self.proc / "driver/nvidia/version").exists()

    @property
    def temporary(self) -> Path:
        """The folder for temporary files, as programs in other languages choose it."""
        return Path(self.environment.get("TMPDIR") or "/tmp")  # noqa: S108 - it is only looked at


def this_node() -> Node:
    """The node and environment of this process."""
    return Node(os.environ, is_root=os.geteuid() == 0)


def executable_of(tool: Tool) -> str:
    """Finds the tool's executable on the PATH; empty for a tool that needs none.

    Raises:
        StepScopeError: it is not there.
    """
    for name in tool.executables:
        if path := shutil.which(name):
            return path
    if not tool.executables:
        return ""
    raise StepScopeError(
        f"{' or '.join(tool.executables)} is not on the PATH of this process on {os.uname().nodename}",
        hint="load its module inside the job, or add its folder to PATH; "
        f"`stepscope doctor --tool {tool.name}` looks again",
        slug="no-tool",
    )


def version_of(tool: Tool, executable: str) -> tuple[int, ...]:
    """The version that the tool prints; empty if it prints none."""
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
    match = _VERSION.search((done.stdout + done.stderr).decode("utf-8", "replace"))
    return tuple(int(part) for part in match.groups() if part) if match else ()


def problems(
    tool: Tool,
    version: tuple[int, ...],
    folder: Path,
    command: tuple[str, ...],
    node: Node,
    *,
    set_name: str | None = None,
    together: int = 1,
) -> list[Problem]:
    """Finds what keeps an installed tool from recording, or may, the worst first.

    Args:
        set_name: the requested set.
        together: the number of this node's processes that run under the tool.
    """
    problems_ = [*_too_old(tool, version), *_output(folder)]
    for need in sorted(tool.needs | tool.set_needs.get(set_name or "", frozenset())):
        problems_ += _NEEDS[need](node, command)
    if together > 1 and tool.takes_turns:
        problems_.append(
            Problem(
                "warning",
                f"{together} processes of this node run under {tool.name}, and {tool.takes_turns}",
                "choose one process of a node with --ranks local:0",
            )
        )
    if tool.needs & {"one-cupti", "gpu-counters"} and not node.has_nvidia:
        problems_.append(Problem("note", "this node has no NVIDIA driver, so no CUDA activity is recorded"))
    order = ("failure", "warning", "note")
    return sorted(problems_, key=lambda problem: order.index(problem.severity))


def _too_old(tool: Tool, version: tuple[int, ...]) -> Iterator[Problem]:
    if version and version < tool.oldest:
        yield Problem(
            "warning",
            f"{tool.name} {dotted(version)} is older than {dotted(tool.oldest)}, from which on its options are known",
            "if it refuses one, load a newer module",
        )


def dotted(version: tuple[int, ...]) -> str:
    """Formats a version."""
    return ".".join(map(str, version))


def _output(folder: Path) -> Iterator[Problem]:
    # It would be created in its nearest existing parent.
    place = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    if not os.access(place, os.W_OK | os.X_OK):
        yield Problem("failure", f"{place} cannot be written", "name another folder with -o")
    elif (space := _free(place)) < SPACE_WANTED:
        yield Problem("warning", f"only {_mib(space)} are free in {place}", "name another folder with -o")


def _temporary_space(node: Node, _command: tuple[str, ...]) -> Iterator[Problem]:
    if why := lacks_space(node.temporary):
        yield Problem(
            "warning",
            f"the folder for temporary files, {node.temporary}, {why}",
            "stepscope launch uses one next to the output; TMPDIR names another",
        )


def lacks_space(folder: Path) -> str:
    """Why temporary files should not go into this folder; empty if they can."""
    if not folder.is_dir():
        return "does not exist"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "cannot be written"
    space = _free(folder)
    return "" if space >= SPACE_WANTED else f"has only {_mib(space)} free"


def _gpu_counters(node: Node, _command: tuple[str, ...]) -> Iterator[Problem]:
    try:
        settings = (node.proc / "driver/nvidia/params").read_text(encoding="utf-8")
    except OSError:
        return
    if re.search(r"^RmProfilingAdminOnly:\s*1", settings, re.MULTILINE) and not node.is_root:
        yield Problem(
            "failure",
            "only administrators may read the GPU's counters on this node (ERR_NVGPUCTRPERM)",
            "ask for `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d, and the driver "
            "loaded again; some centres have a constraint or queue for it",
        )


def _perf_events(node: Node, _command: tuple[str, ...]) -> Iterator[Problem]:
    try:
        level = int((node.proc / "sys/kernel/perf_event_paranoid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        yield Problem("warning", "this kernel has no perf events")
        return
    if level > _PARANOID_SAMPLING and not node.is_root:
        yield Problem(
            "failure",
            f"this node does not let users sample their own programs (kernel.perf_event_paranoid is {level})",
            "ask for `sysctl kernel.perf_event_paranoid=2`, or a queue that has it",
        )


def _hardware_events(node: Node, command: tuple[str, ...]) -> Iterator[Problem]:
    """Intel's guide: VTune counts with its own driver, or through perf if that is not loaded."""
    try:
        modules = (node.proc / "modules").read_text(encoding="utf-8", errors="replace")
    except OSError:
        modules = ""
    if re.search(r"^sep\d", modules, re.MULTILINE):
        return
    for problem in _perf_events(node, command):
        yield Problem(
            "warning",
            f"{problem.what}, and Intel's sampling driver (sep) is not loaded",
            "ask for `sysctl kernel.perf_event_paranoid=2` or for the driver, or use --set hotspots",
        )


def _ptrace_scope(node: Node) -> int:
    """Which processes may be traced: 0 all of the user's, 1 only descendants, 2 only by administrators."""
    try:
        return int((node.proc / "sys/kernel/yama/ptrace_scope").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _ptrace(node: Node, _command: tuple[str, ...]) -> Iterator[Problem]:
    if (scope := _ptrace_scope(node)) > (2 if node.is_root else 1):
        yield Problem(
            "failure",
            f"this node lets no process look into those that it starts (kernel.yama.ptrace_scope is {scope})",
            "ask for `sysctl kernel.yama.ptrace_scope=1`, or use perf",
        )


def _ptrace_any(node: Node, _command: tuple[str, ...]) -> Iterator[Problem]:
    """Quotes VTune: "To enable profiling, please set /proc/sys/kernel/yama/ptrace_scope to 0."."""
    if (scope := _ptrace_scope(node)) > (2 if node.is_root else 0):
        yield Problem(
            "warning",
            f"this node lets no process look into just any other (kernel.yama.ptrace_scope is {scope}), which sampling "
            "and tracing in user mode need",
            "ask for `sysctl kernel.yama.ptrace_scope=0`, or sample hardware events: `-- -knob sampling-mode=hw --`",
        )


def _ncu_lock(node: Node, _command: tuple[str, ...]) -> Iterator[Problem]:
    """From Nsight Compute's Profiling Guide, FAQ: the file stays behind for the next user of the node."""
    names = (node.environment.get(name) for name in ("TMPDIR", "TMP", "TEMP", "TEMPDIR"))
    lock = Path(next(filter(None, names), "/tmp")) / "nsight-compute-lock"  # noqa: S108 - it is only looked at
    if lock.exists() and not os.access(lock, os.W_OK):
        yield Problem(
            "failure",
            f"{lock} is another user's, and ncu has to write it",
            "set TMPDIR to a folder of your own on this node",
        )


_OTHERS = {
    "NSYS_PROFILING_SESSION_ID": "Nsight Systems already records this process",
    "CUDA_INJECTION64_PATH": "another profiler is injected into CUDA (CUDA_INJECTION64_PATH)",
    "KINETO_USE_DAEMON": "torch's profiler may be started from outside (KINETO_USE_DAEMON)",
    "KINETO_CONFIG": "torch's profiler is configured from outside (KINETO_CONFIG)",
    "VLLM_TORCH_PROFILER_DIR": "vLLM may start torch's profiler (VLLM_TORCH_PROFILER_DIR)",
    "SGLANG_TORCH_PROFILER_DIR": "SGLang may start torch's profiler (SGLANG_TORCH_PROFILER_DIR)",
    "TLLM_TORCH_PROFILE_TRACE": "TensorRT-LLM may start torch's profiler (TLLM_TORCH_PROFILE_TRACE)",
}
"""Variables that reveal another user of CUPTI, which allows one at a time."""


def _one_cupti(node: Node, command: tuple[str, ...]) -> Iterator[Problem]:
    reasons = [words for name, words in _OTHERS.items() if node.environment.get(name)]
    reasons += [f"{word} names torch.profiler" for word in command if word.endswith(".py") and _profiles(Path(word))]
    for words in reasons:
        yield Problem(
            "warning",
            f"{words}, and CUDA lets one profiler record at a time (CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)",
            "switch one of the two off",
        )


def _profiles(script: Path) -> bool:
    """Whether a script mentions torch's profiler outside of its comments."""
    try:
        with script.open("rb") as file:
            text = file.read(_LONGEST_SCRIPT)
    except OSError:
        return False
    return re.search(rb"^[^#\n]*\btorch\.profiler\b", text, re.MULTILINE) is not None


_NEEDS: dict[Need, Callable[[Node, tuple[str, ...]], Iterator[Problem]]] = {
    "gpu-counters": _gpu_counters,
    "perf-events": _perf_events,
    "hardware-events": _hardware_events,
    "temporary-space": _temporary_space,
    "one-cupti": _one_cupti,
    "ptrace": _ptrace,
    "ptrace-any": _ptrace_any,
    "ncu-lock": _ncu_lock,
}


def _free(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"
