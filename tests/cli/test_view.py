"""`stepscope view` as a process: the link it prints, and how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest


@contextmanager
def viewing(*arguments, **settings):
    """The command, with the link that it printed; killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "stepscope", "view", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": "", **settings},
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def asked(link, path):
    """What a program gets that was given the link."""
    address, _, token = link.partition("?token=")
    request = urllib.request.Request(  # noqa: S310  # the address is the server's
        f"{address}{path}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=20) as reply:  # noqa: S310
        return reply.read().decode()


def test_it_prints_its_link_and_ends_at_once(store, make_store):
    with viewing(store, "--compare", make_store()) as (process, link):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", link)
        assert asked(link, "api/recordings").count('"id"') == 2
        assert '"question":"diff"' in asked(link, "api/answers/diff")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "")
    port = link.split(":")[2].partition("/")[0]
    assert re.search(rf"\n  ssh -L {port}:127\.0\.0\.1:{port} \S+\nCtrl-C ends it\.\n", err)
    assert err.endswith("stepscope view: ended\n")


def test_it_ends_while_a_query_runs(store):
    with viewing(store) as (process, link), socket.socket() as client:
        address, _, token = link.partition("?token=")
        host = address.removeprefix("http://").rstrip("/")
        body = b'{"recording": "1", "sql": "SELECT count(*) FROM range(1000000000000) WHERE hash(range) = 1"}'
        client.connect(("127.0.0.1", int(host.partition(":")[2])))
        client.sendall(
            f"POST /api/sql HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert asked(link, "api/answers/steps")  # by now the query runs
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 0


def test_ctrl_c_ends_it_while_it_reads():
    """The recording comes from a program that has not ended."""
    with subprocess.Popen(
        [sys.executable, "-m", "stepscope", "view", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            process.stdin.write(b" " * (1 << 20))  # more than a pipe holds: it is being read
            process.stdin.flush()
            process.send_signal(signal.SIGINT)
            process.wait(timeout=20)
            out, err = process.stdout.read(), process.stderr.read()
        finally:
            process.kill()
            process.stdin.close()
    assert (process.returncode, out, err) == (130, b"", b"stepscope: interrupted\n")


def test_behind_a_proxy_the_link_is_the_proxys(store):
    with viewing(store, "--behind", "https://hub.example.org/proxy/8765") as (process, link):
        assert link.startswith("https://hub.example.org/proxy/8765/?token=")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "ssh" not in err


@pytest.mark.parametrize(
    "url", ["hub.example.org", "ftp://hub", "https://", "https://ann:x@hub/", "https://hub:x/", "https://h/?a"]
)
def test_an_address_that_is_none(run, store, url):
    ran = run("view", store, "--behind", url)
    assert ran.code == 2
    assert "[bad-address]" in ran.err


def test_a_port_that_is_taken(run, store):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ran = run("view", store, "--port", str(other.getsockname()[1]))
    assert ran.code == 1
    assert "is taken" in ran.err
    assert "--port" in ran.err


def test_a_browser_opens_a_file_that_leads_to_the_link(run, store, monkeypatch):
    """The token is not on the browser's command line."""
    import webbrowser

    from stepscope.cli import view

    opened = []
    monkeypatch.setattr(view, "_has_browser", lambda: True)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("stepscope.serve.running.serve", lambda *_, ready, **__: ready(lambda: None))
    monkeypatch.setattr(view.threading.Thread, "start", lambda thread: thread.run())
    texts = []
    monkeypatch.setattr(webbrowser, "open", lambda uri: texts.append((uri, open(uri[7:]).read())))  # noqa: PTH123, SIM115
    ran = run("view", store)
    ((uri, text),) = texts
    assert uri.startswith("file:///")
    assert f"url={ran.out.strip()}" in text
    assert not os.path.exists(uri[7:])  # noqa: PTH110
    assert run("view", store, "--no-browser").code == 0
    assert len(texts) == 1
