"""Laws that every family's work keeps, against oracles that count one by one."""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.costs import Conventions, work
from stepscope.costs.call import Tensor, broadcast, parse_call, parse_value
from stepscope.costs.families.attention import visible_pairs
from stepscope.costs.registry import BY_NAME

few = examples(60)
small = st.integers(1, 6)
shapes = st.lists(small, min_size=1, max_size=4)


def _work(name, dims, values=None, types=None):
    values = values or [""] * len(dims)
    kinds = types or ["float" if shape else "Scalar" for shape in dims]
    return work(name, json.dumps(dims), json.dumps(kinds), None, json.dumps(values))


@few
@given(small, small, small, small, small)
def test_a_product_dealt_out_over_its_rows_is_the_sum_of_its_parts(m1, m2, k, n, b) -> None:
    whole = _work("aten::mm", [[m1 + m2, k], [k, n]]).flops
    assert whole == sum(_work("aten::mm", [[m, k], [k, n]]).flops for m in (m1, m2))
    assert _work("aten::bmm", [[b, m1, k], [b, k, n]]).flops == b * _work("aten::mm", [[m1, k], [k, n]]).flops


@few
@given(shapes, shapes)
def test_matmul_counts_every_pair_of_rows_and_columns(left, right) -> None:
    right = [*right[:-2], left[-1], right[-1]] if len(right) > 1 else [left[-1]]
    found = _work("aten::matmul", [left, right])
    batch = broadcast(tuple(left[:-2]), tuple(right[:-2]))
    if batch is None:
        assert found is None
        return
    rows = left[-2] if len(left) > 1 else 1
    columns = right[-1] if len(right) > 1 else 1
    counted = sum(2 * left[-1] for _ in range(math.prod(batch) * rows * columns))
    assert found.flops == counted


@few
@given(
    st.integers(1, 2),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(3, 7), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2)),
             min_size=1, max_size=2),
    st.integers(1, 2),
)  # fmt: skip
def test_a_convolution_counts_every_weight_at_every_position(batch, groups, channels, outs, axes, dilation) -> None:
    """The oracle lays the kernel on the padded line and counts where it fits."""
    rank = len(axes)
    extent = []
    for size, kernel, stride, padding in axes:
        reach = dilation * (kernel - 1)
        starts = [at for at in range(0, size + 2 * padding, stride) if at + reach < size + 2 * padding]
        extent.append(len(starts))
    dims = [
        [batch, channels * groups, *(axis[0] for axis in axes)],
        [outs * groups, channels, *(axis[1] for axis in axes)],
        [], [], [], [], [], [], [],
    ]  # fmt: skip
    values = [
        "", "", "",
        str([axis[2] for axis in axes]), str([axis[3] for axis in axes]), str([dilation] * rank),
        "False", str([0] * rank), str(groups),
    ]  # fmt: skip
    types = ["float", "float", "", *["Scalar"] * 6]
    found = _work("aten::convolution", dims, values, types)
    if min(extent) == 0:
        assert found is None
        return
    kernel = math.prod(axis[1] for axis in axes)
    positions = math.prod(extent)
    assert found.flops == 2 * batch * positions * outs * groups * channels * kernel
    assert found.bytes_written == 4 * batch * outs * groups * positions


@few
@given(
    st.integers(0, 9),
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from(["top", "bottom"]),
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 5),
)
def test_visible_pairs_are_those_of_the_mask(queries, keys, causal, corner, left, right) -> None:
    shift = keys - queries if corner == "bottom" else 0
    seen = [
        (query, key)
        for query, key in itertools.product(range(queries), range(keys))
        if not (causal and key > query + shift)
        if left is None or key >= query + shift - left
        if right is None or key <= query + shift + right
    ]
    counted = visible_pairs(queries, keys, causal=causal, corner=corner, left=left, right=right)
    assert counted == len(seen)


@few
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 8), st.integers(1, 8), small, small)
def test_attention_never_counts_more_under_a_mask(batch, heads, queries, keys, width, deep) -> None:
    dims = [[batch, heads, queries, width], [batch, heads, keys, width], [batch, heads, keys, deep]]
    values = ["", "", "", "0.", "True", "False"]
    texts = (json.dumps([*dims, [], [], []]), json.dumps(["float"] * 3 + ["Scalar"] * 3), None)
    name = "aten::_scaled_dot_product_flash_attention"
    masked = work(name, *texts, json.dumps(values))
    full = work(name, *texts, json.dumps(values), conventions=Conventions(causal="full"))
    assert 0 < masked.flops <= full.flops == 2 * batch * heads * queries * keys * (width + deep)
    assert masked.bytes == full.bytes


