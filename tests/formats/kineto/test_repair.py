"""What is lost and what is kept of a damaged piece of a trace, and that nothing is made up."""

import json
import time
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.damage import CLASSES
from stepscope.formats.kineto.repair import NumberText, Repairer, RepairReport

A = b'{"ph": "X", "name": "a", "ts": 1, "dur": 2}'
B = b'{"ph": "X", "name": "b", "ts": 3, "dur": 4, "args": {"stream": 7}}'
C = b'{"ph": "X", "name": "c", "ts": 5, "dur": 6}'


@dataclass
class Read(RepairReport):
    events: list[dict] = field(default_factory=list)


def repair(chunk, offset, *, last):
    read = Read()
    read.events = list(Repairer(chunk, offset, read, last=last).events())
    return read


def names(report):
    return [event["name"] for event in report.events]


def classes(report):
    return [damage for damage, count in report.damage.items() for _ in range(count)]


def repair_middle(event):
    """An event between two intact ones, which must stay."""
    report = repair(b",\n".join((A, event, C)), 0, last=False)
    found = names(report)
    assert found[0] == "a"
    assert found[-1] == "c"
    return report


def repaired(event, damage):
    report = repair_middle(event)
    assert (report.repaired, report.dropped) == (1, 0)
    assert set(classes(report)) == {damage}
    return report.events[1]


def dropped(event, damage):
    report = repair_middle(event)
    assert names(report) == ["a", "c"]
    assert (report.repaired, report.dropped) == (0, 1)
    assert classes(report) == [damage]


# -- what is intact --------------------------------------------------------------------------------


def test_digits_of_long_times_survive():
    report = repair(b'{"ph": "X", "ts": 1778655624745710.848, "dur": 1e-3, "id": 123456789012345678901}', 0, last=False)
    event = report.events[0]
    assert event["ts"] == "1778655624745710.848"
    assert isinstance(event["ts"], NumberText)
    assert event["dur"] == "1e-3"
    assert event["id"] == 123456789012345678901


def test_objects_inside_arguments_are_no_events():
    nested = b'{"ph": "X", "name": "n", "args": {"groups": [{"name": "x", "id": 1}, {"name": "y", "id": 2}]}}'
    report = repair_middle(nested)
    assert names(report) == ["a", "n", "c"]
    assert report.damage == {}


# -- what can be repaired --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb"a\qb\"c", 'a\\qb"c'),  # \" shows that its writer escaped
        (rb"C:\dir\ ", "C:\\dir\\ "),
        (rb"lone \ud83d half", "lone \N{REPLACEMENT CHARACTER} half"),
    ],
)
def test_backslash_that_escapes_nothing_is_a_backslash(text, read):
    assert repaired(b'{"ph": "X", "name": "' + text + b'", "ts": 3}', "invalid_escape")["name"] == read


@pytest.mark.parametrize(
    "name",
    [
        'torch.library.Library("_inductor_test", "IMPL")', '/srv/{"device": "cpu"}/f.py(3): forward', 'say "hello"',
        '"quoted"', 'f("a", "b", {"x": 1})',
    ],
)  # fmt: skip
def test_quotes_inside_a_name_are_kept(name):
    event = b'{"ph": "X", "name": "%s", "ts": 3, "args": {"Python id": 5}}' % name.encode()
    assert repaired(event, "unescaped_quote") == {"ph": "X", "name": name, "ts": 3, "args": {"Python id": 5}}


def test_key_given_twice_beside_other_damage_has_its_last_value_too():
    text = b'{"ph": "X", "name": "b", "ts": 4, "ts": 5, "args": {"a": 1, "a": 2}, tid": 0}'
    event = repair_middle(text).events[1]
    assert (event["ts"], event["args"]) == (5, {"a": 2})


