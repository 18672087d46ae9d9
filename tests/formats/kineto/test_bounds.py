"""Reading takes time by the length of a text, whatever is in it, and memory by its events."""

import io
import json

import pyarrow as pa
import pytest
from tests.processes import python

from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.kineto import reader
from stepscope.formats.kineto import slices as cutting
from stepscope.formats.kineto.slices import EventSlices
from stepscope.formats.kineto.threads import Threads
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
    assert table.slice(0, 2).select(["pid", "tid"]).to_pylist() == [{"pid": "7", "tid": "0"}, {"pid": "0", "tid": "0"}]


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
    monkeypatch.setattr(cutting, "MAX_EVENT_BYTES", MEGABYTE)
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
    monkeypatch.setattr(cutting, "MAX_EVENT_BYTES", MEGABYTE)
    slices = EventSlices(_Sparse(TEXT[:-2], 40 * MEGABYTE), 1 << 16)
    assert sum(len(piece.text) for piece in slices) < 3 * MEGABYTE
    assert not slices.closed
    assert slices.size == len(TEXT[:-2]) + 40 * MEGABYTE


def test_zeros_without_end_are_the_end(monkeypatch):
    monkeypatch.setattr(cutting, "MAX_EVENT_BYTES", MEGABYTE)
    monkeypatch.setattr(cutting, "MAX_BLANK_BYTES", 8 * MEGABYTE)
    slices = EventSlices(_Sparse(TEXT[:-2], 5 << 40), 1 << 20)
    assert sum(len(piece.text) for piece in slices) < 3 * MEGABYTE
    assert not slices.closed
    assert slices.size <= 12 * MEGABYTE


