"""Whom ranks wait for in collectives, and why: sums that hold, chains of waits, and what is not told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.literal import literal_store
from tests.questions.meetings import MS, Meetings

from stepscope.query.ask import ask
from stepscope.query.event_filter import EventFilter
from stepscope.questions import find

CAUSES = (
    "input_ns", "computation_ns", "copies_ns", "communication_ns", "garbage_collection_ns",
    "compilation_ns", "host_ns", "profiler_ns", "not_recorded_ns", "before_ns",
)  # fmt: skip


def together(*others: int) -> Meetings:
    """Three ranks, or more, that left a collective together after 100 ms of 400."""
    job = Meetings(400)
    job.meet(dict.fromkeys((0, 1, 2, *others), 90), 100)
    return job


def test_a_rank_whose_kernels_take_longer_is_charged_with_all_waits(diff: Any) -> None:
    job = together()
    for rank, end in ((0, 150), (1, 160), (2, 200)):
        job.compute(rank, 100, end)
    job.meet({0: 150, 1: 160, 2: 200}, 210)
    diff(
        "stragglers",
        job.rows(),
        """
        rank,last,last_ratio,waited_by_others_ns,charged_ns,skew_ns,step_ratio,waited_ns,computation_ns,why
        2,1,0.5,90000000,90000000,45000000.0,0.1125,0,90000000,computation 100.0 % (gemm)
        0,1,0.5,0,0,0.0,0.0,50000000,0,
        1,0,0.0,0,0,0.0,0.0,40000000,0,
        """,
    )
    diff("stragglers", job.rows(), "rank,late\n2,True\n0,False\n1,False")


def test_who_costs_the_others_little_is_no_straggler(answer: Any) -> None:
    job = together()
    for rank, end in ((0, 150), (1, 150), (2, 165)):
        job.compute(rank, 100, end)
    job.meet({0: 150, 1: 150, 2: 165}, 210)
    table = answer("stragglers", job.rows())
    assert [(row["rank"], row["late"], row["why"]) for row in table.rows()] == [
        (2, False, None), (0, False, None), (1, False, None),
    ]  # fmt: skip
    assert table.note.endswith(
        "No rank is a straggler: rank 2 costs the others most, 3.8 % of a step, and a straggler 5.0 % or more."
    )
    assert "straggler" not in [row["change"] for row in answer("what-if", job.rows()).rows()]


def test_each_moment_of_the_late_rank_has_one_cause(diff: Any) -> None:
    job = together()
    for rank in (0, 1):
        job.compute(rank, 100, 110)
    job.on_host(2, 100, 300, "range", kind="annotation")
    job.on_host(2, 100, 140, "enumerate(DataLoader)", kind="annotation", role="dataloader")
    job.on_host(2, 130, 160, "Python GC", kind="python", role="garbage_collection")
    job.on_host(2, 160, 180, "x (dynamo_timed)", role="compile")
    job.compute(2, 150, 155)
    job.compute(2, 180, 190, "copy", kind="copy")
    job.on_host(2, 190, 200, "flush", kind="overhead")
    job.on_host(2, 200, 230, "aten::nonzero")
    job.meet({0: 110, 1: 110, 2: 320}, 330)
    # Of the 210 ms that each waited; 20 ms at the end have nothing, and it computes 5 ms less.
    diff(
        "stragglers",
        job.rows(),
        f"""
        rank,charged_ns,{",".join(CAUSES)}
        2,420000000,80000000,-10000000,20000000,0,30000000,40000000,200000000,20000000,40000000,0
        """,
        top=1,
    )
    diff(
        "stragglers",
        job.rows(),
        """
        rank,cause,charged_ns,share_ratio,why
        2,host,200000000,0.46511627906976744,aten::nonzero
        2,input,80000000,0.18604651162790697,
        2,compilation,40000000,0.09302325581395349,
        2,not recorded,40000000,0.09302325581395349,
        2,garbage collection,30000000,0.06976744186046512,
        2,copies,20000000,0.046511627906976744,
        2,profiler,20000000,0.046511627906976744,
        2,computation,-10000000,,
        """,
        by="cause",
    )


def test_a_wait_that_is_passed_on_is_charged_to_where_it_comes_from(diff: Any) -> None:
    job = together()
    for rank, end in ((0, 150), (1, 250), (2, 160)):
        job.compute(rank, 100, end)
    job.meet({0: 150, 1: 250}, 260, stream=21)  # rank 0 waits 100 ms for rank 1
    job.compute(0, 260, 270)
    job.meet({0: 270, 2: 160}, 280, stream=22)  # and rank 2 110 ms for rank 0
    diff(
        "stragglers",
        job.rows(),
        """
        rank,last,waited_by_others_ns,charged_ns,computation_ns,communication_ns,why
        1,1,100000000,200000000,200000000,0,computation 100.0 % (gemm)
        0,2,110000000,10000000,0,10000000,
        2,0,0,0,0,0,
        """,
    )


def test_who_would_have_waited_anyway_was_not_held_up(diff: Any) -> None:
    job = together()
    for rank, end in ((0, 150), (1, 170), (2, 300)):
        job.compute(rank, 100, end)
    job.meet({0: 150, 1: 170}, 170, stream=21)
    job.meet({0: 170, 1: 170, 2: 300}, 310)
    # Rank 0 waited 20 ms for rank 1 and 130 for rank 2: 150 ms for rank 2 without rank 1.
    expected = "rank,waited_by_others_ns,charged_ns\n2,260000000,280000000\n0,0,0\n1,20000000,0"
    diff("stragglers", job.rows(), expected)


def test_a_collective_that_is_still_in_flight_holds_nobody_up(diff: Any) -> None:
    job = together()
    job.compute(0, 100, 120)
    job.on_host(1, 105, 220, "aten::nonzero")
    # In flight on a stream of its own while rank 1's host is late for the next one.
    job.meet({0: 105, 1: 105}, 225, stream=21)
    job.meet({0: 120, 1: 220}, 230)
    diff(
        "stragglers",
        job.rows(),
        "rank,charged_ns,computation_ns,communication_ns,host_ns\n1,100000000,-20000000,0,115000000",
        top=1,
    )


def test_what_lies_before_the_recording_is_said_and_not_explained(diff: Any) -> None:
    job = Meetings(400)
    for rank, start in ((0, 10), (1, 80)):
        job.on_host(rank, start, start + 20, "aten::mm")
    job.meet({0: 30, 1: 100}, 110)
    diff(
        "stragglers",
        job.rows(),
        "rank,charged_ns,host_ns,before_ns,why\n1,70000000,0,70000000,before the recording 100.0 %",
        top=1,
    )


def test_a_stragglers_time_before_its_recording_is_said_beside_what_it_costs(answer: Any) -> None:
    job = Meetings(400)
    for rank, start in ((0, 10), (1, 80)):
        job.on_host(rank, start, start + 20, "aten::mm")
    job.meet({0: 30, 1: 100}, 110)
    job.compute(0, 110, 120)
    job.compute(1, 110, 200)
    job.meet({0: 120, 1: 200}, 210)
    assert answer("stragglers", job.rows()).note.endswith(
        "Rank 1 is a straggler: it costs each of the others 80.00 ms of a step, 20.0 %; 70.00 ms more lie before its "
        "recording starts, and are not counted."
    )


def test_a_rank_whose_file_is_cut_off_is_neither_late_nor_counted(answer: Any) -> None:
    job = together()
    for rank, end in ((0, 150), (1, 160), (2, 200)):
        job.compute(rank, 100, end)
    job.meet({0: 150, 1: 160, 2: 200}, 210)
    cut = [{"rank": 2, "check": "truncated", "severity": "warning", "affects": "file"}]
    table = answer("stragglers", {**job.rows(), "data_check": cut})
    assert (table["rank"], set(table["charged_ns"])) == ([0, 1], {0})
    assert "; rank 2, whose recording is damaged, left out" in table.note
    # What a folder lacks is no rank's damage.
    lacks = [{**cut[0], "check": "left_out"}]
    assert answer("stragglers", {**job.rows(), "data_check": lacks})["rank"] == [2, 0, 1]


def test_nobody_is_charged_where_clocks_do_not_tell(answer: Any) -> None:
    job = together()
    job.compute(2, 100, 200)
    job.meet({0: 150, 1: 160, 2: 200}, 210, told=False)
    table = answer("stragglers", job.rows())
    assert set(table["charged_ns"]) == {0}
    assert table.note == (
        "2 collectives were matched over 3 ranks; for 1 of them the clocks do not tell who arrived last, "
        "and no rank is charged."
    )


def test_without_matches_there_is_no_answer_and_a_cure(answer: Any) -> None:
    rows = {"collective": [{"start_ns": 0, "end_ns": 5, "wait_ns": None}], "step": [{"end_ns": 9}]}
    table = answer("stragglers", rows)
    assert len(table) == 0
    assert "record every rank of the job" in table.note


def test_ranks_steps_and_windows_are_chosen_and_compared_with_all(diff: Any, answer: Any) -> None:
    job = Meetings(400, steps=2)
    job.meet(dict.fromkeys((0, 1), 10), 20)
    job.compute(1, 20, 120)
    job.meet({0: 20, 1: 120}, 130)
    job.compute(1, 200, 250)
    job.meet({0: 200, 1: 250}, 260)
    diff("stragglers", job.rows(), "rank,charged_ns\n1,150000000", ranks=[1])
    diff("stragglers", job.rows(), "rank,charged_ns\n1,50000000\n0,0", steps=[1])
    diff(
        "stragglers",
        job.rows(),
        "rank,step,charged_ns,computation_ns\n1,0,100000000,100000000\n1,1,50000000,50000000",
        by="step",
    )
    assert answer("stragglers", job.rows())["skew_ns"] == [75 * MS, 0.0]
    second = EventFilter(window=(150 * MS, 400 * MS))
    diff("stragglers", job.rows(), "rank,charged_ns\n1,50000000\n0,0", part=second)


def test_collectives_of_the_host_are_those_of_a_job_without_a_device(diff: Any) -> None:
    job = Meetings(400)
    for rank in (0, 1):
        job.on_host(rank, 90, 100, "gloo:all_reduce")
    job.on_host(0, 100, 120, "aten::mm")
    job.on_host(1, 100, 300, "AddmmBackward0")
    rows = job.rows() | {
        "collective": [
            {
                "rank": rank,
                "operation": "all_reduce",
                "start_ns": start * MS,
                "end_ns": end * MS,
                "match_id": match,
                "last_rank": 1,
                "wait_ns": wait * MS,
            }
            for match, rank, start, end, wait in (
                (0, 0, 90, 100, 0),
                (0, 1, 90, 100, 0),
                (1, 0, 120, 310, 180),
                (1, 1, 300, 310, 0),
            )
        ]
    }
    diff(
        "stragglers",
        rows,
        "rank,last,charged_ns,host_ns,why\n1,2,180000000,180000000,host 100.0 % (AddmmBackward0)",
        top=1,
    )


@st.composite
def _jobs(draw: st.DrawFn) -> Meetings:
    job, now = Meetings(1_000), dict.fromkeys(range(4), 0)
    for _ in range(draw(st.integers(1, 6))):
        group = draw(st.sets(st.integers(0, 3), min_size=2))
        arrivals = {}
        for rank in sorted(group):
            gap, work = draw(st.integers(0, 20)), draw(st.integers(0, 20))
            if work:
                job.compute(rank, now[rank] + gap, now[rank] + gap + work)
            arrivals[rank] = now[rank] + gap + work
        end = max(arrivals.values()) + draw(st.integers(1, 5))
        job.meet(arrivals, end, operation=draw(st.sampled_from(["all_reduce", "broadcast"])))
        now |= dict.fromkeys(group, end)
    return job


@examples(20)
@given(_jobs())
def test_charges_are_within_all_waits_and_causes_add_up_to_charges(job: Meetings) -> None:
    waited = sum(row["wait_ns"] for row in job.tables["collective"])
    with literal_store(job.rows()) as store:
        by_rank, by_step, by_cause = (ask(find("stragglers"), store, by=by).rows() for by in ("rank", "step", "cause"))
    # A wait beside computation costs nothing, and one lateness that several collectives wait for costs once.
    charged = sum(row["charged_ns"] for row in by_rank)
    assert 0 <= charged <= waited + 50
    assert sum(row["waited_by_others_ns"] for row in by_rank) == waited
    assert sum(row["waited_ns"] for row in by_rank) == waited
    assert sum(row["charged_ns"] for row in by_step) == pytest.approx(charged, abs=50)
    for row in (*by_rank, *by_step):
        assert sum(row[cause] for cause in CAUSES) == row["charged_ns"]
    assert by_cause or not waited


def _ask(job: Meetings) -> list[dict[str, Any]]:
    with literal_store(job.rows()) as store:
        return ask(find("stragglers"), store).rows()


def test_each_collective_has_who_was_waited_for_how_long_and_why(diff: Any) -> None:
    job = together()
    for rank, end in ((0, 150), (1, 160), (2, 200)):
        job.compute(rank, 100, end)
    job.meet({0: 150, 1: 160, 2: 200}, 210)
    job.meet({0: 230, 1: 215, 2: 215}, 240, operation="barrier")
    diff(
        "stragglers",
        job.rows(),
        """
        rank,start_ns,operation,waited_by_others_ns,max_ns,max_rank,cause
        2,200000000,all_reduce,90000000,50000000,0,computation
        0,230000000,barrier,30000000,15000000,1,not recorded
        """,
        by="collective",
    )


def test_what_lacks_is_told_by_what_is_there(answer: Any) -> None:
    alone = answer("stragglers", {"rank": [{"rank": 3, "world_size": 4}]})
    assert alone.note.startswith("One rank of 4 is in this recording, rank 3, and")
    several = answer("stragglers", {"rank": [{"rank": 0}, {"rank": 1}]})
    assert several.note.startswith("No collective is matched over the 2 recorded ranks")
