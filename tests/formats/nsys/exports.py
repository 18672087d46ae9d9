"""Small exports as `nsys export --type sqlite` writes them, made in the test."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from stepscope.formats.container import members
from stepscope.formats.nsys.reader import read
from stepscope.formats.options import ReadOptions
from stepscope.formats.tables import RankTables

PROCESS = 144
_MACHINE = 1 << 48


def global_pid(pid: int = PROCESS) -> int:
    return _MACHINE | pid << 24


def global_tid(tid: int, pid: int = PROCESS) -> int:
    return global_pid(pid) | tid


class Nsys:
    """An export in the making; a table has the columns of its first row."""

    def __init__(self, path: Path, *, strings: bool = True) -> None:
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.numbers: dict[str, int] | None = {} if strings else None
        if strings:
            self.connection.execute("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT)")
        self.insert("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2024.5.1.113")

    def insert(self, table: str, **values: Any) -> Nsys:
        columns = ", ".join(f'"{name}"' for name in values)
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {table}({columns})")
        marks = ", ".join("?" * len(values))
        self.connection.execute(f"INSERT INTO {table}({columns}) VALUES ({marks})", tuple(values.values()))
        return self

    def text(self, text: str) -> int | str:
        """The number of a string, or the text where the export has no strings."""
        if self.numbers is None:
            return text
        if text not in self.numbers:
            self.numbers[text] = len(self.numbers) + 1
            self.connection.execute("INSERT INTO StringIds VALUES (?, ?)", (self.numbers[text], text))
        return self.numbers[text]

    def launch(
        self, at: int, correlation: int, kernel: str, start: int, end: int, *,
        pid: int = PROCESS, tid: int | None = None, device: int = 0,
    ) -> Nsys:  # fmt: skip
        """A kernel and the call that launched it."""
        self.insert(
            "CUPTI_ACTIVITY_KIND_RUNTIME", start=at, end=at + 2, eventClass=0,
            globalTid=global_tid(pid if tid is None else tid, pid), correlationId=correlation,
            nameId=self.text("cudaLaunchKernel_v7000"),
        )  # fmt: skip
        return self.insert(
            "CUPTI_ACTIVITY_KIND_KERNEL", start=start, end=end, deviceId=device, contextId=device + 1, streamId=7,
            correlationId=correlation, globalPid=global_pid(pid), demangledName=self.text(kernel),
            shortName=self.text(kernel.partition("<")[0]), gridX=80, gridY=2, gridZ=1, blockX=128, blockY=1,
            blockZ=1, registersPerThread=32, staticSharedMemory=16, dynamicSharedMemory=32, graphNodeId=0,
        )  # fmt: skip

    def range(
        self, start: int, end: int | None, text: str, *, tid: int = PROCESS, pid: int = PROCESS,
        kind: int = 59, domain: int = 0, registered: bool = False,
    ) -> Nsys:  # fmt: skip
        """An NVTX range; `registered` for a text that the program registered before."""
        return self.insert(
            "NVTX_EVENTS", start=start, end=end, eventType=kind, rangeId=None, category=None,
            text=None if registered else text, textId=self.text(text) if registered else None,
            globalTid=global_tid(tid, pid), endGlobalTid=None, domainId=domain,
        )  # fmt: skip

    def read(self, process: str | None = None, **options: Any) -> RankTables:
        (member,) = members(self.path)
        return read(member.of_process(process), ReadOptions(**options))


def host(tables: RankTables, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in tables.host_event.to_pylist()]


def device(tables: RankTables, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in tables.device_event.to_pylist()]
