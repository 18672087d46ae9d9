from typing import Any

import duckdb
import pytest
from tests.literal import literal_store


def rows_of(table: str, rows: Any, columns: str = "*", order: str = "ALL") -> list[dict[str, Any]]:
    with literal_store(rows) as store:
        return store.sql(f"SELECT {columns} FROM {table} ORDER BY {order}").to_pylist()


def test_nothing_is_one_rank_and_one_source():
    with literal_store({}) as store:
        assert store.ranks == (0,)
        assert store.sql("SELECT path FROM source").num_rows == 1
        assert store.sql("SELECT * FROM host_event").num_rows == 0


def test_kind_and_category_follow_from_each_other():
    found = rows_of(
        "host_event", {"host_event": [{"category": "cuda_runtime"}, {"kind": "python"}, {}]}, "id, category, kind"
    )
    assert found == [
        {"id": 0, "category": "cuda_runtime", "kind": "runtime"},
        {"id": 1, "category": "python_function", "kind": "python"},
        {"id": 2, "category": "cpu_op", "kind": "operator"},
    ]


def test_ids_go_on_from_host_to_device_events_and_skip_the_given_ones():
    found = rows_of(
        "(SELECT id, name FROM host_event UNION ALL SELECT id, name FROM device_event)",
        {"host_event": [{"name": "a"}, {"name": "b", "id": 2}, {"name": "c"}], "device_event": [{"name": "d"}]},
    )
    assert [(row["id"], row["name"]) for row in found] == [(0, "a"), (1, "c"), (2, "b"), (3, "d")]


def test_self_time_and_depth_follow_from_the_parents():
    found = rows_of(
        "host_event",
        {
            "host_event": [
                {"id": 0, "dur_ns": 10},
                {"id": 1, "dur_ns": 4, "parent_id": 0},
                {"id": 2, "dur_ns": 3, "parent_id": 1},
            ]
        },
        "id, self_ns, depth",
    )
    assert [(row["self_ns"], row["depth"]) for row in found] == [(6, 0), (1, 1), (3, 2)]


def test_a_step_counts_the_work_it_launched():
    found = rows_of(
        "step",
        {
            "step": [{"step": 3, "start_ns": 0, "end_ns": 10}],
            "device_event": [{"step": 3}, {"step": 3, "kind": "annotation"}, {"step": 4}],
        },
        "name, device_events, complete, host_end_ns",
    )
    assert found == [{"name": "ProfilerStep#3", "device_events": 1, "complete": True, "host_end_ns": 10}]


def test_threads_devices_and_streams_appear_with_their_events():
    rows = {"host_event": [{"thread": 4}], "device_event": [{"device": 1, "stream": 7}]}
    assert [row["thread"] for row in rows_of("thread", rows)] == [4]
    assert [(row["device"], row["kind"]) for row in rows_of("device", rows)] == [(1, "cuda")]
    assert [(row["device"], row["stream"]) for row in rows_of("stream", rows)] == [(1, 7)]


def test_the_checks_of_the_schema_apply():
    with pytest.raises(duckdb.ConstraintException):
        literal_store({"host_event": [{"dur_ns": -1}]})


def test_a_misspelt_table_or_column_is_an_error():
    with pytest.raises(ValueError, match="no table 'host_events'"):
        literal_store({"host_events": []})
    with pytest.raises(ValueError, match="host_event has no column duration"):
        literal_store({"host_event": [{"duration": 1}]})
