"""A small training in each framework, with and without the callback: `train(out, options, ...)`.

Each returns the losses, the recorded files and the model. `options` are those of the callback, None for none; 48 samples
make 24 batches, of which `accumulate` make a step.
"""

from pathlib import Path
from typing import Any, NamedTuple

from ..small_job import make_model, untouched


class Trained(NamedTuple):
    losses: list[float]
    written: list[Path]


def lightning_module() -> Any:
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


def _batches() -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = torch.randn(48, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(data), batch_size=2)


def lightning(
    out: Path, options: dict[str, Any] | None, accumulate: int = 1, resume: Any = None, module: Any = None, **more: Any
) -> Trained:
    import lightning.pytorch as pl

    from stepscope.record.callbacks.lightning import StepScopeCallback

    callbacks = [] if options is None else [StepScopeCallback(out / "out", name="job", **options)]
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        default_root_dir=out,
        callbacks=callbacks,
        accumulate_grad_batches=accumulate,
        **{"max_epochs": 1, **more},
    )
    module = module or lightning_module()
    validation = {"val_dataloaders": _batches()} if "limit_val_batches" in more else {}
    trainer.fit(module, _batches(), ckpt_path=resume, **validation)
    assert "profile" not in vars(trainer.profiler)
    assert untouched(module)
    if resume is None and "max_steps" in more:
        trainer.save_checkpoint(out / "half.ckpt")
    return Trained(module.losses, callbacks[0].recordings.written if callbacks else [])


def transformers(
    out: Path, options: dict[str, Any] | None, accumulate: int = 1, resume: Any = None, **more: Any
) -> Trained:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    from stepscope.record.callbacks.transformers import StepScopeCallback

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    data = [{name: torch.arange(i, i + 8) % 32 for name in ("input_ids", "labels")} for i in range(48)]
    callbacks = [] if options is None else [StepScopeCallback(out / "out", name="job", **options)]
    arguments = TrainingArguments(
        output_dir=str(out / "hf"),
        per_device_train_batch_size=2,
        num_train_epochs=1,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        gradient_accumulation_steps=accumulate,
        **{"save_strategy": "no", **more},
    )
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:4], callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume)
    assert untouched(model)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return Trained(losses, callbacks[0].recordings.written if callbacks else [])


def accelerate(out: Path, options: dict[str, Any] | None, accumulate: int = 1) -> Trained:
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
    options = {"steps": 0} if options is None else options
    with StepScopeSteps(accelerator, out / "out", name="job", model=model, **options) as recording:
        for batch in recording.steps(loader):
            with accelerator.accumulate(model):
                loss = model(batch).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
    assert untouched(accelerator.unwrap_model(model))
    return Trained(losses, recording.recordings.written)
