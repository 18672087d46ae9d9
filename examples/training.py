"""What the examples share: arguments, processes, and a plain training loop."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from stepscope.record import inline
from stepscope.record.traces.tracing import trace


@dataclass
class Task:
    """A model, batches for it, and its loss."""

    model: nn.Module
    batches: Dataset
    loss: Callable[[nn.Module, Any], Tensor]
    learning_rate: float = 0.01


class Batches(Dataset):
    """Ready-made batches: number i is always the same, on every machine."""

    def __init__(self, count: int, make: Callable[[torch.Generator], Any]) -> None:
        self.count = count
        self.make = make

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if index >= self.count:
            raise IndexError(index)
        return self.make(torch.Generator().manual_seed(index))


def arguments(name: str, *, steps: int, plan_steps: int) -> argparse.Namespace:
    """The command line; a plan needs more steps than just training does."""
    parser = argparse.ArgumentParser(name)
    parser.add_argument("--steps", type=int, help="batches to train on")
    parser.add_argument("--batch-size", type=int, help="samples per process and step")
    parser.add_argument("--large", action="store_true", help="the size of a real job, for a GPU")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--workers", type=int, default=0, help="processes that load batches")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--run",
        choices=("eager", "compile", "graphs"),
        default="eager",
        help="the model as it is, through torch.compile, or replayed from CUDA graphs",
    )
    parser.add_argument("--deterministic", action="store_true", help="the same numbers in every run")
    parser.add_argument("--plan", help='measure these events inline: a file, or "seed" (DLRM)')
    parser.add_argument("--phases", action="store_true", help="time the phases of every step")
    parser.add_argument("--trace", action="store_true", help="record a trace of a few steps")
    parser.add_argument("--out", type=Path, default=Path("stepscope-out"))
    options = parser.parse_args()
    options.steps = options.steps or (plan_steps if options.plan else steps)
    return options


def first_arguments(task: Task, model: nn.Module, batch: Any) -> tuple[Any, ...]:
    """What the loss gives to the model."""
    given: list[tuple[Any, ...]] = []
    hook = model.register_forward_pre_hook(lambda _module, arguments: given.append(arguments))
    with torch.no_grad():
        task.loss(model, batch)
    hook.remove()
    return given[0]


def to_device(batch: Any, device: torch.device) -> Any:
    return [part.to(device, non_blocking=True) for part in batch]


def train(
    name: str,
    options: argparse.Namespace,
    make: Callable[[argparse.Namespace], Task],
    plans: Mapping[str, Any] | None = None,
) -> float:
    """Trains for some steps and returns the last loss."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    on_gpu = torch.cuda.is_available() and options.device != "cpu"
    if options.device == "cuda" and not on_gpu:
        sys.exit("torch sees no CUDA or ROCm device here")
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if world_size > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    if options.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(options.seed)
    task = make(options)
    model: nn.Module = task.model.to(device)
    if world_size > 1:
        model = DistributedDataParallel(model, device_ids=[local_rank] if on_gpu else None)
    if options.run == "compile":
        model = torch.compile(model)
    elif options.run == "graphs":
        if not on_gpu:
            sys.exit("CUDA graphs need a GPU")
        example = first_arguments(task, model, to_device(task.batches[0], device))
        model = torch.cuda.make_graphed_callables(model, example)
    optimizer = torch.optim.SGD(model.parameters(), lr=task.learning_rate, momentum=0.9)
    loader = DataLoader(task.batches, batch_size=None, num_workers=options.workers, pin_memory=on_gpu)

    if options.plan or options.phases:
        plan = (plans or {}).get(options.plan, options.plan)
        inline.start(plan, model=model, optimizer=optimizer, out=options.out)
    tracer = trace(options.out, name=name, model=model) if options.trace else None
    if tracer is not None:
        tracer.start()

    began = time.perf_counter()
    loss = torch.zeros(())
    for batch in inline.iterate(loader):
        optimizer.zero_grad()
        loss = task.loss(model, to_device(batch, device))
        loss.backward()
        optimizer.step()
        if tracer is not None:
            tracer.step()
    last = loss.item()
    seconds = time.perf_counter() - began

    files = inline.stop()
    if not (options.plan or options.phases):
        files = []  # what `stepscope record` has begun it tells of itself
    if tracer is not None:
        files += tracer.stop()
    if local_rank == 0:
        print(f"{name}: {options.steps} steps in {seconds:.1f} s, loss {last:.9g}")
        for file in files:
            print(f"wrote {file}")
    if world_size > 1:
        dist.destroy_process_group()
    sys.stdout.flush()
    return last