@pytest.mark.parametrize("filling", [b"a", b'{"ph": "X"}, ', b"1,"])
def test_reading_stops_where_no_event_can_be_expected_any_more(read_text, monkeypatch, filling):
    monkeypatch.setattr(reader, "MAX_EVENTLESS_BYTES", MEGABYTE)
    with pytest.raises(SourceError, match="no trace events in its first"):
        read_text(b'{"traceEvents": [' + filling * (40 * MEGABYTE // len(filling)))


@pytest.mark.parametrize("filling", [b"{}", b'{"": 1}', b',{"ph":'])
def test_reading_stops_where_much_was_repaired_and_no_event_came_of_it(read_text, monkeypatch, filling):
    monkeypatch.setattr(cutting, "MAX_EVENT_BYTES", 1 << 16)
    monkeypatch.setattr(reader, "MAX_REPAIRED_BYTES", 1 << 17)
    with pytest.raises(SourceError, match="no trace events in its first") as refused:
        read_text(b'{"traceEvents": [' + filling * (40 * MEGABYTE // len(filling)))
    # Its list of events is there, if nothing is in it.
    assert "traceEvents" not in refused.value.hint


# -- variety ---------------------------------------------------------------------------------------

READ = """
import json, resource, sys
from pathlib import Path
from stepscope.formats.container import members
from stepscope.formats.kineto.reader import read
from stepscope.formats.options import ReadOptions
resource.setrlimit(resource.RLIMIT_AS, (6 << 30,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
for size, path in zip(sys.argv[1::2], sys.argv[2::2]):
    before = resource.getrusage(resource.RUSAGE_SELF)
    (member,) = members(Path(path))
    report = read(member, ReadOptions(threads=1)).report
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps([spent, after.ru_maxrss << 10, report.read + report.dropped]))
"""
VARIED = {
    "arguments": lambda n: op("a", n, 1, **{f"key{n}": n}),
    "many arguments each": lambda n: op("a", n, 1, **{f"key{n}_{m}": m for m in range(200)}),
    "own keys": lambda n: {**op("a", n, 1), f"key{n}": n},
    "nested keys": lambda n: op("a", n, 1, x={f"key{n}": {f"z{n}": 1}}),
    "spellings of a key": lambda n: op("a", n, 1, **{
        "".join(c.upper() if n >> at & 1 else c for at, c in enumerate("process group description")): n}),
    "keys with escapes": lambda n: op("a", n, 1, **{f"é中{n}": n}),
    "names": lambda n: op(f"aten::mm{n}", n, 1),
    "names with escapes": lambda n: op("é中😀" * 9 + str(n), n, 1),
    "kernels": lambda n: kernel(f"gemm{n}", n, 1),
    "categories and names": lambda n: {**op(f"a{n}", n, 1), "cat": f"cat{n}"},
    "phases": lambda n: {**op("a", n, 1), "ph": f"p{n}"},
    "devices": lambda n: kernel("k", n, 1, device=n),
    "devices and streams": lambda n: kernel("k", n, 1, device=n % 777, stream=n),
    "processes and threads": lambda n: {**op("a", n, 1), "pid": n, "tid": f"t{n}"},
    "correlations": lambda n: {**op("cudaLaunchKernel", n, 1, correlation=n), "cat": "cuda_runtime"},
    "flows": lambda n: {"ph": "s", "cat": f"flow{n}", "name": "x", "id": n, "pid": 1, "tid": 1, "ts": n},
    "stacks": lambda n: op("a", n, 1, **{"Call stack": f"a.py({n}): f; b.py({n}): g"}),
    "inputs": lambda n: op("a", n, 1, **{"Input Dims": [[n, n]], "Input type": ["float"]}),
    "groups": lambda n: kernel("nccl", n, 1, **{"Collective name": "x", "dtype": "f", "Process Group Name": f"g{n}"}),
    "series": lambda n: {"ph": "C", "name": f"c{n}", "pid": 1, "ts": n, "args": {f"s{n}": n}},
    "instants": lambda n: {"ph": "i", "name": f"i{n}", "pid": n, "tid": n, "ts": n, "args": {"x": n}},
    "names of threads": lambda n: {"ph": "M", "name": "thread_name", "pid": n, "tid": n, "args": {"name": f"t{n}"}},
    "starts": lambda n: {**op("a", n, 1), "ph": "B"},
    "events without end": lambda n: {**op("a", n, -1), "tid": n % 9},
    "long names": lambda n: op("x" * 100_000 + str(n), n, 1),
    "deep arguments": lambda n: op("a", n, 1, x=json.loads('{"a":' * 300 + "1" + "}" * 300)),
    "texts for numbers": lambda n: op("a", n, 1, **{"External id": f"x{n}", f"key{n}": n}),
    "memory": lambda n: {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": n,
                         "args": {"Bytes": n, "Device Type": 1, "Device Id": n}},
}  # fmt: skip
"""Events of which no two have the same of something."""

WHOLE = {
    "one long name": lambda size: with_text(op("a", 1, 1), name='"' + "x" * size + '"'),
    "lists in lists": lambda size: with_text(op("a", 1, 1), args='{"a": %s}' % ("[" * (size // 2) + "]" * (size // 2))),
    "an argument many times": lambda size: with_text(op("a", 1, 1), args="{" + '"a":1,' * (size // 6) + '"b":1}'),
    "one event of many arguments": lambda size: json.dumps(op("a", 1, 1, **{f"key{n}": n for n in range(size // 14)})),
    "key without quotes": lambda size: trace_text(*(f'{{ph": "X", "name": "{n}", "ts": 1}}' for n in range(size // 35)))[18:-2],
    "keys twice": lambda size: trace_text(*(json.dumps(op("a", n, 1))[:-1] + f', "dur": {n}}}' for n in range(size // 99)))[17:-2],
    "holes": lambda size: ", ".join(json.dumps(op(f"{n}", n, 1)) + "\0" * 99 for n in range(size // 200)),
}  # fmt: skip


def of_size(make, size):
    """The text of as many events as have this size."""
    texts = [json.dumps(make(n)) for n in range(50)]
    count = 50 * size // sum(map(len, texts))
    return ", ".join([*texts, *(json.dumps(make(n)) for n in range(50, count))])


@pytest.mark.sweep(5)
@pytest.mark.parametrize("kind", [*VARIED, *WHOLE])
def test_work_and_memory_grow_no_faster_than_the_bytes_whatever_varies(kind, tmp_path):
    given = []
    for size in (20_000, 300_000, 1_800_000):
        text = WHOLE[kind](size) if kind in WHOLE else of_size(VARIED[kind], size)
        path = tmp_path / str(size)
        path.write_text(trace_text(json.dumps(op("first", 0, 1)), text))
        given += [size, path]
    ran = python("-c", READ, *map(str, given), check=True)
    (_, at_rest, _), (little, small, few), (much, large, many) = map(json.loads, ran.stdout.splitlines())
    assert many >= few > 0
    assert large - at_rest < 6 * 1.5 * (small - at_rest) + (80 << 20)
    assert large - at_rest < 200 * 1_800_000
    assert much < 6 * 2 * little + 0.5


def test_what_is_on_more_devices_than_a_process_sees_is_counted(read_events):
    events = [kernel("k", n, 1, device=n % 1500) for n in range(3000)]
    tables = read_events(events, {"deviceProperties": [{"id": n} for n in range(2000)]})
    assert tables.device.num_rows == 1024
    assert tables.device_event.num_rows == 2048
    assert (tables.report.dropped, tables.report.damage) == (952, {"too_many_devices": 952 + 976})


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


@pytest.mark.parametrize(("content", "kind"), [(b" \n" * 200_000, "file of spaces"), (bytes(200_000), "file of zeros")])
def test_a_file_of_blanks_is_named_for_it(tmp_path, content, kind):
    path = tmp_path / "blank"
    path.write_bytes(content)
    (member,) = members(path)
    with pytest.raises(SourceError, match=kind):
        format_of(member)


# -- values that are none --------------------------------------------------------------------------

INTACT = [op("a", 1, 1), op("b", 3, 1), kernel("k", 3, 1)]


def with_text(event, **texts):
    """The text of an event with some of its values replaced by text."""
    made = json.dumps({**event, **dict.fromkeys(texts, "@")})
    for text in texts.values():
        made = made.replace('"@"', text, 1)
    return made


def trace_text(*events):
    return '{"traceEvents": [' + ", ".join(events) + "]}"


@pytest.mark.parametrize("time", ["true", "false"])
@pytest.mark.parametrize("damaged", [False, True])
def test_true_and_false_are_no_times(read_text, time, damaged):
    odd = [with_text(op("c", 0, 1), ts=time), with_text(op("d", 7, 0), dur=time)]
    events = [*map(json.dumps, INTACT), *odd]
    tables = read_text(trace_text(*events).replace("}, {", "} {" if damaged else "}, {"))
    assert tables.host_event["name"].to_pylist() == ["a", "b", "d"]
    assert (tables.report.dropped, tables.report.damage["no_time"]) == (1, 1)
    assert tables.report.damage["wrong_type"] == 2
    assert tables.host_event["start_ns"].to_pylist() == [0, 2000, 6000]


@pytest.mark.parametrize("duration", ["1e300", "-1e300", "1e17", "4e13"])
@pytest.mark.parametrize("loose", [False, True])
def test_event_with_a_duration_that_nothing_has_is_left_out_and_counted(read_text, duration, loose):
    step = with_text({**op("ProfilerStep#1", 0, 0), "cat": "user_annotation"}, dur=duration)
    odd = [with_text(op("c", 0, 1), ts='"x"')] if loose else []
    tables = read_text(trace_text(*map(json.dumps, INTACT), step, *odd))
    assert tables.host_event["name"].to_pylist() == ["a", "b"]
    assert tables.report.damage["impossible_duration"] == 1
    assert tables.report.dropped == 1 + len(odd)


def test_duration_that_is_an_unsigned_difference_is_still_one_without_end(read_text):
    tables = read_text(trace_text(*map(json.dumps, INTACT), with_text(op("c", 2, 0), dur="1.8446744073709e16")))
    assert tables.host_event["name"].to_pylist() == ["a", "b", "c"]
    assert tables.report.damage == {"negative_duration": 1}


@pytest.mark.parametrize("first", [-4e15, 1])
def test_times_a_century_apart_do_not_overflow(read_events, first):
    tables = read_events([op("a", first, 1), op("b", 4e15, 1), op("c", 8e15, 1)])
    assert tables.host_event["start_ns"].to_pylist() == [0, int(4e15 - first) * 1000]
    assert tables.report.damage["no_time"] == 1


# -- keys twice ------------------------------------------------------------------------------------


def test_events_whose_keys_all_stand_twice_are_kept_with_their_last_values(read_text):
    events = [json.dumps(event)[:-1] + ', "dur": 5, "name": "z"}' for event in INTACT]
    tables = read_text(trace_text(*events))
    assert tables.host_event.select(["name", "dur_ns"]).to_pylist() == [{"name": "z", "dur_ns": 5000}] * 2
    assert tables.device_event["name"].to_pylist() == ["z"]
    assert (tables.report.repaired, tables.report.damage) == (3, {"duplicate_key": 3})
