import pytest

from stepscope.base.errors import DamagedSourceError, SourceError
from stepscope.formats.damage import check_strict

OURS = {
    "format": "stepscope.inline", "version": 1, "host_name": "node7", "rank": 3, "local_rank": 1, "world_size": 4,
    "pid": 99, "start_epoch_ns": 1_700_000_000_000_000_000, "avg_iter_time_ms": 2.0, "complete": True,
    "timeline": {
        "device_1": {
            "stream_-1": [
                {
                    "label": "fc1.forward", "start_index": 0, "end_index": 3, "avg_measured_time_ms": 0.0002,
                    "avg_iter_start_to_event_start_time_ms": 0.0001, "occurrence": 2, "clock": "host",
                    "samples": [[11, 150, 90], [12, 250, 110, 16]],
                }
            ]
        }
    },
    "iterations": [[11, True, 2_100], [12, False, 2_000, 5]],
}  # fmt: skip

# HugeCTR's last revision: times in ms, one list per event, whole iterations beside them.
HUGECTR = {
    "host_name": "circe-n046", "iter_time_ms": [4.0, 4.5],
    "events": [
        {
            "event_name": "BottomMLP.fc1.fprop", "device_id": 1, "stream": "stream_2", "start_index": 4,
            "end_index": 7, "met_times_within_this_stream": 1, "measured_times_ms": [0.5, 0.25],
            "iter_start_to_event_start_times_ms": [1.5], "extra_infos_start": [], "extra_infos_stop": [],
        }
    ],
    "runtime_data": [],
}  # fmt: skip


def test_our_file_keeps_every_measurement_and_who_measured_it(read):
    name, tables = read(OURS)
    assert name == "inline"
    event = {
        "kind": "event", "label": "fc1.forward", "occurrence": 2, "device": 1, "stream": -1, "start_index": 0,
        "end_index": 3, "armed": None, "weight": 1, "weight_ns": None, "averaged": False, "measurements": None,
        "std_ns": None, "clock": "host",
    }  # fmt: skip
    whole = {
        **dict.fromkeys(event), "kind": "iteration", "label": "iteration", "occurrence": 0, "weight": 1,
        "averaged": False, "start_offset_ns": None,
    }  # fmt: skip
    assert tables.inline_timing.to_pylist() == [
        {**event, "iteration": 11, "dur_ns": 150, "start_offset_ns": 90},
        {**event, "iteration": 12, "dur_ns": 250, "start_offset_ns": 110, "weight": 16},
        {**whole, "iteration": 11, "armed": True, "dur_ns": 2_100},
        {**whole, "iteration": 12, "armed": False, "dur_ns": 2_000, "weight": 5},
    ]
    facts = tables.facts
    assert (facts.rank, facts.rank_rule, facts.world_size, facts.host) == (3, "recorder", 4, "node7")
    assert facts.start_epoch_ns == 1_700_000_000_000_000_000
    assert facts.metadata["complete"] is True
    assert (tables.report.read, tables.report.dropped) == (4, 0)


def test_hugectrs_own_file_is_read_in_ms_and_has_no_rank(read):
    name, tables = read(HUGECTR)
    rows = tables.inline_timing.to_pylist()
    assert name == "inline"
    assert [(row["kind"], row["dur_ns"], row["start_offset_ns"]) for row in rows] == [
        ("event", 500_000, 1_500_000), ("event", 250_000, None), ("iteration", 4_000_000, None),
        ("iteration", 4_500_000, None),
    ]  # fmt: skip
    assert (rows[0]["device"], rows[0]["stream"], rows[0]["occurrence"]) == (1, 2, 1)
    assert (tables.facts.rank, tables.facts.tool) == (None, "HugeCTR")


def test_hugectrs_first_version_is_a_list_with_layers_apart(read):
    event = {
        "layer_name": "TopMLP.fc4", "name": "fprop", "device_id": 0, "stream": 5, "start_index": 0, "end_index": 1,
        "measured_times_ms": [1.0],
    }  # fmt: skip
    _, tables = read([event, event])
    rows = tables.inline_timing.to_pylist()
    assert [(row["label"], row["stream"], row["occurrence"]) for row in rows] == [
        ("TopMLP.fc4.fprop", 5, 0),
        ("TopMLP.fc4.fprop", 5, 1),
    ]


def test_a_result_with_averages_alone_says_that_they_are(read):
    event = {"label": "a", "start_index": 0, "end_index": 1, "avg_measured_time_ms": 0.5}
    document = {"host_name": "h", "avg_iter_time_ms": 4.0, "timeline": {"device_0": {"stream_0": [event]}}}
    _, tables = read(document)
    rows = tables.inline_timing.to_pylist()
    assert [(row["kind"], row["dur_ns"], row["averaged"]) for row in rows] == [
        ("event", 500_000, True),
        ("iteration", 4_000_000, True),
    ]


@pytest.mark.parametrize("label", ["<script>alert(1)</script>", "a\nb\x1b[31m", '"traceEvents"', "é😀"])
def test_labels_are_taken_as_they_are(read, label):
    event = {"label": label, "start_index": 0, "end_index": 1, "samples": [[1, 5, 0]]}
    name, tables = read({"format": "stepscope.inline", "timeline": {"device_0": {"stream_0": [event]}}})
    assert name == "inline"
    assert tables.inline_timing["label"].to_pylist() == [label]


def test_halves_of_characters_become_question_marks(read):
    text = rb'{"host_name": "\ud800", "events": [{"event_name": "a\ud800b", "measured_times_ms": [1]}]}'
    _, tables = read(text)
    assert tables.inline_timing["label"].to_pylist() == ["a?b"]
    assert tables.facts.host == "?"


