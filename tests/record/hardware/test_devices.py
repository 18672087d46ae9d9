"""What a device's driver tells, through made-up libraries that answer as NVML and AMD SMI do."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stepscope.record.hardware.devices import MEASURES, Device, device_of, open_reader

UUID = "5f8a8a3c-0000-1111-2222-333344445555"
BY_UUID = Device(3, "NVIDIA A100", uuid=UUID)
BY_PCI = Device(3, "NVIDIA A100", pci=(0, 0x3B, 0))


class NVMLError(Exception):
    """As in `pynvml`."""


def nvml(**changed: Any) -> ModuleType:
    """A library that knows one device, by its UUID and its PCI address: hot, at half its clock."""
    module: Any = ModuleType("pynvml")
    module.NVMLError = NVMLError
    module.NVML_TEMPERATURE_GPU, module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM = 0, 1, 2
    module.nvmlInit = lambda: None

    def by(name: str) -> Any:
        def handle(asked: str) -> str:
            if asked != name:
                raise NVMLError("Not Found")
            return "the handle"

        return handle

    module.nvmlDeviceGetHandleByUUID = by(f"GPU-{UUID}")
    module.nvmlDeviceGetHandleByPciBusId = by("00000000:3b:00.0")
    module.nvmlDeviceGetUtilizationRates = lambda _: SimpleNamespace(gpu=97, memory=40)
    module.nvmlDeviceGetPowerUsage = lambda _: 251_500  # mW
    module.nvmlDeviceGetTemperature = lambda _, sensor: {0: 86}[sensor]
    module.nvmlDeviceGetClockInfo = lambda _, clock: {1: 705, 2: 1215}[clock]  # MHz
    module.nvmlDeviceGetMaxClockInfo = lambda _, clock: {1: 1410}[clock]
    module.nvmlDeviceGetCurrentClocksThrottleReasons = lambda _: 0x20
    for name, value in changed.items():
        setattr(module, name, value)
    return module


HOT = {
    "compute_active": 97.0, "power": 251.5, "temperature": 86.0, "clock": 705e6, "max_clock": 1410e6,
    "memory_clock": 1215e6, "throttled": 100.0, "throttled_by_heat": 100.0, "throttled_by_power": 0.0,
}  # fmt: skip


def read(monkeypatch: pytest.MonkeyPatch, device: Device, **libraries: ModuleType | None) -> Any:
    """What is read with these libraries installed and no others; None where there is no reader."""
    for name in ("pynvml", "amdsmi"):
        monkeypatch.setitem(sys.modules, name, libraries.get(name))  # type: ignore[arg-type]
    reader = open_reader(device)
    return None if reader is None else (reader.tool, dict(reader.read()))


@pytest.mark.parametrize("device", [BY_UUID, BY_PCI])
def test_a_device_is_found_by_its_uuid_or_its_address(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    assert read(monkeypatch, device, pynvml=nvml()) == ("NVML", HOT)
    assert set(HOT) == set(MEASURES)


def test_a_device_that_the_library_does_not_know_is_not_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Device(0, "NVIDIA A100", uuid="another", pci=(0, 0x5E, 0))
    assert read(monkeypatch, other, pynvml=nvml()) is None
    assert read(monkeypatch, Device(0, "NVIDIA A100"), pynvml=nvml()) is None


def test_what_a_partitioned_device_does_not_tell_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> Any:
        raise NVMLError("Not Supported")

    library = nvml(nvmlDeviceGetUtilizationRates=refuses, nvmlDeviceGetCurrentClocksThrottleReasons=refuses)
    _, found = read(monkeypatch, BY_UUID, pynvml=library)
    assert found == {name: HOT[name] for name in list(HOT)[1:6]}


@pytest.mark.parametrize(
    ("reasons", "held"),
    [
        (0x0, (0, 0, 0)), (0x1, (0, 0, 0)), (0x4, (100, 0, 100)), (0x8, (100, 0, 0)),
        (0x48, (100, 100, 0)), (0x88, (100, 0, 100)),
    ],
)  # fmt: skip
def test_an_idle_device_is_not_held_down_and_a_capped_one_is(
    monkeypatch: pytest.MonkeyPatch, reasons: int, held: tuple[int, int, int]
) -> None:
    library = nvml(nvmlDeviceGetCurrentClocksEventReasons=lambda _: reasons)
    _, found = read(monkeypatch, BY_UUID, pynvml=library)
    assert tuple(found[f"throttled{by}"] for by in ("", "_by_heat", "_by_power")) == held


def test_a_library_whose_driver_does_not_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise NVMLError("Driver Not Loaded")

    assert read(monkeypatch, BY_UUID, pynvml=nvml(nvmlInit=fails)) is None
    assert read(monkeypatch, BY_UUID) is None


def amd(**violation: Any) -> ModuleType:
    """AMD SMI as of ROCm 7, of an Instinct: "N/A" for what another generation has."""
    module: Any = ModuleType("amdsmi")
    module.AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="hotspot")
    module.AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")
    module.AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")
    module.amdsmi_init = lambda: None
    module.amdsmi_get_processor_handle_from_bdf = {"0000:3b:00.0": "the handle"}.__getitem__
    module.amdsmi_get_gpu_activity = lambda _: {"gfx_activity": 55, "umc_activity": 3}
    module.amdsmi_get_power_info = lambda _: {
        "socket_power": "N/A", "current_socket_power": 640, "average_socket_power": "N/A"
    }  # fmt: skip
    module.amdsmi_get_temp_metric = lambda _, sensor, now: {("hotspot", "current"): 71}[sensor, now]
    module.amdsmi_get_clock_info = lambda _, clock: {
        "gfx": {"clk": 1050, "max_clk": 2100}, "mem": {"clk": 1300, "max_clk": 1300}
    }[clock]  # fmt: skip
    names = ("prochot_thrm", "socket_thrm", "vr_thrm", "hbm_thrm", "ppt_pwr")
    told = {f"active_{name}": violation.get(name, "N/A") for name in names}
    module.amdsmi_get_violation_status = lambda _: told
    return module


def test_a_device_of_amd_is_read_through_its_own_library(monkeypatch: pytest.MonkeyPatch) -> None:
    library = amd(socket_thrm=False, hbm_thrm=False, ppt_pwr=True)
    tool, found = read(monkeypatch, BY_PCI, amdsmi=library)
    assert tool == "AMD SMI"
    assert found == {
        "compute_active": 55.0, "power": 640.0, "temperature": 71.0, "clock": 1050e6, "max_clock": 2100e6,
        "memory_clock": 1300e6, "throttled": 100.0, "throttled_by_heat": 0.0, "throttled_by_power": 100.0,
    }  # fmt: skip


def test_a_device_that_tells_of_no_violation_is_not_known_to_run_freely(monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = read(monkeypatch, BY_PCI, amdsmi=amd())
    assert not [name for name in found if name.startswith("throttled")]


@pytest.mark.torch
def test_torch_tells_who_a_device_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    told = SimpleNamespace(name="NVIDIA H100", uuid=UUID, pci_domain_id=0, pci_bus_id=0x1B, pci_device_id=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", {1: told}.__getitem__)
    assert device_of(torch.device("cuda", 1)) == Device(1, "NVIDIA H100", UUID, (0, 0x1B, 0))
    del told.pci_domain_id  # torch before 2.7
    assert device_of(torch.device("cuda", 1)) == Device(1, "NVIDIA H100", UUID)
    assert device_of(torch.device("cuda", 2)) is None
    assert device_of(torch.device("cpu")) is None
