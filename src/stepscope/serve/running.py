"""The server's process: its socket, its loop, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from stepscope.base.errors import StepScopeError
from stepscope.serve.app import make_app
from stepscope.serve.asking import Recordings
from stepscope.serve.connections import Connection, ignore_lost_connections
from stepscope.serve.policy import LOOPBACK, Policy
from stepscope.serve.tasks import Tasks

ERRORS = {"port-taken": "Another program listens on the port that `stepscope view --port` names."}

BACKLOG = 128
"""Connections that the system accepts ahead of the server."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def listen(port: int) -> socket.socket:
    """Opens a socket on the loopback address.

    Raises:
        StepScopeError: the port is in use, or needs privileges.
    """
    # With the protocol named, asyncio sends at once; else the end of an answer waits 40 ms for an acknowledgement.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((LOOPBACK, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        taken = error.errno == errno.EADDRINUSE
        raise StepScopeError(
            f"port {port} {'is taken' if taken else f'cannot be used: {error.strerror}'}",
            hint="name another with --port, or none for one that is free",
            slug="port-taken",
        ) from None
    return bound


class _Server(uvicorn.Server):
    """uvicorn without its signal handling."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to `serve`: they end the server at once, even while it answers."""
        yield


def serve(
    recordings: Recordings,
    policy: Policy,
    bound: socket.socket,
    *,
    limit_s: float,
    ready: Callable[[Callable[[], object]], None] = lambda _: None,
    meanwhile: Callable[[], object] = lambda: None,
) -> bool:
    """Answers requests until a signal arrives, or until the function given to `ready` is called.

    Args:
        bound: the socket; closed at the end.
        limit_s: the time limit of an answer (seconds).
        ready: called once requests are answered, with a function that ends the server.
        meanwhile: then runs in a thread, while a browser starts.

    Returns:
        Whether a query that could not be stopped is still running.
    """
    return asyncio.run(_serve(recordings, policy, bound, limit_s, ready, meanwhile))


async def _serve(
    recordings: Recordings,
    policy: Policy,
    bound: socket.socket,
    limit_s: float,
    ready: Callable[[Callable[[], object]], None],
    meanwhile: Callable[[], object],
) -> bool:
    tasks = Tasks(limit_s)
    server = _Server(
        uvicorn.Config(
            make_app(recordings, policy, tasks),
            http=Connection,
            ws="none",
            backlog=BACKLOG,
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
        )
    )
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(ignore_lost_connections)

    def end() -> None:
        server.should_exit = server.force_exit = True

    if threading.current_thread() is threading.main_thread():
        # Ignored signals stay ignored: nohup, and a shell that put this into the background.
        for number in (number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN):
            loop.add_signal_handler(number, end)
    serving = asyncio.ensure_future(server.serve([bound]))
    ready(lambda: loop.call_soon_threadsafe(end))
    done = asyncio.ensure_future(tasks.do(meanwhile, loop.create_future()))
    try:
        await serving
    finally:
        done.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):  # the request that needs it gets the error
            await done
        runs_on = await tasks.close()
    return runs_on
