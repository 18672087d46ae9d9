"""Reads an export of Nsight Systems into the canonical tables, one process at a time.

Exports are large, so rows pass through Python only on their way from SQLite to Arrow; all other work is on columns.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.base.errors import SourceError
from stepscope.formats.container import Member
from stepscope.formats.cupti.columns import LATEST_NS
from stepscope.formats.cupti.device_rows import streams, used_devices
from stepscope.formats.nsys import export
from stepscope.formats.nsys.call_chains import Stacks
from stepscope.formats.nsys.counter_rows import counters
from stepscope.formats.nsys.device_rows import device_events, devices
from stepscope.formats.nsys.host_rows import Threads, graph_nodes, host_calls, stack_samples
from stepscope.formats.nsys.nvtx_rows import cpu_page_faults, nvtx_ranges
from stepscope.formats.nvtx.markers import module_classes
from stepscope.formats.nvtx.rows import range_tables
from stepscope.formats.options import ReadOptions
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import (
    EPOCH_NS,
    Facts,
    RankTables,
    ReadReport,
    canonical,
    capabilities_of,
    counted_from,
    from_rows,
)

Row = dict[str, Any]


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes could be a report of Nsight Systems, or an export of one."""
    return export.looks_like_export(head) or export.looks_like_report(head)


def processes(member: Member) -> list[str]:
    """Names of the processes in the file, in order of their ids."""
    with export.opened_export(member) as database:
        return list(export.processes(database))


def read(member: Member, options: ReadOptions | None = None) -> RankTables:
    """Reads one process of a file, or one file of an archive, as the recording of one rank."""
    options = options or ReadOptions()
    report = ReadReport()
    with export.opened_export(member) as database:
        if database.damage is not None:
            report.note(database.damage)
        ranks = export.processes(database)
        process = _number(member, ranks)
        threads = Threads()
        device_event = device_events(database, process, report)
        ranges, marks, messages = nvtx_ranges(database, process, threads, report)
        marks = pa.concat_tables([marks, cpu_page_faults(database, process, report)])
        classes = module_classes(ranges.markers)
        shared = range_tables(ranges, python_stack=options.python_stack)
        del ranges
        stacks = Stacks(shared.pop("call_stack"))
        parts = [
            canonical(shared.pop("host_event"), "host_event"),
            *host_calls(database, process, threads, stacks, messages, report),
        ]
        graph_node = graph_nodes(database, process, threads)
        host_event = pa.concat_tables(parts, promote_options="permissive")
        stack_sample = stack_samples(database, process, threads, stacks, report)
        used = set(pc.unique(device_event["device"]).to_pylist())
        first = process == next(iter(ranks.values()))
        counter = counters(database, process, used, report, first=first)
        thread = from_rows("thread", threads.rows(database))
        listed_devices = devices(database, process, report)
        facts = _facts(database, process, ranks)
        facts.metadata = _metadata(database, ranks, process)
        facts.module_classes = classes
        if database.unnamed:
            report.note("missing_string", count=database.unnamed)
        if database.wrong:
            report.note("wrong_type", count=sum(database.wrong.values()))
    # Samples give way to events, which say when the program ran.
    starts = _starts((device_event, host_event), "start_ns") or _starts((stack_sample, counter), "time_ns")
    if not starts:
        raise SourceError(
            f"{member.label}: this export of Nsight Systems holds no activity",
            hint="record with nsys profile --trace=cuda,nvtx, and let the capture range start",
            slug="no-recording",
        )
    origin = min(starts)
    report.read = (
        device_event.num_rows + host_event.num_rows + marks.num_rows + stack_sample.num_rows + counter.num_rows
    )
    if facts.start_epoch_ns is not None:
        facts.start_epoch_ns = _unix(origin, facts.start_epoch_ns)
    elif origin >= EPOCH_NS:
        facts.start_epoch_ns = origin
    return RankTables(
        facts=facts,
        report=report,
        thread=thread,
        stream=streams(device_event),
        device=used_devices(listed_devices, device_event),
        collective_args=messages.table(),
        call_stack=stacks.table(),
        **counted_from(
            origin,
            host_event=host_event,
            device_event=device_event,
            stack_sample=stack_sample,
            counter=counter,
            instant=marks,
            graph_node=graph_node,
        ),
        **shared,
    )


def peek(member: Member) -> Facts | None:
    """What a process in a file says about itself, or None when it holds no activity."""
    with export.opened_export(member) as database:
        ranks = export.processes(database)
        process = _number(member, ranks)
        times: list[int] = []
        for table, column in (
            *((table, "globalPid") for table in (export.KERNELS, export.COPIES, export.FILLS)),
            (export.GRAPHS, "globalPid"),
            *((table, "globalTid") for table in export.OF_THREADS),
        ):
            only = export.of_process(column, process)
            times += database.extent(table, ("start", "end"), LATEST_NS, only)
        for table, column, only in () if times else export.sampled(process):
            times += database.extent(table, (column,), LATEST_NS, only)
        if not times:
            return None
        facts = _facts(database, process, ranks)
        listed_devices = devices(database, process)
    if facts.start_epoch_ns is not None:
        zero = facts.start_epoch_ns
        facts.start_epoch_ns, facts.end_epoch_ns = _unix(min(times), zero), _unix(max(times), zero)
    else:
        facts.start_epoch_ns, facts.end_epoch_ns = min(times), max(times)
    facts.devices = tuple(sorted({row["name"] for row in listed_devices if row["name"]})) or None
    facts.capabilities = capabilities_of(listed_devices)
    return facts


def _number(member: Member, ranks: dict[str, int | None]) -> int | None:
    if member.process is None:
        return next(iter(ranks.values()))
    if member.process not in ranks:
        raise SourceError(
            f"{member.label}: the file has no such process any more",
            hint="it changed while it was read; try again",
            slug="no-recording",
        )
    return ranks[member.process]


def _unix(time_ns: int, zero_ns: int) -> int:
    """A time of the export as Unix time; with `nsys export --ts-normalize` it is that already."""
    return time_ns if time_ns >= EPOCH_NS else zero_ns + time_ns


def _facts(database: Database, process: int | None, ranks: dict[str, int | None]) -> Facts:
    """What the file says about a process; `start_epoch_ns` is that of the export's time 0."""
    stated = export.stated_rank(database, process, only_process=len(ranks) == 1)
    return Facts(
        rank=stated.rank,
        rank_rule=stated.rule,
        world_size=stated.world_size,
        local_rank=stated.local_rank,
        host=export.host(database),
        pid=None if process is None else export.pid_of(process),
        start_epoch_ns=export.epoch_of_zero_ns(database),
        tool="Nsight Systems",
        tool_version=export.exported(database).get("EXPORT_PRODUCT_VERSION"),
    )


def _metadata(database: Database, ranks: dict[str, int | None], process: int | None) -> Row:
    """What is worth keeping of the export's own description; not its environment."""
    metadata: Row = {}
    version = export.exported(database).get("EXPORT_SCHEMA_VERSION")
    if version is not None:
        metadata["schema_version"] = version
    left_out = export.others(database, ranks)
    if left_out:
        metadata["processes_left_out"] = left_out
    settings = export.written_settings(database, process)
    if settings:
        metadata["settings"] = settings
    return metadata


def _starts(tables: tuple[pa.Table, ...], name: str) -> list[int]:
    return [pc.min(table[name]).as_py() for table in tables if table.num_rows]
