from __future__ import annotations

import pytest

from stepscope.api.free_query import answer_query
from stepscope.floor.errors import UsageError

ROWS = {"device_event": [{"name": "gemm", "dur_ns": 2**61}, {"name": "add", "dur_ns": 2**61}]}


@pytest.fixture
def answered(make_scope):
    scope = make_scope(ROWS)
    return lambda text: answer_query(scope, text)


def test_columns_get_a_type_and_the_unit_in_their_name(answered):
    columns = answered(
        "SELECT name, dur_ns, 0.5 AS x_ratio, true AS yes, 1 AS n FROM device_event"
    ).columns
    assert [(c.name, c.type, c.unit) for c in columns] == [
        ("name", "text", ""),
        ("dur_ns", "int", "ns"),
        ("x_ratio", "float", "ratio"),
        ("yes", "bool", ""),
        ("n", "int", ""),
    ]


def test_a_sum_within_64_bits_is_an_integer(answered):
    (row,) = answered("SELECT sum(dur_ns) AS total_ns FROM device_event").rows()
    assert row == {"total_ns": 2**62}


def test_a_sum_beyond_64_bits_is_exact_as_text(answered):
    (row,) = answered("SELECT sum(dur_ns) * 100 AS total FROM device_event").rows()
    assert row == {"total": str(2**62 * 100)}


def test_two_columns_of_one_name_both_survive(answered):
    (row,) = answered("SELECT 1 AS a, 2 AS a, 3 AS a").rows()
    assert row == {"a": 1, "a_2": 2, "a_3": 3}


def test_what_has_no_plain_type_becomes_text(answered):
    (row,) = answered("SELECT [1, 2] AS l, {'a': 1} AS s, DATE '2026-01-02' AS d, NULL AS n").rows()
    assert row == {"l": "[1, 2]", "s": '{"a": 1}', "d": "2026-01-02", "n": None}


def test_no_rows_is_said(answered):
    assert answered("SELECT * FROM device_event WHERE false").note == "The query found no rows."


@pytest.mark.parametrize("text", ["DESCRIBE device_event", "SUMMARIZE device_event", "SHOW TABLES"])
def test_people_can_look_around(answered, text):
    assert len(answered(text)) > 1


def test_a_query_that_does_not_work_says_what_duckdb_says(answered):
    with pytest.raises(UsageError, match='Referenced column "nam" not found') as caught:
        answered("SELECT nam FROM device_event")
    assert "\n" not in caught.value.message
    with pytest.raises(UsageError, match="syntax error"):
        answered("SELECT FROM WHERE")


def test_the_json_form_is_that_of_every_answer(answered):
    answer = answered("SELECT 1 AS n").to_dict()
    assert answer["question"] == "sql"
    assert answer["asks"] == "SELECT 1 AS n"
    assert answer["rows"] == [{"n": 1}]
