"""What waits cost a rank, on made-up streams of buckets, beside the same run without them."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.analysis.ranks.stalls import MIN_STALL_NS, RankActivity, Stalls, find_stalls
from stepscope.analysis.recording import NEVER
from stepscope.link.intervals import union

US = 1_000
NONE = np.zeros(0, np.int64)

Bucket = tuple[int, int, int]
"""What a rank computes before it, how long after its start the other rank comes, and what it transfers (µs)."""


@dataclass
class Run:
    """Rounds of computation whose buckets are summed on a stream beside it; a round starts when the one before is summed."""

    rounds: list[list[Bucket]]
    wait: bool = True
    now: int = 0
    lost: int = 0
    computed: list[tuple[int, int]] = field(default_factory=list)
    summed: list[tuple[int, int, int]] = field(default_factory=list)

    def go(self) -> "Run":
        for buckets in self.rounds:
            since = self.now
            end, free = self._round(buckets, since, wait=True, keep=True)
            without, _ = self._round(buckets, since, wait=False, keep=False)
            stalled = end - free
            self.lost += end - max(without, free) if stalled >= MIN_STALL_NS else 0
            self.now = max(end, free)
        self.computed.append((self.now, self.now + US))
        return self

    def _round(self, buckets: list[Bucket], since: int, *, wait: bool, keep: bool) -> tuple[int, int]:
        end = since
        now = since
        for computes, after, transfer in buckets:
            if keep:
                self.computed.append((now, now + computes * US))
            now += computes * US
            start = max(now, end)
            arrived = max(start, since + after * US) if wait else start
            end = arrived + transfer * US
            if keep:
                self.summed.append((start, end, arrived - start))
        return end, now

    def stalls(self) -> Stalls:
        """As recorded of a host that is far ahead."""
        computed, summed = np.array(self.computed), np.array(self.summed)
        order = np.arange(2 * len(summed) + 1) - 10**9  # what is computed and what is summed take turns
        activity = RankActivity(union(*computed.T), *computed.T, order[::2], NONE)
        return find_stalls(
            {
                "start_ns": summed[:, 0], "end_ns": summed[:, 1], "wait_ns": summed[:, 2],
                "stream": np.zeros(len(summed), np.int64), "launch_ns": order[1::2],
            },
            activity,
        )  # fmt: skip


_BUCKET = st.tuples(st.integers(10, 60), st.integers(0, 400), st.integers(1, 60))


@examples(300)
@given(st.lists(st.lists(_BUCKET, min_size=1, max_size=5), min_size=1, max_size=3))
def test_waits_cost_how_much_sooner_the_rank_would_have_gone_on(rounds: list[list[Bucket]]) -> None:
    run = Run(rounds).go()
    held = run.stalls()
    cost = held.until - held.since
    assert cost.min() >= 0
    assert cost.sum() == run.lost


def test_what_the_host_launched_too_late_was_not_held_up_by_a_collective() -> None:
    rows = {
        "start_ns": np.array([10 * US]), "end_ns": np.array([60 * US]), "wait_ns": np.array([40 * US]),
        "stream": np.array([0]), "launch_ns": np.array([5 * US]),
    }  # fmt: skip

    def cost(launch: int, returned: list[int]) -> int:
        start, end = np.array([0, 70 * US]), np.array([10 * US, 90 * US])
        activity = RankActivity(union(start, end), start, end, np.array([-US, launch]), np.array(returned))
        held = find_stalls(rows, activity)
        return int((held.until - held.since).sum())

    assert cost(5 * US, []) == 40 * US
    assert cost(69 * US, []) == 0
    assert cost(69 * US, [62 * US]) == 40 * US  # a call of the host had waited for it
    assert cost(NEVER, []) == 40 * US


def test_a_rank_without_collectives_or_work_is_not_held_up() -> None:
    nothing = RankActivity(union([], []), NONE, NONE, NONE, NONE)
    rows = dict.fromkeys(("start_ns", "end_ns", "wait_ns", "stream", "launch_ns"), NONE)
    held = find_stalls(rows, nothing)
    assert len(held.since) == len(held.still) == 0
