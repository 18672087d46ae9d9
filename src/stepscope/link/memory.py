"""The operator that asked for memory or gave it back."""

from __future__ import annotations

import pyarrow as pa

from stepscope.link.columns import integers, numbers
from stepscope.link.host import Host


def link_memory(host: Host, memory_event: pa.Table) -> pa.Table:
    """Adds `operator_id`: the innermost operator of the thread at the time, by row of the host table."""
    position = host.innermost(
        numbers(memory_event, "thread", missing=-1), numbers(memory_event, "time_ns")
    )
    return memory_event.append_column(
        "operator_id", integers(host.rows(host.operators_at(position)), type=pa.int64())
    )
