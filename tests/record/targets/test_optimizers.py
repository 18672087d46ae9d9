"""Optimizers' steps are heard in every torch, also after something was compiled."""

from typing import Any

import pytest
from tests.processes import python

from stepscope.record.targets import optimizers
from stepscope.record.targets.optimizers import OptimizerSteps

pytestmark = pytest.mark.torch

# In a process of its own: a torch takes its hooks off once per process.
COMPILED = """
import sys, torch
from stepscope.record.targets.optimizers import OptimizerSteps

heard = []
steps = OptimizerSteps(
    lambda optimizer, *_: heard.append("before"), lambda optimizer, *_: heard.append("after")
)
if sys.argv[1] == "before":
    steps.install()
weight = torch.nn.Parameter(torch.ones(2))
used = torch.optim.SGD([weight], lr=0.1)
weight.grad = torch.ones(2)
torch.compile(lambda x: x, backend="eager")(weight)
new = torch.optim.Adam([weight], lr=0.1)
if sys.argv[1] == "after":
    steps.install()
used.step()
new.step()
steps.remove()
new.step()
steps.install()
used.step()
steps.remove()
assert heard == ["before", "after"] * 3, heard
"""


@pytest.mark.sweep(2)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_step_is_heard_once_also_after_something_was_compiled(when: str) -> None:
    done = python("-c", COMPILED, when)
    assert done.returncode == 0, done.stderr


def test_a_class_that_torch_calls_no_hooks_for_is_heard_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    class Plain(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return closure

    class Above(Plain):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    deaf: Any = Plain.step
    deaf.hooked = True
    monkeypatch.setattr(torch.optim, "Plain", Plain, raising=False)
    optimizer = Plain([torch.ones(1)], lr=0.1)
    above = Above([torch.ones(1)], lr=0.1)
    heard: list[tuple[str, Any]] = []
    steps = OptimizerSteps(
        lambda one, args, _: heard.append(("before", one)), lambda one, args, _: heard.append(("after", one))
    )
    assert optimizer.step("given") == "given"
    for _ in range(2):
        steps.install()
        optimizers._put_in()
        assert optimizer.step("given") == "given"
        assert above.step("given") == "given"
        steps.remove()
        assert Plain.step is deaf
    each = [("before", optimizer), ("after", optimizer), ("before", above), ("after", above)]
    assert heard == each * 2
    assert above.step("given") == "given"
    assert len(heard) == 8
