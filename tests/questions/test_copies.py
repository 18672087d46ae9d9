import pytest

PINNED = {"kind": "copy", "direction": "backward", "copy_kind": "HtoD", "memory_kind": "pinned"}
PAGEABLE = {"kind": "copy", "copy_kind": "HtoD", "memory_kind": "pageable"}


def test_bandwidth_is_total_size_over_total_time_not_a_mean_of_bandwidths(diff):
    diff(
        "copies",
        {
            "device_event": [
                {**PINNED, "bytes": 1000, "dur_ns": 1000},  # 1 GB/s
                {**PINNED, "bytes": 9000, "dur_ns": 1000},  # 9 GB/s
                {**PINNED, "bytes": 10000, "dur_ns": 8000},  # 1.25 GB/s
                {"kind": "computation", "bytes": 77, "dur_ns": 77},
                {"kind": "communication", "bytes": 77, "dur_ns": 77},
            ]
        },
        """
        direction,count,bytes,total_ns,mean_ns,min_ns,max_ns,bandwidth_bytes_per_s,min_bandwidth_bytes_per_s,max_bandwidth_bytes_per_s
        HtoD,3,20000,10000,3333.3333333333335,1000,8000,2000000000.0,1000000000.0,9000000000.0
        """,
    )


def test_directions_memory_and_fills_are_told_apart_and_pageable_is_marked(diff):
    diff(
        "copies",
        {
            "device_event": [
                {**PINNED, "dur_ns": 50},
                {**PAGEABLE, "dur_ns": 30},
                {"kind": "copy", "copy_kind": "DtoD", "memory_kind": "device", "dur_ns": 10},
                {"kind": "copy", "copy_kind": "PtoP", "memory_kind": "unknown", "dur_ns": 6},
                {"kind": "copy", "dur_ns": 3},
                {"kind": "fill", "dur_ns": 1},
            ]
        },
        """
        direction,memory_kind,pageable,count,total_ns,share_ratio
        HtoD,pinned,False,1,50,0.5
        HtoD,pageable,True,1,30,0.3
        DtoD,device,False,1,10,0.1
        PtoP,unknown,,1,6,0.06
        unknown,,,1,3,0.03
        fill,,,1,1,0.01
        """,
    )


def test_unknown_sizes_and_durations_of_zero_give_no_bandwidth(diff):
    diff(
        "copies",
        {
            "device_event": [
                {**PINNED, "bytes": 600, "dur_ns": 300},
                {**PINNED, "bytes": 999, "dur_ns": 0},
                {**PINNED, "dur_ns": 700},
                {**PAGEABLE, "dur_ns": 5},
                {"kind": "fill", "bytes": 4, "dur_ns": 0},
            ]
        },
        """
        direction,memory_kind,count,bytes,total_ns,bandwidth_bytes_per_s,max_bandwidth_bytes_per_s
        HtoD,pinned,3,1599,1000,2000000000.0,2000000000.0
        HtoD,pageable,1,,5,,
        fill,,1,4,0,,
        """,
    )


@pytest.mark.parametrize(
    ("size", "bucket"),
    [
        (None, (None, None)),
        (0, (0, 1)),
        (1, (1, 2)),
        (3, (2, 4)),
        (4, (4, 8)),
        (2**40 - 1, (2**39, 2**40)),
        (2**53 - 1, (2**52, 2**53)),
        (2**60 - 1, (2**59, 2**60)),
        (2**60, (2**60, 2**61)),
    ],
)
def test_sizes_fall_into_powers_of_two(answer, size, bucket):
    rows = {"device_event": [{**PINNED, "bytes": size, "dur_ns": 1}]}
    (row,) = answer("copies", rows, by="size").rows()
    assert (row["from_bytes"], row["below_bytes"]) == bucket


def test_by_size_adds_up_to_the_whole(diff):
    diff(
        "copies",
        {
            "device_event": [
                {**PINNED, "rank": 0, "bytes": 5000, "dur_ns": 10},
                {**PINNED, "rank": 0, "bytes": 3, "dur_ns": 1},
                {**PINNED, "rank": 1, "bytes": 7000, "dur_ns": 9},
                {**PINNED, "rank": 1, "span": 1, "dur_ns": 20},
                {**PAGEABLE, "rank": 1, "bytes": 5000, "dur_ns": 10},
            ]
        },
        """
        direction,memory_kind,from_bytes,below_bytes,count,bytes,total_ns
        HtoD,pageable,4096,8192,1,5000,10
        HtoD,pinned,2,4,1,3,1
        HtoD,pinned,4096,8192,2,12000,19
        HtoD,pinned,,,1,,20
        """,
        by="size",
    )
