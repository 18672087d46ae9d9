"""What the server refuses, over a real socket; each refusal in the one shape of errors."""

import pytest

PAGE_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def refused(reply, status, slug):
    assert (reply.status, reply.json["slug"]) == (status, slug)
    assert set(reply.json) == {"message", "hint", "slug"}
    assert reply.headers.items() >= PAGE_HEADERS.items()
    assert "access-control-allow-origin" not in reply.headers
    return reply.json["message"]


@pytest.mark.parametrize("target", ["/", "/api/recordings", "/api/answers/kernels", "/nothing"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1.evil:{port}"]
)
def test_a_foreign_name_of_the_host(server, target, host):
    refused(server.ask(target, host=host.format(port=server.port)), 421, "foreign-host")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_each_loopback_name_is_its_own(server, host):
    assert server.ask("/api/recordings", host=f"{host}:{server.port}").status == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:{port}", "https://127.0.0.1:{port}"]
)
@pytest.mark.parametrize("target", ["/", "/api/recordings"])
def test_a_foreign_origin(server, target, origin):
    reply = server.ask(target, origin=origin.format(port=server.port))
    refused(reply, 403, "foreign-origin")


def test_a_page_elsewhere_that_sends_no_origin(server):
    for site in ("cross-site", "same-site"):
        refused(server.ask("/api/recordings", sec_fetch_site=site), 403, "foreign-origin")
        assert server.ask("/", sec_fetch_site=site).status == 200  # a link leads to the page


def test_its_own_page_may_ask(server):
    own = {"origin": f"http://127.0.0.1:{server.port}", "sec_fetch_site": "same-origin"}
    assert server.ask("/api/recordings", **own).status == 200


@pytest.mark.parametrize("target", ["/", "/api/recordings", "/api/answers/kernels", "/nothing"])
@pytest.mark.parametrize("brought", [None, "", "Bearer", "Bearer wrong", "Basic {token}", "{token}"])
def test_no_token_or_a_wrong_one(server, target, brought):
    sent = brought and brought.format(token=server.policy.token)
    refused(server.ask(target, authorization=sent), 401, "no-token")


def test_a_wrong_token_in_the_address_or_cookie(server):
    for target in ("/?token=wrong", "/?token=", "/?token=%F0%9F%94%A5"):
        refused(server.ask(target, authorization=None), 401, "no-token")
    wrong = {"authorization": None, "cookie": f"{server.policy.cookie}=wrong"}
    refused(server.ask("/", **wrong), 401, "no-token")
    # What is asked of data stands in logs and histories: the token of an address opens the page alone.
    target = f"/api/recordings?token={server.policy.token}"
    refused(server.ask(target, authorization=None), 401, "no-token")


def test_the_token_of_another_server(server, served):
    from tests.serve.conftest import opened

    other = served(opened({}))
    sent = f"Bearer {other.policy.token}"
    refused(server.ask("/api/recordings", authorization=sent), 401, "no-token")


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE", "NONSENSE"])
@pytest.mark.parametrize("target", ["/", "/api/recordings", "/api/answers/kernels"])
def test_other_methods(server, target, method):
    reply = server.ask(target, method)
    assert reply.status == 405
    assert reply.headers["allow"] == "GET"
    if method != "HEAD":
        refused(reply, 405, "no-such-address")


@pytest.mark.parametrize(
    "target",
    [
        "/nothing", "/api", "/api/", "/api/recordings/", "/api/answers/", "/api/answers/kernels/x", "//",
        "/../../../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
        "/api/answers/../../etc/passwd", "http://evil.example/", "/src/main.tsx", "/page.js",
    ],
)  # fmt: skip
def test_unknown_addresses(server, target):
    refused(server.ask(target), 404, "no-such-address")


