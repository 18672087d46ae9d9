"""A recommender in the manner of DLRM, with the layer names of HugeCTR's benchmark.

    python examples/dlrm.py --plan seed --out runs/dlrm

`--plan seed` is the dict in `dlrm_plan.py`. The parts of its fused layers are regions.
"""

import argparse
from collections import OrderedDict
from itertools import pairwise
from typing import Any

import torch
from dlrm_plan import dlrm_perf_schedule
from torch import Tensor, nn
from torch.nn import functional
from training import Batches, Task, arguments, train

from stepscope.record.annotate import region

TABLES = 26
DENSE = 13


class Fused(torch.autograd.Function):
    """Product, bias and ReLU as one layer, with a region around each part."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, name: str) -> Tensor:
        with region(f"{name}.fprop"):
            with region(f"{name}.fprop.cublasGemmEx"):
                product = x @ weight.t()
            with region(f"{name}.fprop.add_bias_and_re_kernel"):
                y = product.add_(bias).relu_()
        ctx.save_for_backward(x, weight, y)
        ctx.name = name
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = ctx.saved_tensors
        name = ctx.name
        with region(f"{name}.bprop"):
            with region(f"{name}.bprop.initialize_array"):
                bias_gradient = torch.zeros_like(weight[:, 0], dtype=torch.float32)
            with region(f"{name}.bprop.reverse_add_bias_and_re_kernel"):
                inner = gradient * (y > 0)
                bias_gradient += inner.sum(0)
            with region(f"{name}.bprop.convert_array"):
                bias_gradient = bias_gradient.to(weight.dtype)
            with region(f"{name}.bprop.cublasGemmEx_1"):
                weight_gradient = inner.t() @ x
            with region(f"{name}.bprop.cublasGemmEx_2"):
                x_gradient = inner @ weight if ctx.needs_input_grad[0] else None
        return x_gradient, weight_gradient, bias_gradient, None


class FusedFullyConnected(nn.Module):
    def __init__(self, name: str, inputs: int, outputs: int) -> None:
        super().__init__()
        self.name = f"{name}.fused_fully_connected"
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return Fused.apply(x, self.weight, self.bias, self.name)


class OneHotEmbedding(nn.Module):
    """One row of one table per slot; the tables lie one behind the other in one."""

    def __init__(self, name: str, rows: int, width: int) -> None:
        super().__init__()
        self.name = f"{name}.localized_slot_sparse_embedding_one_hot.forward.mapping_and_fuse"
        self.table = nn.Embedding(TABLES * rows, width)
        nn.init.uniform_(self.table.weight, -(rows**-0.5), rows**-0.5)
        self.register_buffer("offsets", torch.arange(TABLES) * rows, persistent=False)

    def forward(self, keys: Tensor) -> Tensor:
        with region(self.name):
            return self.table(keys + self.offsets)


class Interaction(nn.Module):
    """Dot products of every two vectors, beside the dense vector itself."""

    def __init__(self) -> None:
        super().__init__()
        rows, columns = torch.tril_indices(TABLES + 1, TABLES + 1, offset=-1)
        self.register_buffer("pairs", rows * (TABLES + 1) + columns, persistent=False)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        vectors = torch.cat([dense.unsqueeze(1), sparse], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return torch.cat([dense, products[:, self.pairs]], 1)


class Recommender(nn.Module):
    def __init__(self, bottom: list[int], top: list[int], rows: int) -> None:
        super().__init__()
        width = bottom[-1]
        self.sparse_embedding1 = OneHotEmbedding("sparse_embedding1", rows, width)
        self.BottomMLP = perceptron("BottomMLP", 1, [DENSE, *bottom])
        self.interaction1 = Interaction()
        crossed = width + TABLES * (TABLES + 1) // 2
        self.TopMLP = perceptron("TopMLP", 4, [crossed, *top], last=1)

    def forward(self, dense: Tensor, keys: Tensor) -> Tensor:
        sparse = self.sparse_embedding1(keys)
        return self.TopMLP(self.interaction1(self.BottomMLP(dense), sparse)).squeeze(1)


def perceptron(name: str, first: int, sizes: list[int], last: int | None = None) -> nn.Sequential:
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (inputs, outputs) in enumerate(pairwise(sizes), first):
        layers[f"fc{number}"] = FusedFullyConnected(f"{name}.fc{number}", inputs, outputs)
    if last is not None:
        layers[f"fc{first + len(sizes) - 1}"] = nn.Linear(sizes[-1], last)
    return nn.Sequential(layers)


def make(options: argparse.Namespace) -> Task:
    rows = 100_000 if options.large else 1_000
    samples = options.batch_size or (16_384 if options.large else 256)
    if options.large:
        model = Recommender([512, 256, 128], [1024, 1024, 512, 256], rows)
    else:
        model = Recommender([128, 64, 32], [256, 256, 128, 64], rows)

    def batch(random: torch.Generator) -> list[Tensor]:
        dense = torch.randn(samples, DENSE, generator=random)
        keys = torch.randint(rows, (samples, TABLES), generator=random)
        clicked = (dense[:, 0] + dense[:, 1] > 0).float()
        return [dense, keys, clicked]

    def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
        dense, keys, clicked = batch
        return functional.binary_cross_entropy_with_logits(model(dense, keys), clicked)

    return Task(model, Batches(options.steps, batch), loss, learning_rate=0.1)


if __name__ == "__main__":
    plan = {"repetitions": 20, **dlrm_perf_schedule}
    train("dlrm", arguments("dlrm", steps=300, plan_steps=1_700), make, {"seed": plan})
