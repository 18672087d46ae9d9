"""Files are written beside the training loop, and a directory that hangs does not hold the job up."""

import threading
from pathlib import Path

import pytest

from stepscope.record.inline import rank_files
from stepscope.record.inline.rank_files import RankFiles
from stepscope.record.phases.phases import Phases
from stepscope.record.trouble import Guard, RecordingWarning


def test_what_is_written_in_the_background_is_written_in_turn(tmp_path: Path) -> None:
    files, said = RankFiles(tmp_path, Guard("a test")), []
    first_may_end = threading.Event()

    def first() -> None:
        first_may_end.wait(10)
        said.append("first")

    files.background.run(first)
    files.background.run(lambda: said.append("second"))
    assert files.background.busy
    first_may_end.set()
    assert files.settled()
    assert (said, files.background.busy) == (["first", "second"], False)


def test_a_write_that_hangs_is_said_and_nothing_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_files, "_PATIENCE_SECONDS", 0.01)
    files, ends = RankFiles(tmp_path, Guard("a test")), threading.Event()
    files.background.run(lambda: bool(ends.wait(10)))
    with pytest.warns(RecordingWarning, match="takes no file within"):
        assert not files.settled()
    ends.set()


@pytest.mark.filterwarnings("ignore::stepscope.record.trouble.RecordingWarning")
def test_a_write_that_fails_stops_the_recording_and_not_the_job(tmp_path: Path) -> None:
    guard = Guard("a test")
    files = RankFiles(tmp_path, guard)

    def fails() -> None:
        raise OSError("disk")

    files.background.run(fails)
    assert files.settled()
    assert str(guard.error) == "disk"


def test_what_ddp_has_timed_outlives_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = {"communication_ns": 5}
    monkeypatch.setattr(rank_files, "ddp_timing", {"early": None, "late": timed}.get)
    files, phases = RankFiles(tmp_path, Guard("a test")), Phases(lambda: 0)
    told = [
        files.phases_document(phases, model, None, None, samples=False)["communication"]
        for model in ("early", "late", "early", None)
    ]
    assert told == [None, timed, timed, timed]
