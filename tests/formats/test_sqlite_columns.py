"""What is read by chunks is what is read row by row, whatever a database holds."""

import sqlite3
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.base.errors import SourceError
from stepscope.formats import sqlite as database_of
from stepscope.formats.container import members
from stepscope.formats.nsys.export import NSYS
from stepscope.formats.sqlite_files import opened as opened_database

TYPES = {"name": "name", "text": "text", "real": "real", "amount": "number"}
COLUMNS = ("id", "name", "text", "real", "amount", "missing")


@contextmanager
def opened(path, rows, made="CREATE TABLE events(id, name, text, real, amount)"):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT)")
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "one"), (2, "two")])
    connection.execute(made)
    connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    (member,) = members(path)
    with opened_database(member, NSYS) as database:
        yield database


def columns(database):
    return database.columns("events", COLUMNS, **TYPES).to_pylist()


def expected(rows):
    names = {1: "one", 2: "two"}
    for one, name, text, real, amount in rows:
        yield {
            "id": one if type(one) is int else None,
            "name": name if isinstance(name, str) else names.get(name) if type(name) is int else None,
            "text": text if isinstance(text, str) else None, "real": real if isinstance(real, float) else None,
            "amount": float(amount) if isinstance(amount, (int, float)) else None, "missing": None,
        }  # fmt: skip


VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, 2, 3]), st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
    st.sampled_from(["", "\x1e", "\x1d", "a\x1eb", "1,2", "a\nb", '"', "é"]), st.binary(max_size=3),
)  # fmt: skip


@given(rows=st.lists(st.tuples(*[VALUES] * 5), max_size=9))
@examples(100)
def test_any_values_are_read_as_row_by_row(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "report.sqlite"
    with pytest.MonkeyPatch.context() as patch, opened(path, rows) as database:
        patch.setattr(database_of, "_CHUNK", 4)
        assert columns(database) == list(expected(rows))


DECLARED = "CREATE TABLE events(id INTEGER, name INT, text TEXT, real REAL, amount)"
NO_BYTES = VALUES.filter(lambda one: not isinstance(one, bytes))


@given(rows=st.lists(st.tuples(*[NO_BYTES] * 2, *[VALUES] * 3), max_size=9))
@examples(100)
def test_columns_of_declared_types_are_read_as_row_by_row(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "report.sqlite"
    with pytest.MonkeyPatch.context() as patch, opened(path, rows, DECLARED) as database:
        stored = list(database.each("events", ("id", "name"), name="name"))
        patch.setattr(database_of, "_CHUNK", 4)
        found = columns(database)
    names = {1: "one", 2: "two"}
    assert [row["id"] for row in found] == [one for one, _ in stored]
    assert [row["name"] for row in found] == [names.get(name) for _, name in stored]


ROWS = [(n, 1 + n % 2, f"text {n}", n / 2, n) for n in range(5)]


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE events(id INTEGER PRIMARY KEY, name, text, real, amount) WITHOUT ROWID",
        "CREATE TABLE events(id INTEGER PRIMARY KEY, name, text, real, amount)",
        "CREATE TABLE events(id, name, text, real, amount, PRIMARY KEY (id, name))",
    ],
)
def test_tables_of_every_kind_are_read_complete(made, tmp_path, monkeypatch):
    monkeypatch.setattr(database_of, "_CHUNK", 2)
    with opened(tmp_path / "report.sqlite", ROWS, made) as database:
        assert columns(database) == list(expected(ROWS))


def test_row_ids_far_apart_and_below_zero_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(database_of, "_CHUNK", 2)
    far = [(number, *row[1:]) for number, row in zip((-(2**62), -1, 5, 2**40, 2**62), ROWS, strict=True)]
    made = "CREATE TABLE events(id INTEGER PRIMARY KEY, name, text, real, amount)"
    with opened(tmp_path / "report.sqlite", far, made) as database:
        assert columns(database) == list(expected(far))


def test_a_column_called_rowid_is_a_column(tmp_path, monkeypatch):
    monkeypatch.setattr(database_of, "_CHUNK", 2)
    made = "CREATE TABLE events(rowid, name, text, real, amount)"
    same = [(7, *row[1:]) for row in ROWS]
    with opened(tmp_path / "report.sqlite", same, made) as database:
        found = database.columns("events", ("rowid", "text"), text="text").to_pylist()
    assert found == [{"rowid": 7, "text": f"text {n}"} for n in range(5)]


def test_texts_that_are_no_utf8_are_read_with_marks(tmp_path):
    with opened(tmp_path / "report.sqlite", []) as database:
        assert columns(database) == []
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT)")
    connection.execute("CREATE TABLE events(text)")
    connection.execute("INSERT INTO events VALUES ('good'), (CAST(x'ff41' AS TEXT))")
    connection.commit()
    connection.close()
    (member,) = members(path)
    with opened_database(member, NSYS) as database:
        found = database.columns("events", ("text",), text="text")["text"].to_pylist()
    assert found == ["good", "�A"]


def test_more_text_than_arrow_can_address_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(database_of, "_MAX_CHUNK_BYTES", 30)
    refused = pytest.raises(SourceError, match="more text than it has room for")
    with opened(tmp_path / "report.sqlite", ROWS) as database, refused as error:
        columns(database)
    assert error.value.slug == "database-damaged"
