"""Decides whether SQL that a person typed only reads.

The connection is fenced in as well (see `store.open`): this is the half that gives a clear answer.
"""

from __future__ import annotations

import re

import duckdb

from stepscope.floor.errors import UsageError

_EXPLAIN = re.compile(r"\s*EXPLAIN(\s+ANALYZE)?(\s*\([^)]*\))?\s+", re.IGNORECASE)


def check_read_only(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Accepts one statement that reads: SELECT, FROM, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW, or
    EXPLAIN of one.

    Raises:
        UsageError: the text is no SQL, more than one statement, or one that could change something.
    """
    kinds = _kinds(connection, text)
    explained = _EXPLAIN.match(text)
    if kinds == ["EXPLAIN"] and explained:
        kinds = _kinds(connection, text[explained.end() :])
    if kinds != ["SELECT"]:
        what = " and ".join(kinds) or "nothing"
        raise UsageError(
            f"the SQL must be one statement that only reads; this is {what}",
            hint="ask with SELECT, FROM, WITH, DESCRIBE or SUMMARIZE; tables are listed by: stepscope schema",
            slug="sql-not-read-only",
        )


def sql_error(error: duckdb.Error) -> UsageError:
    """What DuckDB says of a query that does not work, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    near = [line for line in lines[1:] if line.startswith(("Candidate", "Did you mean"))]
    return UsageError(
        f"the SQL does not work: {' '.join([reason, *near[:1]])}",
        hint="tables and columns are listed by: stepscope schema",
        slug="sql-error",
    )


def _kinds(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    try:
        return [str(statement.type.name) for statement in connection.extract_statements(text)]
    except duckdb.Error as error:
        raise sql_error(error) from None
