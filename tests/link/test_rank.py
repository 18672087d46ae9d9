"""Whole recordings: every table is there, with the columns of the schema, whatever is missing."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.link.conftest import table as arrow_table

from stepscope.formats import tables, vocabulary
from stepscope.link.rank import link_rank
from stepscope.schema.tables import TABLES


@pytest.mark.parametrize("filled", [True, False])
def test_tables_have_the_columns_of_the_schema(recording, filled):
    if filled:
        recording.annotation("ProfilerStep#1", 0, 100)
        recording.python("nn.Module: Net_0", 1, 90)
        recording.launch(10, 20, 1)
        recording.kernel(30, 40, 1, kind="communication", name="ncclKernel_AllReduce")
        recording.memory_rows.append({"time_ns": 5, "thread": 0, "device_kind": "cpu", "bytes": 8})
    linked = recording.link().tables
    assert linked.keys() == {name for name, table in TABLES.items() if table.linked_names}
    for name, table in linked.items():
        assert tuple(table.column_names) == TABLES[name].linked_names, name


def test_ids_go_from_host_rows_on_to_device_rows(recording):
    recording.operator("aten::mm", 0, 10)
    recording.operator("aten::mm", 20, 30)
    recording.kernel(40, 50)
    linked = recording.link()
    assert linked.column("host_event", "id") == [0, 1]
    assert linked.column("device_event", "id") == [2]


def test_rows_stay_in_file_order_with_their_own_values(recording):
    late = recording.operator("late", 50, 60, input_id=4)
    early = recording.operator("early", 0, 10, stack_id=2)
    linked = recording.link()
    assert linked.column("host_event", "name") == ["late", "early"]
    assert linked.host(late)["input_id"] == 4
    assert linked.host(early)["stack_id"] == 2


def test_device_events_say_when_and_by_which_operator_they_were_launched(recording):
    recording.operator("late", 50, 60)
    recording.operator("aten::mm", 10, 30)
    recording.launch(20, 25, 1)
    linked_work, lost = recording.kernel(40, 45, 1), recording.kernel(70, 75, 2)
    rows = recording.link().rows("device_event")
    told = ("launch_ns", "launch_end_ns", "operator_name")
    assert [tuple(rows[i][name] for name in told) for i in (linked_work, lost)] == [
        (20, 25, "aten::mm"),
        (None, None, None),
    ]


def test_chunks_with_dictionaries_of_their_own_link_as_one(recording):
    recording.annotation("ProfilerStep#1", 0, 100)
    recording.operator("aten::mm", 10, 50)
    recording.launch(20, 30, 1)
    recording.kernel(40, 60, 1)
    whole = recording.tables()
    single = [whole.host_event.slice(row, 1) for row in range(3)]
    chunked = pa.concat_tables(
        [
            pa.table(
                [
                    column.cast(column.type.value_type).combine_chunks().dictionary_encode()
                    if pa.types.is_dictionary(column.type)
                    else column
                    for column in part.columns
                ],
                names=part.column_names,
            )
            for part in single
        ]
    )
    whole.host_event = chunked
    relinked = link_rank(whole).tables
    assert relinked["host_event"].to_pylist() == recording.link().rows("host_event")
    assert relinked["device_event"].to_pylist() == recording.link().rows("device_event")


def test_damaged_times_years_away_link_without_overflow(recording):
    recording.operator("aten::mm", 0, (1 << 63) - 1)
    recording.operator("aten::mm", (1 << 62), (1 << 62) + 10)
    recording.launch(5, 10, 1)
    recording.kernel(-(1 << 62), 10 - (1 << 62), 1)
    recording.kernel(20, (1 << 63) - 1, 1)
    linked = recording.link()
    assert all(row["self_ns"] >= 0 for row in linked.rows("host_event"))
    assert all(row["end_ns"] >= row["start_ns"] for row in linked.rows("step"))


host_event = st.tuples(
    st.sampled_from(["operator", "annotation", "python", "runtime", "other"]),
    st.sampled_from(
        [
            "aten::mm", "ProfilerStep#1", "ProfilerStep#2", "nn.Module: A_0", "cudaLaunchKernel", "cudaGraphLaunch",
            "Optimizer.step#SGD.step", "MmBackward0", "record_param_comms",
        ]
    ),
    st.integers(0, 60), st.integers(0, 30), st.integers(0, 1), st.integers(0, 5), st.integers(0, 3),
    st.integers(0, 2),
)  # fmt: skip
device_event = st.tuples(
    st.sampled_from(["computation", "communication", "copy", "fill"]),
    st.integers(0, 90), st.integers(0, 30), st.integers(-1, 1), st.integers(0, 5), st.integers(0, 5),
)  # fmt: skip


@examples(60)
@given(st.lists(host_event, max_size=15), st.lists(device_event, max_size=15))
def test_any_recording_links_and_keeps_its_invariants(host_events, device_events):
    recording = _recording(host_events, device_events)
    linked = link_rank(recording).tables
    hosts, devices = linked["host_event"].to_pylist(), linked["device_event"].to_pylist()
    work_ns = sum(row["dur_ns"] for row in devices)
    for row in hosts:
        assert 0 <= row["self_ns"] <= row["dur_ns"]
        if row["parent_id"] is not None:
            parent = hosts[row["parent_id"]]
            assert parent["thread"] == row["thread"]
            assert parent["depth"] == row["depth"] - 1
            assert parent["start_ns"] - 2 <= row["start_ns"]
            assert row["start_ns"] + row["dur_ns"] <= parent["start_ns"] + parent["dur_ns"] + 2
        else:
            assert row["depth"] == 0
        if row["device_self_ns"] is not None:
            assert row["device_self_ns"] <= row["device_ns"]
    roots_ns = sum(row["device_ns"] or 0 for row in hosts if row["parent_id"] is None)
    attributed = {row["link"]: row for row in linked["attribution"].to_pylist()}
    assert {row["device_ns"] for row in attributed.values()} == {work_ns}
    assert roots_ns == sum(
        row["dur_ns"] for row in devices if row["launch_id"] is not None or row["operator_id"] is not None
    )
    assert (
        sum(row["dur_ns"] for row in devices if row["launch_id"] is not None) == attributed["launch"]["attributed_ns"]
    )
    steps = linked["step"].to_pylist()
    for before, after in itertools.pairwise(steps):
        assert before["end_ns"] <= after["start_ns"]
    numbers = [row["step"] for row in steps]
    assert len(set(numbers)) == len(numbers)
    assert {row["step"] for row in hosts + devices} - {None} <= set(numbers)


def _recording(host_events, device_events):
    host_rows = [
        {
            "category": kind, "kind": kind, "role": vocabulary.host_role(kind, name), "name": name, "thread": thread,
            "start_ns": start, "dur_ns": dur, "correlation": correlation, "external_id": correlation,
            "sequence_number": sequence, "forward_thread": forward_thread, "python_id": sequence,
            "python_parent_id": correlation,
        }
        for kind, name, start, dur, thread, correlation, sequence, forward_thread in host_events
    ]  # fmt: skip
    device_rows = [
        {
            "category": "kernel", "kind": kind, "name": "k", "device": 0, "stream": stream, "start_ns": start,
            "dur_ns": dur, "correlation": correlation, "external_id": external_id,
        }
        for kind, start, dur, stream, correlation, external_id in device_events
    ]  # fmt: skip
    return tables.RankTables(
        tables.Facts(), tables.ReadReport(), host_event=arrow_table(host_rows, tables.READ["host_event"]),
        device_event=arrow_table(device_rows, tables.READ["device_event"]),
    )  # fmt: skip
