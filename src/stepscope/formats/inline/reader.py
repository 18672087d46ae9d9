"""Reads inline measurements: one file per process, in any of their historical shapes.

* `timeline` by `device_N` and `stream_N`, with averages, as HugeCTR's notebook showed results (a list of hosts) and as
  StepScope writes them, with raw samples next to the averages;
* HugeCTR's own files: `events` with `measured_times_ms`, and `iter_time_ms`;
* those of its first version: a list of events with `layer_name` and `name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stepscope.base.errors import SourceError
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.inline import document
from stepscope.formats.inline.document import index, milliseconds, parse_uint
from stepscope.formats.options import ReadOptions
from stepscope.formats.step_values import hugectr_values, step_values
from stepscope.formats.tables import Facts, RankTables, ReadReport, from_rows

ITERATION = "iteration"

_OURS = re.compile(rb'"format"\s*:\s*"stepscope\.inline"')
_MARKS = (b'"avg_measured_time_ms"', b'"measured_times_ms"', b'"iter_time_ms"')
_NUMBERED = re.compile(r"[A-Za-z]+_(-?\d{1,18})$")
_METADATA = (
    "script", "complete", "mode", "warmup", "repetitions", "iterations_run", "overhead", "armed_every",
    "bookkeeping_ns_per_iteration", "not_measured", "model_changes", "avg_iter_time_ms", "settings", "ended",
    "rank_disagreement",
)  # fmt: skip

Row = dict[str, Any]


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes could be inline measurements."""
    if strip_bom(head).lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
        return False
    if b'"traceEvents"' in head or b'"ph"' in head:
        return False
    return _OURS.search(head) is not None or any(mark in head for mark in _MARKS)


def processes(member: Member) -> list[str]:
    """Names of the hosts in a list of results, as HugeCTR's notebook prints one; empty for other files."""
    with member.open() as stream:
        if not strip_bom(stream.read(64)).lstrip().startswith(b"["):
            return []
    return list(_by_host(results_in(document.load(member))))


