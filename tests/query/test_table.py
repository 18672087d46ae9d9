import json
import math
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscope.base.errors import StepScopeError, UsageError
from stepscope.query.declare import Column, Question
from stepscope.query.table import Table

QUESTION = Question(
    name="toy", asks="Which?", answer=lambda scope: None, rests_on=(),
    columns=(
        Column("name", "text", "name of it"), Column("total_ns", "int", "its time", "ns"),
        Column("share_ratio", "float", "its share", "ratio"), Column("linked", "bool", "has a launch"),
    ),
)  # fmt: skip
BIG = 2**62 + 1


@pytest.fixture
def table():
    rows = pa.table(
        {
            "name": ["a,<b>", None], "total_ns": pa.array([BIG, None], pa.int64()),
            "share_ratio": [math.nan, math.inf], "linked": [True, None],
        }
    )  # fmt: skip
    check = {
        "rank": 0, "span": 0, "check": "c", "severity": "warning", "count": 1, "affects": "",
        "explanation": "why <i>",
    }  # fmt: skip
    return Table(QUESTION, rows, sources=("a.json",), checks=(check,))


def test_json_is_one_object_of_the_documented_form(table):
    answer = json.loads(table.to_json())
    assert answer["question"] == "toy"
    assert answer["sources"] == ["a.json"]
    assert answer["columns"][1] == {"name": "total_ns", "type": "int", "unit": "ns", "meaning": "its time"}
    assert [check["check"] for check in answer["checks"]] == ["c"]
    assert "note" not in answer


def test_json_integers_are_exact_and_what_is_no_number_is_null(table):
    assert json.loads(table.to_json())["rows"] == [
        {"name": "a,<b>", "total_ns": BIG, "share_ratio": None, "linked": True},
        {"name": None, "total_ns": None, "share_ratio": None, "linked": None},
    ]
    assert "NaN" not in table.to_json()


def test_an_empty_answer_carries_its_note_in_json():
    empty = Table(QUESTION, pa.table({"name": pa.array([], pa.string())}), note="Nothing.")
    assert json.loads(empty.to_json())["note"] == "Nothing."


def test_csv_leaves_what_was_not_measured_empty(table):
    assert table.to_csv() == f'name,total_ns,share_ratio,linked\n"a,<b>",{BIG},,True\n,,,\n'


def test_parquet_keeps_values_units_and_meanings(table, tmp_path):
    table.to_parquet(tmp_path / "answer.parquet")
    back = pq.read_table(tmp_path / "answer.parquet")
    assert back.column("total_ns").to_pylist() == [BIG, None]
    assert back.schema.field("total_ns").metadata == {b"unit": b"ns", b"meaning": b"its time"}
    assert [path.name for path in tmp_path.iterdir()] == ["answer.parquet"]


