"""The work of operator calls, by hand: each answer can be checked on paper."""

import json
import math

import pytest

from stepscope.costs import FAMILIES, Conventions, Row, count_work, formulas, forward_hints, missing_reason, work
from stepscope.costs.families import MODELS
from stepscope.costs.registry import BY_NAME, model_of

FULL = Conventions(causal="full")


def _call(name, *arguments, **options):
    """Count a call whose arguments are shapes (float), ("type", shape), texts of values or None."""
    read = []  # dims, type and value of each
    for argument in arguments:
        if argument is None:
            read.append(([], "", ""))
        elif isinstance(argument, str):
            read.append(([], "ScalarList" if argument.startswith("[") else "Scalar", argument))
        elif isinstance(argument, tuple):
            read.append((argument[1], argument[0], ""))
        else:
            read.append((argument, "TensorList" if argument and isinstance(argument[0], list) else "float", ""))
    dims, types, values = zip(*read, strict=True)
    return work(name, json.dumps(dims), json.dumps(types), None, json.dumps(values), **options)


def test_mm_counts_two_operations_for_each_multiply_add() -> None:
    found = _call("aten::mm", [2, 3], [3, 5])
    assert (found.flops, found.bytes_read, found.bytes_written) == (60, 4 * (6 + 15), 4 * 10)
    assert (found.family, found.unit, found.dtype) == ("gemm", "matrix", "float32")


def test_a_bias_adds_bytes_and_no_operations() -> None:
    plain, biased = _call("aten::mm", [2, 3], [3, 5]), _call("aten::addmm", [5], [2, 3], [3, 5])
    assert biased.flops == plain.flops
    assert biased.bytes_read - plain.bytes_read == 5 * 4


def test_an_addend_times_zero_is_not_read() -> None:
    found = _call("aten::addmm", [2, 5], [2, 3], [3, 5], "0", "1")
    assert found.bytes_read == 4 * (6 + 15)


def test_the_batch_of_a_matmul_counts() -> None:
    """PyProf forgets it for more than two dimensions."""
    assert _call("aten::matmul", [7, 2, 3], [7, 3, 5]).flops == 7 * 60
    assert _call("aten::matmul", [7, 1, 2, 3], [4, 3, 5]).flops == 28 * 60
    assert _call("aten::matmul", [3], [3]).flops == 6
    assert _call("aten::linear", [4, 2, 3], [5, 3], [5]).flops == 4 * 60


def test_baddbmm_reads_what_it_adds_to() -> None:
    """TraceLens leaves it out."""
    found = _call("aten::baddbmm", [2, 3, 5], [2, 3, 4], [2, 4, 5])
    assert found.bytes_read == 4 * (30 + 24 + 40)


def test_a_complex_product_is_four_real_ones() -> None:
    found = _call("aten::mm", ("c10::complex<float>", [2, 3]), ("c10::complex<float>", [3, 5]))
    assert (found.flops, found.dtype) == (240, "float32")


def test_scaled_products_write_the_type_that_is_asked_for() -> None:
    e4m3 = "c10::Float8_e4m3fn"
    scale = ("float", [])
    asked = _call("aten::_scaled_mm", (e4m3, [16, 32]), (e4m3, [32, 48]), scale, scale, None, None, "15")
    assert (asked.flops, asked.bytes_read) == (2 * 16 * 32 * 48, 16 * 32 + 32 * 48 + 8)
    assert asked.bytes_written == 16 * 48 * 2
    assert asked.dtype == "float8_e4m3fn"
    untold = work(
        "aten::_scaled_mm",
        "[[16, 32], [32, 48], [], [], [], [], [], []]",
        json.dumps([e4m3, e4m3, "float", "float", "", "", "Int", "Bool"]),
    )
    assert untold.bytes_written is None
    assert untold.flops == asked.flops


def test_packed_numbers_of_four_bits_count_twice_along_the_inner_dimension() -> None:
    fp4 = "c10::Float4_e2m1fn_x2"
    found = _call("aten::_scaled_mm", (fp4, [16, 32]), (fp4, [32, 48]), None, None, None, None, "15")
    assert found.flops == 2 * 16 * 64 * 48


