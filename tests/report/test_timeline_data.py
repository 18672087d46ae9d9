"""The timeline in a report: typical steps within a budget, in words what is left out, and no places."""

import json

from tests.browser.recordings import training
from tests.literal import literal_store

from stepscope.report.redaction import redact_paths
from stepscope.report.timeline_data import timeline_data
from stepscope.timeline.recording import Timeline


def held(rows, most):
    with literal_store(rows) as store:
        return timeline_data(Timeline(store), lambda value: value, most)


def starts(data, track):
    lanes = data["tracks"][track]["lanes"]
    return [sum(lane["start"][: at + 1]) for lane in lanes for at in range(len(lane["start"]))]


def test_all_is_in_it_where_there_is_room():
    layout, data = held(training(ranks=2), 1000)
    assert layout["left_out"] == ""
    assert [one["rank"] for one in layout["ranks"]] == [0, 1]
    assert starts(data, "0.h0") == [1_000_000 * s + 50_000 * n for s in (1, 2, 3) for n in range(4)]
    assert data["tables"]["1"]["host_event"]["host_event.start_ns"] == starts(data, "1.h0")


def test_without_room_it_has_a_few_steps_and_says_so():
    layout, data = held(training(), 20)
    assert layout["held"] == [1_000_000, 2_900_000]
    assert layout["left_out"].startswith("This report has 1.900 ms with 16 of 24 events.")
    assert len(starts(data, "0.h0")) == 8
    layout, data = held(training(), 9)
    assert layout["held"] == [1_000_000, 1_900_000]
    layout, data = held(training(ranks=2), 20)
    assert [one["rank"] for one in layout["ranks"]] == [0]
    assert "of rank 0 with 16 of 48 events" in layout["left_out"]


def test_without_steps_it_has_the_first_part():
    rows = {"device_event": [{"name": "k", "start_ns": 10 * n, "dur_ns": 5} for n in range(64)]}
    layout, data = held(rows, 10)
    assert layout["held"][0] == 0
    assert 1 <= len(starts(data, "0.s0.0")) <= 10
    assert f"{len(starts(data, '0.s0.0'))} of 64 events" in layout["left_out"]


def test_a_recording_without_events_has_none():
    layout, data = held({}, 10)
    assert data == {}
    assert layout["missing"] != ""


def test_it_does_not_tell_where_the_job_ran():
    rows = training()
    rows["host_event"][0]["stack_id"] = 0
    rows["call_stack"] = [{"stack_id": 0, "frames": "/home/ann/secret/train.py(3): step"}]
    with literal_store(rows) as store:
        layout, data = timeline_data(Timeline(store), redact_paths(["gpu-node7"]))
    text = json.dumps([layout, data])
    assert "gpu-node7" not in text
    assert "secret" not in text
    assert "train.py(3): step" in text
    assert "rank 0 on host 1" in text
