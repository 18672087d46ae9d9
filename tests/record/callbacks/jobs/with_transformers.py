"""A job of Hugging Face's Trainer for two processes: `with_transformers.py OUT`."""

import sys
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from stepscope.record.callbacks.transformers import StepScopeCallback

out = Path(sys.argv[1])
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=1))
tokens = [torch.arange(first, first + 8) % 32 for first in range(48)]
arguments = TrainingArguments(
    output_dir=str(out / "checkpoints"),
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    num_train_epochs=1,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    use_cpu=True,
    ddp_backend="gloo",
)
assert arguments.world_size == 2
Trainer(
    model,
    arguments,
    train_dataset=[{"input_ids": one, "labels": one} for one in tokens],
    callbacks=[StepScopeCallback(out, steps=2, phases=True, name="two")],
).train()
