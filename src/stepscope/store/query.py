"""Decides whether SQL that a person typed only reads.

The connection is restricted as well (see `store.open`); this is the half that gives a clear answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepscope.base.errors import StepScopeError, UsageError, out_of_memory

if TYPE_CHECKING:
    import duckdb

_EXPLAIN = re.compile(r"\s*EXPLAIN(\s+ANALYZE)?(\s*\([^)]*\))?\s+", re.IGNORECASE)

ERRORS = {
    "sql-error": ("DuckDB cannot run the query; its reason follows. `stepscope schema` lists tables."),
    "sql-not-read-only": (
        "`stepscope sql` runs one statement that reads: SELECT, FROM, WITH, VALUES, DESCRIBE, "
        "SUMMARIZE, SHOW, or EXPLAIN of one. `PIVOT` needs its values listed with `IN (...)`."
    ),
}


def check_read_only(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Accepts one statement that reads: SELECT, FROM, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW, or
    EXPLAIN of one.

    Raises:
        UsageError: the text is not SQL, has more than one statement, or could change something.
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


def tables_of_schema(connection: duckdb.DuckDBPyConnection, text: str, schema: str) -> tuple[str, ...]:
    """Names of a schema's tables that a statement reads, in lower case; they need not exist.

    DuckDB's parser finds them, so comments, texts and aliases that look like tables do not count. What it cannot
    serialize (PIVOT) is passed to DuckDB's binder, which may refuse a query about tables that do not exist yet.
    """
    explained = _EXPLAIN.match(text)
    statement = text[explained.end() :] if explained else text
    # Fetches all rows, though one is wanted: DuckDB 2 does nothing else until the last one is taken.
    ((taken_apart,),) = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
    tree = json.loads(taken_apart)
    if tree["error"]:
        import duckdb

        try:
            named = connection.get_table_names(statement, qualified=True)
        except duckdb.Error:
            return ()
        qualified = [name.lower().replace('"', "").partition(".") for name in sorted(named)]
        return tuple(name for schema_name, _, name in qualified if schema_name == schema)
    return tuple(
        dict.fromkeys(
            table["table_name"].lower()
            for table in _tables(tree)
            if table["schema_name"].lower() == schema and table["catalog_name"] in ("", "memory")
        )
    )


def _tables(tree: Any) -> Iterator[dict[str, str]]:
    if isinstance(tree, dict):
        if tree.get("type") == "BASE_TABLE":
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from _tables(branch)


def sql_error(error: duckdb.Error) -> StepScopeError:
    """DuckDB's message about a query that fails, in one line."""
    if type(error).__name__ == "OutOfMemoryException":
        return out_of_memory("the query")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0] if lines else type(error).__name__
    near = [line for line in lines[1:] if line.startswith(("Candidate", "Did you mean"))]
    return UsageError(
        f"the SQL does not work: {' '.join([reason, *near[:1]])}",
        hint="tables and columns are listed by: stepscope schema",
        slug="sql-error",
    )


def _kinds(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    import duckdb

    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the SQL has half of a character at {error.start}: {text[error.start]!r}",
            hint="give it as a text in Unicode",
            slug="sql-error",
        ) from None
    try:
        return [str(statement.type.name) for statement in connection.extract_statements(text)]
    except duckdb.Error as error:
        raise sql_error(error) from None
