"""Small databases as nvprof writes them: a few kernels, calls and markers, made in the test."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stepscope.bundled.nvprof.reader import read
from stepscope.formats.container import members
from stepscope.formats.options import ReadOptions
from stepscope.formats.tables import RankTables

BEGIN, END, INSTANT = 2, 4, 1
MAIN, AUTOGRAD = 11, 22

_TABLES = {
    "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": (
        "start end deviceId contextId streamId gridX gridY gridZ blockX blockY blockZ "
        "staticSharedMemory dynamicSharedMemory registersPerThread correlationId name"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "copyKind srcKind dstKind bytes start end deviceId contextId streamId correlationId"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": "bytes start end deviceId contextId streamId correlationId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "cbid start end processId threadId correlationId",
    "CUPTI_ACTIVITY_KIND_DRIVER": "cbid start end processId threadId correlationId",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "overheadKind start end",
    "CUPTI_ACTIVITY_KIND_MARKER": "flags timestamp id objectKind objectId name domain",
    "CUPTI_ACTIVITY_KIND_METRIC": "id value correlationId flags",
    "CUPTI_ACTIVITY_KIND_METRIC_INSTANCE": "id value instance correlationId flags",
    "CUPTI_ACTIVITY_KIND_ENVIRONMENT": "deviceId timestamp environmentKind data",
    "CUPTI_ACTIVITY_KIND_EVENT": "id value domain correlationId",
    "CUPTI_ACTIVITY_KIND_EVENT_INSTANCE": "id domain instance value correlationId",
    "CUPTI_ACTIVITY_KIND_DEVICE": (
        "id name numMultiprocessors globalMemorySize computeCapabilityMajor "
        "computeCapabilityMinor numThreadsPerWarp maxWarpsPerMultiprocessor"
    ),
}
LAUNCH_KERNEL = 211


class Nvprof:
    """A database in the making. Times are ns; a range is (begin, end, text)."""

    def __init__(self, path: Path, *, without: Iterable[str] = ()) -> None:
        self.path = path
        self.connection = sqlite3.connect(path)
        self.connection.execute("CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY, value TEXT)")
        self.strings: dict[str, int] = {}
        self.markers = 0
        for table, columns in _TABLES.items():
            if table not in without:
                listed = ", ".join(f"{name} INT" for name in columns.split())
                self.connection.execute(f"CREATE TABLE {table}(_id_ INTEGER PRIMARY KEY, {listed})")

    def insert(self, table: str, **values: Any) -> Nvprof:
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        self.connection.execute(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_{table}({names}) VALUES ({marks})", tuple(values.values())
        )
        return self

    def string(self, text: str) -> int:
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.connection.execute("INSERT INTO StringTable VALUES (?, ?)", (self.strings[text], text))
        return self.strings[text]

    def launch(self, at: int, correlation: int, kernel: str, start: int, end: int, thread: int = MAIN) -> Nvprof:
        """A kernel and the call that launched it."""
        self.insert(
            "RUNTIME", cbid=LAUNCH_KERNEL, start=at, end=at + 2, processId=7, threadId=thread, correlationId=correlation
        )
        return self.insert(
            "CONCURRENT_KERNEL", start=start, end=end, deviceId=0, contextId=1, streamId=7, gridX=80, gridY=2,
            gridZ=1, blockX=128, blockY=1, blockZ=1, staticSharedMemory=16, dynamicSharedMemory=32,
            registersPerThread=24, correlationId=correlation, name=self.string(kernel),
        )  # fmt: skip

    def ranges(self, *given: tuple[int, int, str], thread: int = MAIN, domain: str = "") -> Nvprof:
        who = struct.pack("<iq", 7, thread)
        for begin, end, text in given:
            self.markers += 1
            for flags, time, name in ((BEGIN, begin, self.string(text)), (END, end, 0)):
                self.insert(
                    "MARKER", flags=flags, timestamp=time, id=self.markers, objectKind=2,
                    objectId=who, name=name, domain=self.string(domain) if domain else 0,
                )  # fmt: skip
        return self

    def device(self) -> Nvprof:
        return self.insert(
            "DEVICE", id=0, name=self.string("Tesla V100-SXM2-16GB"), numMultiprocessors=80,
            globalMemorySize=16_914_055_168, computeCapabilityMajor=7, computeCapabilityMinor=0,
            numThreadsPerWarp=32, maxWarpsPerMultiprocessor=64,
        )  # fmt: skip

    def written(self) -> Path:
        self.connection.commit()
        self.connection.close()
        return self.path

    def read(self, **options: Any) -> RankTables:
        return read_file(self.written(), **options)


def read_file(path: Path, **options: Any) -> RankTables:
    (member,) = members(path)
    return read(member, ReadOptions(**options))


def call(module: str, operation: str, *arguments: str) -> str:
    """The marker of a call, as PyProf writes it."""
    return f"{{'mod': '{module}', 'op': '{operation}', 'args': [{', '.join(arguments)}]}}"


def tensor(*shape: int, dtype: str = "float32", name: str = "") -> str:
    return f"{{'name': '{name}', 'type': 'tensor', 'shape': {shape!r}, 'dtype': '{dtype}'}}"


def scalar(value: Any, name: str = "") -> str:
    return f"{{'name': '{name}', 'type': '{type(value).__name__}', 'value': {value!r}}}"


def stack(*frames: str) -> str:
    return f"{{'traceMarker': {list(frames)!r}}}"
