"""SQL that the documentation shows, on rows whose answer can be checked by eye."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_who_came_last_to_each_collective(make_scope):
    (text,) = (
        one for one in re.findall(r'sql\("""(.*?)"""\)', PAGE.read_text(), re.DOTALL)
        if "last_rank" in one
    )  # fmt: skip
    starts = {(0, 4): 10, (1, 4): 35, (0, 5): 60, (1, 5): 50}
    rows = {
        "device_event": [
            {"rank": rank, "id": number, "kind": "communication", "start_ns": start, "dur_ns": 90}
            for (rank, number), start in starts.items()
        ],
        "collective": [
            {"rank": rank, "id": number, "group_name": "3", "sequence": number,
             "operation": "all_reduce"}
            for rank, number in starts
        ],
    }  # fmt: skip
    assert make_scope(rows).sql(text).to_pylist() == [
        {"group_name": "3", "sequence": 4, "operation": "all_reduce", "last_rank": 1,
         "spread_ns": 25},
        {"group_name": "3", "sequence": 5, "operation": "all_reduce", "last_rank": 0,
         "spread_ns": 10},
    ]  # fmt: skip
