import pytest
from tests.bundled.nvprof.databases import call, scalar, tensor

from stepscope.formats.nvtx.calls import operator_name
from stepscope.formats.nvtx.markers import Marker, base_name, parse_marker


@pytest.mark.parametrize(
    ("text", "sort", "name", "sequence"),
    [
        ("mm, seq = 72", "operator", "aten::mm", 72), ("_log_softmax, seq = 0", "operator", "aten::_log_softmax", 0),
        ("AddBackward0, seq = 118", "operator", "AddBackward0", 118),
        ("torch::autograd::CopyBackwards, seq = 92", "operator", "torch::autograd::CopyBackwards", 92),
        ("torch::autograd::AccumulateGrad", "operator", "torch::autograd::AccumulateGrad", None),
        ("aten::view", "operator", "aten::view", None), ("aten::mm, op_id = 3, seq = 4", "operator", "aten::mm", 4),
        ("aten::empty, op_id = 990346", "operator", "aten::empty", None),
        ("aten::view, seq = 7, op_id = 9", "operator", "aten::view", 7),
        ("detach_, op_id = 9", "operator", "detach_", None),
        ("nccl:all_to_all, op_id = 9, sizes = [[4, 2]]", "operator", "nccl:all_to_all", None),
        ("layer: block, seq2", "range", "layer: block, seq2", None),
        ("ProfilerStep#3", "range", "ProfilerStep#3", None), ("", "range", "", None),
    ],
)  # fmt: skip
def test_texts_of_torch_and_of_the_program_are_told_apart(text, sort, name, sequence):
    marker = parse_marker(text)
    assert (marker.sort, marker.name, marker.sequence) == (sort, name, sequence)


def test_a_calls_arguments_keep_their_names_shapes_and_values():
    text = call("torch", "norm", tensor(6, 2, dtype="float16"), scalar(2.0), scalar(None, name="dtype"))
    marker = parse_marker(text)
    assert (marker.sort, marker.name) == ("call", "torch.norm")
    assert [(one.name, one.kind, one.shape, one.value) for one in marker.arguments] == [
        ("", "tensor", (6, 2), "float16"), ("", "float", None, 2.0), ("dtype", "NoneType", None, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "{'mod': __import__('os').system('true'), 'op': 'mm', 'args': []}",
        "{'mod': 'torch', 'op': 'mm', 'args': [x for x in (1,)]}",
        "{'mod': 'torch', 'op': 'mm', 'args': " + "[" * 90_000 + "]" * 90_000 + "}",
        "{'mod': 'torch', 'op': 'mm', 'args': " + "-" * 50_000 + "1}",
        "{'mod': 'torch', 'op': 'mm', 'args': [" + "1, " * 100_000 + "]}",
        "{'mod': 'torch', 'op': 'mm', 'args': [", "{'mod': 'torch', 'op': 7, 'args': []}",
        "{'mod': 'torch', 'op': 'mm'}", "{'mod': ['torch'], 'strRepr': 3}", "{'traceMarker': 'train.py'}",
        "{'mod': {[]: 1}, 'op': 'mm', 'args': []}", "{'mod': 'torch\\x00'",
    ],
)  # fmt: skip
def test_what_is_no_literal_of_pyprof_stays_a_range_and_runs_nothing(text):
    assert parse_marker(text) == Marker("range", text)


@pytest.mark.parametrize(
    "argument",
    [
        "7", "{'name': 3, 'type': [], 'value': 1}", "{'type': 'tensor', 'shape': (-1, 2)}",
        "{'type': 'tensor', 'shape': 'abc'}", "{'type': 'tensor', 'shape': (True, 2)}",
    ],
)  # fmt: skip
def test_arguments_that_pyprof_never_wrote_have_no_shape(argument):
    (found,) = parse_marker(call("torch", "mm", argument)).arguments
    assert found.shape is None


def test_shapes_that_are_no_numbers_are_not_taken():
    assert parse_marker("aten::mm, seq = 1, sizes = [[1, 2], [2, 'x']]").sizes is None
    assert parse_marker("aten::mm, seq = 1, sizes = [[1, 2], []]").sizes == "[[1, 2], []]"


@pytest.mark.parametrize(
    ("module", "function", "operator"),
    [
        ("torch", "mm", "aten::mm"), ("Tensor", "__iadd__", "aten::add_"), ("Tensor", "__radd__", "aten::add"),
        ("Tensor", "__rsub__", "aten::rsub"), ("Tensor", "__truediv__", "aten::div"),
        ("Tensor", "__imul__", "aten::mul_"), ("Tensor", "__invert__", "aten::bitwise_not"),
        ("Tensor", "index_add_", "aten::index_add_"), ("torch.nn.functional", "multi_head_attention_forward", None),
        ("LSTMCell", "forward", None), ("apex.optimizers", "mm", None),
    ],
)  # fmt: skip
def test_python_functions_call_the_operator_of_their_name(module, function, operator):
    assert operator_name(Marker("call", "", module, function)) == operator


def test_names_are_compared_without_namespace_and_place():
    assert [base_name(n) for n in ("aten::add_", "aten::add", "add", "__and__")] == ["add", "add", "add", "__and__"]
