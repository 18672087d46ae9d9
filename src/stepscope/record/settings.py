"""The settings of a job that affect its speed, which every recording keeps."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from stepscope.base.environment import may_store_variable
from stepscope.base.ranks import RANK_VARIABLES

_loader: dict[str, Any] = {}
"""The settings of the DataLoader that started last; while a model trains, the one that feeds it."""


def note_loader(batches: Any) -> None:
    """Stores the settings of a DataLoader that starts to yield, given its iterator; other iterators have none."""
    _loader.clear()
    with suppress(Exception):  # the job's own iterators may raise anything
        if not hasattr(batches, "_num_workers"):
            return
        for name in ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory"):
            value = getattr(batches, f"_{name}", None)
            _loader[name] = value if isinstance(value, bool | int) else None


def settings(model: Any = None, *, in_forward: bool = False) -> dict[str, Any]:
    """Returns versions, flags and variables of this process by name; autocast is only known in the model's forward."""
    import torch

    values: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__}
    queries = _queries(torch)
    if in_forward:
        queries["autocast"] = lambda: _autocast(torch, model)
    for name, ask in queries.items():
        # One by one, because versions of torch differ in what they have and what they refuse.
        with suppress(Exception):
            value = ask()
            if value is not None:
                values[name] = value
    values.update(_loader)
    values["environment"] = {
        name: value
        for name, value in sorted(os.environ.items())
        if may_store_variable(name) and name not in RANK_VARIABLES
    }
    return values


def _queries(torch: Any) -> dict[str, Callable[[], Any]]:
    backends = torch.backends
    return {
        "cuda": lambda: torch.version.cuda,
        "hip": lambda: torch.version.hip,
        "cudnn": lambda: backends.cudnn.version() if torch.version.cuda else None,
        "nccl": lambda: ".".join(map(str, torch.cuda.nccl.version())) if torch.version.cuda else None,
        "threads": torch.get_num_threads,
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "cudnn.allow_tf32": lambda: backends.cudnn.allow_tf32,
        "cudnn.benchmark": lambda: backends.cudnn.benchmark,
        "cudnn.deterministic": lambda: backends.cudnn.deterministic,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    }


def _autocast(torch: Any, model: Any) -> str:
    """The type in which autocast computes: `bfloat16`; `off` if it is disabled."""
    parameter = None if model is None else next(model.parameters(), None)
    device = "cpu" if parameter is None else parameter.device.type
    if not torch.is_autocast_enabled(device):
        return "off"
    return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
