"""Finds what must be installed in a model to observe a plan's labels."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from stepscope.base.known_names import did_you_mean
from stepscope.record.clock import HOST, Clock, clock_for
from stepscope.record.labels import NAMED, Label, parse_label, pattern
from stepscope.record.plan import Entry, Plan
from stepscope.record.targets import Target
from stepscope.record.targets.around import ModuleForward, is_compiled
from stepscope.record.targets.backward import ModuleBackward, NodeBackward
from stepscope.record.targets.copies import Copies, HostToDevice
from stepscope.record.targets.operators import OperatorsInBackward, OperatorsInForward, compiles_under_modes
from stepscope.record.targets.steps import OptimizerStep, collective, collectives, full_backward, zero_grad

_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_flat_param_wrapped_module")
_HOST_WITH_DEVICE = Clock(stream=-1)
_PARALLEL = ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine")


@dataclass(frozen=True, slots=True)
class FoundModule:
    """A module and, if it is inside compiled code, the path of the compiled module."""

    module: Any
    compiled_by: str | None


def module_paths(root: Any) -> dict[str, FoundModule]:
    """Modules by path, as the model's author knows them: without the wrappers of DDP, FSDP and compile.

    The root has the path "". If a wrapper and the wrapped module have the same path, it refers to the wrapper, because
    that is called.
    """
    paths: dict[str, FoundModule] = {}
    parents: dict[str, tuple[str, bool, str | None]] = {}
    for raw, module in root.named_modules():  # parents come before their children
        above, _, name = raw.rpartition(".")
        path, is_parallel, compiled_by = parents[above] if raw else ("", False, None)
        if not (name in _WRAPPERS or (name == "module" and is_parallel)):
            path = f"{path}.{name}".lstrip(".")
        paths.setdefault(path, FoundModule(module, compiled_by))
        if compiled_by is None and is_compiled(module):
            compiled_by = path
        parents[raw] = (path, type(module).__name__ in _PARALLEL, compiled_by)
    return paths


def unwrapped(module: Any) -> Any:
    """The author's own module inside the wrappers of DDP, FSDP and compile."""
    while True:
        inside = _WRAPPERS + (("module",) if type(module).__name__ in _PARALLEL else ())
        inner = next((part for name, part in module.named_children() if name in inside), None)
        if inner is None:
            return module
        module = inner


