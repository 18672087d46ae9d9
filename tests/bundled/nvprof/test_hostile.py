"""Databases that are damaged, of something else, or made to do harm."""

import gzip
import sqlite3

import pytest
from tests.bundled.nvprof.databases import Nvprof, call, read_file, tensor

from stepscope.base.errors import SourceError
from stepscope.bundled.nvprof.reader import peek
from stepscope.formats.container import members
from stepscope.formats.registry import format_of


@pytest.fixture
def whole(tmp_path):
    made = Nvprof(tmp_path / "net.sql").device()
    for number in range(200):
        at = 1000 * number
        made.launch(at, number + 1, f"kernel_{number % 7}", at + 100, at + 200)
        made.ranges((at, at + 50, call("torch", "mm", tensor(number, 4), tensor(4, 2))))
    return made.written()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_database_that_was_cut_says_so(whole, tmp_path, pack):
    data = whole.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(pack(data[: len(data) // 2]))
    with pytest.raises(SourceError, match="damaged nvprof database") as error:
        read_file(cut)
    assert error.value.slug == "database-damaged"
    assert "record again" in error.value.hint


def test_views_triggers_and_virtual_tables_are_never_run(tmp_path):
    made = Nvprof(tmp_path / "net.sql", without=["CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"])
    made.connection.execute(
        "CREATE VIEW CUPTI_ACTIVITY_KIND_RUNTIME AS WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 211 AS cbid, i AS start, i AS end, "
        "1 AS processId, 1 AS threadId, i AS correlationId FROM n"
    )
    made.connection.execute("CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_DRIVER USING fts3(cbid)")
    made.insert("CONCURRENT_KERNEL", start=1, end=2, name=made.string("k"))
    tables = made.read()
    assert tables.host_event.num_rows == 0
    assert tables.device_event.num_rows == 1


def test_computed_columns_are_not_read(tmp_path):
    made = Nvprof(tmp_path / "net.sql", without=["CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"])
    made.connection.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(start INT, end INT, name INT, "
        "gridX INT AS (length(hex(zeroblob(1000)))))"
    )
    made.insert("CONCURRENT_KERNEL", start=1, end=2, name=made.string("k"))
    assert made.read().device_event["grid_x"].to_pylist() == [None]


def test_a_table_name_that_is_sql_is_only_a_name(tmp_path):
    made = Nvprof(tmp_path / "net.sql").launch(1, 1, "k", 10, 30)
    made.connection.execute('CREATE TABLE "x""); DROP TABLE StringTable; --"(a INT)')
    path = made.written()
    assert read_file(path).device_event.num_rows == 1
    tables = sqlite3.connect(path).execute("SELECT count(*) FROM StringTable").fetchone()
    assert tables == (1,)


def test_values_of_another_type_are_not_taken_for_times(tmp_path):
    made = Nvprof(tmp_path / "net.sql").launch(1, 1, "k", 10, 30)
    for start, end in (("soon", 20), (None, 20), (-5, 20), (2**63 - 1, 20), (1.5, 20)):
        made.insert("CONCURRENT_KERNEL", start=start, end=end, name=1)
    made.insert("CONCURRENT_KERNEL", start=40, end=10, name=1)
    tables = made.read()
    assert tables.device_event["dur_ns"].to_pylist() == [20, 0]
    assert tables.report.dropped == 5
    assert tables.report.damage == {"no_time": 5, "negative_duration": 1, "wrong_type": 2}


def test_texts_that_are_no_utf8_and_names_that_are_none_are_shown(tmp_path):
    made = Nvprof(tmp_path / "net.sql")
    made.connection.execute("INSERT INTO StringTable VALUES (9, CAST(x'6bff6b' AS TEXT))")
    made.insert("CONCURRENT_KERNEL", start=1, end=2, name=9)
    made.insert("CONCURRENT_KERNEL", start=3, end=4, name=77)
    tables = made.read()
    names = tables.device_event["name"].to_pylist()
    assert names == ["k\N{REPLACEMENT CHARACTER}k", "(kernel without a name)"]
    assert tables.report.damage == {"missing_string": 1}


def test_a_database_of_something_else_is_named(tmp_path):
    other = tmp_path / "places.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE moz_places(id INT)")
    connection.commit()
    nsys = tmp_path / "report.sqlite"
    connection = sqlite3.connect(nsys)
    connection.execute("CREATE TABLE StringIds(id INT, value TEXT)")
    connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT, end INT)")
    connection.commit()
    (member,) = members(other)
    for read_as in (format_of, peek):
        with pytest.raises(SourceError, match="SQLite database") as error:
            read_as(member)
        assert "nvprof" in error.value.hint
    (member,) = members(nsys)
    assert format_of(member).name == "nsys"
    with pytest.raises(SourceError, match="Nsight Systems export"):
        peek(member)


def test_the_file_is_left_as_it_was_and_nothing_beside_it(whole, tmp_path):
    before = whole.read_bytes()
    read_file(whole)
    assert whole.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["net.sql"]
