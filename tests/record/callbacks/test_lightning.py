"""The callback in a real Lightning trainer."""

import json
from pathlib import Path
from typing import Any

import pytest

from ..small_job import untouched
from .faults import FAULTS, break_it
from .framework import needs
from .options import EVERY_OPTION, kept_by
from .reading import micro_steps_by_step, module_ranges, ranges
from .two import train_in_two

frameworks = needs("lightning.pytorch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def _module() -> Any:
    import lightning.pytorch as pl
    import torch

    class Small(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)
            self.losses: list[float] = []

        def training_step(self, batch: Any, _index: int) -> Any:
            loss = self.layer(batch[0]).square().mean()
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch: Any, _index: int) -> Any:
            return self.layer(batch[0]).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    pl.seed_everything(0, verbose=False)
    return Small()


def _loader() -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = torch.randn(48, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(data), batch_size=2)


def _fit(tmp_path: Path, options: dict[str, Any] | None, resume: Any = None, **more: Any) -> Any:
    import lightning.pytorch as pl

    from stepscope.record.callbacks.lightning import StepScopeCallback

    callbacks = [] if options is None else [StepScopeCallback(tmp_path / "out", name="pl", **options)]
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        default_root_dir=tmp_path,
        callbacks=callbacks,
        **{"max_epochs": 1, **more},
    )
    module = _module()
    validation = {"val_dataloaders": _loader()} if "limit_val_batches" in more else {}
    trainer.fit(module, _loader(), ckpt_path=resume, **validation)
    assert "profile" not in vars(trainer.profiler)
    assert untouched(module)
    if resume is None and "max_steps" in more:
        trainer.save_checkpoint(tmp_path / "half.ckpt")
    return module, (callbacks[0].recordings.written if callbacks else [])


def test_micro_steps_are_told_apart_from_optimizer_steps(tmp_path: Path) -> None:
    plain, _ = _fit(tmp_path, None, accumulate_grad_batches=3)
    module, (path,) = _fit(tmp_path, {"steps": 2}, accumulate_grad_batches=3)
    assert module.losses == plain.losses
    assert path.name == "pl-0-of-1.json.gz"
    assert micro_steps_by_step(path) == {"ProfilerStep#2": 3, "ProfilerStep#3": 3}
    assert "nn.Module: layer" in module_ranges(path)
    hooks = {one["name"] for one in ranges(path)}
    assert {"[Strategy]SingleDeviceStrategy.training_step", "run_training_batch"} <= hooks
    assert "[LightningModule]Small.on_train_batch_end" in hooks
    assert not [name for name in hooks if "StepScope" in name]


def test_a_resumed_run_keeps_its_true_step_numbers(tmp_path: Path) -> None:
    _fit(tmp_path, None, max_steps=5, max_epochs=-1)
    _, (path,) = _fit(tmp_path, {"steps": 1}, tmp_path / "half.ckpt", max_steps=12, max_epochs=-1)
    assert list(micro_steps_by_step(path)) == ["ProfilerStep#7"]


def test_phases_of_the_whole_run_leave_out_steps_with_a_validation(tmp_path: Path) -> None:
    _, (path,) = _fit(tmp_path, {"steps": 0, "phases": True}, max_epochs=2, limit_val_batches=2, val_check_interval=6)
    summary = json.loads(path.read_text())
    assert summary["phases"]["forward"]["mean_ns"] > 0
    assert summary["phases"]["input_wait"]["mean_ns"] > 0
    counted = {row[0] for row in summary["step_samples"]}
    # A validation follows every sixth step, and so lies in the time of the one after it.
    assert {7, 11, 13, 17} <= counted
    assert not {6, 12, 18, 24, 30} & counted


def test_an_exception_in_training_is_the_jobs_and_the_trace_is_kept(tmp_path: Path) -> None:
    import lightning.pytorch as pl

    from stepscope.record.callbacks.lightning import StepScopeCallback

    callback = StepScopeCallback(tmp_path, name="pl", steps=5)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        callbacks=[callback],
        max_epochs=1,
    )
    module = _module()
    original = module.training_step

    def training_step(batch: Any, batch_idx: int) -> Any:
        if batch_idx == 4:
            raise ValueError("the job's own")
        return original(batch, batch_idx)

    module.training_step = training_step
    with pytest.raises(ValueError, match="the job's own"):
        trainer.fit(module, _loader())
    (path,) = callback.recordings.written
    assert list(micro_steps_by_step(path))[:2] == ["ProfilerStep#2", "ProfilerStep#3"]


def test_two_processes_over_gloo_record_the_same_steps(tmp_path: Path) -> None:
    train_in_two("with_lightning", tmp_path)


@pytest.mark.parametrize("where", FAULTS)
def test_a_fault_of_ours_does_not_reach_the_trainer(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = _fit(tmp_path, None, accumulate_grad_batches=2)
    break_it(where, monkeypatch)
    options = {"steps": 2, "phases": True, "trigger": tmp_path / "trigger"}
    module, _ = _fit(tmp_path, options, accumulate_grad_batches=2)
    assert module.losses == plain.losses


def test_the_options_are_those_of_all_callbacks() -> None:
    from stepscope.record.callbacks.lightning import StepScopeCallback

    assert kept_by(StepScopeCallback("out", **EVERY_OPTION).recordings) == EVERY_OPTION
