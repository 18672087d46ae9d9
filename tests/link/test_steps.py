"""Where steps begin and end, and what belongs to them."""

from __future__ import annotations

import pytest

COLUMNS = (
    "step",
    "start_ns",
    "end_ns",
    "host_start_ns",
    "host_end_ns",
    "device_events",
    "complete",
)


def steps(linked):
    return [tuple(row[name] for name in COLUMNS) for row in linked.rows("step")]


def test_step_ends_with_its_device_work_and_the_next_begins_there(recording):
    recording.annotation("ProfilerStep#5", 0, 100)
    recording.annotation("ProfilerStep#6", 110, 200)
    recording.launch(10, 20, 1)
    recording.launch(120, 130, 2)
    recording.kernel(50, 150, 1)
    recording.kernel(150, 180, 2)
    linked = recording.link()
    assert steps(linked) == [(5, 0, 150, 0, 100, 1, True), (6, 150, 200, 110, 200, 1, True)]
    assert linked.column("device_event", "step") == [5, 6]
    assert linked.column("step", "rule") == ["ProfilerStep"] * 2


def test_call_that_crosses_a_steps_end_does_not_extend_it(recording):
    recording.annotation("ProfilerStep#5", 0, 100)
    recording.annotation("ProfilerStep#6", 100, 200)
    recording.launch(90, 110, 1, thread=1)
    recording.kernel(150, 170, 1)
    linked = recording.link()
    assert [row[:3] for row in steps(linked)] == [(5, 0, 100), (6, 100, 200)]
    assert linked.column("device_event", "step") == [5]


def test_work_before_the_first_step_moves_its_begin(recording):
    recording.annotation("ProfilerStep#1", 100, 200)
    recording.launch(110, 120, 1)
    recording.kernel(50, 130, 9)  # left over from before the recording
    recording.kernel(140, 150, 1)
    assert [row[:3] for row in steps(recording.link())] == [(1, 130, 200)]


def test_last_steps_without_their_device_work_are_kept_and_marked(recording):
    for number in range(4):
        recording.annotation(f"ProfilerStep#{number}", 100 * number, 100 * number + 90)
    correlation = 0
    for step, count in enumerate([5, 5, 3, 0]):
        for n in range(count):
            correlation += 1
            recording.launch(100 * step + 10 * n, 100 * step + 10 * n + 5, correlation)
            recording.kernel(100 * step + 10 * n + 5, 100 * step + 10 * n + 9, correlation)
    assert [row[6] for row in steps(recording.link())] == [True, True, False, False]


def test_steps_of_a_recording_without_device_are_whole(recording):
    recording.annotation("ProfilerStep#0", 0, 90)
    recording.annotation("ProfilerStep#1", 100, 190)
    assert [row[6] for row in steps(recording.link())] == [True, True]


def test_one_step_on_two_threads_is_one(recording):
    recording.annotation("ProfilerStep#3", 0, 100)
    recording.annotation("ProfilerStep#3", 5, 110, thread=1)
    assert [row[:3] for row in steps(recording.link())] == [(3, 0, 110)]


def test_number_that_comes_again_later_gets_a_new_one(recording):
    for start, number in ((0, 1), (100, 2), (200, 1)):
        recording.annotation(f"ProfilerStep#{number}", start, start + 90)
    linked = recording.link()
    assert [row[:2] for row in steps(linked)] == [(1, 0), (2, 100), (3, 200)]
    assert linked.column("step", "name")[2] == "ProfilerStep#1"


def test_host_event_belongs_to_the_step_it_begins_in_on_any_thread(recording):
    recording.annotation("ProfilerStep#1", 0, 100)
    recording.annotation("ProfilerStep#2", 120, 200)
    rows = [
        recording.operator("aten::mm", 50, 60, thread=1),
        recording.operator("aten::mm", 90, 130, thread=1),
        recording.operator("aten::mm", 105, 110, thread=2),
        recording.operator("aten::mm", 120, 120, thread=2),
    ]
    linked = recording.link()
    assert [linked.host(row)["step"] for row in rows] == [1, 1, None, 2]


