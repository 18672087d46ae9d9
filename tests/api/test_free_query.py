from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.literal import literal_store

from stepscope.api.free_query import answer_query
from stepscope.base.errors import UsageError
from stepscope.query.scope import Scope
from stepscope.questions import all_questions

pytestmark = pytest.mark.slow

ROWS = {"device_event": [{"name": "gemm", "dur_ns": 2**61}, {"name": "add", "dur_ns": 2**61}]}


@pytest.fixture
def answered(make_scope):
    scope = make_scope(ROWS)
    return lambda text, **how: answer_query(scope, text, **how)


def test_columns_get_a_type_and_the_unit_in_their_name(answered):
    columns = answered("SELECT name, dur_ns, 0.5 AS x_ratio, true AS yes, 1 AS n FROM device_event").columns
    assert [(c.name, c.type, c.unit) for c in columns] == [
        ("name", "text", ""),
        ("dur_ns", "int", "ns"),
        ("x_ratio", "float", "ratio"),
        ("yes", "bool", ""),
        ("n", "int", ""),
    ]


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("SELECT sum(dur_ns) AS total_ns FROM device_event", {"total_ns": 2**62}),
        # Beyond 64 bits it is exact as text.
        ("SELECT sum(dur_ns) * 100 AS total FROM device_event", {"total": str(2**62 * 100)}),
        ("SELECT 'inf'::DOUBLE AS a, 'nan'::DOUBLE AS b, 1.5 AS c", {"a": None, "b": None, "c": 1.5}),
        (
            "SELECT [1, 2] AS l, {'a': 1} AS s, DATE '2026-01-02' AS d, NULL AS n",
            {"l": "[1, 2]", "s": '{"a": 1}', "d": "2026-01-02", "n": None},
        ),
    ],
)
def test_values_are_exact_and_of_a_plain_type(answered, query, row):
    assert answered(query).rows() == [row]


def test_two_columns_of_one_name_both_survive(answered):
    for top in (None, 5):  # a query of which so many rows are asked is a subquery
        (row,) = answered("SELECT 1 AS a, 2 AS a, 3 AS a, 4 AS A, 5 AS a_1", top=top).rows()
        assert row == {"a": 1, "a_1": 2, "a_2": 3, "A_3": 4, "a_1_1": 5}


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


STEPS = {
    "step": [
        {"rank": rank, "step": step, "start_ns": 100 * step, "end_ns": 100 * step + 100}
        for rank in (0, 1)
        for step in (3, 4)
    ],
    "device_event": [
        {"rank": rank, "step": step, "name": name, "start_ns": 100 * step, "dur_ns": 10 + rank + step}
        for rank in (0, 1)
        for step in (3, 4)
        for name in ("gemm", "add")
    ],
}  # fmt: skip


def test_the_answer_to_a_question_is_a_table(make_scope):
    scope = make_scope(STEPS)
    answer = answer_query(scope, "SELECT name, total_ns FROM answer.kernels WHERE name = 'gemm'")
    assert answer.rows() == [{"name": "gemm", "total_ns": 13 + 14 + 14 + 15}]
    assert answer.columns[1].unit == "ns"


def test_answers_join_with_tables_with_others_and_with_what_the_query_makes(make_scope):
    (row,) = answer_query(
        make_scope(STEPS),
        """
        WITH gemm AS (SELECT * FROM answer.kernels WHERE name = 'gemm')
        SELECT count(*) AS n, any_value(gemm.total_ns) AS total_ns,
               (SELECT count(*) FROM answer.device_time) AS devices
        FROM gemm JOIN device_event USING (name)
        """,
    ).rows()
    assert row == {"n": 4, "total_ns": 56, "devices": 2}


def test_answers_are_of_the_chosen_ranks_and_steps(make_scope):
    text = "SELECT total_ns FROM answer.kernels WHERE name = 'gemm'"
    assert answer_query(make_scope(STEPS, ranks=[1], steps=[4]), text).rows() == [{"total_ns": 15}]
    with pytest.raises(UsageError, match="no step 9"):
        make_scope(STEPS, steps=[9])


def test_only_named_answers_are_computed(make_scope, monkeypatch):
    from stepscope.api import free_query

    computed = []
    ask_within = free_query.ask_within
    monkeypatch.setattr(
        free_query, "ask_within", lambda question, scope: computed.append(question.name) or ask_within(question, scope)
    )
    scope = make_scope(STEPS)
    answer_query(scope, "SELECT 'answer.steps' AS t FROM answer.device_time -- answer.kernels")
    assert computed == ["device-time"]


@pytest.fixture(scope="module")
def steps():
    with literal_store(STEPS) as store, Scope(store) as scope:
        yield scope


@pytest.mark.parametrize("question", [q.method for q in all_questions() if q.recordings == "one"])
def test_every_answer_can_be_selected(steps, question):
    answer_query(steps, f"SELECT count(*) AS n FROM answer.{question}")


def test_an_unknown_answer_is_refused_with_the_nearest(answered):
    with pytest.raises(UsageError, match="no answer 'kernel'") as caught:
        answered("SELECT * FROM answer.kernel")
    assert caught.value.hint.startswith("did you mean kernels? ")
    assert caught.value.slug == "unknown-answer"


def test_answers_are_gone_after_the_query_also_after_one_that_fails(answered):
    look = "SELECT count(*) AS n FROM information_schema.tables WHERE table_schema = 'answer'"
    assert answered("SELECT count(*) AS n FROM answer.kernels").rows() == [{"n": 2}]
    with pytest.raises(UsageError, match="nam"):
        answered("SELECT nam FROM answer.kernels")
    assert answered(look).rows() == [{"n": 0}]
    assert answered("SELECT count(*) AS n FROM answer.kernels").rows() == [{"n": 2}]


def test_answers_can_be_read_and_not_changed(answered):
    for text in ("DROP TABLE answer.kernels", "CREATE TABLE answer.mine AS SELECT 1"):
        with pytest.raises(UsageError, match="only reads"):
            answered(text)
    with pytest.raises(UsageError, match="disabled by configuration"):
        answered("SELECT * FROM answer.kernels, read_csv('/etc/passwd')")


def test_what_makes_an_answer_unreliable_marks_what_is_made_of_it(make_scope):
    check = {"check": "zero_ts", "severity": "warning", "affects": "device-work", "explanation": "lost"}
    scope = make_scope({**STEPS, "data_check": [check]})
    assert answer_query(scope, "SELECT count(*) AS n FROM answer.kernels").unreliable
    assert not answer_query(scope, "SELECT count(*) AS n FROM device_event").unreliable


def test_two_threads_can_ask_for_answers_of_other_ranks():
    with literal_store(STEPS) as store, ThreadPoolExecutor(2) as threads:

        def total(rank: int) -> int:
            with Scope(store, [rank]) as scope:
                rows = answer_query(scope, "SELECT sum(total_ns) AS ns FROM answer.kernels").rows()
            return rows[0]["ns"]

        assert list(threads.map(total, [0, 1] * 10)) == [2 * 27, 2 * 29] * 10
