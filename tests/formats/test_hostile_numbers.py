"""Numbers that no column can have, in every field of a small file of every format: rows or a named error, and each
value that is lost is counted."""

import copy
import pickle
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.examples import how_many
from tests.formats.test_contract import SAMPLES, sample_of
from tests.memory_snapshots import training

from stepscope.base.errors import SourceError
from stepscope.formats.bounded import integer, integer_in, real, real_in
from stepscope.formats.container import members
from stepscope.formats.registry import format_of
from stepscope.formats.tables import READ, ReadReport

DIGITS = "9" * 5000
"""More than Python converts."""
IN_JSON = [
    *("NaN", "Infinity", "-Infinity", "1e400", "1e308", str(2**63), str(2**64), "123456789012", DIGITS, "-1", "1.5"),
    *("true", '"x"', "[1]", "{}"),
]
IN_PYTHON = [*("1e400", str(2**63), str(2**64), "123456789012", DIGITS, "-1", "1.5", "True", "'x'", "[1]")]
IN_TEXT = [
    *("nan", "inf", "-inf", "1e400", "1e308", "1e999995", str(2**63), str(2**64), "123456789012", DIGITS, "-1", "1.5"),
    *("1.2.3", "²", "٣", "x"),
]
IN_SQLITE = [float("inf"), 1e308, 2**63 - 1, -(2**63), 2**62, 123456789012, -1, 1.5, "x", b"x", DIGITS]
IN_PICKLES = [float("nan"), float("inf"), 2**63, 2**64, -(2**63), 10**5000, 123456789012, -1, 1.5, True, "x", [1]]
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])", re.IGNORECASE)

KEPT = {
    # Text that is no number is a name, or a text beside the metric.
    "aps": re.compile(""),
    "collapsed": re.compile("process |thread "),
    "nvprof-metrics": re.compile("Device|relu|gemm"),
    "ncu": re.compile('"|9,'),
    "perf-stat": re.compile("per cycle"),
    # A longer time makes the threads idle.
    "host": re.compile("elapsed_ns"),
    # These numbers name rows of other tables, processes or kinds of events; `-1` is "not known" in snapshots.
    "nvprof": re.compile(r"\.(_id_|cbid|name)$"),
    "nsys": re.compile(r"\.(value|globalTid|globalPid|nameId|eventType|text)$"),
    "memory-snapshot": re.compile(r"requested_size|stream"),
}
"""Fields of which a strange value is read as something else, by format: nothing is lost."""


class Read:
    """The number of rows and values that a file gives, and what its reader counts; the slug of an error."""

    def __init__(self, data: bytes, folder: Path) -> None:
        file = folder / "sample"
        file.write_bytes(data)
        self.slug, self.rows, self.values, self.damage = "", 0, 0, {}
        try:
            for member in members(file):
                known = format_of(member)
                known.peek(member)
                for recording in known.recordings(member):
                    self._add(known.read(recording, None))
        except SourceError as error:
            self.slug = error.slug

    def _add(self, tables: object) -> None:
        report = tables.report
        self.damage |= {**report.damage, **report.unknown_categories, **report.unknown_fields}
        for name in READ:
            table = getattr(tables, name)
            self.rows += table.num_rows
            for column in table.columns:
                self.values += len(column) - column.null_count
                if pa.types.is_floating(column.type):
                    assert np.isfinite(column.drop_null().to_numpy()).all()


def _of_text(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    text = data.decode()
    numbers = IN_PYTHON if name == "pyprof" else IN_JSON if text.lstrip()[:1] in "{[" else IN_TEXT
    fields = {re.sub(r"\d", "", text[max(0, at.start() - 25) : at.start()]): at for at in NUMBER.finditer(text)}
    for field, at in fields.items():
        for number in numbers:
            yield field, f"{text[: at.start()]}{number}{text[at.end() :]}".encode()


def _of_sqlite(data: bytes, file: Path) -> Iterator[tuple[str, bytes]]:
    file.write_bytes(data)
    with sqlite3.connect(file) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        fields = [(table, row[1]) for table in tables for row in database.execute(f"PRAGMA table_info({table})")]
    for table, column in fields:
        for number in IN_SQLITE:
            file.write_bytes(data)
            changed = 0
            with sqlite3.connect(file) as database:
                try:
                    first = f"(SELECT min(rowid) FROM {table} WHERE {column} IS NOT NULL)"
                    changed = database.execute(
                        f"UPDATE {table} SET {column} = ? WHERE rowid = {first}", [number]
                    ).rowcount
                except sqlite3.IntegrityError:
                    continue
            database.close()
            if changed:
                yield f"{table}.{column}", file.read_bytes()


def _of_pickle() -> Iterator[tuple[str, bytes]]:
    snapshot = training().snapshot()
    fields: dict[str, tuple[object, ...]] = {}

    def walk(value: object, path: tuple[object, ...]) -> None:
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(inside, dict | list):
                walk(inside, (*path, key))
            elif isinstance(inside, int | float):
                fields.setdefault(".".join(name for name in (*path, key) if isinstance(name, str)), (*path, key))

    walk(snapshot, ())
    for field, (*path, key) in fields.items():
        for number in IN_PICKLES:
            changed = copy.deepcopy(snapshot)
            place = changed
            for name in path:
                place = place[name]
            place[key] = number
            yield field, pickle.dumps(changed, 4)


@pytest.mark.parametrize("name", SAMPLES)
def test_any_number_in_any_field_gives_rows_or_a_named_error_and_each_loss_is_counted(name, tmp_path):
    data = sample_of(name, tmp_path)
    whole = Read(data, tmp_path)
    if name == "memory-snapshot":
        changed = list(_of_pickle())
    elif name in ("nsys", "nvprof"):
        changed = list(_of_sqlite(data, tmp_path / "changed"))
    else:
        changed = list(_of_text(name, data))
    every = max(1, len(changed) // how_many(150))
    for field, hostile in changed[:: every if every % 11 else every + 1]:
        read = Read(hostile, tmp_path)
        if not read.slug and (read.rows < whole.rows or read.values < whole.values):
            assert read.damage != whole.damage or (name in KEPT and KEPT[name].search(field)), field


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400, True, "1", "x", [1], {}])
def test_what_is_no_number_of_a_column_is_none_and_counted(value):
    report = ReadReport()
    assert integer(value, report) is real(value, report) is None
    assert report.damage == {"wrong_type": 2}


@pytest.mark.parametrize("text", ["nan", "-inf", "1e400", "x", DIGITS])
def test_text_that_is_no_number_of_a_column_is_none_and_counted(text):
    report = ReadReport()
    assert integer_in(text, report) is real_in(text, report) is None
    assert report.damage == {"wrong_type": 2}


def test_bounds_belong_to_integers_and_missing_values_are_no_loss():
    report = ReadReport()
    assert [integer(value, low=-1, below=3) for value in (-2, -1, 2, 3)] == [None, -1, 2, None]
    assert (integer_in(" 12 "), real_in("-1e3"), real(2.5, high=2)) == (12, -1000.0, None)
    assert [integer(None, report), real(None, report), integer_in("", report), real_in(None, report)] == [None] * 4
    assert report.damage == {}
