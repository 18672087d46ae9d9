"""Every table and every column of the schema says what it is."""

from __future__ import annotations

import re
from importlib.resources import files

import duckdb
import pytest


@pytest.fixture(scope="module")
def schema() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(files("stepscope.store").joinpath("schema.sql").read_text(encoding="utf-8"))
    return connection


def test_every_table_has_a_comment(schema: duckdb.DuckDBPyConnection) -> None:
    silent = schema.execute(
        "SELECT table_name FROM duckdb_tables() WHERE coalesce(comment, '') = ''"
    ).fetchall()
    assert silent == []
    assert schema.execute("SELECT count(*) > 10 FROM duckdb_tables()").fetchone() == (True,)


def test_every_column_has_a_comment(schema: duckdb.DuckDBPyConnection) -> None:
    silent = schema.execute(
        "SELECT table_name, column_name FROM duckdb_columns() "
        "WHERE NOT internal AND coalesce(comment, '') = ''"
    ).fetchall()
    assert silent == []


def test_times_say_their_unit(schema: duckdb.DuckDBPyConnection) -> None:
    """A column called `start` or `duration` would leave the reader to guess."""
    columns = schema.execute(
        "SELECT table_name || '.' || column_name FROM duckdb_columns() WHERE NOT internal"
    ).fetchall()
    assert len(columns) > 100
    bare = re.compile(r"[._](time|start|end|dur|duration|wait|transfer)$")
    assert [column for (column,) in columns if bare.search(column)] == []


def test_a_tables_comment_is_a_sentence(schema: duckdb.DuckDBPyConnection) -> None:
    tables = schema.execute("SELECT table_name FROM duckdb_tables() WHERE comment NOT LIKE '%.'")
    assert tables.fetchall() == []
