"""Reads a database of nvprof into the canonical tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.bundled.nvprof.device_rows import KERNELS, device_events, devices, samples
from stepscope.bundled.nvprof.host_rows import CALLS, MARKERS, OVERHEAD, HostRows, host_rows
from stepscope.bundled.nvprof.kernel_metrics import kernel_metrics
from stepscope.formats.cupti.columns import LATEST_NS
from stepscope.formats.cupti.device_rows import streams, used_devices
from stepscope.formats.sqlite import MAGIC, Layout
from stepscope.formats.sqlite_files import opened
from stepscope.formats.tables import EPOCH_NS, canonical, capabilities_of, counted_from, from_rows
from stepscope.plugin import FileFacts, Format, Member, RankTables, ReadOptions, ReadReport, SourceError

Row = dict[str, Any]


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes could be a database of nvprof."""
    return head.startswith(MAGIC) and b"CUPTI_ACTIVITY_KIND_" in head and b"StringTable" in head


_NVPROF = Layout("nvprof", looks_like, strings=("StringTable", "_id_", "value"))


def read(member: Member, options: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    options = options or ReadOptions()
    report = ReadReport()
    with opened(member, _NVPROF) as database:
        if database.damage is not None:
            report.note(database.damage)
        device_event = device_events(database, report)
        if database.unnamed:  # of kernels: ends of ranges have no name
            report.note("missing_string", count=database.unnamed)
        host = host_rows(database, report, python_stack=options.python_stack)
        listed_devices = devices(database, report)
        measured = kernel_metrics(database, device_event)
        counter = from_rows("counter", samples(database))
        version = database.rows("Version", ("version",))
        if database.wrong:
            report.note("wrong_type", count=sum(database.wrong.values()))
    ranges = canonical(host.ranges.pop("host_event"), "host_event")
    host_event = pa.concat_tables([ranges, *host.events], promote_options="permissive")
    if not device_event.num_rows and not host_event.num_rows:
        raise SourceError(
            f"{member.label}: this nvprof database holds no activity",
            hint="record without --profile-from-start off, or call torch.cuda.profiler.start()",
            slug="no-recording",
        )
    origin = min(pc.min(table["start_ns"]).as_py() for table in (device_event, host_event) if table.num_rows)
    report.read = device_event.num_rows + host_event.num_rows + host.instant.num_rows
    return RankTables(
        facts=_facts(host, origin, version),
        report=report,
        thread=_threads(host),
        stream=streams(device_event),
        device=used_devices(listed_devices, device_event),
        **host.ranges,
        **measured,
        **counted_from(origin, host_event=host_event, device_event=device_event, counter=counter, instant=host.instant),
    )


def peek(member: Member) -> FileFacts | None:
    """What the file says about itself, or None when it holds no activity."""
    with opened(member, _NVPROF) as database:
        times = [
            time
            for table, column in (*((table, "start") for table in (*CALLS, *KERNELS)), MARKERS)
            for time in database.extent(table, (column,), LATEST_NS)
        ]
        listed_devices = devices(database)
    if not times:
        return None
    return FileFacts(
        start_epoch_ns=min(times),
        end_epoch_ns=max(times),
        tool="nvprof",
        devices=tuple(sorted({row["name"] for row in listed_devices if row["name"]})) or None,
        capabilities=capabilities_of(listed_devices),
    )


def _facts(host: HostRows, origin: int, version: list[tuple[Any, ...]]) -> FileFacts:
    pids = {pid for pid, _ in host.threads.of if pid is not None}
    number = version[0][0] if version else None
    return FileFacts(
        pid=pids.pop() if len(pids) == 1 else None,
        start_epoch_ns=origin if origin >= EPOCH_NS else None,
        tool="nvprof",
        tool_version=None if number is None else f"database version {number}",
    )


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
    return from_rows("thread", rows)


FORMAT = Format(
    "nvprof",
    "database of nvprof (nvprof -o FILE), best with the markers of PyProf",
    looks_like,
    peek,
    read,
    memory=3.0,
)
