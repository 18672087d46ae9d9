import pytest
from tests.questions.launched import H100, HGEMM, ODD, V100, calls, product

FLOPS, BYTES = 2 * 1024**3, 3 * 2 * 1024**2
COMPUTE_NS, MEMORY_NS = FLOPS / 989.5e12 * 1e9, BYTES / 3350e9 * 1e9  # 2170 and 1878 ns


def test_a_product_stands_beside_its_limit(answer):
    (row,) = answer("roofline", product(4000)).rows()
    assert row["flops"] == FLOPS
    assert row["moved_bytes"] == BYTES
    assert row["bound"] == "compute"
    assert row["attainable_ns"] == round(COMPUTE_NS) == 2170
    assert row["attainable_ratio"] == pytest.approx(COMPUTE_NS / 4000)
    assert row["intensity"] == pytest.approx(FLOPS / BYTES)
    assert row["flop_per_s"] == pytest.approx(FLOPS / 4000 * 1e9)
    assert row["bytes_per_s"] == pytest.approx(BYTES / 4000 * 1e9)
    assert (row["dtype"], row["peak_flop_per_s"]) == ("bfloat16", 989.5e12)
    assert row["note"] is None


def test_a_thin_product_is_bound_by_memory(answer):
    thin = ("aten::mm", [[1024, 8], [8, 1024]], ["c10::BFloat16"] * 2, 4000, {})
    (row,) = answer("roofline", calls([thin])).rows()
    assert row["bound"] == "memory"
    assert row["attainable_ns"] == round(2 * (2 * 8 * 1024 + 1024**2) / 3350e9 * 1e9)


def test_calls_alike_are_one_row_and_shares_add_up(diff):
    mm = ("aten::mm", [[8, 8], [8, 8]], ["float", "float"])
    relu = ("aten::relu", [[64]], ["float"], 10, {"name": "elementwise_kernel"})
    diff(
        "roofline",
        calls([(*mm, 30, {}), (*mm, 50, {}), relu, ("my::own", [[4]], ["float"], 10, {})]),
        """
        name,count,device_ns,share_ratio,flops,counted_ratio,note
        aten::mm,2,80,0.8,2048.0,1.0,
        aten::relu,1,10,0.1,64.0,1.0,
        my::own,1,10,0.1,,0.0,no formula
        """,
    )


def test_an_unknown_device_has_no_known_peak_and_keeps_its_work(answer):
    (row,) = answer("roofline", product(4000) | {"device": [ODD]}).rows()
    assert (row["bound"], row["note"]) == ("no peak known", "no peak known")
    assert row["attainable_ratio"] is row["attainable_ns"] is row["peak_flop_per_s"] is None
    assert row["flops"] == FLOPS


def test_more_than_the_peak_is_an_error_and_no_number(answer):
    (row,) = answer("roofline", product(1000)).rows()
    assert row["attainable_ratio"] is None
    assert row["note"].startswith("above 100 % of the peak")


def test_winograd_does_less_than_the_formula_counts_and_proves_no_limit_wrong(answer):
    conv = (
        "aten::cudnn_convolution_backward_input",
        [[], [8, 64, 32, 32], [64, 64, 3, 3], [], [], [], [], [], [], []],
        ["GenericList", "float", "float", *["GenericList"] * 3, "Int", "Bool", "Bool", "Bool"],
        1000,
        {"name": "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"},
    )
    (row,) = answer("roofline", calls([conv]) | {"device": [V100]}).rows()
    assert row["flops"] > 0
    assert row["attainable_ratio"] is None
    assert "Winograd" in row["note"]
    assert "above 100 %" not in row["note"]