@pytest.mark.parametrize(
    ("a", "b", "flops", "written"),
    [
        ([10, 4], [3, 4, 6], 2 * 10 * 4 * 6, 10 * 6),
        ([3, 10, 4], [4, 6], 2 * 10 * 4 * 6, 10 * 6),
        ([10, 4], [4, 6], 2 * 10 * 4 * 6, 3 * 10 * 6),
        ([3, 10, 4], [3, 4, 6], 2 * 3 * 10 * 4 * 6, 3 * 10 * 6),
    ],
)
def test_grouped_products_in_all_four_forms(a, b, flops, written) -> None:
    found = _call("aten::_grouped_mm", a, b, ("int", [3]))
    assert (found.flops, found.bytes_written) == (flops, written * 4)


def test_library_convolutions_have_their_arguments_elsewhere() -> None:
    """cuDNN, MIOpen and oneDNN take the padding first, and only cuDNN's has no bias."""
    plain = _call(
        "aten::convolution", [2, 4, 9, 9], [6, 4, 3, 3], None, "[2, 2]", "[1, 1]", "[1, 1]",
        "False", "[0, 0]", "1",
    )  # fmt: skip
    assert plain.flops == 2 * 2 * 6 * 5 * 5 * 4 * 9
    cudnn = _call("aten::cudnn_convolution", [2, 4, 9, 9], [6, 4, 3, 3], "[1, 1]", "[2, 2]", "[1, 1]", "1")
    mkldnn = _call(
        "aten::mkldnn_convolution", [2, 4, 9, 9], [6, 4, 3, 3], None, "[1, 1]", "[2, 2]", "[1, 1]",
        "1",
    )  # fmt: skip
    old = _call("aten::cudnn_convolution", [2, 4, 9, 9], [6, 4, 3, 3], [6], "[1, 1]", "[2, 2]", "[1, 1]", "1")
    same = _call("aten::conv2d", [2, 4, 9, 9], [6, 4, 3, 3], None, "[1, 1]", "same", "[1, 1]", "1")
    assert plain.flops == cudnn.flops == mkldnn.flops == old.flops
    assert plain.bytes_written == cudnn.bytes_written == 2 * 6 * 5 * 5 * 4
    assert old.bytes_read == cudnn.bytes_read + 6 * 4
    assert same.bytes_written == 2 * 6 * 9 * 9 * 4


def test_a_transposed_convolution_has_groups_times_the_weights_channels() -> None:
    """TraceLens ignores the groups."""
    found = _call(
        "aten::convolution", [1, 4, 5, 5], [4, 3, 2, 2], None, "[2, 2]", "[0, 0]", "[1, 1]", "True",
        "[0, 0]", "2",
    )  # fmt: skip
    assert found.bytes_written == 1 * 6 * 10 * 10 * 4
    assert found.flops == 2 * 25 * 4 * 3 * 4


def test_a_convolution_without_values_takes_its_extent_from_its_gradient() -> None:
    arguments = ("[[2, 4, 9, 9], [6, 4, 3, 3], [], [], [], []]",
                 '["float", "float", "GenericList", "GenericList", "GenericList", "Int"]')  # fmt: skip
    assert work("aten::cudnn_convolution", *arguments) is None
    gradient = Row(
        "aten::cudnn_convolution_backward",
        "[[2, 4, 9, 9], [2, 6, 5, 5], [6, 4, 3, 3], []]",
        '["float", "float", "float", "GenericList"]',
    )
    found = work("aten::cudnn_convolution", *arguments, related=[gradient])
    assert found.flops == 2 * 2 * 6 * 5 * 5 * 4 * 9
    assert found.notes == ("extent of the result taken from its gradient",)
    other = Row(gradient.name, gradient.dims.replace("[6, 4, 3, 3]", "[6, 4, 5, 5]"), gradient.types)
    assert work("aten::cudnn_convolution", *arguments, related=[other]) is None

    weight = ("[[], [2, 6, 5, 5], [2, 4, 9, 9], []]", '["GenericList", "float", "float", "Int"]')
    assert work("aten::cudnn_convolution_backward_weight", *weight) is None
    inner = work("aten::cudnn_convolution_backward_weight", *weight, related=[gradient])
    assert (inner.flops, inner.bytes_written) == (found.flops, 6 * 4 * 9 * 4)


def test_gradients_without_a_recorded_mask_are_a_lower_bound() -> None:
    found = work(
        "aten::convolution_backward",
        "[[2, 6, 5, 5], [2, 4, 9, 9], [6, 4, 3, 3], [], [], [], [], [], [], [], []]",
        json.dumps(["float"] * 3 + ["GenericList"] * 4 + ["Bool", "GenericList", "Int", "BoolList"]),
    )
    assert found.bound == "lower"
    assert found.flops == 2 * 2 * 6 * 5 * 5 * 4 * 9
    assert found.bytes is None


