"""Reads the summary of every step's phases that a recorded process leaves."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from stepscope.base.errors import SourceError
from stepscope.formats.bounded import LIMIT, integer, real
from stepscope.formats.container import Member, strip_bom
from stepscope.formats.frames import UNKNOWN, Frame
from stepscope.formats.inline import document
from stepscope.formats.inline.host import counters, host_rows
from stepscope.formats.options import ReadOptions
from stepscope.formats.sampled.stacks import Samples
from stepscope.formats.step_values import step_values
from stepscope.formats.tables import READ, Facts, RankTables, ReadReport, from_rows

STEP = "step"
_OF_MEMORY = ("memory_bytes", "peak_bytes", "reserved_bytes")
_NO_TIME = ("weight", "weight_ns", *_OF_MEMORY)
_OURS = re.compile(rb'"format"\s*:\s*"stepscope\.phases"')
_METADATA = (
    "steps", "warmup", "backwards", "optimizer_steps", "first_batch_ns", "communication", "script", "settings",
    "ended", "rank_disagreement",
)  # fmt: skip

_RENAMED = {"stands_for": "weight", "stands_for_ns": "weight_ns", "largest_ns": "max_ns"}
"""Fields of files up to version 5."""

Row = dict[str, Any]


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes could be a summary of phases."""
    return strip_bom(head).lstrip(b" \t\r\n")[:1] == b"{" and _OURS.search(head) is not None


def peek(member: Member) -> Facts | None:
    """What the file says about itself."""
    loaded = document.load(member)
    if not isinstance(loaded, dict) or _step(loaded) is None:
        raise _none_counted(member)
    return _facts(loaded)


def read(member: Member, _: ReadOptions | None = None) -> RankTables:
    """Reads one file as the recording of one rank."""
    loaded = document.load(member)
    report = ReadReport()
    rows = _rows(loaded, report) if isinstance(loaded, dict) else []
    if not rows:
        raise _none_counted(member)
    steps = read_steps(loaded, {row["phase"] for row in rows}, report)
    report.read = len(rows) + steps.num_rows
    values = step_values(loaded.get("values"), report, numbered="step")
    return RankTables(
        **_stacks(_object(loaded.get("stacks")), report),
        facts=_facts(loaded, report),
        report=report,
        phase=from_rows("phase", rows),
        phase_step=steps,
        step_value=values,
        host_metric=from_rows("host_metric", host_rows(loaded.get("host"), report)),
        counter=counters(loaded.get("host"), report),
    )


def _stacks(loaded: Row, report: ReadReport) -> dict[str, pa.Table]:
    """The tables of the sampled stacks; a stack that refers to no function of the file is left out."""
    interval_ns = integer(loaded.get("interval_ns"), report)
    functions = [Frame(*fields) for fields in (_function(row, report) for row in _list(loaded.get("functions")))]
    samples = Samples(clock="wall")
    for row in _list(loaded.get("stacks")):
        phase, count, stack = (*_list(row), None, None, None)[:3]
        weight = integer(count)
        places = [at for at in map(integer, _list(stack)) if at is not None and at < len(functions)]
        if weight and places:
            samples.add(
                [functions[at] for at in places],
                _text(phase),
                weight=weight,
                sampled_ns=None if interval_ns is None else weight * interval_ns,
            )
        if not weight or len(places) < len(_list(stack)):
            report.note("wrong_type")
    return samples.tables() if len(samples) else {}


def _function(row: Any, report: ReadReport) -> tuple[str, None, str | None, int | None]:
    name, file, line = (*_list(row), None, None, None)[:3]
    return _text(name) or UNKNOWN, None, _text(file), integer(line, report)


def _none_counted(member: Member) -> SourceError:
    return SourceError(
        f"{member.label}: no step was counted in it",
        hint="the job ended within the first steps, which do not count; let it run longer",
        slug="nothing-measured",
    )


def _step(loaded: Row, report: ReadReport | None = None) -> Row | None:
    return _row(STEP, loaded.get("step"), integer(loaded.get("counted_steps")), report)


def _facts(loaded: Any, report: ReadReport | None = None) -> Facts:
    facts = document.facts_of(loaded, "stepscope", report)
    if isinstance(loaded, dict):
        facts.metadata = {key: loaded[key] for key in _METADATA if key in loaded}
    return facts


