"""Reads what the recorder measured of its process and its children (processor time, threads, memory, files) and of its
machine over time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from stepscope.formats.bounded import integer, real
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.host_metrics import Row, host_metrics_of
from stepscope.formats.inline import document
from stepscope.formats.options import ReadOptions
from stepscope.formats.tables import Facts, RankTables, ReadReport, from_rows

_OURS = re.compile(rb'"format"\s*:\s*"stepscope\.host"')
_REPORT = "StepScope"
_BUSY_RATIO = 0.05
"""A thread counts in the balance if it ran for this part of the time."""


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes could be the recorder's measurements of its process."""
    return strip_bom(head).lstrip(b" \t\r\n")[:1] == b"{" and _OURS.search(head) is not None


def peek(member: Member) -> Facts | None:
    """What the file says about itself; None if nothing was measured."""
    loaded = document.load(member)
    return document.facts_of(loaded, "stepscope") if _section(loaded) else None


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file as the recording of one rank."""
    loaded = document.load(member)
    report = ReadReport()
    tables = host_metrics_of(
        member,
        document.facts_of(loaded, "stepscope", report),
        report,
        host_rows(_section(loaded), report),
        lacks="nothing was measured of the process",
        hint="the system has no /proc to read it from",
        slug="nothing-measured",
    )
    tables.counter = counters(_section(loaded), report)
    tables.report.read += tables.counter.num_rows
    return tables


def _section(loaded: Any) -> Any:
    return loaded.get("host") if isinstance(loaded, dict) else None


def host_rows(section: Any, report: ReadReport) -> list[Row]:
    """Rows of `host_metric` from a document's `host` section."""
    return list(_rows(section, report)) if isinstance(section, dict) else []


def _rows(section: Row, report: ReadReport) -> Iterator[Row]:
    def count(name: str) -> int | None:
        return integer(section.get(name), report)

    elapsed, user, system = (count(name) for name in ("elapsed_ns", "user_ns", "system_ns"))
    processors = real(section.get("processors"), report, low=0)
    model = section.get("processor")
    if isinstance(model, str):
        yield _row("processor", text=model[:256])
    yield from _some("elapsed", elapsed, 1e9, "s")
    yield from _some("processors", processors, 1, None)
    yield from _some("user_time", user, 1e9, "s")
    yield from _some("system_time", system, 1e9, "s")
    if elapsed and user is not None and system is not None:
        used = (user + system) / elapsed
        yield _row("processors_used", used)
        if processors:
            yield _row("cpu_utilization", 100 * used / processors, "%")
    for name in ("processes", "threads_alive", "major_faults", "involuntary_switches"):
        yield from _some(name, count(name), 1, None)
    for name in ("peak_memory", "peak_memory_of_a_child", "peak_memory_of_all", "read", "written"):
        yield from _some(name, count(f"{name}_bytes"), 1e6, "MB")
    waited, ran = count("waited_ns"), count("ran_ns")
    if waited is not None and ran:
        yield _row("run_queue_wait", 100 * waited / (waited + ran), "%")
    threads = list(_threads(section.get("threads"), report))
    for name, cpu_ns in threads:
        yield _row("thread_time", cpu_ns / 1e9, "s") | {"subject_kind": "Thread", "subject": name}
    busy = [cpu_ns for _, cpu_ns in threads if elapsed and cpu_ns >= _BUSY_RATIO * elapsed]
    if len(busy) > 1:
        yield _row("busy_threads", float(len(busy)))
        mean = sum(busy) / len(busy)
        yield _row("thread_imbalance", 100 * (1 - mean / max(busy)), "%")


def _some(kind: str, value: float | None, per: float, unit: str | None) -> Iterator[Row]:
    if value is not None:
        yield _row(kind, value / per, unit)


def _row(kind: str, value: float | None = None, unit: str | None = None, text: str | None = None) -> Row:
    return {
        "report": _REPORT,
        "metric": kind.replace("_", " "),
        "kind": kind,
        "value": value,
        "unit": unit,
        "text": text,
        "confirmed": True,
    }


def _threads(listed: Any, report: ReadReport) -> Iterator[tuple[str, int]]:
    for thread in listed if isinstance(listed, list) else ():
        if isinstance(thread, list) and len(thread) == 2 and isinstance(thread[0], str):
            cpu_ns = integer(thread[1], report)
            if cpu_ns is not None:
                yield thread[0][:64], cpu_ns


# -- over time ------------------------------------------------------------------------------------


_PROCESSES = "job's processes"
_MAX_MOMENTS = 100_000


class _Series(NamedTuple):
    name: str
    unit: str | None
    of_device: bool = True


_SERIES = {
    "processors_used": _Series("processors used", None, of_device=False),
    "memory_bytes": _Series("memory", "bytes", of_device=False),
    "read_bytes_per_s": _Series("read", "bytes/s", of_device=False),
    "written_bytes_per_s": _Series("written", "bytes/s", of_device=False),
    "compute_active": _Series("utilisation", "%"),
    "power": _Series("power", "W"),
    "temperature": _Series("temperature", "°C"),
    "clock": _Series("clock of multiprocessors", "Hz"),
    "max_clock": _Series("highest clock of multiprocessors", "Hz"),
    "memory_clock": _Series("clock of memory", "Hz"),
    "throttled": _Series("clock held down", "%"),
    "throttled_by_heat": _Series("clock held down by heat", "%"),
    "throttled_by_power": _Series("clock held down by power", "%"),
}
"""By their names in the file, which are those of `counter.kind` for a device."""


def counters(section: Any, report: ReadReport) -> pa.Table:
    """Rows of `counter` from a document's `host` section; none if it has nothing over time."""
    over_time = section.get("over_time") if isinstance(section, dict) else None
    rows = list(_over_time(over_time, report)) if isinstance(over_time, dict) else []
    return from_rows("counter", rows)


def _over_time(over_time: dict[str, Any], report: ReadReport) -> Iterator[dict[str, Any]]:
    columns, rows, device = over_time.get("columns"), over_time.get("rows"), over_time.get("device")
    if not isinstance(columns, list) or columns[:1] != ["time_ns"] or not isinstance(rows, list):
        return
    about = device if isinstance(device, dict) else {}
    tool, index = about.get("tool"), str(integer(about.get("index"), report) or 0)
    of_device: dict[str, str | None] = {"track": tool if isinstance(tool, str) else "device", "pid": index}
    series: dict[int, dict[str, str | None]] = {
        place: {"series": described.name, "unit": described.unit}
        | (of_device | {"kind": name} if described.of_device else {"track": _PROCESSES})
        for place, name in enumerate(columns)
        if isinstance(name, str) and (described := _SERIES.get(name)) is not None
    }
    for row in rows[:_MAX_MOMENTS]:
        time_ns = integer(row[0]) if isinstance(row, list) and len(row) == len(columns) else None
        if time_ns is None:
            report.drop("wrong_type")
            continue
        for place, words in series.items():
            value = real(row[place], report)
            if value is not None:
                yield words | {"time_ns": time_ns, "value": value}
