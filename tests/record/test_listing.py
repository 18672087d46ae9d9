"""What can be measured in a model, and a plan made of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stepscope.record.annotate import region
from stepscope.record.listing import measurable, plan_text
from stepscope.record.plan import read_plan
from stepscope.record.watch import Surveyed

from .small_job import batches, make_model, train, untouched


@pytest.mark.torch
def test_everything_that_can_be_measured_is_listed_in_the_order_it_runs() -> None:
    import torch

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def inside(_: int) -> None:
        with region("between"):
            pass

    events = measurable(lambda: train(model, batches(1), optimizer, inside), model, [optimizer])
    assert [event.label for event in events] == [
        "zero_grad",
        "forward",
        "0.forward",
        "1.forward",
        "2.forward",
        "between",
        "backward",
        "2.backward",
        "1.backward",
        "0.backward",
        "optimizer.step",
    ]
    assert untouched(model)
    labels = [
        event.label for event in measurable(lambda: train(model, batches(1)), model, operators=True)
    ]
    assert "2.forward.aten::addmm" in labels
    assert "2.backward.aten::mm" in labels


@pytest.mark.torch
def test_a_step_that_raises_raises_and_leaves_nothing() -> None:
    model = make_model()

    def step() -> None:
        raise ValueError("the job's own")

    with pytest.raises(ValueError, match="the job's own"):
        measurable(step, model)
    assert untouched(model)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is in Python since 3.11")
def test_a_listed_plan_can_be_read_back(tmp_path: Path) -> None:
    events = [
        Surveyed(label, occurrence, 0, 0, "host", 0, 1)
        for label, occurrence in (("forward", 0), ('a "quoted" \\ name', 0), ("forward", 1))
    ]
    path = tmp_path / "plan.toml"
    path.write_text(plan_text(events, repetitions=9))
    plan = read_plan(path)
    assert plan.repetitions == 9
    assert [entry.label.text for entry in plan.entries] == ["forward", 'a "quoted" \\ name']
