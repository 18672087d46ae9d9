"""Finds the autograd nodes that a module's forward made, to hook them.

`register_full_backward_hook` would be simpler, but it adds its own node around the module, and a model that changes its
activations in place then raises. Hooks on the nodes themselves change nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepscope.record.targets.around import AroundCalls
from stepscope.record.tensors import tensors_in

_MAX_NODES = 200_000
"""With more nodes, a module's backward is not measured, because half of it would be a wrong number."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes between a module's outputs and inputs: all but accumulation into `.grad`, those of the outputs, and
    those that lead to none of the others. Of the latter two, any may run first or last in backward.
    """

    all: list[Any]
    first: list[Any]
    last: list[Any]


def nodes_between(input_nodes: list[Any], outputs: list[Any], since: int = 0) -> Nodes:
    """Finds the nodes of a module's forward from those of its inputs to its outputs; ones older than `since`, a number
    of autograd's, belong to tensors that it uses without getting them as inputs.
    """
    border = {node for node in input_nodes if node is not None}

    def elsewhere(node: Any) -> bool:
        return node is None or node in border or _accumulates(node) or _number(node) < since

    first = dict.fromkeys(tensor.grad_fn for tensor in outputs if not elsewhere(tensor.grad_fn))
    nodes: dict[Any, None] = dict(first)
    waiting = list(first)
    last = []
    while waiting:
        if len(nodes) > _MAX_NODES:
            return Nodes([], [], [])
        node = waiting.pop()
        ends = True
        for following, _ in node.next_functions:
            if elsewhere(following):
                continue
            ends = False
            if following not in nodes:
                nodes[following] = None
                waiting.append(following)
        if ends:
            last.append(node)
    return Nodes(list(nodes), list(first), last)


def _number(node: Any) -> int:
    number = getattr(node, "_sequence_nr", None)
    return sys.maxsize if number is None else int(number())


def _accumulates(node: Any) -> bool:
    # From its class, because asking the node takes longer than everything else here.
    return type(node).__name__ == "AccumulateGrad"


def node_name(node: Any) -> str:
    """The name of an autograd node, by its class, because a function of the job may have set a `name` on its node."""
    return str(type(node).name(node))


class ForwardCapture(AroundCalls):
    """Calls `made(nodes)` with the nodes of every call of a module, before any backward."""

    def __init__(self, module: Any, callback: Callable[[Nodes], None]) -> None:
        super().__init__(module)
        self._callback = callback

    def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        watch, guard = self._watch, self._guard
        if watch is None or guard is None or watch.resting:
            return call(*args, **kwargs)
        began = guard.ask(_beginning, (args, kwargs))
        output = call(*args, **kwargs)
        if began is not None:
            guard.ask(self._ended, *began, output)
        return output

    def _ended(self, input_nodes: list[Any], since: int, output: Any) -> None:
        if self._guard is not None:
            self._callback(nodes_between(input_nodes, tensors_in(output), since))


def _beginning(given: Any) -> tuple[list[Any], int]:
    """The nodes of the inputs, and the number of autograd's next node."""
    import torch

    number = getattr(torch.autograd, "_get_sequence_nr", None)
    nodes = [tensor.grad_fn for tensor in tensors_in(given, depth=5)]
    return nodes, 0 if number is None else number()
