"""Numbers that a job recorded for its iterations (`stepscope.value`, samples of its batches), as rows."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from stepscope.formats.bounded import LIMIT, integer, real, real_in
from stepscope.formats.tables import ReadReport, from_rows


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
            number, measured = integer(pair[0], low=1 - LIMIT), real(pair[1], low=-LIMIT, high=LIMIT)
            if number is not None and measured is not None:
                rows.append({numbered: number, "name": name, "value": measured})
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
            # HugeCTR writes what it was given as text.
            number = real_in(value, high=LIMIT) if isinstance(value, str) else real(value, low=-LIMIT, high=LIMIT)
            if number is None:
                report.drop("wrong_type")
            else:
                rows.append({"name": name, "value": number})
    return from_rows("step_value", rows)
