"""Which collectives of several ranks are one, how their clocks differ, and who waited, on rows that can be checked by eye."""

from typing import Any

import numpy as np
import pyarrow as pa

from stepscope.link.across_ranks.alignment import Aligned, align
from stepscope.link.across_ranks.gather import READ, Collectives, RankInfo, gather
from stepscope.schema.tables import TABLES

US = 1_000
MS = 1_000_000

Row = dict[str, Any]
WORLD = {"operation": "all_reduce", "group_name": "0", "group_ranks": "[0, 1]", "group_size": 2}


def known(rank: int, **more: Any) -> RankInfo:
    facts = {"host": None, "epoch_ns": 0, "resolution_ns": 1, "guessed": False, "spans": {0: (0, 9)}}
    return RankInfo(rank, **(facts | more))


def together(*ranks: list[Row], facts: list[RankInfo] | None = None) -> tuple[Collectives, Aligned]:
    """What ranks that recorded these collectives tell together."""
    facts = facts or [known(rank) for rank in range(len(ranks))]
    schema = TABLES["collective"].arrow(READ)
    tables = [
        (one.rank, span, pa.Table.from_pylist([row for row in rows if row.get("span", 0) == span], schema=schema))
        for one, rows in zip(facts, ranks, strict=True)
        for span in sorted({row.get("span", 0) for row in rows})
    ]  # fmt: skip
    found = gather(facts, tables)
    return found, align(found, facts)


def met(*arrivals: list[int], last: int = 10, every: int = 1000, **more: Any) -> list[list[Row]]:
    """Ranks that meet once every so often, with their arrivals before it (ns), and leave together."""
    ranks: list[list[Row]] = [[] for _ in arrivals[0]]
    for number, of_ranks in enumerate(arrivals):
        for rows, before in zip(ranks, of_ranks, strict=True):
            end = (number + 1) * every
            row = {"start_ns": end - last - before, "end_ns": end, "sequence": number}
            rows.append({**WORLD, **row, **more})
    return ranks


