"""Runs a training under nsys and ncu with `stepscope launch`; reads their reports and keeps them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from gpu.stages.device import find_tool
from gpu.stages.kept import keep
from gpu.stages.surroundings import DEVICE, ROOT, SCRATCH, STEPSCOPE, outcome_of, run

SECONDS = 45.0
_ENDINGS = {"nsys": (".nsys-rep",), "ncu": (".ncu-rep",)}
_EXPORTED = {"nsys": ".sqlite", "ncu": ".csv"}
_OPTIONS = {
    "nsys": (),
    # Leaves the device's clocks alone.
    "ncu": ("--clock-control", "none", "--launch-count", "40", "--"),
}


def launched(found: Any, tool: str, where: str) -> None:
    """Runs the job under a tool, and reads and keeps what it wrote."""
    folder = SCRATCH / tool
    job = [sys.executable, "examples/gpt.py", "--steps", "12", "--device", DEVICE, "--deterministic"]
    command = [*STEPSCOPE, "launch", "--tool", tool, "--steps", "8-9", "-o", folder]
    command += ["--nvtx"] if tool == "nsys" else ["--set", "roofline"]
    command += ["--", *_OPTIONS[tool], *job]
    path = os.pathsep.join([str(Path(where).parent), os.environ["PATH"]])
    ended = run(command, SECONDS, cwd=ROOT, more={"PATH": path})
    print(ended.printed)
    reports = [one for ending in _ENDINGS[tool] for one in sorted(folder.rglob(f"*{ending}"))]
    found.claim(
        f"the training ends under {tool} and a report is written",
        ended.code == 0 and bool(reports),
        seconds=ended.seconds,
        **({} if reports else {"why": ended.last_line()}),
    )
    if not reports:
        return
    question = "gpu-summary" if tool == "nsys" else "metrics"
    asked = run([*STEPSCOPE, question, reports[0]], 40, more={"PATH": path})
    print(asked.printed)
    found.claim(f"stepscope {question} answers of {tool}'s report", asked.code == 0)
    # A report needs the tool's version that wrote it, or a newer one; what that prints needs none.
    export = folder / f"gpt{_EXPORTED[tool]}"
    if tool == "nsys":
        printed = run([where, "export", "--type", "sqlite", "-o", export, reports[0]], 40)
    else:
        printed = run([where, "--import", reports[0], "--csv", "--page", "raw"], 40)
        export.write_text(printed.printed, "utf-8")
    if not export.is_file() or printed.code:
        found.note(f"{tool} could not export its report: {printed.last_line()}")
        return
    typed = " ".join(str(part) for part in command).replace(str(SCRATCH), "")
    for line in keep(f"gpt-{tool}", [export], typed.replace(sys.executable, "python")):
        found.note(line)


def main() -> int:
    found = outcome_of("tools")
    for tool in ("ncu", "nsys"):
        where = find_tool(tool)
        if where is None:
            found.note(f"{tool} is not here")
        elif tool == "ncu" and DEVICE == "cpu":
            found.note("ncu needs a GPU")
        else:
            launched(found, tool, where)
    return 0


if __name__ == "__main__":
    sys.exit(main())
