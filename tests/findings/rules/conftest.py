"""Asks one rule about a made recording, read from a file as any other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stepscope


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """`found(trace, "amp-off")`: the rows of one rule, computed and cached, its evidence as objects, its query tried; `report` is
    the text of one of Nsight Compute beside the trace."""

    def ask(trace: dict[str, Any], rule: str, report: str | None = None) -> list[dict[str, Any]]:
        file = tmp_path / "trace.json"
        file.write_text(json.dumps(trace))
        (tmp_path / "report.csv").write_text(report or "")
        with stepscope.open(file, *([tmp_path / "report.csv"] if report else [])) as recording:
            assert recording.ask("checks").rows() is not None
            rows = recording.ask("findings", id=rule).rows()
            assert recording.ask("findings", id=rule).rows() == rows, "from the cache"
            for row in rows:
                row["evidence"] = json.loads(row["evidence"])
                if row["query"].startswith(("SELECT", "WITH")):
                    (again,) = recording.sql(row["query"]).rows()
                    assert next(iter(again.values())) == pytest.approx(row["value"])
        return rows

    return ask
