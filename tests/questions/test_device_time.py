"""Device time: exact unions, exposure, and what has no launch."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

from stepscope.query.ask import ask
from stepscope.questions import find

COLUMNS = "span_ns,computation_ns,communication_ns,exposed_communication_ns,copy_ns,exposed_copy_ns,busy_ns,idle_ns"


def test_communication_and_copies_are_exposed_where_nothing_covers_them(diff: Any) -> None:
    rows = {
        "device_event": [
            {"kind": "computation", "start_ns": 0, "dur_ns": 40},
            {"kind": "communication", "start_ns": 30, "dur_ns": 30, "stream": 1},
            {"kind": "copy", "start_ns": 50, "dur_ns": 30, "stream": 2},
            {"kind": "copy", "start_ns": 10, "dur_ns": 5, "stream": 2},
            {"kind": "annotation", "start_ns": 0, "dur_ns": 500, "stream": 2},
        ]
    }
    diff("device-time", rows, f"{COLUMNS}\n80,40,30,20,35,20,80,0")


def test_devices_ranks_and_recordings_stand_apart(diff: Any) -> None:
    rows = {
        "device_event": [
            {"start_ns": 0, "dur_ns": 10},
            {"start_ns": 90, "dur_ns": 10, "device": 1},
            {"start_ns": 500, "dur_ns": 10, "span": 1},
            {"start_ns": 5, "dur_ns": 10, "rank": 3, "device": 1},
        ]
    }
    diff(
        "device-time",
        rows,
        """
        rank,span,device,span_ns,busy_ns,idle_ns,events
        0,0,0,10,10,0,1
        0,0,1,10,10,0,1
        0,1,0,10,10,0,1
        3,0,1,10,10,0,1
        """,
    )


def test_work_without_a_launch_counts_and_is_named(diff: Any) -> None:
    rows = {
        "host_event": [{"id": 1, "kind": "runtime"}],
        "device_event": [{"start_ns": 0, "dur_ns": 30, "launch_id": 1}, {"start_ns": 20, "dur_ns": 10, "stream": 1}],
    }
    diff("device-time", rows, "busy_ns,events,unlinked_ns,unlinked_ratio\n30,2,10,0.25")


STEPS = {
    "step": [{"step": 1, "end_ns": 50}, {"step": 2, "start_ns": 50, "end_ns": 80}],
    "device_event": [
        {"start_ns": 10, "dur_ns": 60, "step": 1},
        {"kind": "copy", "start_ns": 70, "dur_ns": 20, "step": 2},
    ],
}


def test_a_chosen_steps_window_holds_what_the_step_before_launched(diff: Any) -> None:
    diff("device-time", STEPS, f"{COLUMNS}\n30,20,0,0,10,10,30,0", steps=[2])


def test_events_that_take_no_time_are_counted_and_add_none(diff: Any) -> None:
    rows = {"device_event": [{"start_ns": 5, "dur_ns": 0}]}
    diff("device-time", rows, "span_ns,busy_ns,idle_ns,events,unlinked_ratio\n0,0,0,1,")


def test_an_event_without_length_runs_in_the_step_it_begins_in(diff: Any) -> None:
    rows = {**STEPS, "device_event": [{"start_ns": 50, "dur_ns": 0}]}
    diff("device-time", rows, "step,busy_ns,events\n1,0,0\n2,0,1", by="step")


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["computation", "communication", "copy", "fill", "annotation"]),
        st.integers(0, 30),
        st.integers(0, 15),
        st.booleans(),
    ),
    max_size=8,
)


@given(EVENTS, st.integers(0, 30), st.integers(0, 30))
@examples(30)
def test_parts_equal_a_moment_by_moment_count(events: list[Any], first: int, second: int) -> None:
    work = [event for event in events if event[0] != "annotation"]
    rows = {
        "step": [
            {"step": 1, "start_ns": first, "end_ns": first + 10},
            {"step": 2, "start_ns": first + 10, "end_ns": first + 10 + second},
        ],
        "host_event": [{"id": 999, "kind": "runtime"}],
        "device_event": [
            {"kind": k, "start_ns": s, "dur_ns": d, "stream": i, "launch_id": 999 if linked else None}
            for i, (k, s, d, linked) in enumerate(events)
        ],
    }
    with literal_store(rows) as store:
        whole = ask(find("device-time"), store).rows()
        by_step = ask(find("device-time"), store, by="step").rows()
    assert len(whole) == bool(work)
    assert len(by_step) == 2 * bool(work)
    if not work:
        return
    begin, end = min(s for _, s, _, _ in work), max(s + d for _, s, d, _ in work)
    windows = [(begin, end), (first, first + 10), (first + 10, first + 10 + second)]
    for row, window in zip(whole + by_step, windows, strict=True):
        check_against_moments(row, work, *window)


def check_against_moments(row: dict[str, Any], work: list[Any], begin: int, end: int) -> None:
    moments = [
        {("computation" if kind == "fill" else kind) for kind, s, d, _ in work if s <= at < s + d}
        for at in range(begin, end)
    ]

    def count(condition: Any) -> int:
        return sum(bool(condition(running)) for running in moments)

    assert row["span_ns"] == end - begin
    assert row["computation_ns"] == count(lambda running: "computation" in running)
    assert row["communication_ns"] == count(lambda running: "communication" in running)
    assert row["exposed_communication_ns"] == count(
        lambda running: "communication" in running and "computation" not in running
    )
    assert row["copy_ns"] == count(lambda running: "copy" in running)
    assert row["exposed_copy_ns"] == count(lambda running: running == {"copy"})
    assert row["busy_ns"] == count(bool)
    assert row["idle_ns"] == row["span_ns"] - row["busy_ns"]
    assert row["unlinked_ns"] == sum(max(0, min(s + d, end) - max(s, begin)) for _, s, d, linked in work if not linked)
