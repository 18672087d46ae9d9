"""Reopens recordings whose files grow while they are shown."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.serve.user_errors import to_user_error
from stepscope.store.cache import cache_key

if TYPE_CHECKING:
    from stepscope.report.page_data import OpenRecording

MIN_SECONDS = 2.0
"""Time between two looks at the files."""
_PART = 0.1
"""The part of the time that checking and opening files may take."""

Reopen = Callable[[ExitStack], "Sequence[OpenRecording]"]


class Opened:
    """Recordings as they were at one time, by the ids in requests: 1, 2, ... They are closed once they are retired and
    nobody uses them.
    """

    def __init__(
        self, recordings: Sequence[OpenRecording], ids: Mapping[tuple[str, int], str], stack: ExitStack
    ) -> None:
        """Takes over open recordings.

        Args:
            ids: ids by name and the number of earlier recordings with that name, so that a recording keeps its id when
                it is reopened.
        """
        names = Counter[str]()
        self.ids = dict(ids)
        self.recordings: dict[str, OpenRecording] = {}
        for recording in recordings:
            named = (recording.name, names[recording.name])
            names[recording.name] += 1
            self.recordings[self.ids.setdefault(named, str(len(self.ids) + 1))] = recording
        self._stack = stack
        self._lock = threading.Lock()
        self._users = 0
        self._retired = False

    def enter(self) -> bool:
        """Registers a user; returns whether the recordings may still be used."""
        with self._lock:
            self._users += not self._retired
            return not self._retired

    def leave(self) -> None:
        """Unregisters a user."""
        with self._lock:
            self._users -= 1
            last = self._retired and self._users == 0
        if last:
            self._stack.close()

    def retire(self) -> None:
        """Accepts no further users."""
        with self._lock:
            last = not self._retired and self._users == 0
            self._retired = True
        if last:
            self._stack.close()


class Growing:
    """The recordings that are shown now, and their successors.

    Args:
        recordings: the recordings, which their owner closes.
        reopen: opens them again; None for recordings that do not change.
    """

    def __init__(
        self, recordings: Sequence[OpenRecording], sources: Sequence[Path] = (), reopen: Reopen | None = None
    ) -> None:
        self._opened = Opened(recordings, {}, ExitStack())
        self._sources = sources
        self._reopen = reopen
        self._seen = self._state() if reopen else ""
        self._version = 0
        self._problem: str | None = None
        self._looking = threading.Lock()
        self._look_again = time.monotonic() + MIN_SECONDS

    @contextmanager
    def now(self) -> Iterator[Mapping[str, OpenRecording]]:
        """Yields the recordings by id; they stay open meanwhile."""
        while not (opened := self._opened).enter():
            pass  # they have just been replaced
        try:
            yield opened.recordings
        finally:
            opened.leave()

    def look(self) -> dict[str, Any]:
        """Returns how often they were reopened (`version`) and the error if that failed. If the last check of the files
        was long ago, starts one in a thread."""
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
            self._look_again = time.monotonic() + max(MIN_SECONDS, took / _PART)
            self._looking.release()

    def catch_up(self) -> None:
        """Reopens the recordings if their files changed."""
        if self._reopen is None or (state := self._state()) == self._seen:
            return
        self._seen = state
        stack = ExitStack()
        try:
            opened = Opened(self._reopen(stack), self._opened.ids, stack)
        except Exception as error:
            stack.close()
            self._problem = to_user_error(error).message
            return
        before, self._opened = self._opened, opened
        self._problem = None
        self._version += 1
        before.retire()

    def _state(self) -> str:
        return "\n".join(cache_key(source, {}) for source in self._sources)

    def close(self) -> None:
        """Closes the reopened recordings."""
        self._opened.retire()
