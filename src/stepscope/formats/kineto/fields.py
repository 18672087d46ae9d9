"""The fields of Kineto's events: their types, and the columns they become.

A column of the schema names its argument, and reading and exporting it follow from that. This module has what is not a
plain column: keys of the event itself, arguments that are computed with, and those that many events share.

Names are matched without case: torch has written `External id` and `external id`, `Input Dims` and
`Input dims`. A field that is not listed here is counted and kept in `other_args` under its raw name,
each spelling by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.schema.declare import SchemaColumn
from stepscope.schema.tables import DECLARED

EVENT = {
    "ph": "VARCHAR",
    "cat": "VARCHAR",
    "name": "VARCHAR",
    "pid": "VARCHAR",
    "tid": "VARCHAR",
    "ts": "DOUBLE",
    "dur": "DOUBLE",
    "id": "BIGINT",
    "args": "",
}
"""Keys of an event itself, with the type DuckDB reads them as."""

IMPOSSIBLE_NS = -(1 << 62)  # a duration that no event can have; its event is left out
UNSIGNED_NS = -2  # the duration of an event that never ended and whose end of 0 was less than its start
EVENT_IGNORED = frozenset({"s", "bp", "tts", "tdur", "cname", "sf", "ipts", "id2", "scope"})
"""Keys of an event that only tell a viewer how to draw it."""


@dataclass(frozen=True, slots=True)
class Field:
    """An argument and the column that it becomes."""

    argument: str
    column: SchemaColumn

    @property
    def read_as(self) -> str:
        """The type that DuckDB reads it as; `rows` narrows it to the column's."""
        return _READ_AS.get(self.column.sql_type, self.column.sql_type)

    @property
    def percent(self) -> bool:
        """Whether the argument is in per cent and the column a ratio."""
        return self.argument.endswith("%")


_READ_AS = {"INTEGER": "BIGINT", "SMALLINT": "BIGINT", "BOOLEAN": "VARCHAR"}

FIELDS = {
    table.name: tuple(Field(column.argument, column) for column in table.declared if column.argument)
    for table in DECLARED
}
"""The arguments of each table, as its columns declare them (`SchemaColumn.argument`). A reader of a new argument needs
no more than that."""

SIZES = ("grid", "block")  # lists of three that become the columns `grid_x`, `grid_y`, ...
QUEUES = ("sycl queue", "l0 queue")  # what Intel's tracer has in place of a stream
_COMPUTED = {
    **dict.fromkeys((*SIZES, *QUEUES), "VARCHAR"),
    "occupancy": "VARCHAR",
    "num_warps": "VARCHAR",
    "num_stages": "VARCHAR",
    "Global rank start": "BIGINT",
    "Global rank stride": "BIGINT",
    "Device Type": "BIGINT",
    "name": "VARCHAR",
}
"""Further arguments, from which columns are computed, with the type DuckDB reads them as."""

ARGS = {field.argument: field.read_as for fields in FIELDS.values() for field in fields} | _COMPUTED
"""Arguments that become columns, with the type DuckDB reads them as."""

OUT_OF_MEMORY = ("Device Type", "Device Id", "bytes", "Total Allocated", "Total Reserved")
"""What a failed allocation states."""

ARGS_DERIVABLE = {
    "Ev Idx": "the order of events, which rows keep",
    "Profiler Event Index": "the order of events, which rows keep",
    "Record function id": "the recorder's number of the call, used only to join execution traces",
    "Trace name": "the same on every event",
    "Trace iteration": "the same on every event",
    "cbid": "number of the runtime call, whose name is the event's",
    "cid": "number of the runtime call, whose name is the event's",
    "kind": "number of the activity, which the category names",
    "kernel_name": "the event's own name",
    "kernel_hash": "the name of the generated file",
    "cuda_sync_kind": "the event's own name",
    "queued": "always 0: CUPTI does not fill it unless asked",
    "finished": "whether an event ended, which its duration tells",
    "external ts": "the operator's time, which its own row has",
    "memory bandwidth (GB/s)": "bytes by duration",
    "sort_index": "how a viewer orders rows",
    "labels": "how a viewer marks a process",
    "Rank": "the rank whose recording the file is",
    "Op count": "how many rows there are",
    "stepscope": "what StepScope found out and exported, which it finds out again",
}
"""Known arguments that are skipped because another column says the same, with the reason."""


@dataclass(frozen=True, slots=True)
class SharedArgs:
    """Arguments that many events share: the table with a row for each distinct set, and what it is made of.

    Args:
        table: the table, whose `FIELDS` belong to the set.
        further: other arguments of the set.
        needed: an event has the set if it has one of these.
    """

    table: str
    further: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """All arguments of the set."""
        return (*(field.argument for field in FIELDS[self.table]), *self.further)


SETS = {
    "input_id": SharedArgs("operator_input"),
    "stack_id": SharedArgs("call_stack"),
    "kernel_source_id": SharedArgs("kernel_source", ("num_warps", "num_stages"), ("kernel_file", "kernel_backend")),
    # The further two give the ranks of a group whose list is too long to be written.
    "collective_id": SharedArgs(
        "collective_args", ("Global rank start", "Global rank stride"), ("Collective name", "dtype")
    ),
}
"""The shared arguments, by the column of an event that refers to them."""

_OTHER_SPELLINGS = {"graphid": "graph id", "graphnodeid": "graph node id"}
KNOWN_ARGS = {name.lower(): name for name in (*ARGS, *ARGS_DERIVABLE)} | _OTHER_SPELLINGS
KNOWN_EVENT = {name.lower(): name for name in (*EVENT, *EVENT_IGNORED)}