def test_work_without_launch_belongs_to_the_step_it_began_in(recording):
    recording.annotation("ProfilerStep#1", 0, 100)
    recording.launch(10, 20, 1)
    recording.kernel(30, 200, 1)
    recording.kernel(150, 160, 9)
    recording.kernel(300, 310, 8)
    linked = recording.link()
    assert linked.column("device_event", "step") == [1, 1, None]
    assert steps(linked)[0][5] == 1


def test_without_ranges_the_optimizer_marks_the_steps(recording):
    recording.operator("aten::conv2d", 5, 20)
    recording.operator("autograd::engine::evaluate_function: ConvBackward0", 30, 40)
    recording.annotation("Optimizer.step#SGD.step", 50, 60)
    recording.operator("aten::conv2d", 70, 80)
    recording.operator("autograd::engine::evaluate_function: ConvBackward0", 85, 90)
    recording.annotation("Optimizer.step#SGD.step", 95, 110)
    linked = recording.link()
    assert [row[:3] for row in steps(linked)] == [(0, 5, 60), (1, 60, 110)]
    assert linked.column("step", "rule") == ["optimizer"] * 2


def test_optimizer_calls_with_no_backward_between_are_one_step(recording):
    backward = "autograd::engine::evaluate_function: MmBackward0"
    for start in (0, 100):
        recording.operator(backward, start + 10, start + 20)
        recording.annotation("Optimizer.step#SGD.step", start + 30, start + 40)
        recording.annotation("Optimizer.step#SGD.step", start + 50, start + 60)
    assert [row[:3] for row in steps(recording.link())] == [(0, 10, 60), (1, 60, 160)]


def test_of_several_optimizers_the_one_called_last_marks_the_steps(recording):
    for start in (0, 100):
        recording.annotation("Optimizer.step#Adagrad.step", start + 10, start + 20)
        recording.annotation("Optimizer.step#SGD.step", start + 30, start + 40)
    assert [row[:3] for row in steps(recording.link())] == [(0, 10, 40), (1, 40, 140)]


def test_optimizer_inside_an_optimizer_is_part_of_it(recording):
    recording.annotation("Optimizer.step#Wrapper.step", 0, 100)
    recording.annotation("Optimizer.step#SGD.step", 10, 90)
    assert [row[:3] for row in steps(recording.link())] == [(0, 0, 100)]


def test_without_any_mark_the_whole_recording_is_one_step(recording):
    recording.operator("aten::mm", 10, 20)
    recording.operator("PyTorch Profiler (0)", 0, 1000, thread=1)
    recording.track_threads.add(1)
    recording.launch(12, 14, 1)
    recording.kernel(30, 90, 1)
    recording.kernel(90, 90, 7)
    linked = recording.link()
    assert steps(linked) == [(0, 10, 90, 10, 90, 2, True)]
    assert (linked.column("step", "name"), linked.column("step", "rule")) == (
        ["0"],
        ["whole recording"],
    )
    assert linked.column("device_event", "step") == [0, 0]


@pytest.mark.parametrize("kind", ["host", "device"])
def test_one_side_alone_makes_one_step(recording, kind):
    if kind == "host":
        recording.operator("aten::mm", 10, 20)
    else:
        recording.kernel(10, 20, 5)
    assert [row[:3] for row in steps(recording.link())] == [(0, 10, 20)]


def test_empty_recording_has_no_step(recording):
    linked = recording.link()
    assert steps(linked) == []
    assert linked.rows("host_event") == linked.rows("device_event") == []


def test_step_number_that_no_program_counts_to_does_no_harm(recording):
    recording.annotation("ProfilerStep#99999999999999999999999", 0, 90)
    recording.annotation("ProfilerStep#7", 100, 190)
    assert [row[:2] for row in steps(recording.link())] == [(0, 0), (7, 100)]
