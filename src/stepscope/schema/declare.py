"""How a table is declared: its columns, the role of each, and who fills it.

A role says what a value is, whatever its column is called. The handling of the values follows from it: event ids and
moments are shifted, numbers of rows are not, and each role has its encoding.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from stepscope.base.quoting import sql_name

if TYPE_CHECKING:
    import pyarrow as pa


class Role(Enum):
    """What the values of a column are."""

    EVENT = "number of an event, unique within its rank over all spans and both event tables"
    ROW = "number of a row of a table, unique within its rank and span"
    KEY = "number with few distinct values, by which rows are distinguished or grouped"
    STEP = "number of a training step"
    NUMBER = "number that only names something"
    MOMENT = "point in time (ns since the start of the run); it moves with the clock of its rank"
    EPOCH = "point in time by the clock of the node (ns since 1970)"
    DURATION = "stretch of time (ns)"
    BYTES = "size (bytes)"
    COUNT = "how many"
    VALUE = "measured or computed number of any other kind"
    FLAG = "true or false"
    WORD = "text that many rows of a long table share: readers return it as a dictionary"
    TEXT = "any other text"


BIGINT, INTEGER, SMALLINT, DOUBLE = "BIGINT", "INTEGER", "SMALLINT", "DOUBLE"

_SQL_TYPES = dict.fromkeys(Role, BIGINT) | {
    Role.ROW: INTEGER,
    Role.KEY: INTEGER,
    Role.VALUE: DOUBLE,
    Role.FLAG: "BOOLEAN",
    Role.WORD: "VARCHAR",
    Role.TEXT: "VARCHAR",
}
_ARROW_TYPES = {
    BIGINT: "int64",
    INTEGER: "int32",
    SMALLINT: "int16",
    DOUBLE: "double",
    "BOOLEAN": "bool",
    "VARCHAR": "string",
}


class By(Enum):
    """Who fills a column."""

    READER = "the reader of the file"
    READER_FOR_LINK = "the reader, for linking alone: it is not stored"
    LINK = "link"
    STORE = "the store, as it is written"


class SchemaColumn(NamedTuple):
    """A column of a table. A tuple, because a dataclass would take milliseconds to make them all.

    Args:
        name: its name.
        role: what its values are; the SQL type follows if `type` does not say otherwise.
        meaning: what it means, in one line.
        nullable: whether it may be NULL.
        type: its SQL type if it is not the role's usual one.
        of: the table whose event or row it refers to, if that is another row than its own.
        or_of: another table of events that it may refer to instead.
        along: the column with the event from which this one copies a value.
        check: a condition in SQL that every row fulfils.
        by: who fills it.
        argument: Kineto's argument that it is read from and exported as; the trace reader and `export --chrome` follow.
    """

    name: str
    role: Role
    meaning: str
    nullable: bool = False
    type: str = ""
    of: str | None = None
    or_of: str | None = None
    along: str | None = None
    check: str | None = None
    by: By | None = None
    argument: str | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The tables that it may refer to; none if it refers to no row of another table."""
        return tuple(target for target in (self.of, self.or_of) if target is not None)

    @property
    def sql_type(self) -> str:
        """Its type in SQL."""
        return self.type or _SQL_TYPES[self.role]

    @property
    def is_json(self) -> bool:
        """Whether its texts are JSON, which then starts its meaning."""
        return self.meaning.startswith("JSON ")

    @property
    def quoted(self) -> str:
        """Its name quoted for SQL, which allows reserved words."""
        return sql_name(self.name)

    def arrow_type(self) -> pa.DataType:
        """Its type in Arrow."""
        import pyarrow as pa

        return pa.type_for_alias(_ARROW_TYPES[self.sql_type])


@dataclass(frozen=True)
class SchemaTable:
    """A table: what one row is, and all its columns, in order.

    `measures` names what a recording without events measured if the table has rows; None for events and for what
    describes other rows.
    """

    name: str
    meaning: str
    declared: tuple[SchemaColumn, ...]
    measures: str | None

    @cached_property
    def columns(self) -> tuple[SchemaColumn, ...]:
        """The columns that a store has."""
        return tuple(c for c in self.declared if c.by is not By.READER_FOR_LINK)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns that a store has."""
        return tuple(column.name for column in self.columns)

    @property
    def linked_names(self) -> tuple[str, ...]:
        """Names of the columns that link passes to the store."""
        return tuple(column.name for column in self.columns if column.by is not By.STORE)

    @property
    def stepped(self) -> bool:
        """Whether each row belongs to a step or to none."""
        return any(column.role is Role.STEP for column in self.columns)

    @property
    def number(self) -> str | None:
        """The column with the number by which other rows refer to one of this table."""
        names = (c.name for c in self.columns if c.role in (Role.EVENT, Role.ROW) and c.of is None)
        return next(names, None)

    @property
    def describes(self) -> dict[str, str]:
        """For tables whose rows describe an event: the column that refers to it, and its table. If that
        column may be NULL, also the further ones that refer to it instead, in order.
        """
        described: dict[str, str] = {}
        for column in self.columns:
            if column.of is not None and (described or column.name == "id"):
                described[column.name] = column.of
                if not column.nullable:
                    break
        return described

    def describing(self, events: str) -> str:
        """The condition in SQL that keeps descriptions of the events that a query finds."""
        references = [(name, f"(rank, {name}) IN ({events.format(events=of)})") for name, of in self.describes.items()]
        if len(references) == 1:
            ((name, among),) = references
            nullable = next(column for column in self.columns if column.name == name).nullable
            return f"({name} IS NULL OR {among})" if nullable else among
        return f"CASE {' '.join(f'WHEN {name} IS NOT NULL THEN {among}' for name, among in references)} END"

    def arrow(self, names: Collection[str] | None = None) -> pa.Schema:
        """The columns of a store, or some of them; those that cannot be NULL are marked."""
        import pyarrow as pa

        return pa.schema(
            [
                pa.field(c.name, c.arrow_type(), nullable=c.nullable)
                for c in self.columns
                if names is None or c.name in names
            ]
        )

    def read_schema(self) -> pa.Schema | None:
        """The columns that a reader returns, any of which may be NULL; None if it has none."""
        import pyarrow as pa

        word = pa.dictionary(pa.int32(), pa.string())
        fields = [
            pa.field(column.name, word if column.role is Role.WORD else column.arrow_type())
            for column in self.declared
            if column.by in (By.READER, By.READER_FOR_LINK)
        ]
        return pa.schema(fields) if fields else None

    def create_statement(self) -> str:
        """The `CREATE TABLE` of a store in memory."""
        columns = ", ".join(
            f"{c.quoted} {c.sql_type}{'' if c.nullable else ' NOT NULL'}{f' CHECK ({c.check})' if c.check else ''}"
            for c in self.columns
        )
        return f"CREATE TABLE {self.name} ({columns});"


def table(name: str, meaning: str, *columns: SchemaColumn, measures: str | None, by: By = By.READER) -> SchemaTable:
    """A table whose columns are filled by `by` unless they say otherwise."""
    return SchemaTable(name, meaning, tuple(c if c.by else c._replace(by=by) for c in columns), measures)


def rank_column(meaning: str) -> SchemaColumn:
    """The rank that a row belongs to."""
    return SchemaColumn("rank", Role.KEY, meaning, by=By.STORE)


def span_column(meaning: str = "recording it was seen in") -> SchemaColumn:
    """The recording of the rank that a row belongs to."""
    return SchemaColumn("span", Role.KEY, meaning, type=SMALLINT, by=By.STORE)
