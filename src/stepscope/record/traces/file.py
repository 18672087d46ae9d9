"""The file of a trace: its name, and how it is put in place complete.

torch writes a trace's text to a given path, and only once. That path is in temporary space, or in the traces' directory
if that has more room; leftovers of a killed process are removed by the next one.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from stepscope.base.ranks import Process, host_name, is_alive
from stepscope.record.output import keep, keep_copy
from stepscope.record.trouble import warn_once

_COMPRESSION = 3  # level 9 takes twice the effort and saves a tenth
_BLOCK = 1 << 20
_LONGEST_NAME = 160  # bytes; a file name may have 255, and this one is extended
_ABANDONED_SECONDS = 600.0
AFTER_LAST_STEP = "after the last step"
"""Range of what a trace recorded after its last complete step."""


def file_safe(name: str) -> str:
    """Makes a name that stays in its directory and is not hidden there.

    >>> file_safe("../runs/a")
    '_runs_a'
    """
    safe = re.sub(r"[/\\\0-\x1f]", "_", name).lstrip(".").strip()
    return safe.encode(errors="replace")[:_LONGEST_NAME].decode(errors="ignore") or "trace"


def trace_name(name: str, process: Process, first_step: int | None) -> str:
    """`{name}-{rank}-of-{world_size}`, with the first step after the name when there are several files.

    >>> from stepscope.base.ranks import process_from
    >>> trace_name("train", process_from({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}), 100)
    'train.step100-3-of-8'
    """
    step = "" if first_step is None else f".step{first_step}"
    return f"{file_safe(name)}{step}-{process.rank}-of-{process.world_size}"


def write_trace(
    export: Callable[[str], object],
    out: Path,
    name: str,
    max_bytes: int,
    *,
    unfinished_step: int | None = None,
    since_epoch_s: float | None = None,
) -> Path | None:
    """Exports a trace to temporary space, compresses it into its directory and renames it.

    Args:
        max_bytes: text larger than this is not written, with a warning.
        unfinished_step: a step that did not end; its range gets the name `AFTER_LAST_STEP`.
        since_epoch_s: a file that another process has made since then stays; the trace then has its process's number.

    Raises:
        OSError: torch could not write the text.
    """
    with _space(out, max_bytes) as space:
        raw = space / "trace.json"
        export(str(raw))
        if not _complete(raw):
            # torch does not report this, and leaves nothing or half a file.
            raise OSError(f"torch could not write the trace's text to {space.parent}: is it full?")
        size = raw.stat().st_size
        if size > max_bytes:
            warn_once(
                f"the trace {name} is not written: its text has {size >> 20} MiB, more than max_mb; "
                "record fewer steps, or without stacks"
            )
            return None

        def compress(file: BinaryIO) -> None:
            with (
                raw.open("rb") as text,
                gzip.GzipFile(filename="", mode="wb", compresslevel=_COMPRESSION, fileobj=file, mtime=0) as packed,
            ):
                if unfinished_step is None:
                    shutil.copyfileobj(text, packed, _BLOCK)
                else:
                    _copy_renamed(text, packed, unfinished_step)

        path = keep(
            out,
            f"{name}.json.gz",
            compress,
            what="the trace",
            since_epoch_s=since_epoch_s,
            other_name=re.sub(r"(-\d+-of-\d+)?$", rf".pid{os.getpid()}\1", name, count=1) + ".json.gz",
        )
    _sweep_parts(out, name)
    return path


def write_snapshot(out: Path, name: str) -> Path | None:
    """Writes the CUDA allocator's history as `{name}.memory.pickle`."""
    import torch

    with _space(out, 0) as space:
        raw = space / "memory.pickle"
        torch.cuda.memory._dump_snapshot(str(raw))
        return keep_copy(out, f"{name}.memory.pickle", raw, what="the memory snapshot")


def _copy_renamed(text: BinaryIO, packed: gzip.GzipFile, step: int) -> None:
    old = f'"ProfilerStep#{step}"'.encode()
    new = f'"{AFTER_LAST_STEP}"'.encode()
    carried = b""
    while block := text.read(_BLOCK):
        block = (carried + block).replace(old, new)
        # A possible first part of the name is carried to the next block.
        keep_back = min(len(old) - 1, len(block))
        carried = block[len(block) - keep_back :]
        packed.write(block[: len(block) - keep_back])
    packed.write(carried)


def _complete(raw: Path) -> bool:
    try:
        with raw.open("rb") as file:
            file.seek(-min(64, raw.stat().st_size), os.SEEK_END)
            return file.read().rstrip().endswith(b"}")
    except OSError:
        return False


@contextmanager
def _space(out: Path, needed: int) -> Iterator[Path]:
    """Makes a directory for large files: temporary, or next to the traces if there is more room."""
    name = f"stepscope-trace-{host_name()}-{os.getpid()}-"
    place = _roomy(out, needed)
    try:
        _sweep_spaces(place)
        space = Path(tempfile.mkdtemp(prefix="." * (place == out) + name, dir=place))
    except OSError:
        space = Path(tempfile.mkdtemp(prefix=f".{name}", dir=_make_folder(out)))
    try:
        yield space
    finally:
        shutil.rmtree(space, ignore_errors=True)


def _roomy(out: Path, needed: int) -> Path:
    with contextlib.suppress(OSError):
        temporary = Path(tempfile.gettempdir())
        free = shutil.disk_usage(temporary).free
        in_folder = shutil.disk_usage(_make_folder(out)).free if free < needed else 0
        if in_folder <= free or not os.access(out, os.W_OK):
            return temporary
    return out


def _make_folder(out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    return out


def _sweep_spaces(place: Path) -> None:
    """Removes what killed processes of this host left in `place`."""
    pattern = re.compile(rf"\.?stepscope-trace-{re.escape(host_name())}-(\d+)-\w+")
    for path in place.iterdir():
        match = pattern.fullmatch(path.name)
        if match is None:
            continue
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.getuid() and not is_alive(int(match[1])) and _old(path):
                shutil.rmtree(path, ignore_errors=True)


def _sweep_parts(out: Path, name: str) -> None:
    """Removes half-written files of this trace that killed runs left."""
    with contextlib.suppress(OSError):
        for path in out.iterdir():
            if path.name.startswith(f".{name}.json.gz.") and path.name.endswith(".part"):
                with contextlib.suppress(OSError):
                    if _old(path):
                        path.unlink()


def _old(path: Path) -> bool:
    # A process in another container may have the number of one that has ended here, but it is still writing.
    newest = max(entry.lstat().st_mtime for entry in (path, *path.glob("*")))
    return time.time() - newest > _ABANDONED_SECONDS
