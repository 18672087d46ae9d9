"""The file of a trace: its name, and how it comes to be whole."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from stepscope.record.output import keep
from stepscope.record.ranks import Process
from stepscope.record.trouble import say_once

_COMPRESSION = 3  # twice the size of level 9's effort would save a tenth


def trace_name(name: str, process: Process, first_step: int | None) -> str:
    """`{name}-{rank}-of-{world_size}`, with the first step before it when there are several files.

    >>> from stepscope.record.ranks import process_from
    >>> trace_name("train", process_from({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}), 100)
    'train.step100-3-of-8'
    """
    step = "" if first_step is None else f".step{first_step}"
    return f"{name}{step}-{process.rank}-of-{process.world_size}"


def write_trace(
    export: Callable[[str], object], out: Path, name: str, max_bytes: int
) -> Path | None:
    """Exports a trace to temporary space, compresses it into its directory and renames it.

    Args:
        export: writes the trace's JSON to a path.
        out: the directory.
        name: the file's name without `.json.gz`.
        max_bytes: text larger than this is not written.

    Returns:
        Where it is; None when it could not be written, which has been said.
    """
    with tempfile.TemporaryDirectory(prefix="stepscope-") as space:
        raw = Path(space) / "trace.json"
        export(str(raw))
        size = raw.stat().st_size
        if size > max_bytes:
            say_once(
                f"the trace {name} is not written: its text has {size >> 20} MiB, more than max_mb; "
                "record fewer steps, or without stacks"
            )
            return None

        def compress(file: BinaryIO) -> None:
            with (
                raw.open("rb") as text,
                gzip.GzipFile(
                    filename="", mode="wb", compresslevel=_COMPRESSION, fileobj=file, mtime=0
                ) as packed,
            ):
                shutil.copyfileobj(text, packed, 1 << 20)

        return keep(out, f"{name}.json.gz", compress, what="the trace")


def write_snapshot(out: Path, name: str) -> Path | None:
    """Writes the CUDA allocator's history as `{name}.memory.pickle`; None without CUDA."""
    import torch

    if not torch.cuda.is_available():
        return None
    with tempfile.TemporaryDirectory(prefix="stepscope-") as space:
        raw = Path(space) / "memory.pickle"
        torch.cuda.memory._dump_snapshot(str(raw))

        def copy(file: BinaryIO) -> None:
            with raw.open("rb") as snapshot:
                shutil.copyfileobj(snapshot, file, 1 << 20)

        return keep(out, f"{name}.memory.pickle", copy, what="the memory snapshot")