def ahead(rows: list[Row], ns: int, ppb: int = 0) -> list[Row]:
    """The rows by a clock that is ahead, and runs faster."""
    moved = {"start_ns", "end_ns"}
    return [{k: v + ns + v * ppb // 10**9 if k in moved else v for k, v in row.items()} for row in rows]


def matched(found: Collectives, aligned: Aligned) -> list[list[int]]:
    """The number of the match of each rank's collectives, in order."""
    return [aligned.matches.match[found.rank == at].tolist() for at in range(max(found.rank) + 1)]


def waited(found: Collectives, aligned: Aligned) -> list[list[int]]:
    """How long each rank waited in each of its collectives; -1 where that is not known."""
    wait = np.full(len(found), -1)
    wait[aligned.matches.rows] = aligned.waits.wait
    return [wait[found.rank == at].tolist() for at in range(max(found.rank) + 1)]


def last(aligned: Aligned) -> list[int]:
    """The place of the rank that came last to each match; -1 where that is not told."""
    return aligned.waits.last[aligned.matches.first].tolist()


def test_the_last_to_arrive_waits_for_nobody():
    found, aligned = together(*met([500, 0], [0, 300]))
    assert matched(found, aligned) == [[0, 1], [0, 1]]
    assert waited(found, aligned) == [[500, 0], [0, 300]]
    assert last(aligned) == [1, 0]
    assert aligned.confidence.tolist() == [1.0, 1.0]
    assert aligned.unmatched == 0


def test_sequence_numbers_match_spans_that_start_at_different_steps():
    first, second = met([5, 0], [5, 0], [5, 0], [5, 0])
    second = [{**row, "span": 1} if row["sequence"] > 2 else row for row in second[1:]]
    found, aligned = together(first[:3], second)
    assert matched(found, aligned) == [[-1, 0, 1], [0, 1, -1]]
    assert aligned.unmatched == 2


def test_a_lost_collective_is_alone_and_those_after_it_are_matched():
    one, other = met(*[[50, 0]] * 8, every=MS, sequence=None)
    del other[3]
    found, aligned = together(one, other)
    assert matched(found, aligned) == [[0, 1, 2, -1, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]]
    assert aligned.unmatched == 1


def test_what_each_of_three_ranks_lost_is_matched_among_the_others():
    three = met(*[[50, 20, 0]] * 30, every=MS, sequence=None, group_ranks="[0, 1, 2]", group_size=3)
    for rank, rows in enumerate(three):
        del rows[rank]
    _, aligned = together(*three)
    assert aligned.matches.ranks.tolist() == [2] * 3 + [3] * 27
    assert aligned.unmatched == 0


def test_groups_of_one_name_are_told_apart_by_their_ranks():
    pairs = [met([9, 0], [0, 9], group_ranks=text) for text in ("[0, 1]", "[2, 3]")]
    found, aligned = together(*pairs[0], *pairs[1])
    assert aligned.matches.ranks.tolist() == [2, 2, 2, 2]
    assert matched(found, aligned)[0] == matched(found, aligned)[1]
    assert matched(found, aligned)[2] == matched(found, aligned)[3]


def test_a_communicator_tells_groups_of_one_name_apart():
    unnamed = {"group_ranks": None}
    pairs = [met([9, 0], [0, 9], communicator=number, **unnamed) for number in ("a", "b")]
    _, aligned = together(*pairs[0], *pairs[1])
    assert aligned.matches.ranks.tolist() == [2, 2, 2, 2]
    # A pointer, which is another on each rank, tells nothing.
    rows = met([9, 0], [0, 9], **unnamed)
    _, aligned = together(*([{**row, "communicator": str(n)} for row in own] for n, own in enumerate(rows)))
    assert aligned.matches.ranks.tolist() == [2, 2]
    assert aligned.confidence.tolist() == [0.9, 0.9]


def test_groups_that_nothing_tells_apart_are_left_unmatched():
    _, aligned = together(*met([9, 0, 0, 9], group_ranks=None))
    assert len(aligned.matches) == 0
    assert (aligned.unmatched, aligned.unknown) == (4, 4)


def test_a_rank_of_which_the_group_does_not_know_is_not_matched():
    _, aligned = together(*met([9, 0, 3]))
    assert aligned.matches.ranks.tolist() == [2]
    assert aligned.unknown == 1


def test_collectives_of_a_group_whose_other_ranks_were_not_read_are_no_loss():
    _, aligned = together(met([0])[0], met([0], group_ranks="[1, 5]")[0])
    assert (len(aligned.matches), aligned.unmatched) == (0, 0)


def test_without_any_recorded_group_the_match_is_less_sure():
    bare = {"group_name": None, "group_ranks": None, "group_size": None, "sequence": None}
    _, aligned = together(*met([9, 0], [0, 9], **bare))
    assert aligned.confidence.tolist() == [0.5, 0.5]
    assert {aligned.matches.rule[row] for row in aligned.matches.rows} == {2}


def test_other_kinds_in_another_order_are_not_taken_for_each_other():
    rows = met([9, 0], [0, 9], sequence=None)
    rows[1][0]["bytes"] = 64
    _, aligned = together(*rows)
    assert len(aligned.matches) == 1
    # All-to-all may send another size on each rank.
    for one in (row for own in rows for row in own):
        one["operation"] = "all_to_all"
    assert len(together(*rows)[1].matches) == 2


def test_coalesced_collectives_of_one_sequence_number_are_matched_in_turn():
    rows = met([9, 0], [0, 9])
    for own in rows:
        own[1]["sequence"] = 0
    found, aligned = together(*rows)
    assert matched(found, aligned) == [[0, 1], [0, 1]]


def test_a_transfer_is_matched_with_that_of_its_peer():
    two = met([70, 0], [0, 0], operation="send", source_rank=None, destination_rank=1)
    two[1] = [{**row, "operation": "recv", "source_rank": 0, "destination_rank": None} for row in two[1]]
    found, aligned = together(*two)
    assert matched(found, aligned) == [[0, 1], [0, 1]]
    stray = [{**row, "destination_rank": None} for row in two[0]]
    assert together(stray, two[1])[1].unknown == 2


def test_those_who_receive_a_broadcast_do_not_wait_for_each_other():
    found, aligned = together(*met([500, 0], [0, 300], operation="broadcast"))
    assert waited(found, aligned) == [[-1, -1], [-1, -1]]
    assert last(aligned) == [-1, -1]


# -- clocks ------------------------------------------------------------------------------------------------


def job(count: int = 64, **more: Any) -> list[list[Row]]:
    """Two ranks that meet every 2 ms or so, where one of them arrives up to 300 µs late."""
    draw = np.random.default_rng(0)
    late = draw.integers(0, 300 * US, (count, 2))
    late -= late.min(axis=1, keepdims=True)
    rows = met(*late.tolist(), last=20 * US, every=2 * MS, **more)
    for own in zip(*rows, strict=True):
        jitter = int(draw.integers(0, MS))
        for row in own:
            row["start_ns"] += jitter
            row["end_ns"] += jitter
    return rows


def test_clocks_that_are_seconds_apart_and_drift_are_aligned():
    one, other = job()
    truth = waited(*together(one, other))
    found, aligned = together(one, ahead(other, 3_000 * MS, ppb=40_000))
    clock = aligned.clocks[1]
    assert (clock.rule, clock.matches) == ("collectives", 64)
    assert clock.drift is not None
    assert abs(clock.drift * 1e9 - 40_000) < 10
    assert clock.noise_ns == 1
    ends = found.end[found.rank == 0]
    assert abs(clock.corrected(found.end[found.rank == 1]) - ends).max() <= 1
    assert np.abs(np.array(waited(found, aligned)) - truth).max() <= 2


def test_what_noise_explains_is_no_drift():
    one, other = job()
    draw = np.random.default_rng(1)
    for row in other:
        row["end_ns"] += int(draw.normal(0, 3 * US))
    aligned = together(one, ahead(other, 50 * MS))[1]
    assert aligned.clocks[1].drift == 0
    assert 3 * US < (aligned.clocks[1].noise_ns or 0) < 12 * US
    # A difference below the noise is not applied.
    assert together(one, ahead(other, US))[1].clocks[1].rule == "epoch"


def test_arrivals_closer_than_the_clocks_let_tell_have_no_last_rank():
    one, other = job()
    draw = np.random.default_rng(1)
    for row in other:
        row["end_ns"] += int(draw.normal(0, 30 * US))
    found, aligned = together(one, ahead(other, 50 * MS))
    noise = sum(clock.noise_ns or 0 for clock in aligned.clocks)
    starts = [aligned.clocks[at].corrected(found.start[found.rank == at]) for at in (0, 1)]
    apart = np.abs(starts[0] - starts[1])
    assert ((np.array(last(aligned)) >= 0) == (apart > noise)).all()
    assert 0 < (apart <= noise).sum() < 64
    waits = np.array(waited(found, aligned))
    assert ((waits.max(axis=0) > 0) == (apart > noise)).all()


def test_seconds_apart_and_with_a_lost_collective_order_finds_its_way():
    one, other = job(sequence=None)
    del other[20], one[40]
    found, aligned = together(one, ahead(other, -2_500 * MS, ppb=-20_000))
    assert aligned.matches.ranks.tolist() == [2] * 62
    assert aligned.unmatched == 2
    assert matched(found, aligned)[0][20] == -1
    assert aligned.confidence.min() == 1.0


def test_ranks_of_one_host_share_its_clock():
    one, other = job()
    facts = [known(rank, host="a") for rank in (0, 1)]
    aligned = together(one, ahead(other, 5 * US), facts=facts)[1]
    assert [clock.rule for clock in aligned.clocks] == ["same host", "same host"]
    assert [clock.ahead_ns for clock in aligned.clocks] == [0, 0]
    assert [clock.noise_ns for clock in aligned.clocks] == [5 * US, 5 * US]
    # Hosts of one name whose clocks differ by seconds are not one host.
    aligned = together(one, ahead(other, 5_000 * MS), facts=facts)[1]
    assert aligned.clocks[1].rule == "collectives"
    assert aligned.clocks[1].ahead_ns == 5_000 * MS


def test_ranks_that_meet_no_common_rank_are_aligned_through_others():
    pairs = [job(group_ranks=text) for text in ("[0, 1]", "[1, 2]")]
    later = [ahead(rows, 3 * MS) for rows in pairs[1]]
    middle = sorted(pairs[0][1] + later[0], key=lambda row: row["start_ns"])
    aligned = together(pairs[0][0], ahead(middle, MS), ahead(later[1], 7 * MS))[1]
    assert [clock.ahead_ns for clock in aligned.clocks] == [0, MS, 7 * MS]
    assert {clock.among for clock in aligned.clocks} == {0}


def test_recordings_of_different_jobs_are_not_aligned_by_nonsense():
    one = job()[0]
    draw = np.random.default_rng(7)
    end = 4_000 * MS
    other = []
    for row in one:
        end += int(draw.integers(MS, 4 * MS))
        other.append({**row, "start_ns": end - 30 * US, "end_ns": end})
    found, aligned = together(one, other)
    assert aligned.clocks[1].refused
    assert aligned.clocks[1].rule == "epoch"
    assert set(waited(found, aligned)[0]) == {-1}


def test_ranks_that_were_guessed_are_not_matched():
    facts = [known(0), known(1, guessed=True)]
    assert len(together(*job(), facts=facts)[1].matches) == 0


def test_few_matches_move_no_clock_and_still_bound_its_error():
    one, other = met([50, 0], [0, 70])
    aligned = together(one, ahead(other, 9))[1]
    assert [(clock.rule, clock.noise_ns) for clock in aligned.clocks] == [("epoch", 9.0)] * 2
    facts = [known(0), known(1, epoch_ns=None)]
    aligned = together(one, other, facts=facts)[1]
    assert aligned.clocks[1].noise_ns is None
    assert last(aligned) == [-1, -1]


def test_ranks_recorded_at_other_times_are_other_sessions():
    first, again = (job(16, sequence=None), [ahead(rows, 10_000 * MS) for rows in job(16, sequence=None)])
    spans = [[{**row, "span": 0} for row in first[0]] + [{**row, "span": 1} for row in again[0]], again[1]]
    facts = [
        known(0, spans={0: (0, 40 * MS), 1: (10_000 * MS, 10_040 * MS)}),
        known(1, spans={0: (10_000 * MS, 10_040 * MS)}),
    ]
    found, aligned = together(*spans, facts=facts)
    assert matched(found, aligned) == [[-1] * 16 + [*range(16)], [*range(16)]]


def test_one_rank_of_a_host_without_collectives_has_the_clock_of_its_host():
    one, other = job()
    facts = [known(0, host="a"), known(1, host="b"), known(2, host="b")]
    aligned = together(one, ahead(other, MS), [], facts=facts)[1]
    assert aligned.clocks[2].ahead_ns == MS
    assert aligned.clocks[2].noise_ns is None


def scheduled(rows: list[Row], most: int, *, seed: int = 3) -> list[Row]:
    """The rows where a thread of the host notices each end late, by when it is scheduled (ns)."""
    draw = np.random.default_rng(seed)
    return [{**row, "end_ns": row["end_ns"] + int(draw.integers(0, most))} for row in rows]


def test_that_none_leaves_before_all_have_come_bounds_clocks_whose_ends_scatter():
    one, other = met(*[[0, 0]] * 60, *[[0, 100 * US]] * 4, last=20 * US, every=2 * MS)
    found, aligned = together(one, scheduled(other, 300 * US))
    assert [clock.noise_ns for clock in aligned.clocks] == [20_447, 20_447]
    assert last(aligned) == [-1] * 60 + [0] * 4
    assert waited(found, aligned)[1][60:] == [100 * US] * 4


def test_an_order_that_the_clocks_contradict_bounds_nothing():
    facts = [known(rank, host="a") for rank in (0, 1)]
    clocks = together(*met(*[[0, 0]] * 64, last=20 * US, every=2 * MS), facts=facts)[1].clocks
    assert [clock.noise_ns for clock in clocks] == [1, 1]
    one, other = met(*[[0, 0]] * 64, last=20 * US, every=2 * MS)
    clocks = together(one, ahead(other, 50 * US), facts=facts)[1].clocks
    assert [clock.noise_ns for clock in clocks] == [50 * US, 50 * US]


def test_ranks_of_one_host_are_not_parted_where_their_own_clocks_make_no_sense():
    one, other = job()
    facts = [known(rank, host="a") for rank in (0, 1)]
    aligned = together(one, scheduled(other, 30 * MS), facts=facts)[1]
    assert [clock.rule for clock in aligned.clocks] == ["same host", "same host"]
    assert not any(clock.refused for clock in aligned.clocks)
