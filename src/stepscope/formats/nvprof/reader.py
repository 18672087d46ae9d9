"""Reads a database of nvprof into the canonical tables.

Databases are small beside traces of other tools, since nvprof was run over a few steps; rows but those
of markers go through Python one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.floor.errors import SourceError
from stepscope.formats.container import Member
from stepscope.formats.counters.measured import of_events
from stepscope.formats.nvprof.device_rows import device_events, devices
from stepscope.formats.nvprof.host_rows import OVERHEAD, HostRows, host_rows
from stepscope.formats.nvprof.kernel_metrics import kernel_metrics
from stepscope.formats.nvprof.samples import samples
from stepscope.formats.options import ReadOptions
from stepscope.formats.sqlite import MAGIC, Database, Layout, opened
from stepscope.formats.tables import (
    EPOCH_NS,
    READ,
    Facts,
    RankTables,
    ReadReport,
    canonical,
    counted_from,
)

Row = dict[str, Any]


def looks_like_nvprof(head: bytes) -> bool:
    """Whether a file's first bytes could be a database of nvprof."""
    return head.startswith(MAGIC) and b"CUPTI_ACTIVITY_KIND_" in head and b"StringTable" in head


_NVPROF = Layout("nvprof", looks_like_nvprof, strings=("StringTable", "_id_", "value"))


def read(member: Member, options: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank.

    Raises:
        SourceError: it cannot be opened, is damaged, or holds no activity.
    """
    options = options or ReadOptions()
    report = ReadReport()
    with opened(member, _NVPROF) as database:
        if database.damage is not None:
            report.note(database.damage)
        device_rows = device_events(database, report)
        host = host_rows(database, report, python_stack=options.python_stack)
        known = devices(database)
        measured = of_events(kernel_metrics(database, device_rows), device_rows)
        counter = _table(samples(database), "counter")
        version = database.rows("Version", ("version",))
    ranges = canonical(host.ranges.pop("host_event"), "host_event")
    host_event = pa.concat_tables(
        [ranges, _table(host.events, "host_event")], promote_options="permissive"
    )
    device_event = _table(device_rows, "device_event")
    if not device_event.num_rows and not host_event.num_rows:
        raise SourceError(
            f"{member.label}: this nvprof database holds no activity",
            hint="record without --profile-from-start off, or call torch.cuda.profiler.start()",
            slug="no-recording",
        )
    origin = min(
        pc.min(table["start_ns"]).as_py() for table in (device_event, host_event) if table.num_rows
    )
    report.kept = device_event.num_rows + host_event.num_rows + len(host.instants)
    for row in host.instants:
        row["time_ns"] -= origin
    return RankTables(
        facts=_facts(host, origin, version),
        report=report,
        host_event=counted_from(host_event, origin),
        device_event=counted_from(device_event, origin),
        thread=_threads(host),
        stream=_streams(device_rows),
        device=_devices(known, device_rows),
        **host.ranges,
        **measured,
        counter=counted_from(counter, origin, "time_ns"),
        instant=_instants(host),
    )


def peek(member: Member) -> Facts | None:
    """What the file says of itself, or None when it holds no activity.

    Raises:
        SourceError: it cannot be opened or is damaged.
    """
    with opened(member, _NVPROF) as database:
        times = [
            time
            for table, column in (
                ("CUPTI_ACTIVITY_KIND_RUNTIME", "start"),
                ("CUPTI_ACTIVITY_KIND_DRIVER", "start"),
                ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "start"),
                ("CUPTI_ACTIVITY_KIND_KERNEL", "start"),
                ("CUPTI_ACTIVITY_KIND_MARKER", "timestamp"),
            )
            for time in _column(database, table, column)
        ]
        models = {row["name"] for row in devices(database) if row["name"]}
    if not times:
        return None
    return Facts(
        start_epoch_ns=min(times),
        end_epoch_ns=max(times),
        tool="nvprof",
        devices=tuple(sorted(models)) or None,
    )


def _column(database: Database, table: str, column: str) -> list[int]:
    return [value for (value,) in database.rows(table, (column,)) if value is not None]


def _facts(host: HostRows, origin: int, version: list[tuple[Any, ...]]) -> Facts:
    pids = {pid for pid, _ in host.threads.of if pid is not None}
    number = version[0][0] if version else None
    return Facts(
        pid=pids.pop() if len(pids) == 1 else None,
        start_epoch_ns=origin if origin >= EPOCH_NS else None,
        tool="nvprof",
        tool_version=None if number is None else f"database version {number}",
    )


def _table(rows: Iterable[Row], name: str) -> pa.Table:
    """Rows as the table of that name; what a row does not have is NULL."""
    return pa.Table.from_pylist(list(rows), schema=READ[name])


def _threads(host: HostRows) -> pa.Table:
    rows = [
        {
            "thread": number,
            "pid": "" if pid is None else str(pid),
            "tid": str(tid),
            "process_name": None,
            "thread_name": None,
            "kind": "track" if tid == OVERHEAD else "thread",
        }
        for (pid, tid), number in host.threads.of.items()
    ]
    return _table(rows, "thread")


def _streams(device_rows: list[Row]) -> pa.Table:
    pairs = sorted({(row["device"], row["stream"]) for row in device_rows})
    return _table(({"device": d, "stream": s, "name": None} for d, s in pairs), "stream")


def _devices(known: list[Row], device_rows: list[Row]) -> pa.Table:
    used = {row["device"] for row in device_rows}
    rows = [row | {"used": row["device"] in used} for row in known]
    listed = {row["device"] for row in known}
    rows += [{"device": d, "kind": "cuda", "used": True} for d in sorted(used - listed)]
    return _table(rows, "device")


def _instants(host: HostRows) -> pa.Table:
    spelled = {number: pair for pair, number in host.threads.of.items()}
    rows = []
    for one in host.instants:
        pid, tid = spelled[one["thread"]]
        rows.append(
            {
                "time_ns": one["time_ns"],
                "category": "user_annotation",
                "name": one["name"],
                "pid": "" if pid is None else str(pid),
                "tid": str(tid),
                "args": None,
            }
        )
    return _table(rows, "instant")
