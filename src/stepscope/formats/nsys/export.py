"""What every part of the reader needs from an export: its processes, clocks, words and numbers. Reports (`.nsys-rep`,
`.qdrep`), whose format is NVIDIA's own, are first exported by the installed `nsys`.

A table exists only if it has rows, and versions added columns: missing ones are NULL. Rows name their process by a
number, `globalPid`: the machine, the process id in bits 24 to 47, and zeros; `globalTid` has the thread id in place of
these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stepscope.base.errors import SourceError
from stepscope.base.ranks import RANK_VARIABLES, process_from
from stepscope.formats.container import Member
from stepscope.formats.cupti.columns import LATEST_NS
from stepscope.formats.exporter import Exporter
from stepscope.formats.sniff import EXPORT_A_REPORT
from stepscope.formats.sqlite import MAGIC, Database, Layout, Only
from stepscope.formats.sqlite_files import opened
from stepscope.formats.tables import EPOCH_NS

_BITS = 24
_LOW = (1 << _BITS) - 1
_RANK = re.compile(r"rank ([0-9]{1,9}) of ([0-9]{1,9}), stepscope\Z")
_SETTINGS = re.compile(r"settings (\{.*\}), stepscope\Z")
_MAX_PROCESSES = 4096

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NODES = "CUDA_GRAPH_NODE_EVENTS"
WAITS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
NVTX = ("NVTX_EVENTS", "NVTX_EVENTS_V2", "NVTX_EVENTS_V3")
SYSTEM_CALLS = "OSRT_API"
MPI = ("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS")
LIBRARIES = {"CUDNN_EVENTS": "cudnn", "CUBLAS_EVENTS": "cublas"}
LANGUAGES = {"CUPTI_ACTIVITY_KIND_OPENACC_": "openacc", "OPENMP_EVENT_KIND_": "openmp"}
"""Prefixes of each language's tables: there is one table for each kind of event."""
PAGE_FAULTS, CPU_PAGE_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
STACKS = "COMPOSITE_EVENTS"
METRICS, CARDS, GENERIC = "GPU_METRICS", "NET_NIC_METRIC", "GENERIC_EVENTS"

_WORK = tuple((table, "globalPid") for table in (KERNELS, COPIES, FILLS, GRAPHS))
_ASKING = tuple((table, "globalTid") for table in (*CALLS, *NVTX, *MPI, *LIBRARIES))
OF_THREADS = (*(table for table, _ in _ASKING), SYSTEM_CALLS)
"""Tables of what threads did."""
_SYSTEM = ((SYSTEM_CALLS, "globalTid"),)

_MARKS = (b"StringIds", b"TARGET_INFO_", b"META_DATA_EXPORT", b"EXPORT_META_DATA", b"ENUM_NSYS_", b"NVTX_EVENTS")


def looks_like_export(head: bytes) -> bool:
    """Whether a file's first bytes could be an export of Nsight Systems."""
    return head.startswith(MAGIC) and any(mark in head for mark in _MARKS)


NSYS = Layout("Nsight Systems", looks_like_export, strings=("StringIds", "id", "value"), always=False)


_REPORT = b"NVIDIA Tegra Profiler Report"
_MARK_ENDS = 512

_EXPORTER = Exporter(
    tool="nsys",
    title="Nsight Systems",
    ending=".nsys-rep",
    suffix=".sqlite",
    arguments=lambda report, target: [
        "export", "--type", "sqlite", "-o", str(target), str(report),
    ],
    by_hand=EXPORT_A_REPORT,
)  # fmt: skip


def looks_like_report(head: bytes) -> bool:
    """Whether a file's first bytes are a report."""
    return _REPORT in head[:_MARK_ENDS]


@contextmanager
def opened_export(member: Member) -> Iterator[Database]:
    """Opens an export, or a report after exporting it.

    Raises:
        SourceError: it cannot be opened or exported, or is damaged.
    """
    with member.open() as stream:
        head = stream.read(_MARK_ENDS)
    if not head.startswith(MAGIC) and looks_like_report(head):
        member = _EXPORTER.export(member)
    with opened(member, NSYS) as database:
        yield database


def processes(database: Database) -> dict[str, int | None]:
    """The processes that are ranks, by name, in order of process ids.

    These are the processes whose work ran on a device; if there are none, those that called CUDA or have ranges. System
    calls do not identify ranks, since every shell and helper makes them: if there is nothing else, all rows belong to
    one rank, with None for a number.
    """
    for tables in (_WORK, _ASKING):
        numbers: set[int] = set()
        for table, column in tables:
            numbers |= database.distinct(table, column, _BITS)
        if numbers:
            if len(numbers) > _MAX_PROCESSES:
                raise SourceError(
                    f"an export of Nsight Systems with work of {len(numbers)} processes: no node has as many",
                    hint="copy it again, or export the report again",
                    slug="database-damaged",
                )
            ordered = sorted(numbers, key=lambda number: (pid_of(number), number))
            twice = len({pid_of(number) for number in ordered}) < len(ordered)
            return {f"pid {pid_of(number)}" + (f" of {number >> _BITS}" if twice else ""): number for number in ordered}
    return {"": None}


def others(database: Database, ranks: dict[str, int | None]) -> list[int]:
    """Ids of processes that are not ranks but have events: data loaders, launchers."""
    if None in ranks.values():
        return []
    numbers: set[int] = set()
    for table, column in (*_ASKING, *_SYSTEM):
        numbers |= database.distinct(table, column, _BITS)
    return sorted({pid_of(number) for number in numbers} - {pid_of(number) for number in ranks.values() if number})


