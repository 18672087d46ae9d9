"""Reports are exported by `nsys`; a stand-in for it writes a real export, and the real one is asked where it is."""

import os
import shutil
import sys
import zipfile

import pytest
from tests.formats.nsys.exports import Nsys, global_tid

import stepscope
from stepscope.base.errors import SourceError
from stepscope.formats.container import members
from stepscope.formats.nsys.reader import peek
from stepscope.formats.registry import format_of
from stepscope.formats.runs import find_run

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
    assert error.value.slug == "no-vendor-tool"


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
    assert error.value.slug == "vendor-tool-failed"


def test_what_nsys_writes_is_held_to_what_an_export_is(report, tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "open(sys.argv[-2], 'wb').write(b'SQLite format 3\\0' + bytes(99))")
    with pytest.raises(SourceError, match="not a database of Nsight Systems"):
        stepscope.open(report, cache=False)


@pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed")
def test_the_real_nsys_refuses_what_is_no_report(report):
    with pytest.raises(SourceError, match="nsys could not export"):
        stepscope.open(report, cache=False)


def exported(path, at=100):
    """An export beside a report, with one kernel that starts then."""
    return Nsys(path).launch(at, 5, "gemm", at + 50, at + 90).path


def written_at(path, moment):
    os.utime(path, (moment, moment))


@pytest.mark.parametrize("ending", ["nsys-rep", "qdrep"])
def test_a_report_beside_its_export_is_the_same_recording(tmp_path, ending):
    """It is not opened: there is nothing in it."""
    report = tmp_path / f"rank3.vm.{ending}"
    report.write_bytes(REPORT)
    export = exported(tmp_path / "rank3.vm.sqlite")
    for path in (report, export):
        written_at(path, 10**9)
    for given in ((tmp_path,), (report, export)):
        run = find_run(*given)
        assert [one.member.path for one in run.recordings] == [export]
        assert run.skipped == [(str(report), f"{export}, its export by name, is read")]
        assert not run.unreadable
    with stepscope.open(tmp_path, cache=False) as trace:
        assert trace.sql("SELECT rank, span FROM source").rows() == [{"rank": 3, "span": 0}]


def test_an_export_older_than_its_report_is_read_only_where_the_report_cannot_be(report, tmp_path, monkeypatch):
    folder = report.parent / "run"
    folder.mkdir()
    report = report.rename(folder / report.name)
    export = exported(folder / "rank3.sqlite")
    written_at(export, 10**9)
    monkeypatch.setenv("PATH", str(folder))
    run = find_run(folder)
    assert [one.member.path for one in run.recordings] == [export]
    assert [label for label, _ in run.unreadable] == [str(report)]
    fresh = exported(tmp_path / "fresh.sqlite")
    installed(tmp_path, monkeypatch, f"shutil.copy({str(fresh)!r}, sys.argv[-2])\n")
    run = find_run(folder)
    assert [one.member.path for one in run.recordings] == [report]
    assert run.skipped == [(str(export), f"{report} was written after it, and is read")]


def test_a_report_is_read_where_its_export_was_cut_off(report, tmp_path, monkeypatch):
    export = report.with_suffix(".sqlite")
    export.write_bytes(exported(tmp_path / "made").read_bytes()[:9000])
    fresh = (tmp_path / "made").rename(tmp_path / ".made")
    installed(tmp_path, monkeypatch, f"shutil.copy({str(fresh)!r}, sys.argv[-2])\n")
    run = find_run(tmp_path)
    assert [one.member.path for one in run.recordings] == [report]
    assert [label for label, _ in run.unreadable] == [str(export)]


def test_an_export_is_read_in_place_of_the_report_in_one_archive(report, tmp_path):
    archive = tmp_path / "run.zip"
    with zipfile.ZipFile(archive, "w") as files:
        for path in (report, exported(tmp_path / "rank3.sqlite")):
            files.write(path, f"job/{path.name}")
    assert [one.member.name for one in find_run(archive).recordings] == ["job/rank3.sqlite"]


def test_what_only_has_the_name_of_an_export_stands_for_no_report(report, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "rank3.sqlite").write_text('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1}]}')
    run = find_run(tmp_path)
    assert [one.member.path.name for one in run.recordings] == ["rank3.sqlite"]
    assert [label for label, _ in run.unreadable] == [str(report)]
