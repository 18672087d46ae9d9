"""Values that are kept as bytes come back as they were, and a stranger's bytes make nothing else."""

import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from stepscope.store.packed import packed, unpacked


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    values: Any


class Pair(NamedTuple):
    one: int
    two: float


@pytest.mark.parametrize(
    "value",
    [
        None, True, -(2**70), "\udc80 text", 0.1, math.inf, [], (1, [2.5, None]), {}, {(0, 1): "x", None: (3,)},
        Record("a", Pair(1, 2.0)), [Record("b", None)],
    ],
)  # fmt: skip
def test_a_value_comes_back(value: Any) -> None:
    again = unpacked(packed(value), Record, Pair)
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize("kind", ["bool", "int8", "int64", "float64"])
@pytest.mark.parametrize("shape", [(0, 8), (1,), (3, 2)])
def test_an_array_comes_back_with_its_type_and_shape(kind: str, shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape)).reshape(shape).astype(kind)
    one, other = unpacked(packed([array, array[:1]]))
    assert one.dtype == array.dtype
    assert np.array_equal(one, array)
    assert np.array_equal(other, array[:1])
    one += one  # it can be changed


def test_a_table_comes_back_with_its_types() -> None:
    table = pa.table({"n": pa.array([1, None], pa.int16()), "t": ["a", "b"]})
    assert unpacked(packed(table)).equals(table)


def test_what_is_no_number_text_or_array_is_not_kept() -> None:
    for value in (object(), np.array(["text"]), np.ma.MaskedArray([1], mask=[True]), {1, 2}):
        with pytest.raises(TypeError):
            packed([value])


@pytest.mark.parametrize(
    "told",
    [
        {"record": ["Popen", ["true"]]}, {"array": [0, "|O", [1]]}, {"array": [0, "<i8", [9]]}, {"table": [0, 8]},
        {"array": [-8, "<i8", [1]]}, {"list": 3}, {"unknown": []}, {"dict": [[{"list": []}, 1]]}, {"float": "x"},
    ],
)  # fmt: skip
def test_crafted_bytes_make_no_other_value(told: Any) -> None:
    head = json.dumps(told).encode()
    with pytest.raises(ValueError, match=r"."):
        unpacked(len(head).to_bytes(8, "little") + head + bytes(-len(head) % 8) + bytes(8), Record)
