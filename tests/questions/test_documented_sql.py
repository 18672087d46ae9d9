"""SQL that the documentation shows, on rows whose answer can be checked by eye."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_whom_the_others_waited_for(make_scope):
    (text,) = (
        one for one in re.findall(r'sql\("""(.*?)"""\)', PAGE.read_text(), re.DOTALL)
        if "last_rank" in one
    )  # fmt: skip
    rows = {
        "collective": [
            {"rank": rank, "id": 10 * rank + match, "match_id": match, "last_rank": last, "wait_ns": wait}
            for match, last, waits in ((0, 1, (25, 0)), (1, 0, (0, 10)), (2, 1, (5, 0)), (3, None, (0, 0)))
            for rank, wait in enumerate(waits)
        ]
    }  # fmt: skip
    assert make_scope(rows).sql(text).to_pylist() == [
        {"last_rank": 1, "collectives": 2, "waited_ns": 30},
        {"last_rank": 0, "collectives": 1, "waited_ns": 10},
    ]
