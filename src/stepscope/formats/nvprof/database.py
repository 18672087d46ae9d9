"""Opens a database of nvprof and reads columns of its tables, trusting nothing in it.

A database is a program as much as a file: views, triggers, generated columns and virtual tables run
when they are read. Here only plain columns of plain tables are read, from a file that is opened
read-only; the number of rows, the length of texts and the sizes that compressed files claim have
limits, and names are only ever compared.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stepscope.floor.errors import SourceError
from stepscope.floor.sql_text import sql_name
from stepscope.formats.container import Member
from stepscope.formats.sniff import advice, what_is

MAGIC = b"SQLite format 3\x00"
LONGEST_TEXT = 1 << 20
_BYTES_PER_ROW = 6
"""No row of these tables takes less: more rows than the file has room for means pages that lead to
one another in a circle."""
_PIECE = 1 << 20
_HEADER_BYTES = 100
_BATCH = 1 << 14


def looks_like_nvprof(head: bytes) -> bool:
    """Whether a file's first bytes could be a database of nvprof."""
    return head.startswith(MAGIC) and b"CUPTI_ACTIVITY_KIND_" in head and b"StringTable" in head


class Database:
    """An open database of nvprof: rows of its tables, and its strings by number.

    Attributes:
        label: how its file is called in messages.
        damage: class of damage of the container it came in; None for none.
    """

    def __init__(self, connection: sqlite3.Connection, label: str, size: int) -> None:
        self.label = label
        self.damage: str | None = None
        self._connection = connection
        self._most_rows = size // _BYTES_PER_ROW
        self._columns = self._plain_tables()
        self._strings: dict[int, str] | None = None

    def _plain_tables(self) -> dict[str, frozenset[str]]:
        """Columns of each table that is neither view nor virtual table."""
        listed = self._fetch("SELECT name, sql FROM sqlite_master WHERE type = 'table'", 1 << 16)
        plain = [
            str(name)
            for name, sql in listed
            if isinstance(sql, str) and not sql[:64].upper().lstrip().startswith("CREATE VIRTUAL")
        ]
        # Columns that are computed when read are not listed by table_info.
        return {
            name: frozenset(
                str(row[1]) for row in self._fetch(f"PRAGMA table_info({sql_name(name)})")
            )
            for name in plain
        }

    def has(self, table: str) -> bool:
        """Whether it has a table of this name."""
        return table in self._columns

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Rows of a table, in order; what it does not have is None, or no rows at all.

        Values that are no integers are None, except in `objectId`, which is bytes, and `value`.

        Raises:
            SourceError: the database is damaged.
        """
        known = self._columns.get(table)
        if not known:
            return []
        asked = ", ".join(_selected(name, known) for name in columns)
        return list(self._fetch(f"SELECT {asked} FROM {sql_name(table)}"))

    def string(self, number: int | None) -> str:
        """The string of a number; empty where there is none."""
        if self._strings is None:
            listed = self.rows("StringTable", ("_id_", "value"))
            self._strings = {i: s for i, s in listed if i is not None and isinstance(s, str)}
        return self._strings.get(number, "") if number is not None else ""

    def _fetch(self, query: str, most: int | None = None) -> Iterator[tuple[Any, ...]]:
        left = self._most_rows if most is None else most
        try:
            cursor = self._connection.execute(query)
            while rows := cursor.fetchmany(_BATCH):
                left -= len(rows)
                if left < 0:
                    raise damaged(self.label, "more rows than it has room for")
                yield from rows
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise damaged(self.label, str(error)) from None


def damaged(label: str, reason: str) -> SourceError:
    """The error for a database that cannot be read to its end.

    The reason may repeat names from the file: only what can be printed is.
    """
    printable = "".join(letter for letter in reason[:200] if letter.isprintable())
    return SourceError(
        f"{label}: damaged nvprof database ({printable})",
        hint="copy it again; if it was never whole, record again and let the program end by itself",
        slug="database-damaged",
    )


@contextmanager
def opened(member: Member) -> Iterator[Database]:
    """Opens a file, or a member of an archive, as a database of nvprof.

    What is compressed is first written to a temporary file, which is removed afterwards.

    Raises:
        SourceError: it cannot be opened, is damaged, or is a database of something else.
    """
    with member.open() as stream:
        head = stream.read(_PIECE)
        if not looks_like_nvprof(head):
            raise _foreign(member.label, head)
        if _lies_plain(member, head):
            with _connected(member.path, member.label) as database:
                yield database
            return
        with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
            copy = Path(folder) / "nvprof.sqlite"
            with copy.open("wb") as target:
                target.write(head)
                shutil.copyfileobj(stream, target, _PIECE)
            with _connected(copy, member.label) as database:
                database.damage = stream.damage
                yield database


def _foreign(label: str, head: bytes) -> SourceError:
    kind = what_is(head)
    return SourceError(
        f"{label}: not a database of nvprof ({kind})", hint=advice(kind), slug="not-a-trace"
    )


def _lies_plain(member: Member, head: bytes) -> bool:
    if member.name is not None:
        return False
    with member.path.open("rb") as file:
        return file.read(len(MAGIC)) == head[: len(MAGIC)]


@contextmanager
def _connected(path: Path, label: str) -> Iterator[Database]:
    size = path.stat().st_size
    _check_whole(path, size, label)
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None
        )
    except sqlite3.Error as error:
        raise damaged(label, str(error)) from None
    try:
        connection.text_factory = lambda text: text[:LONGEST_TEXT].decode("utf-8", "replace")
        for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
            with suppress(sqlite3.Error):
                connection.execute(f"PRAGMA {setting}")
        database = Database(connection, label, size)
        if not database.has("StringTable"):
            raise damaged(label, "no table StringTable")
        yield database
    finally:
        connection.close()


def _check_whole(path: Path, size: int, label: str) -> None:
    """A database states its pages; one that ends before them was cut off."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    stated = pages * (65536 if page == 1 else page)
    if header[24:28] == header[92:96] and size < stated:
        raise damaged(label, f"it ends after {size} of {stated} bytes")


def _selected(name: str, known: frozenset[str]) -> str:
    if name not in known:
        return "NULL"
    kind = {"objectId": "blob", "value": "text"}.get(name, "integer")
    return f"CASE WHEN typeof({sql_name(name)}) = '{kind}' THEN {sql_name(name)} END"