@few
@given(shapes, st.integers(1, 3))
def test_a_norm_of_rows_is_the_sum_over_its_rows(shape, rows) -> None:
    width = shape[-1]
    values = ["", f"[{width}]", "", "", "1e-05"]
    types = ["float", "Scalar", "float", "float", "Scalar"]

    def flops(dims):
        return _work("aten::native_layer_norm", [dims, [], [width], [width], []], values, types).flops

    assert flops([rows, *shape]) == rows * flops(shape)


@few
@given(shapes, shapes)
def test_softmax_and_losses_grow_with_their_elements(shape, other) -> None:
    found = _work("aten::_softmax", [shape, [], []], ["", "0", "False"])
    assert (found.flops, found.bytes_read) == (5 * math.prod(shape), 4 * math.prod(shape))
    back = _work("aten::_softmax_backward_data", [shape, shape, [], []], ["", "", "0", "6"])
    assert back.flops == 4 * math.prod(shape)
    classes, targets = other[0] + 1, shape[0]
    dims = [[targets, classes], [targets], [], [], []]
    loss = _work(
        "aten::nll_loss_forward", dims, ["", "", "", "1", "-100"],
        ["float", "long int", "", "Scalar", "Scalar"],
    )  # fmt: skip
    assert (loss.flops, loss.bytes_read) == (targets, targets * 12)


@few
@given(shapes, shapes)
def test_a_broadcast_result_has_the_extent_that_numpy_gives(left, right) -> None:
    numpy = pytest.importorskip("numpy")
    found = _work("aten::mul", [left, right])
    try:
        extent = numpy.broadcast_shapes(tuple(left), tuple(right))
    except ValueError:
        assert found is None
        return
    assert found.flops == math.prod(extent)
    assert found.bytes_read == 4 * (math.prod(left) + math.prod(right))
    assert found.bytes_written == 4 * math.prod(extent)


@few
@given(shapes, st.data())
def test_a_reduction_writes_what_is_left(shape, data) -> None:
    dims = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), max_size=4))
    found = _work("aten::sum", [shape, [], [], []], ["", str(dims), "False", ""])
    reduced = {dim % len(shape) for dim in dims} if dims else set(range(len(shape)))
    left = math.prod(size for dim, size in enumerate(shape) if dim not in reduced)
    assert (found.flops, found.bytes_written) == (math.prod(shape), 4 * left)


@few
@given(shapes, st.integers(0, 3))
def test_looking_up_counts_rows_and_joining_counts_parts(shape, copies) -> None:
    width = shape[-1]
    found = _work("aten::embedding", [[9, width], shape], types=["float", "long int"])
    assert found.bytes_written == 4 * width * math.prod(shape)
    assert found.bytes_read == found.bytes_written + 8 * math.prod(shape)
    parts = [shape] * (copies + 1)
    joined = work(
        "aten::cat", json.dumps([parts, []]), '["TensorList", "Scalar"]', None, '["", "0"]',
        list_dtype="float32",
    )  # fmt: skip
    assert joined.bytes_read == joined.bytes_written == 4 * (copies + 1) * math.prod(shape)


