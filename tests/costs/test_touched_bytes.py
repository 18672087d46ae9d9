"""Bytes equal to what a brute-force count of the touched tensors gives.

The count takes every element of every tensor that an operator is given, once for each place in memory,
and every element of what it returns. Operators that by their nature do not look at all of an input
(look-ups, fills) have their own counts below.
"""

import itertools

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402 - only where torch is there
from torch.nn import functional  # noqa: E402


def _places(tensor) -> int:
    """Different elements in memory, one by one."""
    steps = [
        [index * stride for index in range(size)] for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    ]
    return len({sum(place) for place in itertools.product(*steps)})


def _tensors(items):
    for item in items:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from _tensors(item)


def _touched(tensors) -> int:
    return sum(_places(tensor) * tensor.element_size() for tensor in tensors)


def _work(operator):
    return operator.work()


def _x(*shape, dtype=None):
    return torch.rand(*shape).to(dtype or torch.float32) + 0.1


def _grad(*shape):
    return _x(*shape).requires_grad_()


F, B16, D = torch.float32, torch.bfloat16, torch.float64
INDEX = torch.tensor([0, 2, 1])

CALLS = {
    "mm": lambda: torch.mm(_x(3, 4), _x(4, 5)),
    "mm in bfloat16": lambda: torch.mm(_x(3, 4, dtype=B16), _x(4, 5, dtype=B16)),
    "mm of a transposed matrix": lambda: torch.mm(_x(4, 3).t(), _x(4, 5)),
    "mm of a broadcast matrix": lambda: torch.mm(_x(1, 4).expand(3, 4), _x(4, 5)),
    "addmm with a row": lambda: torch.addmm(_x(5), _x(3, 4), _x(4, 5)),
    "addmm with a matrix": lambda: torch.addmm(_x(3, 5), _x(3, 4), _x(4, 5)),
    "bmm": lambda: torch.bmm(_x(2, 3, 4), _x(2, 4, 5)),
    "baddbmm": lambda: torch.baddbmm(_x(2, 3, 5), _x(2, 3, 4), _x(2, 4, 5)),
    "addbmm": lambda: torch.addbmm(_x(3, 5), _x(2, 3, 4), _x(2, 4, 5)),
    "mv": lambda: torch.mv(_x(3, 4), _x(4)),
    "addmv": lambda: torch.addmv(_x(3), _x(3, 4), _x(4)),
    "dot": lambda: torch.dot(_x(7), _x(7)),
    "convolution": lambda: functional.conv2d(_x(2, 4, 6, 6), _x(6, 2, 3, 3), _x(6), groups=2),
    "convolution of a line": lambda: functional.conv1d(_x(2, 3, 9), _x(4, 3, 3), stride=2),
    "transposed convolution": lambda: functional.conv_transpose2d(
        _x(2, 4, 5, 5), _x(4, 3, 3, 3), _x(6), stride=2, groups=2, output_padding=1
    ),
    "batch norm": lambda: functional.batch_norm(_x(3, 4, 5), _x(4), _x(4), _x(4), _x(4), training=True),
    "group norm": lambda: functional.group_norm(_x(2, 6, 5), 3, _x(6), _x(6)),
    "layer norm": lambda: functional.layer_norm(_x(3, 4, 5), (5,), _x(5), _x(5)),
    "layer norm without weight": lambda: functional.layer_norm(_x(3, 4, 5), (4, 5)),
    "softmax": lambda: torch.softmax(_x(3, 5), 1),
    "log-softmax": lambda: torch.log_softmax(_x(3, 5, dtype=D), 0),
    "sum of all": lambda: _x(3, 4, 5).sum(),
    "sum over two dimensions": lambda: _x(3, 4, 5).sum((0, 2)),
    "sum that keeps dimensions": lambda: _x(3, 4, 5).sum(-1, keepdim=True),
    "sum of integers": lambda: torch.ones(3, 4, dtype=torch.int32).sum(1),
    "sum as double": lambda: _x(3, 4).sum(1, dtype=D),
    "mean": lambda: _x(3, 4, 5).mean(1),
    "variance": lambda: _x(3, 4, 5).var(1),
    "deviation and mean": lambda: torch.std_mean(_x(3, 4, 5), (0, 1)),
    "largest of all": lambda: _x(3, 4).max(),
    "largest of rows": lambda: _x(3, 4).max(1),
    "amax": lambda: _x(3, 4).amax(0),
    "argmax": lambda: _x(3, 4).argmax(1),
    "any": lambda: (_x(3, 4) > 0.5).any(1),
    "all": lambda: (_x(3, 4) > 0.5).all(),
    "norm": lambda: torch.linalg.vector_norm(_x(3, 4), 2, 1),
    "log of sum of exponentials": lambda: torch.logsumexp(_x(3, 4), 1),
    "cumulative sum": lambda: _x(3, 4).cumsum(1),
    "cumulative largest": lambda: _x(3, 4).cummax(1),
    "sort": lambda: _x(3, 4).sort(1),
    "topk": lambda: _x(3, 7).topk(2, 1),
    "bucketize": lambda: torch.bucketize(_x(3, 7), _x(5)),
    "cat": lambda: torch.cat([_x(3, 4), _x(3, 5)], 1),
    "triangle": lambda: _x(4, 4).tril(),
    "flip": lambda: _x(3, 4).flip(0),
    "roll": lambda: _x(3, 4).roll(1, 0),
    "pad": lambda: functional.pad(_x(2, 3, 4), (1, 2), mode="reflect"),
    "average pooling": lambda: functional.avg_pool2d(_x(2, 3, 7, 7), 3, stride=2, ceil_mode=True),
    "largest pooling": lambda: functional.max_pool2d(_x(2, 3, 7, 7), 2, return_indices=True),
    "adaptive pooling": lambda: functional.adaptive_avg_pool2d(_x(2, 3, 8, 8), (4, 2)),
    "nearest neighbour": lambda: functional.interpolate(_x(1, 2, 3, 3), scale_factor=2),
    "bilinear": lambda: functional.interpolate(_x(1, 2, 3, 3), size=(5, 5), mode="bilinear"),
    "dropout": lambda: torch.native_dropout(_x(3, 4), 0.5, True),
    "squared loss": lambda: functional.mse_loss(_x(3, 4), _x(3, 4), reduction="none"),
    "copy with a cast": lambda: torch.zeros(3, 4, dtype=B16).copy_(_x(3, 4)),
    "copy of a broadcast": lambda: torch.zeros(3, 4).copy_(_x(4)),
    "gated unit": lambda: functional.glu(_x(3, 8)),
    "complex product": lambda: _x(3, dtype=torch.complex64) * _x(3, dtype=torch.complex64),
    "where": lambda: torch.where(_x(3, 4) > 0.5, _x(3, 4), _x(4)),
    "masked fill": lambda: _x(3, 4).masked_fill(_x(3, 1) > 0.5, 0.0),
    "true division of integers": lambda: torch.ones(5, dtype=torch.int64) / 2,
    "floor division": lambda: torch.div(torch.ones(5, dtype=torch.int64), 2, rounding_mode="floor"),
    "comparison": lambda: _x(3, 4) > _x(4),
    "mixed types": lambda: _x(3, 4, dtype=B16) + _x(4),
    "a double number among floats": lambda: _x(3, 4) * torch.tensor(2.0, dtype=D),
    "absolute value of complex": lambda: _x(3, dtype=torch.complex64).abs(),
    "exponential of integers": lambda: torch.ones(5, dtype=torch.int32).exp(),
    "lerp": lambda: torch.lerp(_x(3, 4), _x(3, 4), 0.5),
    "addcmul": lambda: torch.addcmul(_x(3, 4), _x(3, 4), _x(4), value=2),
    "clamp": lambda: _x(3, 4).clamp(0, 1),
    "clamp by tensors": lambda: _x(3, 4).clamp(_x(4), _x(3, 1)),
    "power": lambda: _x(3, 4) ** 2,
    "gelu": lambda: functional.gelu(_x(3, 4)),
    "leaky": lambda: functional.leaky_relu(_x(3, 4)),
    "in place": lambda: _x(3, 4).add_(_x(4), alpha=2),
    "in place with a cast": lambda: _x(3, 4, dtype=B16).mul_(_x(3, 4)),
    "no elements": lambda: _x(0, 4) + _x(0, 4),
    "no dimensions": lambda: torch.tensor(1.0) + torch.tensor(2.0),
}