def test_a_parquet_file_that_cannot_be_written_leaves_nothing(table, tmp_path):
    with pytest.raises(StepScopeError, match="cannot be written"):
        table.to_parquet(tmp_path / "missing" / "answer.parquet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StepScopeError, match="cannot be written"):
        table.to_parquet(tmp_path / "folder")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_html_escapes_what_comes_from_files(table):
    html = table._repr_html_()
    assert "a,&lt;b&gt;" in html
    assert "why &lt;i&gt;" in html
    assert "<b>" not in html


def test_html_is_bounded_and_says_units_and_shares(table):
    long = replace(
        table, arrow=pa.table({"name": ["x" * 10_000] * 500, "total_ns": [BIG] * 500, "share_ratio": [0.25] * 500})
    )
    html = long._repr_html_()
    assert len(html) < 100_000
    assert "<p>400 more rows</p>" in html
    assert 'title="its time (ns)">total_ns</th>' in html
    assert ';white-space:nowrap">' in html
    words = "a sentence of some length that is read to its end, and not cut in its middle, which would say less"
    sentences = replace(long, question=replace(long.question, drawing="text"))
    rows = pa.table({"name": [words], "total_ns": [1], "share_ratio": [0.5]})
    assert words in replace(sentences, arrow=rows)._repr_html_()
    assert words not in replace(long, arrow=rows)._repr_html_().replace(f'title="{words}"', "")
    assert "linear-gradient(to right,rgba(90,159,150,.35) 25.0%,transparent 0)" in html


def test_pandas_keeps_integers_beside_missing_values(table):
    pandas = pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert frame["total_ns"].dtype == pandas.Int64Dtype()
    assert frame["total_ns"][0] == BIG


def test_polars_keeps_integers_beside_missing_values(table):
    pytest.importorskip("polars")
    assert table.to_polars()["total_ns"].to_list() == [BIG, None]


def test_it_has_a_length_and_its_columns(table):
    assert len(table) == 2
    assert [c.name for c in table.columns] == ["name", "total_ns", "share_ratio", "linked"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_of_what_is_not_installed_says_so(table, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(StepScopeError, match=f"{library} is not installed") as raised:
        getattr(table, f"to_{library}")()
    assert raised.value.slug == "no-data-frames"


def in_order(**columns) -> Table:
    return Table(QUESTION, pa.table(columns))


def test_numbers_are_sorted_largest_first_and_texts_from_a_to_z():
    answer = in_order(name=["b", "a", "c"], total_ns=[1, 3, 2])
    assert answer.sort("total_ns").arrow["name"].to_pylist() == ["a", "c", "b"]
    assert answer.sort("total_ns:asc").arrow["name"].to_pylist() == ["b", "c", "a"]
    assert answer.sort("name").arrow["total_ns"].to_pylist() == [3, 1, 2]
    assert answer.sort("name:desc").arrow["total_ns"].to_pylist() == [2, 1, 3]
    assert answer.arrow["name"].to_pylist() == ["b", "a", "c"]


def test_sorting_keeps_the_order_of_equal_rows_and_puts_what_was_not_measured_last():
    answer = in_order(name=list("abcdef"), total_ns=[None, 1, 7, 1, None, 7])
    assert "".join(answer.sort("total_ns").arrow["name"].to_pylist()) == "cfbdae"
    assert "".join(answer.sort("total_ns:asc").arrow["name"].to_pylist()) == "bdcfae"


def test_rows_of_a_tree_that_were_sorted_are_not_indented():
    tree = Question(
        name="toy", asks="Which?", answer=lambda scope: None, rests_on=(),
        columns=(Column("name", "text", "name of it"), Column("depth", "int", "how deep")),
        drawing="tree",
    )  # fmt: skip
    answer = Table(tree, pa.table({"name": ["model", "layer"], "depth": [0, 1]}))
    assert any(line.text.startswith("  layer") for line in answer.lines(width=80, limit=None))
    rows = [line.text.split()[0] for line in answer.sort("depth").lines(width=80, limit=None)[2:]]
    assert rows == ["layer", "model"]
    assert not any(line.text.startswith(" ") for line in answer.sort("depth").lines(width=80, limit=None))


@pytest.mark.parametrize(
    ("by", "message", "hint"),
    [
        ("total", "no column 'total' of toy", "did you mean total_ns"),
        ("total_ns:up", "no choice 'up' of --sort COLUMN", "asc, desc"),
        ("total_ns:", "no choice '' of --sort COLUMN", "asc, desc"),
        (3, "sort=3 is not of type text", "total_ns"),
    ],
)
def test_what_cannot_be_sorted_by_is_told_what_can(table, by, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        table.sort(by)
    assert hint in caught.value.hint


def test_a_table_is_a_sequence_of_rows(table):
    assert [row["name"] for row in table] == ["a,<b>", None]
    assert table[0]["total_ns"] == BIG
    assert table[-1] == table.rows()[1]
    assert table["total_ns"] == [BIG, None]
    assert [row["name"] for row in table[1:]] == [None]
    assert table[1:].checks == table.checks


@pytest.mark.parametrize("asked", ["nme", 1.5, None])
def test_what_is_no_row_and_no_column_is_refused_in_our_words(table, asked):
    with pytest.raises(UsageError):
        table[asked]


def test_a_row_that_is_not_there_is_an_index_error(table):
    with pytest.raises(IndexError, match="no row 2: this answer to toy has 2 rows"):
        table[2]
    with pytest.raises(IndexError, match=r"no row -3: .* 2 rows"):
        table[-3]
    with pytest.raises(IndexError, match=r"no row 0: .* has no rows"):
        table[:0][0]
