"""Recordings whose files grow while they are looked at: they are opened again when the files changed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.serve.known_errors import known
from stepscope.store.cache import cache_key

if TYPE_CHECKING:
    from stepscope.report.page_data import Shown

LEAST_SECONDS = 2.0
"""Between two looks at the files."""
_PART = 0.1
"""Of the time, what looking at files and opening them may take at most."""

Reopen = Callable[[ExitStack], "Sequence[Shown]"]


class Opened:
    """Recordings as they were at one time, by the ids under which requests name them: 1, 2, ...; closed
    when they are retired and nobody uses them any more.
    """

    def __init__(self, shown: Sequence[Shown], ids: Mapping[tuple[str, int], str], stack: ExitStack) -> None:
        """Takes over open recordings.

        Args:
            shown: the recordings.
            ids: by name and how often that was there before: a recording keeps its id when it is
                opened again.
            stack: what closes them.
        """
        names = Counter[str]()
        self.ids = dict(ids)
        self.shown: dict[str, Shown] = {}
        for one in shown:
            named = (one.name, names[one.name])
            names[one.name] += 1
            self.shown[self.ids.setdefault(named, str(len(self.ids) + 1))] = one
        self._stack = stack
        self._lock = threading.Lock()
        self._users = 0
        self._retired = False

    def enter(self) -> bool:
        """Whether one more may use them."""
        with self._lock:
            self._users += not self._retired
            return not self._retired

    def leave(self) -> None:
        """One less uses them."""
        with self._lock:
            self._users -= 1
            last = self._retired and self._users == 0
        if last:
            self._stack.close()

    def retire(self) -> None:
        """Nobody else may use them."""
        with self._lock:
            last = not self._retired and self._users == 0
            self._retired = True
        if last:
            self._stack.close()


class Growing:
    """What is looked at now, and what comes after it.

    Args:
        shown: the recordings, which somebody else closes.
        sources: their files and folders.
        reopen: opens them again; None for recordings that stay as they are.
    """

    def __init__(self, shown: Sequence[Shown], sources: Sequence[Path] = (), reopen: Reopen | None = None) -> None:
        self._opened = Opened(shown, {}, ExitStack())
        self._sources = sources
        self._reopen = reopen
        self._seen = self._state() if reopen else ""
        self._version = 0
        self._problem: str | None = None
        self._looking = threading.Lock()
        self._look_again = time.monotonic() + LEAST_SECONDS

    @contextmanager
    def now(self) -> Iterator[Mapping[str, Shown]]:
        """The recordings by their ids, which stay open meanwhile."""
        while not (opened := self._opened).enter():
            pass  # they were replaced just now
        try:
            yield opened.shown
        finally:
            opened.leave()

    def look(self) -> dict[str, Any]:
        """How often they were opened again (`version`) and what went wrong with that. If the last look at
        the files was long ago, they are looked at meanwhile, in a thread."""
        due = self._reopen is not None and time.monotonic() >= self._look_again
        if due and self._looking.acquire(blocking=False):
            threading.Thread(target=self._follow, name="stepscope-growing", daemon=True).start()
        return {"version": self._version, "problem": self._problem}

    def _follow(self) -> None:
        started = time.monotonic()
        try:
            self.catch_up()
        finally:
            took = time.monotonic() - started
            self._look_again = time.monotonic() + max(LEAST_SECONDS, took / _PART)
            self._looking.release()

    def catch_up(self) -> None:
        """Opens them again if their files changed."""
        if self._reopen is None or (state := self._state()) == self._seen:
            return
        self._seen = state
        stack = ExitStack()
        try:
            opened = Opened(self._reopen(stack), self._opened.ids, stack)
        except Exception as error:
            stack.close()
            self._problem = known(error).message
            return
        before, self._opened = self._opened, opened
        self._problem = None
        self._version += 1
        before.retire()

    def _state(self) -> str:
        return "\n".join(cache_key(source, {}) for source in self._sources)

    def close(self) -> None:
        """Closes what was opened again."""
        self._opened.retire()
