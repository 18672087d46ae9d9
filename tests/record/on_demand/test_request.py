"""What the directory may hold through which a running job is asked for a trace."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from stepscope.record.on_demand.request import Answer, new_request, read_answers, write_request


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": "soon"},
        {"step": True},
        {"rank": -1},
        {"rank": 7},
        {"world_size": 10**12},
        {"step_seconds": "fast"},
        {"step_seconds": float("nan")},
        {"step_seconds": float("inf")},
        {"state": None},
        {"files": [1]},
        {"files": 3},
        {"local_rank": "0"},
        {"node": 0.5},
        {"disagreement": None},
        {"run": "rm"},
    ],
)
def test_an_answer_of_the_wrong_kind_is_none(wrong: dict[str, Any], tmp_path: Path) -> None:
    request = new_request()
    answer = Answer(request.id, 0, 1, "another", 1, 5, 0.5, "here")
    content = {**asdict(answer), **wrong}
    (tmp_path / "rank=00000.json").write_text(json.dumps(content))
    assert read_answers(tmp_path, request) == {}


def test_a_link_at_the_temporary_name_of_a_request_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".request.json.{os.getpid()}.part").symlink_to(victim)
    write_request(tmp_path, new_request())
    assert victim.read_text() == "mine"
    assert not (tmp_path / "request.json").is_symlink()