def pid_of(process: int) -> int:
    """The id of a process, from its number without the bits of the thread."""
    return process & _LOW


def of_process(column: str, process: int | None) -> Only | None:
    """The rows of a process."""
    return None if process is None else Only(column, _BITS, process)


def sampled(process: int | None) -> tuple[tuple[str, str, Only | None], ...]:
    """Tables of samples with their time columns, and the condition for a process's rows."""
    return (
        (STACKS, "start", of_process("globalTid", process)),
        (METRICS, "timestamp", None),
        (METRICS, "rawTimestamp", None),
        (GENERIC, "timestamp", None),
        (GENERIC, "rawTimestamp", None),
        (CARDS, "start", None),
    )


def thread_ids(numbers: pa.Array) -> list[tuple[int | None, int | None]]:
    """Process and thread id of each `globalTid`."""
    return [
        (None, None) if global_tid is None else (global_tid >> _BITS & _LOW, global_tid & _LOW)
        for global_tid in numbers.to_pylist()
    ]


def epoch_of_zero_ns(database: Database) -> int | None:
    """Unix time of the export's time 0 (ns); None if the file does not say.

    Times count from the start of the session. `nsys export --ts-shift` moves them, and
    `--ts-normalize` makes them Unix time.
    """
    stated: list[int] = [
        epoch_ns
        for (epoch_ns,) in database.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
        if epoch_ns is not None and EPOCH_NS <= epoch_ns < LATEST_NS
    ]
    shift = exported(database).get("EXPORT_CONFIG_TIME_SHIFT", "")
    if not stated:
        return None
    moved = int(shift) if shift.removeprefix("-").isdecimal() and len(shift) < 19 else 0
    return stated[0] - moved


def exported(database: Database) -> dict[str, str]:
    """What the export says about itself: versions, options."""
    return {
        name: value
        for table in ("EXPORT_META_DATA", "META_DATA_EXPORT")
        for name, value in database.rows(table, ("name", "value"), name="text", value="text")
        if name and value is not None
    }


def host(database: Database) -> str | None:
    """Name of the node."""
    of_system = database.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value"), name="text", value="text")
    of_capture = database.rows("META_DATA_CAPTURE", ("name", "value"), name="text", value="text")
    named = dict(reversed([*of_system, *of_capture]))
    return named.get("Hostname") or named.get("DEVICE_DISPLAY_NAME") or None


_VARIABLE = re.compile(r"PROCESS_\d{1,9}:ENVIRONMENT_VARIABLE\Z")
_STARTER = "TORCHELASTIC_RUN_ID"


@dataclass(frozen=True, slots=True)
class Stated:
    """What a file says about a process's place in its job; None for what it does not say."""

    rank: int | None = None
    rule: str | None = None
    world_size: int | None = None
    local_rank: int | None = None


def stated_rank(database: Database, process: int | None, *, only_process: bool) -> Stated:
    """The rank of a process: as recording with --nvtx wrote it, as traced from MPI, or from its launcher.

    Args:
        process: the process; None if the file names none.
        alone: whether it is the only process in the file that can be a rank. The environment is that of
            the profiled command, which for several processes is their launcher and no rank.
    """
    written = _written_rank(database, process)
    if written is not None:
        return written
    traced = traced_rank(database, process)
    if traced is not None:
        return Stated(traced, "MPI")
    if not only_process:
        return Stated()
    names = RANK_VARIABLES | {_STARTER}
    variables = (
        value.partition("=")
        for name, value in database.rows("META_DATA_CAPTURE", ("name", "value"), name="text", value="text")
        if name and value and _VARIABLE.match(name)
    )
    environment = {name: value.strip('"') for name, _, value in variables if name in names}
    stated = process_from(environment)
    if stated.rule == "single" or stated.disagreement:
        return Stated()
    return Stated(stated.rank, "launcher", stated.world_size, stated.local_rank)


def traced_rank(database: Database, process: int | None) -> int | None:
    """The rank that MPI gave a process, if its calls were traced."""
    traced = {
        rank
        for thread, rank in database.rows("MPI_RANKS", ("globalTid", "rank"))
        if thread is not None and rank is not None and 0 <= rank < 1 << 31
        if process is None or thread >> _BITS == process
    }
    return traced.pop() if len(traced) == 1 else None


def _written_rank(database: Database, process: int | None) -> Stated | None:
    for match in _written(database, process, _RANK):
        return Stated(int(match[1]), "recorder", int(match[2]))
    return None


def written_settings(database: Database, process: int | None) -> dict[str, Any]:
    """The settings of the job, if recording with --nvtx wrote them."""
    for match in _written(database, process, _SETTINGS):
        with suppress(ValueError, RecursionError):
            stated = json.loads(match[1])
            return stated if isinstance(stated, dict) else {}
    return {}


def _written(database: Database, process: int | None, text: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """A process's matching registered texts: these are few, so that ranges need not be searched."""
    for number, written in database.each("StringIds", ("id", "value"), value="text"):
        match = text.match(written or "")
        if not match or number is None:
            continue
        for table in NVTX:
            threads = database.columns(table, ("globalTid",), Only("textId", 0, number))
            of = {global_tid >> _BITS for global_tid in threads["globalTid"].to_pylist() if global_tid is not None}
            if process in of or (process is None and of):
                yield match


def enumeration(database: Database, table: str, otherwise: dict[int, str], column: str = "name") -> dict[int, str]:
    """Words of an enumeration by number, from the file, else those of versions without it."""
    rows = database.rows(table, ("id", column), **{column: "text"})
    return otherwise | {number: word for number, word in rows if number is not None and word}
