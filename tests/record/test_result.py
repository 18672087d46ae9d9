"""Reading inline profiles back."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from stepscope.errors import SourceError
from stepscope.record.result import parse_result, print_result


def _profile(rank: int) -> dict[str, object]:
    def event(label: str, index: int) -> dict[str, object]:
        return {
            "label": label,
            "start_index": index,
            "end_index": index + 1,
            "avg_measured_time_ms": 0.5,
            "avg_iter_start_to_event_start_time_ms": 0.1,
            "samples": [[0, 500_000, 100_000]],
        }

    return {
        "host_name": "node1",
        "rank": rank,
        "avg_iter_time_ms": 4.0,
        "timeline": {"device_0": {"stream_0": [event("later", 2), event("first", 0)]}},
    }


def test_processes_come_in_the_order_of_their_ranks(tmp_path: Path) -> None:
    for rank in (10, 2):
        (tmp_path / f"node1.{rank}.prof.json").write_text(json.dumps(_profile(rank)))
    assert [profile["rank"] for profile in parse_result(tmp_path)] == [2, 10]


def test_printing_shows_averages_in_order_without_the_samples(tmp_path: Path) -> None:
    (tmp_path / "node1.0.prof.json").write_text(json.dumps(_profile(0)))
    text = io.StringIO()
    print_result(parse_result(tmp_path / "node1.0.prof.json"), text)
    (host,) = json.loads(text.getvalue())
    events = host["timeline"]["device_0"]["stream_0"]
    assert [event["label"] for event in events] == ["first", "later"]
    assert set(events[0]) == {
        "label",
        "start_index",
        "end_index",
        "avg_measured_time_ms",
        "avg_iter_start_to_event_start_time_ms",
    }


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_file_that_is_no_profile_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "node1.0.prof.json").write_text(text)
    with pytest.raises(SourceError, match=r"node1\.0\.prof\.json"):
        parse_result(tmp_path)


def test_an_empty_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no \.prof\.json files"):
        parse_result(tmp_path)
