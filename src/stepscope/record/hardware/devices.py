"""Reads a device's use, power, temperature, clocks, and what throttles it.

The vendors' libraries number devices in their own order, so a device is found there by its UUID or PCI address, as
given by torch, and never by index. What a library or device does not report is not measured.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

Ask = Callable[[], float]

_HZ = 1e6
_HEAT = 0x20 | 0x40
_POWER = 0x04 | 0x80
_SLOWED = _HEAT | _POWER | 0x08
"""Reasons for a lower clock: heat (SW and HW thermal slowdown), power (SW cap, HW brake), and HW slowdown, whose cause
is not reported. Source: nvml.h, nvmlClocksEventReason."""
_HOT = ("prochot_thrm", "socket_thrm", "vr_thrm", "hbm_thrm")
"""The same for AMD: violations due to heat; `ppt_pwr` is power. Source: amdsmi_violation_status_t."""

MEASURES = (
    "compute_active", "power", "temperature", "clock", "max_clock", "memory_clock",
    "throttled", "throttled_by_heat", "throttled_by_power",
)  # fmt: skip
"""The measures: the time in which it computed and whether its clock is throttled (%), W, °C, Hz."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device by what torch and its vendor's library both know; uuid and pci (domain, bus, device) may be unknown."""

    index: int
    name: str
    uuid: str | None = None
    pci: tuple[int, int, int] | None = None


def device_of(device: Any) -> Device | None:
    """What torch knows about a `torch.device`; None for one that no library here supports."""
    import torch

    if device is None or device.type != "cuda":
        return None
    with suppress(Exception):
        index = torch.cuda.current_device() if device.index is None else device.index
        properties = torch.cuda.get_device_properties(index)
        pci = None
        if hasattr(properties, "pci_domain_id"):
            pci = properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id
        return Device(index, properties.name, str(getattr(properties, "uuid", "")) or None, pci)
    return None


class DeviceReader(ABC):
    """Reads one device with its vendor's initialised library; LookupError if that does not know the device."""

    tool: str

    def __init__(self, library: Any, device: Device) -> None:
        self._library = library
        self._handle = self._find(device)

    def read(self) -> Mapping[str, float]:
        measures = {}
        for name, ask in self._queries().items():
            # One by one, because a virtual or partitioned device answers only some of them.
            with suppress(Exception):
                measures[name] = float(ask())
        with suppress(Exception):
            measures |= {name: 100.0 * active for name, active in self._throttled().items()}
        return measures

    @abstractmethod
    def _find(self, device: Device) -> Any:
        """Finds the library's handle of the device."""

    @abstractmethod
    def _queries(self) -> Mapping[str, Ask]:
        """The function that reads each measure."""

    @abstractmethod
    def _throttled(self) -> Mapping[str, bool]:
        """Whether its clock is throttled, and by what."""


class NvmlReader(DeviceReader):
    """A device of NVIDIA, through NVML (`nvidia-ml-py`)."""

    tool = "NVML"

    def _find(self, device: Device) -> Any:
        nvml = self._library
        if device.uuid is not None:
            for prefix in ("", "GPU-", "MIG-"):
                with suppress(nvml.NVMLError):
                    return nvml.nvmlDeviceGetHandleByUUID(prefix + device.uuid)
        if device.pci is not None:
            domain, bus, number = device.pci
            with suppress(nvml.NVMLError):
                return nvml.nvmlDeviceGetHandleByPciBusId(f"{domain:08x}:{bus:02x}:{number:02x}.0")
        raise LookupError(f"NVML does not know {device.name}")

    def _queries(self) -> Mapping[str, Ask]:
        nvml, handle = self._library, self._handle
        return {
            "compute_active": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * _HZ,
            "max_clock": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) * _HZ,
            "memory_clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM) * _HZ,
        }

    def _throttled(self) -> Mapping[str, bool]:
        nvml = self._library
        # Renamed in 2023; older drivers have only the old name.
        try:
            reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        except (AttributeError, nvml.NVMLError):
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)
        return {
            "throttled": bool(reasons & _SLOWED),
            "throttled_by_heat": bool(reasons & _HEAT),
            "throttled_by_power": bool(reasons & _POWER),
        }


class AmdReader(DeviceReader):
    """A device of AMD, through AMD SMI, which ROCm installs (`amdsmi`)."""

    tool = "AMD SMI"

    def _find(self, device: Device) -> Any:
        if device.pci is None:
            raise LookupError(f"this torch does not give the PCI address of {device.name}")
        domain, bus, number = device.pci
        address = f"{domain:04x}:{bus:02x}:{number:02x}.0"
        return self._library.amdsmi_get_processor_handle_from_bdf(address)

    def _queries(self) -> Mapping[str, Ask]:
        amd, handle = self._library, self._handle
        sensors, clocks = amd.AmdSmiTemperatureType, amd.AmdSmiClkType
        now = amd.AmdSmiTemperatureMetric.CURRENT

        def power() -> float:
            info = amd.amdsmi_get_power_info(handle)
            # Which of them is "N/A" depends on the generation.
            for name in ("socket_power", "current_socket_power", "average_socket_power"):
                if isinstance(info.get(name), int | float):
                    return float(info[name])
            raise LookupError(name)

        def clock(kind: Any, *names: str) -> float:
            info = amd.amdsmi_get_clock_info(handle, kind)
            return _HZ * float(next(info[name] for name in names if name in info))

        return {
            "compute_active": lambda: amd.amdsmi_get_gpu_activity(handle)["gfx_activity"],
            "power": power,
            "temperature": lambda: amd.amdsmi_get_temp_metric(handle, sensors.HOTSPOT, now),
            "clock": lambda: clock(clocks.GFX, "clk", "cur_clk"),
            "max_clock": lambda: clock(clocks.GFX, "max_clk"),
            "memory_clock": lambda: clock(clocks.MEM, "clk", "cur_clk"),
        }

    def _throttled(self) -> Mapping[str, bool]:
        status = self._library.amdsmi_get_violation_status(self._handle)
        active = {name: status.get(f"active_{name}") for name in (*_HOT, "ppt_pwr")}
        heat = [active[name] for name in _HOT if isinstance(active[name], bool)]
        reasons = {"throttled_by_heat": any(heat)} if heat else {}
        if isinstance(active["ppt_pwr"], bool):
            reasons["throttled_by_power"] = active["ppt_pwr"]
        return reasons | ({"throttled": any(reasons.values())} if reasons else {})


def open_reader(device: Device) -> DeviceReader | None:
    """Opens a reader for the device; None if its vendor's library is not installed or does not know it."""
    for module, start, reader in (("pynvml", "nvmlInit", NvmlReader), ("amdsmi", "amdsmi_init", AmdReader)):
        with suppress(Exception):
            library = importlib.import_module(module)
            getattr(library, start)()
            return reader(library, device)
    return None
