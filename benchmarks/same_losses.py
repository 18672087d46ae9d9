"""Whether a job that is recorded computes what it computes alone: every loss and the exit code, in every way to record.

The jobs are short forms of what people train: a GPT with accumulated gradients and batches made in the loop (as
nanoGPT), a variational autoencoder, an LSTM language model, a polynomial regression, a Lightning trainer,
the Trainer of transformers, DDP over gloo, torch.compile, workers that a script spawns, folds of a cross-validation, and a
job that fails. Each prints its losses as hexadecimal numbers, alone and in each way, and the two are compared.

    python benchmarks/same_losses.py [JOB ...] [--way WAY ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PLAN = 'warmup = 2\nrepetitions = 3\nevents = ["input_wait", "forward", "backward", "optimizer.step"]\n'
WAYS: dict[str, list[str]] = {
    "default": [],
    "phases": ["--phases"],
    "trace": ["--trace", "--stack", "--memory"],
    "inline": ["--inline", "PLAN"],
    "inline and trace": ["--inline", "PLAN", "--trace"],
    "on demand": ["--on-demand", "OUT/trigger"],
    "sample": ["--sample"],
    "nvtx": ["--nvtx"],
}
_PATIENCE_SECONDS = 600
_EXIT_CODE = 3
_JOB = "SAME_LOSSES_JOB"
"""The job that a process is: torchrun takes options of its script for its own."""


def told(loss: Any) -> None:
    """Prints a loss with all of its bits."""
    print("loss", float(getattr(loss, "detach", lambda: loss)()).hex(), flush=True)


def gpt() -> None:
    """As nanoGPT: four micro-batches a step, clipping, a schedule of its own."""
    import torch
    from torch import nn

    torch.manual_seed(1337)
    text = torch.randint(0, 64, (4096,))
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.1)
    model = nn.ModuleDict(
        {"wte": nn.Embedding(64, 32), "h": nn.TransformerEncoder(layer, 2), "head": nn.Linear(32, 64)}
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mask = nn.Transformer.generate_square_subsequent_mask(16)

    def get_batch() -> tuple[Any, Any]:
        at = torch.randint(len(text) - 17, (8,))
        return torch.stack([text[i : i + 16] for i in at]), torch.stack([text[i + 1 : i + 17] for i in at])

    for step in range(12):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (step + 1) / 12
        for _ in range(4):
            x, y = get_batch()
            logits = model["head"](model["h"](model["wte"](x), mask=mask))
            loss = nn.functional.cross_entropy(logits.view(-1, 64), y.view(-1)) / 4
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        told(loss)


def vae() -> None:
    """Two heads, a sampled latent, a loader with workers."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    encoder, decoder = nn.Linear(64, 16), nn.Sequential(nn.Linear(8, 64), nn.Sigmoid())
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
    loader = DataLoader(TensorDataset(torch.rand(256, 64)), batch_size=16, shuffle=True, num_workers=2)
    for _ in range(2):
        for (x,) in loader:
            mean, spread = encoder(x).chunk(2, dim=1)
            out = decoder(mean + torch.randn_like(mean) * (spread / 2).exp())
            kl = -0.5 * (1 + spread - mean.square() - spread.exp()).sum()
            loss = nn.functional.binary_cross_entropy(out, x, reduction="sum") + kl
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            told(loss)


def lstm() -> None:
    """A hidden state that is kept from batch to batch, and plain SGD by hand beside an optimizer's."""
    import torch
    from torch import nn

    torch.manual_seed(1111)
    embed, rnn, head = nn.Embedding(50, 24), nn.LSTM(24, 24, 2, dropout=0.2), nn.Linear(24, 50)
    parameters = [*embed.parameters(), *rnn.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    text = torch.randint(0, 50, (200, 10))
    hidden = None
    for at in range(0, 190, 10):
        hidden = None if hidden is None else tuple(one.detach() for one in hidden)
        out, hidden = rnn(embed(text[at : at + 10]), hidden)
        loss = nn.functional.cross_entropy(head(out).view(-1, 50), text[at + 1 : at + 11].view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told(loss)


def regression() -> None:
    """One layer, steps of microseconds, updates by hand and none of an optimizer's after the first half."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(300):
        x = torch.randn(32, 1)
        loss = torch.nn.functional.smooth_l1_loss(model(x ** torch.arange(1, 5)), x.pow(3))
        model.zero_grad()
        loss.backward()
        if step < 150:
            optimizer.step()
        else:
            for one in model.parameters():
                one.data.add_(one.grad, alpha=-0.05)
        told(loss)


def lightning() -> None:
    """A module, a validation within the epoch, checkpoints."""
    import lightning.pytorch as pl
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def training_step(self, batch: Any, _index: int) -> Any:
            loss = self.layer(batch[0]).square().mean()
            told(loss)
            return loss

        def validation_step(self, batch: Any, _index: int) -> None:
            told(self.layer(batch[0]).sum())

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    pl.seed_everything(0, verbose=False)
    loader = DataLoader(TensorDataset(torch.randn(48, 8)), batch_size=2)
    with tempfile.TemporaryDirectory() as root:
        pl.Trainer(
            accelerator="cpu", devices=1, max_epochs=2, val_check_interval=12, logger=False, default_root_dir=root,
            enable_progress_bar=False, enable_model_summary=False, accumulate_grad_batches=2,
        ).fit(Net(), loader, loader)  # fmt: skip


def trainer() -> None:
    """The Trainer of transformers, with accumulation, an evaluation and checkpoints."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    data = [{"input_ids": torch.arange(i, i + 8) % 32} for i in range(48)]
    data = [{**one, "labels": one["input_ids"]} for one in data]
    with tempfile.TemporaryDirectory() as root:
        arguments = TrainingArguments(
            output_dir=root, per_device_train_batch_size=2, num_train_epochs=1, logging_steps=1, report_to=[],
            disable_tqdm=True, use_cpu=True, gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=6,
        )  # fmt: skip
        job = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:4])
        job.train()
    for entry in job.state.log_history:
        if "loss" in entry:
            told(entry["loss"])


