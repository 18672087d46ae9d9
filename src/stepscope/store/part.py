"""Makes a store of some ranks or steps of another store.

The recordings of a store are read back as link returned them and narrowed as in an import, so that the part equals an
import of the sources with the same choices. What is not narrowed is copied. What all ranks together showed, which
collectives match and how clocks are aligned, stays: the part alone would show less.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stepscope.base.chosen_numbers import check_known
from stepscope.base.errors import StoreError
from stepscope.formats.evidence import SUBJECTS
from stepscope.schema.declare import Role, SchemaTable
from stepscope.schema.tables import TABLES
from stepscope.store.chosen import check_steps
from stepscope.store.joined import join_small_ranks, separated
from stepscope.store.manifest import StoredFile, damaged_store, listed_files, write_store_file
from stepscope.store.narrow import Tables, narrowed
from stepscope.store.open import Store
from stepscope.store.place import make_store, place_for
from stepscope.store.progress import SILENT, Progress
from stepscope.store.ranks import add_check
from stepscope.store.write import SPAN_IDS, rank_folder, write_tables

_OF_FILES = ("files", "crc32", "joined")
"""Entries of `store.json` about the files of a store, which do not apply to a part of it."""


def write_part(
    store: Store,
    output: str | os.PathLike[str],
    *,
    ranks: Iterable[int] | None = None,
    steps: Iterable[int] | None = None,
    progress: Progress | None = None,
) -> tuple[int, ...]:
    """Writes chosen ranks and steps of an open store as a store, and returns the ranks; replaces only a store.

    Raises:
        StoreError: the part cannot be written there, or the store is damaged.
        UsageError: a rank or a step that the store does not have.
        ValueError: the store is in memory.
    """
    if store.directory is None:
        raise ValueError("a store in memory has no files to make a part of")
    origin, target = store.directory, place_for(output)
    if target.is_relative_to(origin) or origin.is_relative_to(target):
        raise StoreError(
            f"{target}: is the store that is read, or holds it, or lies in it",
            hint="give a directory that is empty or does not exist yet",
            slug="output-exists",
        )
    chosen = store.ranks if ranks is None else check_known(ranks, store.ranks, "rank", of=str(origin))
    store.verify_all_files(chosen)
    chosen_steps = store.stored_steps if steps is None else tuple(sorted(set(steps)))
    facts = {name: value for name, value in store.facts.items() if name not in _OF_FILES}
    facts["ranks"] = list(chosen)
    files: dict[tuple[int, int], dict[str, list[StoredFile]]] = {}
    with separated(listed_files(origin, store.facts), chosen) as files_of_ranks:
        for file in files_of_ranks:
            of_span = files.setdefault((file.rank, file.place[0]), {})
            of_span.setdefault(file.table, []).append(file)
        if chosen_steps is not None:
            recorded = _steps_of(origin, files)
            if steps is not None:
                check_steps(chosen_steps, recorded)
            facts["steps"] = sorted(recorded.intersection(chosen_steps))
        progress = progress or SILENT

        def build(directory: Path) -> None:
            progress.start(f"Writing {target.name}", len(files))
            for (rank, span), by_table in files.items():
                if steps is None or chosen_steps is None:
                    folder = rank_folder(directory, rank)
                    folder.mkdir(parents=True, exist_ok=True)
                    for file in (stored for some in by_table.values() for stored in some):
                        shutil.copyfile(file.path, folder / file.path.name)
                else:
                    tables = _narrowed(origin, by_table, span, chosen_steps)
                    write_tables(directory, tables, rank=rank, span=span)
                progress.advance()
            if chosen[0] != store.ranks[0]:
                for check in _checks_of_the_folder(store):
                    add_check(directory, chosen[0], check)
            joined = join_small_ranks(directory, chosen)
            write_store_file(directory, facts | ({"joined": joined} if joined else {}))
            progress.finish()

        make_store(target, build)
    return chosen


def _steps_of(origin: Path, files: dict[tuple[int, int], dict[str, list[StoredFile]]]) -> set[int]:
    steps: set[int] = set()
    for by_table in files.values():
        for name in ("step", "phase_step"):
            steps.update(_read(origin, TABLES[name], by_table)["step"].to_pylist())
    return steps


def _narrowed(origin: Path, files: dict[str, list[StoredFile]], span: int, steps: tuple[int, ...]) -> Tables:
    """The tables of one recording, narrowed; times stay those of the rank.

    Raises:
        StoreError: they are not as link returns them.
    """
    linked: Tables = {}
    by_store: Tables = {}
    for name, declared in TABLES.items():
        table = _read(origin, declared, files)
        for column in (column_ for column_ in declared.columns if column_.role is Role.EVENT):
            at = table.schema.get_field_index(column.name)
            ids = pc.subtract(table.column(at), pa.scalar(span * SPAN_IDS, pa.int64()))
            table = table.set_column(at, table.schema.field(at), ids)
        if declared.linked_names:
            linked[name] = table.select(declared.linked_names)
        else:
            by_store[name] = table
    try:
        return narrowed(linked, steps, None) | by_store
    except (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise damaged_store(origin, str(error).splitlines()[0]) from None


def _read(origin: Path, declared: SchemaTable, files: dict[str, list[StoredFile]]) -> pa.Table:
    """A recording's rows of a table, shared texts as dictionaries.

    Raises:
        StoreError: a file is not Parquet, or has other columns.
    """
    words = [column.name for column in declared.columns if column.role is Role.WORD]
    schema = pa.schema(
        [
            field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in words else field
            for field in declared.arrow()
        ]
    )
    try:
        parts = [
            pq.ParquetFile(file.path, read_dictionary=words).read().select(schema.names).cast(schema)
            for file in files.get(declared.name, ())
        ]
        return pa.concat_tables([schema.empty_table(), *parts]).unify_dictionaries()
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        raise damaged_store(origin, f"{declared.name}: {str(error).splitlines()[0]}") from None


def _checks_of_the_folder(store: Store) -> list[dict[str, object]]:
    rows = store.sql("SELECT * EXCLUDE (rank, span) FROM data_check WHERE rank = ?", [store.ranks[0]])
    return [row for row in rows.to_pylist() if SUBJECTS.get(row["check"]) == "job"]
