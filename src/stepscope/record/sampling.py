"""Samples a script's call stacks, Python and native, with py-spy, from outside while it runs.

py-spy is a separate process, which stops a thread while it unwinds native frames. Its parent is a shell that resumes
us if py-spy dies meanwhile. A failure costs the samples and one warning, never the job.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from stepscope.record.hardware.sampler import HardwareSampler
from stepscope.record.inline.documents import file_name, host_document
from stepscope.record.output import Who, keep_copy, keep_json
from stepscope.record.trouble import warn_once

RATE = 100
"""Samples per second: as many as a person can use, and py-spy's default."""

_WATCHED = 'read -r go || exit 0; trap : INT; "$@"; code=$?; kill -CONT "$PPID" 2>/dev/null; exit $code'
"""The shell's command: it waits until py-spy may read us. A killed tracer can leave the traced process stopped."""
_SET_PTRACER = 0x59616D61
"""Lets a process other than an ancestor read this one under Yama. Source: prctl(2), PR_SET_PTRACER."""
_PATIENCE_SECONDS = 60.0
_REFUSAL_SECONDS = 0.25


class Sampling:
    """Samples this process and its descendants from `start` to `stop`, and with `host` their usage of the machine."""

    def __init__(self, out: Path, *, host: bool = True) -> None:
        self._out = out
        self._who = Who()
        self._pid = os.getpid()
        self._began_epoch_ns = time.time_ns()
        self._hardware = HardwareSampler() if host else None
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._file: Path | None = None
        self.why_not: str | None = None
        """Why there are no samples, or not of everything; None if all went well."""

    def start(self) -> None:
        """Starts py-spy, or warns that it does not run; the script continues either way."""
        if self._hardware is not None:
            self._hardware.start()
        try:
            self._start()
        except Exception as error:
            self._process = None
            self._fail(f"{type(error).__name__}: {error}", "the script runs without being sampled: {}")

    def stop(self) -> list[Path]:
        if os.getpid() != self._pid:
            return []
        written = []
        try:
            written += self._end()
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}", "the samples could not be written: {}")
        figures = None
        if self._hardware is not None:
            self._hardware.stop()
            figures = self._hardware.figures()
        if figures is not None:
            process = self._who.named()
            document = host_document(figures, process, self._began_epoch_ns)
            path = keep_json(
                self._out,
                file_name(process, "host"),
                document,
                what="what the process took of the host",
                since_epoch_s=self._began_epoch_ns / 1e9,
                other_name=file_name(process, "host", by_pid=True),
            )
            written += [] if path is None else [path]
        return written

    def _fail(self, why: str, message: str) -> None:
        self.why_not = why
        warn_once(message.format(why))

    def _start(self) -> None:
        py_spy = _py_spy()
        if py_spy is None:
            self._fail("py-spy was not found: pip install py-spy", "the script runs without being sampled: {}")
            return
        self._out.mkdir(parents=True, exist_ok=True)
        process = self._who.process()
        # py-spy writes it at the end, even for a killed process, and another job may use the same folder.
        self._file = self._out / f"{process.host}.pid{self._pid}.rank{process.rank}.speedscope.json"
        # Includes subprocesses, and native code if it can be unwound.
        words = [py_spy, "record", "-p", str(self._pid), "-r", str(RATE)]
        words += ["-s", "-f", "speedscope", "-o", str(self._file)]
        if platform.machine() in ("x86_64", "AMD64"):
            words.append("-n")
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # read and closed when py-spy has ended
        self._process = subprocess.Popen(  # noqa: S603  # the user's own py-spy
            ["/bin/sh", "-c", _WATCHED, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            # Keys of the terminal are meant for the script.
            start_new_session=True,
        )
        _let_read_us(self._process.pid)
        if self._process.stdin is not None:
            with suppress(OSError), self._process.stdin as pipe:
                pipe.write(b"go\n")
        # It refuses at once if it may not read us. Not checked in a thread, which would be among the samples.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_REFUSAL_SECONDS)
            self._ended_early()

    def _ended_early(self) -> None:
        self._process = None
        self._fail(f"py-spy ended early: {self._last_words()}", "{}; the script is not sampled from then on")

    def _end(self) -> list[Path]:
        process = self._process
        if process is None:
            return []
        if process.poll() is not None:
            self._ended_early()
        else:
            with suppress(OSError):  # the script may have deleted it
                self._out.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                with suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                self._fail(f"py-spy did not end within {_PATIENCE_SECONDS:.0f} s", "{}; its samples are lost")
                return []
        if self._file is not None and self._file.exists():
            return self._store(self._file)
        if self._process is not None:
            self._fail(f"py-spy wrote no samples: {self._last_words()}", "{}")
        return []

    def _store(self, file: Path) -> list[Path]:
        """Gives the samples the name of an earlier run's, unless another job uses it."""
        name = file.name.replace(f".pid{self._pid}.rank", ".rank")
        since_epoch_s = self._began_epoch_ns / 1e9
        path = keep_copy(self._out, name, file, what="the samples", since_epoch_s=since_epoch_s, other_name=file.name)
        if path not in (None, file):
            file.unlink()
        return [file] if path is None else [path]

    def _last_words(self) -> str:
        if self._output is None:
            return ""
        self._output.seek(0)
        lines = self._output.read().decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if "Error" in line or "rror:" in line]
        return (errors or lines or ["it printed nothing"])[0]


def _py_spy() -> str | None:
    """Finds the program, including in an environment that was not activated."""
    folder = str(Path(sys.executable).parent)
    return shutil.which("py-spy") or shutil.which("py-spy", path=folder)


def _let_read_us(pid: int) -> None:
    """Allows a process and its descendants to read this one, if the system requires that."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
