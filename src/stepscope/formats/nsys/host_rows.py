"""Calls to CUDA and the operating system, profiling overhead and sampled stacks, as canonical rows of the host."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.cupti.columns import (
    LATEST_NS,
    distinct_rows,
    first_named,
    in_time,
    mapped,
    mapped_rows,
    on_host,
    on_track,
    timed,
)
from stepscope.formats.messages import operation_of
from stepscope.formats.nsys.call_chains import Stacks
from stepscope.formats.nsys.export import (
    CALLS,
    LANGUAGES,
    LIBRARIES,
    MPI,
    NODES,
    STACKS,
    SYSTEM_CALLS,
    enumeration,
    of_process,
    thread_ids,
    traced_rank,
)
from stepscope.formats.nsys.payloads import Messages
from stepscope.formats.nvtx.rows import role_of
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import READ, ReadReport, canonical

OVERHEAD = "overhead"
_NAMELESS = "(call without a name)"
_VERSION = re.compile(r"(?:_ptsz)?_v\d+(?:_ptsz)?\Z")
_OVERHEADS = {
    1: "Unknown", 2: "Driver JIT compiler (CUDA)", 3: "Buffer flush (Profiler)",
    4: "Instrumentation (Profiler)", 5: "Resource creation/destruction (Profiler)",
    6: "Runtime module loading (CUDA)", 7: "Lazy function loading (CUDA)",
    8: "Command buffer full (CUDA)",
}  # fmt: skip


@dataclass(slots=True)
class Threads:
    """Numbers threads by `globalTid`, in order of appearance; the profiler's own work gets a track."""

    of: dict[int | str | None, int] = field(default_factory=dict)

    def number(self, thread: int | str | None) -> int:
        """The number of a thread."""
        return self.of.setdefault(thread, len(self.of))

    def numbers(self, threads: pa.ChunkedArray) -> pa.Array:
        """The number of each row's thread."""
        coded = threads.combine_chunks().dictionary_encode(null_encoding="encode")
        place = [self.number(thread) for thread in coded.dictionary.to_pylist()]
        return pa.array(place, pa.int32()).take(coded.indices)

    def rows(self, database: Database) -> list[dict[str, object]]:
        """Rows of table `thread`."""
        listed = database.columns("ThreadNames", ("globalTid", "nameId"), nameId="name")
        named = dict(zip(*listed.to_pydict().values(), strict=True))
        programs = dict(database.rows("PROCESSES", ("pid", "name"), name="text"))
        rows = []
        for thread, number in self.of.items():
            ((pid, tid),) = thread_ids(pa.array([thread if isinstance(thread, int) else None], pa.int64()))
            rows.append(
                {
                    "thread": number,
                    "pid": "" if pid is None else str(pid),
                    "tid": thread if isinstance(thread, str) else "" if tid is None else str(tid),
                    "process_name": programs.get(pid),
                    "thread_name": named.get(thread),
                    "kind": "track" if isinstance(thread, str) else "thread",
                }
            )
        return rows


