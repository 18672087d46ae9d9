"""Runs requests in threads, and stops those that take too long or that nobody waits for."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from stepscope.serve.policy import RefusedError
from stepscope.store.interrupt import Stop, StoppedError

Result = TypeVar("Result")

ERRORS = {
    "time-limit": (
        "The answer was not there within the server's time limit (`--time-limit`), and the query was stopped."
    )
}

AT_ONCE = 4
"""Questions that are answered at once; DuckDB uses all cores for each."""
OF_A_CLIENT = 3
"""Of those, how many may be one client's."""
_AGAIN_SECONDS = 0.05


class Tasks:
    """The running requests.

    Args:
        limit_s: the time limit of a request, including its wait for others (seconds).
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._answering: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._running: set[Stop] = set()

    async def do(self, work: Callable[[], Result], disconnected: Awaitable[None], client: str = "") -> Result:
        """Runs `work` in a thread until it is done or `disconnected` completes.

        The requests of a client wait for one another, and clients take turns.

        Raises:
            RefusedError: it takes too long.
            StoppedError: the client has gone.
        """
        task = asyncio.ensure_future(self._in_turn(work, client))
        leaves = asyncio.ensure_future(disconnected)
        try:
            await asyncio.wait({task, leaves}, timeout=self._limit_s, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if leaves.done():
                raise StoppedError
            raise RefusedError(
                504,
                f"the answer takes longer than {self._limit_s:g} s",
                hint="ask for less of it, or start the server with a longer --time-limit",
                slug="time-limit",
            )
        finally:
            leaves.cancel()
            task.cancel()

    async def _wait(self, client: str) -> None:
        """Waits until a request of this client may run."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(client)
            raise

    def _admit(self) -> None:
        """Lets waiting requests run, a client after the other, while there is room."""
        for client, turns in tuple(self._waiting.items()):
            while turns and turns[0].done():  # of a request that nobody waits for
                turns.popleft()
            if turns and (self._answering.total() >= AT_ONCE or self._answering[client] >= OF_A_CLIENT):
                continue
            del self._waiting[client]
            if turns:
                self._answering[client] += 1
                turns.popleft().set_result(None)
                self._waiting[client] = turns  # behind the others

    def _leave(self, client: str) -> None:
        self._answering -= Counter([client])
        self._admit()

    async def _in_turn(self, work: Callable[[], Result], client: str) -> Result:
        await self._wait(client)
        loop, stop = asyncio.get_running_loop(), Stop()
        outcome: asyncio.Future[Result] = loop.create_future()
        ended = asyncio.Event()
        self._running.add(stop)

        def report(result: Result | None, error: BaseException | None) -> None:
            self._running.discard(stop)
            self._leave(client)
            ended.set()
            if outcome.done():
                return
            if error is None:
                outcome.set_result(result)  # type: ignore[arg-type]  # there is a result if there is no error
            else:
                outcome.set_exception(error)

        def run() -> None:
            result, failed = None, None
            try:
                with stop.ending():
                    result = work()
            except BaseException as error:
                failed = error
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(report, result, failed)

        threading.Thread(target=run, name="stepscope-answer", daemon=True).start()
        try:
            return await outcome
        finally:
            if not ended.is_set():
                ending = loop.create_task(_end(stop, ended))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

    async def close(self, patience_s: float = 2.0) -> bool:
        """Stops everything, waits up to `patience_s`, and returns whether something is still running."""
        for _ in range(int(patience_s / _AGAIN_SECONDS)):
            if not self._running:
                return False
            for stop in tuple(self._running):
                stop.now()
            await asyncio.sleep(_AGAIN_SECONDS)
        return bool(self._running)


async def _end(stop: Stop, ended: asyncio.Event) -> None:
    while not ended.is_set():
        stop.now()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(ended.wait(), _AGAIN_SECONDS)
