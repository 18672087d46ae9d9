"""What holds a run of several ranks back, and the words for it."""

import json

import pytest

from stepscope.findings.facts import ranks_text

MS = 1_000_000


def _rank(rank, exposed=None, **late):
    """A step of 100 ms in which a rank is late by as much as it waits less in backward."""
    phases = {"input_wait": 1, "forward": 30, "backward": 60, "optimizer": 4, "residual": 5}
    for phase, more in late.items():
        phases[phase] += more
        phases["backward"] -= more
    rows = [{"phase": name, "mean_ns": time * MS} for name, time in phases.items()]
    timed = {}
    if exposed is not None:
        timed = dict.fromkeys(TIMED, exposed * MS) | {"timed_backward_ns": phases["backward"] * MS}
    whole = {"phase": "step", "mean_ns": 100.0 * MS, **timed}
    return [{"rank": rank, "steps": 50, **row} for row in (whole, *rows)]


TIMED = ("communication_ns", "exposed_communication_ns")


def _ask(answer, phases, **more):
    table = answer("phases", {"phase": phases, **more}, by="verdict")
    return table, [(row["kind"], row["rank"], row["ranks"]) for row in table.rows()]


def test_the_rank_that_the_others_wait_for_is_named_with_time_phase_and_evidence(answer):
    ranks = [row for rank in range(4) for row in _rank(rank, forward=20 if rank == 2 else 0)]
    steps = [
        {"rank": rank, "step": step, "phase": "forward", "dur_ns": time * MS}
        for step, times in enumerate([(30, 30, 55, 30), (30, 30, 30, 30)])
        for rank, time in enumerate(times)
    ]
    table, kinds = _ask(answer, ranks, phase_step=steps)
    assert kinds == [("straggling-rank", 2, 1)]
    (row,) = table.rows()
    assert (row["phase"], row["skew_ns"], row["share_ratio"]) == ("forward", 20 * MS, 0.2)
    assert row["evidence"] == (
        "Straggling rank: rank 2 needs 20.00 ms more per step than the others before they meet, "
        "20.00 ms of it in forward; the others wait for it, in 50.0 % of the recorded steps"
    )
    assert "--ranks 0,2" in row["next_step"]


def test_the_same_words_are_below_the_phases_and_in_json(answer):
    ranks = [row for rank in range(4) for row in _rank(rank, 40 - 30 * (rank == 1), residual=15)]
    table = answer("phases", {"phase": ranks})
    assert table.note.splitlines() == [
        "Verdict: Straggling rank: the others wait 30.00 ms per step for rank 1: all-reduce "
        "takes 40.00 ms on them and 10.00 ms on it; no other phase is longer on it: it loses the "
        "time within backward. Next: Look at rank 1: its share of the work (longer sequences, "
        "larger batches), its clocks, other processes on its node; a trace of it and another: "
        "`stepscope record --trace --ranks 0,1 -- train.py`.",
        "Also: residual (20.0 %). --by verdict has their evidence.",
    ]
    assert json.loads(table.to_json())["note"] == table.note
    assert "".join(table.note.split()) in "".join(repr(table).split())


def test_a_loss_of_many_ranks_is_their_mean_with_the_worst_rank(answer):
    ranks = [row for rank in range(64) for row in _rank(rank, residual=15 + (rank == 7))]
    table, kinds = _ask(answer, ranks)
    assert kinds == [("residual", 7, 64)]
    assert ", 21.0 % on rank 7" in table.rows()[0]["evidence"]


def test_waiting_for_a_late_rank_is_not_said_to_be_communication_or_its_own_loss(answer):
    ranks = [row for rank in range(4) for row in _rank(rank, 5 + 30 * (rank != 1), residual=30 * (rank == 1))]
    _, kinds = _ask(answer, ranks)
    assert kinds == [("straggling-rank", 1, 1)]


def test_communication_is_what_it_takes_on_the_rank_that_waits_least(answer):
    ranks = [row for rank in range(2) for row in _rank(rank, 40 + rank)]
    table, kinds = _ask(answer, ranks)
    assert kinds == [("communication-bound", 0, 1)]
    assert "40.0 % of the step (40.00 ms)" in table.rows()[0]["evidence"]
    assert "even on rank 0, which waits least" in table.rows()[0]["evidence"]


def test_ranks_without_a_recording_are_said(answer):
    rows = {"phase": [*_rank(0), *_rank(1)], "rank": [{"rank": rank, "world_size": 8} for rank in (0, 1)]}
    note = answer("phases", rows).note.splitlines()
    assert note[1:] == ["No phases of ranks 2-7 are recorded: the others may wait for one of them."]
    trace = {"device_event": [{"id": 1, "start_ns": 0, "dur_ns": 5}], "rank": rows["rank"]}
    assert "Record with" in answer("phases", trace).note, "nobody has phases: no rank is missing"
    assert len(answer("phases", rows, ranks=(0,)).note.splitlines()) == 1


def test_the_wait_for_the_first_batch_of_an_epoch_is_told(answer):
    whole = {"phase": "step", "steps": 5, "mean_ns": 100.0, "first_batch_ns": 2e9}
    table = answer("phases", {"phase": [{**whole, "first_batches": 1}]})
    assert table.note == ("The first batch of an epoch, which is in no step, took 2.000 s on average (1 counted).")
    assert table.rows()[0]["first_batch_ns"] == 2e9


def test_where_there_is_a_device_its_times_are_compared_and_not_the_hosts(answer):
    """Hosts hand work out and wait for the device somewhere: how long says nothing of the device."""

    def rank(rank, host_forward, device_forward):
        times = {"forward": device_forward, "backward": 90 - device_forward}
        device = {name: {"device_mean_ns": time * MS} for name, time in times.items()}
        return [{**row, **device.get(row["phase"], {})} for row in _rank(rank, forward=host_forward)]

    busy = [row for n in range(4) for row in rank(n, 20 * (n == 1), 30)]
    assert [kind for kind, _, _ in _ask(answer, busy)[1]] == ["compute-bound"]
    slow = [row for n in range(4) for row in rank(n, 0, 50 if n == 3 else 30)]
    assert _ask(answer, slow)[1] == [("straggling-rank", 3, 1)]


def test_spans_of_a_rank_count_by_their_steps(answer):
    first = [{**row, "steps": 10} for rank in range(4) for row in _rank(rank)]
    second = [
        {**row, "span": 1, "steps": 90} for rank in range(4) for row in _rank(rank, forward=20 if rank == 0 else 0)
    ]
    table, kinds = _ask(answer, [*first, *second])
    assert kinds == [("straggling-rank", 0, 1)]
    assert table.rows()[0]["skew_ns"] == pytest.approx(18 * MS)


@pytest.mark.parametrize(
    ("ranks", "text"), [((3,), "rank 3"), ((1, 0), "ranks 0, 1"), ((8, 9, 10, 3), "ranks 3, 8-10")]
)
def test_ranks_are_written_as_people_write_them(ranks, text):
    assert ranks_text(ranks) == text
