"""A transformer with causal attention that learns to count through a small alphabet.

python examples/gpt.py --trace --out runs/gpt
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Batches, Task, arguments, train


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, tokens: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.token = nn.Embedding(tokens, width)
        self.position = nn.Embedding(length, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        x = self.token(text) + self.position(torch.arange(text.shape[1], device=text.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def make(options: argparse.Namespace) -> Task:
    if options.large:
        tokens, length, model = 50_304, 1_024, Transformer(50_304, 1_024, 768, 12, 12)
    else:
        tokens, length, model = 64, 32, Transformer(64, 32, 64, 4, 2)
    samples = options.batch_size or (16 if options.large else 8)

    def batch(random: torch.Generator) -> list[Tensor]:
        first = torch.randint(tokens, (samples, 1), generator=random)
        text = (first + torch.arange(length + 1)) % tokens
        return [text[:, :-1], text[:, 1:]]

    def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
        text, following = batch
        return functional.cross_entropy(model(text).flatten(0, 1), following.flatten())

    return Task(model, Batches(options.steps, batch), loss, learning_rate=0.05)


if __name__ == "__main__":
    train("gpt", arguments("gpt", steps=100, plan_steps=250), make)
