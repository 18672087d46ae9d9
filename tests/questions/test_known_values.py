"""Known values of real traces recorded by others, from the file to the answer."""

from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.analysis.steps.parts import PARTS

TRACES = Path(__file__).parents[3] / "shared" / "traces" / "kineto"

pytestmark = pytest.mark.traces


def ask(name: str, question: str, **asked: Any) -> list[dict[str, Any]]:
    with stepscope.open(TRACES / name) as trace:
        return trace.ask(question, **asked).rows()


@pytest.mark.parametrize(
    ("span", "mean_us"),
    [
        (0, (98_589, 1_915, 89, 0, 2_908, 59_262, 13_674, 1_156, 177_592)),
        (1, (98_535, 1_734, 89, 0, 4_053, 35_504, 13_786, 1_210, 154_911)),
    ],
)
def test_resnet50_steps_are_the_plugins(span: int, mean_us: tuple[int, ...]) -> None:
    row = ask("resnet50_v100", "steps", by="mean")[span]
    ours = [row[f"{part}_ns"] / 1000 for part in (*PARTS, "total")]
    assert ours == pytest.approx(mean_us, rel=0, abs=0.51)  # the plugin's are whole microseconds
    assert row["steps"] == 6


def test_resnet50_uses_the_device_as_the_plugin_says() -> None:
    first, second = ask("resnet50_v100", "utilization")
    assert first["utilization_ratio"] == pytest.approx(0.5551, abs=1e-4)
    assert first["sm_efficiency_ratio"] == pytest.approx(0.5468, abs=1e-4)
    assert first["occupancy_ratio"] == pytest.approx(0.4913, abs=1e-4)
    assert second["utilization_ratio"] == pytest.approx(0.6361, abs=1e-4)


def test_resnet50_is_input_bound() -> None:
    verdict = ask("resnet50_v100", "summary")[0]
    assert verdict["item"] == "input-bound"
    assert verdict["share_ratio"] == pytest.approx(0.285, abs=0.005)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bert_small_h100", (3907825, 307197, 0, 0, 2240, 2240, 309437, 3598388)),
        ("gpu_only_mi210", (5979503, 5343422, 0, 0, 0, 0, 5343422, 636081)),
        ("eager_b200_rank0of8", (84487178, 8652137, 2141501, 2141501, 802844, 802844, 11596482, 72890696)),
        ("vllm_decode_graph", (10743181, 10674517, 0, 0, 43191, 43191, 10717708, 25473)),
    ],
)
def test_device_time_to_the_nanosecond(name: str, values: tuple[int, ...]) -> None:
    (row,) = ask(name, "device-time")
    assert (
        row["span_ns"],
        row["computation_ns"],
        row["communication_ns"],
        row["exposed_communication_ns"],
        row["copy_ns"],
        row["exposed_copy_ns"],
        row["busy_ns"],
        row["idle_ns"],
    ) == values


def test_symmetric_memory_is_communication_in_every_answer() -> None:
    classes = {row["class"]: row for row in ask("eager_b200_rank0of8", "classes")}
    kernels = [row for row in ask("eager_b200_rank0of8", "kernels") if row["kind"] == "communication"]
    (step,) = ask("eager_b200_rank0of8", "steps")
    assert classes["communication"]["device_ns"] == sum(row["total_ns"] for row in kernels)
    assert (sum(row["count"] for row in kernels), classes["communication"]["count"]) == (74, 74)
    assert step["communication_ns"] == classes["communication"]["device_ns"] == 2_141_501


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bert_small_h100", (60, 324734, 97672, 60, 307197, 729603)),
        ("eager_b200_rank0of8", (768, 5836530, 9630508, 761, 10862916, 26315731)),
    ],
)
def test_launch_phases_to_the_nanosecond(name: str, values: tuple[int, ...]) -> None:
    (row,) = ask(name, "launches", by="rank")
    names = ("kernels", "api_ns", "queue_ns", "queued", "kernel_ns", "total_ns")
    assert tuple(row[column] for column in names) == values


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bert_small_h100", [("host wait", 3598388, 60)]),
        ("eager_b200_rank0of8", [("host wait", 72470093, 711), ("kernel wait", 420603, 143)]),
    ],
)
def test_idle_causes_to_the_nanosecond(name: str, values: list[tuple[str, int, int]]) -> None:
    rows = [row for row in ask(name, "idle") if row["stream"] == 7]
    assert [(row["cause"], row["idle_ns"], row["gaps"]) for row in rows] == values
