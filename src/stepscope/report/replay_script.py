"""Makes a script that repeats recorded calls without StepScope: a fixed program and a literal.

Everything from the recording is in that literal. Python's `repr` writes it from numbers, checked names and texts for
people, and it is read back before the script is written. So nothing in a recording becomes code.
"""

from __future__ import annotations

import ast
from importlib import resources
from pprint import pformat
from typing import Any, NamedTuple

from stepscope.analysis.operators.replayed_calls import ReplayedCall, kernel_names, rebuilt
from stepscope.base.errors import SourceError
from stepscope.base.quoting import printable
from stepscope.query.scope import Scope

_PLACE = "# RECORDED\n"
_MAX_NAMED = 5


class ReplayScript(NamedTuple):
    """A script, the number of calls it makes, and those that it cannot make, with the reasons."""

    text: str
    calls: int
    left_out: tuple[str, ...]


def replay_script(scope: Scope, calls: list[ReplayedCall], source: str) -> ReplayScript:
    """Makes the script that repeats calls of a recording.

    Raises:
        SourceError: no call can be repeated.
    """
    literals, left_out = [], []
    for call in calls:
        given = rebuilt(call)
        if isinstance(given, str):
            left_out.append(f"{call.words()}: {given}")
            continue
        within = sorted(call.within - {call.name})
        literals.append(
            {
                "operator": call.name,
                "inputs": given.inputs,
                "assumed": list(given.assumed),
                "within": printable(", ".join(within[:_MAX_NAMED])),
                "calls": call.calls,
                "host_ns": call.host_ns,
                "device_ns": call.device_ns,
                "kernels": kernel_names(call),
            }
        )
    if not literals:
        raise SourceError(
            f"{source}: none of the calls can be made again: {'; '.join(left_out)}",
            hint="record the program again with record_shapes=True and a newer PyTorch",
            slug="nothing-to-replay",
        )
    devices = scope.sql("SELECT DISTINCT name FROM device WHERE used AND name IS NOT NULL ORDER BY name")
    names = [printable(name) for name in devices.column("name").to_pylist()]
    recorded = {"source": printable(source), "device": ", ".join(names)[:200] or None}
    literal = f"RECORDED = {_literal(recorded)}\nCALLS = {_literal(literals)}\n"
    template = resources.files("stepscope.report").joinpath("replay_script.txt").read_text("utf-8")
    before, _, after = template.partition(_PLACE)
    return ReplayScript(f"{before}{literal}{after}", len(literals), tuple(left_out))


def _literal(value: Any) -> str:
    """A value as a Python literal in ASCII, so that no look-alike letters get into source code."""
    text = pformat(value, width=110, compact=True, sort_dicts=False)
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    if ast.literal_eval(text) != value:
        raise ValueError("a recorded value is not a Python literal")
    return text
