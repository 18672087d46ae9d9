"""Clients that hold connections, send slowly or do not read: a user beside them is answered all the same."""

import contextlib
import json
import re
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.serve.conftest import Server, opened

from stepscope.serve import connections
from stepscope.store.memory import query_limit

FILES = 1024
HEADS = (b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n", b"POST /api/sql HTTP/1.1\r\ncontent-length: 9\r\n\r\n{")


@pytest.fixture
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip("this system allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def viewed(tmp_path):
    """`stepscope view` as a process that may open 1,024 files, with its port and token."""
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    limited = f"ulimit -n {FILES}; exec {sys.executable} -m stepscope view --no-browser {trace}"
    with (tmp_path / "stderr").open("wb") as stderr, contextlib.ExitStack() as stack:
        process = subprocess.Popen(["bash", "-c", limited], stdout=subprocess.PIPE, stderr=stderr, text=True)
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)
        port, token = re.search(r":(\d+)/\?token=(\S+)", process.stdout.readline()).groups()
        yield process, int(port), token
    assert len((tmp_path / "stderr").read_bytes()) < 2_000


def test_1300_half_open_connections_leave_the_user_the_server(many_files, tmp_path):
    with viewed(tmp_path) as (_, port, token), contextlib.ExitStack() as stack:
        for number in range(1300):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            with contextlib.suppress(OSError):  # closed already, for a younger one
                held.sendall(HEADS[number % 3])
            if number % 100 == 99:
                assert ask(port, token)[0]["id"] == "1"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit what a process allocates")
def test_the_process_may_take_what_queries_may_and_a_little(tmp_path):
    with viewed(tmp_path) as (process, _, __):
        limits = Path(f"/proc/{process.pid}/limits").read_text()
    assert query_limit() < int(re.search(r"Max data size\s+(\d+)", limits)[1]) < query_limit() + (4 << 30)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit what a process allocates")
def test_a_text_of_gigabytes_is_an_error_and_takes_no_memory():
    program = """
import re
from tests.literal import literal_store
from stepscope.api.trace import Trace
from stepscope.base.errors import StepScopeError
from stepscope.store import memory
trace = Trace(literal_store({}))
trace.sql("SELECT 1")
memory.query_limit = lambda: 256 << 20
limited = memory.limited_data()
limited.__enter__()
for query in ("SELECT repeat('x', 3000000000)", "SELECT length(repeat('x', 3000000000))"):
    try:
        trace.sql(query)
    except StepScopeError as error:
        print(error.slug)
peak_kb = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
print(len(trace.sql("SELECT repeat('x', 1000)")), peak_kb < 1 << 20)
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["out-of-memory", "out-of-memory", "1", "True"]


def ask(port, token):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as asking:
        head = f"GET /api/recordings HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\n"
        asking.sendall(f"{head}connection: close\r\n\r\n".encode())
        return json.loads(b"".join(iter(lambda: asking.recv(1 << 16), b"")).partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("head", HEADS)
def test_a_request_that_does_not_end_is_closed(served, monkeypatch, head):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    with served(opened({})).connect() as connection:
        connection.sendall(head)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(1 << 16):
                pass


def test_an_answer_that_is_not_read_is_dropped(served, monkeypatch):
    monkeypatch.setattr(connections, "READING_SECONDS", 0.2)
    server: Server = served(opened({}))
    body = json.dumps({"recording": "1", "sql": "SELECT repeat('x', 30_000_000)"}).encode()
    with server.connect() as connection:
        head = f"POST /api/sql HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\nauthorization: Bearer {server.policy.token}\r\n"
        connection.sendall(
            f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
        )
        deadline = time.monotonic() + 20
        while connections.Connection._open and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not connections.Connection._open
    assert server.ask("/api/recordings").status == 200


def test_an_answer_on_its_way_is_not_cut_off_for_another_connection(served, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    server: Server = served(opened({}))
    body = json.dumps({"recording": "1", "sql": "SELECT repeat('x', 30_000_000)"}).encode()
    with contextlib.ExitStack() as stack:
        reading = stack.enter_context(server.connect())
        head = f"POST /api/sql HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\nauthorization: Bearer {server.policy.token}\r\n"
        reading.sendall(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n".encode())
        reading.sendall(b"connection: close\r\n\r\n" + body)
        received = len(reading.recv(1 << 10))  # the answer is complete, and most of it not sent
        for _ in range(4):
            stack.enter_context(server.connect())
        assert server.ask("/api/recordings").status == 200
        while part := reading.recv(1 << 20):
            received += len(part)
    assert received > 30_000_000


def test_the_oldest_without_a_request_gives_its_place(served, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    server: Server = served(opened({}))
    with contextlib.ExitStack() as stack:
        first, *_ = [stack.enter_context(server.connect()) for _ in range(4)]
        assert server.ask("/api/recordings").status == 200
        with contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""
