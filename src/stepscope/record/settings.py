"""With what settings a job ran, as far as they bear on its speed: kept with every recording."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from stepscope.floor.environment import is_kept_variable
from stepscope.floor.ranks import RANK_VARIABLES

_loader: dict[str, Any] = {}
"""How batches are loaded, of the DataLoader that started last: while a model trains, the one that feeds it."""


def note_loader(batches: Any) -> None:
    """Keeps the settings of a DataLoader that starts to yield, given its iterator; of any other there are none.

    One without workers has no `prefetch_factor`, which is None then, as in the DataLoader's own arguments.
    """
    _loader.clear()
    with suppress(Exception):  # whatever the job's own iterators do when they are asked
        if not hasattr(batches, "_num_workers"):
            return
        for name in ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory"):
            value = getattr(batches, f"_{name}", None)
            _loader[name] = value if isinstance(value, bool | int) else None


def settings(model: Any = None, *, in_forward: bool = False) -> dict[str, Any]:
    """Versions, flags and variables of this process, by name; what cannot be asked is left out.

    Args:
        model: the model, whose device is the one that autocast is asked of.
        in_forward: whether its forward runs now, in this thread, as it mostly does under autocast; elsewhere
            nothing can be said of that.
    """
    import torch

    found: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__}
    asked = _asked(torch)
    if in_forward:
        asked["autocast"] = lambda: _autocast(torch, model)
    for name, ask in asked.items():
        # Each by itself: what one version of torch has another lacks, or refuses to tell.
        with suppress(Exception):
            value = ask()
            if value is not None:
                found[name] = value
    found.update(_loader)
    found["environment"] = {
        name: value
        for name, value in sorted(os.environ.items())
        if is_kept_variable(name) and name not in RANK_VARIABLES
    }
    return found


def _asked(torch: Any) -> dict[str, Callable[[], Any]]:
    backends = torch.backends
    return {
        "cuda": lambda: torch.version.cuda,
        "hip": lambda: torch.version.hip,
        "cudnn": lambda: backends.cudnn.version() if torch.version.cuda else None,
        "nccl": lambda: _dotted(torch.cuda.nccl.version()) if torch.version.cuda else None,
        "threads": torch.get_num_threads,
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "cudnn.allow_tf32": lambda: backends.cudnn.allow_tf32,
        "cudnn.benchmark": lambda: backends.cudnn.benchmark,
        "cudnn.deterministic": lambda: backends.cudnn.deterministic,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    }


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _autocast(torch: Any, model: Any) -> str:
    """The type that autocast computes in: `bfloat16`; `off` where it is not on."""
    parameter = None if model is None else next(model.parameters(), None)
    device = "cpu" if parameter is None else parameter.device.type
    if not torch.is_autocast_enabled(device):
        return "off"
    return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
