import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.kineto.keys import KnownKeys

BOUNDARY = re.compile(rb'\}\s*,\s*(\{\s*"ph"\s*:)')
PADDING = b'{"ph": "X", "name": "a long enough beginning of the text"},'


def text_of(*events):
    return PADDING + ",".join(json.dumps(event) for event in events).encode()


@pytest.mark.parametrize(
    ("before", "event", "new"),
    [
        ({"ts": 1, "Sequence number": 2}, {"ts": 9, "Sequence number": 77}, False),
        ({"In split size": 1}, {"Out split size": 1}, True),  # long keys that end alike
        ({"pid": 123456, "ts": 1}, {"pid": 7, "ts": 1}, False),
        ({"pid": 123456, "ts": 1}, {"pid": 7.25, "ts": 1}, False),
    ],
)
def test_key_is_new_once_whatever_lies_before_it(before, event, new):
    known = KnownKeys(BOUNDARY)
    assert known.read(text_of(before)).new
    assert bool(known.read(text_of(event)).new) == new


keys = st.text(st.characters(codec="ascii", exclude_characters='"\\', min_codepoint=32), min_size=1, max_size=24)


@given(st.sets(keys, min_size=1, max_size=8), keys)
@examples(60)
def test_no_new_key_passes_unnoticed(before, key):
    known = KnownKeys(BOUNDARY)
    known.read(text_of(dict.fromkeys(before, 1)))
    tail = {k.encode()[-16:] for k in before} | {b"ph", b"name"}
    if key.encode()[-16:] not in tail:
        assert known.read(text_of({key: 1})).new


def test_of_events_that_repeat_few_are_looked_at():
    text = text_of(*[{"ph": "X", "ts": 1, "args": {"seq": 2, "id": 3}}] * 1000)
    assert 0 < len(KnownKeys(BOUNDARY).read(text).sample) < 400


def test_a_key_that_follows_the_same_one_inside_and_outside_of_arguments_is_sampled_in_both():
    outside = {"ph": "X", "ts": 1, "t": 1, "rare": 1, "args": {}}
    inside = {"ph": "X", "ts": 1, "args": {"t": "\\", "rare": '"{'}}
    without = {"ph": "X", "ts": 1, "args": {"t": "{"}}
    for events in ((outside, without, without, inside), (inside, outside, without, without, outside)):
        sample = json.loads(b"[%b]" % KnownKeys(BOUNDARY).read(text_of(*events)).sample)
        assert any("rare" in one for one in sample)
        assert any("rare" in one.get("args", ()) for one in sample)


@given(st.lists(st.tuples(st.sets(keys), st.sets(keys)), min_size=1, max_size=30), st.booleans())
@examples(60)
def test_some_events_have_all_keys_inside_and_outside_of_arguments(events, pretty):
    """Also of keys whose contexts a file before had, with other neighbours."""
    described = [{"ph": "X", **dict.fromkeys(own, 1), "args": dict.fromkeys(args, 1)} for own, args in events]
    text = ",\n".join(json.dumps(one, indent=1 if pretty else None) for one in described * 5)
    for _ in range(2):
        known = KnownKeys(BOUNDARY)
        sample = json.loads(b"[%b]" % known.read(text.encode()).sample)
        known.close()
        for of in (lambda one: one, lambda one: one["args"]):
            assert set().union(*map(of, sample)) == set().union(*map(of, described))


@pytest.mark.parametrize("member", ['"ts":true', '"ts": false', '"Ts"  :\n\ttrue'])
def test_true_and_false_for_a_number_are_noticed(member):
    assert KnownKeys(BOUNDARY).read(PADDING + b"{%b}" % member.encode()).booleans


@pytest.mark.parametrize("member", ['"name": "aten::true"', '"finished": true', '"ts":  1', '"a": "\\"ts\\":  true"'])
def test_true_and_false_elsewhere_are_none(member):
    assert not KnownKeys(BOUNDARY).read(PADDING + b"{%b}" % member.encode()).booleans


@given(st.binary(max_size=40))
@examples(60)
def test_any_text_is_searched(text):
    KnownKeys(BOUNDARY).read(text)


def test_of_files_that_are_alike_the_events_of_one_are_looked_at():
    samples = []
    for at in (1, 2):
        known = KnownKeys(BOUNDARY)
        samples.append(known.read(text_of({"ph": "X", "ts": at, "args": {"alike": at}})).sample)
        known.close()
    assert samples[0] == samples[1] != b""
    known = KnownKeys(BOUNDARY)
    other = known.read(text_of({"ph": "X", "ts": 3, "alike": 3, "args": {}})).sample
    assert b'"alike": 3' in other
