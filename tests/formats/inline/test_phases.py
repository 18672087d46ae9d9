import pytest

from stepscope.base.errors import SourceError

SUMMARY = {
    "format": "stepscope.phases", "version": 1, "host_name": "node7", "rank": 1, "world_size": 2,
    "counted_steps": 10,
    "step": {"mean_ns": 100.0, "max_ns": 300, "statistics": {"median_ns": 90.0, "p95_ns": 200.0}},
    "phases": {
        "input_wait": {"mean_ns": 60.0, "max_ns": 200, "statistics": None}, "host_to_device": None,
        "forward": {"mean_ns": 40.0, "max_ns": 90},
    },
    "steps": 40, "timed_steps": 20, "timed_every": 2, "timing_ns": 7, "disturbed_steps": 3, "unobserved_steps": 4,
    "device": {"kind": "cuda", "mean_ns": {"forward": 35.5}, "checked_steps": 9, "idle_steps": 8},
    "copied": {"bytes": 200, "pageable_bytes": 50},
    "memory": {"of": "cuda", "peak_bytes": 4096, "reserved_bytes": 8192},
    "communication": {
        "source": "DDP", "communication_ns": 30, "exposed_ns": 20, "backward_ns": 50, "forward_waits": True,
    },
    "first_batch_ns": [400, 800],
}  # fmt: skip


def test_every_phase_is_a_row_after_the_whole_step(read):
    name, tables = read(SUMMARY)
    rows = tables.phase.to_pylist()
    assert name == "phases"
    assert [row["phase"] for row in rows] == ["step", "input_wait", "forward"]
    assert rows[0] == {
        "phase": "step", "steps": 10, "mean_ns": 100.0, "median_ns": 90.0, "p95_ns": 200.0, "max_ns": 300,
        "device_mean_ns": None, "peak_bytes": 4096, "peak_of": "cuda", "communication_ns": 30.0,
        "exposed_communication_ns": 20.0, "timed_backward_ns": 50.0, "forward_waits": True, "first_batch_ns": 600.0,
        "first_batches": 2, "checked_steps": 9, "idle_steps": 8, "copied_bytes": 10.0, "pageable_bytes": 2.5,
        "timed_every": 2, "timing_ns": 7, "disturbed_steps": 3, "unobserved_steps": 4, "reserved_bytes": 8192,
    }  # fmt: skip
    assert (rows[2]["device_mean_ns"], rows[1]["device_mean_ns"]) == (35.5, None)
    assert (tables.facts.rank, tables.facts.rank_rule) == (1, "recorder")


@pytest.mark.parametrize(
    "changed", [{"step": None}, {"counted_steps": 0}, {"counted_steps": "10"}, {"step": {"mean_ns": "1"}}]
)
def test_a_summary_without_counted_steps_is_refused(read, changed):
    with pytest.raises(SourceError, match="no step was counted"):
        read({**SUMMARY, **changed})


def test_times_and_shares_that_none_can_have_are_not_taken_for_measured(read):
    odd = {
        "phases": {"forward": {"mean_ns": 1e300}, "backward": {"mean_ns": -1}},
        "communication": {"communication_ns": -1, "exposed_ns": 1e300},
    }
    _, tables = read({**SUMMARY, **odd})
    (row,) = tables.phase.to_pylist()
    assert (row["communication_ns"], row["exposed_communication_ns"]) == (None, None)
    assert tables.report.dropped == 2


def test_odd_parts_cost_only_themselves(read):
    odd = {"phases": {"forward": {"mean_ns": []}, "backward": 5}, "device": 3, "memory": None}
    odd |= {"communication": [], "first_batch_ns": ["x"], "copied": {"bytes": -1}}
    _, tables = read({**SUMMARY, **odd})
    (row,) = tables.phase.to_pylist()
    assert [row[name] for name in ("peak_bytes", "communication_ns", "first_batches", "copied_bytes")] == [None] * 4
    assert tables.report.dropped == 2


STACKS = {
    "interval_ns": 50,
    "functions": [["main", "train.py", 9], ["get_batch", "data.py", 3], ["item", None, "x"]],
    "stacks": [["residual", 4, [1, 0]], ["forward", 1, [0]], [None, 2, [2, 0]]],
}


def test_sampled_stacks_become_samples_with_their_phase(read):
    _, tables = read({**SUMMARY, "stacks": STACKS})
    frames = dict(zip(*tables.call_stack.to_pydict().values(), strict=True))
    rows = tables.stack_sample.to_pylist()
    found = [(frames[row["stack_id"]], row["phase"], row["weight"], row["sampled_ns"], row["clock"]) for row in rows]
    assert found == [
        ("data.py(3): get_batch;train.py(9): main", "residual", 4, 200, "wall"),
        ("train.py(9): main", "forward", 1, 50, "wall"),
        ("item;train.py(9): main", None, 2, 100, "wall"),
    ]


@pytest.mark.parametrize(
    "stacks",
    [
        5,
        {"functions": 3, "stacks": [["residual", 1, [0]]]},
        {"functions": [["f", "f.py", 1]], "stacks": [["residual", 1, [7, -1, "x", None]]]},
        {"functions": [[]], "stacks": [[], 3, [None, True, [0]], ["a", -1, [0]]]},
    ],
)
def test_stacks_that_are_none_are_left_out(read, stacks):
    _, tables = read({**SUMMARY, "stacks": stacks})
    assert tables.phase.num_rows == 3
    assert tables.stack_sample.num_rows == 0
