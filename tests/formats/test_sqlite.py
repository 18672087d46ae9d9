"""Somebody's database: what is read of it, and that a crafted one does no harm."""

import sqlite3

import pytest

from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.sqlite import MAGIC, Layout, Only
from stepscope.formats.sqlite_files import opened

NAMES = Layout("a tool", lambda head: head.startswith(MAGIC), strings=("Names", "number", "text"))


@pytest.fixture
def made(tmp_path):
    connection = sqlite3.connect(tmp_path / "made.sqlite", isolation_level=None)
    connection.execute("CREATE TABLE Names(number INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("INSERT INTO Names VALUES (7, 'gemm'), (8, x'00ff')")
    yield connection
    connection.close()


def read(path, table, columns, **types):
    (member,) = members(path)
    with opened(member, NAMES) as database:
        return database.rows(table, columns, **types)


def test_columns_are_read_by_their_type_and_others_are_none(made, tmp_path):
    made.execute("CREATE TABLE event(start, share, note, key)")
    made.execute("INSERT INTO event VALUES (1, 0.5, 'a', x'01'), ('1', 1, 2, 'b'), (2.5, 'x', x'00', NULL)")
    rows = read(
        tmp_path / "made.sqlite", "event", ("start", "share", "note", "key", "absent"), share="real", note="text",
        key="blob",
    )  # fmt: skip
    assert rows == [(1, 0.5, "a", b"\x01", None), (None,) * 5, (None,) * 5]
    assert read(tmp_path / "made.sqlite", "absent", ("start",)) == []


def test_strings_are_found_by_their_number(made, tmp_path):
    (member,) = members(tmp_path / "made.sqlite")
    with opened(member, NAMES) as database:
        assert [database.string(number) for number in (7, 8, 9, None)] == ["gemm", "", "", ""]


@pytest.mark.parametrize("rowid", ["", " WITHOUT ROWID"])
def test_distinct_numbers_are_found_however_many_and_whatever_lies_between(rowid, made, tmp_path):
    made.execute(f"CREATE TABLE event(key INTEGER PRIMARY KEY, thread){rowid}")
    made.executemany(
        "INSERT INTO event VALUES (?, ?)",
        enumerate([5 << 4, "5", None, (5 << 4) + 3, 2.5, -1, *(n << 4 for n in range(7, 90))], -9),
    )
    (member,) = members(tmp_path / "made.sqlite")
    with opened(member, NAMES) as database:
        assert database.distinct("event", "thread", 4) == {-1, 5, *range(7, 90)}
        assert database.distinct("event", "absent") == set()


@pytest.mark.parametrize("declared", ["", " INTEGER", " TEXT", " REAL"])
def test_extent_is_of_whole_numbers_alone(declared, made, tmp_path):
    made.execute(f"CREATE TABLE event(at{declared}, of)")
    for at in ("0.5", "-3", "'7'", "x'01'", "NULL", "100", "99.5", "5000"):
        made.execute(f"INSERT INTO event VALUES ({at}, 1)")
    for at in (4, 12):
        made.execute(f"INSERT INTO event VALUES ({at}, 2), ({at + 1}, 2)")
    (member,) = members(tmp_path / "made.sqlite")
    whole = {"": [4, 100], " INTEGER": [4, 100]}.get(declared, [])
    with opened(member, NAMES) as database:
        assert database.extent("event", ("at", "absent"), 5000) == whole
        of_two = database.extent("event", ("at",), 5000, Only("of", 0, 2))
        assert of_two == ([4, 13] if whole else [])


def test_columns_with_a_value_in_some_rows_are_named(made, tmp_path):
    made.execute("CREATE TABLE event(of, a, b, c)")
    made.execute("INSERT INTO event VALUES (1, 0, NULL, NULL), (2, NULL, '', NULL)")
    (member,) = members(tmp_path / "made.sqlite")
    with opened(member, NAMES) as database:
        for of, found in ((None, ["a", "b"]), (1, ["a"]), (2, ["b"]), (3, [])):
            only = None if of is None else Only("of", 0, of)
            assert database.filled("event", ("a", "b", "c", "absent"), only) == found


def test_virtual_table_whose_text_hides_what_it_is_is_not_read(made, tmp_path):
    made.execute("CREATE VIRTUAL TABLE event USING fts3(start)")
    made.execute("PRAGMA writable_schema = ON")
    made.execute(
        "UPDATE sqlite_master SET rootpage = 2, sql = 'CREATE/*(*/VIRTUAL TABLE event USING fts3(start)' "
        "WHERE name = 'event'"
    )
    (member,) = members(tmp_path / "made.sqlite")
    with opened(member, NAMES) as database:
        assert not database.has("event")


def test_database_without_its_table_of_strings_is_refused(made, tmp_path):
    made.execute("ALTER TABLE Names RENAME TO Other")
    with pytest.raises(SourceError, match=r"damaged a tool database \(no table Names\)"):
        read(tmp_path / "made.sqlite", "Other", ("number",))