def test_causal_attention_counts_the_pairs_that_the_mask_leaves() -> None:
    shapes = ([1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8])
    name = "aten::_scaled_dot_product_flash_attention"
    masked = _call(name, *shapes, "0.", "True", "False", None)
    full = _call(name, *shapes, "0.", "True", "False", None, conventions=FULL)
    plain = _call(name, *shapes, "0.", "False", "False", None)
    assert (masked.flops, full.flops, plain.flops) == (2 * 10 * 32, 2 * 16 * 32, 2 * 16 * 32)


def test_causal_attention_with_more_keys_than_queries_is_counted() -> None:
    """TraceLens raises ValueError here."""
    shapes = ([1, 1, 2, 8], [1, 1, 5, 8], [1, 1, 5, 8])
    found = _call("aten::_scaled_dot_product_efficient_attention", *shapes, None, "False", "0.", "True", None)
    assert found.flops == 32 * (1 + 2)
    ends_together = _call(
        "flash_attn::_flash_attn_forward", *([1, 2, 1, 8], [1, 5, 1, 8], [1, 5, 1, 8]), "0.", "1.",
        "True", "-1", "-1",
    )  # fmt: skip
    assert ends_together.flops == 32 * (4 + 5)


def test_attention_in_float32_moves_twice_the_bytes() -> None:
    """TraceLens takes two bytes for every type."""
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    single = _call(name, [1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8], "0.", "False", None, None)
    half = [("c10::Half", [1, 2, 4, 8])] * 3
    double_width = _call(name, *half, "0.", "False", None, None)
    assert single.bytes_read == 2 * double_width.bytes_read == 3 * 64 * 4
    assert single.bytes_written == 64 * 4 + 8 * 4
    assert double_width.bytes_written == 64 * 2 + 8 * 4  # sums are kept in float32


def test_shared_heads_save_bytes_and_no_products() -> None:
    name = "aten::_scaled_dot_product_cudnn_attention"
    rest = (None, "True", "0.", "False", "False", None)
    own = _call(name, [1, 8, 4, 8], [1, 8, 4, 8], [1, 8, 4, 8], *rest)
    shared = _call(name, [1, 8, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8], *rest)
    assert shared.flops == own.flops
    assert own.bytes_read - shared.bytes_read == 2 * 6 * 4 * 8 * 4


def test_a_window_leaves_fewer_pairs() -> None:
    qkv = [[1, 6, 1, 8]] * 3
    rest = (None, None, "6", "6", "0.", "True", "False", None)
    open_window = _call("aten::_flash_attention_forward", *qkv, *rest, None, None)
    window = _call("aten::_flash_attention_forward", *qkv, *rest, "2", "0")
    assert open_window.flops == 21 * 32
    assert window.flops == (1 + 2 + 3 * 4) * 32


def test_packed_sequences_count_only_where_their_lengths_are_known() -> None:
    half = "c10::Half"
    starts = ("int", [4])
    equal = _call(
        "aten::_flash_attention_forward", *[(half, [30, 2, 8])] * 3, starts, starts, "10", "10",
        "0.", "False", "False", None,
    )  # fmt: skip
    assert equal.flops == 3 * 2 * 100 * 32
    unequal = _call(
        "aten::_flash_attention_forward", *[(half, [25, 2, 8])] * 3, starts, starts, "10", "10",
        "0.", "False", "False", None,
    )  # fmt: skip
    assert unequal is None


def test_attention_whose_mask_was_not_recorded_is_a_lower_bound() -> None:
    found = work(
        "aten::_scaled_dot_product_flash_attention",
        "[[1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8], [], [], []]",
        '["float", "float", "float", "Double", "Bool", "Bool"]',
    )
    assert (found.bound, found.flops) == ("lower", 2 * 10 * 32)


def test_a_norm_that_does_not_train_is_told_from_one_that_does() -> None:
    """TraceLens takes the text "False" for true."""
    arguments = ([2, 3, 4], [3], [3], [3], [3])
    training = _call("aten::native_batch_norm", *arguments, "True", "0.1", "1e-05")
    evaluation = _call("aten::native_batch_norm", *arguments, "False", "0.1", "1e-05")
    assert training.flops == 24 * 7 + 4 * 3 + 6 * 3
    assert evaluation.flops == 24 * 4 + 2 * 3
    assert evaluation.bytes_written == 24 * 4


