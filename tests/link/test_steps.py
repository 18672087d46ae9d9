"""Where steps begin and end, and what belongs to them."""

import pytest

COLUMNS = ("step", "start_ns", "end_ns", "host_start_ns", "host_end_ns", "device_events", "complete")


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


@pytest.mark.parametrize("truncated", [True, False])
def test_step_of_a_cut_file_that_lacks_events_is_not_complete_wherever_it_lies(recording, truncated):
    recording.report.truncated = truncated
    correlation = 0
    for step, count in enumerate([100, 98, 100, 99, 90]):
        start = 1000 * step
        recording.annotation(f"ProfilerStep#{step}", start, start + 990)
        for n in range(count):
            correlation += 1
            recording.launch(start + 9 * n, start + 9 * n + 3, correlation)
            recording.kernel(start + 9 * n + 4, start + 9 * n + 8, correlation)
    complete = [row[6] for row in steps(recording.link())]
    assert complete == [not truncated, not truncated, True, True, not truncated]


def test_no_step_of_a_file_cut_before_its_launches_is_complete(recording):
    recording.report.truncated = True
    for step in range(3):
        recording.annotation(f"ProfilerStep#{step}", 100 * step, 100 * step + 90)
        for n in range(4):
            recording.operator("aten::mm", 100 * step + 10 * n, 100 * step + 10 * n + 5)
    assert [row[6] for row in steps(recording.link())] == [False] * 3


@pytest.mark.parametrize(
    ("blocks", "complete"),
    [
        ([(0, 60)], [0, 1, 2, 3, 4, 5]),  # the first and the last have exactly what the others have
        ([(0, 59)], [0, 1, 2, 3, 4]),  # the last lacks a piece of work
        ([(25, 60), (0, 25)], [0, 1, 2, 3, 4, 5]),  # step 2 lies in two blocks, and lacks nothing
        ([(25, 50), (0, 24)], [0, 1, 3, 4]),  # step 2 lies in two blocks, and lacks something
        ([(35, 60), (0, 12)], [0, 4, 5]),  # the block between them is lost
        ([(0, 15), (38, 60)], [0, 4, 5]),  # the same with times in order
        ([(0, 15), (38, 55)], [4]),  # too few are alike for what the first has to be all of it
        ([(15, 25)], []),  # the fullest step is a part
        ([(20, 30)], []),  # a lone complete step has nothing on either side that shows it
    ],
)
def test_step_of_a_cut_file_is_complete_where_blocks_show_both_its_ends(recording, blocks, complete):
    recording.report.truncated = True
    for step in range(6):
        recording.annotation(f"ProfilerStep#{step}", 1000 * step, 1000 * step + 990)
    for first, last in blocks:
        for n in range(first, last):
            recording.launch(100 * n, 100 * n + 3, n + 1)
            recording.kernel(100 * n + 4, 100 * n + 8, n + 1)
    assert [row[0] for row in steps(recording.link()) if row[6]] == complete


def test_lone_step_of_a_cut_file_is_not_complete(recording):
    recording.report.truncated = True
    recording.annotation("ProfilerStep#0", 0, 90)
    assert [row[6] for row in steps(recording.link())] == [False]


@pytest.mark.parametrize("lost", [0, 1])
def test_last_step_whose_launches_lack_their_work_is_cut(recording, lost):
    for step in range(3):
        recording.annotation(f"ProfilerStep#{step}", 1000 * step, 1000 * step + 990)
        for n in range(10 if lost or step < 2 else 9):
            recording.launch(1000 * step + 9 * n, 1000 * step + 9 * n + 3, 100 * step + n + 1)
            if step < 2 or n < 9:
                recording.kernel(1000 * step + 9 * n + 4, 1000 * step + 9 * n + 8, 100 * step + n + 1)
    assert [row[6] for row in steps(recording.link())] == [True, True, not lost]


