"""A small language model trained here, measured inline and traced: the recordings `demo` shows.

torch is imported when the training starts, so that the command line works without it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import StepScopeError, UsageError

if TYPE_CHECKING:
    import torch

VOCABULARY = 1024
TOKENS = 96
BATCH = 8
WIDTH = 192
HEADS = 4
LAYERS = 3
CHARACTERS = 250
"""Per token: enough work for the data loader that the wait for it shows beside a small model's step."""
PLAN = {
    "warmup": 2,
    "repetitions": 3,
    "unarmed_every": 0,
    "events": ["input_wait", "forward", "blocks.0.attention.forward", "backward"],
}
"""Few repetitions of few events: a demonstration, not a measurement to go by."""
MOST_INLINE_SECONDS = 6.0


@dataclass(frozen=True)
class Recorded:
    """What the training left.

    Args:
        path: the trace.
        inline: the inline measurements; None when they could not be written.
        device: the device it ran on, as torch names it.
        steps: recorded steps.
        seconds: from the first step to the written trace.
    """

    path: Path
    inline: Path | None
    device: str
    steps: int
    seconds: float


def record_training(folder: Path, *, steps: int, device: str) -> Recorded:
    """Trains, measures a few events one per iteration, and traces the last steps.

    Args:
        folder: where the recordings go.
        steps: how many steps are traced, after those that are measured inline.
        device: `cpu`, `cuda`, or `auto` for a GPU where there is one.

    Raises:
        StepScopeError: torch is not installed, or the trace could not be written.
        UsageError: `cuda` was asked for and there is none.
    """
    try:
        import torch
    except ImportError:
        raise StepScopeError(
            "the demo trains a model, and this Python has no torch",
            hint="pip install torch, or look at a trace you have: stepscope summary FILE",
            slug="no-torch",
        ) from None
    from stepscope.record import inline
    from stepscope.record.tracing import Tracer

    place = _choose_device(torch.cuda.is_available(), device)
    torch.manual_seed(0)
    model = _model().to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = _loader()
    began = time.perf_counter()
    inline.start(PLAN, model=model, optimizer=optimizer, out=folder, phases=False)
    taken = 0
    for batch in inline.iterate(loader):
        _train_step(model, optimizer, batch, place)
        taken += 1
        if inline.done() or time.perf_counter() - began > MOST_INLINE_SECONDS:
            break
    measured = inline.stop()
    tracer = Tracer(folder, name="demo", active=steps, wait=0, model=model, start_step=taken)
    with tracer:
        for batch in tracer.iterate(loader):
            if tracer.over:
                break
            _train_step(model, optimizer, batch, place)
    if not tracer.written:
        raise StepScopeError(
            f"no trace was written to {folder}",
            hint="look at the folder's permissions and free space, or choose one with --output DIR",
            slug="no-trace-written",
        )
    return Recorded(
        tracer.written[0],
        measured[0] if measured else None,
        place,
        steps,
        time.perf_counter() - began,
    )


def _choose_device(has_gpu: bool, asked: str) -> str:
    if asked == "cuda" and not has_gpu:
        raise UsageError(
            "torch sees no CUDA or ROCm device here",
            hint="leave --device out to train on the CPU",
            slug="no-device",
        )
    return "cuda" if asked == "cuda" or (asked == "auto" and has_gpu) else "cpu"


def _train_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor, device: str
) -> float:
    from torch.nn.functional import cross_entropy

    tokens = batch.to(device, non_blocking=True)
    optimizer.zero_grad(set_to_none=True)
    logits = model(tokens[:, :-1])
    loss = cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    return float(loss.item())


def _loader() -> Any:
    """Batches of text made up on the fly, in this process: the training waits for each of them."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class MadeUpText(Dataset[torch.Tensor]):
        """Sentences made up and encoded one character after the other, as slow loaders do."""

        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, index: int) -> torch.Tensor:
            word, words = index, []
            for _ in range(TOKENS + 1):
                for _ in range(CHARACTERS):
                    word = (word * 1_103_515_245 + 12_345) % 2_147_483_648
                words.append(word % VOCABULARY)
            return torch.tensor(words)

    return DataLoader(MadeUpText(), batch_size=BATCH, pin_memory=False)


def _model() -> torch.nn.Module:
    """A decoder of a few blocks; its classes are defined here because they derive from torch's."""
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.out = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, tokens, _ = x.shape
            heads = self.qkv(x).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return self.out(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))

    class Feedforward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(WIDTH, 4 * WIDTH)
            self.down = nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(nn.functional.gelu(self.up(x)))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attention, self.feedforward = Attention(), Feedforward()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.attention(self.norm_1(x))
            return x + self.feedforward(self.norm_2(x))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    return Decoder()
