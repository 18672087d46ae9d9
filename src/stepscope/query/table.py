"""An answer: its rows, the meaning of its columns, their source and how far to trust them."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from stepscope.base.chosen_numbers import wrong_argument
from stepscope.base.complete_file import complete_output
from stepscope.base.errors import StepScopeError, UsageError
from stepscope.base.known_names import check_name
from stepscope.base.quoting import one_line
from stepscope.query.declare import Column, Question

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from stepscope.query.text_grid import Line

_IN_SENTENCES = ("text", "map", "overview", "paragraphs", "plan")
"""Drawings whose grid wraps long texts."""
_UNTITLED = ("rows", "plan")
"""Drawings of answers to SQL that people typed, which need no title."""
MAX_HTML_ROWS = 100
JSON_VERSION = 1
"""Version of the JSON form: increases when a field changes its meaning or is removed."""

ERRORS = {
    "no-data-frames": (
        "`to_pandas` and `to_polars` make data frames of a library that is not installed. "
        "StepScope itself needs neither: `rows()` gives dicts, and `arrow` an Arrow table."
    )
}


@dataclass(frozen=True, repr=False, eq=False)
class Table:
    """The answer to a question.

    Args:
        question: the declaration of the question.
        arrow: the rows; integers have 64 bits, times are integer nanoseconds, sizes bytes, NULL means
            "not measured".
        sources: the files that it was answered from, ordered by rank and span.
        checks: data-quality checks that found something and concern this answer, as rows of the
            store's table `data_check`.
        note: the conventions behind its numbers, if there are any; for an empty answer, why it is
            empty and which recording option would fill it.
        arguments: the question's parameters that were given, by name.
        jobs: for files of several jobs, the answer about each, by the job's name; this answer has their
            rows and a column `job`.
        is_sorted: whether someone chose the order of the rows; a question's own tree or layout is then
            shown as a grid.
        gates: for a comparison, the results of its gates, as rows.
        ranks: how many ranks it covers.
    """

    question: Question
    arrow: pa.Table
    sources: tuple[str, ...] = ()
    checks: tuple[dict[str, Any], ...] = ()
    note: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    jobs: Mapping[str, Table] = field(default_factory=dict)
    is_sorted: bool = False
    gates: tuple[dict[str, Any], ...] = ()
    ranks: int = 1

    @property
    def columns(self) -> tuple[Column, ...]:
        """Declarations of its columns, in order."""
        return tuple(self.question.column(name) for name in self.arrow.column_names)

    @property
    def unreliable(self) -> bool:
        """Whether a check of severity warning or error concerns it."""
        return any(check["severity"] in ("warning", "error") for check in self.checks)

    def rows(self) -> list[dict[str, Any]]:
        """Its rows as dicts, NULL as None."""
        return self.arrow.to_pylist()

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def sort(self, by: str) -> Table:
        """Returns the same answer ordered by a column: `"total_ns"`, `"name:desc"`, `"total_ns:asc"`.

        Without a direction, numbers are ordered largest first and texts from a to z. Values that were not
        measured are last, and equal rows keep their order.

        Raises:
            UsageError: the answer has no such column, or the direction is neither `asc` nor `desc`.
        """
        import pyarrow.compute as pc

        name, direction = sort_key(by)
        check_name(name, self.arrow.column_names, "column", of=self.question.name)
        largest_first = direction == "desc" or (not direction and self.question.column(name).type in ("int", "float"))
        order = "descending" if largest_first else "ascending"
        rows = pc.sort_indices(self.arrow, sort_keys=[(name, order)])  # a stable sort
        return replace(self, arrow=self.arrow.take(rows), is_sorted=True)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...

    @overload
    def __getitem__(self, key: slice) -> Table: ...

    def __getitem__(self, key: int | str | slice) -> dict[str, Any] | list[Any] | Table:
        """Returns a row by position, a column's values by name, or several rows as a table.

        Raises:
            IndexError: there is no row at that position.
            UsageError: there is no such column, or the key has another type.

        Example:
            trace.kernels()[0]["name"] == trace.kernels()["name"][0]
        """
        if isinstance(key, str):
            check_name(key, self.arrow.column_names, "column", of=f"this answer to {self.question.name}")
            return list(self.arrow.column(key).to_pylist())
        positions = range(len(self))
        if isinstance(key, slice):
            import pyarrow as pa

            rows = pa.array(positions[key], pa.int64())  # Arrow cannot infer a type for no rows
            return replace(self, arrow=self.arrow.take(rows))
        try:
            position = index(key)
        except TypeError:
            raise wrong_argument(
                f"no row or column is named {key!r}",
                "give a row's position, as in answer[0], or a column's name, as in answer['time_ns']",
            ) from None
        if not -len(positions) <= position < len(positions):
            # An IndexError, as for every sequence: it ends loops by position.
            has = "1 row" if len(positions) == 1 else f"{len(positions) or 'no'} rows"
            raise IndexError(f"no row {position}: this answer to {self.question.name} has {has}")
        return self.arrow.slice(positions[position], 1).to_pylist()[0]

    def to_pandas(self) -> pandas.DataFrame:
        """Its rows as a pandas DataFrame; integer columns with NULL become nullable `Int64`.

        Raises:
            StepScopeError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise _no_frames("pandas") from None
        import pyarrow as pa

        nullable = {pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}

        def type_of(arrow_type: pa.DataType) -> Any:
            return nullable.get(arrow_type)

        return self.arrow.to_pandas(types_mapper=type_of)

    def to_polars(self) -> polars.DataFrame:
        """Its rows as a polars DataFrame.

        Raises:
            StepScopeError: polars is not installed.
        """
        try:
            import polars
        except ImportError:
            raise _no_frames("polars") from None

        frame = polars.from_arrow(self.arrow)
        assert isinstance(frame, polars.DataFrame)  # noqa: S101  # a table never becomes a Series
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form as Python objects; see `to_json`."""
        answer: dict[str, Any] = {
            "schema_version": JSON_VERSION,
            "question": self.question.name,
            "asks": self.question.asks,
            "sources": list(self.sources),
            "columns": [{"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning} for c in self.columns],
            "rows": _finite(self.arrow).to_pylist(),
            "checks": [dict(check) for check in self.checks],
        }
        if self.note:
            answer["note"] = self.note
        if self.gates:
            answer["gates"] = [dict(gate) for gate in self.gates]
        return answer

    def to_json(self, *, indent: int | None = 2) -> str:
        """Returns one JSON object: `question`, `sources`, `columns` (name, type, unit, meaning), `rows`
        (objects), `checks`, and `note` and `gates` if there are any.

        Integers are exact. Values that were not measured, NaN and infinity are null.
        """
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_csv(self) -> str:
        """Its rows as CSV, with a line of column names; a value that was not measured is an empty field."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.arrow.column_names)
        for row in _finite(self.arrow).to_pylist():
            writer.writerow(["" if value is None else value for value in row.values()])
        return text.getvalue()

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes its rows as a Parquet file, with each column's unit and meaning in its metadata.

        Raises:
            StepScopeError: the file cannot be written. No partial file is left then.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = [
            self.arrow.schema.field(c.name).with_metadata({"unit": c.unit, "meaning": c.meaning}) for c in self.columns
        ]
        schema = pa.schema(fields, metadata={"question": self.question.name})
        # In memory first: the Parquet writer seeks, which a pipe cannot.
        written = pa.BufferOutputStream()
        pq.write_table(self.arrow.cast(schema), written)
        with complete_output(Path(path)) as unfinished:
            unfinished.write_bytes(written.getvalue())

    def lines(self, *, width: int, limit: int | None, complete: bool = False, bars: bool = False) -> list[Line]:
        """Its rows as a grid: the question, the rows, how many are left out, and how far to trust them.

        Args:
            width: columns of text to fit into.
            limit: the largest number of rows to show; None for all.
            complete: show every column, and let lines grow wider where they must.
            bars: draw shares as bars where lines are wide.
        """
        from stepscope.query.text_grid import MARK, Line, grid_lines, note_lines, wrapped

        drawing = self.question.drawing
        mark = f"{MARK} " if self.unreliable else ""
        lines = (
            []
            if drawing in _UNTITLED
            else [Line(text, "title") for text in wrapped(f"{mark}{self.question.asks}", width)]
        )
        rows = self._first(limit)
        if rows:
            lines += grid_lines(
                self.columns,
                rows,
                width=width,
                more=len(self) - len(rows),
                complete=complete,
                in_sentences=drawing in _IN_SENTENCES,
                indented=drawing == "tree" and not self.is_sorted,
                bars=bars and not complete,
            )
        return [*lines, *note_lines(self.note, width), *self.warnings(width)]

    def warnings(self, width: int) -> list[Line]:
        """The checks that concern it as lines, with the rank if it covers several."""
        from stepscope.query.text_grid import warning_lines

        return warning_lines(self.checks, width, several=self.ranks > 1)

    def _first(self, limit: int | None) -> list[dict[str, Any]]:
        """The first rows; for several jobs, as many of each as fit."""
        if limit is None or len(self) <= limit or not self.jobs or self.is_sorted:
            return self.arrow.slice(0, limit).to_pylist()
        left = dict.fromkeys(self.jobs, max(1, limit // len(self.jobs)))
        first = []
        for row in self.rows():
            if left[row["job"]]:
                left[row["job"]] -= 1
                first.append(row)
        return first

    def __repr__(self) -> str:
        from stepscope.query.text_grid import shortened

        return "\n".join(shortened(line.text, 80) for line in self.lines(width=80, limit=20))

    def _repr_html_(self) -> str:
        """Its first 100 rows as an HTML table for notebooks, with long texts shortened."""
        from html import escape

        from stepscope.query.text_grid import grid_html

        rows = self.arrow.slice(0, MAX_HTML_ROWS).to_pylist()
        below = [f"{len(self) - len(rows)} more rows"] if len(self) > len(rows) else []
        below += self.note.splitlines()
        words = "".join(f"<p>{escape(one_line(text))}</p>" for text in below)
        for line in self.warnings(10_000):
            edge = "border-left:3px solid #d97706;padding-left:.5em" * (line.style == "warning")
            words += f'<p style="{edge}">{escape(line.text)}</p>'
        in_sentences = self.question.drawing in _IN_SENTENCES
        grid = grid_html(self.columns, rows, in_sentences=in_sentences)
        return f"<p>{escape(self.question.asks)}</p>{grid}{words}"


def sort_key(text: str) -> tuple[str, str]:
    """Splits `"total_ns:asc"` into the column and the direction, which is empty if none is given.

    Raises:
        UsageError: the key is not a text, or the direction is neither `asc` nor `desc`.
    """
    if not isinstance(text, str):
        raise UsageError(
            f"sort={text!r} is not of type text",
            hint='sort: the name of a column, as in "total_ns" or "name:desc"',
            slug="bad-parameter",
        )
    name, _, direction = text.partition(":")
    if direction or text.endswith(":"):
        check_name(direction, ("asc", "desc"), "choice", of="--sort COLUMN")
    return name, direction


def _finite(rows: pa.Table) -> pa.Table:
    """Replaces NaN and infinity, which JSON does not have, with NULL: neither was measured."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, name in enumerate(rows.column_names):
        values = rows.column(place)
        if pa.types.is_floating(values.type) and pc.all(pc.is_finite(values)).as_py() is False:
            rows = rows.set_column(place, name, pc.if_else(pc.is_finite(values), values, None))
    return rows


def _no_frames(library: str) -> StepScopeError:
    return StepScopeError(
        f"{library} is not installed, which makes the data frame",
        hint=f"pip install {library}, or take .rows() or .arrow, which need nothing more",
        slug="no-data-frames",
    )