@pytest.mark.parametrize("lost", [0, 1])
def test_short_last_step_is_complete_where_an_earlier_one_is_as_short(recording, lost):
    # gradients accumulate over two steps, and the optimizer of every second one launches as much again
    for step, count in enumerate([5, 10, 5, 10, 5]):
        for n in range(count):
            at, correlation = 1000 * step + 20 * n, 100 * step + n + 1
            recording.launch(at, at + 5, correlation)
            if step < 4 or n < 5 - lost:
                recording.kernel(at + 5, at + 15, correlation)
        recording.annotation(f"ProfilerStep#{step}", 1000 * step, 1000 * step + 990)
    assert [row[6] for row in steps(recording.link())] == [True] * 4 + [not lost]


def test_rest_of_a_step_after_the_last_is_none_without_a_device_either(recording):
    for step, count in enumerate([4, 6, 4, 0]):
        recording.annotation(f"ProfilerStep#{step}", 100 * step, 100 * step + 90)
        for n in range(count):
            recording.operator("aten::mm", 100 * step + 10 * n, 100 * step + 10 * n + 5)
    assert [row[6] for row in steps(recording.link())] == [True, True, True, False]


def test_work_beside_several_steps_leaves_each_its_time(recording):
    for step in range(4):
        recording.annotation(f"ProfilerStep#{step}", 100 * step, 100 * step + 90)
        recording.launch(100 * step, 100 * step + 5, step + 1)
        recording.kernel(100 * step + 5, 100 * step + 95, step + 1)
    recording.launch(10, 15, 9)
    recording.kernel(20, 280, 9, stream=8)  # an all-reduce of the first step runs beside the next two
    assert [row[1:3] for row in steps(recording.link())] == [(0, 95), (100, 195), (200, 295), (300, 395)]


def test_step_ends_with_its_work_though_a_rest_of_the_next_is_done_before(recording):
    recording.annotation("ProfilerStep#0", 0, 50)
    recording.annotation("ProfilerStep#1", 50, 60)
    for n in range(3):
        recording.launch(10 * n, 10 * n + 5, n + 1)
        recording.kernel(5 + 50 * n, 50 + 50 * n, n + 1)
    recording.launch(52, 54, 9)
    recording.kernel(55, 57, 9, stream=8)
    assert [row[1:3] for row in steps(recording.link())] == [(0, 150), (150, 150)]


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
        recording.operator("aten::mm", 50, 60, thread=1), recording.operator("aten::mm", 90, 130, thread=1),
        recording.operator("aten::mm", 105, 110, thread=2), recording.operator("aten::mm", 120, 120, thread=2),
    ]  # fmt: skip
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


@pytest.mark.parametrize(
    ("backward", "optimizers", "end"),
    [
        (True, [("SGD", 30, 40), ("SGD", 50, 60)], 60),  # no backward between its calls
        (False, [("Adagrad", 10, 20), ("SGD", 30, 40)], 40),  # the one called last marks the steps
        (False, [("Wrapper", 10, 90), ("SGD", 20, 80)], 90),  # one inside the other is part of it
    ],
)
def test_several_calls_of_optimizers_end_one_step(recording, backward, optimizers, end):
    for start in (0, 100):
        if backward:
            recording.operator("autograd::engine::evaluate_function: MmBackward0", start + 10, start + 20)
        for name, first, last in optimizers:
            recording.annotation(f"Optimizer.step#{name}.step", start + first, start + last)
    assert [row[:3] for row in steps(recording.link())] == [(0, 10, end), (1, end, 100 + end)]


def test_without_any_mark_the_whole_recording_is_one_step(recording):
    recording.operator("aten::mm", 10, 20)
    recording.operator("PyTorch Profiler (0)", 0, 1000, thread=1)
    recording.track_threads.add(1)
    recording.launch(12, 14, 1)
    recording.kernel(30, 90, 1)
    recording.kernel(90, 90, 7)
    linked = recording.link()
    assert steps(linked) == [(0, 10, 90, 10, 90, 2, True)]
    assert (linked.column("step", "name"), linked.column("step", "rule")) == (["0"], ["whole recording"])
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


# -- without a mark ----------------------------------------------------------------------------------


def decode(recording, start, layers=4, launched=False):
    """One step of decoding, 100 ns of outermost operators: embedding, layers, head and sampling."""
    names = ["aten::embedding"]
    names += ["aten::layer_norm", "aten::linear", "aten::gelu", "aten::add"] * layers
    names += ["aten::linear", "aten::argmax", "aten::item"]
    for place, name in enumerate(names):
        recording.operator(name, start + 4 * place, start + 4 * place + 3)
    recording.operator("aten::addmm", start + 9, start + 11)  # within the first linear
    return start + 4 * len(names)


