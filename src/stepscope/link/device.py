"""The device events of a recording as arrays, in the order of the table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepscope.link.columns import codes, numbers, small_numbers, times

NO_WORK, COMPUTATION, COMMUNICATION, COPY, FILL = range(5)

KINDS = {"computation": COMPUTATION, "communication": COMMUNICATION, "copy": COPY, "fill": FILL}


@dataclass(slots=True)
class Device:
    """Device events. Times in ns; `correlation` and `external_id` are 0 if a row has none."""

    table: pa.Table
    kind: NDArray[np.int8]
    device: NDArray[np.int32]
    stream: NDArray[np.int64]
    start: NDArray[np.int64]
    dur: NDArray[np.int64]
    correlation: NDArray[np.int64]
    external_id: NDArray[np.int64]

    def __len__(self) -> int:
        """The number of events."""
        return len(self.kind)

    @property
    def work(self) -> NDArray[np.bool_]:
        """Which rows are kernels, copies and fills."""
        result: NDArray[np.bool_] = self.kind != NO_WORK
        return result


def read_device(table: pa.Table) -> Device:
    """The device events of a recording."""
    correlation = numbers(table, "correlation")
    external_id = numbers(table, "external_id")
    # Some versions write the correlation under both names. Then it does not identify an operator.
    both = (correlation > 0) & (external_id > 0)
    if both.any() and (correlation[both] == external_id[both]).all():
        external_id[both] = 0
    return Device(
        table=table,
        kind=codes(table, "kind", KINDS, missing=NO_WORK),
        device=small_numbers(table, "device"),
        stream=numbers(table, "stream", missing=-1),
        start=times(table, "start_ns"),
        dur=times(table, "dur_ns"),
        correlation=correlation,
        external_id=external_id,
    )
