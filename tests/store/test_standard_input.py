"""`-` as a source: standard input is read once, bounded, and nothing of it is kept."""

import gzip
import io
import json
import shutil
import sqlite3
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import stepscope
from stepscope.base.errors import SourceError
from stepscope.cli.main import main
from stepscope.store import copies

KERNEL = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
TRACE = json.dumps({"traceEvents": [{**KERNEL, "args": {"device": 0, "stream": 7}}]}).encode()


@pytest.fixture
def piped(monkeypatch, tmp_path):
    """Gives bytes to standard input; the temporary folder and the cache are the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))

    def give(data: bytes, *, isatty: bool = False) -> Path:
        stream = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: isatty)
        monkeypatch.setattr("sys.stdin", stream)
        return tmp_path

    return give


@pytest.mark.parametrize("data", [TRACE, gzip.compress(TRACE)], ids=["json", "gzip"])
def test_a_trace_from_a_pipe_leaves_nothing_behind(piped, data):
    folder = piped(data)
    with stepscope.open("-") as trace:
        assert trace.kernels(columns=["name", "total_ns"]).to_csv() == "name,total_ns\ngemm,2000\n"
        assert trace.sources()["path"] == ["standard input"]
    assert list(folder.iterdir()) == []


def test_store_of_a_pipe_names_no_file_that_is_gone(piped, tmp_path):
    piped(TRACE)
    assert main(["import", "-", "-o", str(tmp_path / "store")]) == 0
    facts = json.loads((tmp_path / "store" / "store.json").read_text())
    assert (facts["source"], facts["job"]) == ("standard input", "standard input")
    files = (path for path in tmp_path.rglob("*") if path.is_file())
    assert not any(b"stepscope-stdin" in path.read_bytes() for path in files)


def test_what_needs_a_file_is_read_too(piped, tmp_path):
    """A database is read from pages all over it."""
    path = tmp_path / "made" / "net.sqlite"
    path.parent.mkdir()
    sqlite3.connect(path).execute("CREATE TABLE a (b)").connection.close()
    data = path.read_bytes()
    shutil.rmtree(path.parent)
    piped(data)
    with pytest.raises(SourceError, match="standard input") as from_pipe:
        stepscope.open("-")
    assert "stepscope-stdin" not in from_pipe.value.message
    assert list(tmp_path.iterdir()) == []


def test_the_command_reads_it_and_import_keeps_it(piped, capsys, tmp_path):
    piped(TRACE)
    assert main(["kernels", "-", "--csv", "-c", "name"]) == 0
    assert capsys.readouterr().out == "name\ngemm\n"
    piped(gzip.compress(TRACE))
    assert main(["import", "-", "-o", str(tmp_path / "store")]) == 0
    capsys.readouterr()
    assert main(["kernels", str(tmp_path / "store"), "--csv", "-c", "name"]) == 0
    assert capsys.readouterr().out == "name\ngemm\n"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("data", "isatty", "message"),
    [
        (b"", False, "standard input is empty, or was read before"),
        (TRACE, True, "standard input is a terminal, or closed"),
        (b"hello", False, "standard input"),
    ],
)
def test_what_cannot_be_read_is_said(piped, data, isatty, message):
    folder = piped(data, isatty=isatty)
    with pytest.raises(SourceError, match=message) as caught:
        stepscope.open("-")
    assert str(folder) not in caught.value.message + caught.value.hint
    assert list(folder.iterdir()) == []


def test_it_is_read_once(piped):
    piped(TRACE)
    with pytest.raises(SourceError, match="was read before"):
        stepscope.diff("-", "-", by="kernel")


def test_what_does_not_end_is_refused_before_it_fills_the_disk(piped, monkeypatch):
    folder = piped(bytes(5 << 20))
    monkeypatch.setattr(copies, "MAX_BYTES", 3 << 20)
    with pytest.raises(SourceError, match="holds more than 3 MiB"):
        stepscope.open("-")
    assert list(folder.iterdir()) == []
