"""Memory snapshots as torch writes them, of an allocator that is played here."""

from pathlib import Path
from typing import Any

from stepscope.formats.container import Member, members

SEGMENT = 1 << 20
START_US = 1_783_874_495_854_988

MODULE = "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py"
FORWARD = (("forward", "/job/model.py", 12), ("_call_impl", MODULE, 1790), ("main", "/job/train.py", 40))
BACKWARD: tuple[tuple[str, str, int], ...] = ()
"""Autograd's threads have no frames of Python."""
OPTIMIZER = (
    ("step", "/job/adam.py", 77),
    ("wrapper", "/venv/lib/python3.12/site-packages/torch/optim/optimizer.py", 533),
    ("main", "/job/train.py", 44),
)
BUILDING = (("_apply", MODULE, 900), ("to", MODULE, 1340), ("main", "/job/train.py", 12))


class Allocator:
    """Plays torch's allocator and keeps what a snapshot has of it. Blocks lie where `place` says."""

    def __init__(self, devices: int = 1) -> None:
        self.events: list[list[dict[str, Any]]] = [[] for _ in range(devices)]
        self.marks: list[dict[str, Any]] = []
        self.segments: dict[tuple[int, int], int] = {}
        self.alive: dict[tuple[int, int], tuple[int, list[dict[str, Any]]]] = {}
        self._now = START_US
        self._stacks: dict[Any, list[dict[str, Any]]] = {}

    def frames(self, stack: Any) -> list[dict[str, Any]]:
        return self._stacks.setdefault(
            stack, [{"name": name, "filename": file, "line": line} for name, file, line in stack]
        )

    def event(self, action: str, device: int, stack: Any, **values: Any) -> None:
        self._now += 10
        self.events[device].append(
            {
                "action": action,
                **values,
                "stream": 0,
                "time_us": self._now,
                "compile_context": "N/A",
                "user_metadata": "",
                "frames": self.frames(stack),
            }
        )

    def reserve(self, address: int, size: int = SEGMENT, device: int = 0, *, seen: bool = True) -> None:
        self.segments[device, address] = size
        if seen:
            self.event("segment_alloc", device, FORWARD, addr=address, size=size)

    def give_back(self, address: int, device: int = 0) -> None:
        size = self.segments.pop((device, address))
        self.event("segment_free", device, FORWARD, addr=address, size=size)

    def take(self, address: int, size: int, stack: Any = FORWARD, device: int = 0, *, seen: bool = True) -> None:
        # A block of before the history was recorded has no stack.
        self.alive[device, address] = size, self.frames(stack) if seen else []
        if seen:
            self.event("alloc", device, stack, addr=address, size=size)

    def free(self, address: int, stack: Any = FORWARD, device: int = 0) -> None:
        size, _ = self.alive.pop((device, address))
        for action in ("free_requested", "free_completed"):
            self.event(action, device, stack, addr=address, size=size)

    def out_of_memory(self, size: int, free: int, device: int = 0) -> None:
        self.event("oom", device, FORWARD, device_free=free, size=size)

    def mark(self, name: str, stage: str, device: int = 0) -> None:
        self._now += 10
        self.marks.append({"stage": stage, "name": name, "device": device, "time_us": self._now})

    def snapshot(self) -> dict[str, Any]:
        """What `torch.cuda.memory._snapshot()` returns."""
        return {
            "segments": [
                self._segment(device, address, size) for (device, address), size in sorted(self.segments.items())
            ],
            "device_traces": self.events,
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
            "external_annotations": self.marks,
        }

    def _segment(self, device: int, address: int, size: int) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        at = address
        inside = sorted(place for on, place in self.alive if on == device and address <= place < address + size)
        for place in [*inside, address + size]:
            if place > at:
                blocks.append({"address": at, "size": place - at, "requested_size": 0, "state": "inactive", "frames": []})  # fmt: skip
            if place == address + size:
                break
            asked, frames = self.alive[device, place]
            rounded = -(-asked // 512) * 512
            blocks.append({"address": place, "size": rounded, "requested_size": asked, "state": "active_allocated", "frames": frames})  # fmt: skip
            at = place + rounded
        return {
            "device": device,
            "address": address,
            "total_size": size,
            "stream": 0,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": blocks,
        }


def training(steps: int = 3, *, leaks: int = 0) -> Allocator:
    """Steps of a training: parameters of before the recording, activations, gradients and state."""
    played = Allocator()
    played.reserve(0, seen=False)
    played.take(0, 10_000, seen=False)
    for step in range(steps):
        played.mark(f"ProfilerStep#{step}", "START")
        if leaks:
            played.take(200_000 + 1024 * step, leaks)
        played.take(20_480, 4_000)
        played.take(30_720, 6_000)
        played.free(30_720)
        played.take(40_960, 10_000, BACKWARD)
        played.take(51_200, 2_000, BACKWARD)
        played.free(20_480, BACKWARD)
        played.free(51_200, BACKWARD)
        played.mark("Optimizer.step#Adam.step", "START")
        if step == 0:
            played.take(61_440, 20_000, OPTIMIZER)
        played.take(81_920, 1_000, OPTIMIZER)
        played.free(81_920, OPTIMIZER)
        played.mark("Optimizer.step#Adam.step", "END")
        played.free(40_960)
        played.mark(f"ProfilerStep#{step}", "END")
    return played


def member(path: Path) -> Member:
    (found,) = members(path)
    return found
