"""The roofline of kernels whose counters are known by hand: 1024³ multiply-adds, matrices of 4 MiB."""

import pytest
from tests.questions.launched import V100, calls

from stepscope.report.roofline_plot import picture_of, roofline_figure

FLOPS, LEAST = 2 * 1024**3, 3 * 4 * 1024**2
MM = ("aten::mm", [[1024, 1024], [1024, 1024]], ["float", "float"])
SGEMM, OWN = "volta_sgemm_128x64_nn", "own_kernel<4>"


def counters(name, place=0, **kinds):
    return {
        "measured_kernel": [{"measured": place, "name": name, "launches": 1, "tool": "Nsight Compute"}],
        "kernel_metric": [
            {"measured": place, "kernel": name, "metric": kind, "kind": kind, "unit": "", "value": value,
             "tool": "Nsight Compute"}
            for kind, value in kinds.items()
        ],
    }  # fmt: skip


COUNTED = {
    "fp32_add": 0, "fp32_mul": 0, "fp32_fma": 1024**3, "dram_read_bytes": 2 * LEAST, "dram_write_bytes": LEAST,
    "l2_sectors": LEAST, "l1_bytes": 40 * LEAST,
}  # fmt: skip
ROWS = calls([(*MM, 200_000, {"name": SGEMM})]) | {"device": [V100]}


def test_counted_work_stands_beside_that_of_the_formula(answer):
    (row,) = answer("roofline", ROWS | counters(SGEMM, **COUNTED), measured=True).rows()
    assert row["flops"] == row["counted_flops"] == FLOPS
    assert (row["moved_bytes"], row["counted_dram_bytes"]) == (LEAST, 3 * LEAST)
    assert (row["counted_l2_bytes"], row["counted_l1_bytes"]) == (32 * LEAST, 40 * LEAST)
    assert (row["flops_of_model"], row["bytes_of_model"], row["measured_ratio"]) == (1.0, 3.0, 1.0)
    assert row["note"] == ("3.0 times the least bytes of device memory: read again, spilled, or sectors in part unused")


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ({"fp32_add": 0, "fp32_mul": 0, "fp32_fma": 2 * 1024**3}, "2.0 times the formula's operations: padding"),
        ({"fp32_add": 0, "fp32_mul": 0, "fp32_fma": 1024**3 // 2}, "0.50 times the formula's operations: fewer"),
        ({"dram_bytes": LEAST / 4}, "0.25 times the least bytes of device memory: the rest stayed in L2"),
        ({"dram_bytes": 1.2 * LEAST}, None),
    ],
)  # fmt: skip
def test_large_differences_are_explained_and_small_ones_are_not(answer, kinds, words):
    (row,) = answer("roofline", ROWS | counters(SGEMM, **kinds), measured=True).rows()
    assert row["note"] is None if words is None else row["note"].startswith(words)


def test_what_tensor_cores_did_is_in_the_counters_of_their_paths_alone(answer):
    gemm = "ampere_fp16_s16816gemm_fp16_128x64"
    rows = calls([(*MM, 200_000, {"name": gemm})]) | {"device": [V100]}
    found = counters(gemm, **COUNTED | {"fp32_fma": 0})
    (row,) = answer("roofline", rows | found, measured=True).rows()
    assert row["counted_flops"] is row["flops_of_model"] is None
    assert row["counted_dram_bytes"] == 3 * LEAST
    path = {"metric": "sm__ops_path_tensor_src_fp16_dst_fp32.sum", "kind": "tensor_operations"}
    found["kernel_metric"].append(found["kernel_metric"][0] | path | {"value": FLOPS})
    (row,) = answer("roofline", rows | found, measured=True).rows()
    assert (row["counted_flops"], row["flops_of_model"], row["note"][:3]) == (FLOPS, 1.0, "3.0")


