"""Exports reports that only their vendor's tool can read, with the installed tool.

A process exports a report once; the export is in a folder for temporary files until the process
ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stepscope.base.errors import SourceError
from stepscope.formats.container import Member, members

ERRORS = {
    "no-vendor-tool": (
        "Only its own tool can read a vendor's report: `nsys` one of Nsight Systems (`.nsys-rep`, `.qdrep`), "
        "`ncu` one of Nsight Compute (`.ncu-rep`), `perf` a recording of Linux perf (`perf.data`). That tool "
        "is not on the PATH here. Export the report where it is, with the command that the message names, and "
        "give the exported file. See [Nsight Systems](nsight-systems.md) and [Nsight "
        "Compute](nsight-compute.md)."
    ),
    "vendor-tool-failed": (
        "The installed `nsys`, `ncu` or `perf` could not export the report. Usually the report is newer than "
        "the tool: export it with the version that recorded it. Or the report is truncated, or the folder for "
        "temporary files (`TMPDIR`) is full."
    ),
}

_PIECE = 1 << 20
_LONGEST_S = 3600
"""No export takes longer; a longer one hangs."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """A tool that exports reports.

    Args:
        tool: its command.
        title: whose reports they are.
        ending: of a report's name.
        made: ending of the export's name.
        arguments: from the report and the file to make.
        prints: whether it prints the export instead of writing the file.
        by_hand: the command that a person types where the tool is installed.
    """

    tool: str
    title: str
    ending: str
    suffix: str
    arguments: Callable[[Path, Path], list[str]]
    by_hand: str
    prints: bool = False

    def export(self, member: Member) -> Member:
        """Exports a report; raises SourceError if the tool is not installed, or fails."""
        status = member.path.stat()
        report = member.of_process(None)
        times = (status.st_mtime_ns, status.st_ctime_ns)
        key = (self.tool, report.path, report.name, status.st_ino, status.st_size, times)
        if key not in _exports:
            _exports[key] = self._export(report, len(_exports))
        (suffix,) = members(_exports[key])
        return suffix

    def _export(self, member: Member, number: int) -> Path:
        tool = shutil.which(self.tool)
        if tool is None:
            raise SourceError(
                f"{member.label}: a report of {self.title}, and there is no {self.tool} here to export it",
                hint=f"where {self.tool} is, {self.by_hand}; then give report{self.suffix}",
                slug="no-vendor-tool",
            )
        report = Path(_folder().name) / f"{number}{self.ending}"
        target = report.with_suffix(self.suffix)
        try:
            with member.open() as stream, report.open("wb") as copy:
                shutil.copyfileobj(stream, copy, _PIECE)
            printed = target if self.prints else target.with_suffix(".out")
            with printed.open("wb") as output:
                done = subprocess.run(  # noqa: S603 - the user's own tool, on a copy whose name is ours
                    [tool, *self.arguments(report, target)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.PIPE,
                    check=False,
                    timeout=_LONGEST_S,
                    env=os.environ | {"LC_ALL": "C"},
                )
            output_text = done.stderr + _start_of(printed)
        except subprocess.TimeoutExpired:
            raise self._failed(member, "it did not end within an hour") from None
        except OSError as error:
            raise self._failed(member, str(error)) from None
        finally:
            report.unlink(missing_ok=True)
        if done.returncode or not target.is_file() or output_text.startswith(b"==ERROR=="):
            words = output_text.decode("utf-8", "replace").replace(str(report), member.label)
            lines = words.removeprefix("==ERROR== ").strip().splitlines()
            raise self._failed(member, lines[-1][:200] if lines else f"exit code {done.returncode}")
        return target

    def _failed(self, member: Member, reason: str) -> SourceError:
        return SourceError(
            f"{member.label}: {self.tool} could not export this report of {self.title} ({reason})",
            hint=f"with the {self.tool} that recorded it, {self.by_hand}; then give report{self.suffix}",
            slug="vendor-tool-failed",
        )


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """The folder for exports, removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="stepscope-export-")


_exports: dict[tuple[object, ...], Path] = {}


def _start_of(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(1000)
