"""Observes a module's backward and single autograd nodes, with hooks on the nodes that its forward made."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from stepscope.record.targets import Target
from stepscope.record.targets.graph import ForwardCapture, Nodes, node_name
from stepscope.record.targets.watch import Watch
from stepscope.record.trouble import Guard


def backward_number() -> Callable[[], int]:
    """torch's function for the number of this thread's running backward; -1 without one."""
    import torch

    return torch._C._current_graph_task_id


class NodeHooks(Target):
    """Hooks on the autograd nodes that a module's forward makes, while a watch is set."""

    def __init__(self, module: Any) -> None:
        self._capture = ForwardCapture(module, self._hook)
        self._handles: list[Any] = []
        self._watch: Watch | None = None
        self._guard: Guard | None = None

    def install(self, watch: Watch, guard: Guard) -> None:
        self._watch, self._guard = watch, guard
        self._capture.install(watch, guard)

    def reset(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def remove(self) -> None:
        self._capture.remove()
        self._watch = None
        self.reset()

    @abstractmethod
    def _hook(self, nodes: Nodes) -> None:
        """Hooks the nodes of one forward."""


class ModuleBackward(NodeHooks):
    """The backward of one module: from the gradient of its outputs to those of its inputs and parameters.

    Accumulation into `.grad` is not included.
    """

    def __init__(self, module: Any, label: str) -> None:
        super().__init__(module)
        self._label = label

    def _hook(self, nodes: Nodes) -> None:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None:
            return
        task = backward_number()
        # Start and end are paired per call, because a module may run several times; and each backward counts by itself
        # if a job backpropagates through a retained graph again.
        opened: dict[int, Any] = {}

        def before(_gradients: Any) -> None:
            number = task()
            if number not in opened:
                opened[number] = watch.open(self._label)

        def after(_inputs: Any, _outputs: Any) -> None:
            token = opened.get(task())
            if token is not None:
                watch.close(token)

        self._handles += [node.register_prehook(guard.wrap(before)) for node in nodes.first]
        self._handles += [node.register_hook(guard.wrap(after)) for node in nodes.last]


class NodeBackward(NodeHooks):
    """The autograd nodes of one module called `wanted`, such as `AddmmBackward0`, or all, as `<prefix>.<node>`."""

    def __init__(self, module: Any, prefix: str, only: str | None) -> None:
        super().__init__(module)
        self._prefix = prefix
        self._only = only

    def _hook(self, nodes: Nodes) -> None:
        for node in nodes.all:
            name = node_name(node).rsplit("::", 1)[-1]
            if self._only is None or name == self._only:
                self._hook_one(node, f"{self._prefix}.{name}")

    def _hook_one(self, node: Any, label: str) -> None:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None:
            return
        opened: list[Any] = []

        def before(_gradients: Any) -> None:
            opened.append(watch.open(label))

        def after(_inputs: Any, _outputs: Any) -> None:
            if opened:
                watch.close(opened.pop())

        self._handles.append(node.register_prehook(guard.wrap(before)))
        self._handles.append(node.register_hook(guard.wrap(after)))
