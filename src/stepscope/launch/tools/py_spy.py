"""py-spy: samples Python call stacks from outside the process.

With `kernel.yama.ptrace_scope` 1, Linux lets a process look only into its descendants, so py-spy is the command's
parent.
"""

from __future__ import annotations

from pathlib import Path

from stepscope.launch.tool import Request, Tool, Written

_ENDINGS = {"speedscope": "speedscope.json", "raw": "raw.txt"}
_SHORT = {"-f": "--format", "-o": "--output", "-d": "--duration", "-r": "--rate", "-s": "--subprocesses"}


def _arguments(request: Request) -> list[str]:
    set_name = request.set_name or "speedscope"
    ours = ["--subprocesses", f"--format={set_name}"]
    if request.duration_s is not None:
        # Seconds are integers, at least 1.
        ours.append(f"--duration={max(1, round(request.duration_s))}")
    output = f"--output={request.stem}.{_ENDINGS[set_name]}"
    return ["record", *request.merged(ours, _SHORT), output, "--"]


def _lacks(file: Path, _py_spy: str) -> str:
    size = file.stat().st_size
    if not size:
        return "it is empty"
    if file.suffix != ".json":
        return ""
    with file.open("rb") as text:
        text.seek(max(0, size - 16))
        return "" if text.read().rstrip().endswith(b"}") else "it ends early"


PY_SPY = Tool(
    name="py-spy",
    about="py-spy: sampled call stacks of Python",
    way="around",
    executables=("py-spy",),
    arguments=_arguments,
    written=(Written(tuple(f"{{stem}}.{ending}" for ending in _ENDINGS.values()), _lacks),),
    sets=tuple(_ENDINGS),
    delays=("--duration",),
    needs=frozenset({"ptrace"}),
    oldest=(0, 3),
    reads="speedscope",
    question="hotspots",
)
