"""What the server answers: the page, and for each question what the command line prints."""

import json
import socket
import threading
import time

import pytest
from tests.browser.recordings import training
from tests.cli.conftest import ROWS
from tests.serve.conftest import opened
from tests.store.conftest import write_directory

from stepscope.api.trace import open_trace
from stepscope.cli.main import main
from stepscope.questions import OURS
from stepscope.report.page_data import OpenRecording
from stepscope.serve import asking
from stepscope.serve.asking import Recordings
from stepscope.serve.running import listen
from stepscope.serve.tasks import OF_A_CLIENT


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two recordings on disk, the second slower."""
    folder = tmp_path_factory.mktemp("serve")
    slower = {**ROWS, "device_event": [{**one, "dur_ns": 15} for one in ROWS["device_event"]]}
    return [write_directory(folder / "a", ROWS), write_directory(folder / "b", slower)]


@pytest.fixture(scope="module")
def on_disk(served, stores):
    traces = [open_trace(path) for path in stores]
    yield served([OpenRecording(path.name, trace) for path, trace in zip(stores, traces, strict=True)])
    for trace in traces:
        trace.close()


def printed(capsys, *arguments):
    code = main([*map(str, arguments), "--json"])
    said = capsys.readouterr()
    return json.loads(said.out) if code == 0 else said.err


@pytest.mark.parametrize("question", OURS)
def test_an_answer_is_what_the_command_prints(on_disk, stores, capsys, question):
    from stepscope.questions import find

    count = {"one": 1, "two": 2, "several": 2}[find(question).recordings]
    ids = "&".join(f"recording={number}" for number in range(1, count + 1))
    reply = on_disk.ask(f"/api/answers/{question}?{ids}")
    expected = printed(capsys, question, *stores[:count])
    if reply.status == 200:
        assert reply.json["answer"] == expected
        assert reply.json["rows_total"] == len(expected["rows"])
    else:  # refused by both in the same words
        assert isinstance(expected, str)
        assert reply.json["message"] in expected
        assert reply.json["hint"] in expected


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ("kernels?by=properties", ["--by", "properties"]),
        ("kernels?top=1&columns=name,total_ns", ["--top", "1", "-c", "name,total_ns"]),
        ("kernels?sort=total_ns:asc&rank=1&step=3", ["--sort", "total_ns:asc", "--rank", "1", "--step", "3"]),
        ("kernels?name=gem*", ["--name", "gem*"]),
    ],
)  # fmt: skip
def test_parameters_are_the_commands_options(on_disk, stores, capsys, asked, options):
    expected = printed(capsys, "kernels", stores[0], *options)
    assert on_disk.ask(f"/api/answers/{asked}").json["answer"] == expected


def test_sql_is_what_the_command_prints(on_disk, stores, capsys):
    text = "SELECT name, sum(dur_ns) AS total_ns FROM device_event GROUP BY name ORDER BY name"
    assert on_disk.sql(text).json["answer"] == printed(capsys, "sql", stores[0], text)
    assert on_disk.sql("SELECT max(dur_ns) AS m FROM device_event", "2").json["answer"]["rows"] == [{"m": 15}]
    assert "total_ns" in on_disk.sql("FROM answer.kernels").json["answer"]["rows"][0]


def test_rows_without_end_are_cut_and_that_is_said(server):
    answer = server.sql("FROM range(100000000000)").json["answer"]
    assert len(answer["rows"]) == 20_000
    assert answer["note"] == "These are the first 20000 rows; there are more."


def test_the_page_is_opened_by_its_link_alone(server):
    link = server.policy.link
    assert link == f"http://127.0.0.1:{server.port}/?token={server.policy.token}"
    reply = server.ask(f"/?token={server.policy.token}", authorization=None)
    assert (reply.status, reply.headers["location"]) == (303, "./")
    cookie, *facts = reply.headers["set-cookie"].split("; ")
    assert set(facts) == {"HttpOnly", "Path=/", "SameSite=lax"}
    odd = f'a="x; b=[]; {cookie}; c={{'  # what other servers of this host have left there
    page = server.ask("/", authorization=None, cookie=odd)
    assert page.status == 200
    assert "default-src 'none'; script-src 'sha256-" in page.headers["content-security-policy"]
    assert "connect-src 'self'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert b"stepscope-data" not in page.body.split(b"<script>")[0]
    assert server.policy.token.encode() not in page.body
    assert server.ask("/api/recordings", authorization=None, cookie=cookie).json == [
        {"id": number, "name": f"run {number}", "holds": [
            "source", "rank", "device", "thread", "stream", "step", "host_event", "device_event", "module",
            "data_check", "host_event operator", "device_event computation",
        ]} for number in "12"
    ]  # fmt: skip


def test_the_end_of_an_answer_waits_for_no_acknowledgement():
    with listen(0) as bound:
        assert bound.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's algorithm on


def test_questions_are_the_declarations(server):
    assert [one["name"] for one in server.ask("/api/questions").json][: len(OURS)] == list(OURS)


@pytest.mark.parametrize("path", ["/user/ann/proxy/8765", ""])
def test_behind_a_proxy_one_more_place_is_its_own(served, path):
    server = served(opened(training()), behind="https://hub.example.org/user/ann/proxy/8765/")
    assert server.policy.link.startswith("https://hub.example.org/user/ann/proxy/8765/?token=")
    own = {"host": "hub.example.org", "origin": "https://hub.example.org"}
    assert server.ask(f"{path}/api/recordings", **own).status == 200
    reply = server.ask(f"{path}/?token={server.policy.token}", host="hub.example.org", authorization=None)
    assert reply.status == 303
    assert "Path=/user/ann/proxy/8765/" in reply.headers["set-cookie"]
    assert "Secure" in reply.headers["set-cookie"]
    assert server.ask(f"{path}/api/recordings", **own, authorization=None).status == 401
    assert server.ask("/api/recordings", host="hub.example.org", origin="https://evil.example").status == 403
    assert server.ask("/api/recordings", host="evil.example").status == 421
    assert server.ask("/api/recordings").status == 200  # from the machine itself


ENDLESS = "SELECT count(*) FROM range(1000000000000) a WHERE hash(a.range) = 1"


def test_a_query_that_never_ends_is_stopped(served):
    server = served(opened(training()), limit_s=0.3)
    reply = server.sql(ENDLESS)
    assert (reply.status, reply.json["slug"]) == (504, "time-limit")
    assert reply.json["message"] == "the answer takes longer than 0.3 s"
    assert_none_runs()
    assert server.sql("SELECT 1 AS a").status == 200


def assert_none_runs():
    for thread in threading.enumerate():
        if thread.name == "stepscope-answer":
            thread.join(10)
            assert not thread.is_alive()


def test_a_query_ends_when_the_client_goes_away(served, monkeypatch):
    started, ask = threading.Semaphore(0), Recordings.sql
    monkeypatch.setattr(Recordings, "sql", lambda *asked, **more: (started.release(), ask(*asked, **more))[1])
    server = served(opened(training()), limit_s=60)
    body = json.dumps({"recording": "1", "sql": ENDLESS}).encode()
    head = (
        f"POST /api/sql HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {server.policy.token}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    connections = [server.connect() for _ in range(OF_A_CLIENT + 2)]
    for connection in connections:
        connection.sendall(head.encode() + body)
    for _ in range(OF_A_CLIENT):
        assert started.acquire(timeout=10)
    for connection in connections:
        connection.close()
    assert server.sql("SELECT 1 AS a").status == 200
    assert_none_runs()


def test_who_asks_the_same_meanwhile_waits_for_the_answer(monkeypatch):
    recordings, running, most = Recordings(opened(training())), [], []

    def slow(question, *_):
        running.append(question.name)
        most.append(sorted(running))
        time.sleep(0.05)
        running.remove(question.name)

    monkeypatch.setattr(asking, "_answer", slow)
    names = ["kernels", "kernels", "steps", "kernels"]
    threads = [threading.Thread(target=recordings.ask, args=(one, ["1"], [])) for one in names]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert ["kernels", "steps"] in most
    assert not any(one.count("kernels") > 1 for one in most)


@pytest.mark.parametrize("events", [1, asking.PREPARED_UP_TO + 1])
def test_the_overview_of_what_is_no_great_recording_is_prepared(monkeypatch, events):
    rows = training()
    rows["source"][0]["events_read"] = events
    recordings, asked = Recordings(opened(rows)), []
    monkeypatch.setattr(asking, "_answer", lambda question, *_: asked.append(question.name))
    recordings.prepare()
    assert asked == (["summary", "steps", "kernels"] if events == 1 else [])


def test_the_schema_is_that_of_the_command(on_disk, capsys):
    assert on_disk.ask("/api/schema").json == printed(capsys, "schema")["tables"]
