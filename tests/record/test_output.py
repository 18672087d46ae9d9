"""Files are complete or absent, and what was measured is kept somewhere."""

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import BinaryIO

import pytest

from stepscope.record.output import Background, keep, keep_json, warn_unusable, write_complete
from stepscope.record.trouble import Guard, RecordingWarning, warn_once


@pytest.mark.parametrize("before", [[], ["old"]])
def test_a_file_gets_its_name_only_when_it_is_complete(before: list[str], tmp_path: Path) -> None:
    for text in before:
        (tmp_path / "a.json").write_text(text)

    def cut_off(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_complete(tmp_path / "a.json", cut_off)
    assert [path.read_text() for path in tmp_path.iterdir()] == before


def test_a_directory_that_cannot_be_written_costs_a_warning_not_the_data(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(RecordingWarning, match="could not be written to .*; it is at") as caught:
        path = keep_json(tmp_path / "file" / "below", "a.json", {"x": 1}, what="the profile")
    assert len(caught) == 1
    assert path is not None
    assert json.loads(path.read_text()) == {"x": 1}


def test_a_file_in_the_place_of_a_folder_is_not_taken_for_another_processes(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    with pytest.warns(RecordingWarning, match="could not be written") as caught:
        path = keep(
            place, "a.json", lambda file: file.write(b"{}"), what="the trace", since_epoch_s=0, other_name="b.json"
        )
    assert len(caught) == 1
    assert path is not None
    assert path.name == "a.json"


def test_a_full_disk_costs_one_warning(tmp_path: Path) -> None:
    def full(file: BinaryIO) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.warns(RecordingWarning, match="No space left") as caught:
        assert keep(tmp_path, "a.json", full, what="the profile") is None
    assert len(caught) == 1


def test_a_warning_never_raises_even_where_warnings_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_once("something is off")
    assert "stepscope: something is off" in capsys.readouterr().err


def test_a_guard_says_the_first_error_and_swallows_the_others() -> None:
    guard = Guard("inline recording")
    calls = []

    def fails() -> str:
        calls.append(1)
        raise RuntimeError("no clock")

    hook = guard.wrap(fails)
    with pytest.warns(RecordingWarning, match="no clock") as caught:
        assert [hook(), hook(), hook()] == [None, None, None]
    assert (len(caught), len(calls)) == (1, 1)


def test_a_guarded_hook_returns_nothing_for_torch_would_take_it_as_an_output() -> None:
    assert Guard("x").wrap(lambda: 5)() is None


def test_stopping_the_job_is_not_swallowed() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Guard("x").wrap(interrupted)()


def test_a_process_killed_in_the_middle_of_a_file_leaves_none_under_its_name(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from stepscope.record.output import write_complete

def half(file):
    file.write(b'{"timeline": {')
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

write_complete(Path(sys.argv[1]) / "host.0.prof.json", half)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("*.json")) == []
    assert len(list(tmp_path.iterdir())) == 1


def test_a_directory_that_cannot_be_is_known_before_the_job_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warn_unusable(tmp_path / "file" / "deep" / "out")
        warn_unusable(tmp_path / "file" / "deep" / "out")  # of the other recording of this process
        warn_unusable(tmp_path / "to be made" / "out")
    [warning] = told
    assert f"{tmp_path / 'file'} is not a directory" in str(warning.message)


def _other_process(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.write_text('{"by": "another"}')


def test_what_another_process_writes_into_the_same_folder_is_not_replaced(tmp_path: Path) -> None:
    """Two jobs with the same `-o`: whoever comes second takes another name, and keeps it."""

    def kept(number: int) -> str:
        named = {"since_epoch_s": began, "other_name": "b.json"}
        path = keep_json(tmp_path, "a.json", {"by": number}, what="the profile", **named)
        assert path is not None
        assert json.loads(path.read_text()) == {"by": number}
        return path.name

    _other_process(tmp_path / "a.json")
    began = time.time()
    os.utime(tmp_path / "a.json", (began - 60, began - 60))
    # An earlier run's is replaced, and so is what we have written ourselves.
    assert [kept(1), kept(2)] == ["a.json", "a.json"]
    _other_process(tmp_path / "a.json")
    os.utime(tmp_path / "a.json", (began + 60, began + 60))
    with pytest.warns(RecordingWarning, match="another process has written") as caught:
        assert [kept(3), kept(4)] == ["b.json", "b.json"]
    assert len(caught) == 1
    assert json.loads((tmp_path / "a.json").read_text()) == {"by": "another"}


def test_a_folder_that_may_not_be_looked_into_is_known_before_the_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(path: Path, **_: bool) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refuses)  # as it is for who is not root
    monkeypatch.setattr(Path, "is_dir", os.path.isdir)
    monkeypatch.setattr(os, "access", lambda path, mode: path == tmp_path and mode == os.F_OK)
    with pytest.warns(RecordingWarning, match="cannot be written to"):
        warn_unusable(tmp_path / "locked" / "out")


def test_where_no_thread_can_be_started_files_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    background = Background("a test", Guard("a test"))
    background.run(lambda: (tmp_path / "a").touch())
    assert (tmp_path / "a").exists()
    assert background.wait(0)


def test_where_no_temporary_directory_is_usable_either_the_job_is_told_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_usable() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "gettempdir", none_usable)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warn_unusable(tmp_path / ("long" * 2000) / "out")  # a name that cannot be looked at
        warn_unusable(tmp_path / "file" / "out")
    [warning] = told
    assert "nor is there a temporary directory" in str(warning.message)
