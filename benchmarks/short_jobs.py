"""Short forms of common trainings, for `same_losses.py`, which runs them alone and recorded.

Each prints its losses as hexadecimal numbers. The variable `SAME_LOSSES_JOB` selects the job, because torchrun
interprets options of its script as its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

JOB = "SAME_LOSSES_JOB"
_EXIT_CODE = 3


def told(loss: Any) -> None:
    """Prints a loss with all its bits."""
    print("loss", float(getattr(loss, "detach", lambda: loss)()).hex(), flush=True)


def gpt() -> None:
    """Like nanoGPT: four micro-batches per step, clipping, its own schedule."""
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
    """A hidden state kept between batches, and plain SGD by hand beside an optimizer."""
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
    """One layer, steps of microseconds, updates by hand and none by an optimizer after the first half."""
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
    """Two ranks over gloo, of which rank 0 prints the losses. The launcher is torchrun."""
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
    dist.barrier()  # otherwise one closes connections that the other still uses
    dist.destroy_process_group()


def compiled() -> None:
    """torch.compile, with a backend that needs no compiler."""
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
    """A job that exits by `os._exit` after some steps, with its own code."""
    regression()
    os._exit(_EXIT_CODE)


def reinforcement() -> None:
    """An actor and a critic with a replay buffer: an environment's step, then three updates of two optimizers each."""
    import torch
    from torch import nn

    torch.manual_seed(7)
    draw = random.Random(7)  # noqa: S311 - a game, no secret
    actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    critic, target = (nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)) for _ in range(2))
    target.load_state_dict(critic.state_dict())
    of_actor, of_critic = (torch.optim.Adam(one.parameters(), lr=1e-2) for one in (actor, critic))
    replay: deque[tuple[list[float], int, float, list[float]]] = deque(maxlen=200)
    state = [0.0] * 4
    for step in range(40):
        with torch.no_grad():
            action = int(torch.distributions.Categorical(logits=actor(torch.tensor(state))).sample())
        following = [0.9 * one + draw.gauss(0.1 if action else -0.1, 0.05) for one in state]
        replay.append((state, action, -abs(sum(following)), following))
        state = following if abs(sum(following)) < 2 else [0.0] * 4
        if len(replay) < 8:
            continue
        for _ in range(3):
            old, chosen, reward, new = zip(*draw.sample(list(replay), 8), strict=True)
            with torch.no_grad():
                wanted = torch.tensor(reward) + 0.9 * target(torch.tensor(new)).max(dim=1).values
            values = critic(torch.tensor(old)).gather(1, torch.tensor(chosen)[:, None])[:, 0]
            loss = nn.functional.smooth_l1_loss(values, wanted)
            of_critic.zero_grad()
            loss.backward()
            of_critic.step()
            told(loss)
            policy = torch.log_softmax(actor(torch.tensor(old)), dim=1)
            loss = -(policy.exp() * critic(torch.tensor(old)).detach()).sum(dim=1).mean()
            of_actor.zero_grad()
            loss.backward()
            of_actor.step()
            told(loss)
        if step % 10 == 0:
            target.load_state_dict(critic.state_dict())


def adversarial() -> None:
    """A generator that steps once for every three steps of its critic, with a penalty on gradients of gradients."""
    import torch
    from torch import nn

    torch.manual_seed(5)
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    critic = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(), nn.Linear(16, 1))
    of_generator, of_critic = (torch.optim.RMSprop(one.parameters(), lr=1e-3) for one in (generator, critic))
    for _ in range(10):
        for _ in range(3):
            real, made = torch.randn(8, 8), generator(torch.randn(8, 4)).detach().requires_grad_()
            scores = critic(made)
            (slope,) = torch.autograd.grad(scores.sum(), made, create_graph=True)
            loss = scores.mean() - critic(real).mean() + (slope.norm(dim=1) - 1).square().mean()
            of_critic.zero_grad()
            loss.backward()
            of_critic.step()
            told(loss)
        loss = -critic(generator(torch.randn(8, 4))).mean()
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()
        told(loss)


def epochs() -> None:
    """A validation after each epoch, a schedule, the best weights saved and loaded, and a model that continues from
    them."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset, random_split

    torch.manual_seed(3)
    training, validation = random_split(TensorDataset(torch.randn(80, 6), torch.randn(80, 1)), [64, 16])
    model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.Dropout(0.2), nn.GELU(), nn.Linear(12, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=48)
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "best.pt"
        for _ in range(6):
            model.train()
            for x, y in DataLoader(training, batch_size=8, shuffle=True):
                loss = nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                told(loss)
            model.eval()
            with torch.no_grad():
                validated = sum(nn.functional.mse_loss(model(x), y) for x, y in DataLoader(validation, batch_size=8))
            told(validated)
            if float(validated) < best:
                best = float(validated)
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, kept)
        state = torch.load(kept)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        with torch.no_grad():
            told(model(validation[0][0][None]))


def checkpointed() -> None:
    """Activations recomputed in backward, in both of torch's ways, with dropout, whose random numbers must repeat."""
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(9)
    blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Tanh()) for _ in range(4)])
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1)
    for step in range(24):
        x = torch.randn(4, 8, requires_grad=True)
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=step % 2 == 0)
        loss = x.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told(loss)


