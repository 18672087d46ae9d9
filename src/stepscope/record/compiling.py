"""Keeps our hooks out of code that torch.compile traces, and our operators out of the job's dispatch modes.

The compiler follows our calls too and cannot trace clocks: a hook inside a compiled function would split its graph, or
raise with `fullgraph=True`. So a hook first asks `torch.compiler.is_compiling()`, which leaves nothing in the code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any


def never() -> bool:
    """The answer before torch is imported, and without a function to ask."""
    return False


def compiling_check() -> Callable[[], bool]:
    """Returns torch's function that tells whether it is tracing; `never` while torch is not imported."""
    torch: Any = sys.modules.get("torch")
    # In the first versions with torch.compiler the function is only in another module.
    for place in ("compiler", "_utils"):
        check: Callable[[], bool] | None = getattr(getattr(torch, place, None), "is_compiling", None)
        if check is not None:
            return check
    return never


def run_as_it_is(function: Any) -> None:
    """Keeps torch from compiling a function of ours that is called at a graph break, such as a backward.

    Compiled, it would observe nothing. Functions that it calls are still compiled, unless they are `apart`.
    """
    # As torch does it, without importing its compiler. If a version lacks this, less is observed.
    with suppress(AttributeError, TypeError):
        frames = _frames()
        if hasattr(frames, "skip_code"):
            frames.skip_code(function.__code__)
        else:
            action = frames._FrameAction
            skipped = frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
            frames.set_code_exec_strategy(function.__code__, skipped)


def apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps torch from compiling a function and all that it calls, wherever it is called."""
    try:
        set_callback = _frames().set_eval_frame
    except AttributeError:
        return function

    def run(*args: Any) -> Any:
        before = set_callback(None)
        try:
            return function(*args)
        finally:
            set_callback(before)

    run_as_it_is(run)
    return run


def _frames() -> Any:
    return sys.modules["torch"]._C._dynamo.eval_frame


def hidden_from_modes(tensor: Any = None) -> AbstractContextManager[Any]:
    """Hides operators that we call in this context, in this thread, from dispatch modes of the job.

    Those of a `tensor` of a subclass are not hidden, because it may dispatch them itself.
    """
    torch: Any = sys.modules.get("torch")
    guard = getattr(getattr(torch, "_C", None), "_DisableTorchDispatch", None)
    if guard is None or (tensor is not None and type(tensor) not in (torch.Tensor, torch.nn.Parameter)):
        return nullcontext()
    hidden: AbstractContextManager[Any] = guard()
    return hidden


def has_compiled() -> bool:
    """Whether torch has compiled anything in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return any(any(counters.get(kind, {}).values()) for kind in ("frames", "stats"))


def capturing_check() -> Callable[[], bool]:
    """Returns a function that tells whether the current CUDA stream is being captured into a graph.

    During capture nothing may be recorded, queried or waited for, because the capture would fail. `never` for a torch
    without CUDA and ROCm.
    """
    torch: Any = sys.modules.get("torch")
    version, cuda = getattr(torch, "version", None), getattr(torch, "cuda", None)
    if cuda is not None and not (getattr(version, "cuda", None) or getattr(version, "hip", None)):
        return never
    return _capturing_now


def _capturing_now() -> bool:
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return bool(cuda is not None and cuda.is_initialized() and cuda.is_current_stream_capturing())
