"""Texts that are read by columns mean what each means alone."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.nvtx.markers import parse_marker
from stepscope.formats.nvtx.texts import Texts
from stepscope.formats.vocabulary import NAMELESS_RANGE


def read(*texts):
    """Each text's marker, with autograd's number as its own."""
    known = Texts()
    found = known.read(pa.array(texts, pa.string())).to_pylist()
    return [(known.markers[one["marker"]], one["sequence"]) for one in found], known


def assert_read_as_alone(*texts):
    for text, (marker, sequence) in zip(texts, read(*texts)[0], strict=True):
        alone = parse_marker(text)
        assert sequence == alone.sequence
        assert (marker.sort, marker.name, marker.sizes) == (alone.sort, alone.name, alone.sizes)
        assert (marker.types, marker.values, marker.of_model) == (alone.types, alone.values, alone.of_model)
        assert (marker.arguments, marker.frames) == (alone.arguments, alone.frames)


def test_texts_that_differ_in_their_numbers_share_a_marker():
    texts = [f"aten::mm, seq = {n}, op_id = {n + 5}, sizes = [[8, 4], [4, 2]]" for n in range(40)]
    found, known = read(*texts, "aten::mm, op_id = 3, sizes = [[8, 4], [4, 2]]")
    assert len(known.markers) == 2
    assert [sequence for _, sequence in found] == [*range(40), None]


@pytest.mark.parametrize(
    "text",
    [
        "mm, seq = 7", "aten::mm, op_id = 9, seq = 7", "aten::mm, seq = 1, seq = 2",
        "aten::mm, seq = 1234567890123456789012", "aten::mm, seq = 12abc",
        "aten::mm, seq = 7, op_id = 9, sizes = [[8, 4]], input_op_ids = [(12,0), (13,1)]",
        "aten::mm, op_id = ", "aten::mm, seq = 8, op_id = 1234567890123456789", "step 5, op_id = 07",
        "epoch, seq = 7 of 9", "batch, op_id = 3, lr = 1e-3",
        "{'mod': 'torch', 'op': 'f', 'args': [{'name': ', seq = 5', 'type': 'int', 'value': 5}]}",
        "{'traceMarker': ['a, seq = 5']}", "{'mod': 'x, seq = 4', 'strRepr': ', op_id = 9'}",
        "autograd::engine::evaluate_function: MmBackward0, seq = 7, op_id = 2", "", ", seq = 4",
        "two\nlines, seq = 4",
        'aten::f, seq = 7, op_id = 1, sizes = [[8], []], types = ["float32", "str"], values = ["", "a, seq = 5"]',
        'aten::f, seq = 7, sizes = [[8]], types = ["float32"]', "nn.Module: layers.0 (torch.nn.Linear, model)",
    ],
)  # fmt: skip
def test_odd_texts_are_read_as_each_alone(text):
    assert_read_as_alone(text, "aten::mm, seq = 3, op_id = 4", text)


PARTS = st.sampled_from(
    ["aten::mm", "relu", "step 3", ", seq = 5", ", op_id = 71", ", seq = ", "12", "x", ", sizes = [[8]]",
     ", input_op_ids = [(1,0)]", ",", " ", "{'mod': 'a'"]
)  # fmt: skip


@given(st.lists(st.lists(PARTS, max_size=6).map("".join), min_size=1, max_size=8))
@examples(200)
def test_any_texts_are_read_as_each_alone(texts):
    assert_read_as_alone(*texts)


def test_a_text_that_is_missing_is_a_range_without_a_name():
    assert read(None)[0][0][0].name == NAMELESS_RANGE
