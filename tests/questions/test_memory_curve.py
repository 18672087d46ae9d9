"""Allocated and reserved memory over time, and how the curve is thinned out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.analysis.memory.curve import thinned


def event(time, address, size, total, **more):
    return {
        "device_kind": "cuda", "device": 0, "time_ns": time, "sequence": time, "address": address,
        "bytes": size, "total_allocated_bytes": total, "total_reserved_bytes": 500, **more,
    }  # fmt: skip


ROWS = {
    "memory_event": [
        event(5, 1, 10, 110, role="forward"),
        event(6, 2, 20, 130, role="backward"),
        event(7, 1, -10, 120, role="backward"),
    ]
}


def test_a_row_is_what_was_in_use_from_then_on(diff):
    diff(
        "memory",
        ROWS,
        """
        time_ns,allocated_bytes,reserved_bytes,activations_bytes,unknown_bytes,events
        5,100,500,0,100,1
        5,110,500,10,100,1
        6,130,500,10,120,1
        7,120,500,0,120,1
        """,
        by="time",
    )


def test_memory_of_the_host_has_no_reserved(diff):
    rows = {"memory_event": [event(1, 1, 4, 4, device=None, device_kind="cpu", total_reserved_bytes=0)]}
    diff("memory", rows, "kind,device,allocated_bytes,reserved_bytes\ncpu,,0,\ncpu,,4,", by="time")


def test_a_thinned_curve_says_so(answer):
    rows = {"memory_event": [event(n, n, 1, n + 1) for n in range(100)]}
    found = answer("memory", rows, by="time", points=8)
    assert "Thinned out" in found.note
    assert sum(row["events"] for row in found.rows()) == 101
    assert answer("memory", rows, by="time", points=0).note == ""


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=60), st.integers(0, 20))
@examples(100)
def test_first_last_lowest_and_highest_are_always_kept(moments, points):
    time = np.array(sorted(time for time, _ in moments))
    values = np.array([value for _, value in moments])
    kept = thinned(time, values, points).tolist()
    assert kept == sorted(set(kept))
    assert {0, len(values) - 1} <= set(kept)
    assert {values.min(), values.max()} <= set(values[kept].tolist())
    assert points == 0 or len(kept) <= max(points, 4)
