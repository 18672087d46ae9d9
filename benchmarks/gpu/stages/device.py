"""Records the device, driver and versions of the run, and which tools are installed."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from gpu.stages.surroundings import DEVICE, outcome_of, run

TOOLS = {
    "nsys": ("--version",),
    "ncu": ("--version",),
    "py-spy": ("--version",),
    "nvidia-smi": ("--query-gpu=driver_version", "--format=csv,noheader"),
}
_ELSEWHERE = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute/*", "/opt/nvidia/nsight-systems/*/bin")


def find_tool(name: str) -> str | None:
    """Finds a tool on the path, or where NVIDIA's packages install it."""
    found = shutil.which(name)
    if found is not None:
        return found
    folders = [folder for pattern in _ELSEWHERE for folder in Path("/").glob(pattern[1:])]
    return next((str(one / name) for one in sorted(folders, reverse=True) if (one / name).is_file()), None)


def versions() -> dict[str, Any]:
    """The versions behind a recording."""
    told: dict[str, Any] = {
        "device": None,
        "driver": None,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
    }
    smi = find_tool("nvidia-smi")
    if smi is not None:
        asked = run([smi, *TOOLS["nvidia-smi"]], 20)
        told["driver"] = asked.printed.strip().splitlines()[0] if asked.code == 0 else None
    if DEVICE == "cuda" and torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        told["device"] = properties.name
        told["multiprocessors"] = properties.multi_processor_count
        told["memory_bytes"] = properties.total_memory
        told["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
        told["cudnn"] = torch.backends.cudnn.version()
    return told


def main() -> int:
    found = outcome_of("device")
    found.figure("versions", versions())
    tools = {}
    for name, asked in TOOLS.items():
        where = find_tool(name)
        lines = run([where, *asked], 20).printed.strip().splitlines() if where else []
        tools[name] = f"{where}: {lines[-1]}" if where and lines else "not here"
    found.figure("tools", tools)
    if DEVICE == "cpu":
        found.note("tried on a CPU: what needs a device is left out, and no figure is of one")
        return 0
    if not torch.cuda.is_available():
        found.claim("torch sees a CUDA device", False)
        print(f"torch {torch.__version__} sees no CUDA device here; --device cpu tries the stages without")
        return 1
    product = torch.ones(256, 256, device="cuda") @ torch.ones(256, 256, device="cuda")
    found.claim("torch computes on the device", product.sum().item() == 256.0**3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