def fullgraph() -> None:
    """A module compiled without graph breaks, for changing shapes."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            return self.second(torch.nn.functional.gelu(self.first(x)))

    torch.manual_seed(0)
    model = Net()
    model.compile(backend="aot_eager", fullgraph=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for number in range(20):
        loss = model(torch.randn(4 + number % 3, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told(loss)


def graph_breaks() -> None:
    """A module whose compiled code has graph breaks: at a print, at a data-dependent branch, at a call into Python."""
    import torch

    class Broken(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            torch._dynamo.graph_break()
            if x.sum() > 0:
                x = x * 2
            return self.second(torch.relu(x))

    torch.manual_seed(0)
    model = Broken()
    compiled_model = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        loss = compiled_model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told(loss)


def lightning_profiled() -> None:
    """Lightning with each of its own profilers, one of which is torch's."""
    import lightning.pytorch as pl
    import torch
    from lightning.pytorch.profilers import AdvancedProfiler, PyTorchProfiler, SimpleProfiler
    from torch.utils.data import DataLoader, TensorDataset

    class Net(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)

        def training_step(self, batch: Any, _index: int) -> Any:
            loss = self.layer(batch[0]).square().mean()
            told(loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters())

    pl.seed_everything(0, verbose=False)
    loader = DataLoader(TensorDataset(torch.randn(48, 8)), batch_size=2)
    with tempfile.TemporaryDirectory() as root:
        for profiler in (SimpleProfiler, AdvancedProfiler, PyTorchProfiler):
            pl.Trainer(
                accelerator="cpu", devices=1, max_epochs=1, logger=False, default_root_dir=root, enable_progress_bar=False,
                enable_model_summary=False, enable_checkpointing=False, profiler=profiler(dirpath=root, filename="profile"),
            ).fit(Net(), loader)  # fmt: skip


def trainer_profiled() -> None:
    """The Trainer of transformers with a callback that drives its own torch.profiler with a schedule."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    class Profiled(TrainerCallback):  # type: ignore[misc] - where transformers is not installed
        def __init__(self, profiler: Any) -> None:
            self.profiler = profiler

        def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
            self.profiler.step()

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    data = [{"input_ids": torch.arange(i, i + 8) % 32, "labels": torch.arange(i, i + 8) % 32} for i in range(48)]
    seen = []
    with tempfile.TemporaryDirectory() as root:
        arguments = TrainingArguments(
            output_dir=root, per_device_train_batch_size=2, num_train_epochs=1, logging_steps=1, report_to=[],
            disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        with torch.profiler.profile(
            schedule=torch.profiler.schedule(wait=4, warmup=1, active=3, repeat=2),
            on_trace_ready=lambda found: seen.append(len(found.events())),
        ) as profiler:
            job = Trainer(model, arguments, train_dataset=data, callbacks=[Profiled(profiler)])
            job.train()
    for entry in job.state.log_history:
        if "loss" in entry:
            told(entry["loss"])
    told(len(seen))


def arguments() -> None:
    """A module of a package with options named like ours, including --, and a subcommand's own options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--phases", type=int, required=True)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("-o", "--out", required=True)
    parser.add_argument("--inline", nargs="?", const="yes")
    parser.add_argument("rest", nargs="*")
    given = parser.parse_args()
    print("loss", sys.argv[1:], __name__, given)
    import torch

    torch.manual_seed(given.phases)
    model = torch.nn.Linear(4, len(given.rest))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        loss = model(torch.randn(4, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told(loss)


def wanders() -> None:
    """Changes its directory, which is then deleted, redirects its stdout, starts children and threads, and exits with a
    text."""
    import threading

    import torch

    torch.manual_seed(2)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stdout = sys.stdout
    with tempfile.TemporaryDirectory() as away:
        os.chdir(away)
    for step in range(24):
        loss = model(torch.randn(4, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with contextlib.redirect_stdout(sys.stderr):
            print("step", step)
        print("loss", float(loss.detach()).hex(), file=stdout, flush=True)
        if step % 8 == 3:
            child = subprocess.run(
                [sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True, cwd="/"
            )
            told(int(child.stdout))
            if not os.fork():
                sys.stdout = sys.stderr
                os._exit(0)
            told(os.wait()[1])
            worker = threading.Thread(target=lambda: told(torch.ones(3).sum()))
            worker.start()
            worker.join()
    sys.stdout.flush()
    os.dup2(2, 1)
    print("not for stdout")
    sys.exit("ends with a text")


def raises() -> None:
    """A job that fails in the middle, because of its data."""
    steps = 0
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    while True:
        loss = model(torch.randn(8, 4 if steps < 25 else 5)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told(loss)
        steps += 1


JOBS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        gpt, vae, lstm, regression, lightning, trainer, ddp, compiled, spawned, folds, fails, reinforcement, adversarial, epochs,
        checkpointed, fullgraph, graph_breaks, lightning_profiled, trainer_profiled, arguments, wanders, raises,
    )
}  # fmt: skip

if __name__ == "__main__":
    JOBS[os.environ[JOB]]()
