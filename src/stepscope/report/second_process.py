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
from stepscope.report.page_data import Helper, Report, Shown
from stepscope.store.open import Store
from stepscope.store.own_process import conversation, own_process, started

_MOST_BYTES = 64 << 20
"""Stores with more bytes of events are asked by one process: two would need twice the memory."""


@contextmanager
def helping(shown: Sequence[Shown], *, with_paths: bool) -> Iterator[Helper | None]:
    """Starts a process that helps with a report; None with one processor, or if it could not open the recordings."""
    stores = [one.trace.store for one in shown]
    tables = ("host_event", "device_event")
    stored = sum(store.stored_bytes(table) for store in stores for table in tables)
    threads = int(processors()) // 2
    if not threads or stored > _MOST_BYTES or any(store.directory is None for store in stores):
        yield None
        return
    asked = {
        "with_paths": with_paths,
        "threads": threads,
        "recordings": [
            {"name": one.name, "store": str(one.trace.store.directory), **one.trace.asked_of} for one in shown
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
        yield _Process(process, asked)
    finally:
        process.kill()
        process.communicate()


class _Process:
    """The helper, seen from the process that started it."""

    def __init__(self, process: subprocess.Popen[str], asked: dict[str, Any]) -> None:
        self._process = process
        self._told: dict[str, Any] | None = None
        self._tell(asked)

    def make(self, place: int, *, of: int) -> Any:
        """Returns what it makes of one place; None if it has ended, cannot, or has other questions than this
        process."""
        if self._told is None:
            self._told = self._heard()
        if self._told.get("asked") != of:
            return None
        self._tell(place)
        return self._heard().get("made")

    def _tell(self, what: Any) -> None:
        assert self._process.stdin is not None  # noqa: S101 - PIPE was asked for
        with suppress(OSError):
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - PIPE was asked for
        with suppress(OSError, ValueError):
            heard = json.loads(self._process.stdout.readline())
            return heard if isinstance(heard, dict) else {}
        return {}


def main() -> int:
    """Reads places from stdin, one per line, and writes a JSON object per line to stdout."""
    own_process()
    lines, tell = conversation()
    asked = json.loads(lines.readline())
    shown = []
    for one in asked["recordings"]:
        store = Store.open(one["store"])
        store.threads = asked["threads"]
        shown.append(Shown(one["name"], Trace(store, ranks=one["ranks"], steps=one["steps"])))
    with Report(shown, with_paths=asked["with_paths"]) as report:
        tell(asked=len(report.asked))
        for line in lines:
            made = None
            with suppress(Exception):  # the process that asked then asks itself, and finds the same error
                made = report.make(int(line))
            tell(made=made)
    return 0