def test_half_of_the_time_measured_is_compared_with_no_formula(answer):
    rows = calls([(*MM, 100, {"name": SGEMM}), (*MM, 100, {"name": SGEMM, "grid_x": 7})])
    found = counters(SGEMM, **COUNTED)
    found["measured_kernel"][0] |= {"grid": "7,1,1"}
    (row,) = answer("roofline", rows | {"device": [V100]} | found, measured=True).rows()
    assert (row["measured_ratio"], row["counted_flops"]) == (0.5, FLOPS)
    assert row["flops_of_model"] is row["bytes_of_model"] is None


def test_without_counters_the_note_says_how_to_get_some(answer):
    asked = answer("roofline", ROWS, measured=True)
    assert "stepscope launch --tool ncu" in asked.note
    assert asked.rows()[0]["measured_ratio"] is None
    assert "counted_flops" not in answer("roofline", ROWS).rows()[0]


def test_priorities_say_what_counters_show_where_no_limit_is_known(answer):
    rows = calls([("my::own", [[4]], ["float"], 300, {"name": OWN}), (*MM, 100, {"name": SGEMM})])
    found = counters(OWN, compute_throughput=20.0, dram_throughput=75.0, achieved_occupancy=40.0)
    first, second = answer("roofline", rows | {"device": [V100]} | found, by="priority").rows()
    chosen = ("name", "basis", "limiter", "limiter_ratio", "occupancy_ratio")
    if first["name"] != OWN:
        first, second = second, first
    assert [first[name] for name in chosen] == [OWN, "counters", "DRAM", 0.75, 0.4]
    assert second["basis"] == "limit"
    assert first["saving_ns"] is None


def test_efficiency_counts_what_counters_did_where_no_formula_does(answer):
    rows = calls([("my::own", [[4]], ["float"], 300, {"name": OWN}), (*MM, 100_000, {"name": SGEMM})])
    plain = answer("efficiency", rows | {"device": [V100]}, by="module").rows()[0]
    asked = answer("efficiency", rows | {"device": [V100]} | counters(OWN, **COUNTED), by="module")
    (row,) = asked.rows()
    assert (plain["flops"], row["flops"]) == (FLOPS, 2 * FLOPS)
    assert (row["mfu_ratio"], row["coverage_ratio"], row["uncounted"]) == (plain["mfu_ratio"], 1.0, None)
    assert "Operations of 0.3 % of the device time are those that hardware counters counted" in asked.note


@pytest.mark.traces
def test_counters_of_a_report_make_the_operations_that_its_kernels_were_written_for(shared_traces):
    """Four kernels multiply matrices of 1024 × 1024 in float32."""
    import shutil

    import stepscope

    if shutil.which("ncu") is None:
        pytest.skip("needs ncu")
    with stepscope.open(shared_traces / "ncu" / "a10g_5_kernels.ncu-rep") as report:
        rows = report.metrics(by="metric").rows()
    flops = [row["value"] for row in rows if row["metric"] == "flops"]
    assert len(flops) == 4
    assert flops == [pytest.approx(FLOPS, rel=1e-3)] * 4


def test_counted_bytes_are_drawn_hollow_beside_the_modelled_point(answer):
    asked = answer("roofline", ROWS | counters(SGEMM, **COUNTED), measured=True)
    picture = picture_of(asked)
    rate = FLOPS / 200_000 * 1e9
    drawn = [(point.measured, round(point.intensity, 3), point.rate) for point in picture.points]
    assert drawn == [
        ("DRAM", round(FLOPS / LEAST / 3, 3), pytest.approx(rate)),
        ("L2", round(FLOPS / LEAST / 32, 3), pytest.approx(rate)),
        ("L1", round(FLOPS / LEAST / 40, 3), pytest.approx(rate)),
        ("", round(FLOPS / LEAST, 3), pytest.approx(rate)),
    ]
    pytest.importorskip("matplotlib")
    (axes,) = roofline_figure(asked).axes
    hollow = [len(one.get_offsets()) for one in axes.collections if not len(one.get_facecolors())]
    assert hollow == [3]
    assert "DRAM" in [text.get_text() for text in axes.texts]
