"""What every format returns: the rows of one recording of one rank, before anything is linked.

Rows are in file order. To keep tables of millions of rows small, a column without values may have
Arrow's null type, and integers that fit may have 32 bits. Nothing here is rounded: times are integer
nanoseconds since `facts.start_epoch_ns`, or since the recording's first event if times have no
known epoch. The event id of a host row is its index; those of device rows continue after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.scratch import spill_column
from stepscope.schema.declare import Role
from stepscope.schema.tables import DECLARED

READ: dict[str, pa.Schema] = {table.name: schema for table in DECLARED if (schema := table.read_schema())}
"""The columns of each table that readers fill."""

_MOMENTS = {
    table.name: [
        column.name for column in table.declared if column.role is Role.MOMENT and column.name in READ[table.name].names
    ]
    for table in DECLARED
    if table.name in READ
}


def from_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The table with this name from a few rows; missing values are NULL."""
    return pa.Table.from_pylist(list(rows), schema=READ[name])


def canonical(table: pa.Table, name: str) -> pa.Table:
    """The table with this name, in as little memory as possible; missing columns are NULL."""
    return pa.table(
        {
            field.name: spill_column(small(table[field.name], field.type))
            if field.name in table.column_names
            else pa.nulls(table.num_rows)
            for field in READ[name]
        }
    )


def small(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column of some type in as few bits as its values need: most ids and durations fit into 32.

    Words are numbered with 8, 16 or 32 bits; a column without values takes no memory.
    """
    if column.null_count == len(column):
        return pa.nulls(len(column))
    if pa.types.is_dictionary(kind) and pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
        words = len(column.chunk(0).dictionary)
        index = pa.int8() if words < 1 << 7 else pa.int16() if words < 1 << 15 else pa.int32()
        return column.cast(pa.dictionary(index, pa.string()))
    if pa.types.is_int64(kind):
        extent = pc.min_max(column).as_py()
        if extent["min"] >= -(1 << 31) and extent["max"] < 1 << 31:
            kind = pa.int32()
    return column.cast(kind)


def counted_from(origin: int, **tables: pa.Table) -> dict[str, pa.Table]:
    """The tables with these names, with moments counted from the recording's first event."""
    for name, table in tables.items():
        for column in _MOMENTS[name]:
            moved = spill_column(pc.subtract(table[column].cast(pa.int64()), origin))
            place = table.schema.get_field_index(column)
            tables[name] = table = table.set_column(place, column, moved)
    return tables


EPOCH_NS = 946_684_800_000_000_000
"""Times from the year 2000 on count as Unix time if the file names no base."""


@dataclass(slots=True)
class ReadReport:
    """What became of a file's events: everything that is dropped or repaired is counted here."""

    read: int = 0
    repaired: int = 0
    dropped: int = 0
    truncated: bool = False
    damage_offset: int | None = None
    damage: dict[str, int] = field(default_factory=dict)
    """Number of occurrences by class of damage; classes are listed in `formats.damage`."""
    unknown_categories: dict[str, int] = field(default_factory=dict)
    unknown_fields: dict[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> bool:
        """Whether events were repaired or dropped, or the file ends too early."""
        return bool(self.repaired or self.dropped or self.truncated)

    def add(self, other: ReadReport) -> None:
        """Adds what another part of the reader counted."""
        self.read += other.read
        self.repaired += other.repaired
        self.dropped += other.dropped
        self.truncated |= other.truncated
        for damage, count in other.damage.items():
            self.note(damage, other.damage_offset, count)
        for mine, theirs in (
            (self.unknown_categories, other.unknown_categories),
            (self.unknown_fields, other.unknown_fields),
        ):
            for name, count in theirs.items():
                mine[name] = mine.get(name, 0) + count

    def note(self, damage: str, offset: int | None = None, count: int = 1) -> None:
        """Counts an occurrence of a class of damage, at a byte of the uncompressed file."""
        self.damage[damage] = self.damage.get(damage, 0) + count
        if offset is not None and (self.damage_offset is None or offset < self.damage_offset):
            self.damage_offset = offset

    def drop(self, damage: str, count: int = 1) -> None:
        """Counts events that were dropped for a class of damage."""
        self.note(damage, count=count)
        self.dropped += count

    def repair(self, damage: str, count: int = 1) -> None:
        """Counts events that were repaired."""
        self.note(damage, count=count)
        self.repaired += count


@dataclass(frozen=True, slots=True)
class Group:
    """A group of ranks that communicate, as a job lists it; what it does not say is None."""

    name: str
    description: str | None = None
    backend: str | None = None
    size: int | None = None
    ranks: str | None = None
    """JSON list."""


@dataclass(slots=True)
class Facts:
    """What a recording says about itself; what it does not say is None."""

    rank: int | None = None
    rank_rule: str | None = None
    world_size: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    backend: str | None = None
    start_epoch_ns: int | None = None
    end_epoch_ns: int | None = None
    """Known only to `peek`, if it saw the end of the file."""
    resolution_ns: int = 1
    tool: str | None = None
    tool_version: str | None = None
    devices: tuple[str, ...] | None = None
    """Models of the accelerators; empty if there are none. Known only to `peek`."""
    capabilities: tuple[str, ...] | None = None
    """Compute capabilities of the accelerators, such as 9.0; None unless all are stated. Known only to `peek`."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of software that all ranks of a job share. Known only to `peek`."""
    request: str | None = None
    """Names the request that recorded this, and the other ranks with it. Known only to `peek`."""
    graph_capture: bool = False
    """It is of the capture of a CUDA graph, as StepScope records them, and is read with the others."""
    module_classes: dict[str, str] = field(default_factory=dict)
    """Class of each module by its path in the model, whose own path is ""; empty if modules are not
    listed."""
    groups: tuple[Group, ...] = ()
    """The process groups that the rank is in."""
    metadata: dict[str, Any] = field(default_factory=dict)


def capabilities_of(devices: Iterable[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """The compute capabilities of devices, for `Facts`.

    Args:
        devices: rows of the table `device`.
    """
    stated = {(device["compute_major"], device["compute_minor"]) for device in devices}
    if not stated or any(None in version for version in stated):
        return None
    return tuple(sorted(f"{major}.{minor}" for major, minor in stated))


@cache
def _empty() -> dict[str, pa.Table]:
    return {name: schema.empty_table() for name, schema in READ.items()}


class RankTables:
    """The rows of one recording of one rank: a table for each name in `READ`."""

    def __init__(self, facts: Facts, report: ReadReport, **tables: pa.Table) -> None:
        """A missing table has no rows."""
        self.facts = facts
        self.report = report
        empty = _empty()
        if unknown := tables.keys() - empty.keys():
            raise TypeError(f"readers fill no table {', '.join(sorted(unknown))}")
        self.__dict__.update(empty | tables)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> pa.Table: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
