"""Stores answers in the result cache of a store, and reads them.

The key of an answer is all that it depends on: the store, the question and its parameters, our code, the libraries that
compute it and the user's device files. A plug-in's code has no reliable version, so nothing is cached if one is
installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from stepscope.base.folders import config_folder
from stepscope.base.plugins import are_none, metadata_folders
from stepscope.query.declare import Question
from stepscope.query.event_filter import EventFilter
from stepscope.query.rows import as_declared
from stepscope.query.table import Table
from stepscope.store.code_digest import code_digest
from stepscope.store.open import Store

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS: Final = 10_000
"""Longer answers are listings of events."""
_CHECK: Final = {
    "rank": int, "span": int, "check": str, "severity": str, "count": int, "affects": str, "explanation": str
}  # fmt: skip
"""Columns of `data_check`, and their types."""
_LIBRARIES: Final = ("duckdb-", "numpy-", "pyarrow-")
_METADATA: Final = b"stepscope.answer"


def get_or_compute(
    question: Question,
    store: Store,
    ranks: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
    part: EventFilter,
    arguments: Mapping[str, Any],
    compute: Callable[[], Table],
) -> Table:
    """Returns the cached answer, else computes and caches it."""
    module = question.answer.__module__
    if store.results is None or not module.startswith("stepscope.") or not are_none():
        return compute()
    # Imported here: this loads Arrow.
    from stepscope.store.result_cache import key_of

    try:
        files = sorted(config_folder().glob("*.toml"))
        devices = [(file.name, file.read_text("utf-8", "surrogateescape")) for file in files]
    except OSError:
        return compute()
    libraries = [name for name in metadata_folders() if name.startswith(_LIBRARIES)]
    code = code_digest(module.split(".")[1])
    filters = (part.name, part.under, part.window)
    key = key_of(store.facts["crc32"], code, libraries, devices, question.name, ranks, steps, filters, dict(arguments))
    if key is None:
        return compute()
    rows = store.results.get(key)
    if rows is not None and (table := _answer(rows, question, arguments)) is not None:
        return table
    table = compute()
    if len(table) <= MAX_ROWS:
        about = {"sources": table.sources, "checks": table.checks, "note": table.note, "ranks": table.ranks}
        metadata = {**(table.arrow.schema.metadata or {}), _METADATA: json.dumps(about)}
        store.results.set(key, table.arrow.replace_schema_metadata(metadata))
    return table


def _answer(rows: pa.Table, question: Question, arguments: Mapping[str, Any]) -> Table | None:
    """The answer in a cached result; None if it is none to the question: the file may come from a stranger."""
    with suppress(TypeError, ValueError, AttributeError, LookupError, NotImplementedError):
        metadata = dict(rows.schema.metadata or {})
        about = json.loads(metadata.pop(_METADATA))
        sources, checks, note, ranks = about["sources"], about["checks"], about["note"], about["ranks"]
        are_texts = type(sources) is list and {*map(type, sources), type(note)} == {str}
        are_checks = type(checks) is list and all(
            {name: type(value) for name, value in check.items()} == _CHECK for check in checks
        )
        answer = as_declared(question, rows.replace_schema_metadata(metadata or None))
        if answer.num_columns and answer.schema.equals(rows.schema) and are_texts and are_checks and type(ranks) is int:
            return Table(question, answer, tuple(sources), tuple(checks), note, arguments, ranks=ranks)
    return None