def peek(member: Member) -> Facts | None:
    """What the file says about itself."""
    return _facts(_result(member))


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one host of a list, as the recording of one rank."""
    return tables_of(_result(member), member.label)


def results_in(loaded: Any) -> list[Row]:
    """The results of the hosts in a list of them; empty for anything else."""
    if not isinstance(loaded, list) or not loaded:
        return []
    return loaded if all(isinstance(result, dict) and "timeline" in result for result in loaded) else []


def _by_host(results: list[Row]) -> dict[str, Row]:
    """Each result by the name of its host, numbered if several have the same name."""
    named = [str(result.get("host_name")) for result in results]
    return {
        name if named.count(name) == 1 else f"{name} {place}": result
        for place, (name, result) in enumerate(zip(named, results, strict=True))
    }


def _result(member: Member) -> Any:
    loaded = document.load(member)
    hosts = _by_host(results_in(loaded))
    if member.process is not None:
        return hosts.get(member.process, loaded)
    return next(iter(hosts.values())) if len(hosts) == 1 else loaded


def tables_of(loaded: Any, label: str) -> RankTables:
    """The measurements of a document in memory.

    Raises:
        SourceError: it has no measurements; `label` is its name in the message.
    """
    report = ReadReport()
    timings = _Rows(report)
    if isinstance(loaded, list):
        timings.listed(loaded)
    elif isinstance(loaded, dict):
        if "events" in loaded:
            timings.listed(loaded["events"])
        if "timeline" in loaded:
            timings.timeline(loaded["timeline"])
        timings.iterations(loaded)
    if not timings.rows:
        raise SourceError(
            f"{label}: no inline measurements in it",
            hint="the job ended before the first event was measured, or the file was changed",
            slug="nothing-measured",
        )
    report.read = len(timings.rows)
    values = (
        hugectr_values(loaded.get("runtime_data"), report)
        if isinstance(loaded, dict) and "runtime_data" in loaded
        else step_values(loaded.get("values") if isinstance(loaded, dict) else None, report, numbered="iteration")
    )
    return RankTables(
        facts=_facts(loaded), report=report, step_value=values, inline_timing=from_rows("inline_timing", timings.rows)
    )


def _facts(loaded: Any) -> Facts:
    ours = isinstance(loaded, dict) and loaded.get("format") == "stepscope.inline"
    facts = document.facts_of(loaded, "stepscope" if ours else "HugeCTR")
    if isinstance(loaded, dict):
        facts.metadata = {key: loaded[key] for key in _METADATA if key in loaded}
    return facts


class _Rows:
    """Rows of `inline_timing`; invalid ones are counted and left out."""

    def __init__(self, report: ReadReport) -> None:
        self.rows: list[Row] = []
        self._report = report
        self._occurrences: dict[tuple[object, ...], int] = {}

    def timeline(self, timeline: Any) -> None:
        """Events by `device_N` and `stream_N`."""
        for device_key, streams in self._items(timeline):
            for stream_key, events in self._items(streams):
                for event in self._objects(events):
                    self._event(
                        event, label=event.get("label"), device=_number_in(device_key), stream=_number_in(stream_key)
                    )

    def listed(self, events: Any) -> None:
        for event in self._objects(events):
            self._event(
                event, label=label_of(event), device=index(event.get("device_id")), stream=_stream(event.get("stream"))
            )

    def iterations(self, loaded: Row) -> None:
        """Complete iterations: ours with their numbers, HugeCTR's as a list of ms."""
        before = len(self.rows)
        listed = loaded.get("iterations", [])
        for entry in listed if isinstance(listed, list) else []:
            number, armed, time_ns, weight, of_all_ns = _row(entry, length=5)
            if parse_uint(time_ns) is None or not isinstance(armed, bool):
                self._report.drop("wrong_type")
                continue
            self._iteration(
                parse_uint(time_ns),
                iteration=parse_uint(number),
                armed=armed,
                weight=parse_uint(weight) or 1,
                weight_ns=parse_uint(of_all_ns),
            )
        statistics = loaded.get("iteration_statistics")
        for name, armed in (("armed", True), ("unarmed", False)):
            count = sum(row.get("armed") is armed for row in self.rows[before:])
            stated = statistics.get(name) if count and isinstance(statistics, dict) else None
            for average in _of_all(stated, count):
                self._iteration(average.pop("dur_ns"), armed=armed, **average)
        times = loaded.get("iter_time_ms", [])
        for time_ms in times if isinstance(times, list) else [times]:
            self._iteration(milliseconds(time_ms))
        if len(self.rows) == before and loaded.get("avg_iter_time_ms") is not None:
            self._iteration(milliseconds(loaded["avg_iter_time_ms"]), averaged=True)

    def _iteration(self, time_ns: int | None, **columns: Any) -> None:
        of_all_ns = columns.get("weight_ns")
        if not _adds(time_ns, columns.get("weight", 1)) or (
            of_all_ns is not None and time_ns is not None and of_all_ns < time_ns
        ):
            self._report.drop("wrong_type")
            return
        self.rows.append(
            {
                "kind": "iteration",
                "label": ITERATION,
                "occurrence": 0,
                "dur_ns": time_ns,
                "averaged": False,
                "weight": 1,
                **columns,
            }
        )

    def _event(self, event: Row, *, label: Any, device: int | None, stream: int | None) -> None:
        if not isinstance(label, str):
            self._report.drop("wrong_type")
            return
        occurrence = parse_uint(event.get("occurrence", event.get("met_times_within_this_stream")), below=1 << 31)
        if occurrence is None:
            key = (label, device, stream)
            occurrence = self._occurrences.get(key, 0)
            self._occurrences[key] = occurrence + 1
        clock = event.get("clock")
        same = {
            "kind": "event",
            "label": label,
            "occurrence": occurrence,
            "device": device,
            "stream": stream,
            "start_index": index(event.get("start_index")),
            "end_index": index(event.get("end_index")),
            "clock": clock if isinstance(clock, str) else None,
        }
        for measured in self._measurements(event):
            row = {**same, "weight": 1, **measured}
            if _adds(row["dur_ns"], row["weight"]):
                self.rows.append(row)
            else:
                self._report.drop("wrong_type")

    def _measurements(self, event: Row) -> Iterator[Row]:
        if isinstance(event.get("samples"), list):
            for sample in event["samples"]:
                parts = _row(sample, length=4)
                offset = parts[2] if _is_int(parts[2]) else None
                yield {
                    "iteration": parse_uint(parts[0]),
                    "dur_ns": parse_uint(parts[1]),
                    "start_offset_ns": offset,
                    "averaged": False,
                    "weight": parse_uint(parts[3]) or 1,
                }
            yield from _of_all(event.get("statistics"), len(event["samples"]))
        elif isinstance(event.get("measured_times_ms"), list):
            offsets = event.get("iter_start_to_event_start_times_ms")
            offsets = offsets if isinstance(offsets, list) else []
            for place, time_ms in enumerate(event["measured_times_ms"]):
                yield {
                    "dur_ns": milliseconds(time_ms),
                    "start_offset_ns": milliseconds(offsets[place]) if place < len(offsets) else None,
                    "averaged": False,
                }
        elif "avg_measured_time_ms" in event:
            yield {
                "dur_ns": milliseconds(event["avg_measured_time_ms"]),
                "start_offset_ns": milliseconds(event.get("avg_iter_start_to_event_start_time_ms")),
                "averaged": True,
            }

    def _items(self, value: Any) -> Iterable[tuple[str, Any]]:
        if isinstance(value, dict):
            return value.items()
        self._report.drop("wrong_type")
        return ()

    def _objects(self, value: Any) -> Iterator[Row]:
        if not isinstance(value, list):
            self._report.drop("wrong_type")
            return
        for entry in value:
            if isinstance(entry, dict):
                yield entry
            else:
                self._report.drop("wrong_type")