def test_what_has_a_wrong_type_is_counted_and_the_rest_is_kept(read):
    timeline = {
        "device_0": {
            "stream_0": [
                {"label": "good", "samples": [[1, 5, 0], [2, -5, 0], [3, True, 0], "x", [4, 1e400]]},
                {"label": 7, "samples": [[1, 5, 0]]},
                "no event",
            ],
            "stream_1": 3,
        },
        "device_1": None,
    }
    document = {"format": "stepscope.inline", "rank": "zero", "timeline": timeline, "iterations": [[1, "yes", 5]]}
    _, tables = read(document)
    assert [row["label"] for row in tables.inline_timing.to_pylist()] == ["good"]
    assert tables.report.dropped == 9
    assert tables.report.damage == {"wrong_type": 10}  # with the rank
    assert tables.facts.rank is None
    with pytest.raises(DamagedSourceError, match="wrong_type"):
        check_strict("a file", tables.report.damage, lost=tables.report.lost)


@pytest.mark.parametrize("number", [1e300, float("inf"), float("nan"), 10**30, -(10**30), True, "1"])
def test_numbers_that_cannot_be_times_are_left_out(read, number):
    document = {"iter_time_ms": [1.0], "events": [{"event_name": "a", "measured_times_ms": [number, 2.0]}]}
    _, tables = read(document)
    assert tables.inline_timing["dur_ns"].to_pylist() == [2_000_000, 1_000_000]
    assert tables.report.dropped == 1


def test_a_file_without_measurements_says_so(read):
    with pytest.raises(SourceError, match="no inline measurements"):
        read({"format": "stepscope.inline", "timeline": {}, "iterations": []})


def test_deep_nesting_is_refused_and_not_followed(read):
    deep = b'{"format": "stepscope.inline", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(SourceError):
        read(deep)


def test_a_trace_that_speaks_of_measurements_stays_a_trace(read):
    trace = {
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": '"avg_measured_time_ms"', "pid": 1, "tid": 1,
             "ts": 1, "dur": 2, "args": {}}
        ]
    }  # fmt: skip
    assert read(trace)[0] == "kineto"


def test_numbers_of_iterations_are_read_and_what_is_none_is_counted(read):
    values = {"samples": [[11, 32], [12, 16.5], [13, None], ["14", 1], [15]], "x": 3}
    _, tables = read({**OURS, "values": values})
    row = {"step": None, "name": "samples"}
    assert tables.step_value.to_pylist() == [
        {**row, "iteration": 11, "value": 32.0},
        {**row, "iteration": 12, "value": 16.5},
    ]
    assert tables.report.damage == {"wrong_type": 4}


def test_what_hugectr_recorded_of_its_data_is_read(read):
    data = {"data_name": "batch", "device_id": 0, "stream": "stream_0", "data": ["64", 128, "n/a"]}
    _, tables = read({**HUGECTR, "runtime_data": [data, "odd"]})
    row = {"step": None, "iteration": None, "name": "batch"}
    assert tables.step_value.to_pylist() == [{**row, "value": 64.0}, {**row, "value": 128.0}]
    assert tables.report.damage == {"wrong_type": 2}


def test_of_more_measurements_than_were_kept_the_average_is_a_row_beside_them(read):
    event = OURS["timeline"]["device_1"]["stream_-1"][0]
    of_all = {"n": 5000, "mean_ns": 180.4, "std_ns": 12.5}
    many = {**event, "statistics": of_all}
    document = {
        **OURS,
        "timeline": {"device_1": {"stream_-1": [many]}},
        "iteration_statistics": {"armed": {"n": 1}, "unarmed": {"n": 700, "mean_ns": 2e3, "std_ns": 9.0}},
    }
    _, tables = read(document)
    averages = [row for row in tables.inline_timing.to_pylist() if row["averaged"]]
    told = [(row["label"], row["dur_ns"], row["measurements"], row["std_ns"], row["armed"]) for row in averages]
    assert told == [("fc1.forward", 180, 5000, 12.5, None), ("iteration", 2000, 700, 9.0, False)]


def test_what_iterations_took_together_is_read_and_no_less_than_one_of_them(read):
    rows = [[0, False, 2_000, 5, 30_000], [5, False, 2_000, 5, 1_999], [10, True, 7, 1, 7]]
    _, tables = read({**OURS, "iterations": rows})
    kept = [row for row in tables.inline_timing.to_pylist() if row["kind"] == "iteration"]
    assert [(row["weight"], row["weight_ns"]) for row in kept] == [(5, 30_000), (1, 7)]
    assert tables.report.damage == {"wrong_type": 1}


def test_the_files_version_is_not_taken_for_the_programs(read):
    assert read(OURS)[1].facts.tool_version == "file version 1"


def test_nan_and_null_averages_are_no_times_and_are_counted(read):
    events = [{"label": label, "avg_measured_time_ms": value} for label, value in (("a", 0.5), ("b", None))]
    events.append({"label": "c", "avg_measured_time_ms": float("nan")})
    _, tables = read({"host_name": "h", "timeline": {"device_0": {"stream_0": events}}})
    assert [row["label"] for row in tables.inline_timing.to_pylist()] == ["a"]
    assert tables.report.dropped == 2


def test_a_clock_that_went_back_gives_no_times(read):
    event = {"label": "a", "samples": [[0, 500, 10], [1, -20, 10], [2, 600, -10]]}
    document = {**OURS, "timeline": {"device_0": {"stream_0": [event]}}, "iterations": [[0, False, -5]]}
    _, tables = read(document)
    rows = tables.inline_timing.to_pylist()
    assert [(row["dur_ns"], row["start_offset_ns"]) for row in rows] == [
        (500, 10),
        (600, -10),
        (2_000_000, None),  # the file's own average of iterations
    ]
    assert tables.report.dropped == 2