def _rows(loaded: Row, report: ReadReport) -> list[Row]:
    step = _step(loaded, report)
    if step is None:
        return []
    steps = step["steps"]
    memory = _object(loaded.get("memory"))
    step["peak_bytes"] = integer(memory.get("peak_bytes"), report)
    step["reserved_bytes"] = integer(memory.get("reserved_bytes"), report)
    step["peak_of"] = _text(memory.get("of"))
    communication = _object(loaded.get("communication"))
    step["communication_ns"] = _time(communication.get("communication_ns"), report)
    step["exposed_communication_ns"] = _time(communication.get("exposed_ns"), report)
    step["timed_backward_ns"] = _time(communication.get("backward_ns"), report)
    waits = communication.get("forward_waits")
    step["forward_waits"] = waits if isinstance(waits, bool) else None
    step["first_batch_ns"], step["first_batches"] = _first_batches(loaded.get("first_batch_ns"), report)
    copied = _object(loaded.get("copied"))
    run = integer(loaded.get("timed_steps"), report) or integer(loaded.get("steps"), report) or steps
    for name in ("timed_every", "timing_ns", "disturbed_steps", "unobserved_steps"):
        step[name] = integer(loaded.get(name), report)
    for name in ("bytes", "pageable_bytes"):
        of_all = integer(copied.get(name), report)
        step["copied_bytes" if name == "bytes" else name] = None if of_all is None else of_all / run
    on_device = _object(loaded.get("device"))
    step["checked_steps"] = integer(on_device.get("checked_steps"), report)
    step["idle_steps"] = integer(on_device.get("idle_steps"), report)
    device = _object(on_device.get("mean_ns"))
    rows = [step]
    for name, phase in _object(loaded.get("phases")).items():
        if phase is None:  # not measured: it could not be observed
            continue
        row = _row(name, phase, steps, report)
        if row is None:
            report.drop("wrong_type")
            continue
        row["device_mean_ns"] = _time(device.get(name), report)
        rows.append(row)
    return rows


def _row(name: str, phase: Any, steps: int | None, report: ReadReport | None) -> Row | None:
    if not isinstance(phase, dict) or not steps:
        return None
    mean = _time(phase.get("mean_ns"), None)
    if mean is None:
        return None
    phase = {_RENAMED.get(field, field): value for field, value in phase.items()}
    statistics = _object(phase.get("statistics"))
    return {
        "phase": name,
        "steps": steps,
        "mean_ns": mean,
        "median_ns": _time(statistics.get("median_ns"), report),
        "p95_ns": _time(statistics.get("p95_ns"), report),
        "max_ns": integer(phase.get("max_ns"), report),
    }


def _first_batches(waits: Any, report: ReadReport) -> tuple[float | None, int | None]:
    """The mean wait for an epoch's first batch (ns), and the number of epochs."""
    known_waits = [wait for value in _list(waits) if (wait := integer(value, report)) is not None]
    return (sum(known_waits) / len(known_waits), len(known_waits)) if known_waits else (None, None)


def _time(value: Any, report: ReadReport | None) -> float | None:
    return real(value, report, low=0, high=LIMIT)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> Row:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


# -- recorded steps --------------------------------------------------------------------------------------


def read_steps(document: Mapping[str, Any], measured: Collection[str], report: ReadReport) -> pa.Table:
    """The recorded steps as rows of `phase_step`, each step's total time first.

    Args:
        document: the file's JSON object. Its `step_columns` name the values of a row: `step`,
            `time_ns`, `PHASE_ns` for each phase, and the memory's; 0 bytes mean "not read".
        measured: phases that could be observed; the others have no time, which is not 0.
        report: counts invalid steps: their times do not add up, or they come before an earlier one.
    """
    columns, samples = document.get("step_columns"), document.get("step_samples")
    table: dict[str, list[Any]] = {name: [] for name in READ["phase_step"].names}
    places = _places(columns)
    phases = [name for name in places if name not in ("step", "time", *_NO_TIME)]
    if not {"step", "time"} <= places.keys() or not phases or not isinstance(samples, list):
        return READ["phase_step"].empty_table()
    last = -1
    for sample in samples:
        values = _values(sample, places)
        if values is None or values["step"] <= last or not _adds_up(values, phases):
            report.drop("bad_step")
            continue
        weight = values.get("weight") or 1
        of_all = values.get("weight_ns")
        together = values["time"] * weight if of_all is None else of_all
        if together >= LIMIT or (of_all is not None and of_all < values["time"]):
            report.drop("bad_step")
            continue
        last = values["step"]
        memory = [values.get(name) or None for name in _OF_MEMORY]
        _add(table, last, STEP, values["time"], weight, of_all, *memory)
        for phase in phases:
            # An unobserved phase has no time of its own: it is in the residual.
            if phase in measured or values[phase]:
                _add(table, last, phase, values[phase], weight, None, None, None, None)
    return pa.table(table, schema=READ["phase_step"])


def _places(columns: Any) -> dict[str, int]:
    """The place of each value in a row: by phase, `step`, `time` and the memory's columns."""
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        return {}
    names = [str(_RENAMED.get(name, name)) for name in columns]
    return {name if name in _NO_TIME else name.removesuffix("_ns"): place for place, name in enumerate(names)}


def _values(sample: Any, places: Mapping[str, int]) -> dict[str, int] | None:
    if not isinstance(sample, Sequence) or len(sample) <= max(places.values()):
        return None
    values = {name: integer(sample[place]) for name, place in places.items()}
    if any(value is None for name, value in values.items() if name not in _NO_TIME):
        return None
    return {name: value for name, value in values.items() if value is not None}


def _adds_up(values: Mapping[str, int], phases: Sequence[str]) -> bool:
    return values["time"] == sum(values[phase] for phase in phases)


def _add(table: dict[str, list[Any]], *row: Any) -> None:
    for values, value in zip(table.values(), row, strict=True):
        values.append(value)
