"""Operations equal to those of torch's own counter, over hundreds of shapes.

Where the two differ the test says why: the counter multiplies all channels of a grouped
convolution's weight gradient, leaves the bias gradient out, and counts causal attention in full.
"""

import itertools
import json
import math
import random

import pytest

from stepscope.costs import Conventions, work

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch.utils import flop_counter  # noqa: E402 - only where torch is there
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

FULL = Conventions(causal="full")


def _counted(function) -> int:
    with FlopCounterMode(display=False) as mode:
        function()
    return mode.get_total_flops()


def _sizes(seed: int, count: int) -> list[tuple[int, int, int, int]]:
    rng = random.Random(seed)  # noqa: S311 - shapes to try, no secret
    return [tuple(rng.randint(1, 200) for _ in range(4)) for _ in range(count)]


@pytest.mark.parametrize(("b", "m", "k", "n"), _sizes(1, 60))
def test_products_count_what_the_counter_counts(b, m, k, n, seen_operators) -> None:
    def on_meta(*shape):
        return torch.empty(shape, device="meta")

    calls = [
        lambda: torch.mm(on_meta(m, k), on_meta(k, n)),
        lambda: torch.addmm(on_meta(n), on_meta(m, k), on_meta(k, n)),
        lambda: torch.bmm(on_meta(b, m, k), on_meta(b, k, n)),
        lambda: torch.baddbmm(on_meta(b, m, n), on_meta(b, m, k), on_meta(b, k, n)),
    ]
    for call in calls:
        operator = seen_operators(call)[-1]
        found = operator.work()
        assert found.flops == _counted(call), operator.name
        assert found.unit == "matrix"


@pytest.mark.parametrize(("b", "m", "k", "n"), _sizes(2, 30))
def test_linear_forward_and_backward_sum_to_the_counters_total(b, m, k, n, seen_operators) -> None:
    def step() -> None:
        x = torch.empty(b, m, k, device="meta", requires_grad=True)
        layer = torch.nn.Linear(k, n, device="meta")
        layer(x).sum().backward()

    works = [operator.work() for operator in seen_operators(step)]
    ours = sum(found.flops for found in works if found is not None and found.unit == "matrix")
    assert ours == _counted(step) == 3 * 2 * b * m * k * n


CONVOLUTIONS = [
    (rank, 2, channels, out_channels, groups, kernel, stride, padding, dilation, transposed)
    for rank, (channels, out_channels, groups), kernel, stride, padding, dilation, transposed in itertools.product(
        (1, 2, 3), ((4, 6, 1), (6, 4, 2), (4, 4, 4)), (1, 3), (1, 2), (0, 1), (1, 2), (False, True)
    )
]


