import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.kineto.threads import pair


def by_stack(thread, time, begins):
    """The obvious way: a stack per thread, in order of time."""
    stacks, ends, lost = {}, {row: -1 for row, b in enumerate(begins) if b}, 0
    for row in sorted(range(len(thread)), key=lambda r: (time[r], r)):
        stack = stacks.setdefault(thread[row], [])
        if begins[row]:
            stack.append(row)
        elif stack:
            ends[stack.pop()] = row
        else:
            lost += 1
    return ends, lost


def run(thread, time, begins):
    rows, ends, lost = pair(
        np.array(thread, dtype=np.int32), np.array(time, dtype=np.int64), np.array(begins, dtype=bool)
    )
    return dict(zip(rows.tolist(), ends.tolist(), strict=True)), lost


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.booleans()), max_size=24))
@examples(200)
def test_pairs_agree_with_a_stack(rows):
    thread = [row[0] for row in rows]
    time = [row[1] for row in rows]
    begins = [row[2] for row in rows]
    assert run(thread, time, begins) == by_stack(thread, time, begins)
