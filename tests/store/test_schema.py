from __future__ import annotations

import duckdb
import pyarrow as pa

from stepscope.store.schema import TIME_COLUMNS, create_statements, schema_tables, schema_text


def catalog(query: str) -> list[tuple]:
    connection = duckdb.connect()
    try:
        connection.execute(schema_text())
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_columns_are_read_as_duckdb_reads_them():
    seen = catalog(
        """
        SELECT table_name, column_name, data_type, is_nullable, comment
        FROM duckdb_columns() WHERE NOT internal ORDER BY table_oid, column_index
        """
    )
    read = [
        (table.name, c.name, c.sql_type, c.nullable, c.meaning)
        for table in schema_tables().values()
        for c in table.columns
    ]
    assert read == seen


def test_tables_are_read_as_duckdb_reads_them():
    seen = catalog("SELECT table_name, comment FROM duckdb_tables() ORDER BY table_oid")
    assert [(table.name, table.meaning) for table in schema_tables().values()] == seen


def test_every_table_says_what_a_row_is():
    for table in schema_tables().values():
        assert table.meaning.startswith("One row is "), table.name


def test_create_statements_stand_alone():
    connection = duckdb.connect()
    try:
        connection.execute(create_statements())
        made = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    finally:
        connection.close()
    assert {name for (name,) in made} == set(schema_tables())


def test_arrow_schema_has_the_types_and_marks_what_cannot_be_null():
    schema = schema_tables()["step"].arrow()
    assert schema.field("start_ns") == pa.field("start_ns", pa.int64(), nullable=False)
    assert schema.field("span").type == pa.int16()
    assert schema.field("complete").type == pa.bool_()
    assert schema_tables()["rank"].arrow().field("host").nullable


def test_moments_are_told_from_durations():
    moments = {
        c.name
        for table in schema_tables().values()
        for c in table.columns
        if c.name in TIME_COLUMNS
    }
    assert moments == TIME_COLUMNS
    assert not {"dur_ns", "self_ns", "device_ns", "wait_ns"} & TIME_COLUMNS