@pytest.mark.parametrize(
    ("target", "slug"),
    [
        ("/api/answers/kernelz", "unknown-question"),
        ("/api/answers/..%2f..%2fetc%2fpasswd", "no-such-address"),
        ("/api/answers/kernels?recording=3", "unknown-recording"),
        ("/api/answers/kernels?recording=1&recording=2", "unknown-recording"),
        ("/api/answers/diff?recording=1", "unknown-recording"),
        ("/api/answers/kernels?by=nonsense", "unknown-choice"),
        ("/api/answers/kernels?nonsense=1", "unknown-parameter"),
        ("/api/answers/kernels?self=1", "unknown-parameter"),
        ("/api/answers/kernels?ranks=0", "unknown-parameter"),
        ("/api/answers/diff?recording=1&recording=2&names=a", "unknown-parameter"),
        ("/api/answers/diff?recording=1&recording=2&capture=a.json", "unknown-parameter"),
        ("/api/answers/call-tree?max_nodes=-1", "bad-parameter"),
        ("/api/answers/kernels?by=name&by=name", "asked-twice"),
        ("/api/answers/kernels?top=0", "bad-top"),
        ("/api/answers/kernels?top=some", "bad-parameter"),
        ("/api/answers/kernels?rank=7", "unknown-rank"),
        ("/api/answers/kernels?columns=nonsense", "unknown-column"),
        ("/api/answers/diff?rank=0", "unknown-parameter"),
    ],
)
def test_questions_that_are_none(server, target, slug):
    refused(server.ask(target), 404 if slug == "no-such-address" else 400, slug)


@pytest.mark.parametrize(
    "text",
    [
        "DROP VIEW kernel", "CREATE TABLE x (a INT)", "INSERT INTO step VALUES (1)", "DELETE FROM step",
        "UPDATE step SET step = 1", "SELECT 1; DROP TABLE step", "ATTACH '/tmp/x.db'", "SET threads = 1",
        "COPY step TO '/tmp/x.csv'", "INSTALL httpfs", "PRAGMA database_list", "EXPLAIN DELETE FROM step", "",
    ],
)  # fmt: skip
def test_sql_that_writes(server, text):
    assert server.sql(text).status == 400
    assert server.sql(text).json["slug"] in ("sql-not-read-only", "sql-error")


@pytest.mark.parametrize(
    "text",
    [
        "FROM read_text('/etc/passwd')", "FROM read_csv('/etc/passwd')", "FROM '/etc/passwd'",
        "FROM glob('/*')", "FROM read_parquet('https://evil.example/x.parquet')",
    ],
)  # fmt: skip
def test_sql_that_reads_a_path_outside_of_the_store(served, tmp_path, text):
    from tests.cli.conftest import ROWS
    from tests.store.conftest import write_directory

    from stepscope.api.trace import open_trace
    from stepscope.report.page_data import OpenRecording

    with open_trace(write_directory(tmp_path / "store", ROWS)) as trace:
        server = served([OpenRecording("store", trace)])
        refused(server.sql(text), 400, "sql-error")
        assert "root:" not in server.sql(text).body.decode()
        assert server.sql("SELECT count(*) AS n FROM step").json["answer"]["rows"] == [{"n": 4}]


def test_a_body_that_is_no_question(server):
    post = ("/api/sql", "POST")
    kind = {"content_type": "application/json"}
    for body in (b"SELECT 1", b"[]", b'{"sql": "SELECT 1"}', b'{"recording": 1, "sql": ""}', b"\xff",
                 b"[" * 100_000):  # fmt: skip
        refused(server.ask(*post, body, **kind), 400, "bad-request")
    for sent in (None, "text/plain", "application/x-www-form-urlencoded"):
        refused(server.ask(*post, b'{"recording": "1", "sql": "SELECT 1"}', content_type=sent), 415,
                "bad-request")  # fmt: skip


def test_too_large_a_body(server):
    kind = {"content_type": "application/json"}
    large = b'{"recording": "1", "sql": "' + b"x" * (300 << 10) + b'"}'
    refused(server.ask("/api/sql", "POST", b"{}", content_length="99999999", **kind), 413, "body-too-large")
    piece = b"%x\r\n%s\r\n0\r\n\r\n" % (len(large), large)
    reply = server.ask("/api/sql", "POST", piece, transfer_encoding="chunked", content_length=None, **kind)
    refused(reply, 413, "body-too-large")
