"""Reads a Kineto trace into the canonical tables.

One thread reads and cuts the text while others read earlier slices, so that only a few slices are in memory, whatever
the size of the file. `scan` reads a slice; `assemble` makes tables of the rows of all slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from stepscope.base.errors import SourceError
from stepscope.formats.container import Member
from stepscope.formats.kineto import metadata as trace_metadata
from stepscope.formats.kineto.assemble import assemble
from stepscope.formats.kineto.keys import KnownKeys, without_blanks
from stepscope.formats.kineto.scan import EventScanner
from stepscope.formats.kineto.slices import SLICE_BYTES, EventSlices, Slice
from stepscope.formats.options import ReadOptions
from stepscope.formats.sniff import advice, what_is
from stepscope.formats.tables import RankTables, ReadReport

MAX_EVENTLESS_BYTES = 128 << 20  # a file without any event by then is no trace
MAX_REPAIRED_BYTES = 32 << 20  # nor is one without any after so much damaged text: repairing it takes up to 2 µs a byte
_NO_EVENT = "the profiler recorded nothing, or was stopped before it wrote an event; record it again"


def looks_like_kineto(head: bytes) -> bool:
    """Whether a file's first bytes are a Kineto trace or another in Chrome's trace format."""
    return b'"traceEvents"' in head or b'"ph"' in head


def may_be_kineto(head: bytes) -> bool:
    """Whether it could be one: JSON whose events, if any, come later."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n\x00")
    return start[:1] in (b"{", b"[") and what_is(head) == "json"


def read(member: Member, options: ReadOptions | None = None) -> RankTables:
    """Reads one file, or one member of an archive, as the recording of one rank."""
    options = options or ReadOptions()
    report = ReadReport()
    with member.open() as stream:
        slices = EventSlices(stream, options.slice_bytes or SLICE_BYTES)
        if not slices.has_events:
            kind = what_is(slices.head[: 1 << 16])
            raise SourceError(f"{member.label}: no trace events ({kind})", hint=advice(kind), slug="not-a-trace")
        scanner = EventScanner(report, options.threads, python_stack=options.python_stack)
        scanner.boundary = slices.boundary
        rows = scanner.rows
        try:
            for piece in _ahead(slices):
                scanner.add(piece)
                if options.progress is not None:
                    options.progress(slices.size)
                if scanner.ended:
                    break
                long = slices.size > MAX_EVENTLESS_BYTES or scanner.repaired_bytes >= MAX_REPAIRED_BYTES
                if long and rows.empty:
                    scanner.finish()
                    if rows.empty:
                        raise SourceError(
                            f"{member.label}: no trace events in its first {slices.size >> 20} MiB",
                            hint=advice("text"),
                            slug="not-a-trace",
                        )
            scanner.finish()
        finally:
            scanner.close()
    report.add(rows.report)
    metadata, notes = trace_metadata.read_metadata(slices.head, slices.tail, tail_offset=slices.tail_offset)
    for damage, offset in notes:
        report.note(damage, offset)
        if damage == "interleaved":
            report.dropped += slices.tail.count(b'"ph"', max(0, offset - slices.tail_offset))
    if stream.damage:
        report.note(stream.damage, slices.size)
        report.truncated |= stream.damage.endswith("truncated") and not slices.closed
    if not slices.closed and not scanner.ended:
        report.truncated = True
        if "truncated" not in report.damage:
            report.note("truncated", slices.size)
    tables = assemble(rows, metadata, report, member)
    if not tables.report.read and not tables.report.dropped:
        raise SourceError(f"{member.label}: no event in it", hint=_NO_EVENT, slug="not-a-trace")
    return tables


def _ahead(slices: EventSlices) -> Iterator[Slice]:
    """The slices; a thread reads the next one while the current one is worked on."""
    pieces, keys_of_file = iter(slices), KnownKeys(slices.boundary)

    def read_slice() -> Slice | None:
        piece = next(pieces, None)
        if piece is None:
            return None
        keys = keys_of_file.read(piece.text)
        if keys.spaced:
            piece = replace(piece, text=without_blanks(piece.text))
            keys = keys_of_file.read(piece.text)
        return replace(piece, new_keys=keys.sample, booleans=keys.booleans)

    with ThreadPoolExecutor(1, "stepscope-read") as reader:
        ahead = reader.submit(read_slice)
        while piece := ahead.result():
            ahead = reader.submit(read_slice)
            yield piece
    keys_of_file.close()
