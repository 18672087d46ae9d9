"""Calls to CUDA and to the operating system, and what profiling cost, as canonical rows of the host."""

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
    constant,
    distinct_rows,
    first_named,
    in_time,
    mapped,
    mapped_rows,
)
from stepscope.formats.messages import operation_of
from stepscope.formats.nsys.call_chains import Stacks
from stepscope.formats.nsys.export import (
    CALLS,
    LANGUAGES,
    LIBRARIES,
    MPI,
    NODES,
    SYSTEM_CALLS,
    enumeration,
    of_process,
    thread_ids,
    traced_rank,
)
from stepscope.formats.nsys.payloads import Messages
from stepscope.formats.nvtx.rows import role_of
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import ReadReport, canonical

OVERHEAD = "overhead"
_VERSION = re.compile(r"(?:_ptsz)?_v\d+(?:_ptsz)?\Z")
_OVERHEADS = {
    1: "Unknown", 2: "Driver JIT compiler (CUDA)", 3: "Buffer flush (Profiler)",
    4: "Instrumentation (Profiler)", 5: "Resource creation/destruction (Profiler)",
    6: "Runtime module loading (CUDA)", 7: "Lazy function loading (CUDA)",
    8: "Command buffer full (CUDA)",
}  # fmt: skip


@dataclass(slots=True)
class Threads:
    """Numbers threads by `globalTid`, in order of appearance; the profiler's own work has a track."""

    of: dict[int | str | None, int] = field(default_factory=dict)

    def number(self, one: int | str | None) -> int:
        """The number of a thread."""
        return self.of.setdefault(one, len(self.of))

    def numbers(self, threads: pa.ChunkedArray) -> pa.Array:
        """The number of each row's thread."""
        coded = threads.combine_chunks().dictionary_encode(null_encoding="encode")
        place = [self.number(one) for one in coded.dictionary.to_pylist()]
        return pa.array(place, pa.int32()).take(coded.indices)

    def rows(self, database: Database) -> list[dict[str, object]]:
        """Rows of table `thread`."""
        listed = database.columns("ThreadNames", ("globalTid", "nameId"), nameId="name")
        named = dict(zip(*listed.to_pydict().values(), strict=True))
        programs = dict(database.rows("PROCESSES", ("pid", "name"), name="text"))
        made = []
        for one, number in self.of.items():
            ((pid, tid),) = thread_ids(
                pa.array([one if isinstance(one, int) else None], pa.int64())
            )
            made.append(
                {
                    "thread": number,
                    "pid": "" if pid is None else str(pid),
                    "tid": one if isinstance(one, str) else "" if tid is None else str(tid),
                    "process_name": programs.get(pid),
                    "thread_name": named.get(one),
                    "kind": "track" if isinstance(one, str) else "thread",
                }
            )
        return made


def host_calls(
    database: Database,
    process: int | None,
    threads: Threads,
    stacks: Stacks,
    messages: Messages,
    report: ReadReport,
) -> list[pa.Table]:
    """Calls and overhead, with the times as recorded; their stacks go to `stacks`, what MPI sent to `messages`."""
    parts = [_calls(database, table, process, threads, stacks) for table in CALLS]
    libraries = {SYSTEM_CALLS: "os_runtime", **LIBRARIES}
    for prefix, category in LANGUAGES.items():
        libraries |= dict.fromkeys(database.named(prefix), category)
    parts += [
        _library_calls(database, table, category, process, threads, stacks)
        for table, category in libraries.items()
    ]
    communicators = _communicators(database, process, messages)
    parts += [
        _mpi_calls(database, table, process, threads, messages, communicators) for table in MPI
    ]
    parts += [
        _overhead(database, table, process, threads)
        for table in ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD")
    ]
    return [canonical(in_time(part, report), "host_event") for part in parts if part.num_rows]


def _calls(
    database: Database, table: str, process: int | None, threads: Threads, stacks: Stacks
) -> pa.Table:
    rows = database.columns(
        table,
        ("start", "end", "globalTid", "correlationId", "nameId", "callchainId"),
        of_process("globalTid", process),
        nameId="name",
    )
    # One interface may be in the other's table: their names begin with cuda and cu.
    name = mapped(first_named([rows["nameId"]], "(call without a name)"), call_name)
    return pa.table(
        {
            "start": rows["start"],
            "end": rows["end"],
            "category": mapped(
                name, lambda one: "cuda_driver" if re.match(r"cu(?!da)", one) else "cuda_runtime"
            ),
            "kind": constant("runtime", rows.num_rows),
            "name": name,
            "role": mapped(name, lambda one: role_of("runtime", one)),
            "thread": threads.numbers(rows["globalTid"]),
            "correlation": rows["correlationId"],
            "stack_id": stacks.numbers(database, "CUDA_CALLCHAINS", rows["callchainId"]),
        }
    )


def call_name(name: str) -> str:
    """A call's name without the version of CUDA that it came with.

    >>> call_name("cudaLaunchKernel_v7000"), call_name("cudaMemcpyAsync_ptsz_v7000")
    ('cudaLaunchKernel', 'cudaMemcpyAsync')
    """
    return _VERSION.sub("", name)


