"""Nested ranges as rows of host events, and the inputs and call stacks that they refer to."""

from __future__ import annotations

import json
import os.path
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.formats import vocabulary
from stepscope.formats.nvtx.gradients import derive_inputs
from stepscope.formats.nvtx.markers import Marker
from stepscope.formats.nvtx.ranges import NONE, Nested, Numbering, Ranges, nested
from stepscope.formats.scratch import spill
from stepscope.formats.tables import from_rows
from stepscope.schema.arrays import Int32s, Int64s

Row = dict[str, Any]

_WRAPPED = "pyprof"
"""Category of Python functions that PyProf wrapped."""
_WORDS = ("category", "kind", "name", "role", "other_args")


@lru_cache(maxsize=65_536)
def role_of(kind: str, name: str) -> str | None:
    """What a host event does in the step, if its name says so."""
    return vocabulary.host_role(kind, name)


def range_tables(ranges: Ranges, *, python_stack: bool = True) -> dict[str, pa.Table]:
    """Tables `host_event`, with the times as recorded, `operator_input` and `call_stack` of ranges."""
    tree = nested(ranges)
    derive_inputs(tree)
    others = [{}, *ranges.others]
    names, inputs = tree.names.listed(), tree.inputs.listed()
    sequence = spill(_sequences(tree))
    stacks: Numbering[str] = Numbering()
    stack = np.full(len(ranges), NONE, np.int32)
    if python_stack:
        stack = tree.of_marker(lambda entry: stacks.number(_frames(entry.frames)))
        tree.nesting.inherit(stack)
    stack = spill(stack)
    # Ranges that agree in everything shared: there are few, so Python makes their words.
    distinguishing: list[NDArray[Any]] = [ranges.marker, tree.operator, tree.from_forward.astype(np.int8), ranges.other]
    given = tree.given
    del tree  # with millions of ranges, the memory for nesting matters
    distinct, which = _distinct(distinguishing)
    del distinguishing
    distinct_rows = [
        _row(
            ranges.markers[marker],
            None if operator < 0 else names[operator],
            others[other + 1],
            from_forward=bool(forward),
            python_stack=python_stack,
        )
        for marker, operator, forward, other in distinct
    ]
    is_event = np.array([row is not None for row in distinct_rows], bool)[which]
    chosen = slice(None) if is_event.all() else np.flatnonzero(is_event)
    which = spill(which[chosen])
    columns: dict[str, pa.Array] = {
        "thread": pa.array(ranges.thread[chosen]),
        "start_ns": pa.array(ranges.start_ns[chosen]),
        "dur_ns": pa.array((ranges.end_ns - ranges.start_ns)[chosen]),
        "sequence_number": _numbers(sequence[chosen]),
    }
    for name in _WORDS:
        words: Numbering[str] = Numbering()
        codes = [words.number(row.get(name) if row else None) for row in distinct_rows]
        columns[name] = pa.DictionaryArray.from_arrays(
            _numbers(np.array(codes, np.min_scalar_type(-1 - len(words.of)))[which]),
            pa.array(words.listed(), pa.string()),
        )
    if ranges.collective is not None:
        columns["collective_id"] = _numbers(ranges.collective[chosen])
    columns["input_id"], used = _renumbered(given[chosen])
    columns["stack_id"], stacked = _renumbered(stack[chosen])
    texts = stacks.listed()
    return {
        "host_event": pa.table(columns),
        "operator_input": from_rows(
            "operator_input",
            (
                {"input_id": number, "dims": entry.dims, "types": entry.types, "values": entry.values}
                for number, entry in enumerate(inputs[code] for code in used)
            ),
        ),
        "call_stack": from_rows(
            "call_stack", ({"stack_id": number, "frames": texts[code]} for number, code in enumerate(stacked))
        ),
    }


def _distinct(columns: Sequence[NDArray[Any]]) -> tuple[list[tuple[int, ...]], Int32s]:
    """The distinct rows of some columns, in order of appearance, and the number of its distinct row for each row."""
    codes = np.zeros(len(columns[0]), np.int32)
    distinct: list[tuple[int, ...]] = [()]
    for column in columns:
        width = int(column.max(initial=0)) + 2
        coded = pa.array(codes.astype(np.int64) * width + column + 1).dictionary_encode()
        distinct = [(*distinct[code // width], code % width - 1) for code in coded.dictionary.to_pylist()]
        codes = coded.indices.to_numpy()
    return distinct, codes


def _numbers(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values, mask=values < 0)


def _renumbered(codes: Int32s) -> tuple[pa.Array, list[int]]:
    """Numbers in order of appearance, NULL for -1, and the codes that they stand for."""
    coded = _numbers(codes).dictionary_encode()
    return coded.indices, coded.dictionary.to_pylist()


def _row(marker: Marker, operator: str | None, others: Row, *, from_forward: bool, python_stack: bool) -> Row | None:
    """The words of a row; None for a range that is not an event."""
    if operator is not None:
        kind = vocabulary.host_kind("operator", operator)
        stated = {"inputs": "from the forward call"} if from_forward else _python(marker)
        return {
            "category": "cpu_op" if kind == "operator" else "user_annotation",
            "kind": kind,
            "name": operator,
            "role": role_of(kind, operator),
            "other_args": _json(stated | others),
        }
    if marker.sort == "call" and python_stack:
        return {
            "category": _WRAPPED,
            "kind": "python",
            "name": marker.name,
            "other_args": _json(_python(marker) | others),
        }
    if marker.sort == "module" and python_stack:
        return {
            "category": _WRAPPED,
            "kind": "python",
            "role": "module",
            "name": f"nn.Module: {marker.module}",
            "other_args": _json({"made": marker.name} | others),
        }
    if marker.sort == "range":
        kind = vocabulary.host_kind("annotation", marker.name)
        return {
            "category": "user_annotation",
            "kind": kind,
            "name": marker.name,
            "role": role_of(kind, marker.name),
            "other_args": _json(others),
        }
    return None


def _sequences(tree: Nested) -> Int64s:
    """Autograd's numbers; on a thread of the backward, events that are not nodes have 0, which means no number."""
    node = tree.of_operator(lambda name: role_of("operator", name) == "backward") == 1
    ranges = tree.ranges
    backward = np.isin(ranges.thread, np.unique(ranges.thread[node]))
    nobody = (ranges.sequence == 0) & backward & ~node
    return np.where((tree.operator < 0) | nobody, NONE, ranges.sequence)


def _json(others: Row) -> str | None:
    return json.dumps(others) if others else None


def _python(marker: Marker) -> dict[str, str]:
    return {"mod": marker.module, "op": marker.function} if marker.sort == "call" else {}


def _frames(frames: tuple[str, ...]) -> str | None:
    """The call stack as in table `call_stack`: innermost first."""
    if not frames:
        return None
    return ";".join(os.path.normpath(frame) if frame else frame for frame in reversed(frames))
