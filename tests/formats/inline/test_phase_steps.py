import json

import pytest

from stepscope.api.trace import open_trace
from stepscope.base.errors import DamagedSourceError, SourceError
from stepscope.base.recorder_files import FILE_VERSIONS
from stepscope.formats.damage import check_strict
from stepscope.query.ask import ask
from stepscope.questions.invariants import invariants

COLUMNS = ["step", "time_ns", "input_wait_ns", "forward_ns", "backward_ns", "residual_ns"]
MEMORY = ["memory_bytes", "peak_bytes"]


def _summary(samples, columns=(*COLUMNS, *MEMORY)):
    measured = {name: {"mean_ns": 1.0} for name in ("input_wait", "forward", "residual")}
    return {
        "format": "stepscope.phases", "version": 2, "counted_steps": 2, "step": {"mean_ns": 100.0},
        "phases": {**measured, "backward": None}, "step_columns": list(columns), "step_stride": 1,
        "step_samples": samples,
    }  # fmt: skip


def _rows(tables):
    names = ("step", "phase", "dur_ns", "memory_bytes", "peak_bytes")
    return [tuple(row[name] for name in names) for row in tables.phase_step.to_pylist()]


def test_a_kept_step_is_its_whole_time_and_a_row_for_each_measured_phase(read):
    _, tables = read(_summary([[6, 100, 0, 60, 0, 40, 5000, 9000]]))
    assert _rows(tables) == [
        (6, "step", 100, 5000, 9000), (6, "input_wait", 0, None, None), (6, "forward", 60, None, None),
        (6, "residual", 40, None, None),
    ]  # fmt: skip
    assert tables.report.dropped == 0


def test_files_of_version_1_have_0_for_memory_that_was_not_read_and_no_peak(read):
    samples = [[6, 100, 0, 60, 0, 40, 0], [7, 100, 0, 60, 0, 40, 5000]]
    _, tables = read({**_summary(samples, (*COLUMNS, "memory_bytes")), "version": 1})
    assert [row[3:] for row in _rows(tables) if row[1] == "step"] == [(None, None), (5000, None)]


def test_files_of_version_5_have_other_names_for_weights_and_maxima(read):
    before = _summary([[6, 100, 0, 60, 0, 40, 3, 330]], (*COLUMNS, "stands_for", "stands_for_ns"))
    _, tables = read({**before, "version": 5, "step": {"mean_ns": 100.0, "largest_ns": 170}})
    step = tables.phase_step.to_pylist()[0]
    assert (step["weight"], step["weight_ns"], tables.phase["max_ns"][0].as_py()) == (3, 330, 170)
    assert tables.report.dropped == 0


@pytest.mark.parametrize("name", FILE_VERSIONS)
def test_a_version_that_is_not_known_is_refused(read, name):
    newer = {**_summary([]), "format": name, "version": FILE_VERSIONS[name] + 1}
    with pytest.raises(SourceError, match=f"reads up to {FILE_VERSIONS[name]}"):
        read(newer)


@pytest.mark.parametrize(
    "bad",
    [
        [7, 101, 0, 60, 0, 40, None, None],  # does not add up
        [6, 100, 0, 60, 0, 40, None, None],  # the same step again
        [7, 100, 0, None, 60, 40, None, None], [7, 100, 0, -60, 120, 40, None, None], [7, 100], "1234567", None,
    ],
)  # fmt: skip
def test_a_step_that_cannot_be_one_is_dropped_and_counted(read, bad):
    good = [6, 100, 0, 60, 0, 40, None, None]
    _, tables = read(_summary([good, bad, [8, *good[1:]]]))
    assert {row[0] for row in _rows(tables)} == {6, 8}
    assert (tables.report.dropped, tables.report.damage) == (1, {"bad_step": 1})
    with pytest.raises(DamagedSourceError, match="bad_step"):
        check_strict("a file", tables.report.damage, lost=tables.report.lost)


@pytest.mark.parametrize(
    "changed",
    [
        {"step_samples": None}, {"step_columns": None}, {"step_columns": ["time_ns", "forward_ns"]},
        {"step_columns": ["step", "time_ns", 3]}, {"step_columns": ["step", "time_ns"]},
    ],
)  # fmt: skip
def test_a_file_without_steps_that_can_be_read_still_has_its_means(read, changed):
    _, tables = read({**_summary([[6, 100, 0, 60, 0, 40, 0, 0]]), **changed})
    assert (_rows(tables), tables.phase.num_rows) == ([], 4)


def test_a_store_of_kept_steps_holds_its_invariants(tmp_path):
    path = tmp_path / "h.0.phases.json"
    path.write_text(json.dumps(_summary([[6, 100, 0, 60, 0, 40, 5000, 9000]])))
    with open_trace(path, cache=False) as trace:
        broken = [row for row in ask(invariants, trace.store).rows() if row["severity"] == "error"]
        steps = trace.sql("SELECT sum(dur_ns) AS ns FROM phase_step").rows()
    assert (broken, steps) == ([], [{"ns": 200}])