def test_a_norm_without_weight_reads_none() -> None:
    """TraceLens takes an absent weight, whose shape is [], for a present one."""
    bare = _call("aten::native_layer_norm", [2, 8], "[8]", None, None, "1e-05")
    weighted = _call("aten::native_layer_norm", [2, 8], "[8]", [8], [8], "1e-05")
    assert bare.flops == 5 * 16 + 4 * 2
    assert weighted.flops - bare.flops == 2 * 16
    assert weighted.bytes_read - bare.bytes_read == 2 * 8 * 4


def test_an_output_mask_is_read_flag_by_flag() -> None:
    """TraceLens indexes the text "[False, ...]"."""
    arguments = ([2, 8], [2, 8], "[8]", [2, 1], [2, 1], [8], [8])
    only_input = _call("aten::native_layer_norm_backward", *arguments, "[True, False, False]")
    only_weight = _call("aten::native_layer_norm_backward", *arguments, "[False, True, False]")
    assert (only_input.flops, only_input.bytes_written) == (16 * 10, 16 * 4)
    assert (only_weight.flops, only_weight.bytes_written) == (16 * 4, 8 * 4)


def test_a_reduction_honours_its_dimensions() -> None:
    """TraceLens ignores dimensions that are recorded as text and writes one element."""
    some = _call("aten::sum", [3, 4, 5], "[0, 2]", "True", None)
    last = _call("aten::sum", [3, 4, 5], "[-1]", "False", None)
    every = _call("aten::sum", [3, 4, 5], None)
    assert (some.flops, some.bytes_written) == (60, 4 * 4)
    assert (last.flops, last.bytes_written) == (60, 12 * 4)
    assert (every.flops, every.bytes_written) == (60, 4)
    untold = work("aten::sum", "[[3, 4, 5], [], [], []]", '["float", "GenericList", "Bool", ""]')
    assert (untold.flops, untold.bytes_written) == (60, None)


def test_the_larger_of_two_tensors_is_left_to_the_operator_inside() -> None:
    assert _call("aten::max", [3], [3]) is None
    assert _call("aten::maximum", [3], [3]).flops == 3


def test_integer_arithmetic_is_no_floating_point_operation() -> None:
    assert _call("aten::add", ("long int", [5]), ("long int", [5]), "1").flops == 0
    assert _call("aten::div", ("long int", [5]), ("long int", [5])).flops == 5
    assert _call("aten::eq", ("long int", [5]), "1").flops == 0
    assert _call("aten::mm", ("signed char", [2, 3]), ("signed char", [3, 5])).flops == 60


def test_a_factor_other_than_one_costs_an_operation() -> None:
    assert _call("aten::add", [5], [5], "1").flops == 5
    assert _call("aten::add", [5], [5], "2").flops == 10


def test_an_output_that_waits_to_be_resized_does_not_count() -> None:
    """Kineto records the result of an `out=` form before it has its size."""
    found = _call("aten::abs", [1, 7], [0])
    assert (found.flops, found.bytes_read, found.bytes_written) == (7, 28, 28)


def test_views_and_allocations_do_nothing() -> None:
    for name in ("aten::view", "aten::t", "aten::as_strided", "aten::detach", "aten::empty"):
        found = _call(name, [3, 4])
        assert (found.family, found.flops, found.bytes) == ("view", 0, 0)


def test_what_has_no_model_is_none() -> None:
    assert _call("aten::index", [3, 4], None) is None  # its indices are never recorded
    assert _call("my::operator", [3, 4]) is None
    assert work("aten::mm", None) is None
    assert model_of("autograd::engine::evaluate_function: AddmmBackward0") is None


def test_lists_of_tensors_need_their_type_from_elsewhere() -> None:
    arguments = ([[3, 4], [5]], [[3, 4], [5]], "1")
    untold = _call("aten::_foreach_add_", *arguments)
    assert (untold.flops, untold.bytes) == (17, None)
    told = _call("aten::_foreach_add_", *arguments, list_dtype="bfloat16")
    assert (told.flops, told.bytes_read, told.bytes_written) == (17, 17 * 4, 17 * 2)