def test_without_any_mark_what_recurs_is_a_step(recording):
    for step in range(4):
        decode(recording, 100 * step)
    linked = recording.link()
    assert steps(linked) == [
        (0, 0, 100, 0, 100, 0, True), (1, 100, 200, 100, 200, 0, True), (2, 200, 300, 200, 300, 0, True),
        (3, 300, 379, 300, 379, 0, True),
    ]  # fmt: skip
    assert linked.column("step", "rule") == ["recurring operators"] * 4
    assert linked.column("step", "name") == ["aten::embedding"] * 4
    assert linked.column("step", "similarity") == [1.0] * 4


@pytest.mark.parametrize("repeats", [1, 2])
def test_fewer_than_three_repeats_are_no_steps_and_neither_are_their_layers(recording, repeats):
    for step in range(repeats):
        decode(recording, 1000 * step, layers=12)
    linked = recording.link()
    assert linked.column("step", "rule") == ["whole recording"]
    assert linked.column("step", "similarity") == [None]


def test_layers_within_steps_are_no_steps_though_ranges_name_them(recording):
    for step in range(3):
        start = 1000 * step
        recording.operator("aten::embedding", start, start + 5)
        for layer in range(8):
            at = start + 10 + 100 * layer
            recording.annotation(f"layer {layer}", at, at + 90)
            for place, name in enumerate(("layer_norm", "linear", "gelu", "add")):
                recording.operator(f"aten::{name}", at + 10 * place, at + 10 * place + 9)
        recording.operator("aten::argmax", start + 900, start + 950)
    linked = recording.link()
    assert [row[3] for row in steps(linked)] == [0, 1000, 2000]
    assert linked.column("step", "rule") == ["recurring operators"] * 3


def test_what_never_recurs_alike_has_no_period(recording):
    at = 0
    for count in (3, 9, 4, 17, 6, 30):
        recording.operator("aten::embedding", at, at + 1)
        for place in range(count):
            recording.operator("aten::mm", at + 2 * place + 2, at + 2 * place + 3)
        at += 100
    assert recording.link().column("step", "rule") == ["whole recording"]


def test_loop_over_a_single_operator_has_no_steps(recording):
    for place in range(50):
        recording.operator("aten::add", 10 * place, 10 * place + 5)
    assert recording.link().column("step", "rule") == ["whole recording"]


def test_ranges_that_recur_are_steps_whatever_number_is_in_their_name(recording):
    for step, batch in enumerate((8, 8, 16, 4)):
        recording.annotation(f"execute_model bs={batch}", 100 * step + 10, 100 * step + 95)
        decode(recording, 100 * step + 12, layers=2)
        recording.operator("aten::to", 100 * step + 97, 100 * step + 98)
    linked = recording.link()
    assert [row[3:5] for row in steps(linked)] == [(10, 110), (110, 210), (210, 310), (310, 398)]
    assert linked.column("step", "rule") == ["recurring range"] * 4
    assert linked.column("step", "name")[2] == "execute_model bs=16"


def test_ranges_without_a_name_are_no_steps(recording):
    for place in range(8):
        recording.annotation("(range without a name)", 100 * place + 10, 100 * place + 95)
    assert recording.link().column("step", "rule") == ["whole recording"]


def test_launches_of_graphs_that_recur_are_steps_told_apart_by_their_work(recording):
    correlation = 0
    for step in range(3):
        for piece, kernels in enumerate((2, 5, 5, 3)):  # a graph for the start, the layers, the end
            correlation += 1
            at = 1000 * step + 100 * piece
            recording.launch(at, at + 10, correlation, name="cudaGraphLaunch")
            for kernel in range(kernels):
                recording.kernel(at + 10 + 10 * kernel, at + 18 + 10 * kernel, correlation)
    linked = recording.link()
    assert steps(linked) == [
        (0, 0, 1000, 0, 1000, 15, True),
        (1, 1000, 2000, 1000, 2000, 15, True),
        (2, 2000, 2338, 2000, 2310, 15, True),
    ]
    assert linked.column("step", "rule") == ["recurring graph launch"] * 3


