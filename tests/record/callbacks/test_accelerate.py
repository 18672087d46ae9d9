"""A loop with the real Accelerate."""

import json
from pathlib import Path
from typing import Any

import pytest

from ..small_job import make_model, untouched
from .faults import FAULTS, break_it
from .framework import needs
from .options import EVERY_OPTION, kept_by
from .reading import micro_steps_by_step, module_ranges
from .two import train_in_two

frameworks = needs("accelerate")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def _train(tmp_path: Path, accumulate: int, **options: Any) -> tuple[list[float], list[Path]]:
    import torch
    from accelerate import Accelerator

    from stepscope.record.callbacks.accelerate import StepScopeSteps

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    data = torch.randn(48, 8, generator=torch.Generator().manual_seed(1))
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    recording = StepScopeSteps(accelerator, tmp_path, name="acc", model=model, **options)
    with recording:
        for batch in recording.steps(loader):
            with accelerator.accumulate(model):
                loss = model(batch).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
    assert untouched(accelerator.unwrap_model(model))
    return losses, recording.recordings.written


def test_micro_steps_are_told_apart_from_optimizer_steps(tmp_path: Path) -> None:
    expected, _ = _train(tmp_path / "off", 3, steps=0)
    losses, (path,) = _train(tmp_path, 3, steps=2)
    assert losses == expected
    assert path.name == "acc-0-of-1.json.gz"
    assert micro_steps_by_step(path) == {"ProfilerStep#2": 3, "ProfilerStep#3": 3}
    assert "nn.Module: 0" in module_ranges(path)


def test_a_resumed_run_keeps_its_true_step_numbers(tmp_path: Path) -> None:
    _, (path,) = _train(tmp_path, 2, steps=1, start_step=700)
    assert list(micro_steps_by_step(path)) == ["ProfilerStep#702"]


def test_a_rank_that_is_not_chosen_writes_nothing(tmp_path: Path) -> None:
    assert _train(tmp_path, 1, steps=2, ranks="5")[1] == []


def test_phases_and_a_plan(tmp_path: Path) -> None:
    plan = {"warmup": 1, "repetitions": 2, "events": ["forward", "optimizer.step"]}
    _, paths = _train(tmp_path, 1, steps=0, plan=plan, phases=True)
    profile, phases = sorted(paths, key=lambda path: "phases" in path.name)
    assert json.loads(profile.read_text())["complete"] is True
    for name in ("input_wait", "forward", "backward", "optimizer"):
        assert json.loads(phases.read_text())["phases"][name]["mean_ns"] > 0


def test_a_bad_plan_costs_one_warning_and_nothing_else(tmp_path: Path) -> None:
    expected, _ = _train(tmp_path / "off", 1, steps=0)
    with pytest.warns(RuntimeWarning, match="training goes on without inline recording"):
        losses, paths = _train(tmp_path, 1, steps=1, plan={"event": ["forward"]})
    assert losses == expected
    assert len(paths) == 1


def test_two_processes_over_gloo_record_the_same_steps(tmp_path: Path) -> None:
    train_in_two("with_accelerate", tmp_path)


@pytest.mark.parametrize("where", FAULTS)
def test_a_fault_of_ours_does_not_reach_the_loop(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = _train(tmp_path / "off", 2, steps=0)
    break_it(where, monkeypatch)
    losses, _ = _train(tmp_path, 2, steps=2, phases=True, trigger=tmp_path / "trigger")
    assert losses == expected


def test_the_options_are_those_of_all_callbacks() -> None:
    from stepscope.record.callbacks.accelerate import StepScopeSteps

    assert kept_by(StepScopeSteps(None, "out", **EVERY_OPTION).recordings) == EVERY_OPTION
