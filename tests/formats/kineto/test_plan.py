"""Keys that a slice has and none before it."""

import json

from stepscope.formats.kineto import plan as planning
from stepscope.formats.kineto.plan import Declared


def events(count, **args):
    return [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "a",
            "pid": 1,
            "tid": 1,
            "ts": at,
            "dur": 1,
            "args": args,
        }
        for at in range(count)
    ]


def test_a_key_that_only_a_late_event_has_is_kept(read_events):
    late = {**events(1, **{"Sequence number": 7, "odd": [1, 2], "cbid": {"a": 1}})[0], "own": "x"}
    tables = read_events([*events(200, odd=1), late, *events(200)], slice_bytes=1 << 12)
    row = tables.host_event.slice(200, 1).to_pylist()[0]
    assert row["sequence_number"] == 7
    assert json.loads(row["other_args"]) == {"odd": [1, 2], "own": "x"}
    assert tables.report.unknown_fields == {"odd": 201, "own": 1}


def test_a_key_in_two_spellings_is_one(read_events):
    memory = {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1}
    both = [
        {**memory, "ts": at, "args": {"Bytes" if at % 3 else "bytes": at + 1, "Device Type": 0}}
        for at in range(300)
    ]
    tables = read_events(both, slice_bytes=1 << 12)
    assert tables.memory_event["bytes"].to_pylist() == list(range(1, 301))


def test_an_argument_spelled_as_a_key_of_events_costs_none_of_these(read_events):
    tables = read_events([*events(3, TS=1), *events(3, ts=2, TS=3)])
    assert tables.host_event["start_ns"].to_pylist() == [0, 1000, 2000] * 2


def test_more_keys_than_are_kept(read_events):
    tables = read_events([event for at in range(300) for event in events(1, **{f"k{at:03}": at})])
    assert tables.host_event.num_rows == 300
    assert len(tables.report.unknown_fields) == 256


def test_spellings_are_changed_wherever_they_stand(monkeypatch):
    monkeypatch.setattr(planning, "_BLOCK", 16)
    declared = Declared()
    declared.add({"Bytes", "bytes", "Ab", "ab", "Q", "q"}, set())
    text = b'{"bytes":1,"Bytes":2,"bytes" :3,"bytex":4,"ab":5,"q":6,"ab":"bytes:"},{"bytes":7}'
    ours = text.replace(b'"bytes":', b'"Bytes":').replace(b'"ab":', b'"Ab":')
    assert b"".join(declared.plan().spelled(text)) == ours.replace(b'"q":', b'"Q":')
