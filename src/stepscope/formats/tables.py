"""What every format hands over: the rows of one recording of one rank, before anything is linked.

Each table has the columns of its namesake in `store/schema.sql` that a file can state outright,
except `rank` and `span`, which the importer adds, and those that `link` computes. Rows are in file
order. Texts that repeat are dictionary-encoded. To keep tables of millions of rows small, a column
without any value may have Arrow's null type, and integers that fit may have 32 bits. Nothing here is rounded: times are integer
nanoseconds since `facts.start_epoch_ns`, or since the recording's first event where times have no
known epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

TEXT = pa.dictionary(pa.int32(), pa.string())

HOST_EVENT = pa.schema(
    [
        ("category", TEXT),
        ("kind", TEXT),
        ("role", TEXT),
        ("name", TEXT),
        ("thread", pa.int32()),
        ("start_ns", pa.int64()),
        ("dur_ns", pa.int64()),
        ("correlation", pa.int64()),
        ("external_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("forward_thread", pa.int64()),
        ("python_id", pa.int32()),
        ("python_parent_id", pa.int32()),
        ("python_module_id", pa.int32()),
        ("module_hierarchy", TEXT),
        ("input_id", pa.int32()),
        ("stack_id", pa.int32()),
        ("collective_id", pa.int32()),
        ("other_args", TEXT),
    ]
)
"""Columns of `RankTables.host_event`. `kind` and `role` come from `formats.vocabulary`;
`module_hierarchy` is Kineto's `Module Hierarchy` text; `collective_id` is a row of
`RankTables.collective_args`. A row's event id is its index here."""

DEVICE_EVENT = pa.schema(
    [
        ("category", TEXT),
        ("kind", TEXT),
        ("name", TEXT),
        ("device", pa.int32()),
        ("stream", pa.int64()),
        ("start_ns", pa.int64()),
        ("dur_ns", pa.int64()),
        ("correlation", pa.int64()),
        ("external_id", pa.int64()),
        ("grid_x", pa.int32()),
        ("grid_y", pa.int32()),
        ("grid_z", pa.int32()),
        ("block_x", pa.int32()),
        ("block_y", pa.int32()),
        ("block_z", pa.int32()),
        ("registers_per_thread", pa.int32()),
        ("shared_memory_bytes", pa.int64()),
        ("blocks_per_sm", pa.float64()),
        ("warps_per_sm", pa.float64()),
        ("occupancy_ratio", pa.float64()),
        ("bytes", pa.int64()),
        ("copy_kind", TEXT),
        ("memory_kind", TEXT),
        ("context", pa.int64()),
        ("graph_id", pa.int64()),
        ("graph_node_id", pa.int64()),
        ("collective_id", pa.int32()),
        ("other_args", TEXT),
    ]
)
"""Columns of `RankTables.device_event`. Event ids go on after those of `host_event`."""

COLLECTIVE_ARGS = pa.schema(
    [
        ("operation", pa.string()),
        ("group_name", pa.string()),
        ("group_description", pa.string()),
        ("group_ranks", pa.string()),
        ("group_size", pa.int32()),
        ("sequence", pa.int64()),
        ("dtype", pa.string()),
        ("elements_in", pa.int64()),
        ("elements_out", pa.int64()),
        ("source_rank", pa.int32()),
        ("destination_rank", pa.int32()),
    ]
)
"""Distinct sets of collective arguments, as host or device rows state them."""

THREAD = pa.schema(
    [
        ("thread", pa.int32()),
        ("pid", pa.string()),
        ("tid", pa.string()),
        ("process_name", pa.string()),
        ("thread_name", pa.string()),
        ("kind", pa.string()),
    ]
)
OPERATOR_INPUT = pa.schema(
    [
        ("input_id", pa.int32()),
        ("dims", pa.string()),
        ("types", pa.string()),
        ("strides", pa.string()),
        ("values", pa.string()),
    ]
)
CALL_STACK = pa.schema([("stack_id", pa.int32()), ("frames", pa.string())])
STREAM = pa.schema([("device", pa.int32()), ("stream", pa.int64()), ("name", pa.string())])
DEVICE = pa.schema(
    [
        ("device", pa.int32()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("used", pa.bool_()),
        ("sm_count", pa.int32()),
        ("memory_bytes", pa.int64()),
        ("compute_major", pa.int32()),
        ("compute_minor", pa.int32()),
        ("max_threads_per_sm", pa.int32()),
        ("max_threads_per_block", pa.int32()),
        ("registers_per_sm", pa.int32()),
        ("shared_memory_per_sm_bytes", pa.int64()),
        ("warp_size", pa.int32()),
    ]
)
MEMORY_EVENT = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("thread", pa.int32()),
        ("device_kind", pa.string()),
        ("device", pa.int32()),
        ("address", pa.int64()),
        ("bytes", pa.int64()),
        ("total_allocated_bytes", pa.int64()),
        ("total_reserved_bytes", pa.int64()),
    ]
)
FLOW = pa.schema(
    [
        ("category", TEXT),
        ("phase", TEXT),
        ("flow_id", pa.int64()),
        ("time_ns", pa.int64()),
        ("pid", TEXT),
        ("tid", TEXT),
    ]
)
INSTANT = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("category", pa.string()),
        ("name", pa.string()),
        ("pid", pa.string()),
        ("tid", pa.string()),
        ("args", pa.string()),
    ]
)
COUNTER = pa.schema(
    [
        ("track", pa.string()),
        ("series", pa.string()),
        ("time_ns", pa.int64()),
        ("value", pa.float64()),
    ]
)

