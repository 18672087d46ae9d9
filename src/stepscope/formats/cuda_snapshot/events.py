"""The events of one device's allocator as columns, in the order in which they happened, and what it held after each.

A snapshot has the memory at the time when it was taken, and the earlier events, back to where the recording started or
the oldest events were dropped. Counting back from the end gives every state between.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.formats.bounded import LIMIT
from stepscope.formats.consecutive import run_starts
from stepscope.schema.arrays import Int64s

ALLOCATED, FREE_REQUESTED, COMPLETED = "alloc", "free_requested", "free_completed"
RESERVES = {"segment_alloc": True, "segment_map": True, "segment_free": False, "segment_unmap": False}
"""Kinds of events that change the reserved memory, and whether it grows."""
_SPELLED = {"free": FREE_REQUESTED}
NOT_KNOWN = -1
_MAX_BYTES = 1 << 48


def checked_integer(value: Any) -> int:
    """The value, if it is an integer: only that is given to Arrow, whose errors print values, however often they nest.

    Raises:
        TypeError: it is none.
    """
    if type(value) is not int:
        raise TypeError
    return value


class Events:
    """The events of all devices while they are read: device numbers are known once all are read."""

    def __init__(self) -> None:
        self.kinds: dict[str, int] = {}
        self.annotations: dict[str, int] = {}
        self.kind, self.stack, self.annotation = array("b"), array("i"), array("i")
        self.time_us, self.address, self.size, self.stream = (
            array("q"), array("q"), array("q"), array("q"),
        )  # fmt: skip
        self.free: dict[int, int] = {}
        """Bytes that the device had free, by event; only few events state it."""
        self.untimed = 0
        self.wrong = 0
        """Times and sizes that no event can have, and that were read as 0."""

    def possible(self, values: Int64s, below: int) -> Int64s:
        """The values, with 0 for impossible ones, which are counted."""
        wrong = (values < 0) | (values >= below)
        self.wrong += int(wrong.sum())
        return np.where(wrong, 0, values) if wrong.any() else values

    def __len__(self) -> int:
        return len(self.kind)

    def add(self, event: dict[Any, Any], stack: int) -> None:
        """Adds an event.

        Raises:
            TypeError, OverflowError: a value is of an impossible type.
        """
        get = event.get
        action = get("action")
        if type(action) is not str:
            raise TypeError
        kinds = self.kinds
        self.kind.append(kinds.setdefault(_SPELLED.get(action, action), len(kinds)))
        self.stack.append(stack)
        time_us = get("time_us")
        if time_us is None:
            self.untimed += 1
            time_us = 0
        self.time_us.append(time_us)
        self.address.append(get("addr", NOT_KNOWN))
        self.size.append(get("size", 0))
        self.stream.append(get("stream", NOT_KNOWN))
        if "device_free" in event:
            self.free[len(self.kind) - 1] = checked_integer(event["device_free"])
        note = get("user_metadata") or get("compile_context")
        if not note or note == "N/A" or type(note) is not str:
            self.annotation.append(NOT_KNOWN)
        else:
            self.annotation.append(self.annotations.setdefault(note, len(self.annotations)))


class Columns(NamedTuple):
    """The events of one device."""

    kind: Int64s
    time_us: Int64s
    address: Int64s
    size: Int64s
    stream: Int64s
    free: dict[int, int]
    stack: Int64s
    annotation: Int64s


class Totals(NamedTuple):
    """What the allocator held after each event of a device (bytes)."""

    allocated: Int64s
    pending: Int64s
    reserved: Int64s


def columns_of(events: Events, first: int, last: int) -> Columns:
    """The events from one row to before another."""

    def numbers(values: array[int], kind: type) -> NDArray[Any]:
        return np.frombuffer(values, dtype=kind)[first:last]

    time_us = numbers(events.time_us, np.int64)
    if events.untimed:
        time_us = np.arange(last - first, dtype=np.int64)
    time_us = events.possible(time_us, LIMIT // 1000)
    return Columns(
        numbers(events.kind, np.int8),
        # Time stamps are taken before the lock that orders events: a few may go back a little.
        np.maximum.accumulate(time_us) if len(time_us) else time_us,
        numbers(events.address, np.int64),
        events.possible(numbers(events.size, np.int64), _MAX_BYTES),
        numbers(events.stream, np.int64),
        {at - first: free for at, free in events.free.items() if first <= at < last},
        numbers(events.stack, np.int32),
        numbers(events.annotation, np.int32),
    )


def totals_after(
    columns: Columns, kinds: dict[str, int], blocks: tuple[Int64s, Int64s], reserved_at_end: int
) -> Totals:
    """Allocated, pending and reserved bytes after each event.

    Args:
        columns: the events of a device.
        kinds: the number of each kind.
        blocks: address and requested size of each block that is allocated when the snapshot is taken.
        reserved_at_end: bytes of all segments then.
    """
    taken = columns.kind == kinds.get(ALLOCATED, NOT_KNOWN)
    given = columns.kind == kinds.get(FREE_REQUESTED, NOT_KNOWN)
    before = _before(columns, taken, given, blocks)
    allocated = _summed(columns.size, taken, given)
    allocated += before
    pending = _summed(columns.size, given, columns.kind == kinds.get(COMPLETED, NOT_KNOWN))
    # What was pending before the first event is known when it completes.
    pending -= min(int(pending.min(initial=0)), 0)
    grows, shrinks = (
        [kinds[kind] for kind, grown in RESERVES.items() if grown is sign and kind in kinds] for sign in (True, False)
    )
    reserved = _summed(columns.size, np.isin(columns.kind, grows), np.isin(columns.kind, shrinks))
    # A device that the process saw and did not use has no events.
    reserved += reserved_at_end - int(reserved[-1]) if len(reserved) else 0
    return Totals(allocated, pending, reserved)


def _summed(size: Int64s, adds: NDArray[np.bool_], takes: NDArray[np.bool_]) -> Int64s:
    """Running sum of sizes that some events add and others subtract; in place, because there may be millions."""
    change = np.where(adds, size, 0)
    np.subtract(change, size, out=change, where=takes)
    return np.cumsum(change, out=change)


def _before(columns: Columns, taken: NDArray[np.bool_], given: NDArray[np.bool_], blocks: tuple[Int64s, Int64s]) -> int:
    """Bytes that were allocated before the first event: those released without a recorded allocation, and the
    blocks at the end without one."""
    rows = np.flatnonzero(taken | given)
    order = rows[np.argsort(columns.address[rows], kind="stable")]
    address = columns.address[order]
    given_first = order[run_starts(address) & given[order]]
    ends, sizes = blocks
    seen = np.isin(ends, address)
    return int(columns.size[given_first].sum()) + int(sizes[~seen].sum())
