"""NVTX ranges of what a job does, in words that readers of NVTX here understand: steps, phases, modules, operators.

    ProfilerStep#100                                     a step
    phase: forward                                       also loss, backward, optimizer and input_wait
    nn.Module: layers.0.attn (Attention)                 a module, with its class; `(Net, model)` is the model
    aten::mm, seq = 72, sizes = [[8, 4], [4, 2]], ...    an operator
    MmBackward0, seq = 72                                a node of autograd
    rank 3 of 8, stepscope                               once, before the first step
    settings {"torch": "2.8.0", ...}, stepscope          the same: what every recording of ours keeps of the job
    types of aten::mm, sizes = ..., types = ...          the same, of each distinct call, where ranges have none

What begins and ends in one call is pushed and popped, the rest is started and ended: a step crosses the ranges
that a job has of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from stepscope.record.capture.nvtx import nvtx
from stepscope.record.capture.operators import operator_ranges
from stepscope.record.job.trained_model import ModelSearch
from stepscope.record.settings import settings
from stepscope.record.targets import Target
from stepscope.record.targets.around import Wrapper
from stepscope.record.targets.modules import ModuleForward
from stepscope.record.targets.steps import OptimizerStep, whole_backward
from stepscope.record.traces.module_ranges import ModuleRanges
from stepscope.record.trouble import Guard, warn_once
from stepscope.record.who import Who

_CALLED = {"optimizer.step": "optimizer"}

_writing: list[StepRanges] = []


def _in_child() -> None:
    # A worker that loads data, say: a fork has its parent's hooks.
    for one in _writing:
        one.guard.error = one.guard.error or RuntimeError("recorded by the parent process")


os.register_at_fork(after_in_child=_in_child)


class StepRanges:
    """Writes the ranges, until `end`. It is the watch of the targets that know the phases.

    Args:
        guard: gets what goes wrong.
        found: the model, and the modules that the job itself calls: models and losses.
        types: texts of operators with their types, where their ranges will not have them.

    Raises:
        OSError: there is no NVTX.
    """

    resting = False

    def __init__(self, guard: Guard, found: ModelSearch, types: list[bytes]) -> None:
        self.guard = guard
        self._types = types
        self._nvtx = nvtx()
        self._step: int | None = None
        self._introduced = False
        self._operators = operator_ranges(self._nvtx, guard)
        self._targets: list[Target] = [whole_backward(), OptimizerStep()]
        for root in found.roots:
            trained = root is found.model or next(root.parameters(), None) is not None
            self._targets.append(ModuleForward(root, "forward" if trained else "loss"))
        self._modules = None if found.model is None else ModuleRanges(found.model, self._around)
        _writing.append(self)
        try:
            self._install()
        except BaseException:
            self.end()
            raise

    def _install(self) -> None:
        try:
            self._operators.install()
        except RuntimeError as error:
            warn_once(f"operators get no ranges: {error}")
        if self._modules is not None:
            # Before the phases, which are then around the model's own range.
            self._modules.install(self.guard)
        for target in self._targets:
            target.install(self, self.guard)

    def end(self) -> bool:
        """Writes no more; False where something of it has to stay in the job until a later step."""
        if self in _writing:
            _writing.remove(self)
        self.end_step()
        for target in self._targets:
            target.remove()
        if self._modules is not None:
            self._modules.remove()
        return self._operators.remove()

    def begin_step(self, number: int) -> None:
        """A step starts, and one that runs has ended."""
        self.end_step()
        if not self._introduced:
            self._introduced = True
            self._introduce()
        types, self._types = self._types, []
        for described in types:
            self._nvtx.end(self._nvtx.start(b"types of " + described))
        self._step = self._nvtx.start(b"ProfilerStep#%d" % number)

    def _introduce(self) -> None:
        """Says whose ranges these are. Registered texts are few, and found in a file without a look at all ranges."""
        who = Who().named()
        said = [f"settings {json.dumps(settings())}"]
        if not who.disagreement:
            said.append(f"rank {who.rank} of {who.world_size}")
        for text in said:
            self._nvtx.end(self._nvtx.start_registered(f"{text}, stepscope".encode()))

    def end_step(self) -> None:
        """The running step has ended."""
        if self._step is not None:
            self._nvtx.end(self._step)
            self._step = None

    def open(self, label: str) -> tuple[str, int]:
        """A phase starts."""
        phase = _CALLED.get(label, label)
        return phase, self._nvtx.start(b"phase: " + phase.encode())

    def close(self, token: tuple[str, int]) -> None:
        """It has ended."""
        phase, number = token
        if phase == "backward":
            self._operators.backward_ended()
        self._nvtx.end(number)

    def _around(self, path: str, what: str, guard: Guard) -> Wrapper:
        text = f"nn.Module: {path} ({what})".encode("ascii", "replace")
        push, pop = self._nvtx.push, self._nvtx.pop

        def pushed() -> bool:
            push(text)
            return True

        def call_in_range(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            opened = guard.ask(pushed)
            try:
                return call(*args, **kwargs)
            finally:
                if opened:
                    pop()

        return call_in_range
