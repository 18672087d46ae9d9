"""Reading inline profiles back."""

import io
import json
from pathlib import Path

import pytest

from stepscope.api.inline_profiles import parse_result, print_result
from stepscope.api.trace import open_trace
from stepscope.base.errors import SourceError


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


def test_hugectrs_own_file_comes_back_in_the_same_shape(tmp_path: Path) -> None:
    event = {
        "event_name": "TopMLP.fc4.fprop",
        "device_id": 1,
        "stream": 7,
        "start_index": 4,
        "end_index": 5,
        "met_times_within_this_stream": 0,
        "measured_times_ms": [0.25, 0.75],
        "iter_start_to_event_start_times_ms": [1.0, 2.0],
    }
    document = {"host_name": "dgx", "iter_time_ms": [3.0, 5.0], "events": [event]}
    (tmp_path / "dgx.prof.json").write_text(json.dumps(document))
    (profile,) = parse_result(tmp_path)
    assert (profile["host_name"], profile["avg_iter_time_ms"]) == ("dgx", 4.0)
    (read,) = profile["timeline"]["device_1"]["stream_7"]
    assert read["label"] == "TopMLP.fc4.fprop"
    assert read["avg_measured_time_ms"] == 0.5
    assert read["avg_iter_start_to_event_start_time_ms"] == 1.5
    assert (read["start_index"], read["end_index"], read["occurrence"]) == (4, 5, 0)
    text = io.StringIO()
    print_result([profile], text)
    assert '"avg_measured_time_ms": 0.5' in text.getvalue()


def test_hugectrs_first_version_has_the_layer_apart_and_no_host(tmp_path: Path) -> None:
    event = {
        "layer_name": "fc1",
        "name": "fprop",
        "device_id": 0,
        "stream": 2,
        "start_index": 0,
        "end_index": 1,
        "measured_times_ms": [0.5],
    }
    (tmp_path / "dgx.prof.json").write_text(json.dumps([event]))
    (profile,) = parse_result(tmp_path)
    (read,) = profile["timeline"]["device_0"]["stream_2"]
    assert (read["label"], read["avg_measured_time_ms"]) == ("fc1.fprop", 0.5)
    # What was not measured is none, not 0.
    assert read["avg_iter_start_to_event_start_time_ms"] is None
    assert (profile["host_name"], profile["avg_iter_time_ms"]) == ("dgx", None)


@pytest.mark.parametrize(
    "text", ["{", "3", "{}", '{"events": [1]}', '{"timeline": 3}', pytest.param("[" * 10**6, id="deep")]
)
def test_a_file_that_is_no_profile_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "node1.0.prof.json").write_text(text)
    with pytest.raises(SourceError, match=r"node1\.0\.prof\.json"):
        parse_result(tmp_path)


def test_an_empty_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no \.prof\.json files"):
        parse_result(tmp_path)


def test_ranks_and_times_of_a_wrong_type_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.prof.json").write_text('{"rank": "1", "events": [{"measured_times_ms": 5}]}')
    (tmp_path / "b.prof.json").write_text('{"rank": 1, "timeline": {}}')
    first, second = parse_result(tmp_path)
    assert (first["rank"], second["rank"]) == ("1", 1)
    (event,) = first["timeline"]["device_0"]["stream_0"]
    assert event["avg_measured_time_ms"] is None


def test_the_list_of_hosts_that_hugectrs_notebook_prints_is_a_run_of_their_number(tmp_path: Path) -> None:
    hosts = []
    for host in ("circe-n046", "circe-n047"):
        printed = {key: value for key, value in _profile(0).items() if key != "rank"}
        hosts.append({**printed, "host_name": host})
    (tmp_path / "prof.json").write_text(json.dumps(hosts))
    profiles = parse_result(tmp_path)
    assert [profile["host_name"] for profile in profiles] == ["circe-n046", "circe-n047"]
    with open_trace(tmp_path / "prof.json") as trace:
        rows = trace.ask("inline", by="label").rows()
    assert [(row["label"], row["ranks"]) for row in rows] == [("iteration", 2), ("first", 2), ("later", 2)]
