"""What link hands to the store."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stepscope.formats.tables import Facts, ReadReport


@dataclass(frozen=True, slots=True)
class LinkedTables:
    """The rows of one recording of one rank, linked.

    Each table has the columns that `store/schema.sql` gives it, but for `rank` and `span`. The id of
    a host event is its row, that of a device event its row after all host events. Times are those of
    the reader.
    """

    facts: Facts
    report: ReadReport
    host_event: pa.Table
    device_event: pa.Table
    step: pa.Table
    module: pa.Table
    collective: pa.Table
    memory_event: pa.Table
    attribution: pa.Table
    data_check: pa.Table
    thread: pa.Table
    stream: pa.Table
    device: pa.Table
    operator_input: pa.Table
    call_stack: pa.Table
    flow: pa.Table
    instant: pa.Table
    counter: pa.Table
    inline_timing: pa.Table
    phase: pa.Table
    phase_finding: pa.Table
    phase_step: pa.Table
