import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.kineto.slices import EventSlices, Slice, split_at_event


def events_of(pieces):
    found = []
    for piece in pieces:
        found += json.loads(b"[" + piece.text.strip(b", \n\r\t") + b"]")
    return found


def cut(text, size=64):
    slices = EventSlices(io.BytesIO(text), size)
    pieces = list(slices)
    return slices, pieces


EVENTS = [{"ph": "X", "name": f"op{n}", "args": {"list": [{"ph": 1}, {"a": 2}]}} for n in range(20)]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("size", [16, 64, 1000, 100_000])
def test_slices_hold_whole_events_in_order(indent, size):
    text = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS, "traceName": "x"}, indent=indent)
    slices, pieces = cut(text.encode(), size)
    assert events_of(pieces) == EVENTS
    assert slices.closed
    assert json.loads(b"{" + slices.tail.strip().lstrip(b",")) == {"traceName": "x"}


def test_offsets_are_bytes_of_the_file():
    text = json.dumps({"traceEvents": EVENTS}).encode()
    _, pieces = cut(text)
    for piece in pieces:
        assert text[piece.offset : piece.offset + len(piece.text)] == piece.text


def test_no_events_is_no_slice():
    slices, pieces = cut(b'{"traceEvents": [ ], "distributedInfo": {"rank": 3}}')
    assert pieces == []
    assert slices.closed
    assert b'"rank": 3' in slices.tail


def test_args_lists_before_the_end_are_not_taken_for_the_end_of_events():
    text = b'{"traceEvents": [{"ph": "X", "args": {"Input Dims": [[1]], "Input type": ["f"]}}, {"ph": "X", "na'
    slices, pieces = cut(text, 1000)
    assert slices.tail == b""
    assert b"Input type" in b"".join(piece.text for piece in pieces)


def test_events_are_found_where_the_key_before_them_is_damaged():
    text = json.dumps({"traceEvents": EVENTS}).replace("traceEvents", "trac?Events").encode()
    _, pieces = cut(text)
    assert len(events_of(pieces[:1])) >= 1


def test_halving_cuts_between_events():
    text = json.dumps(EVENTS)[1:-1].encode()
    slices, _ = cut(json.dumps(EVENTS).encode())
    halves = split_at_event(Slice(text, 100), slices.boundary)
    assert halves is not None
    assert events_of(halves) == EVENTS
    assert halves[1].offset == 100 + len(halves[0].text)


def test_one_event_cannot_be_halved():
    slices, _ = cut(json.dumps(EVENTS).encode())
    assert split_at_event(Slice(b'{"ph": "X", "name": "alone"}', 0), slices.boundary) is None


@given(
    st.lists(st.dictionaries(st.sampled_from(["name", "cat", "args"]), st.text(max_size=6)), max_size=12),
    st.integers(1, 200),
)
@examples(60)
def test_any_slice_size_gives_the_same_events(bodies, size):
    events = [{"ph": "X", **body} for body in bodies]
    _, pieces = cut(json.dumps({"traceEvents": events}).encode(), size)
    assert events_of(pieces) == events


def test_the_last_event_is_a_slice_of_its_own_only_where_it_cannot_be_read():
    text = json.dumps({"traceEvents": EVENTS, "traceName": "x"}).encode()
    slices, (piece,) = cut(text, 100_000)
    assert piece.last
    assert slices.tail_offset == len(text) - len(slices.tail)
    before, after = split_at_event(piece, slices.boundary)
    assert (events_of([before]), events_of([after])) == (EVENTS[:-1], EVENTS[-1:])
    assert after.last
    _, pieces = cut(text[: text.rindex(b"}}") - 3], 100_000)
    assert [one.last for one in pieces] == [False, True]


_FORKED = """
import os, sys
import stepscope
with stepscope.open(sys.argv[1]) as trace:
    assert trace.operators().rows()
child = os.fork()
if child == 0:
    sys.exit(7)  # through the interpreter's end, where everything is let go of
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_after_a_file_was_read_lives(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"traceEvents": [event]}))
    words = [sys.executable, "-c", _FORKED, str(trace)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    assert subprocess.run(words, env=environment, timeout=60, check=False).returncode == 7
