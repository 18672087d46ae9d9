from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analysis.call_tree import (
    CallTree,
    call_tree,
    call_tree_of_stacks,
    from_below,
    heaviest,
    outermost,
    regrouped,
)

FORESTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)), max_size=25).map(
    lambda rows: [(code, above % (n + 1) - 1, self_values) for n, (code, above, self_values) in enumerate(rows)]
)
"""Calls as code, position of the call above (an earlier one, or -1), and own value."""


def of(forest: list[tuple[int, int, int]]) -> CallTree:
    code, parent, self_values = np.array(forest, dtype=np.int64).reshape(-1, 3).T
    return call_tree(parent, code, self_values[:, None])


def path(forest: Any, row: int) -> tuple[int, ...]:
    code, above, _ = forest[row]
    return (*(path(forest, above) if above >= 0 else ()), code)


def places(tree: CallTree) -> dict[tuple[int, ...], tuple[int, int, int]]:
    forest = list(zip(tree.code.tolist(), tree.parent.tolist(), tree.parent, strict=True))
    self_values, totals = tree.self_values[:, 0].tolist(), tree.totals[:, 0].tolist()
    return {path(forest, row): (self_values[row], totals[row], depth) for row, depth in enumerate(tree.depth.tolist())}


@given(FORESTS)
def test_calls_of_one_path_are_one_place_with_what_lies_below(forest: Any) -> None:
    paths = [path(forest, row) for row in range(len(forest))]
    self_values: Counter[tuple[int, ...]] = Counter(dict.fromkeys(paths, 0))
    for one, (_, _, value) in zip(paths, forest, strict=True):
        self_values[one] += value
    expected = {
        one: (
            self_values[one],
            sum(value for other, value in self_values.items() if other[: len(one)] == one),
            len(one) - 1,
        )
        for one in self_values
    }
    assert places(of(forest)) == expected


@given(FORESTS)
def test_from_below_a_place_has_what_was_spent_when_these_callers_led_to_it(forest: Any) -> None:
    ends: Counter[tuple[int, ...]] = Counter()
    totals: Counter[tuple[int, ...]] = Counter()
    for row, (_, _, value) in enumerate(forest):
        upwards = path(forest, row)[::-1]
        ends[upwards] += value
        for length in range(1, len(upwards) + 1):
            totals[upwards[:length]] += value
    expected = {one: (ends[one], total, len(one) - 1) for one, total in totals.items()}
    assert places(from_below(of(forest))) == expected


@given(FORESTS, st.integers(0, 30))
def test_the_heaviest_places_stand_below_kept_ones(forest: Any, most: int) -> None:
    tree = of(forest)
    kept = heaviest(tree.totals[:, 0], tree.depth, most)
    assert kept.sum() == min(most, len(tree.parent))
    assert all(above < 0 or kept[above] for above in tree.parent[kept])


STACKS = st.lists(
    st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(0, 9)), min_size=1, max_size=8
)


@given(STACKS)
def test_stacks_become_paths_and_recursion_counts_once(stacks: Any) -> None:
    def of_stacks(codes: list[list[int]]) -> CallTree:
        return call_tree_of_stacks(
            np.array([code for stack in codes for code in stack]),
            np.array([len(stack) for stack in codes]),
            np.array([[self_values] for _, self_values in stacks]),
        )

    tree = of_stacks([stack for stack, _ in stacks])
    self_values: Counter[tuple[int, ...]] = Counter()
    for stack, spent in stacks:
        self_values[tuple(stack[::-1])] += spent
    assert {one: found[0] for one, found in places(tree).items() if found[0]} == +self_values
    totals = tree.totals[:, 0] * outermost(tree)
    for code in range(4):
        spent = sum(self_values for stack, self_values in stacks if code in stack)
        assert totals[tree.code == code].sum() == spent
    halves = regrouped(tree, np.array([0, 0, 1, 1]))
    assert places(halves) == places(of_stacks([[one // 2 for one in stack] for stack, _ in stacks]))