@pytest.mark.parametrize(
    ("members", "damage", "read"),
    [
        (rb'"name": "C:\dir\", "ts": 3', "invalid_escape", {"name": "C:\\dir\\", "ts": 3}),
        (b'"name": "b", "args": {"a": ["f("x")", "2"], "b": 4}', "unescaped_quote",
         {"name": "b", "args": {"a": None, "b": 4}}),
        (b', "name": "b", "args": {,"a": 1}', "trailing_comma", {"name": "b", "args": {"a": 1}}),
        (b'"name": "b" "ts": 3, "args": {"a": 1 "b": 2}', "missing_comma", {"name": "b", "ts": 3, "args": {"a": 1, "b": 2}}),
    ],
)  # fmt: skip
def test_one_kind_of_damage_is_repaired_and_costs_nothing_else(members, damage, read):
    assert repaired(b'{"ph": "X", ' + members + b"}", damage) == {"ph": "X", **read}


# -- what cannot -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "damage"),
    [
        *((b'{"ph": "X", "name": "b", "ts": %b, "dur": 4}' % number, "unreadable")
          for number in (b"3x5", b"3 5", b"3,5", b"", b"03", b"9" * 5000)),
        (b'{"ph": "X", "name": "b", ts: 3, "dur": 4}', "unescaped_quote"),
        (b'{"ph": "X", "name": "b, "cat": "cpu_op", "ts": 3}', "unescaped_quote"),
        (b'{"ph": "X", "name": "b", "ts": 3, "ph": "X", "name": "d", "ts": 9, "dur": 1}', "torn_event"),
        (b'{"ph": "X", "name": "b", "args": {"stream": 7', "torn_event"), (b'{"name": "b", "ts": 3}', "no_phase"),
        (b'{"ph": 5, "name": "b"}', "wrong_type"),
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_costs_its_event_and_is_never_guessed(event, damage):
    dropped(event, damage)


@pytest.mark.parametrize("between", [b"", b" ", b", ", b",\n", b"\x00", bytes(2)])
def test_many_empty_events_are_counted_as_each_would_be(between):
    report = repair(A + b", " + between.join([b"{}", b"{ }"] * 5000) + b", " + C, 0, last=False)
    missing = {} if b"," in between else {"missing_comma": 9999}
    missing |= {"hole": 9999} if between == bytes(2) else {}
    assert names(report) == ["a", "c"]
    assert report.damage == {"empty_event": 10_000, **missing}


@pytest.mark.parametrize("garbage", [b"\x00\x01\x02", b"17", b"null", b"}", b"]", b"}}", b"garbage", b'"text"', b"x{"])
def test_garbage_between_events_costs_no_event(garbage):
    for comma in (b", ", b""):
        report = repair(A + comma + garbage + comma + C, 0, last=False)
        assert names(report) == ["a", "c"]
        assert report.damage


@pytest.mark.parametrize(("length", "last"), [(2, True), (2, False), (5000, False)])
def test_a_hole_costs_the_events_at_its_ends_and_is_counted_wherever_it_lies(length, last):
    events = [b'{"ph": "X", "name": "%d", "args": {"Call stack": "a.py;b.py"}, "ts": 1}' % n for n in range(4)]
    text = b",\n".join(events)
    second, third = text.index(events[1]), text.index(events[2])
    for low in range(second, third):
        for high in (low + 1, third - 2, third + 25, third + 52, third + 53, third + len(events[2]) - 1):
            if high <= low:
                continue
            report = repair(text[:low] + bytes(length) + text[high:], 0, last=last)
            intact = [n for n in names(report) if n not in ("1", "2")]
            assert intact == ["0", "3"]
            assert "hole" in report.damage or (low, high) == (second, third)
            assert len(report.events) + report.dropped >= (4 if low > second else 3)


# -- where the trace ends --------------------------------------------------------------------------


def test_damaged_event_at_the_end_is_no_truncation():
    report = repair(A + b', {"ph": "X", "name": "b", "ts": 3x}', 0, last=True)
    assert (report.truncated, report.dropped, classes(report)) == (False, 1, ["unreadable"])


def test_metadata_is_found_behind_a_damaged_event():
    report = repair(A + b', {"ph": "X", "name": 3x}\n], "traceName": "t"}', 0, last=True)
    assert names(report) == ["a"]
    assert report.end is not None
    assert not report.truncated


def test_events_behind_the_end_are_another_recording_and_not_taken():
    report = repair(A + b"]}\n" + b'"dur": 3}, ' + B + b", " + C + b"]}", 0, last=True)
    assert names(report) == ["a"]
    assert (report.dropped, classes(report)) == (2, ["interleaved"])


def test_whole_trace_inside_a_trace_is_noted():
    report = repair(A + b', {"traceEvents": [' + B + b"]}, " + C, 0, last=False)
    assert names(report) == ["a", "b", "c"]
    assert classes(report) == ["interleaved"]


# -- hostile input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unit",
    [
        b'{"ph"', b'"', b"[", b"{", b"]", b"}", b"\\", b',{"ph":', b',{"ph":"', b'{"ph":[', b'{"a":', b"},", b"}]{",
        b" ", b"x{",
    ],
)  # fmt: skip
def test_time_is_linear_in_hostile_text(unit):
    def seconds(size):
        began = time.process_time()
        repair(unit * (size // len(unit)), 0, last=True)
        return time.process_time() - began

    # Quadratic time would make the long text a hundred times slower than the short one.
    assert seconds(300_000) < 50 * seconds(30_000) + 0.5


def test_deep_nesting_is_damage_and_no_overflow():
    deep = b'{"ph": "X", "args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    report = repair(b", ".join((A, deep, C)), 0, last=False)
    assert names(report) == ["a", "c"]
    assert report.dropped == 1


def test_number_of_a_million_digits_costs_its_event():
    report = repair(b", ".join((A, b'{"ph": "X", "ts": ' + b"9" * 1_000_000 + b"}", C)), 0, last=False)
    assert (names(report), report.dropped) == (["a", "c"], 1)


EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from(["X", "i", "M"]), "name": st.text(max_size=12), "ts": st.integers(0, 10**15)},
        optional={
            "args": st.dictionaries(st.text(min_size=1, max_size=6), st.integers() | st.text(max_size=6), max_size=3)
        },
    ),
    min_size=1,
    max_size=12,
)


