"""Reports are exported by `nsys`; a stand-in for it writes a real export, and the real one is asked where it is."""

from __future__ import annotations

import shutil
import sys

import pytest
from tests.formats.nsys.exports import Nsys, global_tid

import stepscope
from stepscope.floor.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.nsys.reader import peek
from stepscope.formats.registry import format_of

REPORT = b"NVIDIA Tegra Profiler Report\x00" + bytes(range(256))


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "rank3.nsys-rep"
    path.write_bytes(REPORT)
    return path


def installed(tmp_path, monkeypatch, body: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nsys"
    program.write_text(f"#!{sys.executable}\nimport os, shutil, sys\n{body}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_a_report_is_exported_once_and_read(report, tmp_path, monkeypatch):
    export = Nsys(tmp_path / "export.sqlite").launch(100, 5, "gemm", 150, 190)
    export.insert("OSRT_API", start=1, end=2, globalTid=global_tid(7), nameId=export.text("poll"))
    calls = tmp_path / "calls"
    installed(
        tmp_path,
        monkeypatch,
        f"open({str(calls)!r}, 'a').write(' '.join(sys.argv[1:-2]) + '\\n')\n"
        f"assert open(sys.argv[-1], 'rb').read() == {REPORT!r}\n"
        f"shutil.copy({str(export.path)!r}, sys.argv[-2])\n",
    )
    (member,) = members(report)
    assert format_of(member).name == "nsys"
    assert peek(member).pid == 144
    with stepscope.open(report, cache=False) as trace:
        assert trace.sql("SELECT name FROM device_event").rows() == [{"name": "gemm"}]
        assert trace.sql("SELECT path FROM source").rows() == [{"path": str(report)}]
    assert calls.read_text() == "export --type sqlite -o\n"


def test_without_nsys_the_error_names_the_command(report, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="no nsys here") as error:
        stepscope.open(report, cache=False)
    assert "nsys export --type sqlite -o report.sqlite FILE" in error.value.hint
    assert error.value.slug == "no-nsys"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("print('The local client version should be same or newer')\nsys.exit(1)", "same or newer"),
        ("sys.exit(3)", "exit code 3"),
        ("print('done')", "done"),
    ],
)
def test_an_export_that_fails_says_why(report, tmp_path, monkeypatch, body, reason):
    installed(tmp_path, monkeypatch, body)
    with pytest.raises(SourceError, match=reason) as error:
        stepscope.open(report, cache=False)
    assert error.value.slug == "nsys-failed"


def test_what_nsys_writes_is_held_to_what_an_export_is(report, tmp_path, monkeypatch):
    installed(
        tmp_path, monkeypatch, "open(sys.argv[-2], 'wb').write(b'SQLite format 3\\0' + bytes(99))"
    )
    with pytest.raises(SourceError, match="not a database of Nsight Systems"):
        stepscope.open(report, cache=False)


@pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed")
def test_the_real_nsys_refuses_what_is_no_report(report):
    with pytest.raises(SourceError, match="nsys could not export"):
        stepscope.open(report, cache=False)
