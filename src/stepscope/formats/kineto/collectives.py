"""Collective arguments as Kineto writes them, to the columns of `collective_args`."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from stepscope.formats.kineto import fields
from stepscope.formats.tables import READ


def collective_args(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Distinct sets of collective arguments, each given as the values of `fields.COLLECTIVE`."""
    return pa.Table.from_pylist([_row(row) for row in rows], schema=READ["collective_args"])


def _row(values: tuple[Any, ...]) -> dict[str, Any]:
    given = dict(zip(fields.COLLECTIVE, values, strict=True))
    return {
        "operation": given["Collective name"],
        "group_name": given["Process Group Name"],
        "group_description": given["Process Group Description"],
        "group_ranks": _ranks(given["Process Group Ranks"]),
        "group_size": _small(given["Group size"]),
        "sequence": given["Seq"],
        "dtype": given["dtype"],
        "elements_in": given["In msg nelems"],
        "elements_out": given["Out msg nelems"],
        "source_rank": _small(given["Src Rank"]),
        "destination_rank": _small(given["Dst Rank"]),
    }


def _ranks(text: str | None) -> str | None:
    """A JSON list of ranks; None where the recording elides them (`[0, 1, ..., 511]`)."""
    if text is None:
        return None
    try:
        ranks = json.loads(text)
        if isinstance(ranks, str):
            ranks = json.loads(ranks)
    except (ValueError, RecursionError):
        return None
    if not isinstance(ranks, list) or not all(isinstance(rank, int) for rank in ranks):
        return None
    return json.dumps(ranks)


def _small(value: int | None) -> int | None:
    return value if value is not None and -(2**31) <= value < 2**31 else None
