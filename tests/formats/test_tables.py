"""Tables are kept in as few bits as their values need, and hold the same values."""

import pyarrow as pa
import pytest

from stepscope.formats.tables import canonical, small

FAR = 1 << 31


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, None, FAR - 1], pa.int32()), ([-FAR, 5], pa.int32()), ([-FAR - 1, 5], pa.int64()),
        ([0, FAR], pa.int64()), ([None, None], pa.null()),
    ],
)  # fmt: skip
def test_whole_numbers_have_32_bits_where_they_fit(values, kind):
    found = small(pa.chunked_array([pa.array(values, pa.int64())]), pa.int64())
    assert found.type == kind
    assert found.to_pylist() == values


@pytest.mark.parametrize(("words", "index"), [(127, pa.int8()), (128, pa.int16()), (1 << 15, pa.int32())])
def test_words_are_told_by_numbers_as_small_as_there_are_words(words, index):
    texts = pa.array([f"word {n}" for n in range(words)])
    coded = pa.DictionaryArray.from_arrays(pa.array(range(words), pa.int32()), texts)
    found = small(pa.chunked_array([coded]), pa.dictionary(pa.int32(), pa.string()))
    assert found.type.index_type == index
    assert found.cast(pa.string()).to_pylist() == texts.to_pylist()


def test_a_column_that_is_not_there_takes_no_memory():
    table = canonical(pa.table({"start_ns": [1, 2], "name": ["a", "b"]}), "host_event")
    assert table["correlation"].type == pa.null()
    assert table["start_ns"].to_pylist() == [1, 2]
