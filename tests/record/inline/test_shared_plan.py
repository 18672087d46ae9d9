"""Ranks that make their own plans measure by one of them, and never wait for it."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from stepscope.base.ranks import process_from
from stepscope.record.inline import shared_plan
from stepscope.record.inline.rank_files import RankFiles
from stepscope.record.inline.shared_plan import NAME, SharedPlan, Weights
from stepscope.record.trouble import Guard, RecordingWarning

FIRST = {"backward": 9, "0.forward": 4}
AUTO = {"0.forward": 5, "forward": 3}
KNOWN = {"0.forward", "forward", "backward", "optimizer.step"}


def _plan(out: Path, rank: int, size: int = 2) -> SharedPlan:
    files = RankFiles(out, Guard("a test"))
    process = process_from({"RANK": str(rank), "WORLD_SIZE": str(size)})
    files.process = lambda: process  # type: ignore[method-assign]
    return SharedPlan(files)


def _settled(plan: SharedPlan, known: set[str] = KNOWN) -> Weights:
    """As it is asked: after every iteration."""
    until = time.monotonic() + 30
    while (weights := plan.settled(AUTO, known)) is None and time.monotonic() < until:
        for thread in threading.enumerate():
            if thread.name == "stepscope-plan":
                thread.join(0.01)
    assert weights is not None
    return weights


def test_other_ranks_measure_what_rank_0_does_and_nothing_stays(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"of an earlier run": 1}')
    first, other = _plan(tmp_path, 0), _plan(tmp_path, 1)
    first.start()
    other.start()
    assert first._files.settled()
    assert other.settled(AUTO, KNOWN) is None  # and the iterations go on
    assert first.settled(FIRST, KNOWN) == FIRST
    assert _settled(other) == FIRST
    first.stop()
    other.stop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", [json.dumps({"10.forward": 7}), "[]", '{"forward": "1"}', "{", "[" * 9999, "{}"])
def test_a_plan_that_is_none_or_of_other_work_is_not_taken(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    assert _settled(_plan(tmp_path, 1)) == AUTO


def test_a_rank_that_sees_another_folder_goes_by_its_own_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_plan, "PATIENCE_SECONDS", 0.1)
    with pytest.warns(RecordingWarning, match="rank 1 measures by a plan of its own"):
        assert _settled(_plan(tmp_path / "absent", 1)) == AUTO


def test_one_process_writes_none(tmp_path: Path) -> None:
    plan = _plan(tmp_path, 0, size=1)
    plan.start()
    assert plan.settled(AUTO, KNOWN) == AUTO
    plan.stop()
    assert list(tmp_path.iterdir()) == []
