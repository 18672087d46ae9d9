"""How much each rank sent to each other in all-to-all exchanges."""

from typing import Any


def exchange(rank: int, sent: str | None, received: str | None, **more: Any) -> dict[str, Any]:
    return {
        "rank": rank, "id": 9, "operation": "all_to_all", "group_name": "ep", "group_size": 2,
        "group_ranks": "[2, 5]", "dtype": "Half", "elements_in": 100, "elements_out": 100, "bytes": 200,
        "sent": sent, "received": received, **more,
    }  # fmt: skip


def recording(*rows: dict[str, Any]) -> dict[str, Any]:
    kernels = [{"rank": row["rank"], "id": 9, "kind": "communication"} for row in rows]
    return {"device_event": kernels, "collective": list(rows)}


def test_the_matrix_has_ranks_of_the_job_and_bytes_in_proportion(diff: Any) -> None:
    diff(
        "communication",
        recording(
            exchange(2, "[1, 3]", "[1, 1]", elements_out=50), exchange(5, "[25, 75]", "[75, 75]", elements_out=150)
        ),
        """
        group,source_rank,destination_rank,calls,bytes,share_ratio
        ep,2,5,1,150,0.375
        ep,5,5,1,150,0.375
        ep,2,2,1,50,0.125
        ep,5,2,1,50,0.125
        """,
        by="pair",
    )


def test_what_a_rank_sent_that_was_not_recorded_is_told_by_who_received_it(diff: Any) -> None:
    diff(
        "communication",
        recording(exchange(5, "[]", "[20, 80]")),
        """
        source_rank,destination_rank,bytes
        5,2,100
        5,5,100
        2,5,40
        """,
        by="pair",
    )


def test_uneven_ranks_stand_out(diff: Any) -> None:
    diff(
        "communication",
        recording(exchange(2, None, None, elements_out=50), exchange(5, None, None, elements_out=150)),
        """
        rank,calls,sent_bytes,sent_over_mean,received_bytes,received_over_mean
        2,1,200,1.0,100,0.5
        5,1,200,1.0,300,1.5
        """,
        by="load",
    )


def test_exchanges_that_are_uneven_come_first(diff: Any) -> None:
    even = [exchange(rank, None, None, match_id=0, matched_ranks=2) for rank in (2, 5)]
    uneven = [
        exchange(rank, None, None, match_id=1, matched_ranks=2, elements_out=elements, id=10)
        for rank, elements in ((2, 30), (5, 90))
    ]
    alone = [exchange(2, None, None, match_id=2, matched_ranks=1, id=11)]
    rows = recording(*even, *uneven, *alone)
    for kernel, row in zip(rows["device_event"], rows["collective"], strict=True):
        kernel["id"] = row["id"]
    diff(
        "communication",
        rows,
        """
        group,matched_ranks,total_bytes,max_over_mean,max_rank
        ep,2,240,1.5,5
        ep,2,400,1.0,
        """,
        by="exchange",
    )


def test_it_says_what_the_recording_lacks(answer: Any) -> None:
    some = recording(exchange(2, None, None), exchange(5, "[1, 1]", "[1, 1]"))
    assert "1 of 2 exchanges" in answer("communication", some, by="pair").note
    # lists that do not fit the group, or that cannot be even
    for sent in ("[1, 2, 3]", "[0, 0]"):
        assert answer("communication", recording(exchange(2, sent, None)), by="pair").rows() == []
    odd = recording(exchange(2, "[]", None, elements_in=101, bytes=202))
    assert answer("communication", odd, by="pair").rows() == []
    unsized = recording(exchange(2, None, None, bytes=None))
    (row,) = answer("communication", unsized, by="load").rows()
    assert row["sent_bytes"] is None
