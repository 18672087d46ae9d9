"""py-spy: samples of the call stacks of Python, from outside of it.

A process may look into those below it where Linux lets nobody look into others (`kernel.yama.ptrace_scope` 1), so
py-spy stands above the command, which is one of its subprocesses.
"""

from __future__ import annotations

from pathlib import Path

from stepscope.launch.tool import Request, Tool, Written

_ENDINGS = {"speedscope": "speedscope.json", "raw": "raw.txt"}
_SHORT = {"-f": "--format", "-o": "--output", "-d": "--duration", "-r": "--rate", "-s": "--subprocesses"}


def _arguments(request: Request) -> list[str]:
    wanted = request.wanted or "speedscope"
    own = ["--subprocesses", f"--format={wanted}"]
    if request.duration_s is not None:
        # Whole seconds, and at least one.
        own.append(f"--duration={max(1, round(request.duration_s))}")
    output = f"--output={request.stem}.{_ENDINGS[wanted]}"
    return ["record", *request.merged(own, _SHORT), output, "--"]


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
