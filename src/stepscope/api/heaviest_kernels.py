"""Names the kernels with the most device time, for a tool that reruns single kernels."""

from __future__ import annotations

import re

from stepscope.api.several import check_one_job
from stepscope.api.trace import open_trace
from stepscope.base.errors import SourceError

_WITH_PEERS = re.compile(
    r"nccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce", re.IGNORECASE
)
"""Kernels that wait for those of other devices: alone they would wait forever."""

ERRORS = {
    "no-kernels": (
        "The recording given to `--kernels-from` has no kernel that can run again alone: it was recorded "
        "without a device, or all its kernels exchange data with other devices."
    )
}


def heaviest_kernels(source: str, *, top: int) -> tuple[str, ...]:
    """Returns the names of a recording's kernels with the most device time, longest first.

    Raises:
        SourceError: there is no kernel, apart from those that communicate with other devices.
    """
    with open_trace(source) as trace:
        check_one_job(trace)
        rows = trace.ask("kernels").rows()
    names = [row["name"] for row in rows if row["kind"] != "communication" and not _WITH_PEERS.search(row["name"])]
    if not names:
        raise SourceError(
            f"{source}: the recording has no kernel that can be run again alone",
            hint="name a recording of the same program on a device",
            slug="no-kernels",
        )
    return tuple(dict.fromkeys(names[:top]))
