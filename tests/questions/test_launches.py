"""Launch phases A, Q, K, T."""

from typing import Any

LAUNCHES = {
    "host_event": [
        {"id": 1, "kind": "runtime", "name": "cudaLaunchKernel", "start_ns": 0, "dur_ns": 10},
        {"id": 2, "kind": "runtime", "name": "cudaLaunchKernel", "start_ns": 20, "dur_ns": 10},
        {"id": 3, "kind": "runtime", "name": "cuLaunchKernel", "start_ns": 100, "dur_ns": 20},
    ],
    "device_event": [
        {"name": "gemm", "start_ns": 15, "dur_ns": 20, "launch_id": 1},
        {"name": "gemm", "start_ns": 36, "dur_ns": 40, "launch_id": 2},
        {"name": "triton", "start_ns": 110, "dur_ns": 5, "launch_id": 3},
        {"name": "lost", "start_ns": 500, "dur_ns": 7},
        {"name": "Memcpy", "kind": "copy", "start_ns": 600, "dur_ns": 7, "launch_id": 1},
    ],
}


def test_the_four_phases_by_kernel(diff: Any) -> None:
    diff(
        "launches",
        LAUNCHES,
        """
        name,kernels,launches,api_ns,queued,queue_ns,kernel_ns,total_ns,unlinked
        gemm,2,2,20,2,11,60,91,0
        triton,1,1,20,0,0,5,20,0
        lost,0,0,,0,,,,1
        """,
    )


def test_means_and_medians_by_call_leave_out_launches_that_did_not_queue(diff: Any) -> None:
    diff(
        "launches",
        {**LAUNCHES, "device_event": LAUNCHES["device_event"][:3]},
        """
        call,api_mean_ns,api_median_ns,queue_mean_ns,queue_median_ns,kernel_mean_ns,total_mean_ns,total_median_ns
        cudaLaunchKernel,10.0,10.0,5.5,5.5,30.0,45.5,45.5
        cuLaunchKernel,20.0,20.0,,,5.0,20.0,20.0
        """,
        by="call",
    )


def test_a_launch_of_many_kernels_counts_once(diff: Any) -> None:
    rows = {
        "host_event": [{"id": 1, "kind": "runtime", "name": "cudaGraphLaunch", "start_ns": 0, "dur_ns": 10}],
        "device_event": [
            {"name": "b", "start_ns": 30, "dur_ns": 10, "launch_id": 1},
            {"name": "a", "start_ns": 50, "dur_ns": 10, "launch_id": 1},
            {"name": "b", "start_ns": 70, "dur_ns": 30, "launch_id": 1},
        ],
    }
    diff(
        "launches",
        rows,
        """
        name,kernels,launches,api_ns,queue_ns,kernel_ns,total_ns
        b,2,1,10,20,40,100
        a,1,0,,,10,
        """,
    )
    diff("launches", rows, "rank,kernels,launches,api_ns,total_ns\n0,3,1,10,100", by="rank")


def test_launches_that_stand_out(diff: Any) -> None:
    rows = {
        "host_event": [
            {"id": 1, "kind": "runtime", "start_ns": 0, "dur_ns": 50_000},
            {"id": 2, "kind": "runtime", "start_ns": 100_000, "dur_ns": 50_001},
            {"id": 3, "kind": "runtime", "start_ns": 200_000, "dur_ns": 1_000},
            {"id": 4, "kind": "runtime", "start_ns": 300_000, "dur_ns": 1_000},
        ],
        "device_event": [
            {"start_ns": 60_000, "dur_ns": 49_999, "launch_id": 1},
            {"start_ns": 160_000, "dur_ns": 10, "launch_id": 2},
            {"start_ns": 301_000, "dur_ns": 1_000, "launch_id": 3},
            {"start_ns": 401_001, "dur_ns": 1_000, "launch_id": 4},
        ],
    }
    diff("launches", rows, "short_kernels,slow_calls,late_starts\n1,1,1")


def test_ranks_with_equal_ids_are_not_mixed(diff: Any) -> None:
    rows = {
        "host_event": [
            {"id": 1, "kind": "runtime", "start_ns": 0, "dur_ns": 10},
            {"id": 1, "kind": "runtime", "start_ns": 0, "dur_ns": 30, "rank": 1},
        ],
        "device_event": [
            {"start_ns": 40, "dur_ns": 1, "launch_id": 1},
            {"start_ns": 40, "dur_ns": 2, "launch_id": 1, "rank": 1},
        ],
    }
    diff("launches", rows, "rank,api_ns,kernel_ns,total_ns\n1,30,2,42\n0,10,1,41", by="rank")
