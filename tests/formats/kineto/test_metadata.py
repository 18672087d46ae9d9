import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.kineto.metadata import devices, facts, read_metadata

HEAD = b'{"schemaVersion": 1, "traceEvents": ['


def values(head, tail=b"}"):
    return read_metadata(head, tail)[0]


def damage(head, tail=b"}"):
    return [kind for kind, _ in read_metadata(head, tail)[1]]


# -- reading the keys ------------------------------------------------------------------------------


def test_keys_are_read_before_and_after_the_events():
    read, notes = read_metadata(HEAD, b',\n "distributedInfo": {"rank": 3}, "traceName": "t"\n}\n')
    assert read == {"schemaVersion": 1, "distributedInfo": {"rank": 3}, "traceName": "t"}
    assert notes == []


@pytest.mark.parametrize("head", [b"", b"[", b" \n[", b"\xef\xbb\xbf["])
@pytest.mark.parametrize("tail", [b"", b"\n", b"\x00\x00"])
def test_file_that_is_an_array_says_nothing(head, tail):
    assert read_metadata(head, tail) == ({}, [])


def test_byte_order_mark_does_not_hide_the_keys():
    assert values(b"\xef\xbb\xbf" + HEAD) == {"schemaVersion": 1}


def test_first_value_that_is_not_empty_wins():
    head = b'{"distributedInfo": {}, "distributedInfo": {"rank": 3}, "traceEvents": ['
    tail = b', "distributedInfo": {"rank": 5}}'
    assert values(head, tail) == {"distributedInfo": {"rank": 3}}
    assert damage(head, tail) == ["duplicate_key", "duplicate_key"]


@pytest.mark.parametrize("gap", [b" ", b"\n  "])
def test_quotes_in_a_log_line_cost_the_log_and_nothing_else(gap):
    tail = b', "INFO": ["loading "cupti" now", "x {"device": "cpu"}, y"],' + gap + b'"traceName": "t"}'
    assert values(HEAD, tail) == {"schemaVersion": 1, "traceName": "t"}
    assert damage(HEAD, tail) == ["lost_metadata"]


@pytest.mark.parametrize(
    ("value", "read", "kind"),
    [
        (b"N/A", None, "not_a_number"),
        (b'"C:\\Users"', "C:\\Users", "invalid_escape"),
        (rb'["\ud83d lone", 1]', ["\N{REPLACEMENT CHARACTER} lone", 1], "invalid_escape"),
        (b'"\xff"', "\N{REPLACEMENT CHARACTER}", "invalid_utf8"),
        (b'"two\nlines"', "two\nlines", "control_character"),
        (b'{"a": 1,,}', {"a": 1}, "trailing_comma"),
    ],
)
def test_small_damage_is_repaired(value, read, kind):
    tail = b', "key": ' + value + b', "traceName": "t"}'
    assert values(HEAD, tail) == {"schemaVersion": 1, "key": read, "traceName": "t"}
    assert damage(HEAD, tail) == [kind]


def test_escaped_pairs_and_backslashes_are_no_damage():
    tail = rb', "a": "\ud83d\ude00", "b": "C:\\ud83d"}'
    assert read_metadata(HEAD, tail) == ({"schemaVersion": 1, "a": "\N{GRINNING FACE}", "b": r"C:\ud83d"}, [])


def test_numbers_that_were_not_measured_are_null():
    assert values(HEAD, b', "key": NaN, "other": [1, inf,], "traceName": "t",}') == {
        "schemaVersion": 1, "key": None, "other": [1, None], "traceName": "t",
    }  # fmt: skip


def test_text_behind_the_end_is_noted_where_it_is():
    assert read_metadata(HEAD, b"\n}}\n", tail_offset=900) == ({"schemaVersion": 1}, [("extra_data", 902)])


def test_events_behind_the_end_are_another_writers():
    assert damage(HEAD, b'\n}\n{"ph": "X"}]}') == ["interleaved"]


def test_head_that_breaks_off_keeps_what_was_whole():
    assert values(b'{"schemaVersion": 1, "deviceProperties": [{"id": 0, "na', b"") == {"schemaVersion": 1}


def test_events_key_inside_the_head_does_not_end_it():
    head = b'{"metadata": {"traceEvents": [1]}, "schemaVersion": 1, "traceEvents": ['
    assert values(head) == {"metadata": {"traceEvents": [1]}, "schemaVersion": 1}


@examples(60)
@given(
    st.binary(max_size=60),
    st.lists(st.sampled_from([b'"', b"{", b"}", b"[", b"]", b",", b":", b'"a": ', b"\n"]) | st.binary(max_size=4)),
)
def test_no_bytes_make_it_raise(head, pieces):
    read, notes = read_metadata(b"{" + head, b"".join(pieces))
    assert isinstance(read, dict)
    assert all(offset >= 0 for _, offset in notes)


@examples(40)
@given(
    st.dictionaries(
        st.text(max_size=8), st.integers() | st.text(max_size=8) | st.lists(st.integers(), max_size=3), max_size=5
    ),
    st.booleans(),
)
def test_valid_keys_come_out_as_json_reads_them(keys, ascii_only):
    keys.pop("traceEvents", None)
    text = json.dumps(keys, ensure_ascii=ascii_only).encode()
    assert read_metadata(text[:-1] + b', "traceEvents": [', b"}") == (keys, [])
    assert read_metadata(b'{"traceEvents": [', b", " + text[1:] if keys else b"}") == (keys, [])


