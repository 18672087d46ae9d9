import pytest
from tests.questions.launched import ODD, calls, product

FLOPS = 2 * 1024**3
IDEAL_NS = FLOPS / 989.5e12 * 1e9
STEP = {"step": [{"step": 7, "start_ns": 0, "end_ns": 10_000}]}


def test_utilisation_is_ideal_time_over_the_steps_duration(answer):
    rows = product(4000, step=7) | STEP
    (row,) = answer("efficiency", rows).rows()
    assert (row["step"], row["time_ns"], row["device_ns"]) == (7, 10_000, 4000)
    assert row["mfu_ratio"] == pytest.approx(IDEAL_NS / 10_000)
    assert row["attainable_ratio"] == pytest.approx(IDEAL_NS / 4000)
    assert row["flop_per_s"] == pytest.approx(FLOPS / 10_000 * 1e9)
    assert (row["dtype"], row["peak_flop_per_s"]) == ("bfloat16", 989.5e12)
    assert (row["coverage_ratio"], row["uncounted"], row["finding"]) == (1.0, None, None)


def test_products_of_two_types_each_meet_their_own_peak(answer):
    half = ("aten::mm", [[1024, 1024]] * 2, ["c10::BFloat16"] * 2, 4000, {"step": 7})
    plain = ("aten::mm", [[1024, 1024]] * 2, ["float"] * 2, 50_000, {"step": 7, "name": "sgemm"})
    rows = calls([half, plain]) | {"step": [{"step": 7, "start_ns": 0, "end_ns": 100_000}]}
    (row,) = answer("efficiency", rows).rows()
    assert row["mfu_ratio"] == pytest.approx((IDEAL_NS + FLOPS / 67e12 * 1e9) / 100_000)


def test_more_than_the_peak_is_an_error_and_no_number(answer):
    rows = product(500, step=7) | {"step": [{"step": 7, "start_ns": 0, "end_ns": 1000}]}
    (row,) = answer("efficiency", rows).rows()
    assert row["mfu_ratio"] is None
    assert row["attainable_ratio"] is None
    assert row["finding"].startswith("error: 217 % of the peak is impossible")


def test_what_is_not_counted_is_named_with_its_part(answer):
    mm = ("aten::mm", [[8, 8]] * 2, ["float"] * 2, 300, {"step": 7})
    rows = calls([mm, ("my::own", [[4]], ["float"], 100, {"step": 7})]) | STEP
    (row,) = answer("efficiency", rows).rows()
    assert row["coverage_ratio"] == 0.75
    assert row["uncounted"] == "my::own 25.0 %"


def test_nothing_counted_is_no_utilisation(answer):
    rows = calls([("my::own", [[4]], ["float"], 100, {"step": 7})]) | STEP
    (row,) = answer("efficiency", rows).rows()
    assert (row["mfu_ratio"], row["flops"]) == (None, None)
    assert row["finding"] == "no work is counted"


def test_products_that_are_not_counted_are_no_utilisation_of_nought(answer):
    relu = ("aten::relu", [[8]], ["float"], 100, {"step": 7, "name": "elementwise_kernel"})
    (row,) = answer("efficiency", calls([relu]) | STEP).rows()
    assert (row["mfu_ratio"], row["finding"]) == (0, None)
    rows = calls([relu, ("my::mm", [[4]], ["float"], 100, {"step": 7})]) | STEP
    (row,) = answer("efficiency", rows).rows()
    assert (row["mfu_ratio"], row["finding"]) == (None, "no product of matrices is counted")


def test_a_dot_in_a_modules_name_is_no_module_above_it(answer):
    mm = ("aten::mm", [[1024, 1024]] * 2, ["c10::BFloat16"] * 2, 4000, {"module_id": 0})
    rows = calls([mm], module=[{"module_id": 0, "path": "stage 1.5"}])
    (row,) = answer("efficiency", rows, by="module").rows()
    assert row["module"] == "stage 1.5"


def test_a_module_holds_the_modules_below_it(answer):
    mm = ("aten::mm", [[1024, 1024]] * 2, ["c10::BFloat16"] * 2)
    rows = calls(
        [(*mm, 4000, {"module_id": 0}), (*mm, 8000, {"module_id": 1, "direction": "backward"}), (*mm, 16_000, {})],
        module=[{"module_id": 0, "path": "net"}, {"module_id": 1, "path": "net.fc", "depth": 1, "parent_id": 0}],
    )
    found = {row["module"]: row for row in answer("efficiency", rows, by="module").rows()}
    assert list(found) == ["net", "net.fc", "(no module)"]
    assert found["net"]["time_ns"] == 12_000
    assert found["net"]["mfu_ratio"] == pytest.approx(2 * IDEAL_NS / 12_000)
    assert found["net.fc"]["mfu_ratio"] == pytest.approx(IDEAL_NS / 8000)
    assert found["(no module)"]["time_ns"] == 16_000


def test_conventions_and_the_source_of_limits_are_told_beside_the_numbers(answer):
    rows = product(4000, step=7) | STEP
    note = answer("efficiency", rows).note
    assert "multiply-add = 2 operations" in note
    assert "only the pairs that a causal mask allows" in note
    assert "Limits: NVIDIA H100 SXM (NVIDIA H100 Tensor Core GPU data sheet" in note
    assert "all query-key pairs" in answer("efficiency", rows, causal="full").note
    unknown = answer("efficiency", rows | {"device": [ODD]}).note
    assert unknown.endswith("No peak known: A device of next year.")


def test_where_inputs_were_not_recorded_it_is_said_how_much_that_is(answer):
    rows = product(4000, step=7) | STEP
    for question in ("efficiency", "roofline"):
        assert "were not recorded" not in answer(question, rows).note
    rows["operator_input"] = []
    for question in ("efficiency", "roofline"):
        assert answer(question, rows).note.startswith(
            "Of operators with 100.0 % of the device time the inputs were not recorded, so that their work is not counted: "
            "record them with record_shapes=True."
        )
