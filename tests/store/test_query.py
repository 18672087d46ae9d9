from __future__ import annotations

import pytest

from stepscope.floor.errors import UsageError
from stepscope.store.open import Store
from stepscope.store.query import check_read_only


@pytest.fixture
def cursor():
    with Store.from_rows({"device_event": [{"dur_ns": 5}]}) as store:
        cursor = store.cursor()
        yield cursor
        cursor.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "  -- a comment\n select 1;",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "FROM device_event",
        "VALUES (1)",
        "DESCRIBE device_event",
        "SUMMARIZE device_event",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
        "explain analyze select 1",
        "PIVOT device_event ON kind IN ('copy') USING count(*)",
    ],
)
def test_what_only_reads_is_accepted(cursor, text):
    check_read_only(cursor, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE device_event",
        "CREATE TABLE a (b INTEGER)",
        "CREATE MACRO a() AS 1",
        "INSERT INTO device_event SELECT * FROM device_event",
        "WITH a AS (SELECT 1) INSERT INTO device_event SELECT * FROM device_event",
        "DELETE FROM device_event",
        "UPDATE device_event SET dur_ns = 0",
        "COPY (SELECT 1) TO 'out.csv'",
        "EXPORT DATABASE 'out'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 1",
        "PRAGMA threads = 1",
        "RESET threads",
        "USE main",
        "BEGIN",
        "VACUUM",
        "CHECKPOINT",
        "PREPARE a AS SELECT 1",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
        "EXPLAIN ANALYZE DELETE FROM device_event",
        "EXPLAIN ANALYZE INSERT INTO device_event SELECT * FROM device_event",
        "SELEC 1",
    ],
)
def test_everything_else_is_refused(cursor, text):
    with pytest.raises(UsageError):
        check_read_only(cursor, text)
    assert cursor.execute("SELECT sum(dur_ns) FROM device_event").fetchall() == [(5,)]
