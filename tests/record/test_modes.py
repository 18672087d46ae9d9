"""What hears operators leaves no mode of torch behind, and no part of the compiler switched off."""

from typing import Any

import pytest
from tests.processes import python

from stepscope.record.plan import plan_from
from stepscope.record.targets.find import Finder
from stepscope.record.targets.operators import OperatorsInBackward, OperatorsInForward, compiles_under_modes
from stepscope.record.trouble import Guard

from .small_job import batches, make_model, train

pytestmark = pytest.mark.torch


class _Deaf:
    resting = False

    def open(self, label: str) -> str:
        return label

    def close(self, token: str) -> None:
        pass


def test_two_modes_around_one_node_are_left_in_turn() -> None:
    """Left out of turn, torch thinks that one is still on, and 2.6 then compiles nothing any more."""
    from torch.utils import _python_dispatch as dispatch

    model, guard = make_model(), Guard("test")
    whole = OperatorsInBackward(model, "backward", None)
    part = OperatorsInBackward(model[0], "0.backward", None)
    for target in (whole, part):
        target.install(_Deaf(), guard)
    train(model, batches(1))
    for target in (whole, part):
        target.remove()
    assert not guard.tripped
    assert dispatch._get_current_dispatch_mode() is None
    assert not getattr(dispatch, "_is_in_torch_dispatch_mode", False)


def test_compiled_code_stays_compiled_while_operators_around_it_are_heard() -> None:
    """With a mode on, torch compiles nothing, and with fullgraph=True it raises, in the user's job."""
    import torch

    if not compiles_under_modes():
        pytest.skip("this torch compiles nothing while a mode is on")
    compiled = 0

    def backend(graph: Any, _inputs: Any) -> Any:
        nonlocal compiled
        compiled += 1
        return graph.forward

    @torch.compile(backend=backend, fullgraph=True)
    def double(x: Any) -> Any:
        return 2 * x

    class Halves(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return double(x).neg()

    class Notes(_Deaf):
        def __init__(self) -> None:
            self.labels: list[str] = []

        def open(self, label: str) -> str:
            self.labels.append(label)
            return label

    model, notes = Halves(), Notes()
    target = OperatorsInForward(model, "forward", None)
    target.install(notes, Guard("test"))
    model(torch.ones(2))
    target.remove()
    model(torch.ones(2))
    assert compiled == 1
    assert notes.labels[-1] == "forward.aten::neg"


def test_operators_of_a_module_with_compiled_parts_are_refused_by_an_older_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stepscope.record.targets.find.compiles_under_modes", lambda: False)
    model = make_model()
    model[0].compile(backend="eager")
    finder = Finder(model, (), None)
    (entry,) = plan_from({"events": ["forward.aten::relu_"]}).entries
    assert finder.everything(plan_from({"events": ["forward.aten::relu_"]})) == []
    assert "compiled" in (finder.not_measurable(entry) or "")
    assert len(finder.everything(plan_from({"events": ["2.forward.aten::addmm"]}))) == 1


@pytest.mark.long
def test_regions_ask_the_compiler_also_when_they_were_imported_before_torch() -> None:
    """Without its answer compiled code would look at who listens, and be compiled again for each."""
    code = """
    import sys
    from stepscope.record import annotate
    from stepscope.record.compiling import compiling_check, never
    assert "torch" not in sys.modules and annotate._is_compiling is never
    import torch
    assert annotate._is_compiling is compiling_check() is not never
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    done = python("-c", lines)
    assert done.returncode == 0, done.stderr
