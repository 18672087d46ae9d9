"""Phases of steps, from the ranges that mark them."""


def _kept(linked):
    return [(row["step"], row["phase"], row["dur_ns"]) for row in linked.rows("phase_step")]


def test_each_moment_of_a_step_is_the_innermost_phases_or_the_residuals(recording):
    recording.annotation("ProfilerStep#7", 0, 1000)
    recording.annotation("phase: input_wait", 10, 110)
    recording.annotation("phase: forward", 200, 400)
    recording.annotation("phase: loss", 420, 450)
    recording.annotation("phase: optimizer", 500, 900)
    recording.annotation("phase: backward", 600, 850)  # a closure
    assert _kept(recording.link()) == [
        (7, "step", 1000), (7, "backward", 250), (7, "forward", 230), (7, "input_wait", 100), (7, "optimizer", 150),
        (7, "residual", 270),
    ]  # fmt: skip


def test_means_are_over_the_steps(recording):
    for step, forward in ((3, 10), (4, 20), (5, 60)):
        recording.annotation(f"ProfilerStep#{step}", 100 * step, 100 * step + 100)
        recording.annotation("phase: forward", 100 * step + 5, 100 * step + 5 + forward)
    rows = {row["phase"]: row for row in recording.link().rows("phase")}
    assert list(rows) == ["step", "forward", "residual"]
    forward = rows["forward"]
    assert (forward["steps"], forward["mean_ns"], forward["median_ns"]) == (3, 30.0, 20.0)
    assert (forward["max_ns"], rows["step"]["mean_ns"]) == (60, 100.0)
    assert rows["residual"]["mean_ns"] == 70.0
    assert forward["device_mean_ns"] is None


def test_a_phase_on_another_thread_or_outside_and_a_range_across_the_end_change_nothing(recording):
    recording.annotation("ProfilerStep#1", 0, 100)
    recording.annotation("iteration", 50, 150)
    recording.annotation("phase: forward", 60, 80)
    recording.annotation("phase: input_wait", 10, 90, thread=2)
    recording.annotation("phase: optimizer", 160, 170)
    assert _kept(recording.link()) == [(1, "step", 100), (1, "forward", 20), (1, "residual", 80)]


def test_without_marked_steps_there_are_no_phases(recording):
    recording.annotation("phase: forward", 60, 80)
    assert _kept(recording.link()) == []


def test_other_ranges_are_no_phases(recording):
    recording.annotation("ProfilerStep#1", 0, 100)
    recording.annotation("phase: lunar", 10, 30)
    recording.operator("phase: forward", 40, 50)
    assert _kept(recording.link()) == []