def host_calls(
    database: Database, process: int | None, threads: Threads, stacks: Stacks, messages: Messages, report: ReadReport
) -> list[pa.Table]:
    """Calls and overhead, with the times as recorded; adds their stacks to `stacks`, MPI's messages to `messages`."""
    calls = _HostCalls(database, process, threads, stacks)
    libraries = {SYSTEM_CALLS: "os_runtime", **LIBRARIES}
    for prefix, category in LANGUAGES.items():
        libraries |= dict.fromkeys(database.named(prefix), category)
    communicators = _communicators(database, process, messages)
    parts = [
        *map(calls.cuda, CALLS),
        *(calls.library(table, category) for table, category in libraries.items()),
        *(calls.mpi(table, messages, communicators) for table in MPI),
        *map(calls.overhead, ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD")),
    ]
    return [canonical(in_time(part, report), "host_event") for part in parts if part.num_rows]


@dataclass(frozen=True, slots=True)
class _HostCalls:
    database: Database
    process: int | None
    threads: Threads
    stacks: Stacks

    def _rows(self, table: str, *columns: str) -> pa.Table:
        return self.database.columns(
            table,
            ("start", "end", "globalTid", *columns),
            of_process("globalTid", self.process),
            nameId="name",
            textId="name",
        )

    def _stacks(self, table: str, rows: pa.Table) -> pa.Array:
        return self.stacks.numbers(self.database, table, rows["callchainId"])

    def cuda(self, table: str) -> pa.Table:
        """Calls to CUDA's two interfaces."""
        rows = self._rows(table, "correlationId", "nameId", "callchainId")
        name = mapped(first_named([rows["nameId"]], _NAMELESS), call_name)
        # Calls to one interface may be in the other's table: their names begin with cuda and cu.
        category = mapped(name, lambda text: "cuda_driver" if re.match(r"cu(?!da)", text) else "cuda_runtime")
        return on_host(
            rows,
            category,
            "runtime",
            name=name,
            role=mapped(name, lambda text: role_of("runtime", text)),
            thread=self.threads.numbers(rows["globalTid"]),
            correlation=rows["correlationId"],
            stack_id=self._stacks("CUDA_CALLCHAINS", rows),
        )

    def library(self, table: str, category: str) -> pa.Table:
        """Calls of a library, or to the operating system."""
        rows = self._rows(table, "nameId", "callchainId")
        return on_host(
            rows,
            category,
            "other",
            name=first_named([rows["nameId"]], _NAMELESS),
            thread=self.threads.numbers(rows["globalTid"]),
            stack_id=self._stacks("OSRT_CALLCHAINS", rows),
        )

    def mpi(self, table: str, messages: Messages, communicators: dict[int, str]) -> pa.Table:
        """Calls to MPI; all except those without arguments (`MPI_Init`, `MPI_Comm_rank`) communicate."""
        rows = self._rows(table, "textId", *_MPI_ARGUMENTS)
        role = "communication" if table != MPI[-1] else None
        name = first_named([rows["textId"]], _NAMELESS)

        def arguments(row: dict[str, int | None]) -> str | None:
            stated = {word: row[name] for name, word in _MPI_ARGUMENTS.items() if row[name] is not None}
            return json.dumps(stated) if stated else None

        def message(row: dict[str, Any]) -> int | None:
            # MPI_Gatherv and the like have a size for each rank.
            sized = operation_of(row["name"]) in _SIZED and "gatherv" not in row["name"].lower()
            size, group = row["size"] if sized else None, communicators.get(row["commHandle"])
            return None if size is None and group is None else messages.stated(group, size)

        distinct, which = distinct_rows(
            {"name": pa.chunked_array([name.cast(pa.string())])}
            | {column: rows[column] for column in ("size", "commHandle")}
        )
        numbers = [message(column) for column in distinct] if rows.num_rows else []
        return on_host(
            rows,
            "mpi",
            "annotation",
            role=mapped(pa.array(np.zeros(rows.num_rows, np.int8)), lambda _: role),
            name=name,
            thread=self.threads.numbers(rows["globalTid"]),
            collective_id=pa.array(numbers, pa.int64()).take(pa.array(which)),
            other_args=mapped_rows({column: rows[column] for column in _MPI_ARGUMENTS}, arguments),
        )

    def overhead(self, table: str) -> pa.Table:
        """The profiler's own time, on a track of its own: it overlaps the calls that it slowed down."""
        rows = self._rows(table, "nameId", "overheadType")
        words = enumeration(self.database, "ENUM_CUPTI_OVERHEAD_TYPE", _OVERHEADS, "label")
        stated = mapped(rows["overheadType"], words.get)
        name = mapped(first_named([rows["nameId"], stated], "Overhead"), str)
        return on_track(rows, OVERHEAD, name, self.threads.number)


def call_name(name: str) -> str:
    """A call's name without the CUDA version at its end.

    >>> call_name("cudaLaunchKernel_v7000"), call_name("cudaMemcpyAsync_ptsz_v7000")
    ('cudaLaunchKernel', 'cudaMemcpyAsync')
    """
    return _VERSION.sub("", name)


_MPI_ARGUMENTS = {
    "size": "bytes",
    "recvSize": "bytes received",
    "remoteRank": "remote rank",
    "rootRank": "root",
    "tag": "tag",
    "commHandle": "communicator",
}
"""An export's names for the arguments of an MPI call, and ours."""


_SIZED = ("all_reduce", "all_gather", "broadcast", "reduce", "gather", "send", "send_recv")
"""Calls to MPI whose `size` is what this rank sends. A receive states how much it has room for; the sizes of other
calls may be for one rank or for all."""


def _communicators(database: Database, process: int | None, messages: Messages) -> dict[int, str]:
    """The name that all ranks share for a communicator, by this rank's handle."""
    rank = traced_rank(database, process)
    columns = ("rank", "commHandle", "size", "groupRoot", "groupRootUid")
    names: dict[int, set[str]] = {}
    for of, handle, size, root, number in database.rows("MPI_COMMUNICATORS", columns):
        if None not in (handle, root, number) and (rank is None or of in (None, rank)):
            named = f"MPI {root}.{number}"
            names.setdefault(handle, set()).add(named)
            messages.size(named, size)
    # A reused handle stands for several.
    return {handle: named.pop() for handle, named in names.items() if len(named) == 1}


def graph_nodes(database: Database, process: int | None, threads: Threads) -> pa.Table:
    """Creations of graph nodes, with the times as recorded."""
    columns = ("start", "globalTid", "graphNodeId", "originalGraphNodeId")
    rows = database.columns(NODES, columns, of_process("globalTid", process))
    timed = pc.and_(pc.greater_equal(rows["start"], 0), pc.less(rows["start"], LATEST_NS))
    rows = rows.filter(pc.and_(timed, rows["graphNodeId"].is_valid()).fill_null(False))
    return canonical(
        pa.table(
            {
                "node": rows["graphNodeId"],
                "original": rows["originalGraphNodeId"],
                "thread": threads.numbers(rows["globalTid"]),
                "start_ns": rows["start"],
            }
        ),
        "graph_node",
    )


def stack_samples(
    database: Database, process: int | None, threads: Threads, stacks: Stacks, report: ReadReport
) -> pa.Table:
    """Table `stack_sample`, with the times as recorded; adds its stacks to `stacks`."""
    rows = database.columns(STACKS, ("id", "start", "globalTid"), of_process("globalTid", process))
    if not rows.num_rows:
        return READ["stack_sample"].empty_table()
    rows = timed(rows.filter(rows["id"].is_valid()), "start", report)
    schema = READ["stack_sample"]
    columns = {
        "time_ns": rows["start"],
        "thread": threads.numbers(rows["globalTid"]).cast(pa.int32()),
        "stack_id": stacks.numbers(database, "SAMPLING_CALLCHAINS", rows["id"]),
        "weight": pa.array(np.ones(rows.num_rows, np.int64)),
        "clock": pa.repeat(pa.scalar("cpu"), rows.num_rows),
    }
    nulls = {field.name: pa.nulls(rows.num_rows, field.type) for field in schema}
    return pa.table(nulls | columns, schema=schema)