# -- what they mean --------------------------------------------------------------------------------


def test_rank_is_taken_as_number_or_text():
    for rank in (3, "3", " 3 ", 3.0):
        assert facts({"distributedInfo": {"rank": rank, "world_size": "8"}}, "t.json").rank == 3
    for rank in (None, -1, "x", True, 2.5, [3]):
        found = facts({"distributedInfo": {"rank": rank}}, "t.json")
        assert (found.rank, found.rank_rule) == (None, None)


@pytest.mark.parametrize(
    ("name", "host", "pid"),
    [
        ("/traces/node7_4242.1700000000000000000.pt.trace.json.gz", "node7", 4242),
        ("node-7.site.org_4242.1694128201545.pt.trace.json", "node-7.site.org", 4242),
        ("run.zip!libkineto_activities_4242.json", None, 4242),
        ("worker0_step_12.1694128201545.pt.trace.json", None, None),
        ("worker0.1623143089861.pt.trace.json", None, None),
        ("rank_3.1694128201545.pt.trace.json", None, None),
        ("trace.json", None, None),
    ],
)
def test_host_and_process_come_from_the_name_profilers_give(name, host, pid):
    found = facts({}, name)
    assert (found.host, found.pid) == (host, pid)


def test_modules_that_a_recorder_of_ours_lists_are_known_by_their_class():
    listed = {"": "Net", "fc": "Linear"}
    assert facts({"stepscope": {"modules": listed}}, "t").module_classes == listed
    assert facts({"stepscope": {"modules": {"": "Net", "fc": 3}}}, "t").module_classes == {"": "Net"}


@pytest.mark.parametrize(
    "ours", [None, 3, [], {}, {"modules": None}, {"modules": ["Net"]}, {"modules": {"fc": "Linear"}},
             {"modules": {"": 3, "fc": "Linear"}}]
)  # fmt: skip
def test_a_list_of_modules_without_the_model_is_none(ours):
    assert facts({"stepscope": ours}, "t").module_classes == {}


def test_epoch_survives_to_the_nanosecond():
    assert facts({"baseTimeNanoseconds": 1767189312123456789}, "t").start_epoch_ns == 1767189312123456789
    assert facts({"baseTimeNanoseconds": "1767189312123456789"}, "t").start_epoch_ns == 1767189312123456789
    for damaged in ("soon", -1e300, 10**30, True, [], -5):
        assert facts({"baseTimeNanoseconds": damaged}, "t").start_epoch_ns is None


@pytest.mark.parametrize(
    ("device", "keys", "kind"),
    [
        ({"name": "Tesla V100-SXM2-16GB"}, {}, "cuda"), ({"name": "AMD Instinct MI300X"}, {}, "rocm"),
        ({"name": "Intel(R) Data Center GPU Max 1550"}, {}, "xpu"),
        ({"name": ""}, {"hip_runtime_version": 60443483}, "rocm"),
        ({"name": ""}, {"cuda_driver_version": 13000}, "cuda"), ({"name": "", "warpSize": 64}, {}, "rocm"),
        ({"warpSize": "32"}, {}, "cuda"), ({}, {}, "unknown"),
    ],
)  # fmt: skip
def test_kind_of_device_is_told_by_name_then_runtime_then_warp(device, keys, kind):
    assert devices({**keys, "deviceProperties": [device]})[0]["kind"] == kind


GFX942 = {"name": "", "warpSize": 64, "computeMajor": 9, "computeMinor": 4}


@pytest.mark.parametrize(
    ("figures", "name"),
    [
        ({"numSms": 304, "totalGlobalMem": 206141652992}, "AMD Instinct MI300X"),
        ({"numSms": 304, "totalGlobalMem": 274877906944}, "AMD Instinct MI325X"),
        ({"numSms": 228, "totalGlobalMem": 137438953472}, "AMD Instinct MI300A"),
        ({"numSms": 38, "totalGlobalMem": 206141652992}, None),  # a part of one
        ({"numSms": 304}, None),
        ({"numSms": 304, "totalGlobalMem": 206141652992, "warpSize": 32}, None),
    ],
)
def test_a_device_without_a_name_is_named_where_its_figures_leave_no_doubt(figures, name):
    assert devices({"deviceProperties": [{**GFX942, **figures}]})[0]["name"] == name


def test_what_a_device_does_not_state_is_unknown():
    (device,) = devices(
        {"deviceProperties": [{"id": 1, "name": "", "numSms": "108", "totalGlobalMem": -5, "computeMajor": 2**40}]}
    )
    assert (device["device"], device["sm_count"]) == (1, 108)
    assert device["name"] is None
    assert device["memory_bytes"] is None
    assert device["compute_major"] is None


@pytest.mark.parametrize("listed", [None, "none", 3, {}, [None, "x"]])
def test_devices_of_another_shape_are_none(listed):
    assert devices({"deviceProperties": listed}) == []


def test_device_listed_twice_is_one():
    assert len(devices({"deviceProperties": [{"id": 0, "name": "a"}, {"id": 0, "name": "b"}]})) == 1
