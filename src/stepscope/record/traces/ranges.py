"""What a trace has of ours while it records: ranges of steps, of modules' calls and of regions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from stepscope.record import annotate
from stepscope.record.traces.module_ranges import ModuleRanges
from stepscope.record.trouble import Guard


class TraceRanges:
    """Ranges in a running trace.

    Args:
        guard: hears what goes wrong in them.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._modules: ModuleRanges | None = None
        self._step: Any = None

    def begin(self, model: Any) -> None:
        """From now on regions and the calls of `model`'s modules are ranges; None has no modules."""
        if model is not None:
            self._modules = ModuleRanges(model)
            self._modules.install(self._guard)
        annotate.listen(self._open_region)

    def end(self) -> None:
        """From now on they are none. A step's range stays open."""
        annotate.stop_listening(self._open_region)
        if self._modules is not None:
            self._modules.remove()
            self._modules = None

    def classes(self) -> dict[str, str]:
        """Path to class name of the modules that have ranges."""
        return {} if self._modules is None else self._modules.classes()

    def begin_step(self, number: int) -> None:
        """A step's range begins."""
        self._step = _record_function(f"ProfilerStep#{number}")
        self._step.__enter__()

    def end_step(self) -> bool:
        """The step's range ends; False where there is none."""
        step, self._step = self._step, None
        if step is None:
            return False
        step.__exit__(None, None, None)
        return True

    def _open_region(self, name: str) -> AbstractContextManager[Any] | None:
        try:
            opened: AbstractContextManager[Any] = _record_function(name)
        except Exception as error:
            self._guard.trip(error)
            return None
        return opened


def _record_function(name: str) -> Any:
    from torch.profiler import record_function

    return record_function(name)
