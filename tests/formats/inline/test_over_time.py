"""What a file of phases has of its machine over time, as rows of `counter`."""

from typing import Any

import pytest

from stepscope.formats.inline.host import counters
from stepscope.formats.tables import ReadReport

COLUMNS = ["time_ns", "processors_used", "memory_bytes", "power", "throttled_by_heat", "unheard_of"]
DEVICE = {"index": 2, "name": "NVIDIA A100", "tool": "NVML"}


def rows(**over_time: Any) -> list[tuple[Any, ...]]:
    table = counters({"over_time": {"columns": COLUMNS, "device": DEVICE, "rows": [], **over_time}}, ReadReport())
    return [tuple(row.values())[2:] for row in table.to_pylist()] if table.num_rows else []


def test_a_look_is_a_row_for_each_thing_that_was_told() -> None:
    found = counters(
        {"over_time": {"columns": COLUMNS, "device": DEVICE, "rows": [[5, 1.5, None, 250, 0, 7]]}}, ReadReport()
    ).to_pylist()
    told = ("track", "series", "kind", "unit", "pid", "time_ns", "value")
    assert [tuple(row[name] for name in told) for row in found] == [
        ("job's processes", "processors used", None, None, None, 5, 1.5),
        ("NVML", "power", "power", "W", "2", 5, 250.0),
        ("NVML", "clock held down by heat", "throttled_by_heat", "%", "2", 5, 0.0),
    ]


@pytest.mark.parametrize(
    "over_time",
    [
        {"columns": None}, {"columns": ["power", "time_ns"]}, {"columns": [["time_ns"]]}, {"rows": "many"},
        {"rows": [None, [5], [-1, 1.5, None, None, None, None], ["5", 1, 1, 1, 1, 1]]},
        {"rows": [[5, "a", True, float("nan"), 10**400, None]]},
    ],
)  # fmt: skip
def test_what_is_no_look_is_left_out(over_time: dict[str, Any]) -> None:
    assert rows(**over_time) == []


@pytest.mark.parametrize("section", [None, [], {}, {"over_time": []}])
def test_a_file_without_any_has_no_rows(section: Any) -> None:
    assert counters(section, ReadReport()).num_rows == 0
