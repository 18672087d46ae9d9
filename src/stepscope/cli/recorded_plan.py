"""Makes a plan from a recording: its modules, those with the most work of their own first."""

from __future__ import annotations

import re
from typing import Any

from stepscope.api.several import check_one_job
from stepscope.api.trace import open_trace
from stepscope.base.errors import SourceError
from stepscope.record.planning.listing import Listed

# torch.profiler's own module names, which no model uses.
_BY_CLASS = re.compile(r"[A-Z]\w*_\d+")

ERRORS = {
    "no-modules": (
        "`stepscope plan` was given a recording that names no modules of the model, or names them "
        "only by their classes (`Linear_3`). `stepscope record --trace` keeps their paths; or "
        "name the script or the model itself."
    )
}


def recorded_plan(source: str, top: int) -> tuple[list[Listed], list[str]]:
    """Returns the events of a recording's modules, and the lines to print above the plan.

    Raises:
        SourceError: the recording does not name modules, or only by class.
    """
    with open_trace(source) as trace:
        check_one_job(trace)
        rows = _parts_of_the_model(trace.ask("modules").rows())
    if not rows:
        raise _no_modules(f"{source}: the recording names no modules")
    if all(_BY_CLASS.fullmatch(part) for row in rows for part in row["path"].split(".")):
        path = rows[-1]["path"]
        raise _no_modules(f"{source}: the recording names modules by their classes ({path})")
    on_device = any(row["device_self_ns"] for row in rows)
    kind, work = ("device", "device work") if on_device else ("host", "host time")
    rows.sort(key=lambda row: -(row[f"{kind}_self_ns"] or 0))
    events = []
    for row in rows[:top]:
        path = row["path"]
        events.append(Listed(f"{path}.forward", time_ns=row[f"forward_{kind}_ns"]))
        if row[f"backward_{kind}_ns"]:
            events.append(Listed(f"{path}.backward", time_ns=row[f"backward_{kind}_ns"]))
    return events, [
        f"The modules of {source}, those with the most {work} of their own first.",
        f"Times are all {work} over the complete recording, with that of the modules inside.",
    ]


def _parts_of_the_model(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # Without the row of work outside of modules, too.
    named = [row for row in rows if row["path"] and "(" not in row["path"]]
    outermost = [row for row in named if row["depth"] == 0]
    # A single root is the model itself, whose path is empty in the program.
    return [row for row in named if len(outermost) > 1 or row["depth"] != 0]


def _no_modules(message: str) -> SourceError:
    return SourceError(
        message,
        hint="record with stepscope record --trace, which keeps their paths, or name the model",
        slug="no-modules",
    )
