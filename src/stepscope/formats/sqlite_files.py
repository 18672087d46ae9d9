"""Opens a file from the user as a tool's SQLite database, read-only and unchanged."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.base.errors import SourceError
from stepscope.formats.container import Member
from stepscope.formats.sniff import advice, what_is
from stepscope.formats.sqlite import LONGEST_TEXT, MAGIC, Database, Layout, damaged

if TYPE_CHECKING:
    from adbc_driver_manager import AdbcConnection

_PIECE = 1 << 20
_HEADER_BYTES = 100
_SETTINGS = ("PRAGMA trusted_schema = OFF", "PRAGMA query_only = ON", "PRAGMA cell_size_check = ON")
_LATER = {"-wal": "unmerged_wal", "-journal": "unfinished_database"}
"""Files that SQLite writes next to a database: the last writes, or what must be undone."""


@contextmanager
def opened(member: Member, layout: Layout) -> Iterator[Database]:
    """Opens a file, or a member of an archive, as a database of a tool.

    A compressed one is first written to a temporary file, which is removed afterwards.

    Raises:
        SourceError: it cannot be opened, is damaged, or is a database of something else.
    """
    with member.open() as stream:
        head = stream.read(_PIECE)
        if not layout.looks_like(head):
            kind = what_is(head)
            raise SourceError(
                f"{member.label}: not a database of {layout.tool} ({kind})", hint=advice(kind), slug="not-a-trace"
            )
        if _lies_plain(member):
            with _connected(member.path, member.label, layout) as database:
                yield database
            return
        with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
            copy = Path(folder) / "copy.sqlite"
            with copy.open("wb") as target:
                target.write(head)
                shutil.copyfileobj(stream, target, _PIECE)
            with _connected(copy, member.label, layout) as database:
                database.damage = stream.damage or database.damage
                yield database


def _lies_plain(member: Member) -> bool:
    if member.name is not None:
        return False
    with member.path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@contextmanager
def _connected(path: Path, label: str, layout: Layout) -> Iterator[Database]:
    size = path.stat().st_size
    _check_complete(path, size, label, layout)
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with ExitStack() as opened_:

        def connect_arrow() -> AdbcConnection:
            import adbc_driver_sqlite
            from adbc_driver_manager import AdbcConnection, AdbcStatement

            connection: AdbcConnection = opened_.enter_context(
                AdbcConnection(opened_.enter_context(adbc_driver_sqlite.connect(uri)))
            )
            for setting in _SETTINGS:
                with AdbcStatement(connection) as statement:
                    statement.set_sql_query(setting)
                    statement.execute_update()
            return connection

        try:
            connection = opened_.enter_context(closing(sqlite3.connect(uri, uri=True, isolation_level=None)))
        except sqlite3.Error as error:
            raise damaged(label, layout, str(error)) from None
        connection.text_factory = lambda text: text[:LONGEST_TEXT].decode("utf-8", "replace")
        for setting in _SETTINGS:
            with suppress(sqlite3.Error):
                connection.execute(setting)
        database = Database(connection, connect_arrow, label, size, layout)
        database.damage = next(
            (
                damage
                for ending, damage in _LATER.items()
                if _sibling(path, ending).is_file() and _sibling(path, ending).stat().st_size
            ),
            None,
        )
        yield database


def _sibling(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _check_complete(path: Path, size: int, label: str, layout: Layout) -> None:
    """Checks that the file has all pages that the database states; a shorter file was truncated."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    stated = pages * (65536 if page == 1 else page)
    if header[24:28] == header[92:96] and size < stated:
        raise damaged(label, layout, f"it ends after {size} of {stated} bytes")
