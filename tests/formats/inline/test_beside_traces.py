"""A folder with traces and with what the job measured of itself: ranks must not be mixed up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.api.trace import open_trace
from stepscope.base.errors import SourceError
from stepscope.formats.runs import find_run


def _trace(epoch_us, **distributed):
    document = {
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": epoch_us, "dur": 1, "args": {}}
        ]
    }
    if distributed:
        document["distributedInfo"] = distributed
    return json.dumps(document)


def _profile(rank, epoch_ns=1):
    return json.dumps(
        {
            "format": "stepscope.inline", "rank": rank, "start_epoch_ns": epoch_ns,
            "timeline": {"device_0": {"stream_0": [{"label": "a", "samples": [[1, 5, 0]]}]}},
        }
    )  # fmt: skip


def _found(folder):
    run = find_run(folder)
    assert run.skipped == []
    return [(one.member.path.name, one.rank, one.span, one.rule) for one in run.recordings]


def test_a_profile_is_a_further_recording_of_its_rank_and_comes_last(tmp_path):
    (tmp_path / "b.json").write_text(_trace(900, rank=0, backend="gloo"))
    (tmp_path / "a.json").write_text(_trace(900, rank=1, backend="gloo"))
    (tmp_path / "h.0.prof.json").write_text(_profile(0, epoch_ns=1))
    (tmp_path / "h.1.prof.json").write_text(_profile(1, epoch_ns=1))
    assert _found(tmp_path) == [
        ("b.json", 0, 0, "distributedInfo"), ("h.0.prof.json", 0, 1, "recorder"),
        ("a.json", 1, 0, "distributedInfo"), ("h.1.prof.json", 1, 1, "recorder"),
    ]  # fmt: skip


def test_profiles_take_no_rank_from_traces_that_are_ordered_by_name(tmp_path):
    (tmp_path / "first.json").write_text(_trace(900))
    (tmp_path / "second.json").write_text(_trace(901))
    (tmp_path / "h.0.prof.json").write_text(_profile(0))
    (tmp_path / "h.1.prof.json").write_text(_profile(1))
    assert [(name, rank) for name, rank, _, _ in _found(tmp_path)] == [
        ("first.json", 0), ("h.0.prof.json", 0), ("second.json", 1), ("h.1.prof.json", 1),
    ]  # fmt: skip


def test_a_profile_without_a_rank_does_not_unsettle_the_names_of_traces(tmp_path):
    (tmp_path / "rank7.json").write_text(_trace(900))
    (tmp_path / "circe.prof.json").write_text('{"host_name": "circe", "iter_time_ms": [1], "events": []}')
    assert [(name, rank, rule) for name, rank, _, rule in _found(tmp_path)] == [
        ("rank7.json", 7, "file name"),
        ("circe.prof.json", 7, "single"),  # beside a recording of one process: of that process
    ]


def test_measurements_are_not_said_to_lack_the_events_of_a_trace(tmp_path):
    (tmp_path / "h.0.prof.json").write_text(_profile(0))
    with open_trace(tmp_path, cache=False) as trace:
        checks = trace.sql('SELECT "check" FROM data_check ORDER BY 1').rows()
    assert [row["check"] for row in checks] == ["ended_early", "repaired", "truncated"]


def _phases(rank, steps):
    return json.dumps(
        {
            "format": "stepscope.phases", "rank": rank, "world_size": 3, "counted_steps": steps,
            "step": {"mean_ns": 5.0} if steps else None,
        }
    )  # fmt: skip


def test_a_rank_that_ended_too_early_does_not_cost_the_others(tmp_path):
    (tmp_path / "h.0.phases.json").write_text(_phases(0, 10))
    (tmp_path / "h.1.phases.json").write_text(_phases(1, 0))
    (tmp_path / "h.2.phases.json").write_text(_phases(2, 10)[:-4])
    run = find_run(tmp_path)
    assert [one.rank for one in run.recordings] == [0]
    assert [Path(path).name for path, _ in run.skipped] == ["h.1.phases.json", "h.2.phases.json"]
    assert run.skipped[0][1] == "no step was counted in it"
    # The second is no whole document: what it would tell is missed. The first has nothing to tell.
    assert [Path(path).name for path, _ in run.unreadable] == ["h.2.phases.json"]
    with open_trace(tmp_path, cache=False) as trace:
        assert trace.ask("phases").note == (
            "No phases of ranks 1, 2 are recorded: the others may wait for one of them."
        )


def test_where_no_file_can_be_used_the_first_says_why(tmp_path):
    for rank in (0, 1):
        (tmp_path / f"h.{rank}.phases.json").write_text(_phases(rank, 0))
    with pytest.raises(SourceError, match=r"h\.0\.phases\.json: no step was counted"):
        find_run(tmp_path)
