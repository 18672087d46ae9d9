"""Reads a Kineto trace into the canonical tables.

One thread reads and cuts the text while DuckDB parses the group of slices before it, so that at most
two groups are in memory, whatever the size of the file. See `scan` for how a group is parsed and
`assemble` for how the rows of all groups become tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice

from stepscope.floor.errors import SourceError
from stepscope.formats.container import Member
from stepscope.formats.kineto import metadata as trace_metadata
from stepscope.formats.kineto.assemble import assemble
from stepscope.formats.kineto.keys import KnownKeys
from stepscope.formats.kineto.rows import EventRows
from stepscope.formats.kineto.scan import EventScanner, LoadedGroup
from stepscope.formats.kineto.slices import LONGEST_EVENT_BYTES, SLICE_BYTES, EventSlices, Slice
from stepscope.formats.options import ReadOptions
from stepscope.formats.sniff import advice, what_is
from stepscope.formats.tables import RankTables, ReadReport

MOST_EVENTLESS_BYTES = 128 << 20
"""A file that has no event by then is no trace."""

MOST_MENDED_BYTES = 32 << 20
"""Nor is one that has none after so much damaged text: to repair it takes up to 2 µs a byte."""

GROUP_SLICES = 8
"""Slices that DuckDB's threads share at a time; fewer where they are longer than they should be."""


def looks_like_kineto(head: bytes) -> bool:
    """Whether a file's first bytes are a Kineto trace or another in Chrome's trace format."""
    return b'"traceEvents"' in head or b'"ph"' in head


def may_be_kineto(head: bytes) -> bool:
    """Whether it could be one: JSON whose events, if it has any, come later."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n\x00")
    return start[:1] in (b"{", b"[") and what_is(head) == "json"


def read(member: Member, options: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank.

    Raises:
        SourceError: it cannot be opened, or holds no trace.
    """
    options = options or ReadOptions()
    report = ReadReport()
    with member.open() as stream:
        slices = EventSlices(stream, options.slice_bytes or SLICE_BYTES)
        if not slices.found:
            kind = what_is(slices.head[: 1 << 16])
            raise SourceError(
                f"{member.label}: no trace events ({kind})", hint=advice(kind), slug="not-a-trace"
            )
        scanner = EventScanner(report, options.threads)
        scanner.boundary = slices.boundary
        rows = EventRows(scanner, python_stack=options.python_stack)
        try:
            # While the rows of one group are taken, the next is loaded. Not in this thread: Ctrl-C
            # would end up inside DuckDB, which takes it for a file that cannot be read.
            with (
                ThreadPoolExecutor(1, "stepscope-load") as loader,
                ThreadPoolExecutor(1, "stepscope-rows") as taker,
            ):
                taken: Future[None] | None = None
                for group in _groups(slices):
                    loaded = loader.submit(scanner.load, group).result()
                    group.clear()
                    if taken is not None:
                        taken.result()
                    taken = taker.submit(_take_all, rows, loaded)
                    if options.progress is not None:
                        options.progress(slices.size)
                    if scanner.ended:
                        break
                    if (
                        slices.size > MOST_EVENTLESS_BYTES
                        or scanner.mended_bytes >= MOST_MENDED_BYTES
                    ):
                        taken.result()
                        if rows.empty:
                            raise SourceError(
                                f"{member.label}: no trace events in its first "
                                f"{slices.size >> 20} MiB",
                                hint=advice("text"),
                                slug="not-a-trace",
                            )
                if taken is not None:
                    taken.result()
        finally:
            rows.close()
            scanner.close()
    report.add(rows.report)
    metadata, notes = trace_metadata.read_metadata(
        slices.head, slices.tail, tail_offset=slices.tail_offset
    )
    for damage, offset in notes:
        report.note(damage, offset)
        if damage == "interleaved":
            report.dropped += slices.tail.count(b'"ph"', max(0, offset - slices.tail_offset))
    if stream.damage:
        report.note(stream.damage, slices.size)
        report.truncated |= stream.damage.endswith("truncated")
    if not slices.closed and not scanner.ended:
        report.truncated = True
        if "truncated" not in report.damage:
            report.note("truncated", slices.size)
    return assemble(rows, metadata, report, member)


def _take_all(rows: EventRows, loaded: list[LoadedGroup]) -> None:
    for group in loaded:
        rows.take(group)


def _groups(slices: EventSlices) -> Iterator[list[Slice]]:
    """Groups of slices, one of them read ahead by a thread while the one before is loaded."""
    pieces, known = iter(slices), KnownKeys()

    def read_group() -> list[Slice]:
        group: list[Slice] = []
        size = 0
        for piece in islice(pieces, GROUP_SLICES):
            keys = known.read(piece.text)
            group.append(replace(piece, new_keys=keys.new, booleans=keys.booleans))
            size += len(piece.text)
            if size >= LONGEST_EVENT_BYTES:
                break
        return group

    with ThreadPoolExecutor(1, "stepscope-read") as reader:
        ahead = reader.submit(read_group)
        while group := ahead.result():
            ahead = reader.submit(read_group)
            yield group
