"""Recordings behind URLs: a real local S3 server, and a real web server."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from fsspec.config import conf

import stepscope
from stepscope.base.errors import SourceError, UsageError
from stepscope.store import remote
from stepscope.store.build import import_source

from .test_build import rows, trace

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    yield
    assert not list((tmp_path / "tmp").iterdir())


@pytest.fixture(scope="module")
def bucket():
    """A client of a server with the bucket `runs`; fsspec is told where it is."""
    import boto3  # here: processes that only collect this need half a second less
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", **keys)
    client.create_bucket(Bucket="runs")
    conf["s3"] = {"endpoint_url": f"http://127.0.0.1:{port}", "key": "a", "secret": "b"}
    yield client
    del conf["s3"]
    server.stop()


@pytest.fixture
def put(bucket):
    def put(name: str, content: bytes) -> None:
        bucket.put_object(Bucket="runs", Key=name, Body=content)

    yield put
    for one in bucket.list_objects_v2(Bucket="runs").get("Contents", []):
        bucket.delete_object(Bucket="runs", Key=one["Key"])


class Pages(BaseHTTPRequestHandler):
    """Serves what `files` has, and counts what is read; a length or a time only where it is told."""

    files: ClassVar[dict[str, tuple[bytes, dict[str, str]]]] = {}
    read: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.read.append(self.path)
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        content, headers = self.files.get(self.path, (b"", {}))
        self.send_response(200 if self.path in self.files else 403)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def site():
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        Pages.files, Pages.read = {}, []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_folder_of_a_bucket_is_read_as_one_here(put, tmp_path):
    here = tmp_path / "run"
    (here / "deep").mkdir(parents=True)
    for rank in range(2):
        text = json.dumps(trace(rank)).encode()
        put(f"run/deep/rank{rank}.json", text)
        (here / "deep" / f"rank{rank}.json").write_bytes(text)
    put("run/notes.txt", b"no trace")
    store = import_source("s3://runs/run/", tmp_path / "store")
    local = import_source(here, tmp_path / "local")
    query = "SELECT * FROM device_event ORDER BY rank, id"
    assert rows(store, query) == rows(local, query)
    assert rows(store, "SELECT path FROM source ORDER BY rank") == [
        {"path": "s3://runs/run/deep/rank0.json"},
        {"path": "s3://runs/run/deep/rank1.json"},
    ]
    facts = json.loads((store / "store.json").read_text())
    assert facts["source"] == "s3://runs/run"
    assert [one["path"] for one in facts["skipped"]] == ["s3://runs/run/notes.txt"]


def test_object_is_copied_again_only_when_it_changed(put, monkeypatch):
    copies = []
    copied = remote.copied
    monkeypatch.setattr(remote, "copied", lambda *given: copies.append(given) or copied(*given))
    for name, expected in (("aten::mm", 1), ("aten::mm", 1), ("aten::add", 2)):
        put("one.json", json.dumps(trace(name=name)).encode())
        with stepscope.open("s3://runs/one.json") as opened:
            found = opened.sql("SELECT DISTINCT name FROM host_event WHERE kind = 'operator'")
            assert found.rows() == [{"name": name}]
        assert len(copies) == expected


@pytest.mark.parametrize("version", [{}, {"Last-Modified": "Sun, 22 Nov 2026 16:03:49 GMT"}])
def test_file_of_a_web_server(version, site):
    text = json.dumps(trace(3)).encode()
    Pages.files["/t.json?key=secret"] = text, {"Content-Length": str(len(text)), **version}
    for _ in range(2):
        with stepscope.open(f"{site}/t.json?key=secret") as opened:
            assert opened.ranks == (3,)
            assert opened.sources()["path"] == [f"{site}/t.json"]
    # What the server says nothing of is copied each time.
    assert len(Pages.read) == (1 if version else 2)


def test_what_ends_early_or_is_refused(site, tmp_path):
    Pages.files["/short.json"] = b'{"traceEvents": [', {"Content-Length": "99999"}
    with pytest.raises(SourceError, match=r"short\.json"):
        import_source(f"{site}/short.json", tmp_path / "store")
    with pytest.raises(SourceError, match=r"/t\.json: the server answered 403") as refused:
        import_source(f"{site}/t.json?X-Amz-Signature=secret", tmp_path / "store")
    assert "secret" not in refused.value.message + refused.value.hint


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://runs/none", "s3://runs/none: there is nothing there"),
        ("s3://other/run", "s3://other/run: there is nothing there"),
        ("s3://runs/up", "is not the name of a file here"),
        ("s3://runs/store", "s3://runs/store: holds a store"),
        ("http://127.0.0.1:9/t.json", r"http://127\.0\.0\.1:9/t\.json: cannot be read \(ClientConnectorError"),
    ],
)
def test_url_that_cannot_be_read(url, says, put, tmp_path):
    put("up/../../../evil.json", b"{}")
    put("store/store.json", b"{}")
    with pytest.raises(SourceError, match=says):
        import_source(url, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_file_larger_than_the_disk_allows(put, monkeypatch, tmp_path):
    put("large.json", b" " * 3000)
    monkeypatch.setattr(remote.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 4000})())
    with pytest.raises(SourceError, match="takes more than half of what"):
        import_source("s3://runs/large.json", tmp_path / "store")


def test_package_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(UsageError) as refused:
        import_source("gs://bucket/run", tmp_path / "store")
    assert refused.value.hint == "pip install gcsfs"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("ftp://host/run", "ftp://host/run is not read"), ("S3://bucket/run", "S3://bucket/run is not read"),
        ("https://", "https:// names no place"), ("absent.json", "absent.json: no such file or folder"),
    ],
)  # fmt: skip
def test_what_is_no_source_is_called_what_it_is(source, says, tmp_path):
    for give in (lambda: stepscope.open(source), lambda: import_source(source, tmp_path / "store")):
        with pytest.raises(SourceError) as refused:
            give()
        assert refused.value.message == says
        assert refused.value.slug == "no-such-file"


def test_path_here_is_no_url():
    assert not remote.is_remote(Path("runs/s3/x"))
    assert not remote.is_remote(Path("ftp://host/x"))
