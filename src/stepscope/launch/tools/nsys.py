"""Nsight Systems: a timeline of CUDA, NVTX, cuBLAS and cuDNN.

Sampling and context switches cost most and need permissions. Without `--kill=none` nsys ends the command with the
collection; without `--wait=primary` it waits for processes that the command leaves running.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from stepscope.base.captured_steps import CAPTURE_RANGE
from stepscope.launch.tool import Request, Tool, Written, refused

_SHORT = {
    "-t": "--trace",
    "-s": "--sample",
    "-c": "--capture-range",
    "-p": "--nvtx-capture",
    "-o": "--output",
    "-f": "--force-overwrite",
    "-y": "--delay",
    "-d": "--duration",
    "-x": "--stop-on-exit",
}


def _arguments(request: Request) -> list[str]:
    ours = ["--trace=cuda,nvtx,cublas,cudnn", "--sample=none"]
    if not request.is_older(2021, 2):
        ours.append("--cpuctxsw=none")
    if not request.is_older(2022, 1):
        # Otherwise a graph's kernels are one block from driver 11.7 on.
        ours.append("--cuda-graph-trace=node")
    ours += ["--kill=none", "--wait=primary"]
    if request.capture is not None:
        by_nvtx = request.capture == "nvtx"
        ours.append(f"--capture-range={'nvtx' if by_nvtx else 'cudaProfilerApi'}")
        if by_nvtx:
            ours += [f"--nvtx-capture={CAPTURE_RANGE}", "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0"]
        ours.append("--stop-on-range-end=true" if request.is_older(2021, 3) else "--capture-range-end=stop")
    if request.delay_s is not None:
        ours.append(f"--delay={request.delay_s:g}")
    if request.duration_s is not None:
        ours.append(f"--duration={request.duration_s:g}")
    return ["profile", *request.merged(ours, _SHORT), f"--output={request.literal_stem}"]


def _lacks(report: Path, nsys: str) -> str:
    """What `nsys export` reports missing; for `info` it reads the table of sections and no events."""
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        return refused([nsys, "export", "--type", "info", "--output", f"{folder}/info", report])


NSYS = Tool(
    name="nsys",
    about="Nsight Systems: CUDA, NVTX, cuBLAS and cuDNN on a timeline",
    way="around",
    executables=("nsys",),
    arguments=_arguments,
    written=(Written(("{stem}.nsys-rep", "{stem}.[0-9]*.nsys-rep", "{stem}.qdrep"), _lacks),),
    captures=("cuda-profiler", "nvtx"),
    delays=("--delay", "--duration"),
    needs=frozenset({"temporary-space", "one-cupti"}),
    oldest=(2020, 1),
    reads="nsys",
)