@pytest.mark.parametrize("what", CALLS)
def test_bytes_are_those_of_all_tensors_that_are_touched(what, seen_operators) -> None:
    checked = 0
    for operator in seen_operators(CALLS[what]):
        found = operator.work(list_dtype="float32")
        if found is None or found.family in ("view", "fill", "random"):
            continue
        read = list(_tensors(operator.arguments))
        if operator.name == "aten::copy_":
            read = read[1:]  # the target is written, not read
        if "batch_norm" in operator.name:
            # Running statistics are written in place besides what is returned.
            extra = sum(tensor.nbytes for tensor in operator.arguments[3:5])
        else:
            extra = 0
        assert found.bytes_read == _touched(read), operator.name
        assert found.bytes_written == _touched(_tensors(operator.results)) + extra, operator.name
        checked += 1
    assert checked > 0, what


def _gradients():
    x = _grad(3, 4, 6)
    yield "layer norm", lambda: functional.layer_norm(x, (6,), _grad(6), _grad(6))
    y = _grad(2, 4, 5, 5)
    yield "group norm", lambda: functional.group_norm(y, 2, _grad(4), _grad(4))
    yield "softmax", lambda: torch.softmax(x, 1)
    yield "log-softmax", lambda: torch.log_softmax(x, 1)
    names = (
        "gelu silu relu sigmoid tanh elu leaky_relu hardtanh hardswish hardsigmoid softplus mish hardshrink softshrink"
    )
    for name in names.split():
        yield name, lambda name=name: getattr(functional, name)(x * 1)
    yield "pooling", lambda: functional.avg_pool2d(y, 2)
    yield "interpolation", lambda: functional.interpolate(y, size=(8, 8), mode="bilinear")
    yield "loss", lambda: functional.smooth_l1_loss(x, _x(3, 4, 6), reduction="none")


