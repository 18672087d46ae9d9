import json

import pyarrow as pa
import pytest
from tests.conftest import SHARED_TRACES
from tests.literal import literal_store

import stepscope
from stepscope.query.ask import ask, ask_within
from stepscope.questions import all_questions
from stepscope.questions.invariants import INVARIANTS, SUMS, _sums_broken, invariants
from stepscope.schema.tables import TABLES

OF_OTHERS = [
    *sorted(SHARED_TRACES.glob("kineto/*")),
    SHARED_TRACES / "nsys" / "h100_2gpu_before.sqlite.gz",
    SHARED_TRACES / "nsys" / "a100_cloverleaf.sqlite.gz",
]
SOUND = {
    "step": [{"step": 3, "start_ns": 0, "end_ns": 100}],
    "host_event": [
        {"id": 0, "start_ns": 0, "dur_ns": 50, "step": 3, "module_id": 0},
        {"id": 1, "start_ns": 10, "dur_ns": 20, "step": 3, "parent_id": 0, "forward_id": 0},
    ],
    "device_event": [
        {"id": 2, "start_ns": 40, "dur_ns": 9, "launch_id": 1, "operator_id": 1, "step": 3},
        {"id": 3, "start_ns": 50, "dur_ns": 5, "kind": "communication", "module_id": 0},
    ],
    "collective": [{"id": 3}],
    "module": [{"module_id": 0, "path": "net"}],
    "phase_step": [
        {"step": 7, "phase": "step", "dur_ns": 100},
        {"step": 7, "phase": "forward", "dur_ns": 60},
        {"step": 7, "phase": "residual", "dur_ns": 40},
    ],
    "attribution": [{"link": "launch", "device_ns": 14, "attributed_ns": 9}],
}


def broken(rows) -> set[str]:
    with literal_store(rows) as store:
        return {row["check"] for row in ask(invariants, store).rows() if row["severity"] == "error"}


def changed(table: str, row: int, **values):
    rows = [dict(old) for old in SOUND[table]]
    rows[row].update(values)
    return {**SOUND, table: rows}


def test_a_sound_store_breaks_nothing():
    assert broken(SOUND) == set()
    assert broken(changed("collective", 0, match_id=1, wait_ns=3, transfer_ns=2)) == set()
    assert broken(changed("collective", 0, id=None, host_id=1)) == set()
    assert broken({}) == set()


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("phases_add_up", changed("phase_step", 1, dur_ns=59)),
        ("phases_add_up", changed("phase_step", 1, phase="step")),
        ("phases_add_up", changed("phase_step", 1, step=8)),
        ("unique_ids", changed("device_event", 0, id=1)),
        ("times_from_start", changed("device_event", 0, start_ns=-1)),
        ("children_inside_parents", changed("host_event", 1, start_ns=40)),
        ("children_inside_parents", changed("host_event", 1, thread=5)),
        ("depth_counts_parents", changed("host_event", 1, depth=0)),
        ("depth_counts_parents", changed("host_event", 0, depth=1)),
        ("self_times_add_up", changed("host_event", 0, self_ns=29)),
        ("self_times_add_up", changed("host_event", 0, self_ns=51)),
        ("self_times_add_up", changed("host_event", 1, dur_ns=60, self_ns=-1)),
        ("links_lead_somewhere", changed("device_event", 0, launch_id=77)),
        ("links_lead_somewhere", changed("device_event", 0, operator_id=2)),
        ("links_lead_somewhere", changed("host_event", 1, forward_id=9)),
        ("links_lead_somewhere", changed("host_event", 0, module_id=4)),
        ("links_lead_somewhere", changed("module", 0, parent_id=4)),
        ("links_are_what_they_lead_to", changed("device_event", 0, launch_ns=11)),
        ("links_are_what_they_lead_to", changed("device_event", 1, launch_ns=10)),
        ("links_are_what_they_lead_to", changed("device_event", 0, launch_end_ns=9)),
        ("links_are_what_they_lead_to", changed("device_event", 0, operator_name="aten::mm")),
        ("recursion_is_inside", changed("host_event", 0, recursive=True)),
        ("recursion_is_inside", changed("host_event", 1, recursive=True, name="aten::mm")),
        (
            "steps_cover_operators",
            changed("host_event", 1, step=4) | {"step": [*SOUND["step"], {"step": 4, "start_ns": 60, "end_ns": 90}]},
        ),
        ("steps_exist", changed("device_event", 0, step=9)),
        ("attribution_covers_device_time", changed("attribution", 0, attributed_ns=15)),
        ("attribution_covers_device_time", changed("attribution", 0, device_ns=13)),
        ("collectives_are_communication", changed("collective", 0, id=2)),
        ("collectives_are_communication", changed("collective", 0, end_ns=56)),
        ("waits_add_up", changed("collective", 0, match_id=1, wait_ns=3, transfer_ns=3)),
        ("waits_add_up", changed("collective", 0, match_id=1, wait_ns=-1, transfer_ns=6)),
        ("waits_add_up", changed("collective", 0, wait_ns=3, transfer_ns=2)),
        ("matches_hold_each_rank_once", {**SOUND, "collective": [{"id": 3, "match_id": 0}] * 2}),
    ],
)
def test_a_violation_is_found(name, rows):
    assert name in broken(rows)


def test_an_empty_required_value_is_found(tmp_path):
    """Parquet keeps no NOT NULL: a view over a file may hold what the schema forbids."""
    with literal_store({}) as store:
        count = {name: text for name, _, text in INVARIANTS}["required_values_present"]
        store.check_files(count)
        cursor = store.cursor()
        cursor.execute("CREATE TEMP VIEW stream AS SELECT NULL::INTEGER AS rank, 0 AS device, 0 AS stream")
        assert cursor.execute(count).fetchall() == [(1,)]
        cursor.close()


def test_checks_of_the_recording_come_first():
    rows = {"data_check": [{"check": "stream_overlap", "explanation": "two kernels overlap"}]}
    with literal_store(rows) as store:
        first = ask(invariants, store).rows()[0]
    assert (first["check"], first["severity"], first["rank"]) == ("stream_overlap", "warning", 0)
    assert first["meaning"] == "two kernels overlap"


def test_every_invariant_says_what_must_hold():
    names = [name for name, *_ in (*INVARIANTS, *SUMS)]
    assert len(set(names)) == len(names)
    assert all(meaning for _, meaning, *_ in (*INVARIANTS, *SUMS))


def test_parts_that_miss_their_total_are_found():
    rows = pa.table({"total_ns": [10, 10, None], "a_ns": [6, 6, 1], "b_ns": [4, None, 1]})
    assert _sums_broken(rows, "total_ns", ("a_ns", "b_ns")) == 1


@pytest.mark.sweep(4)
@pytest.mark.traces
@pytest.mark.parametrize("source", OF_OTHERS, ids=lambda source: source.name)
def test_every_shared_trace_keeps_them_and_answers_every_question(source):
    with stepscope.open(source) as trace, trace.scope() as scope:
        scope.preload(TABLES)
        answer = ask_within(invariants, scope)
        assert [r["check"] for r in answer.rows() if r["rank"] is None and r["count"]] == []
        for question in filter(lambda question: question.recordings == "one", all_questions()):
            json.loads(ask_within(question, scope).to_json())
