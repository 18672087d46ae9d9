"""Kernels of a few microseconds: which they are, how many, and how their durations are spread."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store

from stepscope.query.ask import ask
from stepscope.questions import find

ROWS = {
    "host_event": [{"id": 0, "name": "aten::add", "dur_ns": 9}],
    "device_event": [
        {"name": "add", "dur_ns": 2_000, "operator_id": 0, "operator_name": "aten::add"},
        {"name": "add", "dur_ns": 4_000, "operator_id": 0, "operator_name": "aten::add"},
        {"name": "add", "dur_ns": 9_999},
        {"name": "gemm", "dur_ns": 10_000},
        {"name": "gemm", "dur_ns": 74_001},
        {"name": "Memcpy HtoD", "kind": "copy", "dur_ns": 1_000},
    ],
}


def test_kernels_below_ten_microseconds_by_name_and_operator(diff: Any) -> None:
    diff(
        "kernels",
        ROWS,
        """
        name,operator,count,count_ratio,total_ns,share_ratio,mean_ns,min_ns,max_ns
        add,aten::add,2,0.4,6000,0.06,3000.0,2000,4000
        add,(no operator),1,0.2,9999,0.09999,9999.0,9999,9999
        """,
        by="short",
    )


def test_where_all_kernels_are_long_it_says_so() -> None:
    with literal_store({"device_event": ROWS["device_event"][3:]}) as store:
        assert ask(find("kernels"), store, by="short").note == "None of 2 kernels runs for less than 10.00 µs."
        assert ask(find("kernels"), store, by="short", below_ns=20_000).note == ""


def test_the_histogram_has_empty_bins_too(diff: Any) -> None:
    diff(
        "kernels",
        ROWS,
        """
        from_ns,to_ns,count,count_ratio,total_ns,share_ratio
        0,2500,1,0.2,2000,0.02
        2500,5000,1,0.2,4000,0.04
        5000,7500,0,0.0,0,0.0
        7500,10000,1,0.2,9999,0.09999
        """,
        by="histogram",
        bins=4,
    )


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30), st.integers(1, 7))
@examples(30)
def test_bins_hold_each_short_kernel_once(durations: list[int], below: int, bins: int) -> None:
    rows = {"device_event": [{"name": "k", "dur_ns": one} for one in durations]}
    with literal_store(rows) as store:
        found = ask(find("kernels"), store, by="histogram", below_ns=below, bins=bins).rows()
    short = [one for one in durations if one < below]
    assert sum(row["count"] for row in found) == len(short)
    assert sum(row["total_ns"] for row in found) == sum(short)
    for row in found:
        assert row["count"] == sum(row["from_ns"] <= one < row["to_ns"] for one in short)
