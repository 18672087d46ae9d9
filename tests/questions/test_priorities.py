import pytest
from tests.questions.launched import calls

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
