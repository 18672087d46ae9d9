"""ResNet-50 under DistributedDataParallel: 53 BatchNorms have 159 buffers, in two element types."""

from typing import Any

import pytest
from tests.findings.kineto_trace import Recorder, training

DISTRIBUTED = {"backend": "nccl", "rank": 0, "world_size": 2}


def broadcast(r: Recorder, buffers: int, dtype: str) -> None:
    with r.operator("aten::flatten_dense_tensors", [[64]] * buffers, dtype):
        r.now += 25 * buffers
        with r.operator("aten::cat", [[64]] * buffers, dtype):
            r.kernel("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 1, 128>", 6)
    with r.operator("c10d::broadcast_", [[64 * buffers]], dtype), r.operator("record_param_comms"):
        comms = {"Collective name": "broadcast", "In msg nelems": 64 * buffers, "dtype": "Float",
                 "Out msg nelems": 64 * buffers, "Group size": 2, "Process Group Name": "0"}  # fmt: skip
        r.kernel("ncclDevKernel_Broadcast_RING_LL(ncclDevComm*, unsigned long)", 30, stream=40, **comms)
    with r.operator("aten::unflatten_dense_tensors", [[64 * buffers]], dtype):
        r.now += 140 * buffers
    for _ in range(buffers):
        r.now += 40
        with r.operator("aten::copy_", [[64], [64], []], dtype):
            r.kernel("void at::native::vectorized_elementwise_kernel<4, copy_device_to_device>", 2)


def steps(buffers: int, *, every: int = 1, in_forward: bool = True) -> Any:
    taken = 0

    def step(r: Recorder) -> None:
        nonlocal taken
        if not in_forward:
            broadcast(r, buffers, "float")
        with r.range("DistributedDataParallel.forward"):
            r.now += 900
            if in_forward and buffers and taken % every == 0:
                broadcast(r, buffers, "float")
            for _ in range(53):
                with r.operator("aten::conv2d", [[64, 64, 56, 56]], "float"):
                    r.kernel("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw", 500)
                with r.operator("aten::copy_", [[64], [64], []], "float"):
                    r.kernel("void at::native::vectorized_elementwise_kernel<4, copy>", 40)
        taken += 1

    return training(step, distributed=DISTRIBUTED)


def test_buffers_broadcast_in_each_step_are_found(found: Any) -> None:
    (row,) = found(steps(106), "broadcast-buffers")
    assert row["title"].startswith("DistributedDataParallel broadcasts 106 buffers at the start of each")
    (evidence,) = row["evidence"]
    assert (evidence["forwards_per_step"], evidence["buffers"]) == (1, 106)
    assert evidence["unflatten_ns"] == (140 * 106 + 8) * 1_000
    assert row["value"] > evidence["unflatten_ns"] + evidence["flatten_ns"]
    # Another rank was not recorded: while the broadcast runs, this one may wait for it.
    assert row["saving_high_ns"] == row["value"] + evidence["device_ns"]
    assert row["saving_job_ns"] == row["saving_high_ns"] + 30_000
    assert evidence["device_ns"] == (6 + 30 + 2 * 106) * 1_000


@pytest.mark.parametrize(
    "trace",
    [steps(0), steps(106, every=3), steps(106, in_forward=False), steps(1)],
    ids=["broadcast_buffers=False", "one step in three", "outside of forward", "one buffer"],
)
def test_no_broadcast_a_rare_one_and_one_of_the_program_are_not(found: Any, trace: Any) -> None:
    assert found(trace, "broadcast-buffers") == []
