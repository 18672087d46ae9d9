"""Operators and ranges inside their like are marked, at whatever distance and through what else."""

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

event = st.tuples(
    st.sampled_from(["operator", "operator", "annotation", "python", "runtime"]),
    st.sampled_from("ab"), st.integers(0, 20), st.integers(0, 20), st.integers(0, 1),
)  # fmt: skip


def test_only_what_lies_inside_its_like_is_recursive(recording):
    outer = recording.operator("aten::to", 0, 100)
    frame = recording.python("aten::to", 10, 90)
    other = recording.annotation("aten::to", 20, 80)
    inner = recording.operator("aten::to", 30, 70)
    beside = recording.operator("aten::to", 200, 210)
    linked = recording.link()
    assert [row["id"] for row in linked.rows("host_event") if row["recursive"]] == [inner]
    assert {outer, frame, other, beside} == {0, 1, 2, 4}


@examples(80)
@given(st.lists(event, max_size=14))
def test_recursive_is_what_has_an_alike_ancestor(recording, events):
    recording.host_rows.clear()
    for kind, name, start, duration, thread in events:
        recording.host(kind, name, start, start + duration, thread)
    rows = recording.link().rows("host_event")

    def ancestors(row):
        while row["parent_id"] is not None:
            yield (row := rows[row["parent_id"]])

    for row in rows:
        alike = [(above["kind"], above["name"]) for above in ancestors(row)]
        expected = row["kind"] in ("operator", "annotation") and ((row["kind"], row["name"]) in alike)
        assert row["recursive"] is expected
