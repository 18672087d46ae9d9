"""nn.DataParallel: a process that copies the model to its devices and runs them all."""

from typing import Any

import pytest
from tests.findings.kineto_trace import V100, Recorder, training


def scattered(name: str, devices: tuple[int, ...]) -> Any:
    def step(r: Recorder) -> None:
        with r.range(name):
            for device in devices:
                for _ in range(30):
                    with r.operator("aten::addmm", [[1024], [512, 1024], [1024, 1024]], "float"):
                        r.kernel("volta_sgemm_128x64_tn", 200, device=device, stream=7 + device)

    return training(step, devices=(V100, V100))


def test_one_process_that_drives_two_devices_is_found(found: Any) -> None:
    (row,) = found(scattered("DataParallel.forward", (0, 1)), "data-parallel")
    assert (row["value"], row["evidence"]) == (3, [{"rank": 0, "calls": 3, "devices": 2}])
    assert row["title"] == "DataParallel drives 2 devices from one process"


@pytest.mark.parametrize(
    ("name", "devices"),
    [("DataParallel.forward", (0,)), ("DistributedDataParallel.forward", (0, 1))],
    ids=["one device that has work", "a pipeline under DistributedDataParallel"],
)
def test_a_second_device_without_work_and_other_wrappers_are_not(
    found: Any, name: str, devices: tuple[int, ...]
) -> None:
    assert found(scattered(name, devices), "data-parallel") == []
