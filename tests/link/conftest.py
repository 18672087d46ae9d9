"""Small recordings, written event by event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from stepscope.formats import tables, vocabulary
from stepscope.link.rank import link_rank

CATEGORY = {
    "operator": "cpu_op", "annotation": "user_annotation", "python": "python_function", "runtime": "cuda_runtime",
    "overhead": "overhead", "other": "trace", "computation": "kernel", "communication": "kernel",
    "copy": "gpu_memcpy", "fill": "gpu_memset",
}  # fmt: skip


@dataclass
class Recording:
    """Collects events; `host` and `device` return the id that the event will have after linking."""

    resolution_ns: int = 1
    host_rows: list[dict[str, Any]] = field(default_factory=list)
    device_rows: list[dict[str, Any]] = field(default_factory=list)
    flow_rows: list[dict[str, Any]] = field(default_factory=list)
    memory_rows: list[dict[str, Any]] = field(default_factory=list)
    argument_rows: list[dict[str, Any]] = field(default_factory=list)
    stack_rows: list[dict[str, Any]] = field(default_factory=list)
    input_rows: list[dict[str, Any]] = field(default_factory=list)
    groups: tuple[tables.Group, ...] = ()
    world_size: int | None = None
    track_threads: set[int] = field(default_factory=set)
    module_classes: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    report: tables.ReadReport = field(default_factory=tables.ReadReport)

    def host(self, kind: str, name: str, start: int, end: int, thread: int = 0, **more: Any) -> int:
        role = more.pop("role", vocabulary.host_role(kind, name))
        row = {"category": CATEGORY[kind], "kind": kind, "role": role, "name": name}
        row |= {"thread": thread, "start_ns": start, "dur_ns": end - start, **more}
        self.host_rows.append(row)
        return len(self.host_rows) - 1

    def operator(self, name: str, start: int, end: int, thread: int = 0, **more: Any) -> int:
        return self.host("operator", name, start, end, thread, **more)

    def annotation(self, name: str, start: int, end: int, thread: int = 0, **more: Any) -> int:
        return self.host("annotation", name, start, end, thread, **more)

    def python(self, name: str, start: int, end: int, thread: int = 0, **more: Any) -> int:
        return self.host("python", name, start, end, thread, **more)

    def launch(self, start: int, end: int, correlation: int | None, **more: Any) -> int:
        name = more.pop("name", "cudaLaunchKernel")
        return self.host("runtime", name, start, end, correlation=correlation, **more)

    def device(self, kind: str, name: str, start: int, end: int, **more: Any) -> int:
        """The index of the row among device events."""
        row = {"category": CATEGORY[kind], "kind": kind, "name": name, "device": 0, "stream": 7}
        row |= {"start_ns": start, "dur_ns": end - start, **more}
        self.device_rows.append(row)
        return len(self.device_rows) - 1

    def kernel(self, start: int, end: int, correlation: int | None = None, **more: Any) -> int:
        name = more.pop("name", "gemm")
        kind = more.pop("kind", "computation")
        return self.device(kind, name, start, end, correlation=correlation, **more)

    def flow(self, category: str, phase: str, flow_id: int, time: int, pid: str, tid: str) -> None:
        row = {"category": category, "phase": phase, "flow_id": flow_id}
        self.flow_rows.append({**row, "time_ns": time, "pid": pid, "tid": tid})

    def tables(self) -> tables.RankTables:
        threads = {row["thread"] for row in self.host_rows} | {0}
        threads |= {row["thread"] for row in self.memory_rows if "thread" in row}
        thread_rows = [
            {
                "thread": number, "pid": "100", "tid": str(200 + number),
                "kind": "track" if number in self.track_threads else "thread",
            }
            for number in sorted(threads)
        ]  # fmt: skip
        return tables.RankTables(
            tables.Facts(
                resolution_ns=self.resolution_ns, module_classes=self.module_classes, groups=self.groups,
                world_size=self.world_size, metadata=self.metadata,
            ),
            self.report, host_event=table(self.host_rows, tables.READ["host_event"]),
            device_event=table(self.device_rows, tables.READ["device_event"]),
            call_stack=table(self.stack_rows, tables.READ["call_stack"]),
            operator_input=table(self.input_rows, tables.READ["operator_input"]),
            collective_args=table(self.argument_rows, tables.READ["collective_args"]),
            thread=table(thread_rows, tables.READ["thread"]),
            memory_event=table(self.memory_rows, tables.READ["memory_event"]),
            flow=table(self.flow_rows, tables.READ["flow"]),
        )  # fmt: skip

    def link(self) -> Linked:
        return Linked(link_rank(self.tables()).tables, len(self.host_rows))


@dataclass
class Linked:
    """A linked recording with its events as dicts."""

    tables: dict[str, pa.Table]
    first_device_id: int

    def host(self, row: int) -> dict[str, Any]:
        return self.tables["host_event"].slice(row, 1).to_pylist()[0]

    def device(self, row: int) -> dict[str, Any]:
        return self.tables["device_event"].slice(row, 1).to_pylist()[0]

    def column(self, table_name: str, column: str) -> list[Any]:
        return self.tables[table_name].column(column).to_pylist()

    def rows(self, table_name: str) -> list[dict[str, Any]]:
        return self.tables[table_name].to_pylist()

    def check(self, name: str) -> dict[str, Any]:
        return next(row for row in self.rows("data_check") if row["check"] == name)

    def attributed(self) -> dict[str, int]:
        return {row["link"]: row["attributed_ns"] for row in self.rows("attribution")}


def table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    arrays = []
    for column in schema:
        values = [row.get(column.name) for row in rows]
        if pa.types.is_dictionary(column.type):
            arrays.append(pa.array(values, pa.string()).dictionary_encode())
        else:
            arrays.append(pa.array(values, column.type))
    return pa.Table.from_arrays(arrays, schema=schema)


@pytest.fixture
def recording() -> Recording:
    return Recording()