class Finder:
    """Makes targets for one job, with `zero_grad` of these optimizers, and copies if there is a device."""

    def __init__(self, model: Any, optimizers: Iterable[Any], copies: Copies | None) -> None:
        self.modules: dict[str, FoundModule] = {} if model is None else module_paths(model)
        self.copies = copies
        self._model = model
        self._optimizers = list(optimizers)
        self._clock_on = functools.cache(clock_for)

    def everything(self, plan: Plan) -> list[Target]:
        labels: dict[tuple[str, ...], Label] = {}
        for entry in plan.entries:
            label = entry.label
            if label.kind in ("module", "operator", "node"):
                for path in self._paths(label):
                    if self.modules[path].compiled_by is None:
                        labels.setdefault((label.kind, str(label.direction), path), label)
            else:
                labels.setdefault((label.kind, label.text), label)
        targets = []
        for key, label in labels.items():
            target = self._target(label, path=key[-1], everything=True)
            if target is not None:
                targets.append(target)
        return targets

    def armed(self, label: Label) -> Target | None:
        """The target for one label without wildcards; None for a region."""
        return self._target(label, path=label.module or "", everything=False)

    def not_measurable(self, entry: Entry) -> str | None:
        label = entry.label
        if label.kind == "collective" and label.name not in collectives():
            return f"torch.distributed has no {label.name} ({did_you_mean(str(label.name), collectives())})"
        if label.kind not in ("module", "operator", "node"):
            return None
        if not self.modules:
            return "no model was found; name it: inline.start(..., model=model)"
        paths = self._paths(label)
        if not paths:
            labels = [f"{path}.{label.direction}".lstrip(".") for path in self.modules]
            hint = did_you_mean(f"{label.module}.{label.direction}", labels)
            which = "that matches " if label.has_wildcard else ""
            return f'the model has no module {which}"{label.module}" ({hint})'
        inside = {self.modules[path].compiled_by for path in paths}
        if None not in inside:
            boundary = sorted(text for text in inside if text is not None)[0]
            name = f"{boundary}.{label.direction}".lstrip(".")
            return (
                f"torch.compile has merged it into the code of its parent; "
                f'a compiled module is measured at its boundary: "{name}"'
            )
        if label.kind != "module" and is_compiled(self.modules[paths[0]].module):
            return "operators inside compiled code have no calls of their own; take a trace"
        if label.kind == "operator" and not any(self._operators_observable(path) for path in paths):
            return "a part of it is compiled, which this torch would not run while it is listened to"
        return None

    def _operators_observable(self, path: str) -> bool:
        """Whether operators in a module can be observed while its compiled code stays compiled."""
        if is_compiled(self.modules[path].module):
            return False
        return compiles_under_modes() or not any(
            is_compiled(found_module.module)
            for below, found_module in self.modules.items()
            if not path or below.startswith(f"{path}.")
        )

    def device_of(self, label: Label) -> Any:
        """The device of a label's module, or of the model; None if neither has one."""
        path = label.module or ""
        while True:
            found_module = self.modules.get(path)
            if found_module is not None:
                tensor = next(chain(found_module.module.parameters(), found_module.module.buffers()), None)
                if tensor is not None:
                    return tensor.device
            if not path:
                return None
            # A module without tensors of its own works where its neighbours do.
            path = path.rpartition(".")[0]

    def clock_of(self, label: str) -> Clock:
        """The clock of a label: input waits use the host's; everything else the device of the label's module."""
        if label != "input_wait":
            return self._clock_on(self.device_of(parse_label(label)))
        return HOST if self.clock_of("forward").kind == "host" else _HOST_WITH_DEVICE

    def _paths(self, label: Label) -> list[str]:
        expression = pattern(label.module or "")
        # "backward" is the complete backward, which includes that of the outermost module.
        is_backward = label.kind == "module" and label.direction == "backward"
        return [path for path in self.modules if expression.fullmatch(path) and not (is_backward and path == "")]

    def _target(self, label: Label, path: str, *, everything: bool) -> Target | None:
        if label.kind in ("module", "operator", "node"):
            found_module = self.modules.get(path)
            if found_module is None or found_module.compiled_by is not None:
                return None
            prefix = f"{path}.{label.direction}".lstrip(".")
            only = None if everything else label.name
            if label.kind == "operator":
                if not self._operators_observable(path):
                    return None
                if label.direction == "forward":
                    return OperatorsInForward(found_module.module, prefix, only)
                return OperatorsInBackward(found_module.module, prefix, only)
            if label.kind == "node":
                return NodeBackward(found_module.module, prefix, only)
            if label.direction == "forward":
                return ModuleForward(found_module.module, prefix)
            return ModuleBackward(found_module.module, prefix)
        if label.kind == "backward":
            return full_backward()
        if label.kind == "collective":
            return collective(label.name) if label.name in collectives() else None
        if label.text == "optimizer.step":
            return OptimizerStep()
        if label.text == "zero_grad":
            owners = [*self._optimizers, *([self._model] if self._model is not None else [])]
            return zero_grad(owners)
        if label.text == "host_to_device":
            return None if self.copies is None else HostToDevice(self.copies)
        return None


def why_not_seen(entry: Entry, finder: Finder, seen: Iterable[str]) -> str:
    """Explains why the observed iteration did not run an entry."""
    why = finder.not_measurable(entry)
    if why is not None:
        return why
    label = entry.label
    if label.text == "host_to_device":
        return "nothing was copied to a device with tensor.to or tensor.cuda"
    if label.kind == "collective":
        return "the job did not call it, or did not wait for it (DDP's own are inside backward)"
    if label.text in NAMED or label.kind in ("backward", "module"):
        return "it did not run in the observed iteration"
    near = did_you_mean(label.text, [*NAMED, "forward", "backward", *seen])
    return f"nothing of this name ran in the observed iteration ({near})"
