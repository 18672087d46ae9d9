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
from stepscope.formats.bounded import INT32, LIMIT, integer, integer_in, real
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.inline import document
from stepscope.formats.inline.document import milliseconds
from stepscope.formats.options import ReadOptions
from stepscope.formats.step_values import hugectr_values, step_values
from stepscope.formats.tables import Facts, RankTables, ReadReport, from_rows

ITERATION = "iteration"

_OURS = re.compile(rb'"format"\s*:\s*"stepscope\.inline"')
_MARKS = (b'"avg_measured_time_ms"', b'"measured_times_ms"', b'"iter_time_ms"')
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
    facts = _facts(loaded, report)
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
        facts=facts, report=report, step_value=values, inline_timing=from_rows("inline_timing", timings.rows)
    )


def _facts(loaded: Any, report: ReadReport | None = None) -> Facts:
    ours = isinstance(loaded, dict) and loaded.get("format") == "stepscope.inline"
    facts = document.facts_of(loaded, "stepscope" if ours else "HugeCTR", report)
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
                        event,
                        label=event.get("label"),
                        device=self._number(device_key),
                        stream=self._number(stream_key),
                    )

    def listed(self, events: Any) -> None:
        for event in self._objects(events):
            self._event(
                event,
                label=label_of(event),
                device=self._number(event.get("device_id")),
                stream=self._number(event.get("stream")),
            )

    def iterations(self, loaded: Row) -> None:
        """Complete iterations: ours with their numbers, HugeCTR's as a list of ms."""
        before = len(self.rows)
        listed = loaded.get("iterations", [])
        for entry in listed if isinstance(listed, list) else []:
            number, armed, time_ns, weight, of_all_ns = _row(entry, length=5)
            if integer(time_ns) is None or not isinstance(armed, bool):
                self._report.drop("wrong_type")
                continue
            self._iteration(
                integer(time_ns),
                iteration=integer(number, self._report),
                armed=armed,
                weight=integer(weight, self._report) or 1,
                weight_ns=integer(of_all_ns, self._report),
            )
        statistics = loaded.get("iteration_statistics")
        for name, armed in (("armed", True), ("unarmed", False)):
            count = sum(row.get("armed") is armed for row in self.rows[before:])
            stated = statistics.get(name) if count and isinstance(statistics, dict) else None
            for average in self._of_all(stated, count):
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
        occurrence = integer(
            event.get("occurrence", event.get("met_times_within_this_stream")), self._report, below=INT32
        )
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
            "start_index": self._number(event.get("start_index")),
            "end_index": self._number(event.get("end_index")),
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
                yield {
                    "iteration": integer(parts[0], self._report),
                    "dur_ns": integer(parts[1]),
                    "start_offset_ns": integer(parts[2], self._report, low=1 - LIMIT),
                    "averaged": False,
                    "weight": integer(parts[3], self._report) or 1,
                }
            yield from self._of_all(event.get("statistics"), len(event["samples"]))
        elif isinstance(event.get("measured_times_ms"), list):
            offsets = event.get("iter_start_to_event_start_times_ms")
            offsets = offsets if isinstance(offsets, list) else []
            for place, time_ms in enumerate(event["measured_times_ms"]):
                yield {
                    "dur_ns": milliseconds(time_ms),
                    "start_offset_ns": milliseconds(offsets[place], self._report) if place < len(offsets) else None,
                    "averaged": False,
                }
        elif "avg_measured_time_ms" in event:
            yield {
                "dur_ns": milliseconds(event["avg_measured_time_ms"]),
                "start_offset_ns": milliseconds(event.get("avg_iter_start_to_event_start_time_ms"), self._report),
                "averaged": True,
            }

    def _of_all(self, statistics: Any, sampled: int) -> Iterator[Row]:
        """The average of all measurements, if not all were recorded."""
        if not isinstance(statistics, dict):
            return
        n = integer(statistics.get("n"), self._report)
        mean = real(statistics.get("mean_ns"), self._report, low=0, high=LIMIT - 1024)
        std = real(statistics.get("std_ns"), self._report)
        if n is not None and n > sampled and mean is not None and std is not None:
            yield {"dur_ns": round(mean), "averaged": True, "measurements": n, "std_ns": max(std, 0.0)}

    def _number(self, value: Any) -> int | None:
        """A number of 32 bits, which may be negative ("the host"), or the one at the end of `device_0`."""
        if isinstance(value, str):
            return integer_in(value.rpartition("_")[2], self._report, low=-INT32, below=INT32)
        return integer(value, self._report, low=-INT32, below=INT32)

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
    return time_ns is not None and time_ns >= 0 and time_ns * weight < LIMIT


def label_of(event: Mapping[str, Any]) -> Any:
    """The label of one of HugeCTR's events; its first version has the layer's name separately."""
    name = event.get("event_name", event.get("name"))
    layer = event.get("layer_name")
    return f"{layer}.{name}" if isinstance(layer, str) and isinstance(name, str) else name
