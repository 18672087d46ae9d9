"""The rank that the others wait for, as collectives of a trace tell."""

from collections.abc import Callable
from typing import Any

from tests.questions.meetings import MS, Meetings

Findings = Callable[..., list[dict[str, Any]]]


def job(*delays_ms: int, told: bool = True) -> Meetings:
    """Four ranks that compute 50 ms of each of four steps of 100 ms; rank 2 computes so much longer."""
    made = Meetings(400, steps=4)
    for step, delay in enumerate(delays_ms):
        start = step * 100
        made.meet(dict.fromkeys(range(4), start), start + 5)
        ends = {rank: start + 50 + (delay if rank == 2 else 0) for rank in range(4)}
        for rank, end in ends.items():
            made.compute(rank, start + 5, end)
        made.meet(ends, start + 90, told=told)
    return made


def test_the_rank_that_the_others_wait_for_is_named_with_its_cause(findings: Findings) -> None:
    (row,) = findings(job(30, 30, 30, 30).rows(), "straggling-rank")
    assert row["title"] == (
        "Straggling rank: the others wait 30.00 ms per step for rank 2 in collectives: computation 100.0 % (gemm)"
    )
    assert (row["value"], row["rank"], row["saving_high_ns"]) == (0.3, 2, 30 * MS)
    assert row["evidence"] == [{"rank": 2, "cause": "computation", "skew_ns": 30 * MS}]
    assert row["query"] == "stepscope stragglers SRC"
    assert "Look at rank 2: its share of the work" in row["advice"]


def test_below_its_threshold_and_where_clocks_do_not_tell_it_is_silent(findings: Findings) -> None:
    assert not findings(job(4, 4, 4, 4).rows(), "straggling-rank")
    assert not findings(job(30, 30, 30, 30, told=False).rows(), "straggling-rank")


def test_ranks_that_are_late_in_turn_are_no_stragglers(findings: Findings) -> None:
    made = Meetings(400, steps=4)
    for step in range(4):
        start = step * 100
        made.meet(dict.fromkeys(range(4), start), start + 5)
        ends = {rank: start + 50 + (16 if rank == step else 0) for rank in range(4)}
        for rank, end in ends.items():
            made.compute(rank, start + 5, end)
        made.meet(ends, start + 90)
    assert not findings(made.rows(), "straggling-rank")


def test_what_lies_before_the_recording_makes_no_straggler(findings: Findings) -> None:
    made = Meetings(400)
    for rank, start in ((0, 10), (1, 120)):
        made.compute(rank, start, start + 20)
    made.meet({0: 30, 1: 140}, 150)
    made.compute(1, 150, 155)
    made.meet({0: 150, 1: 155}, 160)
    assert not findings(made.rows(), "straggling-rank")


def test_waiting_for_the_straggler_is_one_loss_and_no_communication_too(findings: Findings) -> None:
    rows = findings(job(30, 30, 30, 30).rows())
    values = {row["id"]: (row["value"], row["title"]) for row in rows}
    assert list(values).index("straggling-rank") < list(values).index("communication-bound")
    # 45 ms of a step communicate on three ranks and 15 on rank 2; the three wait 30 ms of them for it.
    value, title = values["communication-bound"]
    assert value == (3 * 45 + 15 - 3 * 30) / 4 / 100
    assert "besides waiting for rank 2 (22.50 ms)" in title
    (row,) = findings(job(30, 30, 30, 30, told=False).rows(), "communication-bound")
    assert row["value"] == (3 * 45 + 15) / 4 / 100


def test_waiting_for_what_lies_before_a_recording_is_no_sure_communication(findings: Findings) -> None:
    made = Meetings(400)
    for rank, start in ((0, 10), (1, 120)):
        made.compute(rank, start, start + 20)
    made.meet({0: 30, 1: 140}, 150)
    made.compute(1, 150, 155)
    made.meet({0: 150, 1: 155}, 160)
    (row,) = findings(made.rows(), "communication-bound")
    assert row["title"].endswith("; 55.00 ms of it for what late ranks did before their recordings start")
    assert row["confidence"] == "low"
    assert "before their recordings" not in findings(job(4, 4, 4, 4).rows(), "communication-bound")[0]["title"]