def _convolution(case):
    rank, batch, channels, out_channels, groups, kernel, stride, padding, dilation, transposed = case
    shape = (channels, out_channels // groups) if transposed else (out_channels, channels // groups)
    x = torch.empty((batch, channels, *range(9, 9 + rank)), device="meta", requires_grad=True)
    w = torch.empty((*shape, *[kernel] * rank), device="meta", requires_grad=True)
    bias = torch.empty(out_channels, device="meta", requires_grad=True)
    y = torch.ops.aten.convolution(
        x, w, bias, [stride] * rank, [padding] * rank, [dilation] * rank, transposed, [0] * rank, groups
    )
    return x, w, y


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions_count_what_the_counter_counts(case, seen_operators) -> None:
    forward = seen_operators(lambda: _convolution(case))[-1]
    found = forward.work()
    assert found.flops == _counted(lambda: _convolution(case))
    assert found.bytes_written == math.prod(forward.results[0].shape) * 4

    *_, gradient = (
        operator
        for operator in seen_operators(lambda: _convolution(case)[2].sum().backward())
        if operator.name == "aten::convolution_backward"
    )
    found = gradient.work()
    parts = {part.formula.split(".")[1]: part for part in found.parts}
    assert parts["bias_gradient"].flops == math.prod(forward.results[0].shape)
    counted = _counted(lambda: _convolution(case)[2].sum().backward())
    groups = case[4]
    # The counter takes the weight gradient of a grouped convolution for that of a full one.
    ours = 2 * forward.work().flops + parts["weight_gradient"].flops * groups
    assert ours == counted
    assert parts["input_gradient"].flops == parts["weight_gradient"].flops == forward.work().flops


@pytest.mark.parametrize("mask", list(itertools.product((True, False), repeat=3))[:-1], ids=str)
def test_only_the_gradients_that_the_mask_asks_for_count(mask, seen_operators) -> None:
    def step():
        return torch.ops.aten.convolution_backward(
            *(torch.empty(shape, device="meta") for shape in ((2, 6, 7, 7), (2, 4, 9, 9), (6, 4, 3, 3))),
            [6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, list(mask),
        )  # fmt: skip

    found = seen_operators(step)[-1].work()
    product = 2 * 2 * 6 * 4 * 3 * 3 * 7 * 7
    assert found.flops == product * (mask[0] + mask[1]) + mask[2] * 2 * 6 * 7 * 7
    assert len(found.parts) == sum(mask)


def _attention_shapes() -> list[tuple[int, int, int, int, int, int, int]]:
    rng = random.Random(3)  # noqa: S311 - shapes to try, no secret
    shapes = []
    for _ in range(60):
        shared = rng.choice((1, 2, 4))
        heads = rng.randint(1, 4)
        sizes = [rng.randint(1, most) for most in (3, 50, 50, 64, 64)]
        shapes.append((sizes[0], heads * shared, heads, *sizes[1:]))
    return shapes


def _texts(*tensors: list[int], more: list[str] = ()) -> tuple[str, str, None, str]:  # type: ignore[assignment]
    dims = [*tensors, *([] for _ in more)]
    types = ["c10::BFloat16" for _ in tensors] + ["Scalar" if value else "" for value in more]
    values = ["" for _ in tensors] + list(more)
    return json.dumps(dims), json.dumps(types), None, json.dumps(values)


@pytest.mark.parametrize("shape", _attention_shapes(), ids=str)
@pytest.mark.parametrize("causal", ["False", "True"])
def test_attention_counts_what_the_counter_counts(shape, causal) -> None:
    batch, heads, shared, queries, keys, width, value_width = shape
    q = [batch, heads, queries, width]
    k, v = [batch, shared, keys, width], [batch, shared, keys, value_width]
    out = [batch, heads, queries, value_width]
    log_sum = [batch, heads, queries]
    forward = flop_counter.sdpa_flop_count(q, k, v)
    backward = flop_counter.sdpa_backward_flop_count(out, q, k, v)

    def turned(size: list[int]) -> list[int]:
        return [size[0], size[2], size[1], size[3]]

    lengths = ["", "", "", str(keys), "0.", causal, "", "", ""]
    turned_inputs = (turned(q), turned(k), turned(v))
    for name, tensors, more, counted in (
        ("_scaled_dot_product_flash_attention", (q, k, v), ["0.", causal, "False", ""], forward),
        ("_scaled_dot_product_efficient_attention", (q, k, v), ["", "True", "0.", causal, ""], forward),
        ("_scaled_dot_product_flash_attention_backward", (out, q, k, v, out, log_sum), ["", *lengths], backward),
        ("_flash_attention_forward", turned_inputs, ["", "", "9", "9", "0.", causal, "False", ""], forward),
    ):
        found = work(f"aten::{name}", *_texts(*tensors, more=more), conventions=FULL)
        assert found.flops == counted, name


def test_attention_on_the_cpu_counts_although_torchs_counter_sees_none(seen_operators) -> None:
    """The counter has no formula for the CPU's attention and reports 0 (pytorch#195460)."""
    q = torch.zeros(2, 3, 5, 8, requires_grad=True)

    def step() -> None:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

    assert _counted(step) == 0
    for conventions, pairs in ((Conventions(), 15), (FULL, 25)):  # 15 of 25 pairs are visible
        works = [operator.work(conventions=conventions) for operator in seen_operators(step)]
        flops = sum(found.flops for found in works if found is not None and found.family == "attention")
        assert flops == 2 * 3 * pairs * 7 * 2 * 8


def test_a_network_sums_to_the_counters_total(seen_operators) -> None:
    """A small network's forward and backward: the innermost rows add up, nothing counts twice."""
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 6 * 6, 5),
    )

    def step() -> None:
        network(torch.zeros(2, 3, 6, 6)).sum().backward()

    works = [found for operator in seen_operators(step) if (found := operator.work()) is not None]
    parts = [part for found in works for part in (found.parts or (found,))]
    assert sum(part.flops for part in parts if part.unit == "matrix") == _counted(step)
