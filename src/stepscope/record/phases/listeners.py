"""Hooks that stay installed during a recording: for the phases, and for copies to a device."""

from __future__ import annotations

from typing import Any

from stepscope.record.clock import Clock, clock_for
from stepscope.record.hardware.devices import Device, device_of
from stepscope.record.memory import MemoryReader
from stepscope.record.phases.phases import Phases
from stepscope.record.targets import Target
from stepscope.record.targets.around import ModuleForward
from stepscope.record.targets.copies import Copies, HostToDevice
from stepscope.record.targets.steps import OptimizerStep, full_backward
from stepscope.record.trouble import Guard


class PhaseListeners:
    """Observes a job's phases, or only copies if there are none to time."""

    def __init__(self, phases: Phases | None, guard: Guard) -> None:
        self.copies: Copies | None = None
        self.device: Device | None = None
        """The model's device, if its vendor's library may know it."""
        self._phases = phases
        self._guard = guard
        self._installed = False
        self._resting = False
        self._forwards: list[Target] = []
        self._others: list[Target] = []

    def install(self, model: Any, roots: list[Any]) -> None:
        """Starts observing on the device of a model; `roots`, whose calls are the forward, replace earlier ones."""
        self.resume()
        if not self._installed:
            self._installed = True
            self._install(model)
        for target in self._forwards:
            target.remove()
        self._forwards = [ModuleForward(root, "forward") for root in roots]
        for target in self._forwards:
            self._listen_to("forward", target)

    def pause(self) -> None:
        if self._resting:
            return
        self._resting = True
        for target in (*self._forwards, *self._others):
            target.remove()

    def resume(self) -> None:
        if self._resting and self._phases is not None:
            self._resting = False
            for target in (*self._forwards, *self._others):
                target.install(self._phases, self._guard)

    def remove(self) -> None:
        self.pause()
        self._forwards, self._others = [], []
        if self.copies is not None:
            self.copies.detach()

    def _install(self, model: Any) -> None:
        device = None
        if model is not None:
            device = next((parameter.device for parameter in model.parameters()), None)
        clock = clock_for(device)
        on_device = clock.kind != "host"
        self.device = device_of(device)
        if on_device:
            self.copies = Copies()
            self.copies.attach()
        if self._phases is None:
            return
        if on_device:
            self._time_on(self._phases, device, clock)
        self._others = [full_backward(), OptimizerStep()]
        for phase, target in zip(("backward", "optimizer"), self._others, strict=True):
            self._listen_to(phase, target)
        if self.copies is not None:
            self._others.append(HostToDevice(self.copies))
            self._listen_to("host_to_device", self._others[-1])

    def _time_on(self, phases: Phases, device: Any, clock: Clock) -> None:
        import torch

        phases.clock = clock
        backend = None if device is None else getattr(torch, device.type, None)
        if device is not None and hasattr(backend, "memory_stats"):
            phases.memory = MemoryReader(backend, device.index)

    def _listen_to(self, phase: str, target: Target) -> None:
        if self._phases is not None:
            self._phases.installed.add(phase)
            target.install(self._phases, self._guard)
