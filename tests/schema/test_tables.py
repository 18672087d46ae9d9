import hashlib
import re

import duckdb
import pyarrow as pa
import pytest
from tests.processes import python

from stepscope.formats.tables import READ, Facts, RankTables, ReadReport
from stepscope.schema.declare import By, Role
from stepscope.schema.declare import table as schema_table
from stepscope.schema.tables import DECLARED, STORE_VERSION, TABLES

COLUMNS = [(table, column) for table in DECLARED for column in table.declared]


SCHEMA = (18, "b5ed40d08388f8c7")
"""The version of stores, and what its tables and columns are like: `digest`."""


def digest():
    stored = [
        (table.name, column.name, column.role.name, column.nullable, column.by.name)
        for table in DECLARED
        for column in table.declared
    ]
    return hashlib.sha256(repr(sorted(stored)).encode()).hexdigest()[:16]


def test_columns_that_change_have_another_version():
    """Stores made before lack the column: raise STORE_VERSION, and write both here."""
    assert (STORE_VERSION, digest()) == SCHEMA


def named(where):
    return [f"{table.name}.{column.name}" for table, column in COLUMNS if where(table, column)]


def test_tables_and_columns_say_what_they_are_and_no_column_is_there_twice():
    for table in DECLARED:
        assert re.fullmatch(r"One row is .*\.", table.meaning), table.name
        names = [column.name for column in table.declared]
        assert len(names) == len(set(names)), table.name
    assert named(lambda table, column: not column.meaning) == []


def test_every_table_states_whether_its_rows_are_measurements():
    """Such a recording has no events, but it is not one of nothing."""
    measured = {table.name for table in DECLARED if table.measures}
    assert measured == {
        "counter", "host_metric", "inline_timing", "measured_kernel", "memory_block", "phase", "primitive", "stack_sample",
    }  # fmt: skip
    with pytest.raises(TypeError, match="measures"):
        schema_table("new", "One row is new.")


def test_times_say_their_unit():
    """A column called `start` or `duration` would leave the reader to guess."""
    bare = re.compile(r"(^|_)(time|start|end|dur|duration|wait|transfer)$")
    assert named(lambda table, column: bare.search(column.name)) == []


def test_a_name_with_a_unit_has_the_role_of_that_unit():
    times = {Role.MOMENT, Role.EPOCH, Role.DURATION}
    for unit, roles in (("ns", times), ("bytes", {Role.BYTES})):
        differs = named(lambda table, c, unit=unit, roles=roles: (c.name.split("_")[-1] == unit) != (c.role in roles))
        assert differs == []


def test_moments_are_told_from_durations():
    moments = {column.name for _, column in COLUMNS if column.role is Role.MOMENT}
    assert moments == {"start_ns", "end_ns", "host_start_ns", "host_end_ns", "launch_ns", "launch_end_ns", "time_ns"}


def test_what_names_another_row_says_of_which_table():
    """Else nothing could follow from the declaration about where its number leads."""
    known = {table.name: table for table in DECLARED}
    own = {"host_event.id", "device_event.id", "captured_event.id", "capture.capture"}
    own |= {"thread.thread", "module.module_id", "measured_kernel.measured"}
    own |= {"operator_input.input_id", "call_stack.stack_id", "kernel_source.kernel_source_id"}
    assert set(named(lambda _, c: c.role in (Role.EVENT, Role.ROW) and not c.of)) == own
    for table, column in COLUMNS:
        if column.of is not None:
            assert column.role in (Role.EVENT, Role.ROW), (table.name, column.name)
            assert set(column.targets) <= known.keys(), (table.name, column.name)
        if column.along is not None:
            link = next(one for one in table.columns if one.name == column.along)
            assert link.role is Role.EVENT


def test_the_parent_of_a_module_is_a_row_and_that_of_an_event_is_an_event():
    parents = {t.name: c.role for t, c in COLUMNS if c.name == "parent_id"}
    events = dict.fromkeys(("host_event", "captured_event"), Role.EVENT)
    assert parents == {"module": Role.ROW} | events


def test_what_narrowing_by_step_follows_from():
    assert {name for name, table in TABLES.items() if table.stepped} == {
        "step", "host_event", "device_event", "phase_step", "step_value",
    }  # fmt: skip
    described = {name: table.describes for name, table in TABLES.items() if table.describes}
    assert described == {
        "collective": {"id": "device_event", "host_id": "host_event"},
        "kernel_metric": {"id": "device_event"},
        "measured_kernel": {"id": "device_event"},
    }


def test_what_is_for_link_alone_is_not_stored():
    assert "collective_args" not in TABLES
    assert "python_id" not in TABLES["host_event"].column_names
    assert "python_id" in READ["host_event"].names
    assert not {"id", "parent_id", "rank", "span"} & set(READ["host_event"].names)
    assert not {"step", "module", "source"} & READ.keys()


def test_words_are_dictionaries_as_readers_hand_them_over():
    assert READ["host_event"].field("name").type == pa.dictionary(pa.int32(), pa.string())
    assert READ["host_event"].field("thread").type == pa.int32()
    assert READ["thread"].field("pid").type == pa.string()


def test_a_reader_cannot_fill_a_table_that_link_makes():
    with pytest.raises(TypeError, match="step"):
        RankTables(Facts(), ReadReport(), step=READ["flow"].empty_table())
    assert RankTables(Facts(), ReadReport()).flow.schema == READ["flow"]


def test_duckdb_makes_the_declared_tables():
    connection = duckdb.connect()
    connection.execute("".join(table.create_statement() for table in TABLES.values()))
    seen = connection.execute(
        """
        SELECT table_name, column_name, data_type, is_nullable
        FROM duckdb_columns() WHERE NOT internal ORDER BY table_oid, column_index
        """
    ).fetchall()
    assert seen == [
        (table.name, column.name, column.sql_type, column.nullable)
        for table in TABLES.values()
        for column in table.columns
    ]
    checks = connection.execute("SELECT count(*) FROM duckdb_constraints() WHERE constraint_type = 'CHECK'")
    assert checks.fetchone() == (sum(1 for _, column in COLUMNS if column.check),)


def test_arrow_schema_has_the_types_and_marks_what_cannot_be_null():
    schema = TABLES["step"].arrow()
    assert schema.field("start_ns") == pa.field("start_ns", pa.int64(), nullable=False)
    assert schema.field("span").type == pa.int16()
    assert schema.field("complete").type == pa.bool_()
    assert TABLES["rank"].arrow().field("host").nullable


def test_rank_and_span_are_the_stores_to_fill():
    for table, column in COLUMNS:
        if column.name in ("rank", "span"):
            assert column.by is By.STORE, table.name


def test_the_declarations_need_nothing_that_takes_long_to_import():
    code = "import sys, stepscope.schema.tables; print('pyarrow' in sys.modules)"
    done = python("-c", code, check=True)
    assert done.stdout == "False\n"
