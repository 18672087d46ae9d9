"""Call stacks that were sampled while threads ran, as rows of `stack_sample` and `call_stack`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stepscope.formats.cupti.columns import timed
from stepscope.formats.nsys.call_chains import Stacks
from stepscope.formats.nsys.export import STACKS, of_process
from stepscope.formats.nsys.host_rows import Threads
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import READ, ReadReport

_CHAINS = "SAMPLING_CALLCHAINS"


def stack_samples(
    database: Database, process: int | None, threads: Threads, stacks: Stacks, report: ReadReport
) -> pa.Table:
    """Table `stack_sample`, with the times as recorded; its stacks go to `stacks`."""
    rows = database.columns(STACKS, ("id", "start", "globalTid"), of_process("globalTid", process))
    if not rows.num_rows:
        return READ["stack_sample"].empty_table()
    rows = timed(rows.filter(rows["id"].is_valid()), "start", report)
    schema = READ["stack_sample"]
    known = {
        "time_ns": rows["start"],
        "thread": threads.numbers(rows["globalTid"]).cast(pa.int32()),
        "stack_id": stacks.numbers(database, _CHAINS, rows["id"]),
        "weight": pa.array(np.ones(rows.num_rows, np.int64)),
        "clock": pa.repeat(pa.scalar("cpu"), rows.num_rows),
    }
    nothing = {field.name: pa.nulls(rows.num_rows, field.type) for field in schema}
    return pa.table(nothing | known, schema=schema)
