"""Numbers that a job recorded for its iterations (`stepscope.value`, samples of its batches), as rows."""

from __future__ import annotations

import math
from typing import Any, Literal

import pyarrow as pa

from stepscope.formats.tables import ReadReport, from_rows

_LIMIT = 1 << 62


def step_values(values: Any, report: ReadReport, *, numbered: Literal["step", "iteration"]) -> pa.Table:
    """Rows of `step_value`; invalid ones are counted and left out.

    Args:
        values: name to a list of [number of the step, value], as our recorders write it; None for nothing.
        numbered: the column for the numbers.
    """
    rows = []
    for name, listed in values.items() if isinstance(values, dict) else ():
        for entry in listed if isinstance(listed, list) else (None,):
            pair = entry if isinstance(entry, list) and len(entry) == 2 else (None, None)
            if _is_number(pair[0]) and isinstance(pair[0], int) and _is_number(pair[1]):
                rows.append({numbered: pair[0], "name": name, "value": float(pair[1])})
            else:
                report.drop("wrong_type")
    report.read += len(rows)
    return from_rows("step_value", rows)


def hugectr_values(listed: Any, report: ReadReport) -> pa.Table:
    """Rows of HugeCTR's `record_data`: one value an iteration, which HugeCTR does not number."""
    rows = []
    for entry in listed if isinstance(listed, list) else ():
        name, data = (entry.get("data_name"), entry.get("data")) if isinstance(entry, dict) else (None, None)
        for value in data if isinstance(data, list) and isinstance(name, str) else (None,):
            number = _number_of(value)
            if number is None:
                report.drop("wrong_type")
            else:
                rows.append({"name": name, "value": number})
    return from_rows("step_value", rows)


def _number_of(value: Any) -> float | None:
    """A value as a number; HugeCTR writes what it was given as text."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < _LIMIT else None


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < _LIMIT
    )