@pytest.mark.parametrize("missing", [0, 1])
def test_last_repeat_that_holds_less_than_each_other_was_cut_off(recording, missing):
    for step in range(4):
        end = decode(recording, 1000 * step, layers=50)
        for place in range(3 - missing * (step == 3)):
            recording.operator("aten::add", end + 4 * place, end + 4 * place + 3)
    linked = recording.link()
    assert linked.column("step", "complete") == [True, True, True, not missing]
    assert linked.column("step", "similarity")[-1] > 0.99


def test_last_repeat_that_was_cut_off_is_marked(recording):
    for step in range(3):
        decode(recording, 100 * step)
    for place, name in enumerate(("embedding", "layer_norm", "linear")):
        recording.operator(f"aten::{name}", 300 + 4 * place, 303 + 4 * place)
    linked = recording.link()
    assert [row[6] for row in steps(linked)] == [True, True, True, False]


def test_end_of_a_step_that_started_before_the_recording_is_in_none(recording):
    recording.operator("aten::linear", 0, 10)
    recording.operator("aten::argmax", 10, 20)
    for step in range(1, 5):
        decode(recording, 100 * step)
    assert [row[3] for row in steps(recording.link())] == [100, 200, 300, 400]


def test_first_repeat_may_do_more_once(recording):
    recording.operator("aten::embedding", 0, 1)
    for place in range(60):
        recording.operator("aten::empty", 2 * place + 2, 2 * place + 3)
    for step in range(2, 6):
        decode(recording, 100 * step)
    linked = recording.link()
    assert [row[3] for row in steps(linked)] == [0, 200, 300, 400, 500]
    assert linked.column("step", "similarity")[0] < 0.5


def test_marks_are_preferred_to_what_recurs(recording):
    for step in range(4):
        decode(recording, 100 * step)
    recording.annotation("ProfilerStep#7", 0, 400)
    assert recording.link().column("step", "rule") == ["ProfilerStep"]


# -- the first step ----------------------------------------------------------------------------------


def test_first_step_found_by_the_optimizer_starts_at_the_first_work(recording):
    recording.host("other", "PyTorch Profiler (0)", 0, 400, thread=9)
    recording.track_threads.add(9)
    recording.python("train.py(1): <module>", 1, 400)
    recording.python("torch/profiler/profiler.py(1): __enter__", 1, 80)
    recording.host("overhead", "Activity Buffer Request", 2, 70)
    recording.annotation("epoch 0", 85, 400)
    for step in range(3):
        recording.annotation("forward", 100 * step + 90, 100 * step + 140)
        recording.operator("aten::mm", 100 * step + 95, 100 * step + 105)
        recording.annotation("Optimizer.step#SGD.step", 100 * step + 150, 100 * step + 180)
    assert [row[3:5] for row in steps(recording.link())] == [(90, 180), (180, 280), (280, 380)]


def test_first_step_of_which_the_recording_missed_the_start_is_marked(recording):
    for step, launches in enumerate((2, 5, 5)):
        for n in range(launches):
            at = 100 * step + 10 * n
            recording.launch(at, at + 5, 10 * step + n + 1)
            recording.kernel(at + 5, at + 9, 10 * step + n + 1)
        recording.annotation("Optimizer.step#SGD.step", 100 * step + 60, 100 * step + 80)
    assert [row[6] for row in steps(recording.link())] == [False, True, True]


@pytest.mark.parametrize(
    ("durations", "slow"),
    [
        ((76, 50, 50, 50), True),
        ((75, 50, 50, 50), False),
        ((90, 50, 95, 50), False),  # a later one exceeds it
        ((90, 10), False),  # two steps tell of no slow first one
    ],
)
def test_first_step_is_slow_above_one_and_a_half_of_the_others_median(recording, durations, slow):
    for place, duration in enumerate(durations):
        recording.annotation(f"ProfilerStep#{place + 1}", 100 * place, 100 * place + duration)
    assert recording.link().column("step", "is_warmup") == [slow] + [False] * (len(durations) - 1)