def _library_calls(
    database: Database,
    table: str,
    category: str,
    process: int | None,
    threads: Threads,
    stacks: Stacks,
) -> pa.Table:
    rows = database.columns(
        table,
        ("start", "end", "globalTid", "nameId", "callchainId"),
        of_process("globalTid", process),
        nameId="name",
    )
    return pa.table(
        {
            "start": rows["start"],
            "end": rows["end"],
            "category": constant(category, rows.num_rows),
            "kind": constant("other", rows.num_rows),
            "name": first_named([rows["nameId"]], "(call without a name)"),
            "thread": threads.numbers(rows["globalTid"]),
            "stack_id": stacks.numbers(database, "OSRT_CALLCHAINS", rows["callchainId"]),
        }
    )


_MPI_ARGUMENTS = {
    "size": "bytes",
    "recvSize": "bytes received",
    "remoteRank": "remote rank",
    "rootRank": "root",
    "tag": "tag",
    "commHandle": "communicator",
}
"""What an export has of a call of MPI, and how it is called here."""


_SIZED = ("all_reduce", "all_gather", "broadcast", "reduce", "gather", "send", "send_recv")
"""What of the calls of MPI says in `size` what this rank gives. A receive says how much it has room for; what the others
say may be of one rank or of all of them."""


def _communicators(database: Database, process: int | None, messages: Messages) -> dict[int, str]:
    """What all ranks call a communicator, by the handle that this rank has of it."""
    rank = traced_rank(database, process)
    columns = ("rank", "commHandle", "size", "groupRoot", "groupRootUid")
    found: dict[int, set[str]] = {}
    for of, handle, size, root, number in database.rows("MPI_COMMUNICATORS", columns):
        if None not in (handle, root, number) and (rank is None or of in (None, rank)):
            named = f"MPI {root}.{number}"
            found.setdefault(handle, set()).add(named)
            messages.size(named, size)
    # A handle that was used again stands for several.
    return {handle: named.pop() for handle, named in found.items() if len(named) == 1}


def _mpi_calls(
    database: Database,
    table: str,
    process: int | None,
    threads: Threads,
    messages: Messages,
    communicators: dict[int, str],
) -> pa.Table:
    """Calls of MPI; all but those without arguments (`MPI_Init`, `MPI_Comm_rank`) communicate."""
    rows = database.columns(
        table,
        ("start", "end", "globalTid", "textId", *_MPI_ARGUMENTS),
        of_process("globalTid", process),
        textId="name",
    )
    role = "communication" if table != MPI[-1] else None
    name = first_named([rows["textId"]], "(call without a name)")

    def arguments(row: dict[str, int | None]) -> str | None:
        stated = {word: row[name] for name, word in _MPI_ARGUMENTS.items() if row[name] is not None}
        return json.dumps(stated) if stated else None

    def message(row: dict[str, Any]) -> int | None:
        # MPI_Gatherv and its like have a size for each rank.
        sized = operation_of(row["name"]) in _SIZED and "gatherv" not in row["name"].lower()
        size, group = row["size"] if sized else None, communicators.get(row["commHandle"])
        return None if size is None and group is None else messages.stated(group, size)

    distinct, which = distinct_rows(
        {"name": pa.chunked_array([name.cast(pa.string())])}
        | {one: rows[one] for one in ("size", "commHandle")}
    )
    return pa.table(
        {
            "start": rows["start"],
            "end": rows["end"],
            "category": constant("mpi", rows.num_rows),
            "kind": constant("annotation", rows.num_rows),
            "role": mapped(pa.array(np.zeros(rows.num_rows, np.int8)), lambda _: role),
            "name": name,
            "thread": threads.numbers(rows["globalTid"]),
            "collective_id": pa.array(
                [message(one) for one in distinct] if rows.num_rows else [], pa.int64()
            ).take(pa.array(which)),
            "other_args": mapped_rows({one: rows[one] for one in _MPI_ARGUMENTS}, arguments),
        }
    )


def graph_nodes(database: Database, process: int | None, threads: Threads) -> pa.Table:
    """Creations of nodes of graphs, with the times as recorded."""
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


def _overhead(database: Database, table: str, process: int | None, threads: Threads) -> pa.Table:
    """What the profiler itself took, on a track of its own: it overlaps the calls that it slowed."""
    rows = database.columns(
        table,
        ("start", "end", "globalTid", "nameId", "overheadType"),
        of_process("globalTid", process),
        nameId="name",
    )
    words = enumeration(database, "ENUM_CUPTI_OVERHEAD_TYPE", _OVERHEADS, "label")
    stated = mapped(rows["overheadType"], words.get)
    name = first_named([rows["nameId"], stated], "Overhead")
    track = threads.number(OVERHEAD) if rows.num_rows else 0
    return pa.table(
        {
            "start": rows["start"],
            "end": rows["end"],
            "category": constant("overhead", rows.num_rows),
            "kind": constant("overhead", rows.num_rows),
            "name": mapped(name, str),
            "thread": pa.array(np.full(rows.num_rows, track, np.int32)),
        }
    )
