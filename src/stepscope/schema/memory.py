"""The tables of memory: what allocators did and had. `tables.DECLARED` has them with the others."""

from __future__ import annotations

from stepscope.schema.declare import By, Role, table
from stepscope.schema.declare import SchemaColumn as Column
from stepscope.schema.declare import rank_column as _rank
from stepscope.schema.declare import span_column as _span

BYTES, EVENT, FLAG, KEY, MOMENT, NUMBER, ROW, TEXT, WORD = (
    Role.BYTES, Role.EVENT, Role.FLAG, Role.KEY, Role.MOMENT, Role.NUMBER, Role.ROW, Role.TEXT, Role.WORD,
)  # fmt: skip
LINK = By.LINK

# fmt: off
MEMORY_TABLES = (
    table(
        "memory_event", "One row is an allocation (bytes above 0) or a release (below 0).",
        _rank("rank it happened on"),
        _span(),
        Column("sequence", NUMBER, "place of the event in the recording, from 0; orders events with the same time", by=LINK),
        Column("time_ns", MOMENT, "when (ns)"),
        Column("thread", ROW, "host thread that requested it", nullable=True, of="thread"),
        Column("device_kind", TEXT, "cpu, cuda, rocm, ..."),
        Column("device", KEY, "index of the device; NULL for host memory", nullable=True, argument="Device Id"),
        Column("address", NUMBER, "address", nullable=True, argument="Addr"),
        Column("bytes", BYTES, "bytes allocated, negative when released", argument="bytes"),
        Column("total_allocated_bytes", BYTES, "bytes in use after it", nullable=True, argument="Total Allocated"),
        Column("total_reserved_bytes", BYTES, "bytes held by the allocator after it", nullable=True, argument="Total Reserved"),
        Column("stream", NUMBER, "stream that it is for, in a memory snapshot", nullable=True),
        Column("role", WORD, "what was going on according to its call stack, in a memory snapshot: forward, backward, optimizer, zero_grad or parameters (a module was built or moved); also backward for a thread without any frame if others have some", nullable=True),
        Column("operator_name", WORD, "operator that its call stack names, in a memory snapshot", nullable=True),
        Column("stack_id", ROW, "its own call stack (see table call_stack), in a memory snapshot", nullable=True, of="call_stack"),
        Column("annotation", WORD, "what the program had passed to the allocator by then (_set_memory_metadata), or what was compiled", nullable=True),
        Column("operator_id", EVENT, "innermost operator of the thread at that time", nullable=True, of="host_event", by=LINK),
        measures=None,
    ),
    table(
        "allocator_event", "One row is something that an allocator did besides allocations: it took memory from the device or gave it back (in a memory snapshot), or had too little (in a trace too).",
        _rank("rank it happened on"),
        _span(),
        Column("time_ns", MOMENT, "when (ns)"),
        Column("kind", WORD, "segment_alloc, segment_free, segment_map, segment_unmap, oom (the device had too little), snapshot (one was taken); an unknown one keeps its raw name"),
        Column("device_kind", TEXT, "cpu, cuda, ..."),
        Column("device", KEY, "index of the device; NULL for host memory", nullable=True),
        Column("address", NUMBER, "address", nullable=True),
        Column("bytes", BYTES, "bytes taken or given back; for oom, bytes requested", nullable=True),
        Column("device_free_bytes", BYTES, "for oom: bytes that the device had free", nullable=True),
        Column("total_allocated_bytes", BYTES, "bytes in use after it", nullable=True),
        Column("total_pending_bytes", BYTES, "released bytes that another stream may still use, after it; NULL in a trace", nullable=True),
        Column("total_reserved_bytes", BYTES, "bytes held by the allocator after it", nullable=True),
        Column("stream", NUMBER, "stream that it is for", nullable=True),
        Column("stack_id", ROW, "its call stack", nullable=True, of="call_stack"),
        measures=None,
    ),
    table(
        "memory_block", "One row is a block of a segment that a device's allocator held when a memory snapshot was taken.",
        _rank("rank it was on"),
        _span(),
        Column("device_kind", TEXT, "cuda, ..."),
        Column("device", KEY, "index of the device"),
        Column("segment", NUMBER, "address of the segment"),
        Column("segment_bytes", BYTES, "size of the segment"),
        Column("pool", WORD, "small or large: blocks below 1 MiB have segments of their own", nullable=True),
        Column("private_pool", TEXT, "number of the pool that it is kept for (CUDA graphs have their own); NULL for the common one", nullable=True),
        Column("expandable", FLAG, "whether the segment can grow", nullable=True),
        Column("stream", NUMBER, "stream that the segment is for", nullable=True),
        Column("address", NUMBER, "address of the block", nullable=True),
        Column("bytes", BYTES, "size of the block"),
        Column("requested_bytes", BYTES, "requested size; the rest is rounding", nullable=True),
        Column("state", WORD, "allocated, pending (released, but another stream may still use it) or free"),
        Column("role", WORD, "as in memory_event, of its allocation", nullable=True),
        Column("operator_name", WORD, "operator that the call stack of its allocation names", nullable=True),
        Column("stack_id", ROW, "call stack of its allocation", nullable=True, of="call_stack"),
        measures="memory",
    ),
)
# fmt: on
