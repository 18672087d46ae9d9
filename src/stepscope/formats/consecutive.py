"""Runs: consecutive rows that are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def run_starts(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows differ from the row before them in any of the columns; the first one always does."""
    starts = np.ones(len(columns[0]), dtype=bool)
    starts[1:] = False
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    return starts


def place_in_run(column: NDArray[Any]) -> NDArray[np.int64]:
    """How many rows of its run are before each row."""
    starts = np.flatnonzero(run_starts(column))
    lengths = np.diff(np.append(starts, len(column)))
    return np.arange(len(column)) - np.repeat(starts, lengths)
