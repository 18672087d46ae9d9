"""Reports of Nsight Systems (`.nsys-rep`, `.qdrep`), exported by the `nsys` that is installed.

The format of a report is NVIDIA's own, and only `nsys` reads it. A process exports a report once: its
copy is kept in a folder for temporary files until the process ends.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from stepscope.floor.errors import SourceError
from stepscope.formats.container import Member, members
from stepscope.formats.nsys.export import NSYS
from stepscope.formats.sniff import EXPORT_A_REPORT
from stepscope.formats.sqlite import MAGIC, Database, opened

_MARK = b"NVIDIA Tegra Profiler Report"
_MARK_ENDS = 512
_PIECE = 1 << 20
_LONGEST_S = 3600
"""No export takes longer; one that does hangs."""

ERRORS = {
    "no-nsys": (
        "A report of Nsight Systems (`.nsys-rep`, `.qdrep`) is read by its own `nsys` alone, which is not "
        "on the PATH here. Export the report where it is, and give the SQLite file that comes out. See "
        "[Nsight Systems](nsight-systems.md)."
    ),
    "nsys-failed": (
        "The installed `nsys` could not export the report. Most often the report is of a newer version "
        "than it: export with the version that recorded. Or the report was cut off, or the folder for "
        "temporary files (`TMPDIR`) is full."
    ),
}


def looks_like_report(head: bytes) -> bool:
    """Whether a file's first bytes are those of a report."""
    return _MARK in head[:_MARK_ENDS]


@contextmanager
def opened_export(member: Member) -> Iterator[Database]:
    """Opens an export, or a report after it was exported.

    Raises:
        SourceError: it cannot be opened, exported, or is damaged.
    """
    with member.open() as stream:
        head = stream.read(_MARK_ENDS)
    if head.startswith(MAGIC) or not looks_like_report(head):
        with opened(member, NSYS) as database:
            yield database
        return
    status = member.path.stat()
    (made,) = members(_exported(member.of_process(None), status.st_size, status.st_mtime_ns))
    with opened(made, NSYS) as database:
        yield database


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="stepscope-nsys-")


_made: dict[tuple[Path, str | None, int, int], Path] = {}


def _exported(member: Member, size: int, changed_ns: int) -> Path:
    """The report as SQLite file; size and time say whether it is still the same report."""
    key = (member.path, member.name, size, changed_ns)
    if key not in _made:
        nsys = shutil.which("nsys")
        if nsys is None:
            raise SourceError(
                f"{member.label}: a report of Nsight Systems, and there is no nsys here to export it",
                hint=f"where nsys is, {EXPORT_A_REPORT}; then give report.sqlite",
                slug="no-nsys",
            )
        _made[key] = _export(nsys, member, len(_made))
    return _made[key]


def _export(nsys: str, member: Member, number: int) -> Path:
    report = Path(_folder().name) / f"{number}.nsys-rep"
    target = report.with_suffix(".sqlite")
    try:
        with member.open() as stream, report.open("wb") as copy:
            shutil.copyfileobj(stream, copy, _PIECE)
        done = subprocess.run(  # noqa: S603 - the user's own nsys, on a copy whose name is ours
            [nsys, "export", "--type", "sqlite", "-o", target, report],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        raise _failed(member, "it did not end within an hour") from None
    except OSError as error:
        raise _failed(member, str(error)) from None
    finally:
        report.unlink(missing_ok=True)
    if done.returncode or not target.is_file():
        lines = (done.stderr + done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise _failed(member, lines[-1][:200] if lines else f"exit code {done.returncode}")
    return target


def _failed(member: Member, reason: str) -> SourceError:
    return SourceError(
        f"{member.label}: nsys could not export this report of Nsight Systems ({reason})",
        hint=f"with the nsys that recorded it, {EXPORT_A_REPORT}; then give report.sqlite",
        slug="nsys-failed",
    )
