"""GPU utilisation, estimated SM efficiency and achieved occupancy."""

from typing import Any

import pytest

from stepscope.analysis.windows import buckets


def kernel(start: int, dur: int, blocks: float | None = None, occupancy: float | None = None) -> Any:
    return {"start_ns": start, "dur_ns": dur, "blocks_per_sm": blocks, "occupancy_ratio": occupancy, "stream": start}


def test_kernels_side_by_side_add_their_blocks_up_to_one(answer: Any) -> None:
    rows = {
        "step": [{"end_ns": 100}],
        "device_event": [
            kernel(0, 20, blocks=0.25, occupancy=0.1),
            kernel(10, 20, blocks=0.5, occupancy=0.4),
            kernel(50, 10, blocks=7.0, occupancy=1.0),
            {"kind": "copy", "start_ns": 70, "dur_ns": 10},
        ],
    }
    (row,) = answer("utilization", rows).rows()
    assert (row["window_ns"], row["kernel_ns"], row["utilization_ratio"]) == (100, 40, 0.4)
    assert row["sm_efficiency_ratio"] == pytest.approx((10 * 0.25 + 10 * 0.75 + 10 * 0.5 + 10) / 100)
    assert row["occupancy_ratio"] == pytest.approx((20 * 0.1 + 20 * 0.4 + 10 * 1.0) / 50)
    assert row["described_ratio"] == 1


def test_the_window_is_the_complete_steps_without_the_pause_between_them(diff: Any) -> None:
    rows = {
        "step": [
            {"step": 1, "start_ns": 10, "end_ns": 50},
            {"step": 2, "start_ns": 60, "end_ns": 110},
            {"step": 3, "start_ns": 110, "end_ns": 900, "complete": False},
        ],
        "device_event": [kernel(0, 65)],
    }
    diff("utilization", rows, "start_ns,window_ns,kernel_ns,utilization_ratio\n10,90,45,0.5")


def test_estimates_are_empty_where_no_kernel_has_what_they_need(diff: Any) -> None:
    rows = {"step": [{"end_ns": 100}], "device_event": [kernel(0, 50)]}
    diff("utilization", rows, "utilization_ratio,sm_efficiency_ratio,occupancy_ratio,described_ratio\n0.5,,,0.0")


def test_a_step_without_kernels_is_idle_and_its_occupancy_unknown(diff: Any) -> None:
    rows = {
        "step": [{"step": 1, "end_ns": 10}, {"step": 2, "start_ns": 10, "end_ns": 20}],
        "device_event": [kernel(0, 10, blocks=0.5, occupancy=0.5)],
    }
    diff(
        "utilization",
        rows,
        "step,utilization_ratio,sm_efficiency_ratio,occupancy_ratio\n1,1.0,0.5,0.5\n2,0.0,0.0,",
        by="step",
    )


def test_time_is_cut_into_powers_of_ten_and_the_last_piece_takes_the_rest(diff: Any) -> None:
    rows = {
        "step": [{"end_ns": 2_500}],
        "host_event": [{"start_ns": 0, "dur_ns": 2_500}],
        "device_event": [kernel(500, 1_250)],
    }
    diff("utilization", rows, "start_ns,window_ns,utilization_ratio\n0,1000,0.5\n1000,1500,0.5", by="time")


@pytest.mark.parametrize(
    ("length", "count", "piece"), [(1, 1, 1), (100_000, 100, 1_000), (100_001, 10, 10_000), (9_999_999, 99, 100_000)]
)
def test_at_most_a_hundred_pieces_of_time(length: int, count: int, piece: int) -> None:
    starts, ends = buckets(7, 7 + length)
    assert (len(starts), ends[0] - starts[0]) == (count, piece)
    assert starts[0] == 7
    assert ends[-1] == 7 + length
    assert (starts[1:] == ends[:-1]).all()


def test_kernels_without_durations_leave_the_utilization_unknown(answer: Any) -> None:
    rows = {"step": [{"end_ns": 100}], "device_event": [kernel(0, 0, 1.0), kernel(10, 0, 1.0)]}
    (row,) = answer("utilization", rows).rows()
    assert (row["window_ns"], row["utilization_ratio"]) == (100, None)
    rows["device_event"].append(kernel(20, 50))
    (row,) = answer("utilization", rows).rows()
    assert row["utilization_ratio"] == 0.5