def test_winograd_in_several_kernels_is_known_by_any_of_them(answer):
    conv = (
        "aten::cudnn_convolution_backward_input",
        [[], [8, 64, 32, 32], [64, 64, 3, 3], [], [], [], [], [], [], []],
        ["GenericList", "float", "float", *["GenericList"] * 3, "Int", "Bool", "Bool", "Bool"],
        1000,
        {"name": "volta_sgemm_64x64_nt"},
    )
    rows = calls([conv]) | {"device": [V100]}
    for number, part in enumerate(("Filter", "Data")):
        name = f"void cudnn::winograd_nonfused::winogradForward{part}4x4<float, float>"
        rows["device_event"].append({"id": 2000 + number, "name": name, "dur_ns": 10, "operator_id": 0})
    (row,) = answer("roofline", rows).rows()
    assert row["count"] == 1
    assert "Winograd" in row["note"]
    assert "above 100 %" not in row["note"]


def test_faster_than_memory_is_possible_from_a_cache(answer):
    relu = ("aten::relu", [[1 << 20]], ["float"], 1000, {"name": "elementwise_kernel"})
    (row,) = answer("roofline", calls([relu])).rows()
    assert row["attainable_ratio"] > 1
    assert "cache" in row["note"]


def test_what_not_even_a_full_cache_explains_was_counted_and_not_moved(answer):
    # 512 MiB in 40 µs: 50 of them may have been in the H100's L2, the others take 137 µs.
    relu = ("aten::relu", [[1 << 26]], ["float"], 40_000, {"name": "elementwise_kernel"})
    (row,) = answer("roofline", calls([relu])).rows()
    assert (row["attainable_ratio"], row["bound"]) == (None, "memory")
    assert "bytes are counted that were not moved" in row["note"]


def test_a_device_whose_cache_is_not_known_leaves_open_which_it_was(answer):
    relu = ("aten::relu", [[1 << 26]], ["float"], 40_000, {"name": "elementwise_kernel"})
    rows = calls([relu]) | {"device": [{"device": 0, "name": "NVIDIA B200", "used": True}]}
    (row,) = answer("roofline", rows).rows()
    assert row["attainable_ratio"] > 1
    assert "from a cache, or was counted and not moved" in row["note"]


def test_a_copy_above_the_hosts_link_is_no_measure_of_it(answer):
    copy = (
        "aten::copy_",
        [[1 << 20], [1 << 20]],
        ["float", "float"],
        1000,
        {"name": "Memcpy DtoH (Device -> Pinned)", "kind": "copy", "copy_kind": "DtoH"},
    )
    (row,) = answer("roofline", calls([copy])).rows()
    assert row["attainable_ratio"] is None
    assert "above 100 % of the link" in row["note"]


def test_float32_on_tensor_cores_compares_with_tf32(answer):
    rows = product(8000, dtype="float", name="sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize")
    (row,) = answer("roofline", rows).rows()
    assert (row["dtype"], row["peak_flop_per_s"]) == ("tf32", 494.5e12)


def test_a_copy_to_the_host_is_bound_by_the_hosts_link(answer):
    copy = (
        "aten::copy_",
        [[1 << 20], [1 << 20]],
        ["float", "float"],
        100_000,
        {"name": "Memcpy DtoH (Device -> Pinned)", "kind": "copy", "copy_kind": "DtoH"},
    )
    (row,) = answer("roofline", calls([copy])).rows()
    assert row["bound"] == "host link"
    assert row["attainable_ns"] == round(4 * (1 << 20) / 64e9 * 1e9)


def test_by_kernel_a_helper_has_no_work_of_its_own(answer):
    rows = product(4000)
    rows["device_event"].append({"id": 2000, "name": "nchwToNhwcKernel", "dur_ns": 500, "operator_id": 0})
    main, helper = answer("roofline", rows, by="kernel").rows()
    assert (main["name"], main["flops"], main["device_ns"]) == (HGEMM, FLOPS, 4000)
    assert (helper["flops"], helper["bound"]) == (None, None)
    assert helper["note"] == "work is counted with the kernels that it helps"


