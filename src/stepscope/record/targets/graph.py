"""The autograd nodes that a module's forward has made, and hooks on them.

`register_full_backward_hook` would be simpler, but it puts a node of its own around the module, and
a model that changes its activations in place then raises. Hooks on the nodes themselves change
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_MOST_NODES = 20_000


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes between a module's outputs and inputs.

    Args:
        all: every node, without the accumulation into `.grad`, which belongs to the parameters.
        first: those of the outputs, one of which runs first in backward.
        last: those with none of the others behind them, one of which runs last.
    """

    all: list[Any]
    first: list[Any]
    last: list[Any]


def nodes_between(input_nodes: list[Any], outputs: list[Any]) -> Nodes:
    """The nodes of a module's forward, from its input tensors' nodes and its output tensors."""
    border = {node for node in input_nodes if node is not None}
    first = []
    for tensor in outputs:
        node = tensor.grad_fn
        if node is not None and node not in border and node not in first:
            first.append(node)
    found: dict[Any, None] = dict.fromkeys(first)
    waiting = list(first)
    last = []
    while waiting and len(found) < _MOST_NODES:
        node = waiting.pop()
        ends = True
        for behind, _ in node.next_functions:
            if behind is None or behind in border or _accumulates(behind):
                continue
            ends = False
            if behind not in found:
                found[behind] = None
                waiting.append(behind)
        if ends:
            last.append(node)
    return Nodes(list(found), first, last)


def _accumulates(node: Any) -> bool:
    return str(node.name()).endswith("AccumulateGrad")


class ForwardCapture:
    """Calls `made(nodes)` with the nodes of every call of a module.

    Args:
        module: the module.
        made: gets the nodes right after each forward, before any backward.
    """

    def __init__(self, module: Any, made: Callable[[Nodes], None]) -> None:
        self._module = module
        self._made = made
        self._handles: list[Any] = []
        self._inputs: list[list[Any]] = []

    def install(self, wrap: Callable[[Callable[..., Any]], Callable[..., None]]) -> None:
        """Hooks the module; `wrap` keeps exceptions in."""
        from stepscope.record.targets.modules import tensors_in

        self._inputs.clear()

        def begins(_module: Any, args: Any, kwargs: Any) -> None:
            given = tensors_in(args) + tensors_in(kwargs)
            self._inputs.append([tensor.grad_fn for tensor in given])

        def ends(_module: Any, _args: Any, output: Any) -> None:
            if self._inputs:
                self._made(nodes_between(self._inputs.pop(), tensors_in(output)))

        register = self._module.register_forward_pre_hook
        self._handles = [
            register(wrap(begins), with_kwargs=True),
            self._module.register_forward_hook(wrap(ends)),
        ]

    def remove(self) -> None:
        """Takes the hooks out and lets go of the nodes."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._inputs.clear()
