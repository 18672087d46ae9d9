"""Keeps answers on disk, so that repeating a question about a store needs no database.

An answer depends on the store, our code, the question and its parameters, the libraries that computed it and the
user's device files; these are its key (`store.kept`). A plug-in's code has no reliable version, so nothing is kept if
one is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from stepscope.base.home import config_folder
from stepscope.base.plugins import are_none, metadata_folders
from stepscope.query.declare import Question
from stepscope.query.part import Part
from stepscope.query.rows import as_declared
from stepscope.query.table import Table
from stepscope.store.open import Store

MOST_ROWS: Final = 10_000
"""The most rows of a kept answer: longer ones are listings of events."""
_CHECK: Final = {
    "rank": int, "span": int, "check": str, "severity": str, "count": int, "affects": str, "explanation": str
}  # fmt: skip
"""Columns of `data_check`, and their types."""
_LIBRARIES: Final = ("duckdb-", "numpy-", "pyarrow-")


def kept_or_made(
    question: Question,
    store: Store,
    ranks: tuple[int, ...] | None,
    steps: tuple[int, ...] | None,
    part: Part,
    asked: Mapping[str, Any],
    make: Callable[[], Table],
    *,
    write: bool = True,
) -> Table:
    """Returns the kept answer, else makes it and keeps it: at once, or, without `write`, when a caller that asks more
    questions has it written."""
    ours = question.answer.__module__.startswith("stepscope.questions.")
    kept = store.kept if ours else None
    if kept is None:
        return make()
    # Imported here: this loads Arrow.
    from stepscope.store.kept import NOTHING, key_of

    named = (question.name, ranks, steps, part.name, part.under, part.window, dict(asked))

    def key() -> str | None:
        around = _surroundings()
        return None if around is None else key_of("answer", named, around)

    before = key()
    known = NOTHING if before is None else kept.get(before)
    if (given := _answer(known, question, asked)) is not None:
        return given
    table = make()
    if before is not None and len(table) <= MOST_ROWS and key() == before:
        kept.put(before, (table.arrow, table.sources, table.checks, table.note, table.ranks))
        if write:
            kept.write()
    return table


def _answer(known: Any, question: Question, asked: Mapping[str, Any]) -> Table | None:
    """Reads a kept value as an answer; None if there is none, or if it does not answer the question: the file may come
    from a stranger.
    """
    with suppress(TypeError, ValueError, AttributeError, LookupError, NotImplementedError):
        rows, sources, checks, note, of_ranks = known
        answer = as_declared(question, rows)
        texts = type(sources) is tuple and {*map(type, sources), type(note)} == {str}
        if (
            texts
            and answer.num_columns
            and answer.schema.equals(rows.schema)
            and _are_checks(checks)
            and type(of_ranks) is int
        ):
            return Table(question, answer, sources, checks, note, asked, ranks=of_ranks)
    return None


def _are_checks(checks: Any) -> bool:
    return type(checks) is tuple and all(
        {name: type(value) for name, value in check.items()} == _CHECK for check in checks
    )


def _surroundings() -> list[Any] | None:
    """What an answer depends on besides the store, our code and the question; None if that cannot be determined."""
    if not are_none():
        return None
    try:
        files = sorted(config_folder().glob("*.toml"))
        described = [(file.name, file.read_text("utf-8", "surrogateescape")) for file in files]
    except OSError:
        return None
    return [*described, *(one for one in metadata_folders() if one.startswith(_LIBRARIES))]
