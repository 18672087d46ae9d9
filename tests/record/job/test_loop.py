"""Iterations are found where no optimizer's step is heard, and nothing is compiled again for it."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.processes import python

from stepscope.record import inline
from stepscope.record.job import loop
from stepscope.record.script import run
from stepscope.record.trouble import RecordingWarning

pytestmark = pytest.mark.torch

COMPILED = """
import sys, torch, torch._dynamo
from stepscope.record import inline
from stepscope.record.job.loop import UNHEARD, LoopFinder
from stepscope.record.targets.optimizers import why_unheard

torch._dynamo.config.error_on_recompile = True
session = inline.new_session(None, out=sys.argv[1])
session.start(lead_in=True)
finder = LoopFinder(session)
finder.install()
assert why_unheard() == "there is no optimizer of torch's"
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.Adam(model.parameters())
assert why_unheard() == ""

@torch.compile(backend="eager")
def train_step(batch):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()

for number in range(UNHEARD + 40):
    train_step(torch.ones(2, 8))
    if number % 3 == 0:  # as where few steps are timed
        session._listeners.pause()
session.stop()
finder.remove()
train_step(torch.ones(2, 8))
assert not hasattr(torch.Tensor.backward, "__wrapped__")
"""

AUTO = """
import torch
model = torch.nn.Linear(8, 4)
for _ in range(56):
    loss = model(torch.ones(2, 8)).square().mean()
    loss.backward()
    with torch.no_grad():
        for one in model.parameters():
            one -= 0.1 * one.grad
            one.grad = None
"""

ACCUMULATES = """
import torch
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(400):
    model(torch.ones(2, 8)).square().mean().backward()
    if number % 40 == 39:
        optimizer.step()
        optimizer.zero_grad()
"""


def _summary(out: Path) -> dict[str, Any]:
    (path,) = out.glob("*.phases.json")
    summary: dict[str, Any] = json.loads(path.read_text())
    return summary


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Runs a script, recorded, and gives its phases."""

    def record(script: str) -> dict[str, Any]:
        path = tmp_path / "job.py"
        path.write_text(script)
        run([str(path)], partial(inline.new_session, None, out=tmp_path / "out"))
        return _summary(tmp_path / "out")

    return record


@pytest.mark.long
def test_a_step_that_is_compiled_is_compiled_once_and_the_backward_ends_the_iteration(tmp_path: Path) -> None:
    done = python("-c", COMPILED, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "the optimizer steps in compiled code" in done.stderr
    assert "`with stepscope.inline.iteration():` around each" in done.stderr
    summary = _summary(tmp_path)
    assert summary["steps"] == 40
    assert summary["phases"]["backward"]["mean_ns"] > 0
    assert summary["phases"]["optimizer"] is None


def test_without_an_optimizer_of_torchs_the_backward_ends_the_iteration(
    recorded: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests have made optimizers in this process.
    monkeypatch.setattr(loop, "why_unheard", lambda: "there is none")
    with pytest.warns(RecordingWarning, match="there is none: an iteration is taken to end where a backward returns"):
        summary = recorded(AUTO)
    assert summary["steps"] == 40
    assert summary["phases"]["forward"]["mean_ns"] > 0


def test_many_backwards_before_a_step_are_one_iteration(recorded: Callable[[str], dict[str, Any]]) -> None:
    summary = recorded(ACCUMULATES)
    assert summary["steps"] == 8  # of 10: the first is not heard, and the last begins nothing new
