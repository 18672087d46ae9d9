"""Merges what all recordings of a rank have: each lists devices and streams, which are kept once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from stepscope.schema.declare import Role
from stepscope.schema.tables import TABLES
from stepscope.store.write import rank_folder, read_stored, write_stored

_KEYS = {
    table.name: tuple(column.name for column in table.columns if column.role is Role.KEY)
    for table in TABLES.values()
    if table.linked_names and "span" not in table.column_names
}
"""What distinguishes rows in the tables that every recording of a rank has, but a rank only once."""


def merge_spans(directory: Path, rank: int) -> None:
    """Leaves one row per device and stream of a rank, in the files of span 0."""
    folder = rank_folder(directory, rank)
    for table, keys in _KEYS.items():
        files = sorted(folder.glob(f"{table}.*"))
        if len(files) < 2:
            continue
        merged: dict[tuple[int, ...], dict[str, object]] = {}
        schema: pa.Schema | None = None
        for file in files:
            rows = read_stored(file)
            schema = schema or rows.schema
            for row in rows.to_pylist():
                first = merged.setdefault(tuple(row[key] for key in keys), row)
                if row.get("used"):
                    first["used"] = True
        for file in files:
            file.unlink()
        rows = pa.Table.from_pylist(list(merged.values()), schema=schema)
        write_stored(folder / f"{table}.0{files[0].suffix}", TABLES[table], rows)


def add_check(directory: Path, rank: int, check: dict[str, Any]) -> None:
    """Adds what was found in a folder to the checks of one of its ranks."""
    (file,) = rank_folder(directory, rank).glob("data_check.0.*")
    rows = read_stored(file)
    added = {"rank": rank, "span": 0, **check}
    row = pa.Table.from_pylist([added], schema=rows.schema)
    write_stored(file, TABLES["data_check"], pa.concat_tables([rows, row]).unify_dictionaries())
