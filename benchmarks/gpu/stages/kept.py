"""Keeps recordings for tests: small files in `recordings/`, each folder with how it was made.

`tests/data/gpu` has the same layout: a folder per recording, with its files and `made.json`, which has the command, the
versions and counts from the raw files without StepScope. `tests/gpu/test_kept_recordings.py` reads them all.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu.stages.device import versions
from gpu.stages.surroundings import OUT

LARGEST = 3_000_000
"""Size limit of a kept file, compressed (bytes)."""
_PACKED = (".gz", ".zst")


def keep(name: str, files: Sequence[Path], command: str, known: Mapping[str, Any] | None = None) -> list[str]:
    """Copies a recording's files, compressing uncompressed ones.

    Args:
        name: name of its folder.
        files: the recorded files.
        command: the command that recorded them, as typed.
        known: values that a reader of the files must find, counted by other means.

    Returns:
        What was not kept and why, one line each.
    """
    folder = OUT / "recordings" / name
    folder.mkdir(parents=True, exist_ok=True)
    left_out = []
    for file in files:
        target = folder / (file.name if file.suffix in _PACKED else f"{file.name}.gz")
        if file.suffix in _PACKED:
            shutil.copyfile(file, target)
        else:
            target.write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
        if target.stat().st_size > LARGEST:
            left_out.append(f"{name}/{target.name}: {target.stat().st_size:,} bytes, not kept")
            target.unlink()
    made = {"command": command, **versions(), "known": dict(known or {})}
    (folder / "made.json").write_text(json.dumps(made, indent=1), "utf-8")
    return left_out


def raw_events(trace: Path) -> list[dict[str, Any]]:
    """The events of a torch.profiler trace, read only with `json`."""
    text = gzip.decompress(trace.read_bytes()) if trace.suffix == ".gz" else trace.read_bytes()
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return events


def counted(trace: Path) -> dict[str, int]:
    """Numbers of kernels, copies, fills and operators in a trace, and the time of its kernels (ns)."""
    events = [one for one in raw_events(trace) if one.get("ph") == "X"]
    kinds = Counter(one.get("cat") for one in events)
    return {
        "kernels": kinds["kernel"],
        "kernel_ns": sum(round(1000 * one["dur"]) for one in events if one["cat"] == "kernel"),
        "copies": kinds["gpu_memcpy"],
        "fills": kinds["gpu_memset"],
        "operators": kinds["cpu_op"],
    }
