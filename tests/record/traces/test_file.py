"""The file of a trace: whole or not at all, in its directory, and nobody else's."""

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepscope.base.ranks import host_name, process_from
from stepscope.record.traces import file as trace_file
from stepscope.record.traces.file import AFTER_LAST_STEP, file_safe, trace_name, write_trace
from stepscope.record.trouble import RecordingWarning

MANY = 1 << 30


def _text(content: str) -> Any:
    return lambda path: Path(path).write_text(content)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("train", "train"),
        ("runs/a", "runs_a"),
        ("../../etc/a", "_.._etc_a"),
        (".hidden", "hidden"),
        ("a\0b\nc", "a_b_c"),
        ("ünï☃", "ünï☃"),
        ("..", "trace"),
        ("", "trace"),
        ("é" * 200, "é" * 80),
    ],
)
def test_a_name_stays_in_its_directory(name: str, safe: str) -> None:
    assert file_safe(name) == safe


def test_the_longest_name_fits_a_file_system(tmp_path: Path) -> None:
    process = process_from({"SLURM_PROCID": "12345", "SLURM_NTASKS": "99999"})
    path = write_trace(_text("{}"), tmp_path, trace_name("n" * 999, process, 10**12), MANY)
    assert path is not None
    assert path.parent == tmp_path


@pytest.mark.parametrize("block", [16, 17, 20, 1 << 20])
def test_an_unfinished_step_is_renamed_wherever_the_text_is_cut(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "_BLOCK", block)
    text = '{"a": "ProfilerStep#4", "b": "ProfilerStep#3", "ProfilerStep#4": "ProfilerStep#44"}'
    path = write_trace(_text(text), tmp_path, "t-0-of-1", MANY, unfinished_step=4)
    assert path is not None
    assert gzip.decompress(path.read_bytes()).decode() == text.replace('"ProfilerStep#4"', f'"{AFTER_LAST_STEP}"')


@pytest.mark.parametrize("export", [lambda _: None, _text(""), _text('{"traceEvents": [{"na')])
def test_a_text_that_torch_could_not_write_complete_gets_no_name(export: Any, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="is it full"):
        write_trace(export, tmp_path / "out", "t-0-of-1", MANY)
    assert not (tmp_path / "out").exists()


def test_where_there_is_no_room_for_the_text_it_is_made_beside_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        def __init__(self, free: int) -> None:
            self.free = free

    monkeypatch.setattr(trace_file.shutil, "disk_usage", lambda path: Usage(999 if path == tmp_path else 10))
    places = []
    text = _text("{}")

    def export(path: str) -> None:
        places.append(Path(path).parent)
        text(path)

    write_trace(export, tmp_path, "t-0-of-1", 100)
    (space,) = places
    assert space.parent == tmp_path
    assert space.name.startswith(".")  # or else the half-written text were a recording
    assert [path.name for path in tmp_path.iterdir()] == ["t-0-of-1.json.gz"]


def test_without_any_temporary_directory_the_text_is_made_beside_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr("tempfile.gettempdir", none)
    assert write_trace(_text("{}"), tmp_path, "t-0-of-1", MANY) is not None
    assert [path.name for path in tmp_path.iterdir()] == ["t-0-of-1.json.gz"]


def test_an_earlier_runs_trace_is_replaced_and_another_processs_is_not(tmp_path: Path) -> None:
    first = tmp_path / "t-0-of-1.json.gz"
    first.write_text("earlier")
    os.utime(first, (1000, 1000))
    assert write_trace(_text("{}"), tmp_path, "t-0-of-1", MANY, since_epoch_s=2000) == first
    os.utime(first)  # as if another process had written it since
    with pytest.warns(RecordingWarning, match="another process has written"):
        path = write_trace(_text("[{}]}"), tmp_path, "t-0-of-1", MANY, since_epoch_s=2000)
    assert path == tmp_path / f"t.pid{os.getpid()}-0-of-1.json.gz"
    assert gzip.decompress(first.read_bytes()) == b"{}"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_killed_processes_left_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    temporary, out = tmp_path / "temporary", tmp_path / "out"
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    mine = f"stepscope-trace-{host_name()}-{{}}-abc"
    names = {
        "dead": mine.format(gone.pid),
        "alive": mine.format(os.getpid()),
        "young": f"stepscope-trace-{host_name()}-{gone.pid}-young",
        "another host's": f"stepscope-trace-another-{gone.pid}-abc",
        "not ours": "stepscope-notes",
    }
    for name in names.values():
        (temporary / name).mkdir(parents=True)
        (temporary / name / "trace.json").write_text("{")
        when = None if "young" in name else (1000, 1000)
        os.utime(temporary / name / "trace.json", when)
        os.utime(temporary / name, when)
    out.mkdir()
    for name in (".t-0-of-1.json.gz.1.part", ".other-0-of-1.json.gz.1.part"):
        (out / name).write_text("")
        os.utime(out / name, (1000, 1000))
    write_trace(_text("{}"), out, "t-0-of-1", MANY)
    assert {path.name for path in temporary.iterdir()} == set(names.values()) - {names["dead"]}
    assert sorted(path.name for path in out.iterdir()) == [".other-0-of-1.json.gz.1.part", "t-0-of-1.json.gz"]