def _row(listed: Any, *, length: int) -> list[Any]:
    """A measurement's values. Before there were weights it had three; then it counts once, and the total time of the
    iterations that it stands for is unknown.
    """
    values = listed if isinstance(listed, list) else []
    return [*values, *[1, None][len(values) - 3 :]][:length] if 3 <= len(values) <= length else [None] * length


def _adds(time_ns: int | None, weight: int) -> bool:
    """Whether it is a time that can be added as often as it counts."""
    return time_ns is not None and time_ns >= 0 and time_ns * weight < document.MAX_NS


def _of_all(statistics: Any, sampled: int) -> Iterator[Row]:
    """The average of all measurements, if not all were recorded."""
    if not isinstance(statistics, dict):
        return
    n = parse_uint(statistics.get("n"))
    mean, std = (document.number(statistics.get(name)) for name in ("mean_ns", "std_ns"))
    if n is None or n <= sampled or mean is None or not 0 <= mean < document.MAX_NS or std is None:
        return
    yield {"dur_ns": round(mean), "averaged": True, "measurements": n, "std_ns": max(std, 0.0)}


def label_of(event: Mapping[str, Any]) -> Any:
    """The label of one of HugeCTR's events; its first version has the layer's name separately."""
    name = event.get("event_name", event.get("name"))
    layer = event.get("layer_name")
    return f"{layer}.{name}" if isinstance(layer, str) and isinstance(name, str) else name


def _number_in(key: str) -> int | None:
    """`device_0` → 0."""
    match = _NUMBERED.match(key)
    return int(match.group(1)) if match else None


def _stream(value: Any) -> int | None:
    """The number of a stream; HugeCTR writes `stream_3` or the number alone."""
    return _number_in(value) if isinstance(value, str) else index(value)


def _is_int(value: Any) -> bool:
    in_range = isinstance(value, int) and abs(value) < document.MAX_NS
    return in_range and not isinstance(value, bool)
