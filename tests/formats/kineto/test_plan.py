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


@pytest.mark.parametrize("damage", ["", "\\x"])
def test_no_key_is_lost_where_there_are_more_than_columns(read_text, damage):
    rare = [{**events(1, **{f"k{at:03}": [at], "External id": at, "Bytes" if at % 2 else "bytes": 7})[0], f"own{at}": 0.5}
            for at in range(400)]  # fmt: skip
    rare[7] |= {"sf": 3, "args": rare[7]["args"] | {"Ev Idx": 4, "none": None, "dtype": True, "PID": "x"}}
    text = json.dumps({"traceEvents": [*events(99, common=1), *rare]}).replace('"a"', f'"a{damage}"')
    tables = read_text(text, slice_bytes=1 << 12)
    found = [json.loads(one) for one in tables.host_event["other_args"].to_pylist()]
    expected = [{"common": 1}] * 99 + [{f"k{at:03}": [at], f"own{at}": 0.5} for at in range(400)]
    expected[99 + 7]["PID"] = "x"
    assert found == expected
    assert tables.host_event["external_id"].to_pylist() == [None] * 99 + list(range(400))
    assert tables.report.unknown_fields == {key: 99 if key == "common" else 1 for one in expected for key in one}
    assert tables.report.dropped == 0


@pytest.mark.parametrize(
    ("odd", "class_"),
    [('"dur": 1, "dur": 1', "duplicate_key"), ('"dur": "x"', "wrong_type"), ('"dur": 1.5.5', "unreadable")],
)
def test_damage_among_many_keys_is_what_it_is_among_few(read_text, odd, class_):
    for keys in (1, 300):
        kept = [{**event, "ts": 9223372036854.775, f"k{at % keys}": 1} for at, event in enumerate(events(400))]
        text = json.dumps({"traceEvents": kept})
        text = text.replace('"dur": 1', odd, 1)
        tables = read_text(text)
        assert class_ in tables.report.damage
        assert tables.host_event.num_rows == 400 - (class_ == "unreadable")
        assert len(tables.report.unknown_fields) == keys


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
    assert tables.report.unknown_fields == {"b": 60, "B": 60, **dict.fromkeys(ODD, 1)}
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