def test_a_list_too_long_to_be_recorded_is_not_taken_for_an_empty_one() -> None:
    assert work("aten::_foreach_add_", "[[], [], []]", '["TensorList", "TensorList", "Scalar"]') is None
    assert work("aten::cat", "[[], []]", '["TensorList", "Scalar"]') is None


def test_the_options_of_fused_optimizers_count() -> None:
    lists = [[[10]]] * 4
    rest = ("0.001", "0.9", "0.999")
    adam = _call("aten::_fused_adam_", *lists, None, [[]], *rest, "0.", "1e-08", "False", "False")
    decayed = _call("aten::_fused_adam_", *lists, None, [[]], *rest, "0.1", "1e-08", "True", "False")
    sgd = _call("aten::_fused_sgd_", *lists[:3], "0.", "0.9", "0.001", "0.", "False", "False", "False")
    assert (adam.flops, decayed.flops, sgd.flops) == (130, 160, 40)


def test_a_network_of_two_layers_and_directions() -> None:
    weights = [[40, 6], [40, 10]] * 2 + [[40, 20], [40, 10]] * 2
    found = _call(
        "aten::_cudnn_rnn", [7, 2, 6], weights, "4", None, [4, 2, 10], [4, 2, 10], "2", "10", "0",
        "2", "False", "0.", "True", "True", "[]", None,
    )  # fmt: skip
    rows = 7 * 2
    assert found.flops == 2 * rows * 2 * 40 * (6 + 10) + 2 * rows * 2 * 40 * (20 + 10)
    assert found.flops == 2 * rows * sum(math.prod(shape) for shape in weights)


def test_generated_kernels_count_what_their_name_lists() -> None:
    found = _call("triton_poi_fused_add_cos_sin_0", [10, 10], [10, 10], [10, 10], "100")
    assert (found.flops, found.bytes_read, found.bytes_written) == (300, 800, 400)
    assert found.bound == "lower"
    # Of a table of an embedding an element a point is read, whatever else it holds.
    looked_up = _call("triton_poi_fused_embedding_0", [6, 10], [50_000, 10], [6, 10], "60")
    assert (looked_up.bytes_read, looked_up.bytes_written) == (480, 240)
    rows = _call("triton_per_fused_native_layer_norm_3", [4, 64], [64], [4, 64], "4", "64")
    assert rows.flops == 4 * 64 * 7
    assert _call("triton_tem_fused_mm_1", [4, 64], [64, 4], [4, 4]) is None


def test_every_name_has_one_model_and_every_model_one_family() -> None:
    names = [name for model in MODELS for name in model.names]
    assert len(names) == len(set(names)) == len(BY_NAME)
    assert {model.family for model in MODELS} <= set(FAMILIES)
    assert all(set(model.composites) <= set(model.names) for model in MODELS)


def test_an_operator_without_a_formula_is_known_all_the_same() -> None:
    einsum = model_of("aten::einsum")
    assert einsum.is_eligible
    row = Row("aten::einsum", "[[2, 3], [3, 5]]")
    assert (count_work(row), missing_reason(row)) == (None, "no formula")
    assert "gemm.uncounted" not in {formula.formula for formula in formulas()}


def test_every_formula_is_explained() -> None:
    listed = formulas()
    assert len(listed) > 60
    for formula in listed:
        assert len(formula.text) > 30, formula.formula


def test_what_cannot_be_counted_says_why() -> None:
    assert missing_reason(Row("aten::mm", "[[2, 3], [3, 5]]")) is None
    assert missing_reason(Row("my::operator", "[[2, 3]]")) == "no formula"
    assert missing_reason(Row("aten::mm")) == "inputs not recorded"
    assert missing_reason(Row("aten::cat", "[[], []]", '["TensorList", "Scalar"]')) == "inputs do not tell"


def test_only_few_operators_want_to_see_others() -> None:
    assert BY_NAME["aten::cudnn_convolution"].asks_related
    assert BY_NAME["aten::cudnn_convolution_backward_weight"].asks_related
    assert BY_NAME["aten::max_pool2d_with_indices"].asks_related
    assert not BY_NAME["aten::mm"].asks_related
    assert not BY_NAME["aten::convolution_backward"].asks_related
    assert "aten::convolution_backward" in forward_hints()


def test_conventions_say_what_they_are() -> None:
    assert "multiply-add = 2" in Conventions().describe()
    assert Conventions().describe() != FULL.describe()