def ddp() -> None:
    """Two ranks over gloo, of which rank 0 tells the losses. The launcher is torchrun."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(16):
        loss = model(torch.randn(16, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            told(loss)
    dist.barrier()  # or one closes connections that the other still reads
    dist.destroy_process_group()


def compiled() -> None:
    """torch.compile, with the backend that needs no compiler."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    compiled_model = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(16):
        loss = compiled_model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told(loss)


def _worker(number: int, losses: Any) -> None:
    import torch

    torch.manual_seed(number)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    losses.put((number, loss.item()))


def spawned() -> None:
    """Two workers of torch.multiprocessing, beside a script that trains nothing itself."""
    import torch.multiprocessing as mp

    losses = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_worker, (losses,), nprocs=2)
    for _, loss in sorted(losses.get() for _ in range(2)):
        told(loss)


def folds() -> None:
    """A model and an optimizer for each fold of a cross-validation."""
    import torch

    for fold in range(3):
        torch.manual_seed(fold)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(30):
            loss = model(torch.randn(8, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            told(loss)


def fails() -> None:
    """A job that leaves by `os._exit` after some steps, with a code of its own."""
    regression()
    os._exit(_EXIT_CODE)


JOBS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        gpt, vae, lstm, regression, lightning, trainer, ddp, compiled, spawned, folds, fails,
    )
}  # fmt: skip


def ran(job: str, way: list[str] | None, out: Path) -> tuple[int, list[str], str]:
    """Exit code, losses and what was printed beside them, of a job alone (None) or recorded."""
    options = [one.replace("PLAN", str(out / "plan.toml")).replace("OUT", str(out)) for one in way or ()]
    (out / "plan.toml").write_text(PLAN)
    command = [sys.executable]
    if way is not None:
        command += ["-m", "stepscope", "record", *options, "-o", str(out), "--no-summary", "--"]
    if job == "ddp":
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                   "--no-python", *command]  # fmt: skip
    done = subprocess.run(
        [*command, __file__],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_SECONDS,
        env=os.environ | {"OMP_NUM_THREADS": "1", "STEPSCOPE_PROGRESS": "0", _JOB: job},
        check=False,
    )
    lines = done.stdout.splitlines()
    return done.returncode, [one for one in lines if one.startswith("loss ")], done.stderr


def compared(job: str, ways: list[str]) -> Iterator[tuple[str, str]]:
    """Each way, and what is different in it: nothing, as a rule."""
    with tempfile.TemporaryDirectory() as folder:
        code, losses, said = ran(job, None, Path(folder))
    if not losses:
        yield "alone", f"no losses (exit code {code}): {said[-300:]}"
        return
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            found, others, said = ran(job, WAYS[way], Path(folder))
        told_of = [line for line in said.splitlines() if "RecordingWarning" in line]
        different = [] if others == losses else [f"{len(others)} losses of {len(losses)}, not the same"]
        different += [] if found == code else [f"exit code {found}, alone {code}"]
        yield (
            way,
            "; ".join(different + told_of) if different else f"the same {len(losses)} losses, exit code {code}",
        )


def main() -> None:
    """Compares the jobs that are asked for, or is one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}")
    parser.add_argument("--way", action="append", choices=WAYS)
    if _JOB in os.environ:
        JOBS[os.environ[_JOB]]()
        return
    asked = parser.parse_args()
    failed = 0
    for job in asked.jobs or JOBS:
        for way, result in compared(job, asked.way or list(WAYS)):
            failed += not result.startswith("the same")
            print(f"{job:12} {way:18} {result}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
