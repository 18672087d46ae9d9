"""Which rank the others wait for, from made-up jobs whose answer can be seen."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.analysis.ranks.straggler import RankTimes, Straggler, find_straggler, medians_of_others

BEFORE = ("input_wait", "host_to_device", "forward")
AFTER = ("optimizer", "residual")
USUAL = {"input_wait": 2, "host_to_device": 1, "forward": 30, "optimizer": 5, "residual": 12}
BACKWARD = 60
ALL_REDUCE = 10


def job(
    ranks: int, late: dict[int, tuple[str, float]], *, timed: bool = False, **options: bool
) -> dict[int, RankTimes]:
    """Ranks that meet in backward, of which some need longer in a phase, and the others wait there.

    A rank that is late within its backward has a backward as long as everybody's.
    """
    extra = {rank: late.get(rank, ("", 0.0)) for rank in range(ranks)}
    latest = max(time for _, time in extra.values())
    times = {}
    for rank, (phase, time) in extra.items():
        phases = {name: usual + (time if phase == name else 0) for name, usual in USUAL.items()}
        waits = latest - time
        phases["backward"] = BACKWARD + waits + (time if phase == "backward" else 0)
        times[rank] = RankTimes(sum(phases.values()), phases, ALL_REDUCE + waits if timed else None, **options)
    assert len({of.step_ns for of in times.values()}) == 1
    return times


def found(times: dict[int, RankTimes]) -> tuple[tuple[int, ...], str, float] | None:
    late = find_straggler(times)
    return None if late is None else (late.ranks, late.phase, late.skew_ns)


@pytest.mark.parametrize("phase", [*BEFORE, *AFTER])
def test_one_of_four_that_is_late_outside_backward_is_named_without_timings(phase: str) -> None:
    assert found(job(4, {1: (phase, 200)})) == ((1,), phase, 200)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("phase", [*BEFORE, *AFTER, "backward"])
def test_whoever_waits_least_in_the_all_reduce_is_late_wherever_it_loses_its_time(ranks: int, phase: str) -> None:
    late = find_straggler(job(ranks, {1: (phase, 200)}, timed=True))
    assert late == Straggler(
        ranks=(1,),
        skew_ns=200,
        share_ratio=pytest.approx(200 / (sum(USUAL.values()) + BACKWARD + 200)),
        phase=phase,
        phase_ns=None if phase == "backward" else 200,
        waits_ns=(10, 210),
    )


def test_a_rank_late_within_its_backward_cannot_be_told_from_phases_alone() -> None:
    times = job(4, {1: ("backward", 200)})
    assert {of.phases["backward"] for of in times.values()} == {260}
    assert find_straggler(times) is None


@pytest.mark.parametrize("phase", ["host_to_device", "forward", "optimizer", "residual"])
def test_of_two_ranks_without_timings_either_could_be_the_one_that_waits(phase: str) -> None:
    assert find_straggler(job(2, {1: (phase, 200)})) is None


def test_of_two_ranks_one_that_waits_for_its_batches_is_the_late_one() -> None:
    assert found(job(2, {1: ("input_wait", 200)})) == ((1,), "input_wait", 200)


def test_the_ranks_of_a_slow_node_are_late_together() -> None:
    times = job(8, {6: ("forward", 100), 7: ("forward", 90)})
    assert found(times) == ((6, 7), "forward", 100)


def test_more_than_half_cannot_be_late() -> None:
    assert find_straggler(job(4, dict.fromkeys((0, 1, 2), ("forward", 100)))) is None


@pytest.mark.parametrize("timed", [False, True])
def test_what_is_below_a_twentieth_of_the_step_is_not_worth_words(timed: bool) -> None:
    assert find_straggler(job(4, {1: ("forward", 5)}, timed=timed)) is None
    assert find_straggler(job(4, {1: ("forward", 6)}, timed=timed)) is not None


def test_fast_ranks_that_wait_in_forward_for_rank_0s_buffers_are_not_late() -> None:
    """DDP sends the buffers of batch normalisation at the begin of forward: there the others wait."""
    times = {
        rank: RankTimes(100, {"forward": forward, "residual": 40 - forward, "backward": 60}, 10, forward_waits=True)
        for rank, forward in enumerate((10, 30, 30, 30))
    }
    assert found(times) == ((0,), "residual", 20)
    assert find_straggler({rank: times[rank] for rank in (0, 1)}) is None


def test_timings_that_a_larger_difference_elsewhere_contradicts_are_not_believed() -> None:
    # Rank 1 waits 20 in forward; that it waits 6 less in the all-reduce makes it no straggler.
    times = {
        0: RankTimes(100, {"input_wait": 20, "forward": 10, "backward": 70}, all_reduce_ns=11),
        1: RankTimes(100, {"input_wait": 0, "forward": 35, "backward": 65}, all_reduce_ns=5),
    }
    assert found(times) == ((0,), "input_wait", 20)


def test_a_slow_network_with_small_differences_needs_a_phase_that_bears_them_out() -> None:
    times = {
        rank: RankTimes(100, {"forward": 20, "backward": 80}, all_reduce_ns=52 if rank else 46) for rank in range(4)
    }
    assert find_straggler(times) is None


def test_ranks_that_do_not_wait_for_each_other_have_longer_steps() -> None:
    times = {rank: RankTimes(100, {"forward": 100}) for rank in range(4)}
    times[3] = RankTimes(150, {"forward": 150})
    late = find_straggler(times)
    assert (late.ranks, late.in_step) == ((3,), False)


def test_a_late_host_whose_device_has_work_left_delays_nobody() -> None:
    def rank(input_wait: float, backward: float) -> RankTimes:
        phases = {"input_wait": input_wait, "forward": 30, "backward": backward}
        return RankTimes(100, phases, on_device=True)

    assert find_straggler({0: rank(1, 60), 1: rank(40, 60)}) is None
    assert found({0: rank(1, 60), 1: rank(40, 25)}) == ((1,), "input_wait", 39)


@pytest.mark.parametrize("times", [{}, {0: RankTimes(100, {})}, {0: RankTimes(0, {}), 1: RankTimes(0, {})}])
def test_there_is_nothing_to_compare(times: dict[int, RankTimes]) -> None:
    assert find_straggler(times) is None


@examples(60)
@given(
    ranks=st.integers(2, 9),
    data=st.data(),
    phase=st.sampled_from([*BEFORE, *AFTER, "backward"]),
    skew_ns=st.floats(20, 10_000),
    timed=st.booleans(),
)
def test_only_the_late_rank_is_ever_named(
    ranks: int, data: st.DataObject, phase: str, skew_ns: float, timed: bool
) -> None:
    rank = data.draw(st.integers(0, ranks - 1))
    late = find_straggler(job(ranks, {rank: (phase, skew_ns)}, timed=timed))
    if timed:
        assert late is not None
    assert late is None or (late.ranks, late.phase) == ((rank,), phase)


@examples(50)
@given(st.dictionaries(st.integers(0, 40), st.integers(0, 9).map(float), min_size=2, max_size=12))
def test_what_others_need_is_the_median_without_the_rank_itself(times: dict[int, float]) -> None:
    assert medians_of_others(times) == {
        rank: median(time for other, time in times.items() if other != rank) for rank in times
    }
