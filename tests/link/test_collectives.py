"""Communication kernels with their arguments."""

from __future__ import annotations

import pytest

from stepscope.link.collectives import message_bytes, operation_of

ARGUMENTS = {
    "operation": "allreduce",
    "group_name": "0",
    "group_ranks": "[0, 1]",
    "group_size": 2,
    "dtype": "Float",
    "elements_in": 10,
    "elements_out": 10,
}


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


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t", "broadcast"),
        ("nccl:_all_gather_base", "all_gather"),
        ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor_coalesced", "all_gather"),
        ("c10d::_reduce_scatter_base_", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("c10d::alltoall_base_", "all_to_all"),
        ("nccl:send 0->1", "send"),
        ("irecv", "recv"),
        ("nccl:coalesced", "coalesced"),
        ("c10d::barrier", "barrier"),
        ("void vllm::cross_device_reduce_1stage<__half, 8>(RankData*)", "all_reduce"),
        ("record_param_comms", None),
        ("wait", None),
    ],
)
def test_names_of_every_era_tell_the_operation(name, operation):
    assert operation_of(name) == operation


@pytest.mark.parametrize(
    ("operation", "dtype", "elements_in", "elements_out", "size"),
    [
        ("all_reduce", "Float", 10, 10, 40),
        ("all_gather", "BFloat16", 10, 80, 160),
        ("reduce_scatter", "Half", 80, 10, 160),
        ("all_to_all", "Long", 10, 12, 80),
        ("broadcast", "Float8_e4m3fn", 10, 10, 10),
        ("send", "Int", 10, None, 40),
        ("recv", "Int", 0, 10, 40),
        ("all_reduce", "Quantum", 10, 10, None),
        ("all_reduce", None, 10, 10, None),
        ("all_gather", "Float", 10, None, None),
        ("all_gather", "Float", 10, -1, None),
        ("all_reduce", "Float", 2**62, 10, None),
    ],
)
def test_message_is_counted_as_nccl_tests_counts_it(
    operation, dtype, elements_in, elements_out, size
):
    assert message_bytes(operation, dtype, elements_in, elements_out) == size