@few
@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=2),
    st.lists(st.integers(1, 4), min_size=2, max_size=2),
    st.lists(st.integers(1, 4), min_size=2, max_size=2),
    st.integers(0, 2),
    st.booleans(),
)
def test_pooling_counts_every_window(extent, kernel, stride, padding, ceil) -> None:
    """The oracle slides the window; with ceil it may overhang but must begin in input or left pad."""
    padding = min(padding, min(kernel) // 2)  # torch refuses more
    windows = 1
    for n, k, s in zip(extent, kernel, stride, strict=True):
        whole = n + 2 * padding
        fits = [at for at in range(0, whole, s) if at + k <= whole]
        if ceil and fits and fits[-1] + k < whole and fits[-1] + s < n + padding:
            fits.append(fits[-1] + s)
        windows *= len(fits)
    values = ["", str(kernel), str(stride), str([padding] * 2), str(ceil), "True", ""]
    types = ["float", *["Scalar"] * 5, ""]
    found = _work("aten::avg_pool2d", [[1, 1, *extent], *[[]] * 6], values, types)
    if windows == 0:
        assert found is None or any(k > n + 2 * padding for n, k in zip(extent, kernel, strict=True))
        return
    assert found.bytes_written == 4 * windows
    assert found.flops == windows * (math.prod(kernel) + 1)


@few
@given(small, small, small)
def test_cells_count_both_of_their_products(batch, inputs, hidden) -> None:
    dims = [[batch, inputs], [[batch, hidden]] * 2, [4 * hidden, inputs], [4 * hidden, hidden]]
    types = ["float", "TensorList", "float", "float"]
    found = _work("aten::lstm_cell", dims, types=types)
    assert found.flops == 2 * batch * 4 * hidden * (inputs + hidden)


@few
@given(st.lists(shapes, min_size=1, max_size=5))
def test_lists_count_as_the_sum_of_their_tensors(tensors) -> None:
    elements = sum(math.prod(shape) for shape in tensors)
    copied = _work("aten::_foreach_zero_", [tensors], types=["TensorList"])
    assert copied.flops == 0
    squared = _work("aten::_foreach_sqrt", [tensors], types=["TensorList"])
    assert squared.flops == elements
    adam = [tensors] * 4
    found = work(
        "aten::_fused_adam_", json.dumps(adam), json.dumps(["TensorList"] * 4),
        list_dtype="float32",
    )  # fmt: skip
    assert (found.flops, found.bytes_read) == (13 * elements, 16 * elements)


@few
@given(shapes, st.sampled_from(["copy_", "fill_", "normal_", "dropout"]))
def test_moving_and_filling_count_their_bytes_only(shape, name) -> None:
    if name == "copy_":
        found = _work("aten::copy_", [shape, shape, []], ["", "", "False"])
        assert (found.flops, found.bytes_read, found.bytes_written) == (0, 4 * math.prod(shape), 4 * math.prod(shape))
    elif name == "dropout":
        found = _work("aten::native_dropout", [shape, [], []], ["", "0.5", "True"])
        assert (found.flops, found.bytes_written) == (2 * math.prod(shape), 5 * math.prod(shape))
    else:
        found = _work(f"aten::{name}", [shape])
        assert (found.flops, found.bytes_read, found.bytes_written) == (0, 0, 4 * math.prod(shape))


@few
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-6, 6)), max_size=3))
def test_stored_elements_bound_the_different_places(axes) -> None:
    """Equal to the different places where windows do not overlap, never fewer."""
    tensor = Tensor(tuple(n for n, _ in axes), "float32", tuple(step for _, step in axes))
    places = {sum(place) for place in itertools.product(*([at * step for at in range(n)] for n, step in axes))}
    assert len(places) <= tensor.stored_elements <= max(1, tensor.elements)
    contiguous = Tensor((3, 4, 5), "float32", (20, 5, 1))
    repeated = Tensor((3, 4, 5), "float32", (0, 5, 1))
    assert (contiguous.stored_elements, repeated.stored_elements) == (60, 20)


texts = st.none() | st.text(max_size=30) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
).map(json.dumps)  # fmt: skip


@examples(200)
@given(st.sampled_from(sorted(BY_NAME)), texts, texts, texts, texts)
def test_hostile_texts_give_none_or_sound_work(name, dims, types, strides, values) -> None:
    found = work(name, dims, types, strides, values)
    assert found is None or found.flops >= 0


argument = st.one_of(
    st.tuples(st.lists(st.integers(0, 5), max_size=5), st.sampled_from(["float", "long int", "bool"])),
    st.tuples(st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=3), st.just("TensorList")),
    st.tuples(st.just([]), st.sampled_from(["Scalar", "", "ScalarList", "Int", "TensorList"])),
)  # fmt: skip
value = st.sampled_from(
    ["", "0", "1", "-1", "2", "True", "False", "0.5", "[]", "[0]", "[1, 1]", "[2, 2]", "[0, 0, 0]",
     "[True, False, True]", "[-3]", "inf", "nan", "mean", "999999999999", "[1, 2", "None"]
)  # fmt: skip


@examples(25)
@given(st.lists(st.tuples(argument, value), max_size=15))
def test_every_model_takes_arguments_it_was_not_made_for(arguments) -> None:
    dims = json.dumps([shape for (shape, _), _ in arguments])
    types = json.dumps([kind for (_, kind), _ in arguments])
    values = json.dumps([text for _, text in arguments])
    for name in BY_NAME:
        found = work(name, dims, types, None, values)
        if found is not None:
            assert found.flops >= 0, name
            assert found.bytes_read is None or found.bytes_read >= 0, name
            assert found.bytes_written is None or found.bytes_written >= 0, name


@few
@given(st.recursive(st.booleans() | st.integers(-(10**6), 10**6), st.lists, max_leaves=5))
def test_values_survive_being_written_as_text(item) -> None:
    def frozen(part):
        return tuple(frozen(inner) for inner in part) if isinstance(part, list) else part

    nested = isinstance(item, list) and any(isinstance(inner, list) for inner in item)
    assert parse_value(str(item)) == (None if nested else frozen(item))


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a": 1}', "[[1, 2], [true]]", "[[1.5]]", "[[-1]]", '["8"]', "[[99999999999999999]]",
     "9" * 5000, "null", "", "[[1], [[1], 2]]"],
)  # fmt: skip
def test_shapes_that_are_none_give_no_call(text) -> None:
    assert parse_call("aten::mm", text, None) is None


def test_numbers_too_large_for_a_table_are_no_work() -> None:
    assert work("aten::mm", "[[100000000, 100000000], [100000000, 100000000]]", '["float", "float"]') is None
