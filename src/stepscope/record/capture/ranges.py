"""Writes NVTX ranges for steps, phases, modules and operators, named so that readers of NVTX here understand them.

    ProfilerStep#100                                     a step
    phase: forward                                       also loss, backward, optimizer and input_wait
    nn.Module: layers.0.attn (Attention)                 a module, with its class; `(Net, model)` is the model
    aten::mm, seq = 72, sizes = [[8, 4], [4, 2]], ...    an operator
    MmBackward0, seq = 72                                a node of autograd
    rank 3 of 8, stepscope                               once, before the first step
    settings {"torch": "2.8.0", ...}, stepscope          the same: what every recording of ours keeps of the job
    types of aten::mm, sizes = ..., types = ...          the same, of each distinct call, where ranges have none

Ranges within one call are pushed and popped; others are started and ended, because a step may cross the job's own
ranges.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stepscope.base.step_phases import PHASE_OF_EVENT
from stepscope.record.capture.nvtx import nvtx
from stepscope.record.capture.operators import operator_ranges
from stepscope.record.job.trained_model import ModelSearch
from stepscope.record.output import Who
from stepscope.record.settings import settings
from stepscope.record.targets import Target
from stepscope.record.targets.around import ModuleForward, Wrapper
from stepscope.record.targets.steps import OptimizerStep, full_backward
from stepscope.record.traces.module_ranges import ModuleRanges
from stepscope.record.trouble import Guard, warn_once


class StepRanges:
    """Writes the ranges until `end`; the watch of the targets that know the phases. OSError without NVTX."""

    resting = False

    def __init__(self, guard: Guard, search: ModelSearch, types: list[bytes]) -> None:
        self.guard = guard
        self._types = types
        self._nvtx = nvtx()
        self._step: int | None = None
        self._introduced = False
        self._operators = operator_ranges(self._nvtx, guard)
        self._targets: list[Target] = [full_backward(), OptimizerStep()]
        for root in search.roots:
            trained = root is search.model or next(root.parameters(), None) is not None
            self._targets.append(ModuleForward(root, "forward" if trained else "loss"))
        self._modules = None if search.model is None else ModuleRanges(search.model, self._around)
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
            # Before the phases, so that they enclose the model's own range.
            self._modules.install(self.guard)
        for target in self._targets:
            target.install(self, self.guard)

    def end(self) -> bool:
        """Stops writing; False if part of it must stay in the job until a later step."""
        self.end_step()
        for target in self._targets:
            target.remove()
        if self._modules is not None:
            self._modules.remove()
        return self._operators.remove()

    def start_step(self, number: int) -> None:
        self.end_step()
        if not self._introduced:
            self._introduced = True
            self._introduce()
        types, self._types = self._types, []
        for described in types:
            self._nvtx.end(self._nvtx.start(b"types of " + described))
        self._step = self._nvtx.start(b"ProfilerStep#%d" % number)

    def _introduce(self) -> None:
        """Identifies the writer, for readers, by a registered text, of which there are few."""
        who = Who().named()
        texts = [f"settings {json.dumps(settings())}"]
        if not who.disagreement:
            texts.append(f"rank {who.rank} of {who.world_size}")
        for text in texts:
            self._nvtx.end(self._nvtx.start_registered(f"{text}, stepscope".encode()))

    def end_step(self) -> None:
        if self._step is not None:
            self._nvtx.end(self._step)
            self._step = None

    def open(self, label: str) -> tuple[str, int]:
        phase = PHASE_OF_EVENT.get(label, label)
        return phase, self._nvtx.start(b"phase: " + phase.encode())

    def close(self, token: tuple[str, int]) -> None:
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
