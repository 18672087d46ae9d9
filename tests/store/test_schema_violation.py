"""Stores whose rows no import writes, with the checksums of what they hold."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscope.base.errors import StoreError
from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.store.manifest import write_store_file
from stepscope.store.open import Store

from .conftest import write_directory

ROWS = {
    "step": [{"step": 1, "end_ns": 1000}, {"step": 2, "start_ns": 1000, "end_ns": 2000}],
    "host_event": [{"name": "aten::mm", "start_ns": 0, "dur_ns": 500}],
    "device_event": [{"name": "gemm", "start_ns": 100 * n, "dur_ns": 50} for n in range(20)],
}


@pytest.fixture
def crafted(tmp_path):
    def craft(table, column, values):
        directory = write_directory(tmp_path / "store", ROWS)
        path = directory / "rank=00000" / f"{table}.0.parquet"
        rows = pq.read_table(path)
        changed = pa.array([values] * rows.num_rows)
        pq.write_table(rows.set_column(rows.column_names.index(column), column, changed), path)
        write_store_file(directory, {"ranks": [0]})
        return directory

    return craft


@pytest.mark.parametrize(
    ("table", "column", "value", "said"),
    [
        ("device_event", "dur_ns", "long", "dur_ns is VARCHAR and not BIGINT"),
        ("device_event", "dur_ns", [1], "dur_ns is"),
        ("device_event", "dur_ns", 2**62, "20 values that it cannot have"),
        ("device_event", "start_ns", -(2**62), "20 values that it cannot have"),
        ("device_event", "kind", None, "kind is"),
        ("step", "start_ns", 1.5, "start_ns is DOUBLE"),
        ("rank", "start_epoch_ns", "now", "start_epoch_ns is VARCHAR"),
    ],
)
def test_rows_that_the_schema_does_not_allow_are_a_damaged_store(crafted, table, column, value, said):
    directory = crafted(table, column, value)
    with pytest.raises(StoreError) as error, Store.open(directory) as store:
        store.verify_rows()
    assert error.value.slug == "store-damaged"
    assert said in error.value.message or table == "rank"


@pytest.mark.parametrize("value", ["long", [1]])
@pytest.mark.parametrize("question", ["summary", "kernels", "idle"])
def test_a_question_that_fails_on_them_says_so(crafted, question, value):
    directory = crafted("device_event", "dur_ns", value)
    with Store.open(directory) as store, pytest.raises(StoreError, match="cannot be read"):
        ask(find(question), store)


def test_a_sound_store_is_told_from_a_defect(tmp_path):
    given_back = {"memory_event": [{"time_ns": 5, "device_kind": "cuda", "bytes": -512}]}
    directory = write_directory(tmp_path / "store", ROWS | given_back)
    with Store.open(directory) as store:
        store.verify_rows()
