"""Allocations and their releases, found by address."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.analysis.memory.lifetimes import NO_EVENT, alive_bytes, first_after, lifetimes


def replayed(events):
    """The allocations of a plain replay: (start, end, bytes, taken, given)."""
    alive, found, last = {}, [], {}
    for number, (address, size) in enumerate(events):
        if address in alive and size > 0:
            # Its release was lost.
            found.append((*alive.pop(address), number, NO_EVENT))
        if size > 0:
            alive[address] = (number, size)
        elif address in alive:
            found.append((*alive.pop(address), number, number))
        else:
            found.append((None, -size, number, number, last.get(address, -1) + 1))
        last[address] = number
    found += [(*one, len(events), NO_EVENT) for one in alive.values()]
    rows = []
    for start, size, end, released, *before in found:
        if start is None:
            rows.append((before[0], end + 1, size, NO_EVENT, released))
        else:
            rows.append((start + 1, end + 1, size, start, released))
    return sorted(rows)


EVENTS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 9).flatmap(lambda n: st.sampled_from([n, -n]))), max_size=40
)


@given(EVENTS)
@examples(100)
def test_they_are_those_of_a_plain_replay(events):
    address, size = (np.array(one, dtype=np.int64) for one in zip(*events, strict=True)) if events else (
        np.zeros(0, np.int64), np.zeros(0, np.int64),
    )  # fmt: skip
    found = lifetimes(address, size)
    assert sorted(zip(*(one.tolist() for one in found), strict=True)) == replayed(events)


@given(EVENTS)
@examples(100)
def test_bytes_alive_are_those_of_the_allocations_one_by_one(events):
    found = lifetimes(np.array([one for one, _ in events], np.int64), np.array([one for _, one in events], np.int64))
    states = len(events) + 1
    rows = list(zip(found.start.tolist(), found.end.tolist(), found.bytes.tolist(), strict=True))
    assert alive_bytes(found.start, found.end, found.bytes, states).tolist() == [
        sum(size for start, end, size in rows if start <= state < end) for state in range(states)
    ]


def test_first_mark_at_or_after_a_state():
    assert first_after(np.array([2, 5]), np.array([0, 2, 3, 6]), 9).tolist() == [2, 2, 5, 9]
    assert first_after(np.zeros(0, np.int64), np.array([1]), 9).tolist() == [9]
