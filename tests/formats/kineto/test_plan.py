"""Keys that a slice has and none before it."""

import json

import pytest

from stepscope.formats.kineto import plan as planning
from stepscope.formats.kineto.plan import Declared


def events(count, **args):
    return [
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": at, "dur": 1, "args": args}
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
        {**memory, "ts": at, "args": {"Bytes" if at % 3 else "bytes": at + 1, "Device Type": 0}} for at in range(300)
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
    declared.add({"Bytes", "bytes", "Dtype", "dtype", "Seq", "seq"}, set())
    text = b'{"bytes":1,"Bytes":2,"bytes" :3,"bytex":4,"dtype":5,"seq":6,"seq":"bytes:"},{"bytes":7}'
    ours = text.replace(b'"bytes":', b'"Bytes":').replace(b'"dtype":', b'"Dtype":')
    assert b"".join(declared.plan().spelled(text)) == ours.replace(b'"seq":', b'"Seq":')


ODD = {
    "": 1, " ": 2, "\0": 3, "a\0b": 4, "k" * 390: 5, 'a"': 6, 'say "': 7, "a\\": 8, "a.b[0]{c}'": 9,
    "Foo": {"foo": 1, "": 2}, "foo": 11, "FOO": 12, "É": 13, "é": 14, "PID": 15, "pid": 16, "args": 18, "$.a": 19,
    "\n": 20,
}  # fmt: skip


@pytest.mark.parametrize("as_ascii", [True, False])
@pytest.mark.parametrize("damage", ["", "\\x"])
def test_no_key_costs_an_event_or_another_key(read_text, as_ascii, damage):
    own = {key: value for key, value in ODD.items() if key.lower() not in ("pid", "args")}
    odd = {**events(1, **ODD)[0], **own}
    texts = (json.dumps(one, ensure_ascii=as_ascii) for one in [*events(60, b=1), odd, *events(60, B=2)])
    text = f'{{"traceEvents": [{",".join(texts)}]}}'.replace('"a"', f'"a{damage}"')
    tables = read_text(text, slice_bytes=1 << 12)
    found = tables.host_event["other_args"].to_pylist()
    assert [json.loads(one) for one in found[:60] + found[61:]] == [{"b": 1}] * 60 + [{"B": 2}] * 60
    assert json.loads(found[60]) == ODD
    twice = {key: 1 + (key in own) for key in ODD}
    assert tables.report.unknown_fields == {"b": 60, "B": 60, **twice}
    assert tables.report.dropped == 0


def test_an_event_with_both_spellings_of_a_known_key_is_kept(read_events):
    both = {**events(1, Bytes=1, bytes=2, TS=3, ts=4)[0], "Bytes": 5, "bytes": 6, "Ts": 0}
    tables = read_events([*events(20), both, *events(20)])
    assert tables.host_event.num_rows == 41
    assert tables.report.dropped == 0


@pytest.mark.parametrize("keys", ['"foo" : 3', '"Foo": 2, "foo" : 3', '"foo"\t : 3', '"foo"\n: 3'])
def test_blanks_before_a_colon_cost_no_value(read_text, keys):
    one = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {%s}}'
    text = '{"traceEvents": [' + ", ".join([one % '"Bar": 1'] * 40 + [one % keys]) + "]}"
    told = read_text(text).host_event.to_pylist()[-1]["other_args"]
    assert json.loads(told)["foo"] == 3
