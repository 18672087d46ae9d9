"""What a trace says of itself, from its head and tail alone.

A folder's files must have their ranks before any of them is read. The head holds the metadata in
files that a profiler wrote at once; on-demand recordings put it after the events, so the end of the
file is looked at too, which in a compressed file means to inflate it all.
"""

from __future__ import annotations

import re

from stepscope.formats.container import Member
from stepscope.formats.kineto.metadata import facts, read_metadata
from stepscope.formats.kineto.slices import EventSlices
from stepscope.formats.tables import Facts

PEEK_BYTES = 1 << 20
_NCCL_RANK = re.compile(rb'"Rank"\s*:\s*(\d{1,9})\b')
_FIRST_TIME = re.compile(rb'"ts"\s*:\s*"?(-?\d{1,19})')


def peek(member: Member) -> Facts | None:
    """What the file says of itself, or None when it holds no events.

    Of `start_epoch_ns` only the base is known, to the first event's microsecond, which is enough to
    put several recordings of one rank in order.

    Raises:
        SourceError: it cannot be opened.
    """
    with member.open() as stream:
        slices = EventSlices(stream, PEEK_BYTES)
        if not slices.found:
            return None
        pieces = iter(slices)
        first_piece = next(pieces, None)
        text = first_piece.text if first_piece else b""
        metadata, _ = read_metadata(slices.head, slices.tail)
        found = facts(metadata, member.label)
        if found.rank is None:
            for _ in pieces:
                pass
            metadata, _ = read_metadata(slices.head, slices.tail)
            found = facts(metadata, member.label)
    if found.rank is not None:
        found.rank_rule = "distributedInfo"
    else:
        ranks = set(_NCCL_RANK.findall(text))
        if len(ranks) == 1:
            found.rank, found.rank_rule = int(ranks.pop()), "nccl"
    first = _FIRST_TIME.search(text)
    base = metadata.get("baseTimeNanoseconds")
    found.start_epoch_ns = (base if isinstance(base, int) else 0) + (
        int(first.group(1)) * 1000 if first else 0
    )
    return found
