"""Speedscope's format: samples and events, threads, units, and documents that are not complete."""

import json

import pytest
from tests.formats.sampled.profiles import read_text, stacks

from stepscope.base.errors import SourceError

FRAMES = [
    {"name": "main", "file": "/job/train.py", "line": 9, "col": None},
    {"name": "malloc", "file": "/usr/lib/libc.so.6", "line": 0},
    {"name": 'process 7:"python train.py"', "file": "", "line": 0},
]


def document(*profiles, exporter="py-spy@0.4.3"):
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": list(profiles),
            "shared": {"frames": FRAMES}, "exporter": exporter,
        }
    )  # fmt: skip


def sampled(samples, weights, unit="seconds", name='Process 7 Thread 9 "MainThread"'):
    return {"type": "sampled", "name": name, "unit": unit, "samples": samples, "weights": weights}


def test_samples_of_py_spy_have_thread_process_library_and_time(tmp_path):
    text = document(sampled([[2, 0, 1], [2, 0, 1], [2, 0]], [0.01, 0.01, 0.01]))
    name, tables = read_text(tmp_path, text)
    assert name == "speedscope"
    assert stacks(tables) == [
        ("MainThread", "libc.so.6!malloc;/job/train.py(9): main", 2, 20_000_000),
        ("MainThread", "/job/train.py(9): main", 1, 10_000_000),
    ]
    assert (tables.facts.tool, tables.facts.tool_version, tables.facts.pid) == ("py-spy", "0.4.3", 7)


def test_events_that_open_and_close_frames_are_time_and_no_samples(tmp_path):
    events = [
        {"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 3}, {"type": "C", "frame": 1, "at": 5},
        {"type": "C", "frame": 0, "at": 6},
    ]  # fmt: skip
    profile = {"type": "evented", "name": "t", "unit": "microseconds", "events": events}
    _, tables = read_text(tmp_path, document(profile, exporter="rbspy"))
    assert stacks(tables) == [
        ("t", "/job/train.py(9): main", None, 4000),
        ("t", "libc.so.6!malloc;/job/train.py(9): main", None, 2000),
    ]


def test_deep_stacks_of_opened_frames_are_cut_to_what_their_events_may_cost(tmp_path):
    depth = 3000
    events = [{"type": "O", "frame": n % 2, "at": n} for n in range(depth)]
    events += [{"type": "C", "frame": (depth - 1 - n) % 2, "at": depth + n} for n in range(depth)]
    profile = {"type": "evented", "name": "t", "unit": "nanoseconds", "events": events}
    _, tables = read_text(tmp_path, document(profile))
    assert sum(row[-1] for row in stacks(tables)) == 2 * depth - 1
    assert sum(row[1].count(";") + 1 for row in stacks(tables)) < 70 * len(events)
    assert tables.report.damage == {"implausible_size": 1}


def test_weights_without_a_unit_are_numbers_of_samples(tmp_path):
    _, tables = read_text(tmp_path, document(sampled([[0], [0]], [3, 4], unit="none")))
    assert stacks(tables) == [("MainThread", "/job/train.py(9): main", 7, None)]


def test_a_document_that_breaks_off_says_so(tmp_path):
    with pytest.raises(SourceError, match="not a complete JSON document"):
        read_text(tmp_path, document(sampled([[0]], [1]))[:-9])


def test_a_document_without_samples_says_so(tmp_path):
    with pytest.raises(SourceError, match="no sample"):
        read_text(tmp_path, document(sampled([], [])))
