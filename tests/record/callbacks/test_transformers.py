"""The callback in the real Trainer of Hugging Face, with a tiny model made from a configuration."""

import json
from pathlib import Path
from typing import Any

import pytest

from ..small_job import untouched
from .faults import FAULTS, break_it
from .framework import needs
from .options import EVERY_OPTION, kept_by
from .reading import micro_steps_by_step, module_ranges
from .two import train_in_two

frameworks = needs("transformers", "accelerate")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def _train(
    tmp_path: Path, options: dict[str, Any] | None, resume: Any = None, **more: Any
) -> tuple[list[float], list[Path]]:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    from stepscope.record.callbacks.transformers import StepScopeCallback

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    data = [{"input_ids": torch.arange(i, i + 8) % 32} for i in range(48)]
    data = [{**one, "labels": one["input_ids"]} for one in data]
    callbacks = [] if options is None else [StepScopeCallback(tmp_path / "out", name="hf", **options)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "hf"),
        per_device_train_batch_size=2,
        num_train_epochs=1,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **more,
    )
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:4], callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume)
    assert untouched(model)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return losses, callbacks[0].recordings.written if callbacks else []


def test_micro_steps_are_told_apart_from_optimizer_steps(tmp_path: Path) -> None:
    options = {"gradient_accumulation_steps": 3, "save_strategy": "no"}
    expected, _ = _train(tmp_path, None, **options)
    losses, (path,) = _train(tmp_path, {"steps": 2}, **options)
    assert losses == expected
    assert path.name == "hf-0-of-1.json.gz"
    assert micro_steps_by_step(path) == {"ProfilerStep#2": 3, "ProfilerStep#3": 3}
    assert "nn.Module: transformer.h.0.attn" in module_ranges(path)


def test_a_resumed_run_keeps_its_true_step_numbers(tmp_path: Path) -> None:
    _train(tmp_path, None, save_strategy="steps", save_steps=10)
    checkpoint = str(tmp_path / "hf" / "checkpoint-10")
    _, (path,) = _train(tmp_path, {"steps": 1}, checkpoint, save_strategy="no")
    assert list(micro_steps_by_step(path)) == ["ProfilerStep#12"]


def test_phases_of_the_whole_run(tmp_path: Path) -> None:
    _, (path,) = _train(tmp_path, {"steps": 0, "phases": True}, save_strategy="no", eval_strategy="steps", eval_steps=6)
    summary = json.loads(path.read_text())
    for name in ("input_wait", "forward", "backward", "optimizer"):
        assert summary["phases"][name]["mean_ns"] > 0


def test_two_processes_over_gloo_record_the_same_steps(tmp_path: Path) -> None:
    train_in_two("with_transformers", tmp_path)


@pytest.mark.parametrize("where", FAULTS)
def test_a_fault_of_ours_does_not_reach_the_trainer(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"gradient_accumulation_steps": 2, "save_strategy": "no"}
    expected, _ = _train(tmp_path, None, **more)
    break_it(where, monkeypatch)
    options = {"steps": 2, "phases": True, "trigger": tmp_path / "trigger"}
    losses, _ = _train(tmp_path, options, **more)
    assert losses == expected


def test_the_options_are_those_of_all_callbacks() -> None:
    from stepscope.record.callbacks.transformers import StepScopeCallback

    assert kept_by(StepScopeCallback("out", **EVERY_OPTION).recordings) == EVERY_OPTION
