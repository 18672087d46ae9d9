"""The server's connections: how many there may be, and how long each may take to send a request or to read an answer."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
"""Time for a complete request, from its connection or its first byte on."""
READING_SECONDS = 60.0
"""Time in which a client must go on reading its answer."""
MAX_CONNECTIONS = 256
"""Connections at once, but never more than a third of the files that the process may open."""


def max_connections() -> int:
    """Connections at once."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(MAX_CONNECTIONS, files // 3))


class Connection(H11Protocol):
    """A connection that is closed when it is slow, or when another needs its place and no request of its own runs."""

    _open: dict[Connection, None] = {}  # noqa: RUF012  # of all connections of the process, the oldest first
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Finds a place for the connection."""
        super().connection_made(transport)
        if len(self._open) >= max_connections():
            waiting = (connection for connection in self._open if not connection.is_served)
            next(waiting, self)._end()
        if not transport.is_closing():
            self._open[self] = None
            self._limit(REQUEST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gives the place back."""
        self._open.pop(self, None)
        self._unlimit()
        super().connection_lost(exc)

    @property
    def has_request(self) -> bool:
        """Whether a complete request has arrived that is not yet answered."""
        return self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete)

    @property
    def is_served(self) -> bool:
        """Whether a request is being answered, or an answer is not yet sent completely."""
        return self.has_request or self.transport.get_write_buffer_size() > 0

    def data_received(self, data: bytes) -> None:
        """Reads, and limits the time until a request is complete."""
        super().data_received(data)
        if self.has_request or self.transport.is_closing():
            self._unlimit()
        elif self._timer is None and not self._is_idle:
            self._limit(REQUEST_SECONDS)

    @property
    def _is_idle(self) -> bool:
        """Whether all that arrived is answered; uvicorn closes such connections."""
        return self.timeout_keep_alive_task is not None

    def pause_writing(self) -> None:
        """Limits the time in which the client has to read on."""
        super().pause_writing()
        self._limit(READING_SECONDS)

    def resume_writing(self) -> None:
        """Lifts that limit."""
        super().resume_writing()
        self._unlimit()

    def _limit(self, seconds: float) -> None:
        self._unlimit()
        self._timer = self.loop.call_later(seconds, self._end)

    def _unlimit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._open.pop(self, None)
        self._unlimit()
        self.transport.abort()


def ignore_lost_connections(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles the loop's errors: those of connections are the clients' and would fill the terminal."""
    if not isinstance(context.get("exception"), OSError):
        loop.default_exception_handler(context)
