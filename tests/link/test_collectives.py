"""Communication kernels with their arguments."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.messages import message_bytes, operation_of
from stepscope.formats.tables import Group
from stepscope.link.collectives import exposed
from stepscope.link.rank import captures_of, link_rank

ARGUMENTS = {
    "operation": "allreduce", "group_name": "0", "group_ranks": "[0, 1]", "group_size": 2, "dtype": "Float",
    "elements_in": 10, "elements_out": 10,
}  # fmt: skip


def communicate(recording, start, end, correlation, **more):
    name = more.pop("name", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)")
    return recording.kernel(start, end, correlation, kind="communication", name=name, **more)


def test_arguments_on_the_kernel_come_first(recording):
    recording.argument_rows += [{"operation": "broadcast"}, ARGUMENTS]
    recording.operator("record_param_comms", 0, 50, collective_id=0)
    recording.launch(10, 20, 1)
    kernel = communicate(recording, 30, 90, 1, collective_id=1)
    linked = recording.link()
    (row,) = linked.rows("collective")
    assert row["id"] == linked.device(kernel)["id"]
    assert (row["operation"], row["bytes"], row["group_size"]) == ("all_reduce", 40, 2)
    assert row["host_id"] == 0
    assert row["wait_ns"] is None


def test_arguments_of_the_host_event_around_the_launch_are_used(recording):
    recording.argument_rows.append(ARGUMENTS)
    recording.annotation("nccl:all_reduce", 0, 100)
    asked = recording.operator("record_param_comms", 5, 90, collective_id=0)
    recording.launch(10, 20, 1)
    communicate(recording, 30, 90, 1)
    (row,) = recording.link().rows("collective")
    assert (row["host_id"], row["operation"], row["elements_in"]) == (asked, "all_reduce", 10)


def test_host_name_tells_the_operation_where_the_kernel_only_sends_and_receives(recording):
    recording.operator("c10d::alltoall_base_", 0, 100)
    recording.operator("record_param_comms", 5, 90)
    recording.launch(10, 20, 1)
    communicate(recording, 30, 90, 1, name="ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t")
    communicate(recording, 95, 99, None, name="ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t")
    linked = recording.link()
    assert linked.column("collective", "operation") == ["all_to_all", "send_recv"]
    assert linked.column("collective", "host_id") == [1, None]
    assert linked.column("collective", "bytes") == [None, None]


def test_recording_without_host_still_names_its_collectives(recording):
    communicate(recording, 0, 10, None)
    assert recording.link().column("collective", "operation") == ["all_reduce"]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["own capture", "capture in a file"])
def test_collectives_that_a_graph_replays_have_the_arguments_of_their_capture(recording, elsewhere):
    captured = type(recording)() if elsewhere else recording
    captured.argument_rows += [{"operation": "broadcast"}, ARGUMENTS | {"sequence": 17}]
    captured.input_rows.append({"input_id": 0, "dims": "[[6]]", "types": '["float"]'})
    captured.host("runtime", "cudaStreamBeginCapture", 0, 1)
    captured.operator("record_param_comms", 5, 20, collective_id=1)
    captured.launch(10, 12, 1)
    captured.annotation("nccl:all_reduce", 25, 40, input_id=0)
    captured.launch(28, 29, 2)
    captured.host("runtime", "cudaStreamEndCapture", 50, 51)
    for at in (100, 200):
        recording.launch(at, at + 2, at, name="cudaGraphLaunch")
        communicate(recording, at + 10, at + 20, at)
        communicate(recording, at + 30, at + 40, at)
    sources = [captures_of(captured.tables(), "capture.json")] if elsewhere else []
    rows = link_rank(recording.tables(), sources).tables["collective"].to_pylist()
    names = ("operation", "dtype", "bytes", "group_name", "sequence", "host_id")
    # Every replay has the number that the call had in the capture: it tells nothing.
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("all_reduce", "Float", 40, "0", None, None),
        ("all_reduce", "Float", 24, None, None, None),
    ] * 2


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"), ("ncclKernel_Broadcast_RING_LL_Sum_int8_t", "broadcast"),
        ("nccl:_all_gather_base", "all_gather"), ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"), ("c10d::_reduce_scatter_base_", "reduce_scatter"),
        ("all_to_allv", "all_to_all"), ("c10d::alltoall_base_", "all_to_all"), ("nccl:send 0->1", "send"),
        ("irecv", "recv"), ("nccl:coalesced", "coalesced"), ("c10d::barrier", "barrier"),
        ("void vllm::cross_device_reduce_1stage<__half, 8>(RankData*)", "all_reduce"),
        ("record_param_comms", None), ("wait", None),
    ],
)  # fmt: skip
def test_names_of_every_era_tell_the_operation(name, operation):
    assert operation_of(name) == operation


@pytest.mark.parametrize(
    ("operation", "dtype", "elements_in", "elements_out", "size"),
    [
        ("all_reduce", "Float", 10, 10, 40), ("all_gather", "BFloat16", 10, 80, 160),
        ("reduce_scatter", "Half", 80, 10, 160), ("all_to_all", "Long", 10, 12, 80),
        ("broadcast", "Float8_e4m3fn", 10, 10, 10), ("send", "Int", 10, None, 40), ("recv", "Int", 0, 10, 40),
        ("all_reduce", "Quantum", 10, 10, None), ("all_reduce", None, 10, 10, None),
        ("all_gather", "Float", 10, None, None), ("all_gather", "Float", 10, -1, None),
        ("all_reduce", "Float", 2**62, 10, None),
    ],
)  # fmt: skip
def test_message_is_counted_as_nccl_tests_counts_it(operation, dtype, elements_in, elements_out, size):
    assert message_bytes(operation, dtype, elements_in, elements_out) == size


def with_inputs(recording, dims, types, values=None):
    row = {"input_id": len(recording.input_rows), "dims": json.dumps(dims)}
    row |= {"types": json.dumps(types), "values": values and json.dumps(values)}
    recording.input_rows.append(row)
    return row["input_id"]


def test_sizes_and_types_are_told_from_the_tensors_where_no_argument_states_them(recording):
    outer = with_inputs(recording, [[80, 64], [10, 64], []], ["float", "float", ""])
    inner = with_inputs(recording, [[10, 64]], ["float"])
    recording.operator("c10d::_allgather_base_", 0, 60, input_id=outer)
    recording.annotation("nccl:_all_gather_base", 5, 50, input_id=inner)
    recording.launch(10, 20, 1)
    communicate(recording, 30, 90, 1, name="ncclKernel_AllGather_RING_LL")
    (row,) = recording.link().rows("collective")
    assert (row["dtype"], row["elements_in"], row["elements_out"]) == ("Float", 640, 5120)
    assert (row["bytes"], row["group_size"], row["library"]) == (20480, None, "nccl")


def test_a_list_of_tensors_has_its_type_from_the_range_below(recording):
    outer = with_inputs(recording, [[], []], ["TensorList", ""])
    inner = with_inputs(recording, [[7], [3]], ["c10::BFloat16", "c10::BFloat16"])
    recording.operator("c10d::allreduce_", 0, 60, input_id=outer)
    recording.annotation("nccl:all_reduce", 5, 50, input_id=inner)
    recording.launch(10, 20, 1)
    communicate(recording, 30, 90, 1)
    (row,) = recording.link().rows("collective")
    assert (row["dtype"], row["elements_in"], row["elements_out"]) == ("BFloat16", 10, 10)
    assert row["bytes"] == 20


def test_of_several_kernels_of_one_call_no_size_is_told(recording):
    recording.annotation("nccl:all_reduce", 0, 60, input_id=with_inputs(recording, [[10]], ["float"]))
    recording.launch(10, 20, 1)
    recording.launch(25, 30, 2)
    communicate(recording, 30, 90, 1)
    communicate(recording, 90, 99, 2)
    assert recording.link().column("collective", "bytes") == [None, None]


def test_splits_are_those_of_the_call_or_of_its_arguments(recording):
    values = ["", "", "", "[5, 1]", "[2, 4]", "False"]
    inputs = with_inputs(recording, [[6, 8], [6, 8]], ["float", "float", "", "ScalarList", "ScalarList"], values)
    recording.operator("c10d::alltoall_base_", 0, 40, input_id=inputs)
    recording.launch(10, 20, 1)
    communicate(recording, 30, 50, 1, name="ncclDevKernel_SendRecv(x)")
    recording.argument_rows.append({"operation": "all_to_all", "sent": "[9, 1]"})
    communicate(recording, 60, 70, None, name="ncclDevKernel_SendRecv(x)", collective_id=0)
    first, second = recording.link().rows("collective")
    assert (first["sent"], first["received"], first["bytes"]) == ("[2, 4]", "[5, 1]", 192)
    assert (second["sent"], second["received"]) == ("[9, 1]", None)


def test_gloo_communicates_on_the_host_and_nccl_does_not(recording):
    recording.groups = (Group("0", "default_pg", "cpu:gloo,cuda:nccl", 2, "[0, 1]"),)
    inputs = with_inputs(recording, [[1000]], ["float"])
    recording.operator("c10d::allreduce_", 0, 10, input_id=inputs)
    recording.annotation("nccl:all_reduce", 20, 30, input_id=inputs)
    did = recording.annotation("gloo:all_reduce", 40, 90, thread=1, input_id=inputs)
    recording.annotation("gloo:all_reduce", 50, 60, thread=1, input_id=inputs)
    (row,) = recording.link().rows("collective")
    assert (row["id"], row["host_id"], row["library"]) == (None, did, "gloo")
    assert (row["start_ns"], row["end_ns"], row["bytes"]) == (40, 90, 4000)
    assert (row["group_name"], row["group_size"]) == ("0", 2)
    assert row["exposed_ns"] is None


def test_what_the_device_computes_beside_gloo_hides_it(recording):
    recording.annotation("gloo:all_reduce", 40, 90)
    recording.kernel(0, 60)
    recording.kernel(80, 85)
    assert recording.link().column("collective", "exposed_ns") == [25]


def test_the_group_is_completed_from_those_that_the_job_lists(recording):
    recording.groups = (
        Group("3", "mp_tp", "cuda:nccl", 2, "[0, 4]"),
        Group("5", "mp_dp", "cuda:nccl", 4, "[0, 1, 2, 3]"),
    )
    recording.argument_rows.append({"operation": "allreduce", "group_name": "3"})
    communicate(recording, 0, 10, None, collective_id=0)
    communicate(recording, 20, 30, None)
    first, second = recording.link().rows("collective")
    assert (first["group_description"], first["group_ranks"], first["group_size"]) == ("mp_tp", "[0, 4]", 2)
    assert (second["group_name"], second["group_size"]) == (None, None)


def test_in_a_job_of_two_ranks_a_group_has_two(recording):
    recording.world_size = 2
    communicate(recording, 0, 10, None)
    assert recording.link().column("collective", "group_size") == [2]


def test_exposed_parts_of_collectives_side_by_side_count_once(recording):
    communicate(recording, 0, 50, None, stream=1)
    communicate(recording, 30, 90, None, stream=2)
    communicate(recording, 30, 90, None, stream=2, device=1)
    recording.kernel(10, 20)
    recording.kernel(80, 100)
    assert recording.link().column("collective", "exposed_ns") == [40, 30, 60]


events = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 1)), max_size=6)


@examples(50)
@given(events, events)
def test_exposed_parts_add_up_to_the_time_in_which_only_collectives_ran(collectives, kernels):
    def arrays(rows):
        start, length, device = np.array(rows, np.int64).reshape(-1, 3).T
        return start, start + length, device

    parts = exposed(*arrays(collectives), *arrays(kernels))
    for device in (0, 1):
        ran, computed = (
            {t for start, length, on in rows if on == device for t in range(start, start + length)}
            for rows in (collectives, kernels)
        )
        own = [part for part, row in zip(parts.tolist(), collectives, strict=True) if row[2] == device]
        assert sum(own) == len(ran - computed)
        assert all(0 <= part <= row[1] for part, row in zip(parts, collectives, strict=True))


def test_a_text_that_many_collectives_share_is_there_once(recording):
    """The ranks of a large group are megabytes of text; a recording has a hundred thousand collectives of it."""
    recording.argument_rows.append(ARGUMENTS | {"group_ranks": json.dumps(list(range(100)))})
    for number in range(3):
        recording.launch(100 * number, 100 * number + 5, number + 1)
        communicate(recording, 100 * number + 10, 100 * number + 50, number + 1, collective_id=0)
    ranks = recording.link().tables["collective"].column("group_ranks")
    assert [len(chunk.dictionary) for chunk in ranks.chunks] == [1]