@examples(60)
@given(EVENTS, st.booleans(), st.booleans(), st.data())
def test_events_before_the_first_flipped_byte_survive(events, ascii_only, last, data):
    texts = [json.dumps(event, ensure_ascii=ascii_only).encode() for event in events]
    chunk = bytearray(b",\n  ".join(texts))
    flips = data.draw(st.lists(st.integers(0, len(chunk) - 1), min_size=1, max_size=6))
    for at in flips:
        chunk[at] = data.draw(st.integers(0, 255))
    before = 0
    end = -4
    for text in texts:
        end += 4 + len(text)
        if end > min(flips):
            break
        before += 1
    report = repair(bytes(chunk), 0, last=last)
    assert report.events[:before] == events[:before]
    assert set(report.damage) <= set(CLASSES)
    assert 0 <= (report.damage_offset or 0) <= len(chunk)


@examples(60)
@given(
    st.lists(
        st.sampled_from(
            [A, B, C, b"{}", b"{", b"}", b"[", b"]", b",", b'"', b"\\", b":", b"\n", b"\x00", b"\xff", b"1", b"]}"]
        )
        | st.binary(max_size=5),
        max_size=40,
    ),
    st.booleans(),
)
def test_no_text_makes_it_raise(pieces, last):
    report = repair(b"".join(pieces), 7, last=last)
    assert 0 <= report.repaired <= len(report.events)
    assert all(isinstance(event["ph"], str) for event in report.events)
    assert (report.damage_offset is None) == (not report.damage)


@examples(40)
@given(EVENTS, st.data())
def test_cut_anywhere_keeps_every_whole_event(events, data):
    texts = [json.dumps(event).encode() for event in events]
    chunk = b", ".join(texts)
    cut = data.draw(st.integers(0, len(chunk)))
    whole, end = 0, -2
    for text in texts:
        end += 2 + len(text)
        whole += end <= cut
    report = repair(chunk[:cut], 0, last=True)
    assert report.events == events[:whole]