@pytest.mark.parametrize("by", ["operator", "kernel", "module"])
def test_rows_add_up_to_all_device_work(answer, by):
    mm = ("aten::mm", [[8, 8], [8, 8]], ["float", "float"])
    rows = calls(
        [(*mm, 30, {"module_id": 0}), (*mm, 50, {}), ("my::own", [[4]], ["float"], 7, {})],
        module=[{"module_id": 0, "path": "net"}],
    )
    rows["device_event"].append({"id": 2000, "name": "Memset (Device)", "kind": "fill", "dur_ns": 3})
    found = answer("roofline", rows, by=by).rows()
    assert sum(row["device_ns"] for row in found) == 90
    assert sum(row["flops"] or 0 for row in found) == 2 * 2 * 8**3
    assert sum(row["share_ratio"] for row in found) == pytest.approx(1)


def test_causal_attention_is_counted_by_its_mask_or_in_full(answer):
    attention = (
        "aten::_scaled_dot_product_flash_attention",
        [[1, 8, 64, 64]] * 3 + [[], [], [], []],
        ["c10::BFloat16"] * 3 + ["Scalar"] * 4,
        4000,
        {"name": "void pytorch_flash::flash_fwd_kernel<traits>"},
    )
    rows = calls([attention])
    rows["operator_input"][0]["values"] = '["","","","0.","True","False","0.125"]'
    (masked,) = answer("roofline", rows).rows()
    (full,) = answer("roofline", rows, causal="full").rows()
    assert full["flops"] == 4 * 8 * 64 * 64 * 64
    assert masked["flops"] / full["flops"] == pytest.approx((64 + 1) / (2 * 64))


def test_two_devices_stand_apart(answer):
    rows = product(4000)
    rows["device"] = [H100, {**V100, "device": 1}]
    rows["device_event"].append({**rows["device_event"][0], "id": 2000, "device": 1})
    rows["host_event"].append({**rows["host_event"][0], "id": 5})
    rows["device_event"][1]["operator_id"] = 5
    found = answer("roofline", rows).rows()
    assert {row["device_name"] for row in found} == {H100["name"], V100["name"]}


REPORT = {
    "scheduler_hz": 1e9, "dram_hz": 2e9, "dram_peak": 100.0, "fp32_peak": 1000.0, "fp64_peak": 500.0,
    "fp16_add": 0.0, "fp16_mul": 0.0, "fp16_fma": 0.0, "fp32_add": 4e5, "fp32_mul": 0.0, "fp32_fma": 8e5,
    "fp64_add": 0.0, "fp64_mul": 0.0, "fp64_fma": 0.0, "dram_bytes": 1e6,
}  # fmt: skip
"""2 MFLOP and 1 MB, on a device of 2 TFLOP/s and 200 GB/s: 1 and 5 µs."""


NAMED = {"tensor_operations": "sm__ops_path_tensor_src_fp16_dst_fp32.sum"}


def _report(*launches):
    """Launches that counters measured, and no event: `measured_kernel` with `kernel_metric`."""
    kernels, metrics = [], []
    for number, (name, dur_ns, values) in enumerate(launches):
        kernels.append({"measured": number, "name": name, "dur_ns": dur_ns, "launches": 1, "device": 0, "tool": "ncu"})
        metrics += [
            {"measured": number, "kernel": name, "metric": NAMED.get(kind, kind), "kind": kind, "value": value}
            for kind, value in values.items()
        ]
    return {"measured_kernel": kernels, "kernel_metric": metrics, "device": [{"device": 0, "name": "A10G"}]}


