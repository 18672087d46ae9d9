"""Device event → launch → operator."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.link.launches import _started_calls


def test_kernel_belongs_to_the_launch_of_its_correlation(recording):
    operator = recording.operator("aten::mm", 0, 100)
    launch = recording.launch(10, 20, correlation=5)
    kernel = recording.kernel(50, 80, correlation=5)
    linked = recording.link()
    row = linked.device(kernel)
    assert (row["launch_id"], row["operator_id"]) == (launch, operator)
    assert row["id"] == 2
    assert linked.attributed()["operator"] == 30


def test_one_launch_may_have_many_kernels_and_many_none(recording):
    graph = recording.launch(0, 10, 5, name="cudaGraphLaunch")
    recording.launch(20, 30, 6)
    kernels = [recording.kernel(40 + 10 * n, 45 + 10 * n, 5) for n in range(3)]
    linked = recording.link()
    assert [linked.device(kernel)["launch_id"] for kernel in kernels] == [graph] * 3
    assert linked.host(graph)["device_ns"] == 15
    assert linked.host(1)["device_ns"] is None


def test_correlation_0_links_nothing(recording):
    recording.launch(0, 10, 0)
    kernel = recording.kernel(20, 30, 0)
    assert recording.link().device(kernel)["launch_id"] is None


def test_external_id_is_never_taken_for_a_correlation(recording):
    recording.launch(0, 10, correlation=5, external_id=9)
    other = recording.launch(20, 30, correlation=9, external_id=5)
    kernel = recording.kernel(40, 50, correlation=9, external_id=5)
    assert recording.link().device(kernel)["launch_id"] == other


def test_launching_call_wins_over_another_row_of_the_same_correlation(recording):
    recording.operator("aten::mm", 0, 100, correlation=5)
    recording.host("runtime", "cudaFuncGetAttributes", 5, 8, correlation=5)
    launch = recording.launch(10, 20, 5)
    kernel = recording.kernel(50, 80, 5)
    assert recording.link().device(kernel)["launch_id"] == launch


def test_numbers_that_begin_anew_link_to_the_latest_call_before(recording):
    first, second = recording.launch(0, 10, 5), recording.launch(100, 110, 5)
    kernels = recording.kernel(20, 30, 5), recording.kernel(120, 130, 5)
    linked = recording.link()
    assert [linked.device(k)["launch_id"] for k in kernels] == [first, second]


def test_arrow_links_a_kernel_without_correlation(recording):
    operator = recording.operator("aten::mm", 0, 100, thread=1)
    launch = recording.launch(10, 20, None, thread=1)
    kernel = recording.kernel(50, 80)
    recording.kernel(90, 95)
    recording.flow("launch", "s", 1 << 60, 10, "100", "201")
    recording.flow("launch", "f", 1 << 60, 50, "0", "stream 7")
    linked = recording.link()
    assert linked.device(kernel)["launch_id"] == launch
    assert linked.device(kernel)["operator_id"] == operator
    assert linked.device(1)["launch_id"] is None


def test_arrow_from_an_operator_gives_the_operator_and_no_launch(recording):
    # torch 1.4 drew arrows from operators and recorded no runtime calls.
    operator = recording.operator("mm", 0, 100)
    kernel = recording.kernel(50, 80)
    recording.flow("launch", "s", 3, 0, "100", "200")
    recording.flow("launch", "f", 3, 50, "0", "7")
    linked = recording.link()
    row = linked.device(kernel)
    assert (row["launch_id"], row["operator_id"]) == (None, operator)
    assert linked.host(operator)["device_ns"] == 30


def test_half_an_arrow_links_nothing(recording):
    recording.launch(10, 20, None)
    kernel = recording.kernel(50, 80)
    recording.flow("launch", "f", 3, 50, "0", "7")
    assert recording.link().device(kernel)["launch_id"] is None


def test_external_id_links_calls_and_kernels_in_order_where_counts_agree(recording):
    operator = recording.operator("aten::mm", 0, 100, external_id=4)
    calls = [recording.launch(10 + 10 * n, 15 + 10 * n, None, external_id=4) for n in range(2)]
    kernels = [recording.kernel(150 + 10 * n, 155 + 10 * n, external_id=4) for n in range(2)]
    recording.launch(300, 310, None, external_id=8)
    unclear = [recording.kernel(320 + 10 * n, 325 + 10 * n, external_id=8) for n in range(2)]
    linked = recording.link()
    assert [linked.device(k)["launch_id"] for k in kernels] == calls
    assert [linked.device(k)["operator_id"] for k in kernels] == [operator] * 2
    assert [linked.device(k)["launch_id"] for k in unclear] == [None, None]


def test_external_id_names_the_operator_of_a_launch_that_lies_in_none(recording):
    operator = recording.operator("aten::mm", 0, 10, external_id=4)
    launch = recording.launch(20, 30, 5, external_id=4)
    kernel = recording.kernel(40, 50, 5, external_id=4)
    row = recording.link().device(kernel)
    assert (row["launch_id"], row["operator_id"]) == (launch, operator)


def test_external_id_that_repeats_the_correlation_names_no_operator(recording):
    # torch 2.0 wrote the correlation under both names; an operator's own number may collide with it.
    recording.operator("aten::mm", 0, 10, external_id=5)
    kernel = recording.kernel(40, 50, 5, external_id=5)
    assert recording.link().device(kernel)["operator_id"] is None


def test_annotation_around_a_launch_is_no_operator(recording):
    operator = recording.operator("aten::mm", 0, 100)
    recording.annotation("my range", 5, 50)
    recording.launch(10, 20, 5)
    kernel = recording.kernel(50, 80, 5)
    assert recording.link().device(kernel)["operator_id"] == operator


def test_device_time_goes_to_the_operator_around_and_once_to_each_above(recording):
    step = recording.annotation("ProfilerStep#1", 0, 1000)
    linear = recording.operator("aten::linear", 10, 500)
    frame = recording.python("model.py(3): forward", 15, 400)
    addmm = recording.operator("aten::addmm", 20, 200)
    inner = recording.launch(30, 40, 1)
    direct = recording.launch(300, 310, 2)
    recording.kernel(50, 80, 1)
    recording.kernel(320, 420, 2)
    linked = recording.link()
    times = {
        row: (linked.host(row)["device_ns"], linked.host(row)["device_self_ns"])
        for row in (step, linear, frame, addmm, inner, direct)
    }
    assert times == {
        step: (130, None),
        linear: (130, 100),  # through the Python frame below it
        frame: (130, 100), addmm: (30, 30), inner: (30, 30), direct: (100, 100),
    }  # fmt: skip


def test_kernel_of_no_duration_was_launched_all_the_same(recording):
    operator = recording.operator("aten::mm", 0, 100)
    recording.launch(10, 20, 5)
    recording.kernel(50, 50, 5)
    assert recording.link().host(operator)["device_ns"] == 0


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 10)), max_size=12),
)
def test_calls_of_a_number_that_have_started_are_those_that_counting_finds(calls, asked):
    asked = [(group % len(calls), moment) for group, moment in asked]
    calls = [sorted(starts) for starts in calls]
    count = np.array([len(starts) for starts in calls])
    begun = _started_calls(
        np.cumsum(count) - count, count, np.concatenate(calls),
        np.array([group for group, _ in asked], dtype=np.int64),
        np.array([moment for _, moment in asked], dtype=np.int64),
    )  # fmt: skip
    assert begun.tolist() == [sum(start <= moment for start in calls[group]) for group, moment in asked]


def test_one_number_for_all_calls_takes_no_memory_for_each_pair():
    many = 200_000  # compared each with each they were 320 GB
    ones = np.zeros(many, dtype=np.int64)
    times = np.arange(many)
    begun = _started_calls(np.array([0]), np.array([many]), times, ones, times)
    assert begun[-1] == many
