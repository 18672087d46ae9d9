"""Ranges of operators for profilers that do not know torch: name, shapes, types, and autograd's numbers.

If the job uses CUDA, torch writes them (`emit_nvtx`) without types, which are observed in the step before. Otherwise a
dispatch mode of ours writes them. It sees operators below autograd (`aten::addmm` instead of `aten::linear`), and no
compiled code.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from stepscope.record.capture.nvtx import Nvtx
from stepscope.record.compiling import has_compiled
from stepscope.record.targets.operators import compiles_under_modes
from stepscope.record.traces.one_profiler import OneProfiler
from stepscope.record.trouble import Guard, warn_once

_LONGEST_LIST = 64
_LONGEST_TEXT = 64
_SILENT = Nvtx(
    push=lambda _: None, pop=lambda: None, start=lambda _: 0, end=lambda _: None, start_registered=lambda _: 0
)
_NOT_COUNTED = 1 << 62  # nodes that accumulate gradients have the highest possible number, which means none


def operator_ranges(nvtx: Nvtx, guard: Guard) -> _ByTorch | _ByMode:
    """Ranges around the calling thread's operators and autograd nodes: torch's own if the job uses CUDA.

    `install` raises a RuntimeError if this job does not allow it; `remove` returns whether it need not be repeated in a
    later step.
    """
    return _ByTorch(guard) if _uses_cuda() else _ByMode(nvtx, guard)


def _uses_cuda() -> bool:
    cuda = getattr(sys.modules["torch"], "cuda", None)
    return cuda is not None and bool(cuda.is_initialized())


class OperatorTypes:
    """Types and values of the operators in one step, for torch's own ranges, which only state sizes."""

    def __init__(self, guard: Guard) -> None:
        self._mode = _ByMode(_SILENT, guard)

    def start(self) -> None:
        """Observes operators, if torch's own ranges will be written and nothing prevents it."""
        if _uses_cuda():
            with contextlib.suppress(RuntimeError):
                self._mode.install()

    def end(self) -> list[bytes]:
        """Stops observing; returns a text for each distinct call, with its sizes, types and values."""
        texts = self._mode.texts()
        self._mode.remove()
        return texts


class _ByTorch:
    """`torch.autograd.profiler.emit_nvtx`, which uses the process's only session of torch's profiler."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._profiler_lock = OneProfiler(self._give_way)
        self._emit: Any = None

    def install(self) -> None:
        from torch.autograd.profiler import emit_nvtx

        self._profiler_lock.install()
        self._profiler_lock.take()
        emit = emit_nvtx(record_shapes=True)
        with self._profiler_lock.ours():
            emit.__enter__()
        self._emit = emit

    def remove(self) -> bool:
        emit, self._emit = self._emit, None
        try:
            if emit is not None:
                with self._profiler_lock.ours():
                    emit.__exit__(None, None, None)
        finally:
            self._profiler_lock.remove()
        return True

    def backward_ended(self) -> None:
        """Does nothing, because torch's own ranges of nodes end by themselves."""

    def _give_way(self) -> None:
        warn_once("operators get no more ranges: the job starts a profiler of its own")
        self._guard.ask(self.remove)


class _ByMode:
    def __init__(self, nvtx: Nvtx, guard: Guard) -> None:
        self._nvtx = nvtx
        self._guard = guard
        self._mode: Any = None

    def texts(self) -> list[bytes]:
        return [] if self._mode is None else self._mode.texts()

    def install(self) -> None:
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        # Modes are left in order: a mode of the job that is active now might be left before ours.
        if _get_current_dispatch_mode() is not None:
            raise RuntimeError("the job has a dispatch mode of its own on")
        if has_compiled() and not compiles_under_modes():
            raise RuntimeError("this torch compiles nothing while operators are observed")
        mode = _mode_class()(self._nvtx, self._guard)
        mode.__enter__()
        self._mode = mode

    def remove(self) -> bool:
        mode = self._mode
        if mode is None:
            return True
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        mode.resting = True
        mode.node_ended()
        if _get_current_dispatch_mode() is not mode:  # the job has entered a mode since
            return False
        self._mode = None
        mode.__exit__(None, None, None)
        return True

    def backward_ended(self) -> None:
        if self._mode is not None:
            self._mode.backward_ended()


