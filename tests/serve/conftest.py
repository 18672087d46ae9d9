"""A server on a real socket, in a thread of its own, over made recordings."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tests.browser.recordings import training
from tests.literal import literal_store

from stepscope.api.trace import Trace
from stepscope.report.page_data import OpenRecording
from stepscope.serve.asking import Recordings
from stepscope.serve.policy import Policy, place_behind
from stepscope.serve.running import listen, serve


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    policy: Policy

    @property
    def port(self) -> int:
        return self.policy.port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def ask(self, target: str, method: str = "GET", body: bytes = b"", **headers: str | None) -> Reply:
        """Sends one request as it stands, with the token unless `authorization` says otherwise."""
        sent: dict[str, str | None] = {
            "host": f"127.0.0.1:{self.port}",
            "authorization": f"Bearer {self.policy.token}",
            "connection": "close",
            **({"content-length": str(len(body))} if body else {}),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{name}: {value}" for name, value in sent.items() if value is not None]
        head = "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""])
        with self.connect() as connection:
            connection.sendall(head.encode("latin-1") + body)
            got = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        top, _, content = got.partition(b"\r\n\r\n")
        first, *rest = top.decode("latin-1").split("\r\n")
        found = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
        return Reply(int(first.split()[1]), found, content)

    def sql(self, text: str, recording: str = "1") -> Reply:
        body = json.dumps({"recording": recording, "sql": text}).encode()
        return self.ask("/api/sql", "POST", body, content_type="application/json")


def slower() -> dict[str, Any]:
    rows = training()
    for event in rows["device_event"]:
        event["dur_ns"] += 5_000
    return rows


def opened(*recordings: dict[str, Any]) -> list[OpenRecording]:
    return [OpenRecording(f"run {number}", Trace(literal_store(rows))) for number, rows in enumerate(recordings, 1)]


@pytest.fixture(scope="session")
def served() -> Iterator[Callable[..., Server]]:
    """Starts servers; they end with the session."""
    running: list[tuple[Callable[[], object], threading.Thread]] = []

    def start(
        shown: Sequence[OpenRecording], *, limit_s: float = 20, behind: str | None = None, follows: Sequence[Any] = ()
    ) -> Server:
        bound = listen(0)
        place = None if behind is None else place_behind(behind)
        server = Server(Policy(bound.getsockname()[1], place))
        ends: list[Callable[[], object]] = []
        there = threading.Event()

        def ready(end: Callable[[], object]) -> None:
            ends.append(end)
            there.set()

        thread = threading.Thread(
            target=serve,
            args=[Recordings(shown, *follows), server.policy, bound],
            kwargs={"limit_s": limit_s, "ready": ready},
        )
        thread.start()
        assert there.wait(10)
        running.append((ends[0], thread))
        return server

    yield start
    for end, thread in running:
        end()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def server(served: Any) -> Server:
    """Two recordings, the second slower."""
    return served(opened(training(), slower()))
