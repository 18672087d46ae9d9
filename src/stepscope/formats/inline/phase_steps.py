"""Reads the steps that a recorded process kept of its phases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from stepscope.formats.inline.document import MOST_NS, whole
from stepscope.formats.tables import READ, ReadReport

WHOLE_STEP = "step"
_OF_MEMORY = ("memory_bytes", "peak_bytes", "reserved_bytes")
_NO_TIME = ("stands_for", "stands_for_ns", *_OF_MEMORY)


def read_steps(
    document: Mapping[str, Any], measured: Collection[str], report: ReadReport
) -> pa.Table:
    """The kept steps as rows of `phase_step`, each step's whole time first.

    Args:
        document: the file's JSON object. Its `step_columns` name the values of a row: `step`,
            `time_ns`, `PHASE_ns` for each phase, and the memory's; 0 bytes stand for "not read".
        measured: phases that somebody could hear; of the others there is no time, which is not 0.
        report: where steps are counted that cannot be one: their times do not add up, or they come
            before an earlier one.
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
        stands_for = values.get("stands_for") or 1
        of_all = values.get("stands_for_ns")
        together = values["time"] * stands_for if of_all is None else of_all
        if together >= MOST_NS or (of_all is not None and of_all < values["time"]):
            report.drop("bad_step")
            continue
        last = values["step"]
        memory = [values.get(name) or None for name in _OF_MEMORY]
        _add(table, last, WHOLE_STEP, values["time"], stands_for, of_all, *memory)
        for phase in phases:
            # What nobody heard took no time of its own: it is in the residual.
            if phase in measured or values[phase]:
                _add(table, last, phase, values[phase], stands_for, None, None, None, None)
    return pa.table(table, schema=READ["phase_step"])


def _places(columns: Any) -> dict[str, int]:
    """Where in a row each value is: by phase, `step`, `time` and the memory's columns."""
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        return {}
    return {
        name if name in _NO_TIME else name.removesuffix("_ns"): place
        for place, name in enumerate(columns)
    }


def _values(sample: Any, places: Mapping[str, int]) -> dict[str, int] | None:
    if not isinstance(sample, Sequence) or len(sample) <= max(places.values()):
        return None
    values = {name: whole(sample[place]) for name, place in places.items()}
    if any(value is None for name, value in values.items() if name not in _NO_TIME):
        return None
    return {name: value for name, value in values.items() if value is not None}


def _adds_up(values: Mapping[str, int], phases: Sequence[str]) -> bool:
    return values["time"] == sum(values[phase] for phase in phases)


def _add(table: dict[str, list[Any]], *row: Any) -> None:
    for values, value in zip(table.values(), row, strict=True):
        values.append(value)