def test_counters_without_a_recording_make_the_roofline_of_their_kernels(diff):
    computes = REPORT | {"dram_bytes": 1e5, "fp64_fma": 5e6}  # 10 MFLOP of float64: 10 µs, and 0.5 µs of memory
    diff(
        "roofline",
        _report(("copies", 10_000, REPORT), ("copies", 10_000, REPORT), ("solves", 30_000, computes)),
        """
        name,dtype,count,device_ns,share_ratio,bound,attainable_ratio,flops,intensity,peak_flop_per_s,peak_bytes_per_s,device_name,note
        solves,float64,1,30000,0.6,compute,0.3333333333333333,12000000.0,120.0,1000000000000.0,200000000000.0,A10G,
        copies,float32,2,20000,0.4,memory,0.5,4000000.0,2.0,2000000000000.0,200000000000.0,A10G,
        """,
        by="kernel",
    )


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ({"dram_bytes": 1e6, "dram_hz": 2e9, "dram_peak": 100.0}, "its operations were not counted"),
        ({kind: value for kind, value in REPORT.items() if kind != "dram_bytes"}, "its bytes of device memory were"),
        ({kind: value for kind, value in REPORT.items() if kind != "fp32_peak"}, "no counter has the peak of float32"),
        ({kind: value for kind, value in REPORT.items() if kind != "dram_hz"}, "no counter has the peak of device"),
        (REPORT | {"tensor_active": 40.0, "tensor_operations": 1e6}, "tensor cores worked"),
    ],
)
def test_what_counters_do_not_tell_of_a_kernel_is_said_and_nothing_is_compared(answer, values, note):
    (row,) = answer("roofline", _report(("k", 10_000, values)), by="kernel").rows()
    assert note in row["note"]
    assert (row["bound"], row["attainable_ratio"]) == (None, None)


@pytest.mark.parametrize("by", ["operator", "module"])
def test_of_counters_without_a_recording_rows_are_kernels_and_the_note_says_so(answer, by):
    recorded = _report(("k", 10_000, REPORT))
    given, of_kernels = answer("roofline", recorded, by=by), answer("roofline", recorded, by="kernel")
    assert given.rows() == of_kernels.rows() != []
    assert "A row is a kernel" in given.note
    assert "A row is a kernel" not in of_kernels.note


IDEAL_NS = 2 * 1024**3 / 989.5e12 * 1e9


def test_kernels_are_ranked_by_what_could_go(answer):
    rows = calls(
        [
            ("aten::mm", [[1024, 1024]] * 2, ["c10::BFloat16"] * 2, 10_000, {"occupancy_ratio": 0.9}),
            ("my::own", [[4]], ["float"], 10_000, {"name": "half_full", "occupancy_ratio": 0.5}),
            ("my::own", [[4]], ["float"], 10_000, {"name": "unknown"}),
            ("my::own", [[4]], ["float"], 90_000, {"name": "Memcpy HtoD", "kind": "copy"}),
        ]
    )  # fmt: skip
    product, half, unknown = answer("roofline", rows, by="priority").rows()
    assert product["priority"] == 100
    assert (product["basis"], product["saving_ns"]) == ("limit", 10_000 - round(IDEAL_NS))
    assert product["attainable_ratio"] == pytest.approx(IDEAL_NS / 10_000)
    assert product["occupancy_ratio"] == pytest.approx(0.9)
    assert (half["name"], half["basis"], half["saving_ns"]) == ("half_full", "occupancy", None)
    assert half["priority"] == pytest.approx(100 * 5000 / (10_000 - IDEAL_NS))
    assert (unknown["basis"], unknown["occupancy_ratio"]) == ("time", None)
    assert unknown["priority"] == pytest.approx(100 * 3000 / (10_000 - IDEAL_NS))


def test_a_kernel_at_its_limit_has_nothing_to_gain(answer):
    rows = calls([("aten::mm", [[1024, 1024]] * 2, ["c10::BFloat16"] * 2, 100, {})])
    (row,) = answer("roofline", rows, by="priority").rows()
    assert (row["priority"], row["saving_ns"], row["attainable_ratio"]) == (0, 0, 1.0)


def test_a_full_device_is_no_proof_that_a_kernel_is_at_its_limit(answer):
    rows = calls(
        [
            ("my::own", [[4]], ["float"], 10_000, {"name": "full", "occupancy_ratio": 1.0}),
            ("my::own", [[4]], ["float"], 10_000, {"name": "untold"}),
        ]
    )
    for row in answer("roofline", rows, by="priority").rows():
        assert (row["priority"], row["basis"]) == (100, "time")
