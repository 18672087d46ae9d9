"""Exports that are locked, cut off, unmerged, without tables, or made to harm."""

import pyarrow as pa
import pytest
from tests.formats.nsys.exports import PROCESS, Nsys, global_tid, host

import stepscope
from stepscope.formats.cupti.columns import first_named


@pytest.fixture
def nsys(tmp_path):
    made = Nsys(tmp_path / "report.sqlite")
    for number in range(200):
        made.launch(number * 100, number, "gemm", number * 100 + 10, number * 100 + 50)
        made.range(number * 100, number * 100 + 60, f"aten::mm, seq = {number}, op_id = {number}")
    return made


def test_an_export_that_is_locked_is_read_as_it_is(nsys):
    nsys.connection.execute("BEGIN EXCLUSIVE")
    assert nsys.read().device_event.num_rows == 200
    nsys.connection.execute("ROLLBACK")


def test_changes_that_are_not_merged_are_not_read_and_said(nsys):
    nsys.connection.execute("PRAGMA wal_autocheckpoint = 0")
    nsys.connection.execute("PRAGMA journal_mode = WAL")
    nsys.launch(90_000, 900, "late", 90_010, 90_020)
    tables = nsys.read()
    assert "late" not in [name for (name,) in host(tables, "name")]
    assert tables.device_event.num_rows == 200
    assert tables.report.damage == {"unmerged_wal": 1}
    with stepscope.open(nsys.path, cache=False) as trace:
        said = [row["explanation"] for row in trace.checks().rows() if row["severity"] != "ok"]
    assert any("-wal" in one for one in said)


def test_tables_with_other_columns_are_read_for_what_they_have(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    nsys.insert("CUPTI_ACTIVITY_KIND_KERNEL", start=5, end=9, unknown="x")
    nsys.insert("NVTX_EVENTS", start=1, end=20, text="step", globalTid=global_tid(PROCESS))
    nsys.insert("COMPOSITE_EVENTS", anything=1)
    nsys.insert("GPU_METRICS", anything=1)
    nsys.insert("MPI_RANKS", anything=1)
    tables = nsys.read()
    assert tables.device_event["name"].to_pylist() == ["(kernel without a name)"]
    assert host(tables, "name") == [("step",)]


def test_values_of_other_types_are_not_measured_and_counted(tmp_path):
    nsys = Nsys(tmp_path / "report.sqlite")
    nsys.range(0, 50, "step").range("soon", 50, "lost").range(10, "later", "open")
    nsys.insert(
        "NVTX_EVENTS", start=20, end=30, eventType=59, text=b"\x00\xff", globalTid=global_tid(PROCESS), domainId="x"
    )
    tables = nsys.read()
    assert sorted(host(tables, "name", "start_ns", "dur_ns")) == [
        ("(range without a name)", 20, 10), ("open", 10, 40), ("step", 0, 50),
    ]  # fmt: skip
    assert tables.report.damage == {"no_time": 1, "unfinished": 1, "wrong_type": 4}


def test_a_long_name_is_kept_once_however_many_calls_have_it():
    long = "x" * 100_000
    stated = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0, None, 1] * 5_000, pa.int32()), [long, "a"])])
    other = pa.array([None, None, "b"] * 5_000).dictionary_encode()
    names = first_named([stated, other], "(none)")
    assert names[:3].to_pylist() == [long, "(none)", "a"]
    assert names.nbytes < 2 * len(long)
    assert first_named([other, stated], "(none)")[:3].to_pylist() == [long, "(none)", "b"]
