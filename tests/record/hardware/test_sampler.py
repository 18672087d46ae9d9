"""What the job takes of its machine over time, by looks that a test takes itself."""

import sys
import threading

import pytest

from stepscope.record.hardware import sampler
from stepscope.record.hardware.sampler import COLUMNS, OF_PROCESSES, HardwareSampler

from .test_devices import BY_UUID, HOT, nvml


def test_a_look_has_what_was_taken_since_the_one_before_and_what_the_device_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    hardware = HardwareSampler()
    hardware._look()
    hardware.watch(BY_UUID)
    hardware.watch(None)  # another model, whose device is not known
    hardware._look()
    figures = hardware.figures()
    assert figures is not None
    over_time = figures["over_time"]
    assert over_time["columns"] == list(COLUMNS)
    (row,) = over_time["rows"]  # the first look is what it is compared with
    found = dict(zip(COLUMNS, row, strict=True))
    assert {name: found[name] for name in HOT} == HOT
    assert found["memory_bytes"] == figures["peak_memory_of_all_bytes"] > 1 << 20
    assert all(found[name] >= 0 for name in OF_PROCESSES)
    assert over_time["device"] == {
        "index": 3, "name": "NVIDIA A100", "uuid": BY_UUID.uuid, "pci": None, "tool": "NVML",
    }  # fmt: skip


def test_a_long_run_has_looks_at_even_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_MAX_ROWS", 4)
    hardware = HardwareSampler()
    for _ in range(12):
        hardware._look()
    assert (len(hardware._rows), hardware._stride) == (3, 4)


def test_a_job_without_a_device_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    hardware = HardwareSampler()
    hardware._look()
    hardware._look()
    figures = hardware.figures()
    assert figures is not None
    assert figures["over_time"]["device"] is None
    assert figures["over_time"]["rows"][0][len(OF_PROCESSES) + 1 :] == [None] * len(HOT)


def test_the_thread_ends_when_it_is_told() -> None:
    hardware = HardwareSampler()
    hardware.start()
    hardware.start()
    (thread,) = [one for one in threading.enumerate() if one is hardware._thread]
    hardware.stop()
    thread.join(30)
    assert not thread.is_alive()
