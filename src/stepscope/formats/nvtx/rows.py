"""Nested ranges as canonical rows of host events, and the inputs and call stacks that they name."""

from __future__ import annotations

import json
import os.path
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, Generic, TypeVar

import pyarrow as pa

from stepscope.formats import vocabulary
from stepscope.formats.nvtx.calls import Inputs
from stepscope.formats.nvtx.gradients import derive_inputs
from stepscope.formats.nvtx.markers import Marker
from stepscope.formats.nvtx.ranges import Range, name_operators, nest
from stepscope.formats.tables import READ

Row = dict[str, Any]
Value = TypeVar("Value", bound=Hashable)

_WRAPPED = "pyprof"
"""Category of Python functions that PyProf wrapped."""


@lru_cache(maxsize=65_536)
def role_of(kind: str, name: str) -> str | None:
    """What a host event does in the step, where its name says so."""
    return vocabulary.host_role(kind, name)


class Numbering(Generic[Value]):
    """Numbers distinct values in order of appearance."""

    def __init__(self) -> None:
        self.of: dict[Value, int] = {}

    def number(self, value: Value | None) -> int | None:
        """The number of a value; None for None."""
        return None if value is None else self.of.setdefault(value, len(self.of))


class RangeRows:
    """Makes rows of ranges, and numbers what these share."""

    def __init__(self) -> None:
        self._inputs: Numbering[Inputs] = Numbering()
        self._stacks: Numbering[str] = Numbering()
        self._backward_threads: set[int] = set()

    def of(self, ranges: list[Range], *, python_stack: bool = True) -> list[Row]:
        """Rows of table `host_event` for ranges of all threads, with the times as recorded.

        Args:
            ranges: they, in any order; they are put in order and nested.
            python_stack: whether Python functions and call stacks are kept.
        """
        nest(ranges)
        name_operators(ranges)
        derive_inputs(ranges)
        self._backward_threads = {one.thread for one in ranges if _is_node(one)}
        made = (self._row(one, python_stack=python_stack) for one in ranges)
        return [row for row in made if row is not None]

    def tables(self) -> dict[str, pa.Table]:
        """Tables `operator_input` and `call_stack`."""
        inputs = [
            {"input_id": number, "dims": one.dims, "types": one.types, "values": one.values}
            for one, number in self._inputs.of.items()
        ]
        stacks = [
            {"stack_id": number, "frames": frames} for frames, number in self._stacks.of.items()
        ]
        return {
            name: pa.Table.from_pylist(rows, schema=READ[name])
            for name, rows in (("operator_input", inputs), ("call_stack", stacks))
        }

    def _row(self, one: Range, *, python_stack: bool) -> Row | None:
        marker = one.marker
        row: Row = {
            "thread": one.thread,
            "start_ns": one.start_ns,
            "dur_ns": one.end_ns - one.start_ns,
            "input_id": self._inputs.number(one.inputs),
            "stack_id": self._stacks.number(_frames(one.frames)) if python_stack else None,
        }
        if one.operator is not None:
            kind = vocabulary.host_kind("operator", one.operator)
            row |= {
                "category": "cpu_op" if kind == "operator" else "user_annotation",
                "kind": kind,
                "name": one.operator,
                "role": role_of(kind, one.operator),
                "sequence_number": self._sequence(one),
            }
            if one.from_forward:
                row["other_args"] = _json({"inputs": "from the forward call"} | one.others)
            else:
                row["other_args"] = _json(
                    (_python(marker) if marker.sort == "call" else {}) | one.others
                )
            return row
        row["other_args"] = _json(one.others)
        if marker.sort == "call" and python_stack:
            return row | {
                "category": _WRAPPED,
                "kind": "python",
                "name": marker.name,
                "other_args": _json(_python(marker) | one.others),
            }
        if marker.sort == "module" and python_stack:
            return row | {
                "category": _WRAPPED,
                "kind": "python",
                "role": "module",
                "name": f"nn.Module: {marker.module}",
                "other_args": _json({"made": marker.name} | one.others),
            }
        if marker.sort == "range":
            kind = vocabulary.host_kind("annotation", marker.name)
            return row | {
                "category": "user_annotation",
                "kind": kind,
                "name": marker.name,
                "role": role_of(kind, marker.name),
            }
        return None

    def _sequence(self, one: Range) -> int | None:
        """Autograd's number; what is no node on a thread of the backward has 0, which is nobody's."""
        number = one.marker.sequence
        nobody = number == 0 and one.thread in self._backward_threads and not _is_node(one)
        return None if nobody else number


def _json(others: dict[str, str]) -> str | None:
    return json.dumps(others) if others else None


def _python(marker: Marker) -> dict[str, str]:
    return {"mod": marker.module, "op": marker.function}


def _is_node(one: Range) -> bool:
    return one.operator is not None and role_of("operator", one.operator) == "backward"


@lru_cache(maxsize=4096)
def _frames(frames: tuple[str, ...]) -> str | None:
    """The call stack as table `call_stack` has it: innermost first."""
    if not frames:
        return None
    return ";".join(os.path.normpath(frame) if frame else frame for frame in reversed(frames))