GRADIENTS = dict(_gradients())


@pytest.mark.parametrize("what", GRADIENTS)
def test_gradients_touch_what_they_are_given_and_return(what, seen_operators) -> None:
    result = GRADIENTS[what]()
    checked = 0
    for operator in seen_operators(lambda: result.backward(torch.ones_like(result))):
        found = operator.work()
        if found is None or "backward" not in operator.name:
            continue
        read = list(_tensors(operator.arguments))
        if operator.name == "aten::native_layer_norm_backward":
            read = [*read[:5]]  # the bias is given but its elements do not matter
        if operator.name in ("aten::avg_pool2d_backward", "aten::upsample_bilinear2d_backward"):
            read = read[:1]  # of the input only the extent matters
        assert found.bytes_read == _touched(read), operator.name
        results = [item for item in operator.results if isinstance(item, torch.Tensor)]
        assert found.bytes_written == _touched(results), operator.name
        checked += 1
    assert checked > 0


def test_a_look_up_reads_the_rows_it_names(seen_operators) -> None:
    table = _x(1000, 6)
    indices = torch.tensor([[3, 1], [4, 1]])
    found = seen_operators(lambda: functional.embedding(indices, table))[-1].work()
    assert (found.bytes_read, found.bytes_written) == (4 * 8 + 4 * 6 * 4, 4 * 6 * 4)


def test_index_select_gather_and_scatter_move_what_they_name(seen_operators) -> None:
    x = _x(5, 4)
    found = seen_operators(lambda: x.index_select(0, INDEX))[-1].work()
    assert (found.bytes_read, found.bytes_written) == (3 * 8 + 3 * 4 * 4, 3 * 4 * 4)
    index = torch.tensor([[0, 1], [1, 0]])
    found = seen_operators(lambda: x.gather(1, index))[-1].work()
    assert (found.bytes_read, found.bytes_written) == (4 * 8 + 4 * 4, 4 * 4)
    found = seen_operators(lambda: x.scatter_add_(1, index, _x(2, 2)))[-1].work()
    assert (found.flops, found.bytes_read, found.bytes_written) == (4, 4 * 8 + 4 * 4 * 2, 4 * 4)


def test_a_fill_writes_and_reads_nothing(seen_operators) -> None:
    calls = (lambda: torch.empty(3, 4).zero_(), lambda: torch.full((3, 4), 1.0), lambda: torch.arange(12.0))
    for call in calls:
        found = [item for item in map(_work, seen_operators(call)) if item.family == "fill"]
        assert [(item.flops, item.bytes_read, item.bytes_written) for item in found] == [(0, 0, 48)]


def test_the_likelihood_reads_one_element_for_each_target(seen_operators) -> None:
    scores = _x(6, 1000)
    target = torch.tensor([1, 2, 3, 4, 5, 6])
    found = seen_operators(lambda: functional.nll_loss(scores, target))[-1].work()
    assert found.bytes_read == 6 * 4 + 6 * 8


def test_the_gradient_of_the_likelihood_writes_one_element_for_each_target(seen_operators) -> None:
    scores, target = _x(6, 1000).requires_grad_(), torch.tensor([1, 2, 3, 4, 5, 6])
    seen = seen_operators(lambda: functional.nll_loss(scores, target).backward())
    (found,) = [one.work() for one in seen if one.name == "aten::nll_loss_backward"]
    # Below it torch calls aten::zero_ for the others, which a recording has as an operator of its own.
    assert found.bytes_written == 6 * 4


def test_fused_adam_reads_four_and_writes_three_values_a_parameter(seen_operators) -> None:
    parameters = [nn.Parameter(_x(5, 6)), nn.Parameter(_x(7))]
    optimizer = torch.optim.AdamW(parameters, fused=True, weight_decay=0.1)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    operators = [operator for operator in seen_operators(optimizer.step) if "fused" in operator.name]
    found = operators[0].work(list_dtype="float32")
    assert found.flops == 37 * 14
    assert (found.bytes_read, found.bytes_written) == (37 * 16, 37 * 12)
    assert operators[0].work().bytes is None  # recorders leave the type of lists out
