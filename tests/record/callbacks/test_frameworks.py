"""The callbacks in real trainers: Lightning's, that of Hugging Face with a tiny model, and a loop with Accelerate."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..two_ranks import torchrun
from . import trainers
from .faults import FAULTS, break_it
from .framework import need
from .options import EVERY_OPTION, kept_by
from .reading import micro_steps_by_step, module_ranges, ranges

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

PACKAGES = {
    "lightning": ("lightning.pytorch",),
    "transformers": ("transformers", "accelerate"),
    "accelerate": ("accelerate",),
}
JOBS = Path(__file__).with_name("jobs")


def _trainer(framework: str) -> Callable[..., trainers.Trained]:
    """Its training, imported by the process that runs it: collecting that of all processes takes seconds."""
    for package in PACKAGES[framework]:
        need(package)
    train: Callable[..., trainers.Trained] = getattr(trainers, framework)
    return train


@pytest.mark.parametrize(
    ("framework", "module"), [("lightning", "layer"), ("transformers", "transformer.h.0.attn"), ("accelerate", "0")]
)
def test_micro_steps_are_told_apart_from_optimizer_steps(framework: str, module: str, tmp_path: Path) -> None:
    train = _trainer(framework)
    expected, _ = train(tmp_path / "off", None, 3)
    losses, (path,) = train(tmp_path, {"steps": 2}, 3)
    assert losses == expected
    assert path.name == "job-0-of-1.json.gz"
    assert micro_steps_by_step(path) == {"ProfilerStep#2": 3, "ProfilerStep#3": 3}
    assert f"nn.Module: {module}" in module_ranges(path)
    if framework == "lightning":
        hooks = {event["name"] for event in ranges(path)}
        assert {"[Strategy]SingleDeviceStrategy.training_step", "run_training_batch"} <= hooks
        assert "[LightningModule]Small.on_train_batch_end" in hooks
        assert not [name for name in hooks if "StepScope" in name]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("framework", PACKAGES)
def test_two_processes_over_gloo_record_the_same_steps(framework: str, tmp_path: Path) -> None:
    """As torchrun starts them: two steps of two micro-steps each, with phases."""
    _trainer(framework)
    done = torchrun(JOBS / f"with_{framework}.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        path = tmp_path / f"two-{rank}-of-2.json.gz"
        assert micro_steps_by_step(path) == {"ProfilerStep#2": 2, "ProfilerStep#3": 2}
    assert len(list(tmp_path.glob("*.phases.json"))) == 2


@pytest.mark.parametrize("where", FAULTS)
@pytest.mark.parametrize("framework", PACKAGES)
def test_a_fault_of_ours_does_not_reach_the_trainer(
    framework: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = _trainer(framework)
    expected, _ = train(tmp_path / "off", None, 2)
    break_it(where, monkeypatch)
    losses, _ = train(tmp_path, {"steps": 2, "phases": True, "trigger": tmp_path / "trigger"}, 2)
    assert losses == expected


@pytest.mark.parametrize("framework", PACKAGES)
def test_the_options_are_those_of_all_callbacks(framework: str) -> None:
    _trainer(framework)
    module = importlib.import_module(f"stepscope.record.callbacks.{framework}")
    callback = (
        module.StepScopeSteps(None, "out", **EVERY_OPTION)
        if framework == "accelerate"
        else module.StepScopeCallback("out", **EVERY_OPTION)
    )
    assert kept_by(callback.recordings) == EVERY_OPTION


def test_a_resumed_run_keeps_its_true_step_numbers_with_lightning(tmp_path: Path) -> None:
    train = _trainer("lightning")
    train(tmp_path, None, max_steps=5, max_epochs=-1)
    _, (path,) = train(tmp_path, {"steps": 1}, resume=tmp_path / "half.ckpt", max_steps=12, max_epochs=-1)
    assert list(micro_steps_by_step(path)) == ["ProfilerStep#7"]


def test_a_resumed_run_keeps_its_true_step_numbers_with_transformers(tmp_path: Path) -> None:
    train = _trainer("transformers")
    train(tmp_path, None, save_strategy="steps", save_steps=10)
    _, (path,) = train(tmp_path, {"steps": 1}, resume=str(tmp_path / "hf" / "checkpoint-10"))
    assert list(micro_steps_by_step(path)) == ["ProfilerStep#12"]


def test_a_resumed_run_keeps_its_true_step_numbers_with_accelerate(tmp_path: Path) -> None:
    _, (path,) = _trainer("accelerate")(tmp_path, {"steps": 1, "start_step": 700}, 2)
    assert list(micro_steps_by_step(path)) == ["ProfilerStep#702"]


def test_phases_leave_out_steps_with_a_validation_of_lightning(tmp_path: Path) -> None:
    train = _trainer("lightning")
    _, (path,) = train(tmp_path, {"steps": 0, "phases": True}, max_epochs=2, limit_val_batches=2, val_check_interval=6)
    summary = json.loads(path.read_text())
    assert summary["phases"]["forward"]["mean_ns"] > 0
    assert summary["phases"]["input_wait"]["mean_ns"] > 0
    counted = {row[0] for row in summary["step_samples"]}
    # A validation follows every sixth step, and so lies in the time of the one after it.
    assert {7, 11, 13, 17} <= counted
    assert not {6, 12, 18, 24, 30} & counted


@pytest.mark.parametrize(
    ("framework", "more"), [("transformers", {"eval_strategy": "steps", "eval_steps": 6}), ("accelerate", {})]
)
def test_phases_of_the_complete_run(framework: str, more: dict[str, Any], tmp_path: Path) -> None:
    _, (path,) = _trainer(framework)(tmp_path, {"steps": 0, "phases": True}, **more)
    summary = json.loads(path.read_text())
    for name in ("input_wait", "forward", "backward", "optimizer"):
        assert summary["phases"][name]["mean_ns"] > 0


def test_an_exception_in_training_is_the_jobs_and_the_trace_is_kept(tmp_path: Path) -> None:
    train = _trainer("lightning")
    module = trainers.lightning_module()
    original = module.training_step

    def training_step(batch: Any, batch_idx: int) -> Any:
        if batch_idx == 4:
            raise ValueError("the job's own")
        return original(batch, batch_idx)

    module.training_step = training_step
    with pytest.raises(ValueError, match="the job's own"):
        train(tmp_path, {"steps": 5}, module=module)
    (path,) = (tmp_path / "out").iterdir()
    assert list(micro_steps_by_step(path))[:2] == ["ProfilerStep#2", "ProfilerStep#3"]


def test_a_rank_that_is_not_chosen_writes_nothing(tmp_path: Path) -> None:
    assert _trainer("accelerate")(tmp_path, {"steps": 2, "ranks": "5"}).written == []


def test_a_plan_is_measured_and_a_bad_one_costs_one_warning_and_nothing_else(tmp_path: Path) -> None:
    train = _trainer("accelerate")
    plan = {"warmup": 1, "repetitions": 2, "events": ["forward", "optimizer.step"]}
    expected, (profile,) = train(tmp_path / "good", {"steps": 0, "plan": plan})
    assert json.loads(profile.read_text())["complete"] is True
    with pytest.warns(RuntimeWarning, match="training goes on without inline recording"):
        losses, paths = train(tmp_path / "bad", {"steps": 1, "plan": {"event": ["forward"]}})
    assert losses == expected
    assert len(paths) == 1
