"""What questions can be asked with, by keyword, beside their own parameters."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from stepscope.answers.table import Table
    from stepscope.store.progress import Progress

Captures = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Shown(TypedDict, total=False):
    """What of an answer is shown.

    * `top`: only the first so many rows.
    * `columns`: only these columns, in this order.
    * `sort`: in order of this column, numbers largest first; `name:desc` and `total_ns:asc` say which way.
    """

    top: int | None
    columns: Sequence[str] | None
    sort: str | None


class AskedOfRecording(Shown, total=False):
    """What every question takes: what `Shown` has, and

    * `rank`: only this rank or these ranks.
    * `step`: only this step or these steps.
    """

    rank: int | Iterable[int] | None
    step: int | Iterable[int] | None


class AskedOfTime(AskedOfRecording, total=False):
    """What a question about time takes: what `AskedOfRecording` has, and

    * `window`: only this stretch of time, as `1.5s:2s` or two times in ns; events that reach out of it are cut.
    """

    window: str | tuple[int, int] | None


class AskedOfEvents(AskedOfTime, total=False):
    """What a question about events takes: what `AskedOfTime` has, and

    * `name`: only operators, ranges, kernels and calls of this name, `*gemm*` or `/sgemm|hgemm/`, and what such
      operators launched themselves.
    * `under`: only what ran in this module (its backward too), or inside this operator or range.
    """

    name: str | None
    under: str | None


class AskedOfSeveral(Shown, total=False):
    """What a question that compares recordings takes: what `Shown` has, and

    * `names`: what to call the recordings; by default the last parts of their paths.
    * `job`: where the files of a recording are of several jobs, which one is meant: one name for all recordings,
      or one for each in order.
    * `name`, `under`, `window`: only some events, as in `AskedOfEvents`.
    * `capture`: recordings in which the jobs' CUDA graphs were captured; for files only.
    * `cache`: keep what is imported for the next time (the default).
    * `strict`: treat any damage in a file as an error.
    * `progress`: is told how far reading has got.
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


class Asks(ABC):
    """What methods of questions are made of."""

    @abstractmethod
    def ask(self, question: str, **asked: Any) -> Table:
        """Asks a question by its name."""
