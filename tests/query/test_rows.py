"""What DuckDB gives becomes the types that a question declares."""

import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.cli.conftest import ROWS
from tests.store.conftest import write_directory

from stepscope.query import rows
from stepscope.query.rows import as_declared
from stepscope.questions import find

ASKED = find("sources")


def told(path, events):
    return pa.table({"events_read": events, "path": pa.array(path, pa.string())})


@pytest.mark.parametrize("few", [0, 100])
@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.uint64(), pa.decimal128(38, 0)])
def test_numbers_are_made_wide_and_columns_put_in_order(monkeypatch, few, kind):
    monkeypatch.setattr(rows, "_FEW_ROWS", few)
    numbers = [7, None, 300]
    made = [None if n is None else Decimal(n) if pa.types.is_decimal(kind) else n for n in numbers]
    answer = as_declared(ASKED, told(["a", None, "c"], pa.array(made, kind)))
    assert answer.schema.field("events_read").type == pa.int64()
    assert answer.to_pydict() == {"path": ["a", None, "c"], "events_read": numbers}


@pytest.mark.parametrize("few", [0, 100])
@pytest.mark.parametrize("column", [pa.array([Decimal("0.5")], pa.decimal128(38, 1)), pa.array([2**63], pa.uint64())])
def test_no_number_is_changed(monkeypatch, few, column):
    monkeypatch.setattr(rows, "_FEW_ROWS", few)
    with pytest.raises((pa.ArrowInvalid, OverflowError)):
        as_declared(ASKED, told(["a"], column))


def test_a_short_answer_loads_neither_arrows_functions_nor_the_checks(tmp_path):
    checked = {"check": "truncated", "severity": "warning", "affects": "file", "explanation": "cut"}
    store = write_directory(tmp_path / "store", {**ROWS, "data_check": [{**checked, "count": 1}]})
    asked = [sys.executable, "-X", "importtime", "-m", "stepscope", "sources", str(store)]
    ran = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert "truncated" in ran.stdout
    assert "stepscope.query.rows" in ran.stderr
    assert "pyarrow.compute" not in ran.stderr
    assert "stepscope.link.checks" not in ran.stderr
