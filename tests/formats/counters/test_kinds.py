"""What the names of counters say."""

from __future__ import annotations

import pytest

from stepscope.formats.counters.kinds import kind_of, tensor_operations

PATH = "sm__ops_path_tensor_"


@pytest.mark.parametrize(
    ("counted", "operations"),
    [
        ({"src_fp16_dst_fp32": 8, "src_bf16_dst_fp32": 0}, 8),
        ({"src_fp16_dst_fp32": 8, "src_fp16_dst_fp16": 2, "src_fp64": 1}, 11),
        ({"src_fp16": 10, "src_fp16_dst_fp32": 8, "src_fp16_dst_fp16": 2}, 10),
        ({"src_bf16_dst_fp32_sparsity_off": 8, "src_bf16_dst_fp32": 8}, 8),
        ({"op_hgmma_src_bf16_dst_fp32_sparsity_off": 6, "op_hmma_src_bf16_dst_fp32_sparsity_off": 2}, 8),
        ({"src_bf16_dst_fp32_sparsity_on": 8, "src_bf16_dst_fp32": 8}, None),
        ({"op_hmma_src_fp16": 8, "src_fp16_dst_fp32": 8}, None),
        ({"src_fp4_fp6_fp8_dst_fp32": 8, "src_fp8_dst_fp32": 8}, None), ({"src_fp16_dst_fp32": 0}, 0),
    ],
)  # fmt: skip
def test_each_operation_of_tensor_cores_counts_once_or_none_is_told(counted, operations):
    assert tensor_operations({f"{PATH}{name}.sum": one for name, one in counted.items()}) == operations


def test_only_floating_point_paths_are_operations_of_tensor_cores():
    assert kind_of(f"{PATH}src_tf32_dst_fp32.sum") == "tensor_operations"
    assert kind_of(f"{PATH}src_fp16_dst_fp32.sum.per_cycle_elapsed") == "tensor_operations_per_cycle"
    assert kind_of(f"{PATH}src_int8.sum") is None
    assert kind_of(f"{PATH}src_fp16_dst_fp32.avg.pct_of_peak_sustained_elapsed") is None
