"""Keyword arguments that questions take besides their own parameters: types for the other stubs alone."""

from collections.abc import Iterable, Sequence
from typing import TypedDict

from stepscope.api.trace import Captures
from stepscope.store.progress import Progress

class Selection(TypedDict, total=False):
    """Which part of an answer to return.

    * `top`: only the first N rows.
    * `columns`: only these columns, in this order.
    * `sort`: order rows by this column, largest numbers first; `name:desc` and `total_ns:asc` give the direction.
    """

    top: int | None
    columns: Sequence[str] | None
    sort: str | None


class AskedOfRecording(Selection, total=False):
    """Arguments of every question: those of `Selection`, and

    * `rank`: only this rank or these ranks.
    * `step`: only this step or these steps.
    """

    rank: int | Iterable[int] | None
    step: int | Iterable[int] | None


class AskedOfTime(AskedOfRecording, total=False):
    """Arguments of a question about time: those of `AskedOfRecording`, and

    * `window`: only this time interval, as `1.5s:2s` or two times in ns; events that cross its borders are cut.
    """

    window: str | tuple[int, int] | None


class AskedOfEvents(AskedOfTime, total=False):
    """Arguments of a question about events: those of `AskedOfTime`, and

    * `name`: only operators, ranges, kernels and calls whose name matches, as `*gemm*` or `/sgemm|hgemm/`, and what
      such operators launched themselves.
    * `under`: only what ran in this module (including its backward), operator or range.
    """

    name: str | None
    under: str | None


class AskedOfSeveral(Selection, total=False):
    """Arguments of a question that compares recordings: those of `Selection`, and

    * `names`: names for the recordings; by default the last parts of their paths.
    * `job`: which job to use of recordings with files of several jobs: one name for all recordings, or one for each, in
      order.
    * `name`, `under`, `window`: only some events, as in `AskedOfEvents`.
    * `capture`: recordings in which the jobs' CUDA graphs were captured. For files only.
    * `cache`: keep the imported tables for the next time (the default).
    * `strict`: treat any damage in a file as an error.
    * `progress`: called with the progress of reading.
    """

    names: Sequence[str] | None
    job: str | Sequence[str] | None
    name: str | None
    under: str | None
    window: str | tuple[int, int] | None
    capture: Captures
    cache: bool
    strict: bool
    progress: Progress | None
