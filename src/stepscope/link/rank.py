"""Adds to a reader's tables every link that they allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepscope.formats.scratch import spill, spill_column
from stepscope.formats.tables import READ, RankTables
from stepscope.link.backward import DIRECTIONS, find_directions, link_backward
from stepscope.link.captured_tables import ThroughCaptures, captured_tables
from stepscope.link.captures import Captured, Placed, find_captured
from stepscope.link.checks import Recording, check_recording
from stepscope.link.collectives import find_collectives
from stepscope.link.columns import assembled, codes, from_codes, integers, numbers
from stepscope.link.device import KINDS, NO_WORK, Device, clip_overruns, read_device
from stepscope.link.device_time import NOT_MEASURED, sum_device_time
from stepscope.link.host import Host, nest_host
from stepscope.link.launches import link_launches
from stepscope.link.modules import Modules, find_modules, spread_modules
from stepscope.link.phases import find_phases
from stepscope.link.recursion import find_recursion
from stepscope.link.replays import created_at, link_replays
from stepscope.link.stacks import find_stacks
from stepscope.link.steps import find_steps, steps_of_events
from stepscope.schema.arrays import Int32s, Int64s
from stepscope.schema.tables import TABLES

_LINKS = {
    "launch": "launch_id",
    "operator": "operator_id",
    "module": "module_id",
    "direction": "direction",
    "step": "step",
}
"""Kinds of link, and their columns of a device event."""


_SUMMED = frozenset({"dur_ns", "bytes"})
_MAX_SUM = 1 << 58
"""Nine years, or 256 PiB: no recording has more, and the ranks of a job together stay within 64 bits."""
_BY_CAPTURE = ("operator", "module", "direction")
"""Links that replayed work has through the capture of its graph."""


class Linked(NamedTuple):
    """A linked recording.

    Args:
        tables: the store's tables for it by name, with all columns except `rank` and `span`. The id of a host event is
            its row, that of a device event its row after all host events. Times are those of the reader.
        captured: the captures of CUDA graphs in it, None if there are none.
    """

    tables: dict[str, pa.Table]
    captured: Captured | None


def link_rank(tables: RankTables, captures: Sequence[Captured] = ()) -> Linked:
    """Links one recording of one rank.

    Args:
        tables: the reader's tables.
        captures: captures of CUDA graphs from other recordings: from those read only for their captures (see
            `captures_of`), or earlier ones of the rank.
    """
    _cut_sums(tables)
    # The intermediate results of links are freed before the host table is assembled: both are large.
    links, linked, captured = _links(tables, captures)
    linked["host_event"] = _host_table(tables.host_event, links)
    linked["attribution"] = attributed(linked["device_event"])
    read = {name: getattr(tables, name) for name in READ if name in TABLES}
    return Linked(read | linked, captured)


def captures_of(tables: RankTables, path: str) -> Captured | None:
    """The captures of CUDA graphs in a recording that is read only for these; None if there are none."""
    host = nest_host(tables.host_event, resolution_ns=tables.facts.resolution_ns)
    device = read_device(tables.device_event)
    launch, _ = link_launches(host, device, tables.flow, tables.thread)
    on_host = _link_host(tables, host)
    texts = _texts(tables, on_host)
    put_in = np.zeros(0, dtype=np.int32)
    return find_captured(host, _ran(host, launch), on_host.placed, tables, texts, put_in=put_in, path=path)


def _cut_sums(tables: RankTables) -> None:
    """Cuts durations and sizes that together are more than any recording has, so that sums stay within 64 bits."""
    for name, schema in READ.items():
        for column in _SUMMED.intersection(schema.names):
            table = getattr(tables, name)
            extent = pc.min_max(table[column]).as_py()
            if max(extent["max"] or 0, -(extent["min"] or 0)) * table.num_rows <= _MAX_SUM:
                continue
            values = numbers(table, column)
            limit = _MAX_SUM // len(values)
            if np.abs(values.astype(np.float64)).sum() > _MAX_SUM:
                tables.report.repair("cut_number", int(((values > limit) | (values < -limit)).sum()))
                cut = pa.array(values.clip(-limit, limit), mask=table[column].is_null().to_numpy())
                setattr(tables, name, table.set_column(table.schema.get_field_index(column), column, cut))


class _HostLinks(NamedTuple):
    """What link finds from host events alone, by position."""

    forward: Int32s
    modules: Modules
    placed: Placed
    call_stack: pa.Table


def _link_host(tables: RankTables, host: Host) -> _HostLinks:
    forward = link_backward(host, tables.flow, tables.thread)
    modules, named = find_modules(host, tables.facts.module_classes)
    direction = find_directions(host, forward, named >= 0)
    module = spread_modules(host, modules, named, forward, direction)
    if (forward >= 0).any():
        host.nesting.inherit(forward)
    del named
    stack, call_stack = find_stacks(host, forward, tables.call_stack)
    placed = Placed(spill(module), spill(direction), spill(stack))
    return _HostLinks(spill(forward), modules, placed, call_stack)


def _ran(host: Host, launch: Int32s) -> NDArray[np.bool_]:
    """Which positions launched work that is recorded."""
    ran = np.zeros(len(host), dtype=bool)
    ran[launch[launch >= 0]] = True
    return ran


def _texts(tables: RankTables, on_host: _HostLinks) -> dict[str, pa.Table]:
    """The tables that numbers in host events refer to."""
    return {
        "module": on_host.modules.table(),
        "operator_input": tables.operator_input,
        "kernel_source": tables.kernel_source,
        "call_stack": on_host.call_stack,
    }


def _links(
    tables: RankTables, captures: Sequence[Captured]
) -> tuple[dict[str, NDArray[Any]], dict[str, pa.Table], Captured | None]:
    """The columns added to host events, by position, all tables except that of host events, and the captures."""
    resolution_ns = tables.facts.resolution_ns
    host = nest_host(tables.host_event, resolution_ns=resolution_ns)
    # What needs most memory comes first, before there is much to keep.
    recursive = find_recursion(host)
    device = read_device(tables.device_event)
    raw_dur = clip_overruns(device)
    launch, operator = link_launches(host, device, tables.flow, tables.thread)
    time = sum_device_time(host, device, launch, operator)
    total_ns, self_ns = spill(time.total), spill(time.self_time)
    del time
    tracks = set(tables.thread.filter(pc.equal(tables.thread["kind"], "track"))["thread"].to_pylist())
    steps = find_steps(host, device, launch, tracks=tracks, truncated=tables.report.truncated)
    step_of_host, step_of_device = map(spill, steps_of_events(steps, host, device, launch))
    on_host = _link_host(tables, host)
    forward, modules = on_host.forward, on_host.modules
    module, direction, stack = on_host.placed
    texts = _texts(tables, on_host)
    put_in = created_at(host, device, tables.graph_node)
    local_captures = find_captured(
        host, _ran(host, launch), on_host.placed, tables, texts.copy(), put_in=put_in, path=None
    )
    sources = [item for item in (local_captures, *captures) if item is not None]
    replays = link_replays(host, device, launch, sources, put_in)
    captured, through = captured_tables(sources, replays, device, modules, texts, first_id=len(host) + len(device))
    linked = {
        "device_event": _device_table(
            device,
            first_id=len(host),
            columns={
                "raw_dur_ns": integers(raw_dur, type=pa.int64()),
                "step": _step_numbers(steps.number, step_of_device),
                **_of_device(host, launch, operator, on_host.placed, through),
            },
        ),
        "step": steps.table(),
        **texts,
        "module": modules.table(),
        **captured,
        **{
            name: assembled(
                name, getattr(tables, name), {"id": pc.add(getattr(tables, name).column("device_row"), len(host))}
            )
            for name in ("measured_kernel", "kernel_metric")
        },
        "collective": find_collectives(
            host, device, launch, tables, [(item.calls, replays.places_in(at)) for at, item in enumerate(sources)]
        ),
        "memory_event": _memory_events(host, tables.memory_event),
        "data_check": check_recording(
            Recording(
                host=host,
                device=device,
                launch=launch,
                steps=steps,
                replays=replays,
                captured=None if local_captures is None else local_captures.position,
                step_of_host=step_of_host,
                overruns=int((raw_dur >= 0).sum()),
                report=tables.report,
                metadata=tables.facts.metadata,
                memory=tables.memory_event,
                resolution_ns=resolution_ns,
            ),
            events=_has_events(tables),
        ),
    }
    if not tables.phase.num_rows:
        linked |= find_phases(host, steps)
    links = {
        "row": host.nesting.row,
        "parent_id": host.nesting.parent,
        "depth": host.nesting.depth,
        "recursive": recursive,
        "self_ns": host.nesting.self_ns,
        "step": step_of_host,
        "step_numbers": steps.number,
        "module_id": module,
        "direction": direction,
        "forward_id": forward,
        "stack_id": stack,
        "device_ns": total_ns,
        "device_self_ns": self_ns,
    }
    return links, linked, local_captures


def _of_device(
    host: Host, launch: Int32s, operator: Int32s, placed: Placed, through: ThroughCaptures | None
) -> dict[str, pa.Array]:
    """The links of device events through their launch, or through the capture of what a graph replayed."""
    module = _through(placed.module, launch, operator)
    direction = _through(placed.direction, launch, operator)
    operator_ids: Int32s | Int64s = host.rows(operator)
    names = _names(host, operator)
    captured = pa.nulls(len(launch), pa.int64())
    if through is not None:
        module = _first(through.module, module)
        direction = _first(through.direction, direction)
        operator_ids = through.operator_ids(host.rows(operator))
        names = through.operator_names(names)
        captured = integers(through.captured, type=pa.int64())
    return {
        "launch_id": integers(host.rows(launch), type=pa.int64()),
        "launch_ns": _times(host, launch),
        "launch_end_ns": _times(host, launch, ends=True),
        "captured_id": captured,
        "operator_id": integers(operator_ids, type=pa.int64()),
        "operator_name": names,
        "module_id": integers(module, type=pa.int32()),
        "direction": from_codes(direction, DIRECTIONS),
    }


def _has_events(tables: RankTables) -> bool:
    """Whether a recording is one of events; also if it should be and has none."""
    if tables.host_event.num_rows or tables.device_event.num_rows:
        return True
    return not any(getattr(tables, name).num_rows for name, table in TABLES.items() if table.measures)


def _through(
    values: NDArray[np.int32] | NDArray[np.int8], launch: NDArray[np.int32], operator: NDArray[np.int32]
) -> NDArray[np.int32]:
    """What a device event gets through its launch, or else through its operator; -1 for nothing."""
    result = np.full(len(launch), -1, dtype=np.int32)
    for origin in (operator, launch):
        linked = np.flatnonzero(origin >= 0)
        linked_values = values[origin[linked]]
        result[linked] = np.where(linked_values >= 0, linked_values, result[linked])
    return result


def _first(values: Int32s, otherwise: Int32s) -> Int32s:
    """The values, with the others in place of missing ones (-1)."""
    return np.where(values >= 0, values, otherwise)


def _times(host: Host, positions: Int32s, *, ends: bool = False) -> pa.Array:
    """When the host events at some positions start or end (ns), as recorded; NULL for -1."""
    if not len(host):
        return pa.nulls(len(positions), pa.int64())
    times = host.end if ends else host.start
    return pa.array(times[positions], mask=positions < 0)


def _names(host: Host, positions: Int32s) -> pa.Array:
    """The names of the host events at some positions; NULL for -1."""
    nowhere = positions < 0
    if nowhere.all():
        return pa.nulls(len(positions), pa.string())
    return host.table.column("name").take(pa.array(host.rows(positions), mask=nowhere))


def _step_numbers(numbers: NDArray[np.int64], index: Int32s) -> pa.Array:
    """The numbers of steps given by index; NULL for -1."""
    padded = integers(np.append(numbers, 0), missing=None, type=pa.int64()).to_numpy()
    return pa.array(padded[index], mask=index < 0)


def _memory_events(host: Host, memory_event: pa.Table) -> pa.Table:
    """Adds the operator that allocated or released memory, the innermost of the thread at that time, and the
    order of the events."""
    position = host.innermost(numbers(memory_event, "thread", missing=-1), numbers(memory_event, "time_ns"))
    operators = integers(host.rows(host.operators_at(position)), type=pa.int64())
    return assembled(
        "memory_event", memory_event, {"sequence": pa.array(np.arange(memory_event.num_rows)), "operator_id": operators}
    )


def attributed(device_event: pa.Table) -> pa.Table:
    """How much of the device time each kind of link reaches, from linked device events."""
    work = codes(device_event, "kind", KINDS, missing=NO_WORK) != NO_WORK
    dur = numbers(device_event, "dur_ns")
    captured = work & device_event["captured_id"].is_valid().to_numpy()
    has = [work & device_event[column].is_valid().to_numpy() for column in _LINKS.values()]
    return pa.table(
        {
            "link": pa.array(list(_LINKS), pa.string()),
            "device_ns": pa.array([int(dur[work].sum())] * len(_LINKS), pa.int64()),
            "attributed_ns": pa.array([int(dur[is_linked].sum()) for is_linked in has], pa.int64()),
            "captured_ns": pa.array(
                [
                    int(dur[is_linked & captured].sum()) if link in _BY_CAPTURE else 0
                    for link, is_linked in zip(_LINKS, has, strict=True)
                ],
                pa.int64(),
            ),
        }
    )


def _host_table(table: pa.Table, links: dict[str, NDArray[Any]]) -> pa.Table:
    """The table of host events; takes each array out of `links` as it is used, to free memory."""
    row = links.pop("row")

    def rows(name: str) -> NDArray[Any]:
        values = links.pop(name)
        result = np.empty_like(values)
        result[row] = values
        return result

    def numbered(name: str, missing: int | None = -1, kind: pa.DataType | None = None) -> pa.Array:
        return spill_column(integers(rows(name), missing=missing, type=kind or pa.int64()))

    def ids(name: str) -> pa.Array:
        positions = links.pop(name)
        links[name] = np.where(positions >= 0, row[positions], -1) if len(row) else positions
        return numbered(name)

    depth = np.minimum(rows("depth"), (1 << 15) - 1).astype(np.int16)
    columns = {
        "device_ns": numbered("device_ns", NOT_MEASURED),
        "device_self_ns": numbered("device_self_ns", NOT_MEASURED),
        "self_ns": numbered("self_ns", None),
        "parent_id": ids("parent_id"),
        "forward_id": ids("forward_id"),
        "step": spill_column(_step_numbers(links.pop("step_numbers"), rows("step"))),
        "module_id": numbered("module_id", kind=pa.int32()),
        "stack_id": numbered("stack_id", kind=pa.int32()),
        "depth": spill_column(pa.array(depth)),
        "recursive": spill_column(pa.array(rows("recursive"))),
        "direction": spill_column(from_codes(rows("direction"), DIRECTIONS)),
        "id": spill_column(integers(np.arange(len(row)), missing=None, type=pa.int64())),
    }
    return assembled("host_event", table, columns)


def _device_table(device: Device, *, first_id: int, columns: dict[str, pa.Array]) -> pa.Table:
    ids = np.arange(first_id, first_id + len(device), dtype=np.int64)
    added = {"id": ids, "dur_ns": device.dur}
    columns |= {name: integers(values, missing=None, type=pa.int64()) for name, values in added.items()}
    stored = {name: spill_column(column) for name, column in columns.items()}
    return assembled("device_event", device.table, stored)
