"""A Lightning job for two processes: `with_lightning.py OUT`."""

import sys
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from stepscope.record.callbacks.lightning import StepScopeCallback


class Small(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def training_step(self, batch: Any, _index: int) -> Any:
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = pl.Trainer(
    accelerator="cpu",
    devices=2,
    strategy="ddp",
    max_epochs=1,
    accumulate_grad_batches=2,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    enable_checkpointing=False,
    callbacks=[StepScopeCallback(sys.argv[1], steps=2, phases=True, name="two")],
)
assert trainer.world_size == 2
trainer.fit(Small(), DataLoader(TensorDataset(torch.randn(48, 8)), batch_size=2))
