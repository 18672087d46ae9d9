"""The contents of memory over time: allocations with their lifetimes, from the events of allocators."""

from __future__ import annotations

from stepscope.query.declare import SPAN, Column

CURVE_PARTS = ("parameters", "gradients", "optimizer_state", "activations", "temporaries")
"""The categories with a column in the curve of memory over time."""

PLACE = (
    Column("rank", "int", "rank of the process", visible="varying"),
    SPAN,
    Column("kind", "text", "cuda, rocm, ...; cpu for memory of the host", visible="varying"),
    Column("device", "int", "index of the device in its process; empty for the host", visible="varying"),
)
"""The columns that identify the memory (`replay.Memory.place`)."""
