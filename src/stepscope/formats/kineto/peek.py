"""What a trace says about itself in its head and tail.

A folder's files need their ranks before any of them is read. In files that a profiler wrote at once the head has the
metadata; on-demand recordings put it after the events, so the end of the file is read too. For a compressed file that
means inflating all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepscope.formats.container import Member
from stepscope.formats.kineto.metadata import device_names, devices, facts, read_metadata, versions
from stepscope.formats.kineto.slices import EventSlices
from stepscope.formats.tables import Facts, capabilities_of

PEEK_BYTES = 1 << 20
_NCCL_RANK = re.compile(rb'"Rank"\s*:\s*(\d{1,9})\b')
_TIME = re.compile(rb'"ts"\s*:\s*"?(-?\d{1,19})')
_MAX_NS = 86_400 * 10**9  # a time further than this from the first is damaged: no recording takes a day


def peek(member: Member) -> Facts | None:
    """What the file says about itself, or None if it has no events and does not say whose they were.

    `start_epoch_ns` is exact to the microsecond, enough to order several recordings of one rank. `end_epoch_ns` is known
    if the file had to be read to its end to find the rank.
    """
    return _peeked(member, through=False)


def end(member: Member) -> int | None:
    """When the file's last event starts (ns, counted like `start_epoch_ns`); reads all of its text."""
    about = _peeked(member, through=True)
    return None if about is None else about.end_epoch_ns


def _peeked(member: Member, *, through: bool) -> Facts | None:
    with member.open() as stream:
        slices = EventSlices(stream, PEEK_BYTES)
        if not slices.has_events:
            return None
        pieces = iter(slices)
        first = last = next(pieces, None)
        metadata, _ = read_metadata(slices.head, slices.tail)
        about = facts(metadata, member.label)
        if about.rank is None or through:
            through = True
            for piece in pieces:
                last = piece
            metadata, _ = read_metadata(slices.head, slices.tail)
            about = facts(metadata, member.label)
        # A list may be of other things; a single piece of text shows what it contains.
        eventless = first is None or (last is first and b'"ph"' not in first.text)
        if eventless and slices.closed and about.rank is None:
            return None
    text = first.text if first else b""
    if about.rank is not None:
        about.rank_rule = "distributedInfo"
    else:
        ranks = set(_NCCL_RANK.findall(text))
        if len(ranks) == 1:
            about.rank, about.rank_rule = int(ranks.pop()), "nccl"
    # Rows that only name a process or a thread have time 0 or none.
    start = next((time for time in _times(text) if time), 0)
    base = metadata.get("baseTimeNanoseconds")
    about.start_epoch_ns = (base if isinstance(base, int) else 0) + start
    if through and last is not None:
        durations = (time - start for time in _times(last.text))
        plausible = (after for after in durations if 0 <= after < _MAX_NS)
        about.end_epoch_ns = about.start_epoch_ns + max(plausible, default=0)
    about.devices = device_names(metadata)
    about.capabilities = capabilities_of(devices(metadata))
    about.versions = versions(metadata)
    request = metadata.get("group_trace_id")
    about.request = request if isinstance(request, str) and request else None
    return about


def _times(text: bytes) -> Iterator[int]:
    """Times of the events in a piece of text (ns), to the microsecond."""
    return (int(match[1]) * 1000 for match in _TIME.finditer(text))
