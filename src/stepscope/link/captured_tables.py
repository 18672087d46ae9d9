"""The captures of graphs as tables, and what replayed work gets from them.

Captures from another recording bring their modules, inputs, generated code and call stacks along. Modules with the same
path are one module; the others get numbers after the recording's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepscope.link.backward import DIRECTIONS
from stepscope.link.captures import EARLIER, Captured
from stepscope.link.columns import from_codes, integers, places
from stepscope.link.device import Device
from stepscope.link.host import LAUNCH
from stepscope.link.modules import Modules
from stepscope.link.replays import Replays
from stepscope.schema.arrays import Int32s, Int64s
from stepscope.schema.tables import TABLES

_NUMBERED = {"input_id": "operator_input", "kernel_source_id": "kernel_source", "stack_id": "call_stack"}
_Numbers = Callable[[Int32s], Int32s]


@dataclass(slots=True)
class ThroughCaptures:
    """What device events get through a capture, -1 for nothing.

    `captured` and `operator` are ids of events, `name` is the index of the operator's name in `names`.
    """

    captured: Int64s
    operator: Int64s
    name: Int32s
    names: list[str]
    module: Int32s
    direction: Int32s

    def operator_ids(self, otherwise: Int32s) -> Int64s:
        """The ids of the operators; those of `otherwise` if there is no capture."""
        return np.where(self.captured >= 0, self.operator, otherwise)

    def operator_names(self, otherwise: pa.Array) -> pa.Array:
        """The names of the operators; those of `otherwise` if there is no capture."""
        indices = pa.array(self.name, mask=self.name < 0)
        captured_names = pa.array(self.names, pa.string()).take(indices)
        is_captured = pa.array(self.captured >= 0)
        plain = pa.chunked_array(otherwise.chunks if isinstance(otherwise, pa.ChunkedArray) else [otherwise])
        return pc.if_else(is_captured, captured_names, plain.cast(pa.string()).combine_chunks()).dictionary_encode()


def captured_tables(
    sources: Sequence[Captured],
    replays: Replays,
    device: Device,
    modules: Modules,
    texts: dict[str, pa.Table],
    *,
    first_id: int,
) -> tuple[dict[str, pa.Table], ThroughCaptures | None]:
    """The tables `capture` and `captured_event`, and what device events get through them; None if nothing
    was replayed from a capture.
    """
    through = _empty(len(device)) if replays.matched else None
    rows: list[dict[str, Any]] = []
    events: list[pa.Table] = []
    number = 0
    for at, source in enumerate(sources):
        replayed = np.flatnonzero(replays.source == at)
        node = replays.node[replayed]
        capture_of = np.searchsorted(source.bounds, node, side="right") - 1
        lasted = np.bincount(capture_of, weights=device.dur[replayed], minlength=len(source))
        is_replayed = np.isin(source.events["capture"], capture_of)
        place = np.cumsum(is_replayed) - 1
        if through is not None and is_replayed.any():
            renumbering = _added(source, modules, texts) if source.path is not None else {}
            table, mapped = _events(source, is_replayed, place, number, first_id, renumbering)
            events.append(table)
            event = source.event[node]
            operator = _operators(source)[event]
            base = len(through.names)
            through.names += source.words["name"]
            through.captured[replayed] = first_id + place[event]
            inside = operator >= 0
            through.operator[replayed] = np.where(inside, first_id + place[operator], -1)
            through.name[replayed] = np.where(inside, base + source.events["name"][operator], -1)
            through.module[replayed] = mapped["module_id"][place[event]]
            through.direction[replayed] = mapped["direction"][place[event]]
            first_id += int(is_replayed.sum())
        for capture in range(len(source)):
            if source.rule == EARLIER and (at, capture) not in replays.matched:
                continue
            row = _capture_row(source, capture, by_node=(at, capture) in replays.by_node)
            row["capture"] = number + capture
            row["replays"] = replays.matched.get((at, capture), 0)
            row["device_ns"] = int(lasted[capture])
            if not row["replays"]:
                row["confidence"] = None
            rows.append(row)
        number += len(source)
    declared = {name: TABLES[name] for name in ("capture", "captured_event")}
    schemas = {name: schema_table.arrow(schema_table.linked_names) for name, schema_table in declared.items()}
    return {
        "capture": pa.Table.from_pylist(rows, schema=schemas["capture"]),
        "captured_event": pa.concat_tables([schemas["captured_event"].empty_table(), *events])
        if not events
        else pa.concat_tables(events, promote_options="permissive"),
    }, through


def _empty(events: int) -> ThroughCaptures:
    ids, numbers = np.full(events, -1, np.int64), np.full(events, -1, np.int32)
    return ThroughCaptures(ids, ids.copy(), numbers, [], numbers.copy(), numbers.copy())


def _capture_row(source: Captured, capture: int, *, by_node: bool) -> dict[str, Any]:
    low, high = source.bounds[capture : capture + 2].tolist()
    is_kernel = source.kind[low:high] == LAUNCH
    unnamed = int((is_kernel & (source.kernel[low:high] < 0)).sum())
    confidence = "order, count and names"
    if by_node:
        confidence = "nodes"
    elif unnamed:
        named = int(is_kernel.sum()) - unnamed
        confidence = "order, count and some names" if named else "order and count"
    return {
        "name": source.names[capture],
        "rule": source.rule,
        "path": source.path,
        "launches": high - low,
        "unnamed_kernels": unnamed,
        "confidence": confidence,
    }


def _operators(source: Captured) -> Int32s:
    """The innermost operator at or above each event of captures, -1 for none."""
    events, kinds = source.events, source.words["kind"]
    operator = kinds.index("operator") if "operator" in kinds else -1
    at = np.arange(len(events["kind"]), dtype=np.int32)
    climbing = at >= 0
    while climbing.any():
        climbing = (at >= 0) & (events["kind"][at] != operator)
        at = np.where(climbing, events["parent"][at], at).astype(np.int32)
    return at


def _events(
    source: Captured,
    is_replayed: NDArray[np.bool_],
    place: NDArray[Any],
    number: int,
    first_id: int,
    renumbering: dict[str, _Numbers],
) -> tuple[pa.Table, dict[str, Int32s]]:
    """The replayed events as rows of `captured_event`, and their columns as numbers."""
    columns = {name: values[is_replayed] for name, values in source.events.items()}
    for name, renumbered in renumbering.items():
        columns[name] = renumbered(columns[name])
    parent = columns["parent"]
    above = np.where(parent >= 0, first_id + place[parent], -1)
    arrays = {
        "id": pa.array(first_id + np.arange(int(is_replayed.sum()), dtype=np.int64)),
        "capture": pa.array(columns["capture"] + number, pa.int32()),
        "node": integers(columns["node"], type=pa.int64()),
        "parent_id": integers(above.astype(np.int64), type=pa.int64()),
        "direction": from_codes(columns["direction"], DIRECTIONS),
    }
    for name in ("kind", "role", "name"):
        arrays[name] = from_codes(columns[name], source.words[name])
    for name in ("module_id", *_NUMBERED):
        arrays[name] = integers(columns[name], type=pa.int32())
    names = TABLES["captured_event"].linked_names
    return pa.table({name: arrays[name] for name in names}), columns


def _added(source: Captured, modules: Modules, texts: dict[str, pa.Table]) -> dict[str, _Numbers]:
    """Adds the texts and modules of another recording's captures; returns how their numbers map to this one's."""
    added: dict[str, _Numbers] = {"module_id": _renumbered(_merged_modules(source, modules))}
    for column, table in _NUMBERED.items():
        used = np.unique(source.events[column])
        used = used[used >= 0]
        rows = source.texts[table]
        rows = rows.filter(pc.is_in(rows[column], pa.array(used, rows[column].type)))
        taken = texts[table]
        first = 0 if not taken.num_rows else int(pc.max(taken[column]).as_py()) + 1
        old = rows[column].to_numpy().astype(np.int32)
        new = first + np.arange(len(old), dtype=np.int32)
        at = rows.schema.get_field_index(column)
        rows = rows.set_column(at, taken.schema.field(column), pa.array(new, taken.schema.field(column).type))
        texts[table] = pa.concat_tables([taken, rows], promote_options="permissive")
        added[column] = _renumbered(dict(zip(old.tolist(), new.tolist(), strict=True)))
    return added


def _renumbered(numbers: dict[int, int]) -> _Numbers:
    old = np.array(sorted(numbers), np.int32)
    new = np.array([*(numbers[number] for number in sorted(numbers)), -1], np.int32)

    def renumber(values: Int32s) -> Int32s:
        return new[places(old, values)]

    return renumber


def _merged_modules(source: Captured, modules: Modules) -> dict[int, int]:
    """The number here of each module of another recording."""
    module_of = {row["path"]: row["module_id"] for row in modules.rows}
    numbers: dict[int, int] = {}
    for row in source.texts["module"].to_pylist():
        if row["path"] not in module_of:
            parent = numbers.get(row["parent_id"], -1)
            new = modules.add(parent, row["name"], row["class"], compiled=row["compiled"])
            modules.rows[new] |= {"path": row["path"], "rule": row["rule"], "calls": None}
            module_of[row["path"]] = new
        numbers[row["module_id"]] = module_of[row["path"]]
    return numbers
