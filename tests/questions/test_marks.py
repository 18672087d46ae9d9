"""Which answers a damaged recording marks: what rests on the damaged evidence, and nothing else."""

import gzip
import json
from pathlib import Path

import pytest

import stepscope
from stepscope.formats.evidence import EVERYTHING
from stepscope.questions import affected, all_questions

pytestmark = pytest.mark.slow

BAD = Path(__file__).parents[1] / "data" / "kineto" / "bad"

SUMS = "devices device-work device-times kernel-names stream-order"
RESTS_ON = {
    "summary findings": EVERYTHING,
    "steps": "host-times device-work device-times kernel-names launches clocks steps",
    "device-time overlap": "devices device-work device-times kernel-names",
    "gpu-summary gpu-trace kernels copies synchronizations": SUMS,
    "api-summary hotspots": "host-times",
    "operators modules": "host-times device-work device-times stream-order launches replayed-operators",
    "classes roofline tensor-cores": f"{SUMS} launches replayed-operators",
    "call-tree annotations": "host-times device-work device-times stream-order launches",
    "launches": "host-times devices device-work device-times launches own-launches clocks",
    "idle": f"{SUMS} host-times launches own-launches clocks",
    "critical-path what-if": "host-times device-work device-times launches own-launches clocks steps across-ranks",
    "utilization": "devices device-work device-times steps",
    "rank-overview": "devices device-work device-times kernel-names clocks steps across-ranks",
    "stragglers": "host-times devices device-work device-times kernel-names clocks steps across-ranks",
    "drift durations": "host-times devices device-work device-times steps",
    "communication": "devices device-work device-times kernel-names clocks across-ranks",
    "efficiency": f"{SUMS} launches replayed-operators clocks steps",
    "prof": "devices device-work device-times launches replayed-operators",
    "memory": "memory steps",
    # What checks find wrong is events, and these figures come from none.
    "onednn host-metrics counters metrics inline phases throughput checks sources": "",
}
"""What should be marked, written down apart from the declarations."""

OF_ONE_RECORDING = {question.name for question in all_questions() if question.recordings == "one"}


def marked(source) -> dict[str, set[str]]:
    """Each check that some answer carries, and the questions whose answers do."""
    found: dict[str, set[str]] = {}
    with stepscope.open(source, cache=False) as trace:
        for name in sorted(OF_ONE_RECORDING):
            for check in json.loads(trace.ask(name).to_json())["checks"]:
                found.setdefault(check["check"], set()).add(name)
    return found


def affects(source) -> dict[str, str]:
    """Each check that found something, and the questions whose answers it marks."""
    with stepscope.open(source) as trace:
        rows = trace.ask("checks").rows()
    return {row["check"]: row["affects"] for row in rows if row["severity"] != "ok"}


def test_each_kind_of_evidence_marks_what_rests_on_it():
    expected = {
        name: set(kinds.split() if isinstance(kinds, str) else kinds)
        for names, kinds in RESTS_ON.items()
        for name in names.split()
    }
    found = {name: {kind for kind in EVERYTHING if name in affected(kind).split(",")} for name in OF_ONE_RECORDING}
    assert found == expected
    assert affected("file") == affected("file,clocks") == "all"
    assert affected("") == ""


@pytest.mark.parametrize(
    ("file", "check", "kinds"),
    [
        ("C05_zero_timestamps.json", "zero_ts", ["device-times"]),
        ("C06_negative_durations.json", "negative_dur", ["host-times", "device-times"]),
        ("C08_overrun.json", "duration_overrun", ["device-times"]),
        ("C09_crossing.json", "stream_overlap", ["stream-order"]),
        ("C01_whole_microseconds.json", "unlinked_kernel_fraction", ["launches"]),
        ("I12_graph_replay.json", "graph_replay_unattributed", ["own-launches", "replayed-operators"]),
        ("T06_no_gpu_events.json", "no_gpu_events", ["devices", "device-work"]),
        ("T05_metadata_only.json", "no_gpu_events", ["devices"]),
        ("T07_no_steps.json", "no_steps", ["steps"]),
    ],
)
def test_damage_is_of_the_evidence_that_it_spoils(file, check, kinds):
    assert affects(BAD / file)[check] == affected(",".join(kinds))


def test_damage_marks_what_rests_on_it_and_nothing_else():
    expected = set(affected("host-times,device-times").split(","))
    assert marked(BAD / "C06_negative_durations.json")["negative_dur"] == expected


@pytest.mark.parametrize(
    ("file", "check"),
    [
        ("B04_cut_after_event.json", "truncated"),
        ("B02_cut.json.gz", "truncated"),
        ("B04_cut_in_event.json", "repaired"),
        ("B13_missing_commas.json", "repaired"),
    ],
)
def test_a_file_that_lost_events_spoils_everything(file, check):
    assert affects(BAD / file)[check] == "all"


def test_a_file_of_one_rank_marks_no_answer_about_another(tmp_path):
    for rank, cut in ((0, 0), (1, 60)):
        events = [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10 * n, "dur": 5}
            for n in range(3)
        ]
        text = json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": events})
        (tmp_path / f"rank{rank}.json").write_text(text[: len(text) - cut])
    with stepscope.open(tmp_path, cache=False) as trace:
        for name in sorted(OF_ONE_RECORDING):
            assert not trace.ask(name, rank=0).unreliable, name
            assert trace.ask(name, rank=1).unreliable, name


@pytest.mark.traces
def test_a_trace_cut_in_half_marks_every_answer(tmp_path, shared_traces):
    packed = shared_traces / "kineto" / "bert_small_h100" / "trace.json.gz"
    data = gzip.decompress(packed.read_bytes())
    half = tmp_path / "half.json"
    half.write_bytes(data[: len(data) // 2])
    assert marked(half)["truncated"] == OF_ONE_RECORDING


def test_what_is_wrong_names_questions_where_people_read_it(answer):
    rows = {
        "step": [{"end_ns": 100}],
        "host_event": [{"dur_ns": 90}],
        "data_check": [{"check": "clock_skew", "affects": "clocks", "explanation": "off"}],
    }
    questions = affected("clocks")
    assert answer("checks", rows).rows()[0]["affects"] == questions
    (found,) = answer("findings", rows, id="data-quality").rows()
    assert json.loads(found["evidence"])[0]["affects"] == questions
    (kept,) = answer("findings", rows).checks
    assert kept["affects"] == "clocks"
