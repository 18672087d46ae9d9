"""Answers part of a report's questions in a second process: most of an answer is planning of queries and other work
that one process does serially.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from stepscope.api.trace import Trace
from stepscope.base.cpu_quota import processors
from stepscope.report.page_data import Helper, OpenRecording, Report
from stepscope.store.open import Store
from stepscope.store.worker_process import conversation, limit_imports, started

_MAX_BYTES = 64 << 20
"""Stores with more bytes of events are asked by one process: two would need twice the memory."""


@contextmanager
def helping(recordings: Sequence[OpenRecording], *, with_paths: bool) -> Iterator[Helper | None]:
    """Starts a process that helps with a report; None with one processor, or if it could not open the recordings."""
    stores = [recording.trace.store for recording in recordings]
    tables = ("host_event", "device_event")
    stored = sum(store.stored_bytes(table) for store in stores for table in tables)
    threads = int(processors()) // 2
    if not threads or stored > _MAX_BYTES or any(store.directory is None for store in stores):
        yield None
        return
    request = {
        "with_paths": with_paths,
        "threads": threads,
        "recordings": [
            {"name": recording.name, "store": str(recording.trace.store.directory), **recording.trace.asked_of}
            for recording in recordings
        ],
    }
    try:
        process = started(__name__)
    except OSError:
        yield None
        return
    for store in stores:
        store.threads = threads
    try:
        yield _Process(process, request)
    finally:
        process.kill()
        process.communicate()


class _Process:
    """The helper, seen from the process that started it."""

    def __init__(self, process: subprocess.Popen[str], request: dict[str, Any]) -> None:
        self._process = process
        self._hello: dict[str, Any] | None = None
        self._send(request)

    def make(self, place: int, *, of: int) -> Any:
        """Returns what it makes of one place; None if it has ended, cannot, or has other questions than this
        process."""
        if self._hello is None:
            self._hello = self._receive()
        if self._hello.get("questions") != of:
            return None
        self._send(place)
        return self._receive().get("result")

    def _send(self, what: Any) -> None:
        assert self._process.stdin is not None  # noqa: S101 - PIPE was asked for
        with suppress(OSError):
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - PIPE was asked for
        with suppress(OSError, ValueError):
            message = json.loads(self._process.stdout.readline())
            return message if isinstance(message, dict) else {}
        return {}


def main() -> int:
    """Reads places from stdin, one per line, and writes a JSON object per line to stdout."""
    limit_imports()
    lines, send = conversation()
    request = json.loads(next(lines))
    recordings = []
    for recording in request["recordings"]:
        store = Store.open(recording["store"])
        store.threads = request["threads"]
        recordings.append(
            OpenRecording(recording["name"], Trace(store, ranks=recording["ranks"], steps=recording["steps"]))
        )
    with Report(recordings, with_paths=request["with_paths"]) as report:
        send(questions=len(report.questions))
        for line in lines:
            result = None
            with suppress(Exception):  # the process that asked then asks itself, and finds the same error
                result = report.make(int(line))
            send(result=result)
    return 0
