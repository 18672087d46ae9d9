"""Reading takes time by the length of a text, whatever is in it, and memory by its events."""

import io
import json

import pyarrow as pa
import pytest

from stepscope.floor.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.kineto import slices as cutting
from stepscope.formats.kineto.slices import EventSlices
from stepscope.formats.kineto.tracks import Threads
from stepscope.formats.registry import format_of

from .conftest import kernel, op

MEGABYTE = 1 << 20
EVENTS = [op("a", 1, 1), op("b", 3, 1)]
TEXT = json.dumps({"traceEvents": EVENTS}).encode()


def test_many_processes_and_threads_need_no_table_of_all_pairs():
    names = [str(n) for n in range(100_000)]
    pid = pa.chunked_array([pa.array([names[7], *names]).dictionary_encode()])
    tid = pa.chunked_array([pa.array([names[0], *names]).dictionary_encode()])
    threads = Threads([])
    assert threads.numbers(pid, tid)[:4].tolist() == [0, 1, 2, 3]
    table = threads.table()
    assert table.num_rows == 100_001
    assert table.slice(0, 2).select(["pid", "tid"]).to_pylist() == [
        {"pid": "7", "tid": "0"},
        {"pid": "0", "tid": "0"},
    ]


@pytest.mark.parametrize("blank", [b" ", b"\n", b"\t \r\n"])
def test_spaces_behind_an_event_are_passed_over_once(read_text, blank):
    tables = read_text(TEXT[:-2] + blank * MEGABYTE + b"x]}")
    assert tables.host_event["name"].to_pylist() == ["a", "b"]
    assert "unreadable" in tables.report.damage


@pytest.mark.parametrize("blank", [b" ", b"\n", bytes(1)])
def test_blanks_behind_the_end_cost_nothing(read_text, blank):
    tables = read_text(TEXT + blank * (34 * MEGABYTE))
    assert tables.host_event["name"].to_pylist() == ["a", "b"]
    assert not tables.report.truncated


def test_preallocated_zeros_in_place_of_events_are_the_files_early_end(read_text):
    tables = read_text(TEXT[:-2] + bytes(70 * MEGABYTE))
    assert tables.host_event["name"].to_pylist() == ["a", "b"]
    assert tables.report.truncated


class _Sparse(io.RawIOBase):
    """A start and zeros behind it."""

    def __init__(self, start, size):
        self.start, self.left = start, size

    def read(self, size=-1):
        text, self.start = self.start[:size], self.start[size:]
        zeros = min(size - len(text), self.left)
        self.left -= zeros
        return text + bytes(zeros)


def test_text_without_events_is_searched_once_and_held_in_parts(monkeypatch):
    monkeypatch.setattr(cutting, "LONGEST_EVENT_BYTES", MEGABYTE)
    filling = b'{"ph": "X", "name": "' + b"a" * (8 * MEGABYTE)
    slices = EventSlices(io.BytesIO(TEXT[:-2] + b", " + filling), 1 << 16)
    searched = 0

    class Counting:
        def __init__(self, pattern):
            self.pattern = pattern

        def finditer(self, text, start=0):
            nonlocal searched
            searched += len(text) - start
            return self.pattern.finditer(text, start)

    slices.boundary = Counting(slices.boundary)
    pieces = list(slices)
    assert max(len(piece.text) for piece in pieces) <= MEGABYTE + (1 << 16)
    assert searched < 5 * len(filling)


def test_zeros_between_the_events_are_no_slices(monkeypatch):
    monkeypatch.setattr(cutting, "LONGEST_EVENT_BYTES", MEGABYTE)
    slices = EventSlices(_Sparse(TEXT[:-2], 40 * MEGABYTE), 1 << 16)
    assert sum(len(piece.text) for piece in slices) < 3 * MEGABYTE
    assert not slices.closed
    assert slices.size == len(TEXT[:-2]) + 40 * MEGABYTE


# -- blanks in front -------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", [b" " * 100_000, b"\n" * 100_000, bytes(100_000), b" \r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("text", [TEXT, json.dumps(EVENTS).encode()])
def test_blanks_in_front_of_a_trace_do_not_hide_it(read_text, tmp_path, blank, mark, text):
    path = tmp_path / "blank.json"
    path.write_bytes(mark + blank + text)
    (member,) = members(path)
    assert format_of(member).name == "kineto"
    tables = read_text(mark + blank + text)
    assert tables.host_event["name"].to_pylist() == ["a", "b"]
    assert not tables.report.dropped


def test_bytes_of_damage_count_the_blanks_in_front(read_text):
    text = b" " * 100_000 + TEXT[:-20]
    damaged = read_text(text)
    assert damaged.report.damage_offset >= 100_000
    assert damaged.report.damage_offset - 100_000 == read_text(TEXT[:-20]).report.damage_offset


@pytest.mark.parametrize(
    ("content", "kind"), [(b" \n" * 200_000, "file of spaces"), (bytes(200_000), "file of zeros")]
)
def test_a_file_of_blanks_is_named_for_it(tmp_path, content, kind):
    path = tmp_path / "blank"
    path.write_bytes(content)
    (member,) = members(path)
    with pytest.raises(SourceError, match=kind):
        format_of(member)


def test_streams_of_many_devices_are_told_apart(read_events):
    tables = read_events([kernel("k", n, 1, device=n, stream=2 * n) for n in range(300)])
    assert tables.stream.num_rows == 300
