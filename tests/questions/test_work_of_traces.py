"""What the questions about efficiency say of real traces recorded by others."""

import csv
from pathlib import Path
from typing import Any

import pytest

import stepscope

TRACES = Path(__file__).parents[3] / "shared" / "traces" / "kineto"

pytestmark = pytest.mark.traces


def ask(name: str, question: str, **asked: Any) -> list[dict[str, Any]]:
    with stepscope.open(TRACES / name) as trace:
        return trace.ask(question, **asked).rows()


RESNET = "resnet50_v100/worker0.1623143089861.pt.trace.json.gz"


def test_resnet50_in_float32_could_use_tensor_cores_for_two_thirds_and_does_not() -> None:
    """The plugin says: used 0 %, eligible 67.62 %."""
    (row,) = ask(RESNET, "tensor-cores")
    assert row["used_ns"] == 0
    assert 100 * row["eligible_ratio"] == pytest.approx(67.62, abs=0.01)
    assert row["why_not"].startswith("float32: mixed precision is off (98.4 %)")


def test_a_step_of_resnet50_is_three_times_the_forward_of_32_images() -> None:
    """4.1 GMACs an image (He et al.), times 2, times 3 for both gradients, times 32."""
    rows = ask(RESNET, "efficiency")
    assert len(rows) == 6
    for row in rows:
        assert row["matrix_flops"] == pytest.approx(4.09e9 * 2 * 3 * 32, rel=0.01)
        assert row["coverage_ratio"] == 1
        assert row["mfu_ratio"] * 15.7e12 == pytest.approx(row["matrix_flops"] / row["time_ns"] * 1e9)
        assert row["finding"] is None


@pytest.mark.parametrize("trace", ["bert_small_h100", "bert_small_mi300", "eager_b200_rank0of8", "gpu_only_mi210"])
def test_tensor_core_kernels_are_recognised(trace: str) -> None:
    """At least 95 % of the products' time is classified, on H100, MI300X, B200 and MI210."""
    (row,) = ask(trace, "tensor-cores")
    assert row["eligible_ns"] > 0
    assert row["unknown_ns"] <= 0.05 * row["eligible_ns"]
    assert row["used_ns"] >= 0.95 * row["eligible_ns"]


@pytest.mark.parametrize(
    ("trace", "device_ns"), [("bert_small_h100", 309_437), ("eager_b200_rank0of8", None), ("vllm_decode_graph", None)]
)
def test_every_answer_adds_up_to_all_device_work(trace: str, device_ns: int | None) -> None:
    with stepscope.open(TRACES / trace) as opened:
        kinds = "('computation', 'communication', 'copy', 'fill')"
        (whole,) = opened.sql(f"SELECT sum(dur_ns)::BIGINT AS ns FROM device_event WHERE kind IN {kinds}").rows()
        if device_ns is not None:
            assert whole["ns"] == device_ns
        for question, forms in (("classes", ("class", "module")), ("roofline", ("operator", "kernel", "module"))):
            for form in forms:
                rows = opened.ask(question, by=form).rows()
                assert sum(row["device_ns"] for row in rows) == whole["ns"], (question, form)


@pytest.mark.parametrize("trace", ["bert_small_h100", "nccl_args_a100", RESNET])
def test_prof_and_roofline_charge_each_kernel_with_the_same_work(trace: str) -> None:
    with stepscope.open(TRACES / trace) as opened:
        by_kernel: dict[str, list[float]] = {}
        for row in opened.ask("roofline", by="kernel").rows():
            if not row["name"].startswith(("Memcpy", "Memset")):
                sums = by_kernel.setdefault(row["name"], [0.0, 0.0])
                sums[0] += row["flops"] or 0
                sums[1] += row["moved_bytes"] or 0
        rows = opened.ask("prof").rows()
    assert sum(row["flops"] or 0 for row in rows) == pytest.approx(sum(flops for flops, _ in by_kernel.values()))
    assert sum(row["bytes"] or 0 for row in rows) == pytest.approx(sum(moved for _, moved in by_kernel.values()))


def test_bert_agrees_with_the_tables_beside_it() -> None:
    """Every row that TraceLens has a model for, and each difference explained."""
    folder = TRACES / "bert_small_h100" / "tracelens_csv"
    with (folder / "unified_perf_summary.csv").open(encoding="utf-8") as stream:
        theirs = [row for row in csv.DictReader(stream) if row["GFLOPS"]]
    assert len(theirs) == 8
    ours = {(row["name"], row["input_dims"]): row for row in ask("bert_small_h100", "roofline")}
    for line in theirs:
        dims = line["Input Dims"].replace("(", "[").replace(",)", "]").replace(")", "]")
        name, dims = _INNER.get(line["name"], line["name"]), dims.replace(" ", "")
        row = next(
            row for (own, shapes), row in ours.items() if own == name and (own != line["name"] or shapes == dims)
        )
        calls = int(line["operation_count"])
        assert row["count"] == calls
        # Kernel times are doubles there; they are exact to the nanosecond here.
        assert row["device_ns"] == pytest.approx(float(line["Kernel Time (µs)_sum"]) * 1000, rel=1e-4)
        flops, moved = float(line["GFLOPS"]) * 1e9, float(line["Data Moved (MB)"]) * 2**20
        if name == "aten::addmm":  # they count the bias apart, here it is part of the product
            flops -= 141 * float(dims.split("]")[0].strip("["))
        if name == "aten::_flash_attention_forward":  # they leave out the logarithms for backward
            moved += 8 * 141 * 4
        if name == "aten::native_layer_norm":  # another formula, and mean and deviation stored
            assert row["flops"] / calls == pytest.approx(7 * 141 * 512, rel=0.01)
            moved += 2 * 4 * 141
            flops = row["flops"] / calls
        assert row["flops"] / calls == pytest.approx(flops, rel=1e-6), name
        assert row["moved_bytes"] / calls == pytest.approx(moved, rel=0.02), name


_INNER = {
    "aten::_scaled_dot_product_flash_attention": "aten::_flash_attention_forward",
    "aten::layer_norm": "aten::native_layer_norm",
}
"""Operators whose work is charged to the one below them."""
