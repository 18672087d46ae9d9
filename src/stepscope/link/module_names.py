"""How recordings spell the place of a module in the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModuleName:
    """A module: the names from the root of the model to it, and its class if known."""

    path: tuple[str, ...]
    class_name: str | None
    root: str | None = None


_SCRIPT_CALL = re.compile(r"(?<![^.()])([^.()]+)\(([^()]*)\)::(?:\([^()]*\)|<[^<>]*>|[^.<(])*")
_LIGHTNING = re.compile(r"^\[pl\]\[module\]\s*([\w.]+)\s*:\s*(\S+)$")
_PREFIX = re.compile(r"^(?:module:|nn\.Module:|layer:)\s*(\S+)$")


def model_path(classes: Mapping[str, str]) -> str:
    """The path of the model itself: its class, unless a part of the model has that path.

    Example:
        >>> model_path({"": "train.Net", "fc": "Linear"}), model_path({"": "fc", "fc": "Linear"})
        ('Net', '(fc)')
    """
    name = classes[""].rsplit(".", 1)[-1]
    return f"({name})" if name in classes else name


def hierarchy_module(text: str) -> ModuleName | None:
    """The innermost module of Kineto's `Module Hierarchy`.

    `TOP(Net)::forward.body(Block)::forward.SELF(Block)::call_b.lin(Linear)::forward.` is the module
    `body.lin` of class Linear in the model Net: calls follow one another from the outside, each as
    instance(class)::function, `SELF` stands for the instance before it, and `TOP` for the model,
    whose class is omitted within differentiated graphs.

    Returns:
        the module, with an empty path for the model itself, or None if the text names none.
    """
    path: list[str] = []
    root: str | None = None
    class_name: str | None = None
    for instance, kind in _SCRIPT_CALL.findall(text):
        if instance == "TOP":
            root = class_name = kind or None
        elif instance != "SELF":
            path.append(instance)
            class_name = kind or None
    if not path and root is None:
        return None
    return ModuleName(tuple(path), class_name, root)


def range_module(name: str) -> ModuleName | None:
    """The module that a range names, or None.

    Four styles name one: PyTorch Lightning's `[pl][module]torch.nn.modules.linear.Linear: net.head`,
    `nn.Module: net.head` in StepScope's own recordings, `module:net.head`, and `layer:net.head` as
    PyProf asks for.
    """
    match = _LIGHTNING.match(name)
    if match:
        return ModuleName(tuple(match.group(2).split(".")), match.group(1).rsplit(".", 1)[-1])
    match = _PREFIX.match(name)
    return ModuleName(tuple(match.group(1).split(".")), None) if match else None
