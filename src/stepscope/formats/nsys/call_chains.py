"""Call stacks of samples and calls in an export, as rows of `call_stack`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.consecutive import run_starts
from stepscope.formats.frames import without_folders
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import READ
from stepscope.schema.arrays import Int64s

_DEEPEST = 1024
_UNKNOWN = "[unknown]"


class Stacks:
    """The stacks of a recording, by number.

    A frame is written `library!function`, or `function` if its library is not known."""

    def __init__(self, recorded: pa.Table) -> None:
        self._recorded = recorded
        self._numbers: dict[str, int] = {}

    def numbers(self, database: Database, table: str, ids: pa.ChunkedArray) -> pa.Array:
        """The number of the stack under each id in a table of call chains; NULL for none."""
        ids_without_nulls = ids.fill_null(-1).to_numpy()
        if ids.null_count == len(ids) or not database.has(table):
            return pa.nulls(len(ids), pa.int32())
        stack, texts = _chains(database, table, ids_without_nulls)
        first = self._recorded.num_rows
        place = [first + self._numbers.setdefault(text, len(self._numbers)) for text in texts]
        return pa.array(np.array([*place, 0], np.int32)[stack], mask=stack < 0)

    def table(self) -> pa.Table:
        """Table `call_stack`."""
        first = self._recorded.num_rows
        numbers = pa.array(range(first, first + len(self._numbers)), pa.int32())
        columns = [numbers, pa.array(list(self._numbers), pa.string())]
        return pa.concat_tables([self._recorded, pa.table(columns, schema=READ["call_stack"])])


def _chains(database: Database, table: str, ids: Int64s) -> tuple[np.ndarray[Any, np.dtype[np.int32]], list[str]]:
    """The number of each id's stack, -1 for none, and the stacks, innermost frame first."""
    rows = database.columns(table, ("id", "stackDepth", "symbol", "module", "unresolved"), symbol="name", module="name")
    stack = np.full(len(ids), -1, np.int32)
    if not rows.num_rows:
        return stack, []
    frame, frames = _frames(rows)
    owner = rows["id"].fill_null(-1).to_numpy()
    depth = rows["stackDepth"].fill_null(0).to_numpy()
    order = np.lexsort((depth, owner))
    order = order[np.isin(owner[order], ids)]
    owner, frame = owner[order], frame[order]
    starts = np.flatnonzero(run_starts(owner))
    bounds = np.append(starts, len(owner)).tolist()
    numbering: dict[bytes, int] = {}
    texts: list[str] = []
    number_of = np.empty(len(starts), np.int32)
    for place, (low, high) in enumerate(pairwise(bounds)):
        chain = frame[low : min(high, low + _DEEPEST)]
        key = chain.tobytes()
        if key not in numbering:
            numbering[key] = len(numbering)
            texts.append(";".join(frames[number] for number in chain.tolist()))
        number_of[place] = numbering[key]
    if len(starts):
        owners = owner[starts]
        at = np.clip(np.searchsorted(owners, ids), 0, len(owners) - 1)
        stack = np.where(owners[at] == ids, number_of[at], -1).astype(np.int32)
    return stack, texts


def _frames(rows: pa.Table) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[str]]:
    """The number of each row's frame, and the frames; all addresses without a function are one frame."""
    symbol, module = rows["symbol"].combine_chunks(), rows["module"].combine_chunks()
    symbols = [*symbol.dictionary.to_pylist(), _UNKNOWN]
    modules = [*module.dictionary.to_pylist(), ""]
    resolved = pc.and_(symbol.is_valid(), pc.equal(rows["unresolved"].fill_null(0), 0).combine_chunks())
    place = pc.if_else(resolved, symbol.indices, len(symbols) - 1).to_numpy(zero_copy_only=False)
    packed = place.astype(np.int64) * len(modules)
    packed += module.indices.fill_null(len(modules) - 1).to_numpy(zero_copy_only=False)
    distinct, frame = np.unique(packed, return_inverse=True)
    return frame, [_frame(symbols[pair // len(modules)], modules[pair % len(modules)]) for pair in distinct.tolist()]


def _frame(symbol: str, module: str) -> str:
    library = without_folders(module).strip("[]").replace(";", ",")
    function = symbol.replace(";", ",")
    return f"{library}!{function}" if library and library != "Unknown" else function
