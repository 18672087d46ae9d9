import pytest
from tests.questions.launched import ODD, SGEMM, V100, calls, product

BF16 = "c10::BFloat16"


def mm(dims, dtype, ns, kernel):
    return ("aten::mm", dims, [dtype] * 2, ns, {"name": kernel})


def test_shares_are_of_kernel_time_and_copies_are_left_out(diff):
    rows = calls(
        [
            mm([[8, 8]] * 2, BF16, 60, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"),
            mm([[8, 8]] * 2, "float", 20, SGEMM),
            ("aten::relu", [[8]], ["float"], 20, {"name": "elementwise_kernel"}),
            ("aten::copy_", [[8]] * 2, ["float"] * 2, 900, {"name": "Memcpy DtoH", "kind": "copy"}),
        ]
    )
    diff(
        "tensor-cores",
        rows,
        """
        kernel_ns,eligible_ns,eligible_ratio,used_ns,used_ratio,why_not
        100,80,0.8,60,0.6,float32: neither TF32 nor mixed precision (25.0 %)
        """,
    )


@pytest.mark.parametrize(
    ("dims", "dtype", "kernel", "why"),
    [
        ([[8, 8]] * 2, "float", "ampere_sgemm_128x64_nn", "float32: neither TF32 nor mixed precision"),
        ([[8, 8]] * 2, "double", "volta_dgemm_64x64_nn", "float64"),
        ([[8, 9], [9, 8]], BF16, "ampere_hgemm_64x64_nn", "K = 9: not a multiple of 8"),
        ([[8, 8], [8, 1]], BF16, "void gemv2T_kernel_val<int, int>", "N = 1: not a multiple of 8"),
        ([[8, 8], [8, 8]], BF16, "void gemv2T_kernel_val<int, int>", "product with a vector, or a very small one"),
        ([[8, 8], [8, 8]], BF16, "ampere_hgemm_64x64_nn", "the library chose a kernel without"),
        ([[8, 8], [8, 8]], BF16, "my_gemm_kernel", "the kernel's name does not tell"),
        ([[8, 8], [8, 8]], "float", "triton_tem_fused_mm_2", "the kernel's name does not tell"),
        ([[8, 8], [8, 8]], "float", "void cublasLt::splitKreduce_kernel<32, 16, int, float>(P)",
         "helper kernels that multiply nothing (layout, reduction of parts)"),
        ([[8, 8], [8, 8]], BF16, "nchwToNhwcKernel", "helper kernels that multiply nothing (layout, reduction of parts)"),
    ],
)  # fmt: skip
def test_why_eligible_work_is_not_on_tensor_cores(answer, dims, dtype, kernel, why):
    (row,) = answer("tensor-cores", calls([mm(dims, dtype, 10, kernel)]), by="operator").rows()
    assert (row["why_not"], row["used_ns"], row["eligible_ns"]) == (why, 0, 10)
    assert row["unknown_ns"] == (10 if "does not tell" in why else 0)


def test_a_device_without_tf32_is_not_told_to_use_it(answer):
    rows = calls([mm([[8, 8]] * 2, "float", 10, SGEMM)]) | {"device": [V100]}
    (row,) = answer("tensor-cores", rows).rows()
    assert row["why_not"] == "float32: mixed precision is off (100.0 %)"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("NVIDIA GeForce GTX 1660 Ti", "the device has none (100.0 %)"),
        ("Tesla P100-PCIE-16GB", "the device has none (100.0 %)"),
        ("Tesla T4", "float32: mixed precision is off (100.0 %)"),
        ("NVIDIA TITAN V", "float32: mixed precision is off (100.0 %)"),
    ],
)
def test_a_device_without_tensor_cores_is_not_told_to_use_them(answer, name, why):
    device = {**V100, "name": name, "sm_count": None}
    rows = calls([mm([[8, 8]] * 2, "float", 10, SGEMM)]) | {"device": [device]}
    (row,) = answer("tensor-cores", rows).rows()
    assert row["why_not"] == why


@pytest.mark.parametrize(
    ("kernel", "slow"),
    [
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_nn_align1",
         "operands aligned to one element (N = 9: not a multiple of 8)"),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_nn_align8",
         "kernel made for Ampere, device is Hopper"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", None),
    ],
)  # fmt: skip
def test_what_slows_tensor_cores(answer, kernel, slow):
    rows = calls([mm([[8, 8], [8, 9]], BF16, 10, kernel)])
    (row,) = answer("tensor-cores", rows, by="operator").rows()
    assert (row["slowed_by"], row["used_ns"]) == (slow, 10)


def test_a_replayed_product_is_eligible_by_its_name(answer):
    rows = {
        "device_event": [
            {"name": "nvjet_tst_192x192", "dur_ns": 30, "graph_id": 1},
            {"name": "triton_poi_fused_add", "dur_ns": 10, "graph_id": 1},
        ]
    }
    (row,) = answer("tensor-cores", rows).rows()
    assert (row["eligible_ratio"], row["used_ratio"]) == (0.75, 0.75)


def test_by_kernel_lists_eligible_kernels_alone(answer):
    rows = calls([
        mm([[8, 8]] * 2, BF16, 10, "nvjet_tst_64x8"),
        ("aten::relu", [[8]], ["float"], 20, {"name": "elementwise_kernel"}),
    ])  # fmt: skip
    (row,) = answer("tensor-cores", rows, by="kernel").rows()
    assert (row["kernel"], row["used_ns"]) == ("nvjet_tst_64x8", 10)


def test_an_unknown_device_is_judged_by_its_kernels(answer):
    (row,) = answer("tensor-cores", product(40) | {"device": [ODD]}).rows()
    assert (row["used_ratio"], row["slowed_by"]) == (1.0, None)


def test_the_reasons_of_all_devices_stand_below_the_table(answer):
    rows = calls(
        [mm([[8, 8]] * 2, "float", 20, SGEMM), mm([[8, 8]] * 2, BF16, 60, "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n")]
    )
    assert answer("tensor-cores", rows).note.splitlines() == [
        "Eligible and not on tensor cores, of the eligible time: float32: neither TF32 nor mixed precision (25.0 %).",
        "On tensor cores and below their speed, of the eligible time: kernel made for Ampere, device is Hopper (75.0 %).",
    ]
    assert not answer("tensor-cores", rows, by="operator").note


def test_a_product_of_an_operator_of_which_nothing_is_known_is_judged_by_its_name(answer):
    compiled = ("CompiledFunction", [[8, 8]], ["float"], 60, {"name": SGEMM})
    embedding = ("aten::embedding", [[8, 8], [8]], ["float", "long"], 40, {"name": "indexing_gemm"})
    rows = calls([compiled, embedding])
    (row,) = answer("tensor-cores", rows).rows()
    assert (row["eligible_ns"], row["why_not"]) == (60, "float32: neither TF32 nor mixed precision (100.0 %)")
    eligible = {of["operator"]: of["tensor_core_eligible_ratio"] for of in answer("kernels", rows).rows()}
    assert eligible == {"CompiledFunction": 1, "aten::embedding": 0}
