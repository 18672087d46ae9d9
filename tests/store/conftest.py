"""Store directories of literal rows, laid out as an import lays them out."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.literal import complete_rows

from stepscope.store.manifest import write_store_file

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def write_directory(directory: Path, rows: Rows) -> Path:
    tables = complete_rows(rows)
    for rank in tables["rank"].column("rank").to_pylist():
        folder = directory / f"rank={rank:05d}"
        folder.mkdir(parents=True)
        for name, table in tables.items():
            mine = table.filter(pc.equal(table["rank"], rank))
            for span in sorted(set(mine["span"].to_pylist())) if "span" in mine.column_names else [0]:
                part = mine.filter(pc.equal(mine["span"], span)) if "span" in mine.column_names else mine
                if part.num_rows:
                    pq.write_table(part, folder / f"{name}.{span}.parquet")
    write_store_file(directory, {"source": "made", "ranks": []})
    return directory


@pytest.fixture
def make_directory(tmp_path: Path) -> Callable[..., Path]:
    """Writes a store directory of literal rows; `name` is its path below a temporary folder."""

    def make(rows: Rows, name: str = "store") -> Path:
        return write_directory(tmp_path / name, rows)

    return make
