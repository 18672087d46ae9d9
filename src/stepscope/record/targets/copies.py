"""Observes copies of tensors from host to device by `tensor.to(device)` and `tensor.cuda()`.

Both are methods of a class, so they are replaced once per recording instead of per iteration, and only if there is a
device. Without an observer a call costs one more comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from stepscope.record.compiling import compiling_check, hidden_from_modes
from stepscope.record.targets import Target
from stepscope.record.targets.patches import Patch
from stepscope.record.targets.watch import Watch
from stepscope.record.trouble import Guard


@dataclass(slots=True)
class Copied:
    """Counts of copies and bytes; a copy from pageable memory blocks the host until it has ended."""

    copies: int = 0
    bytes: int = 0
    pageable_copies: int = 0
    pageable_bytes: int = 0


class Copies:
    """The copies of a process, for all observers between `attach` and `detach`."""

    def __init__(self) -> None:
        import torch

        self.listeners: tuple[tuple[Watch, Guard], ...] = ()
        self.copied = Copied()
        self._copying: int | None = None
        self._torch: Any = torch
        self._patches = [
            Patch(torch.Tensor, "to", lambda original: self._listening(original, default=None)),
            Patch(torch.Tensor, "cuda", lambda original: self._listening(original, default="cuda")),
        ]

    def attach(self) -> None:
        for patch in self._patches:
            patch.install()

    def detach(self) -> None:
        self.listeners = ()
        for patch in self._patches:
            patch.remove()

    def _listening(self, original: Callable[..., Any], default: str | None) -> Callable[..., Any]:
        is_compiling = compiling_check()

        def copy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            thread = get_ident()
            if is_compiling() or not self.listeners or self._copying == thread:
                return original(tensor, *args, **kwargs)
            tokens = self._open(tensor, args, kwargs, default)
            # The method of a tensor subclass calls the method again.
            self._copying = thread
            try:
                result = original(tensor, *args, **kwargs)
            finally:
                self._copying = None
            for watch, guard, token in tokens:
                guard.ask(watch.close, token)
            return result

        return copy

    def _open(self, tensor: Any, args: Any, kwargs: Any, default: str | None) -> list[tuple[Watch, Guard, Any]]:
        tokens: list[tuple[Watch, Guard, Any]] = []
        for watch, guard in self.listeners:
            if guard.ask(self._leaves_host, tensor, args, kwargs, default):
                token = guard.ask(watch.open, "host_to_device")
                if token is not None and not tokens:
                    guard.ask(self._count, tensor)
                tokens.append((watch, guard, token))
        return tokens

    def _count(self, tensor: Any) -> None:
        size = tensor.numel() * tensor.element_size()
        self.copied.copies += 1
        self.copied.bytes += size
        with hidden_from_modes(tensor):
            is_pinned = tensor.is_pinned()
        if not is_pinned:
            self.copied.pageable_copies += 1
            self.copied.pageable_bytes += size

    def _leaves_host(self, tensor: Any, args: Any, kwargs: Any, default: str | None) -> bool:
        if tensor.device.type != "cpu":
            return False
        target = kwargs.get("device", args[0] if args else None)
        if target is None:
            target = default
        if isinstance(target, self._torch.Tensor):
            target = target.device
        if isinstance(target, self._torch.device):
            return bool(target.type != "cpu")
        if isinstance(target, str):
            return not target.startswith("cpu")
        # An index selects a device of the accelerator; a bool would be non_blocking, and a dtype is not a device.
        return isinstance(target, int) and not isinstance(target, bool)


class HostToDevice(Target):
    """Observes the copies of a process through `Copies` that are attached for the entire recording."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._mine: tuple[Watch, Guard] | None = None

    def install(self, watch: Watch, guard: Guard) -> None:
        self._mine = (watch, guard)
        self._copies.listeners = (*self._copies.listeners, self._mine)

    def remove(self) -> None:
        self._copies.listeners = tuple(listener for listener in self._copies.listeners if listener is not self._mine)
        self._mine = None
