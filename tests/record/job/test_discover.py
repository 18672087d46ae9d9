"""Which modules and optimizers a job has, from one iteration of it."""

from typing import Any

import pytest
from tests.record.small_job import batches, make_model, train, untouched

from stepscope.record.job.trained_model import Discovery
from stepscope.record.trouble import Guard

pytestmark = pytest.mark.torch


def _found(step: Any) -> Discovery:
    discovery = Discovery()
    discovery.install(Guard("test"))
    step()
    discovery.remove()
    return discovery


def test_the_outermost_modules_and_the_optimizers_that_step_are_found() -> None:
    import torch

    model, loss = make_model(), torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        (batch,) = batches(1)
        loss(model(batch), torch.zeros(5, 4)).backward()
        optimizer.step()

    found = _found(step)
    assert found.roots == [model, loss]
    assert found.model is model
    assert found.optimizers == [optimizer]
    assert untouched(model)


def test_a_model_compiled_in_place_is_found_by_what_the_optimizer_trains() -> None:
    import torch

    model, loss, other = make_model(), torch.nn.MSELoss(), make_model()
    for one in (model, model[0], other):
        one.compile(backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        (batch,) = batches(1)
        loss(model(batch), torch.zeros(5, 4)).backward()
        optimizer.step()

    step()  # compiled before anybody listens, as in a job
    found = _found(step)
    # Older torches do not let the loss be heard beside compiled code.
    assert found.roots in ([model, loss], [model])
    assert found.model is model


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_checkpoint_computes_again_within_backward_is_no_model_of_its_own(reentrant: bool) -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = make_model()

        def forward(self, batch: Any) -> Any:
            return checkpoint(self.inner, batch, use_reentrant=reentrant)

    model = Checkpointed()
    (batch,) = batches(1)
    found = _found(lambda: model(batch.requires_grad_()).sum().backward())
    assert found.roots == [model]


def test_a_job_without_modules_has_none() -> None:
    import torch

    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    found = _found(lambda: optimizer.step())  # looked up when it is called
    assert (found.roots, found.model, found.optimizers) == ([], None, [optimizer])


def test_modules_are_not_looked_for_where_the_model_is_known() -> None:
    model = make_model()
    discovery = Discovery(modules=False)
    discovery.install(Guard("test"))
    train(model, batches(1))
    discovery.remove()
    assert discovery.roots == []
    assert len(discovery.optimizers) == 1
