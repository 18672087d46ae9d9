"""An answer: rows, what the columns mean, where they come from and how far they can be trusted."""

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

from stepscope.answers.declare import Column, Question
from stepscope.floor.chosen_numbers import wrong_argument
from stepscope.floor.complete_file import complete_output
from stepscope.floor.errors import StepScopeError, UsageError
from stepscope.floor.known_names import check_name
from stepscope.floor.quoting import one_line

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from stepscope.answers.text_grid import Line

_IN_SENTENCES = ("text", "overview", "paragraphs", "plan")
"""Drawings whose grid breaks long texts over lines."""
_UNTITLED = ("rows", "plan")
"""Drawings of answers to what people typed, who know it."""
MOST_HTML_ROWS = 100
JSON_VERSION = 1
"""Version of the JSON form: goes up when a field changes its meaning or goes away."""

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
        question: the declaration of what was asked.
        arrow: the rows; integers are 64 bit, times integer nanoseconds, sizes bytes, NULL is "not
            measured".
        sources: the files it was answered from, in order of rank and span.
        checks: data-quality checks that found something and bear on this answer, as rows of the
            store's table `data_check`.
        note: the conventions by which its numbers were made, where there are any; of an empty
            answer, why it is empty and which recording option would fill it.
        asked: the question's parameters that it was asked with, by name.
        jobs: where its files are of several jobs, the answer about each, by the job's name; their rows
            are those of this one, which has the column `job` beside them.
        is_sorted: whether its rows are in an order that someone chose; a tree or a layout of the
            question's own is then shown as a grid.
        gates: of a comparison, what became of the gates that it was held to, as rows.
        ranks: how many ranks it is about.
    """

    question: Question
    arrow: pa.Table
    sources: tuple[str, ...] = ()
    checks: tuple[dict[str, Any], ...] = ()
    note: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)
    jobs: Mapping[str, Table] = field(default_factory=dict)
    is_sorted: bool = False
    gates: tuple[dict[str, Any], ...] = ()
    ranks: int = 1

    @property
    def columns(self) -> tuple[Column, ...]:
        """Declarations of the columns that it has, in order."""
        return tuple(self.question.column(name) for name in self.arrow.column_names)

    @property
    def unreliable(self) -> bool:
        """Whether a check of severity warning or error bears on it."""
        return any(check["severity"] in ("warning", "error") for check in self.checks)

    def rows(self) -> list[dict[str, Any]]:
        """Its rows as dicts, NULL as None."""
        rows: list[dict[str, Any]] = self.arrow.to_pylist()
        return rows

    def __len__(self) -> int:
        """How many rows it has."""
        return int(self.arrow.num_rows)

    def sort(self, by: str) -> Table:
        """The same answer in order of a column: `"total_ns"`, `"name:desc"`, `"total_ns:asc"`.

        Without a direction numbers come largest first and texts from a to z. What was not measured
        comes last, and rows that are equal keep their order.

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
        """Its rows as dicts, one after another."""
        return iter(self.rows())

    @overload
    def __getitem__(self, asked: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, asked: str) -> list[Any]: ...

    @overload
    def __getitem__(self, asked: slice) -> Table: ...

    def __getitem__(self, asked: int | str | slice) -> dict[str, Any] | list[Any] | Table:
        """A row by its position, a column's values by its name, or some rows as a table.

        Raises:
            IndexError: there is no row at that position.
            UsageError: there is no column of that name, or it is asked for by something else.

        Example:
            trace.kernels()[0]["name"] == trace.kernels()["name"][0]
        """
        if isinstance(asked, str):
            check_name(asked, self.arrow.column_names, "column", of=f"this answer to {self.question.name}")
            return list(self.arrow.column(asked).to_pylist())
        positions = range(len(self))
        if isinstance(asked, slice):
            import pyarrow as pa

            rows = pa.array(positions[asked], pa.int64())  # Arrow knows no type for none
            return replace(self, arrow=self.arrow.take(rows))
        try:
            position = index(asked)
        except TypeError:
            raise wrong_argument(
                f"no row or column is named {asked!r}",
                "give a row's position, as in answer[0], or a column's name, as in answer['time_ns']",
            ) from None
        if not -len(positions) <= position < len(positions):
            # An IndexError, as every sequence raises it: loops by position end with one.
            there = "1 row" if len(positions) == 1 else f"{len(positions) or 'no'} rows"
            raise IndexError(f"no row {position}: this answer to {self.question.name} has {there}")
        row: dict[str, Any] = self.arrow.slice(positions[position], 1).to_pylist()[0]
        return row

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
        """Its JSON form as Python objects; `to_json` says what it holds."""
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
        """One JSON object: `question`, `sources`, `columns` (name, type, unit, meaning), `rows`
        (objects), `checks`, and `note` and `gates` where there are any.

        Integers are exact; what was not measured is null, and so is a number that is none.
        """
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_csv(self) -> str:
        """Its rows as CSV with a line of column names; what was not measured is an empty field."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.arrow.column_names)
        for row in _finite(self.arrow).to_pylist():
            writer.writerow(["" if value is None else value for value in row.values()])
        return text.getvalue()

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes its rows as a Parquet file, with each column's unit and meaning in its metadata.

        Raises:
            StepScopeError: the file cannot be written. Nothing is left behind then.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = [
            self.arrow.schema.field(c.name).with_metadata({"unit": c.unit, "meaning": c.meaning}) for c in self.columns
        ]
        schema = pa.schema(fields, metadata={"question": self.question.name})
        # In memory first: Parquet's writer seeks, which a pipe cannot.
        written = pa.BufferOutputStream()
        pq.write_table(self.arrow.cast(schema), written)
        with complete_output(Path(path)) as unfinished:
            unfinished.write_bytes(written.getvalue())

    def lines(self, *, width: int, most: int | None, whole: bool = False, bars: bool = False) -> list[Line]:
        """Its rows as a grid: what was asked, the rows, what is left out, and how far to trust it.

        Args:
            width: columns of text to fit into.
            most: rows to show at most; None for all.
            whole: show every column that it has, and let lines grow wider where they must.
            bars: where lines are wide, draw shares as bars.
        """
        from stepscope.answers.text_grid import MARK, Line, grid_lines, note_lines, wrapped

        drawing = self.question.drawing
        mark = f"{MARK} " if self.unreliable else ""
        lines = (
            []
            if drawing in _UNTITLED
            else [Line(text, "title") for text in wrapped(f"{mark}{self.question.asks}", width)]
        )
        rows = self._first(most)
        if rows:
            lines += grid_lines(
                self.columns,
                rows,
                width=width,
                more=len(self) - len(rows),
                whole=whole,
                in_sentences=drawing in _IN_SENTENCES,
                indented=drawing == "tree" and not self.is_sorted,
                bars=bars and not whole,
            )
        return [*lines, *note_lines(self.note, width), *self.warnings(width)]

    def warnings(self, width: int) -> list[Line]:
        """The checks that bear on it as lines, with the rank where it is of several."""
        from stepscope.answers.text_grid import warning_lines

        return warning_lines(self.checks, width, several=self.ranks > 1)

    def _first(self, most: int | None) -> list[dict[str, Any]]:
        """The first rows; of several jobs, as many of each as fit."""
        if most is None or len(self) <= most or not self.jobs or self.is_sorted:
            rows: list[dict[str, Any]] = self.arrow.slice(0, most).to_pylist()
            return rows
        left = dict.fromkeys(self.jobs, max(1, most // len(self.jobs)))
        shown = []
        for row in self.rows():
            if left[row["job"]]:
                left[row["job"]] -= 1
                shown.append(row)
        return shown

    def __repr__(self) -> str:
        """Its rows as text of 80 columns, the first 20 of them."""
        from stepscope.answers.text_grid import shortened

        return "\n".join(shortened(line.text, 80) for line in self.lines(width=80, most=20))

    def _repr_html_(self) -> str:
        """Its rows as an HTML table for notebooks, the first 100 of them, long texts shortened."""
        from html import escape

        from stepscope.answers.text_grid import grid_html

        rows = self.arrow.slice(0, MOST_HTML_ROWS).to_pylist()
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
    """`"total_ns:asc"` as the column and the direction, which is empty where none is given.

    Raises:
        UsageError: it is no text, or the direction is neither `asc` nor `desc`.
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
    """The rows with NULL for NaN and infinity, which JSON does not have: neither was measured."""
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
