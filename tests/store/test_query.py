import pytest
from tests.literal import literal_store

from stepscope.base.errors import UsageError
from stepscope.store.query import check_read_only, tables_of_schema

pytestmark = pytest.mark.slow


@pytest.fixture
def cursor():
    with literal_store({"device_event": [{"dur_ns": 5}]}) as store:
        cursor = store.cursor()
        yield cursor
        cursor.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1", "  -- a comment\n select 1;", "WITH a AS (SELECT 1) SELECT * FROM a", "FROM device_event",
        "VALUES (1)", "DESCRIBE device_event", "SUMMARIZE device_event", "SHOW TABLES", "EXPLAIN SELECT 1",
        "explain analyze select 1", "PIVOT device_event ON kind IN ('copy') USING count(*)",
    ],
)  # fmt: skip
def test_what_only_reads_is_accepted(cursor, text):
    check_read_only(cursor, text)


@pytest.mark.parametrize(
    "text",
    [
        "", ";", "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE device_event", "CREATE TABLE a (b INTEGER)",
        "CREATE MACRO a() AS 1", "INSERT INTO device_event SELECT * FROM device_event",
        "WITH a AS (SELECT 1) INSERT INTO device_event SELECT * FROM device_event",
        "DELETE FROM device_event", "UPDATE device_event SET dur_ns = 0", "COPY (SELECT 1) TO 'out.csv'",
        "EXPORT DATABASE 'out'", "ATTACH 'other.db'", "INSTALL httpfs", "LOAD httpfs", "SET threads = 1",
        "PRAGMA threads = 1", "RESET threads", "USE main", "BEGIN", "VACUUM", "CHECKPOINT", "PREPARE a AS SELECT 1",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'", "EXPLAIN ANALYZE DELETE FROM device_event",
        "EXPLAIN ANALYZE INSERT INTO device_event SELECT * FROM device_event", "SELEC 1", "SELECT '\ud800'",
    ],
)  # fmt: skip
def test_everything_else_is_refused(cursor, text):
    with pytest.raises(UsageError):
        check_read_only(cursor, text)
    assert cursor.execute("SELECT sum(dur_ns) FROM device_event").fetchall() == [(5,)]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("SELECT * FROM answer.kernels", ("kernels",)), ('FROM ANSWER."Device_Time"', ("device_time",)),
        ("WITH k AS (FROM answer.kernels) SELECT * FROM k JOIN answer.steps USING (a)", ("kernels", "steps")),
        ("SELECT (SELECT max(a) FROM answer.a) + b FROM device_event WHERE c IN (FROM answer.b)", ("a", "b")),
        ("EXPLAIN ANALYZE SELECT * FROM answer.kernels", ("kernels",)), ("DESCRIBE answer.kernels", ("kernels",)),
        ("SUMMARIZE answer.kernels", ("kernels",)), ("FROM memory.answer.kernels", ("kernels",)),
        ("PIVOT answer.kernels ON kind IN ('copy') USING count(*)", ("kernels",)),
        ("WITH kernels AS (SELECT 1) FROM kernels", ()),
        ("SELECT 'answer.kernels' AS answer -- FROM answer.kernels", ()),
        ("SELECT answer.dur_ns FROM device_event AS answer", ()), ("FROM other.answer.kernels", ()),
    ],
)  # fmt: skip
def test_tables_of_a_schema_are_found_by_the_parser(cursor, text, named):
    assert sorted(tables_of_schema(cursor, text, "answer")) == sorted(named)
