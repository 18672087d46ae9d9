"""A small training job that tests record, and a clock that ticks when it is told."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stepscope.api.inline_profiles import parse_result


def spin(seconds: float) -> float:
    """Keeps the processor busy and says for how long it really did."""
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        pass
    return time.perf_counter() - began


def make_model() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(inplace=True), nn.Linear(16, 4))


def batches(count: int) -> list[Any]:
    import torch

    random = torch.Generator().manual_seed(1)
    return [torch.randn(5, 8, generator=random) for _ in range(count)]


def train(
    model: Any, loader: Iterable[Any], optimizer: Any = None, inside: Callable[[int], None] = lambda _: None
) -> list[float]:
    """A plain loop; returns every loss, exactly."""
    import torch

    if optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for number, batch in enumerate(loader):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        inside(number)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def untouched(model: Any) -> bool:
    """Whether neither the model nor torch carries anything of ours."""
    import torch
    from torch.nn.modules import module as modules
    from torch.optim import optimizer as optimizers

    return (
        all(
            not module._forward_hooks
            and not module._forward_pre_hooks
            and not module._backward_hooks
            and "forward" not in vars(module)
            and "_compiled_call_impl" not in vars(module)
            for module in model.modules()
        )
        and not modules._global_forward_hooks
        and not modules._global_forward_pre_hooks
        and not optimizers._global_optimizer_pre_hooks
        and not optimizers._global_optimizer_post_hooks
        and torch.autograd.backward.__module__ == "torch.autograd"
        and not hasattr(torch.autograd.backward, "__wrapped__")
        and not hasattr(torch.Tensor.backward, "__wrapped__")
        and "to" not in vars(torch.Tensor)
    )


def events_in(out: Path) -> list[dict[str, Any]]:
    """The events of the one inline profile in a directory."""
    (profile,) = parse_result(out)
    return [event for streams in profile["timeline"].values() for events in streams.values() for event in events]
