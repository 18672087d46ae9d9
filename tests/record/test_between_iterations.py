"""An event's hooks stay in between two iterations that measure it; what runs there is not measured."""

from pathlib import Path
from typing import Any

import pytest

from stepscope.api.inline_profiles import parse_result
from stepscope.record import inline

from .small_job import batches, events_in, make_model, spin, untouched

pytestmark = pytest.mark.torch


def test_what_runs_between_two_iterations_is_no_part_of_them(tmp_path: Path) -> None:
    import torch

    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inline.start({"warmup": 1, "repetitions": 8, "events": ["0.forward"]}, model=model, out=tmp_path)
    while not inline.done():
        with inline.iteration():
            optimizer.zero_grad()
            model(batches(1)[0]).sum().backward()
            optimizer.step()
        # The next iteration measures the same module, so it is listened to here too.
        for _ in range(3):
            spin(0.002)
            model(batches(1)[0])
    inline.stop()
    assert untouched(model)
    (event,) = events_in(tmp_path)
    assert event["statistics"]["n"] == 8
    (profile,) = parse_result(tmp_path)
    took_ns = {iteration: time_ns for iteration, _, time_ns, *_ in profile["iterations"]}
    for iteration, duration_ns, offset_ns, _ in event["samples"]:
        assert 0 <= offset_ns <= offset_ns + duration_ns <= took_ns[iteration]


@pytest.mark.parametrize("event", ["0.forward.aten::addmm", "0.backward"])
def test_between_two_iterations_a_module_is_as_it_is(tmp_path: Path, event: str) -> None:
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    model = make_model()
    modes: list[Any] = []

    def look(_module: Any, _given: Any, _output: Any) -> None:
        modes.append(_get_current_dispatch_mode())

    inline.start({"warmup": 1, "repetitions": 4, "events": [event]}, model=model, out=tmp_path)
    while not inline.done():
        with inline.iteration():
            model(batches(1)[0]).sum().backward()
        handle = model[0].register_forward_hook(look)
        output = model(batches(1)[0])
        handle.remove()
        output.sum().backward()
    inline.stop()
    assert untouched(model)
    assert modes
    assert modes == [None] * len(modes)
    (measured,) = events_in(tmp_path)
    assert measured["statistics"]["n"] == 4


def test_a_backward_through_an_earlier_iterations_graph_is_not_measured(tmp_path: Path) -> None:
    model = make_model()
    kept: list[Any] = []
    inline.start({"warmup": 1, "repetitions": 4, "events": ["0.backward"]}, model=model, out=tmp_path)
    while not inline.done():
        with inline.iteration():
            for loss in kept:
                loss.backward(retain_graph=True)
                spin(0.005)
            kept = [model(batches(1)[0]).sum()]
            kept[0].backward(retain_graph=True)
    inline.stop()
    assert untouched(model)
    (event,) = events_in(tmp_path)
    # This iteration's own comes after the earlier one's and its 5 ms.
    assert min(offset for _, _, offset, _ in event["samples"][1:]) > 5_000_000