INLINE_TIMING = pa.schema(
    [
        ("kind", pa.string()),
        ("label", pa.string()),
        ("occurrence", pa.int32()),
        ("device", pa.int32()),
        ("stream", pa.int64()),
        ("start_index", pa.int32()),
        ("end_index", pa.int32()),
        ("iteration", pa.int64()),
        ("start_offset_ns", pa.int64()),
        ("dur_ns", pa.int64()),
        ("armed", pa.bool_()),
        ("averaged", pa.bool_()),
        ("clock", pa.string()),
    ]
)
PHASE = pa.schema(
    [
        ("phase", pa.string()),
        ("steps", pa.int64()),
        ("mean_ns", pa.float64()),
        ("median_ns", pa.float64()),
        ("p95_ns", pa.float64()),
        ("largest_ns", pa.int64()),
        ("device_mean_ns", pa.float64()),
        ("peak_bytes", pa.int64()),
        ("peak_of", pa.string()),
        ("communication_ns", pa.float64()),
        ("exposed_communication_ns", pa.float64()),
        ("timed_backward_ns", pa.float64()),
        ("forward_waits", pa.bool_()),
        ("first_batch_ns", pa.float64()),
        ("first_batches", pa.int64()),
        ("checked_steps", pa.int64()),
        ("idle_steps", pa.int64()),
        ("copied_bytes", pa.float64()),
        ("pageable_bytes", pa.float64()),
    ]
)
PHASE_FINDING = pa.schema(
    [
        ("kind", pa.string()),
        ("share_ratio", pa.float64()),
        ("evidence", pa.string()),
        ("next_step", pa.string()),
    ]
)
PHASE_STEP = pa.schema(
    [
        ("step", pa.int64()),
        ("phase", pa.string()),
        ("dur_ns", pa.int64()),
        ("memory_bytes", pa.int64()),
        ("peak_bytes", pa.int64()),
    ]
)


@dataclass(slots=True)
class ReadReport:
    """What became of a file's events: nothing is dropped or mended without being counted here."""

    kept: int = 0
    repaired: int = 0
    dropped: int = 0
    truncated: bool = False
    damage_offset: int | None = None
    damage: dict[str, int] = field(default_factory=dict)
    """Class of damage to number of occurrences; classes are listed in `formats.damage`."""
    unknown_categories: dict[str, int] = field(default_factory=dict)
    unknown_fields: dict[str, int] = field(default_factory=dict)

    def add(self, other: ReadReport) -> None:
        """Adds what another part of the reader counted."""
        self.kept += other.kept
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


@dataclass(slots=True)
class Facts:
    """What a recording says of itself. None where it does not say."""

    rank: int | None = None
    rank_rule: str | None = None
    world_size: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    backend: str | None = None
    start_epoch_ns: int | None = None
    resolution_ns: int = 1
    tool: str | None = None
    tool_version: str | None = None
    module_classes: dict[str, str] = field(default_factory=dict)
    """Class of each module by its path in the model, whose own path is ""; empty where modules are not
    listed."""
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RankTables:
    """The rows of one recording of one rank."""

    facts: Facts
    report: ReadReport
    host_event: pa.Table = field(default_factory=HOST_EVENT.empty_table)
    device_event: pa.Table = field(default_factory=DEVICE_EVENT.empty_table)
    collective_args: pa.Table = field(default_factory=COLLECTIVE_ARGS.empty_table)
    thread: pa.Table = field(default_factory=THREAD.empty_table)
    stream: pa.Table = field(default_factory=STREAM.empty_table)
    device: pa.Table = field(default_factory=DEVICE.empty_table)
    operator_input: pa.Table = field(default_factory=OPERATOR_INPUT.empty_table)
    call_stack: pa.Table = field(default_factory=CALL_STACK.empty_table)
    memory_event: pa.Table = field(default_factory=MEMORY_EVENT.empty_table)
    flow: pa.Table = field(default_factory=FLOW.empty_table)
    instant: pa.Table = field(default_factory=INSTANT.empty_table)
    counter: pa.Table = field(default_factory=COUNTER.empty_table)
    inline_timing: pa.Table = field(default_factory=INLINE_TIMING.empty_table)
    phase: pa.Table = field(default_factory=PHASE.empty_table)
    phase_finding: pa.Table = field(default_factory=PHASE_FINDING.empty_table)
    phase_step: pa.Table = field(default_factory=PHASE_STEP.empty_table)
