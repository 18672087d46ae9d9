"""The windows of time over which a device is looked at: steps, all of them as one, or pieces of time."""

from __future__ import annotations

import numpy as np

from stepscope.analysis.recording import Array, Columns

_MOST_BUCKETS = 100


def windows(
    by: str, steps: Columns, recorded: tuple[int, int] | None, *, all_steps: bool
) -> tuple[list[int | None], Array, Array]:
    """Numbers (of steps, None for other windows), starts and ends of the windows to look at.

    Args:
        by: `step` for a window a step, `time` for pieces of time; anything else for the chosen steps
            or, of all steps, one window that holds them.
        steps: the chosen steps, as `steps_of` gives them.
        recorded: first start and last end of the recording, where pieces of time are to fill it.
        all_steps: whether no steps were chosen.
    """
    if by == "time":
        of_steps = int(steps["start_ns"].min()), int(steps["end_ns"].max())
        starts, ends = buckets(*(recorded or of_steps))
        return [None] * len(starts), starts, ends
    if by == "step":
        return steps["step"].tolist(), steps["start_ns"], steps["end_ns"]
    if all_steps:
        return [None], *whole_window(steps)
    return [None], steps["start_ns"], steps["end_ns"]


def whole_window(steps: Columns) -> tuple[Array, Array]:
    """From the start of the first step that counts to the end of the last one (see `counted`)."""
    counted = steps["counted"]
    return steps["start_ns"][counted].min(keepdims=True), steps["end_ns"][counted].max(
        keepdims=True
    )


def buckets(begin: int, end: int) -> tuple[Array, Array]:
    """Starts and ends of equal pieces of time: a power of ten of µs long, at most 100 of them.

    The last takes what remains, so that the pieces add up to the whole.

    >>> [edge.tolist() for edge in buckets(0, 2_700)]
    [[0, 1000], [1000, 2700]]
    """
    length = 1_000
    while (end - begin) > _MOST_BUCKETS * length:
        length *= 10
    count = max(1, (end - begin) // length)
    starts = begin + length * np.arange(count, dtype=np.int64)
    return starts, np.append(starts[1:], end)
