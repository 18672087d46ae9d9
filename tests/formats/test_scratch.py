import numpy as np
import pyarrow as pa
import pytest
from tests.bundled.nvprof.databases import Nvprof
from tests.formats.nsys.exports import Nsys

from stepscope.formats import scratch
from stepscope.formats.container import members
from stepscope.formats.registry import format_of
from stepscope.formats.scratch import MIN_BYTES, Scratch, spill, spill_column, spill_columns


def test_without_a_scratch_nothing_is_copied():
    values = np.arange(MIN_BYTES)
    assert spill(values) is values


def test_values_stay_what_they_are_when_their_pages_are_given_back(tmp_path):
    with Scratch(tmp_path, limit=1 << 40) as scratch:
        values = spill(np.arange(MIN_BYTES))
        values[3] = 7
        scratch.give_back()
        assert values[:5].tolist() == [0, 1, 2, 7, 4]
        assert not list(tmp_path.iterdir())
    assert int(values[-1]) == MIN_BYTES - 1


def test_pages_are_given_back_while_the_process_has_too_many(tmp_path):
    # Every process has more than a byte, so that they go all the time.
    with Scratch(tmp_path, limit=1):
        values = spill(np.arange(1 << 20))
        for _ in range(20):
            assert int(values.sum()) == (1 << 20) * ((1 << 20) - 1) // 2


def test_columns_of_every_kind_come_back(tmp_path):
    rows = MIN_BYTES
    columns = {
        "number": pa.array(range(rows), pa.int32()), "gaps": pa.array([None, 1] * (rows // 2), pa.int64()),
        "text": pa.array(["a", None] * (rows // 2)).dictionary_encode(), "nothing": pa.nulls(rows),
        "flag": pa.array([True, False] * (rows // 2)),
    }  # fmt: skip
    with Scratch(tmp_path, limit=1):
        found = spill_columns(columns)
        assert all(found[name].equals(column) for name, column in columns.items())
        parts = pa.chunked_array([columns["number"], columns["number"]])
        assert spill_column(parts).equals(parts)


def _export(path):
    made = Nsys(path)
    made.connection.execute("BEGIN")
    for at in range(0, 40_000, 20):
        made.range(at, at + 9, f"aten::mm, seq = {at}, op_id = {at}")
        made.launch(at, at, "gemm", at + 5, at + 9)
    made.connection.execute("COMMIT")
    return path


def _database(path):
    made = Nvprof(path)
    for at in range(0, 40_000, 20):
        made.launch(at, at, "gemm", at + 5, at + 9)
    return made.written()


@pytest.mark.parametrize("make", [_export, _database])
def test_what_a_reader_hands_over_lies_in_files(make, tmp_path, monkeypatch):
    (member,) = members(make(tmp_path / "recording"))
    known = format_of(member)
    before = known.read(member, None)
    monkeypatch.setattr(scratch, "MIN_BYTES", 256)
    with Scratch(tmp_path, limit=1 << 40):
        in_use = pa.total_allocated_bytes()
        tables = known.read(member, None)
        held = pa.total_allocated_bytes() - in_use
    events = [tables.host_event, tables.device_event]
    assert held < sum(table.nbytes for table in events) / 4
    assert events == [before.host_event, before.device_event]
