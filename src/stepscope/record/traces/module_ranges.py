"""Adds module paths to a recording: a range `nn.Module: layers.0.attn` around every module's forward.

The profiler itself writes `nn.Module: Linear_3`, and only with stacks. The model itself has no path: its range is named
after its class. The file lists the classes of all modules, the model's under "".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepscope.record.compiling import hidden_from_modes
from stepscope.record.targets.around import Around, Wrapper
from stepscope.record.targets.find import module_paths, unwrapped
from stepscope.record.trouble import Guard

InRange = Callable[[str, str, Guard], Wrapper]
"""Makes a wrapper with a range around a module's calls from its path and class, which marks the model."""


class TraceRange:
    """A range of torch's profiler, whose start and end are operators."""

    def __init__(self, name: str) -> None:
        from torch.profiler import record_function

        self._range = record_function(name)

    def __enter__(self) -> None:
        with hidden_from_modes():
            self._range.__enter__()

    def __exit__(self, *exception: object) -> None:
        with hidden_from_modes():
            self._range.__exit__(*exception)


def in_trace(path: str, _class_name: str, guard: Guard) -> Wrapper:
    """Makes a range of torch's profiler."""
    name = f"nn.Module: {path}"

    def enter() -> TraceRange:
        opened = TraceRange(name)
        opened.__enter__()
        return opened

    def call_in_range(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        opened = guard.ask(enter)
        try:
            return call(*args, **kwargs)
        finally:
            if opened is not None:
                guard.ask(opened.__exit__, None, None, None)

    return call_in_range


class ModuleRanges:
    """Ranges around the forwards of a model's modules, made by `around`; merged ones of torch.compile get one."""

    def __init__(self, model: Any, around: InRange = in_trace) -> None:
        self._in_range = around
        self._modules = {path: entry.module for path, entry in module_paths(model).items() if entry.compiled_by is None}
        self._around: list[Around] = []

    def classes(self) -> dict[str, str]:
        return {path: type(unwrapped(module)).__qualname__ for path, module in self._modules.items()}

    def install(self, guard: Guard) -> None:
        from torch.jit import ScriptModule

        for path, module in self._modules.items():
            # Modules run by TorchScript have no Python calls.
            if isinstance(module, ScriptModule):
                continue
            name = path or self._model_name()
            what = _short_class(module) + ("" if path else ", model")
            wrapper = self._in_range(name, what, guard)
            self._around.append(Around(module, wrapper))
        for around in self._around:
            around.install()

    def _model_name(self) -> str:
        name = _short_class(self._modules[""])
        return f"({name})" if name in self._modules else name

    def remove(self) -> None:
        for around in self._around:
            around.remove()
        self._around = []


def _short_class(module: Any) -> str:
    return type(unwrapped(module)).__qualname__.rsplit(".", 1)[-1]