@cache
def _mode_class() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    # Some older torches lack one or the other; then there are no numbers.
    sequence_number: Callable[[], int] = getattr(torch._C._autograd, "_get_sequence_nr", lambda: 0)
    current_node: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)
    queue_callback = torch.autograd.Variable._execution_engine.queue_callback

    class Operators(TorchDispatchMode):  # type: ignore[misc] # torch's types are not checked here
        """Puts a range around every operator, and runs it unchanged."""

        def __init__(self, nvtx: Nvtx, guard: Guard) -> None:
            super().__init__()
            self.resting = False
            self._push, self._pop = nvtx.push, nvtx.pop
            self._start, self._end = nvtx.start, nvtx.end
            self._guard = guard
            self._texts: dict[Any, tuple[bytes, bytes]] = {}
            self._here = threading.local()
            self._here.sequence = sequence_number()

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Without this, torch compiles nothing while the mode is on, and raises with fullgraph=True."""
            return True

        def texts(self) -> list[bytes]:
            return sorted({name + text for name, text in self._texts.values() if name})

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            pushed = not self.resting and self._guard.ask(self._enter, func, args, kwargs)
            try:
                return func(*args, **kwargs)
            finally:
                if pushed:
                    self._pop()

        def _enter(self, func: Any, args: Any, kwargs: Any) -> bool:
            name, described = self._text(func, args, kwargs)
            if not name:
                return False
            here = self._here.__dict__
            node = current_node()
            if node is not here.get("node"):
                self.node_ended()
                if node is not None:
                    if not here.get("asked"):
                        here["asked"] = True
                        # Work of the engine after the last node, such as waiting for an all-reduce, belongs to no node.
                        queue_callback(self.backward_ended)
                    here["node"] = node
                    here["range"] = self._start(_node_text(node))
            # Autograd numbers a node when it creates it, before it calls the operator: numbers assigned since the last
            # operator belong to this operator's node and to views beside it.
            number = sequence_number()
            is_new = number > here.get("sequence", number)
            here["sequence"] = number
            self._push(b"%b, seq = %d%b" % (name, number - 1, described) if is_new else name + described)
            return True

        def backward_ended(self) -> None:
            """The backward on this thread, or its last node, has ended."""
            self._here.__dict__.pop("asked", None)
            self.node_ended()

        def node_ended(self) -> None:
            """An autograd node on this thread has ended; its range has no frame of its own."""
            opened = self._here.__dict__.pop("range", None)
            self._here.__dict__.pop("node", None)
            if opened is not None:
                self._end(opened)

        def _text(self, func: Any, args: Any, kwargs: Any) -> tuple[bytes, bytes]:
            # Steps repeat: the few distinct calls are described once.
            try:
                key = (func, *map(_key, args), *((name, _key(kwargs[name])) for name in kwargs))
                text = self._texts.get(key)
            except TypeError:  # unhashable
                return _name(func), describe(func, args, kwargs)
            if text is None:
                text = self._texts[key] = _name(func), describe(func, args, kwargs)
            return text

    return Operators


def _name(func: Any) -> bytes:
    """The operator's name; empty for ranges of torch's own profiler."""
    name: str = func._schema.name
    return b"" if name.startswith("profiler::") else name.encode("ascii", "replace")


def _node_text(node: Any) -> bytes:
    number = node._sequence_nr()
    name = node.name().encode("ascii", "replace")
    return b"%b, seq = %d" % (name, number) if 0 <= number < _NOT_COUNTED else bytes(name)


def _key(value: Any) -> Any:
    if hasattr(value, "shape"):
        return value.shape, value.dtype
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    return type(value), value


def describe(func: Any, args: Any, kwargs: Any) -> bytes:
    """`, sizes = [[8, 4], []], types = ["float32", "Scalar"], values = ["", "1"]` of a call.

    One entry for each argument of the operator's schema, including defaults, as in torch's own ranges and traces.
    """
    given = [
        args[place]
        if place < len(args)
        else kwargs.get(argument.name, argument.default_value if argument.has_default_value() else None)
        for place, argument in enumerate(func._schema.arguments)
    ]
    sizes, types, values = zip(*map(_described, given), strict=True) if given else ((), (), ())
    text = f", sizes = {json.dumps(sizes)}, types = {json.dumps(types)}"
    if any(values):
        text += f", values = {json.dumps(values)}"
    return text.encode()


def _described(value: Any) -> tuple[Any, str, str]:
    if hasattr(value, "shape"):
        return list(map(int, value.shape)), str(value.dtype).rpartition(".")[2], ""
    if isinstance(value, list | tuple):
        tensors = [item for item in value if hasattr(item, "shape")]
        if tensors:
            return [list(map(int, item.shape)) for item in tensors], "TensorList", ""
        return [], "ScalarList", str(list(value[:_LONGEST_LIST]))
    if isinstance(value, bool | int | float):
        return [], "Scalar", str(value)
    if isinstance(value, str):
        return [], "", value[:_LONGEST_TEXT]
    return [], "", ""
